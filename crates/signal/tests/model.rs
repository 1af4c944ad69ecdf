//! The machine against a naive model: the same steps on both, everything visible compared
//! after each. Invariant 9: standard signals coalesce, real-time signals queue in order, a
//! blocked signal is not delivered, each is delivered once.

mod naive;

use abi::{Errno, SIG_DFL, SIG_IGN, SaFlags, SigAction, SigInfo, SigSet, Signal, si_code};
use entresol_signal::*;
use ids::ThreadIdx;
use naive::{Act, Outcome};
use proptest::prelude::*;

const THREADS: usize = 3;
const LIMIT: u64 = 100;

/// Signals that differ in what the rules say about them.
const SIGNALS: [i32; 13] = [2, 9, 10, 11, 14, 17, 18, 19, 20, 31, 34, 40, 64];

/// One choice of the test, as numbers so that failures shrink.
type Step = (u8, u8, u8, u8);

struct Timer {
    key: u64,
    alive: bool,
    queued: bool,
}

/// Answers as a timer room would: deleted timers' signals are stale.
struct Timers<'a>(&'a mut Vec<Timer>);

impl TimerSignals for Timers<'_> {
    fn deliver(&mut self, TimerKey(key): TimerKey, info: SigInfo) -> Option<SigInfo> {
        let t = &mut self.0[key as usize];
        assert!(t.queued, "timer {key} was delivered and not queued");
        t.queued = false;
        t.alive.then_some(info)
    }
    fn alarm_taken(&mut self) {}
}

struct Pair {
    process: ProcessSignals,
    threads: Vec<ThreadSignals>,
    model: naive::Process,
    timers: Vec<Timer>,
    sent: u64,
}

impl Pair {
    fn new() -> Pair {
        Pair {
            process: ProcessSignals::new(Dispositions::DEFAULT),
            threads: (0..THREADS).map(|_| ThreadSignals::new(SigSet::EMPTY)).collect(),
            model: naive::Process::new(THREADS),
            timers: Vec::new(),
            sent: 0,
        }
    }

    fn state(t: usize) -> ThreadState {
        ThreadState { thread: ThreadIdx(t as u32), running: true, exiting: false, stopped: false, notified: false }
    }

    fn candidate(&self, t: usize) -> Candidate {
        self.threads[t].candidate(Pair::state(t))
    }

    /// Timers whose signal the model no longer has were flushed.
    fn sync_timers(&mut self) {
        // A thread's queue is settled late, and its timer may have been sent anew meanwhile: this
        // caller does not wait for the word, so nothing can be said about who is dropped.
        while self.process.next_dropped().is_some() {}
        for t in &mut self.timers {
            t.queued &= self.model.has_timer(t.key);
        }
    }

    fn compare_sent(&mut self, result: Result<Sent, Errno>, expected: Outcome, signal: Signal) {
        let got = match result {
            Err(e) => {
                assert_eq!(e, Errno::EAGAIN);
                Outcome::Refused
            }
            Ok(sent) => {
                assert_eq!(sent.resume, signal == Signal::CONT);
                match sent.fate {
                    Fate::Ignored => Outcome::Ignored,
                    Fate::Coalesced => Outcome::Coalesced,
                    Fate::Queued => Outcome::Queued,
                    Fate::WithoutInfo => Outcome::WithoutInfo,
                }
            }
        };
        assert_eq!(got, expected, "sending {signal:?}");
        self.sync_timers();
    }

    fn send(&mut self, t: usize, signal: Signal, kind: u8) {
        self.sent += 1;
        let info = match kind % 4 {
            0 => SigInfo::user(signal, 1, self.sent as u32),
            1 => SigInfo::tkill(signal, 1, self.sent as u32),
            2 => SigInfo::queue(signal, 1, 2, self.sent),
            _ => SigInfo::kernel(signal),
        };
        let process_wide = kind & 4 != 0;
        // These drop others before they are counted, so that the model cannot tell the count.
        let cancels = SigSet::STOP.contains(signal) || signal == Signal::CONT;
        let quota = if cancels { Quota::UNLIMITED } else { Quota { limit: LIMIT, elsewhere: 0 } };
        let room = cancels || self.process.charged() < LIMIT;
        let expected = self.model.send(t, process_wide, info, room);
        let c = self.candidate(t);
        let target = if process_wide { Target::Process(c) } else { Target::Thread(&mut self.threads[t], c) };
        let result = self.process.send(target, info, quota);
        self.compare_sent(result, expected, signal);
    }

    fn send_timer(&mut self, t: usize, signal: Signal, kind: u8) {
        let i = match self.timers.iter().position(|t| t.alive && !t.queued) {
            Some(i) => i,
            None => {
                let expected = if self.process.charged() < LIMIT { Ok(()) } else { Err(Errno::EAGAIN) };
                assert_eq!(self.process.add_timer(Quota { limit: LIMIT, elsewhere: 0 }), expected);
                if expected.is_err() {
                    return;
                }
                self.timers.push(Timer { key: self.timers.len() as u64, alive: true, queued: false });
                self.timers.len() - 1
            }
        };
        let info = SigInfo::timer(signal, i as i32, 0, self.sent);
        let process_wide = kind & 4 != 0;
        let expected = self.model.send_timer(t, process_wide, info, i as u64);
        self.timers[i].queued = expected == Outcome::Queued;
        let c = self.candidate(t);
        let target = if process_wide { Target::Process(c) } else { Target::Thread(&mut self.threads[t], c) };
        let result = self.process.send_timer(target, TimerKey(i as u64), info);
        self.compare_sent(result, expected, signal);
    }

    fn delete_timer(&mut self) {
        if let Some(t) = self.timers.iter_mut().find(|t| t.alive) {
            t.alive = false;
            self.process.remove_timer(t.queued);
        }
    }

    fn set_action(&mut self, signal: Signal, kind: u8, mask: u8) {
        let handler = match kind % 4 {
            0 => SIG_DFL,
            1 => SIG_IGN,
            _ => 0x4000,
        };
        let bits = [SaFlags(0), SaFlags::RESETHAND, SaFlags::NODEFER, SaFlags::UNSUPPORTED][kind as usize / 4 % 4];
        let action = SigAction { handler, flags: bits, restorer: 0x5000, mask: set_of(mask) };
        let expected = self.model.set_action(signal, action);
        match self.process.set_action(signal, action) {
            Ok(change) => {
                let old = expected.expect("SIGKILL and SIGSTOP cannot be set");
                assert_eq!((change.old, change.flushed), (old, self.model.ignores(signal)));
                assert_eq!(change.revived, old.handler == SIG_IGN && !change.flushed);
            }
            Err(e) => assert_eq!((e, expected), (Errno::EINVAL, None)),
        }
        self.sync_timers();
    }

    fn set_mask(&mut self, t: usize, how: u8, mask: u8) {
        let how = [MaskHow::Block, MaskHow::Unblock, MaskHow::Set][how as usize % 3];
        let set = set_of(mask);
        let (old, retarget) = self.process.set_mask(&mut self.threads[t], how, set);
        let m = &mut self.model.threads[t];
        assert_eq!(old, m.blocked);
        m.blocked = match how {
            MaskHow::Block => m.blocked | set,
            MaskHow::Unblock => m.blocked.without(set),
            MaskHow::Set => set,
        }
        .blockable();
        assert_eq!(retarget.is_done(), (self.model.shared.set & m.blocked.without(old)).is_empty());
    }

    fn own_mask(&mut self, t: usize, kind: u8, mask: u8) {
        let (thread, m) = (&mut self.threads[t], &mut self.model.threads[t]);
        match (kind % 2, m.saved, m.awaiting) {
            (0, None, None) => {
                let _ = self.process.begin_mask(thread, set_of(mask));
                m.saved = Some(m.blocked);
                m.blocked = set_of(mask).blockable();
            }
            (0, Some(saved), None) => {
                let _ = self.process.end_mask(thread, false);
                (m.blocked, m.saved) = (saved, None);
            }
            (_, None, None) => {
                self.process.begin_wait(thread, set_of(mask));
                m.awaiting = Some(m.blocked);
                m.blocked = m.blocked.without(set_of(mask).blockable());
            }
            (_, _, Some(mask)) => {
                let _ = self.process.end_wait(thread);
                (m.blocked, m.awaiting) = (mask, None);
            }
            (_, Some(_), None) => {
                assert_eq!(self.process.end_mask(thread, true), Retarget::NONE);
            }
        }
    }

    fn take(&mut self, t: usize, mask: u8) {
        let wanted = set_of(mask);
        let alive: Vec<bool> = self.timers.iter().map(|t| t.alive).collect();
        let expected = self.model.dequeue(t, !wanted.blockable(), &|key| !alive[key as usize]);
        let got = self.process.take(&mut self.threads[t], wanted, &mut Timers(&mut self.timers));
        assert_eq!(got, expected.map_or(Taken::Nothing, Taken::Signal));
    }

    fn next_action(&mut self, t: usize) {
        let alive: Vec<bool> = self.timers.iter().map(|t| t.alive).collect();
        let expected = self.model.next_action(t, &|key| !alive[key as usize]);
        let blocked = self.threads[t].blocked();
        match self.process.next_action(&mut self.threads[t], &mut Timers(&mut self.timers)) {
            Action::None => assert_eq!(expected, Act::None),
            Action::Handler(d) => {
                assert_eq!(expected, Act::Handler(d.info, d.action, d.old_mask));
                assert!(!blocked.contains(d.info.signal().unwrap()), "a blocked signal was delivered");
                let _ = self.process.delivered(&mut self.threads[t], &d);
                self.model.delivered(t, d.info, d.action);
            }
            Action::Stop(s) => assert_eq!(expected, Act::Stop(s)),
            Action::Terminate { info, core } => {
                assert_eq!(expected, Act::End(info, core));
                assert_eq!(self.process.killed_by(), info.signal());
            }
            Action::Exit | Action::Show(_) => panic!("the process neither ends here nor is traced"),
            Action::More => panic!("there are never 64 dead signals here"),
        }
    }

    fn force(&mut self, t: usize, kind: u8) {
        let signal = [Signal::SEGV, Signal::BUS, Signal::SYS, Signal::FPE][kind as usize % 4];
        let info = SigInfo::fault(signal, si_code::SEGV_MAPERR, self.sent);
        let how = if kind & 4 == 0 { Force::Current } else { Force::Default };
        let expected = self.model.force(t, info, how == Force::Default);
        let sent = self.process.force(&mut self.threads[t], Pair::state(t), info, how);
        self.compare_sent(Ok(sent), expected, signal);
    }

    fn step(&mut self, (op, a, b, c): Step) {
        let t = a as usize % THREADS;
        let signal = Signal::from_raw(SIGNALS[b as usize % SIGNALS.len()]).unwrap();
        match op % 16 {
            0..4 => self.send(t, signal, c),
            4 => self.send_timer(t, signal, c),
            5 => self.delete_timer(),
            6 | 7 => self.set_action(signal, c, a),
            8 | 9 => self.set_mask(t, b, c),
            10 => self.own_mask(t, b, c),
            11 => self.take(t, c),
            12 => self.force(t, c),
            _ => self.next_action(t),
        }
    }

    fn compare(&mut self) {
        assert_eq!(self.process.shared_set(), self.model.shared.set);
        for (t, m) in self.threads.iter().zip(&self.model.threads) {
            assert_eq!(t.blocked(), m.blocked);
            assert!(!t.blocked().intersects(SigSet::UNBLOCKABLE));
            assert_eq!(t.mask_to_save(), m.saved.unwrap_or(m.blocked));
            assert_eq!(self.process.private_set(t), m.own.set);
            assert_eq!(self.process.pending(t), (m.own.set | self.model.shared.set) & m.blocked);
        }
        if !self.process.is_dying() {
            for (i, t) in self.threads.iter().enumerate() {
                assert_eq!(self.process.deliverable(t), self.model.deliverable(i));
            }
        }
    }

    /// Everything queued, and the count that the limit goes by.
    fn compare_contents(&mut self) {
        for (t, m) in self.threads.iter_mut().zip(&self.model.threads) {
            let (mut own, mut shared) = (Vec::new(), Vec::new());
            self.process.for_each_pending(t, |scope, info, timer| match scope {
                Scope::Thread => own.push((info, timer.map(|k| k.0))),
                Scope::Process => shared.push((info, timer.map(|k| k.0))),
            });
            assert_eq!(own, listed(&m.own));
            assert_eq!(shared, listed(&self.model.shared));
        }
        let alive = self.timers.iter().filter(|t| t.alive).count() as u64;
        let stale = self.timers.iter().filter(|t| !t.alive && t.queued).count() as u64;
        let exact = self.model.plain_entries() + alive + stale;
        let queued = self.timers.iter().filter(|t| t.queued).count() as u64;
        let charged = self.process.charged();
        assert!(charged >= exact && charged <= exact + queued, "{charged} counted, {exact} there");
    }
}

/// A queue in the order in which it is shown: by number, then in order; without information last.
fn listed(q: &naive::Queue) -> Vec<naive::Queued> {
    let mut out = Vec::new();
    for s in q.set.iter() {
        let of_s: Vec<_> = q.list.iter().filter(|e| e.0.signal() == Some(s)).copied().collect();
        if of_s.is_empty() {
            out.push((SigInfo::lost(s), None));
        }
        out.extend(of_s);
    }
    out
}

/// A set of the test's signals from 8 bits; some bits stand for two.
fn set_of(bits: u8) -> SigSet {
    let chosen = SIGNALS.iter().enumerate().filter(|(i, _)| bits >> (i % 8) & 1 != 0);
    chosen.filter_map(|(_, &n)| Signal::from_raw(n)).collect()
}

/// Plays the steps; unless `mortal`, signals that can have a handler start with one, so
/// that few end the process and queues grow.
fn play(steps: &[Step], mortal: bool) {
    let fresh = || {
        let mut pair = Pair::new();
        for s in Signal::all().filter(|_| !mortal) {
            pair.set_action(s, 2, 0);
        }
        pair
    };
    let mut pair = fresh();
    for &step in steps {
        pair.step(step);
        pair.compare();
        if pair.process.is_dying() {
            pair = fresh();
        }
    }
    pair.compare_contents();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_agrees_with_the_model(steps in prop::collection::vec(any::<Step>(), 1..120), mortal in any::<bool>()) {
        play(&steps, mortal);
    }
}

#[test]
fn the_machine_agrees_with_the_model_on_fixed_seeds() {
    for seed in 1..2000u64 {
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut steps = Vec::new();
        for _ in 0..400 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let b = x.to_le_bytes();
            steps.push((b[1], b[3], b[5], b[7]));
        }
        play(&steps, seed % 4 == 0);
    }
}
