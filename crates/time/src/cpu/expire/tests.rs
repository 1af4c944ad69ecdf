//! Ticks and expiry passes, case by case; then invariants I2 to I5 and the additivity of clocks under random
//! histories.

use super::*;
use crate::cpu::{Cputime, Mode};
use crate::planted::{self, Fault};
use ids::CpuId;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::vec;
use std::vec::Vec;

const TICK: u64 = 4_000_000;
const C0: CpuId = CpuId(0);

/// All consumption is known here.
fn all(_: CpuId) -> Nanos {
    Nanos::MAX
}

/// A process with one thread that runs on CPU 0 from time 0 on.
struct World {
    cpu: ProcessCputime,
    thread: ThreadCputime,
    timers: ProcessTimers,
    places: Vec<u32>,
    now: u64,
}

impl World {
    fn new() -> World {
        let w = World {
            cpu: ProcessCputime::new(2).unwrap(),
            thread: ThreadCputime::new(),
            timers: ProcessTimers::new(),
            places: vec![0; 64],
            now: 0,
        };
        w.cpu.switch(C0, None, Some(&w.thread), Nanos(0));
        w
    }

    fn set(&mut self, which: CpuItimerKind, value: u64, interval: u64) -> ItimerValue {
        let new = ItimerValue { value: Nanos(value), interval: Nanos(interval) };
        self.timers.set_itimer(which, new, &self.cpu, Nanos(self.now), Nanos(TICK))
    }

    fn get(&self, which: CpuItimerKind) -> (u64, u64) {
        let v = self.timers.get_itimer(which, &self.cpu, Nanos(self.now), Nanos(TICK));
        (v.value.0, v.interval.0)
    }

    fn arm(&mut self, clock: CpuClock, timer: u32, at: u64) {
        self.timers.timers.reserve(clock, 64).unwrap();
        if let Some(at) = self.timers.timers.arm(clock, timer, Nanos(at), &mut self.places) {
            self.cpu.expiry.lower(clock, at);
        }
    }

    /// One tick after `ns` more of running in user mode.
    fn tick(&mut self, ns: u64) -> Vec<CpuEvent> {
        self.tick_in(ns, Mode::User)
    }

    fn tick_in(&mut self, ns: u64, mode: Mode) -> Vec<CpuEvent> {
        self.now += ns;
        self.cpu.tick(C0, &self.thread, mode, Nanos(self.now));
        let mut events = vec![];
        if self.cpu.is_due(Nanos(self.now), all) {
            let claim = self.cpu.expiry.claim().unwrap();
            let at = self.cpu.settle(Nanos(self.now), all);
            self.timers.expire(claim, &self.cpu, at, &mut self.places, |e, _| events.push(e));
        }
        events
    }
}

#[test]
fn an_itimer_of_one_tick_expires_at_the_second_tick_and_then_at_each() {
    let mut w = World::new();
    w.set(CpuItimerKind::Prof, TICK, TICK);
    assert_eq!(w.tick(TICK), []);
    for _ in 0..100 {
        assert_eq!(w.tick(TICK), [CpuEvent::Prof]);
    }
}

#[test]
fn prof_counts_both_modes_virtual_only_user_time() {
    let mut w = World::new();
    w.set(CpuItimerKind::Prof, TICK, 0);
    w.set(CpuItimerKind::Virtual, TICK, 0);
    assert_eq!(w.tick_in(2 * TICK, Mode::System), [CpuEvent::Prof]);
    assert_eq!(w.tick_in(9 * TICK, Mode::System), []);
    assert_eq!(w.tick(TICK), []);
    assert_eq!(w.tick(TICK), [CpuEvent::Virtual]);
}

#[test]
fn both_itimers_and_the_limit_come_in_linux_order_before_posix_timers() {
    let mut w = World::new();
    w.arm(CpuClock::Sched, 7, 10);
    w.set(CpuItimerKind::Virtual, 1, 0);
    w.set(CpuItimerKind::Prof, 1, 0);
    w.timers.set_limit(Rlimit { cur: 0, max: 100 }, &w.cpu);
    let want = [CpuEvent::Prof, CpuEvent::Virtual, CpuEvent::SoftLimit, CpuEvent::Timer(7, Nanos(10))];
    assert_eq!(w.tick(2 * TICK), want);
    assert_eq!(w.timers.limit().cur, 1);
}

#[test]
fn disarming_the_last_timer_lets_the_next_tick_stop_the_accounting() {
    let mut w = World::new();
    assert!(!w.cpu.expiry.is_active());
    w.set(CpuItimerKind::Prof, 50 * TICK, 3);
    assert!(w.cpu.expiry.is_active());
    assert_eq!(w.set(CpuItimerKind::Prof, 0, 3), ItimerValue { value: Nanos(51 * TICK), interval: Nanos(3) });
    assert!(w.cpu.expiry.is_active(), "until a tick has looked");
    assert_eq!(w.tick(TICK), []);
    assert!(!w.cpu.expiry.is_active());
    assert_eq!(w.get(CpuItimerKind::Prof), (0, 3));
}

#[test]
fn soft_limits_each_second_then_the_hard_one_and_nothing_else() {
    let mut w = World::new();
    w.timers.set_limit(Rlimit { cur: 1, max: 3 }, &w.cpu);
    let mut seen = vec![];
    for ms in (4..=3_200).step_by(4) {
        for e in w.tick(TICK) {
            seen.push((ms, e));
        }
    }
    assert_eq!(seen[0], (1_000, CpuEvent::SoftLimit));
    assert_eq!(seen[1], (2_000, CpuEvent::SoftLimit));
    assert_eq!(seen[2], (3_000, CpuEvent::HardLimit));
    assert!(seen[3..].iter().all(|(_, e)| *e == CpuEvent::HardLimit), "the claim came back: it is told again");
}

#[test]
fn at_the_hard_limit_timers_do_not_fire_any_more() {
    let mut w = World::new();
    w.arm(CpuClock::Sched, 1, 5);
    w.timers.set_limit(Rlimit { cur: 0, max: 0 }, &w.cpu);
    assert_eq!(w.tick(TICK), [CpuEvent::HardLimit]);
}

#[test]
#[should_panic(expected = "a claim for another process")]
fn a_claim_is_for_one_process() {
    let (mut w, other) = (World::new(), ProcessCputime::new(2).unwrap());
    let at = w.cpu.settle(Nanos(1), all);
    w.timers.expire(other.expiry.claim().unwrap(), &w.cpu, at, &mut w.places, |_, _| ());
}

#[test]
fn a_lifted_limit_lapses() {
    let mut w = World::new();
    w.timers.set_limit(Rlimit { cur: 1, max: 5 }, &w.cpu);
    w.timers.set_limit(Rlimit { cur: u64::MAX, max: u64::MAX }, &w.cpu);
    assert_eq!(w.tick(2_000_000_000), []);
    assert!(!w.cpu.expiry.is_active());
}

#[test]
fn a_forks_child_inherits_the_limit_and_nothing_else() {
    let mut w = World::new();
    w.set(CpuItimerKind::Prof, 1, 1);
    w.timers.set_limit(Rlimit { cur: 7, max: 9 }, &w.cpu);
    let child_cpu = ProcessCputime::new(2).unwrap();
    let child = w.timers.forked(&child_cpu);
    assert_eq!(child.limit(), Rlimit { cur: 7, max: 9 });
    assert_eq!(child.next(), [Nanos::from_secs(7), Nanos::MAX, Nanos::MAX]);
    assert!(child_cpu.expiry.is_active());
    let free = ProcessCputime::new(2).unwrap();
    let _ = ProcessTimers::new().forked(&free);
    assert!(!free.expiry.is_active());
}

#[test]
fn thread_timers_fire_by_their_threads_time_only() {
    let cpu = ProcessCputime::new(2).unwrap();
    let (a, b) = (ThreadCputime::new(), ThreadCputime::new());
    let mut timers = CpuTimers::new();
    let mut places = vec![0; 4];
    timers.reserve(CpuClock::Sched, 1).unwrap();
    a.expiry.lower(CpuClock::Sched, timers.arm(CpuClock::Sched, 3, Nanos(100), &mut places).unwrap());
    cpu.switch(C0, None, Some(&b), Nanos(0));
    cpu.switch(C0, Some(&b), Some(&a), Nanos(1_000));
    assert!(!a.expiry.is_due(&a.sample(Nanos(1_099))));
    assert!(a.expiry.is_due(&a.sample(Nanos(1_100))));
    let mut events = vec![];
    expire_thread(Some(&mut timers), None, &a, Nanos(1_100), &mut places, |e, _| events.push(e));
    assert_eq!(events, [CpuEvent::Timer(3, Nanos(100))]);
    assert!(a.expiry.is_empty());
}

#[test]
fn ticks_go_on_while_a_timer_of_thread_or_process_is_armed() {
    let mut w = World::new();
    assert!(!w.cpu.needs_tick(&w.thread));
    w.thread.expiry.lower(CpuClock::Sched, Nanos(9));
    assert!(w.cpu.needs_tick(&w.thread));
    w.thread.expiry.clear();
    w.set(CpuItimerKind::Prof, TICK, 0);
    assert!(w.cpu.needs_tick(&w.thread));
    assert_eq!(w.tick(2 * TICK), [CpuEvent::Prof]);
    assert!(!w.cpu.needs_tick(&w.thread));
}

#[test]
fn rt_time_is_told_before_timers_and_hard_ends_the_pass() {
    let t = ThreadCputime::new();
    let mut limit = Rlimit { cur: 100, max: 2_000_000 };
    let mut events = vec![];
    let mut places = vec![0; 1];
    let mut pass = |run, limit: &mut Rlimit| {
        expire_thread(None, Some((run, limit)), &t, Nanos(0), &mut places, |e, _| events.push(e));
    };
    pass(Nanos::from_micros(99), &mut limit);
    pass(Nanos::from_micros(100), &mut limit);
    pass(Nanos::from_secs(2), &mut limit);
    assert_eq!(events, [CpuEvent::SoftRtTime, CpuEvent::HardLimit]);
}

#[derive(Clone, Debug)]
enum Op {
    /// CPU, thread to run there or idle, time that passes before.
    Switch(u16, Option<usize>, u64),
    Tick(u16, bool, u64),
    Charge(u16, u64),
    Stolen(u16, u64),
    Exit(u16, u64),
    Itimer(bool, u64, u64),
    Arm(usize, u64),
    Disarm(u32),
    Limit(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..3u16, prop::option::of(0..5usize), 0..3 * TICK).prop_map(|(c, t, d)| Op::Switch(c, t, d)),
        6 => (0..3u16, any::<bool>(), 0..2 * TICK).prop_map(|(c, u, d)| Op::Tick(c, u, d)),
        1 => (0..3u16, 0..20 * TICK).prop_map(|(c, d)| Op::Charge(c, d)),
        1 => (0..3u16, 0..2 * TICK).prop_map(|(c, d)| Op::Stolen(c, d)),
        1 => (0..3u16, 0..TICK).prop_map(|(c, d)| Op::Exit(c, d)),
        1 => (any::<bool>(), 0..20 * TICK, 0..5 * TICK).prop_map(|(p, v, i)| Op::Itimer(p, v, i)),
        2 => (0..3usize, 0..40 * TICK).prop_map(|(c, d)| Op::Arm(c, d)),
        1 => (0..64u32).prop_map(Op::Disarm),
        1 => (0..2u64).prop_map(Op::Limit),
    ]
}

/// Three CPUs, five thread slots, and a ledger kept the slow way.
struct Ledger {
    cpu: ProcessCputime,
    threads: Vec<ThreadCputime>,
    running: [Option<usize>; 3],
    dead: Cputime,
    timers: ProcessTimers,
    places: Vec<u32>,
    armed: Vec<Option<(CpuClock, u64)>>,
    now: u64,
}

impl Ledger {
    fn sum_of_threads(&self) -> Cputime {
        self.threads.iter().fold(self.dead, |sum, t| sum + t.sample(Nanos(self.now)))
    }

    /// A full check by brute force: what a tick may not miss.
    fn is_due_by_walk(&self) -> bool {
        let at = self.cpu.sample(Nanos(self.now));
        CpuClock::ALL.iter().zip(self.timers.next()).any(|(&clock, next)| at.of(clock) >= next)
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Switch(c, to, d) => {
                self.now += d;
                let to = to.filter(|to| !self.running.contains(&Some(*to)));
                let from = std::mem::replace(&mut self.running[c as usize], to);
                self.cpu.switch(
                    CpuId(c),
                    from.map(|t| &self.threads[t]),
                    to.map(|t| &self.threads[t]),
                    Nanos(self.now),
                );
            }
            Op::Tick(c, user, d) => {
                self.now += d;
                if let Some(t) = self.running[c as usize] {
                    let mode = if user { Mode::User } else { Mode::System };
                    self.cpu.tick(CpuId(c), &self.threads[t], mode, Nanos(self.now));
                    self.pass()?;
                }
            }
            Op::Charge(c, d) => {
                if let Some(t) = self.running[c as usize] {
                    self.cpu.charge(CpuId(c), &self.threads[t], Nanos(d), Mode::System);
                }
            }
            Op::Stolen(c, d) => {
                if let Some(t) = self.running[c as usize] {
                    self.cpu.take_back(CpuId(c), &self.threads[t], Nanos(d), Nanos(self.now));
                }
            }
            Op::Exit(c, d) => {
                self.now += d;
                if let Some(t) = self.running[c as usize].take() {
                    let before = self.cpu.sample(Nanos(self.now));
                    self.cpu.exit(CpuId(c), &self.threads[t], Nanos(self.now));
                    self.cpu.switch(CpuId(c), None, None, Nanos(self.now));
                    self.dead += self.threads[t].sample(Nanos(self.now));
                    self.threads[t].reset();
                    let after = self.cpu.sample(Nanos(self.now));
                    prop_assert!(after.exec == before.exec && after.utime >= before.utime, "I8: exit lowers no clock");
                }
            }
            Op::Itimer(prof, value, interval) => {
                let which = if prof { CpuItimerKind::Prof } else { CpuItimerKind::Virtual };
                let new = ItimerValue { value: Nanos(value), interval: Nanos(interval) };
                self.timers.set_itimer(which, new, &self.cpu, Nanos(self.now), Nanos(TICK));
            }
            Op::Arm(clock, d) => {
                let Some(timer) = self.armed.iter().position(Option::is_none) else { return Ok(()) };
                let clock = CpuClock::ALL[clock];
                let at = self.cpu.sample(Nanos(self.now)).of(clock).0 + d;
                self.timers.timers.reserve(clock, 64).unwrap();
                self.armed[timer] = Some((clock, at));
                if let Some(at) = self.timers.timers.arm(clock, timer as u32, Nanos(at), &mut self.places) {
                    self.cpu.expiry.lower(clock, at);
                }
            }
            Op::Disarm(timer) => {
                if let Some((clock, _)) = self.armed[timer as usize].take() {
                    let place = self.places[timer as usize];
                    if self.timers.timers.disarm(clock, place, &mut self.places) {
                        self.cpu.expiry.recheck(clock);
                    }
                }
            }
            Op::Limit(cur) => self.timers.set_limit(Rlimit { cur, max: u64::MAX }, &self.cpu),
        }
        Ok(())
    }

    /// A pass as a tick makes it.
    fn pass(&mut self) -> Result<(), TestCaseError> {
        let due = self.cpu.is_due(Nanos(self.now), all);
        prop_assert!(due || !self.is_due_by_walk(), "I3: a tick misses nothing that is due");
        if !due {
            return Ok(());
        }
        let claim = self.cpu.expiry.claim().unwrap();
        let mut fired = vec![];
        let at = self.cpu.settle(Nanos(self.now), all);
        self.timers.expire(claim, &self.cpu, at, &mut self.places, |e, _| fired.push(e));
        for event in fired {
            if let CpuEvent::Timer(timer, expiry) = event {
                let (clock, want) = self.armed[timer as usize].take().expect("a disarmed timer fires");
                prop_assert_eq!(want, expiry.0);
                prop_assert!(at.of(clock) >= expiry, "I2: never early");
                let clock_read = self.cpu.clock(Nanos(self.now));
                prop_assert!(clock == CpuClock::Virt || clock_read >= expiry, "I2: and the clock shows it");
            }
        }
        Ok(())
    }
}

/// Applies a history and checks every invariant after each step.
fn check_history(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut l = Ledger {
        cpu: ProcessCputime::new(3).unwrap(),
        threads: (0..5).map(|_| ThreadCputime::new()).collect(),
        running: [None; 3],
        dead: Cputime::ZERO,
        timers: ProcessTimers::new(),
        places: vec![0; 64],
        armed: vec![None; 64],
        now: 0,
    };
    let (mut last, mut last_threads) = (Nanos::ZERO, [Nanos::ZERO; 5]);
    for op in ops {
        let exited = match op {
            Op::Exit(c, _) => l.running[c as usize],
            _ => None,
        };
        l.apply(op)?;
        let process = l.cpu.sample(Nanos(l.now));
        prop_assert_eq!(process, l.sum_of_threads(), "I7: the process is its threads");
        let clock = l.cpu.clock(Nanos(l.now));
        prop_assert!(clock >= last && clock >= process.exec, "I1: clocks do not go back");
        last = clock;
        for (i, t) in l.threads.iter().enumerate() {
            let clock = t.clock(Nanos(l.now));
            prop_assert!(exited == Some(i) || clock >= last_threads[i], "I1 for threads");
            last_threads[i] = clock;
        }
        let next = l.timers.next();
        for clock in CpuClock::ALL {
            prop_assert!(l.cpu.expiry.next(clock) <= next[clock.index()], "I4: the cache is a lower bound");
            let armed = next[clock.index()] != Nanos::MAX;
            prop_assert!(l.cpu.expiry.is_active() || !armed, "I5: inactive means nothing armed");
            prop_assert!(l.cpu.expiry.is_active() || l.cpu.expiry.next(clock) == Nanos::MAX, "I5");
        }
    }
    Ok(())
}

fn histories() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn invariants_hold_under_random_histories(ops in histories()) {
        check_history(ops)?;
    }
}

/// The invariants detect the faults they are meant for.
#[test]
fn every_planted_fault_breaks_an_invariant() {
    let config = ProptestConfig { cases: 400, failure_persistence: None, max_shrink_iters: 0, ..Default::default() };
    for fault in [
        Fault::ChargeTwice,
        Fault::LoseAtExit,
        Fault::BackAtStart,
        Fault::NoFloor,
        Fault::StopTooEarly,
        Fault::StaleHint,
    ] {
        let mut runner = TestRunner::new(config.clone());
        let checked = planted::with(fault, || runner.run(&histories(), check_history));
        assert!(checked.is_err(), "{fault:?} is never caught");
    }
}
