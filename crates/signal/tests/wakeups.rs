//! No signal of the process is forgotten: while some thread does not block it, some such
//! thread has been told to look (invariant 5 for signals), and each is delivered once.

use abi::{SaFlags, SigAction, SigInfo, SigSet, Signal};
use entresol_signal::*;
use ids::ThreadIdx;
use proptest::prelude::*;

const THREADS: usize = 4;

struct Thread {
    signals: ThreadSignals,
    summary: Summary,
    exiting: bool,
    /// Masks in the frames of handlers that have not returned.
    frames: Vec<SigSet>,
}

struct World {
    process: ProcessSignals,
    threads: Vec<Thread>,
    sent: usize,
    delivered: usize,
}

fn set_of(bits: u8) -> SigSet {
    let four = [Signal::USR1, Signal::USR2, Signal::RTMIN, Signal::RTMAX];
    four.into_iter().enumerate().filter(|(i, _)| bits >> i & 1 != 0).map(|(_, s)| s).collect()
}

impl World {
    fn new() -> World {
        let mut process = ProcessSignals::new(Dispositions::DEFAULT);
        for s in set_of(15).iter() {
            let action = SigAction { handler: 0x4000, flags: SaFlags::RESTORER, ..SigAction::DEFAULT };
            let _ = process.set_action(s, action).unwrap();
        }
        let enter = |t| {
            let mut signals = ThreadSignals::new(SigSet::EMPTY);
            process.enter(&mut signals, ThreadIdx(t as u32)).unwrap();
            Thread { signals, summary: Summary::new(), exiting: false, frames: Vec::new() }
        };
        let threads = (0..THREADS).map(enter).collect();
        World { process, threads, sent: 0, delivered: 0 }
    }

    fn candidate(&self, t: usize) -> Candidate {
        let thread = &self.threads[t];
        thread.signals.candidate(ThreadState {
            thread: ThreadIdx(t as u32),
            running: false,
            exiting: thread.exiting,
            stopped: false,
            notified: thread.summary.is_set(),
        })
    }

    fn publish(&mut self, t: usize) {
        self.threads[t].summary.publish(&self.process, &self.threads[t].signals);
    }

    fn retarget(&mut self, me: usize, mut retarget: Retarget) {
        let candidates: Vec<_> = (0..THREADS).map(|t| self.candidate(t)).collect();
        let look = |t: ThreadIdx| Some(candidates[t.index()]);
        while let Some(t) = self.process.next_taker(&mut retarget, ThreadIdx(me as u32), look) {
            self.publish(t.index());
        }
    }

    fn wake(&mut self, wake: Wake) {
        match wake {
            Wake::Nobody => {}
            Wake::Thread(t) => self.publish(t.index()),
            Wake::EndProcess(s) => panic!("{s:?} has a handler"),
            Wake::Search(signal) => {
                let candidates: Vec<_> = (0..THREADS).map(|t| self.candidate(t)).collect();
                let found = self.process.find_receiver(signal, ThreadIdx(0), |t| Some(candidates[t.index()]));
                assert!(!matches!(found, Wake::Search(_)));
                self.wake(found);
            }
        }
    }

    fn send(&mut self, to: Option<usize>, signal: Signal) {
        let c = self.candidate(to.unwrap_or(0));
        let target = match to {
            Some(t) => Target::Thread(&mut self.threads[t].signals, c),
            None => Target::Process(c),
        };
        let sent = self.process.send(target, SigInfo::user(signal, 1, 0), Quota::UNLIMITED).unwrap();
        self.sent += usize::from(sent.fate == Fate::Queued);
        self.wake(sent.wake);
    }

    /// The thread comes by a trap: it looks only if it has been told to.
    fn trap(&mut self, t: usize) {
        if !self.threads[t].summary.is_set() {
            return;
        }
        let retarget = match self.process.next_action(&mut self.threads[t].signals, &mut NoTimers) {
            Action::None => self.process.restore_mask(&mut self.threads[t].signals),
            Action::Handler(d) => {
                self.delivered += 1;
                self.threads[t].frames.push(d.old_mask);
                self.process.delivered(&mut self.threads[t].signals, &d)
            }
            other => panic!("{other:?}"),
        };
        self.publish(t);
        self.retarget(t, retarget);
    }

    fn step(&mut self, op: u8, t: usize, bits: u8) {
        if self.threads[t].exiting {
            return;
        }
        let thread = &mut self.threads[t].signals;
        let retarget = match op % 12 {
            0..4 => return self.send(None, set_of(1 << (bits % 4)).lowest().unwrap()),
            4 => return self.send(Some(t), set_of(1 << (bits % 4)).lowest().unwrap()),
            5..8 => return self.trap(t),
            8 => self.process.set_mask(thread, MaskHow::Set, set_of(bits)).1,
            9 => match self.threads[t].frames.pop() {
                Some(mask) => {
                    let stack = AltStack::NONE.saved();
                    self.process.sigreturn(&mut self.threads[t].signals, mask, stack, 0)
                }
                None => Retarget::NONE,
            },
            10 if bits >= 128 => self.process.begin_mask(thread, set_of(bits)),
            10 => self.process.end_mask(thread, false),
            _ if bits >= 240 => {
                self.sent -= self.private_len(t);
                self.threads[t].exiting = true;
                self.process.exit_thread(&mut self.threads[t].signals)
            }
            _ => Retarget::NONE,
        };
        self.publish(t);
        self.retarget(t, retarget);
    }

    fn private_len(&mut self, t: usize) -> usize {
        let mut n = 0;
        let count = |scope, _, _| n += usize::from(scope == Scope::Thread);
        self.process.for_each_pending(&mut self.threads[t].signals, count);
        n
    }

    fn check(&mut self) {
        for s in self.process.shared_set().iter() {
            let mut takers = self.threads.iter().filter(|t| !t.exiting && !t.signals.blocked().contains(s)).peekable();
            let told = takers.peek().is_none() || takers.any(|t| t.summary.is_set());
            assert!(told, "{s:?} is pending, a thread would take it, and none was told");
        }
        for t in &self.threads {
            let own = self.process.private_set(&t.signals).without(t.signals.blocked());
            assert!(own.is_empty() || t.summary.is_set(), "{own:?} is deliverable, and its thread was not told");
        }
        let mut queued = 0;
        for t in 0..THREADS {
            queued += self.private_len(t);
        }
        let count = |scope, _, _| queued += usize::from(scope == Scope::Process);
        self.process.for_each_pending(&mut self.threads[0].signals, count);
        assert_eq!(self.sent, self.delivered + queued, "each signal is delivered once");
    }

    /// When disturbances stop, everything that anybody takes is delivered.
    fn settle(&mut self) {
        while self.threads.iter().any(|t| t.summary.is_set()) {
            for t in 0..THREADS {
                self.trap(t);
            }
        }
        for t in self.threads.iter().filter(|t| !t.exiting) {
            assert!(self.process.deliverable(&t.signals).is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_signal_is_forgotten(steps in prop::collection::vec((any::<u8>(), 0..THREADS, any::<u8>()), 1..80)) {
        let mut w = World::new();
        for (op, t, bits) in steps {
            w.step(op, t, bits);
            w.check();
        }
        w.settle();
        w.check();
    }
}
