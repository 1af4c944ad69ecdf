//! Situations with names: what real-time and fair threads must get, one at a time.

use entresol_sim::user::{Program, Step, View, Who, after, script, with};
use entresol_sim::{Config, Faults, Outcome, Setup};
use ids::{CpuId, CpuMask, Nanos, Policy};
use sched::{Attr, DeadlineParams};
use std::cell::RefCell;
use std::rc::Rc;

fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn cpus(list: &[u16]) -> Option<CpuMask> {
    let mut mask = CpuMask::empty();
    list.iter().for_each(|&c| mask.insert(CpuId(c)));
    Some(mask)
}

/// What happened to whom: a label, the time and the CPU.
type Entry = (&'static str, Nanos, CpuId);

/// What threads write down.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<Entry>>>);

impl Log {
    fn add(&self, label: &'static str, v: &View<'_>) {
        self.0.borrow_mut().push((label, v.now(), v.cpu));
    }

    fn when(&self, label: &str) -> Nanos {
        self.find(label).1
    }

    fn find(&self, label: &str) -> Entry {
        *self.0.borrow().iter().find(|e| e.0 == label).unwrap_or_else(|| panic!("'{label}' never happened"))
    }

    fn order(&self) -> Vec<&'static str> {
        self.0.borrow().iter().map(|e| e.0).collect()
    }

    /// Writes down `label` when it first runs after `delay`, then computes for `span`.
    fn late(&self, label: &'static str, delay: Nanos, span: Nanos) -> Box<dyn Program> {
        let log = self.clone();
        let mut state = 0;
        Box::new(move |v: &mut View<'_>| {
            state += 1;
            match state {
                1 => Step::SleepUntil(delay),
                2 => {
                    log.add(label, v);
                    Step::Compute(span)
                }
                _ => Step::Exit,
            }
        })
    }
}

/// Computes from one time to another. Before the first millisecond is over nobody computes: all
/// have to get their policies and masks first.
fn busy(attr: Attr, mask: Option<CpuMask>, from: Nanos, to: Nanos) -> Box<dyn Program> {
    assert!(from >= ms(1));
    with(attr, mask, script([Step::SleepUntil(from), Step::ComputeUntil(to)]))
}

fn run(cpus: usize, build: impl FnOnce(&mut Setup) -> Vec<Box<dyn Program>>) -> Outcome {
    let mut setup = Setup::new(Config::new(5, cpus));
    let programs = build(&mut setup);
    let out = setup.threads(programs).run();
    out.expect_sound(5);
    out
}

/// How long after its time a thread may start that should run at once: timer, kick, switch.
const AT_ONCE: Nanos = Nanos::from_micros(60);

#[track_caller]
fn assert_within(what: Nanos, from: Nanos, most: Nanos) {
    assert!((from..from + most).contains(&what), "{what:?} is not within {most:?} after {from:?}");
}

#[test]
fn producers_and_consumers_lose_nothing() {
    for n in [1, 2, 4] {
        let taken = Rc::new(RefCell::new(Vec::new()));
        run(n, |s| {
            let (m, filled, count, next) = (s.mutex(), s.cond(), s.words(1), s.words(1));
            let producer = || {
                let mut left = 50;
                let mut state = 0;
                Box::new(move |v: &mut View<'_>| {
                    state += 1;
                    match state {
                        1 if left == 0 => Step::Exit,
                        1 => Step::Compute(us(3)),
                        2 => Step::Lock(m),
                        3 => {
                            v.store(count, v.load(count) + 1);
                            Step::CondSignal(filled)
                        }
                        _ => {
                            (state, left) = (0, left - 1);
                            Step::Unlock(m)
                        }
                    }
                }) as Box<dyn Program>
            };
            let consumer = || {
                let taken = taken.clone();
                let mut left = 50;
                let mut state = 0;
                Box::new(move |v: &mut View<'_>| match state {
                    0 if left == 0 => Step::Exit,
                    0 => {
                        state = 1;
                        Step::Lock(m)
                    }
                    _ if v.load(count) == 0 => Step::CondWait(filled, m),
                    _ => {
                        v.store(count, v.load(count) - 1);
                        v.store(next, v.load(next) + 1);
                        taken.borrow_mut().push(v.load(next));
                        (state, left) = (0, left - 1);
                        Step::Unlock(m)
                    }
                }) as Box<dyn Program>
            };
            vec![producer(), consumer(), producer(), consumer()]
        });
        assert_eq!(*taken.borrow(), (1..=100).collect::<Vec<_>>());
    }
}

#[test]
fn a_woken_thread_is_pushed_to_where_it_can_run() {
    let log = Log::default();
    run(2, |_| {
        vec![
            busy(Attr::fifo(80), cpus(&[0]), ms(1), ms(20)),
            busy(Attr::DEFAULT, cpus(&[1]), ms(1), ms(20)),
            with(Attr::fifo(50), None, log.late("woken", ms(5), ms(1))),
        ]
    });
    assert_within(log.when("woken"), ms(5), AT_ONCE);
    assert_eq!(log.find("woken").2, CpuId(1));
}

#[test]
fn a_preempted_thread_moves_on_at_once() {
    // `low` is preempted by a thread that can run nowhere else, and goes to the other CPU.
    let log = Log::default();
    run(2, |_| {
        let watched = log.clone();
        let mut left = 40;
        let low = Box::new(move |v: &mut View<'_>| {
            if left == 40 {
                left -= 1;
                return Step::SleepUntil(ms(1));
            }
            if v.cpu == CpuId(1) && watched.0.borrow().iter().all(|e| e.0 != "moved") {
                watched.add("moved", v);
            }
            left -= 1;
            if left == 0 { Step::Exit } else { Step::Compute(us(250)) }
        });
        vec![
            with(Attr::fifo(30), cpus(&[0]), after([Step::SetAffinity(Who::Me, CpuMask::first(2))], low)),
            with(Attr::fifo(90), cpus(&[0]), log.late("high", ms(5), ms(9))),
        ]
    });
    assert_within(log.when("high"), ms(5), AT_ONCE);
    assert_within(log.when("moved"), log.when("high"), us(400));
}

#[test]
fn a_cpu_whose_priority_drops_pulls() {
    // Two urgent threads hold both CPUs; a third waits and is fetched by the CPU that falls free.
    let log = Log::default();
    run(2, |_| {
        vec![
            busy(Attr::fifo(80), cpus(&[0]), ms(1), ms(20)),
            busy(Attr::fifo(80), cpus(&[1]), ms(1), ms(10)),
            busy(Attr::DEFAULT, cpus(&[1]), ms(1), ms(30)),
            with(Attr::fifo(50), None, log.late("pulled", ms(3), ms(1))),
        ]
    });
    assert_within(log.when("pulled"), ms(10), us(200));
}

#[test]
fn a_thread_that_becomes_less_urgent_lets_others_in() {
    let log = Log::default();
    run(2, |_| {
        let falls = [
            Step::SleepUntil(ms(1)),
            Step::ComputeUntil(ms(8)),
            Step::SetPolicy(Who::Me, Attr::DEFAULT),
            Step::ComputeUntil(ms(18)),
        ];
        vec![
            busy(Attr::fifo(80), cpus(&[0]), ms(1), ms(20)),
            with(Attr::fifo(80), cpus(&[1]), script(falls)),
            with(Attr::fifo(50), None, log.late("in", ms(3), ms(1))),
        ]
    });
    assert_within(log.when("in"), ms(8), us(200));
}

/// CPU 0 has an urgent thread, and `low` waits there for its mask to be widened to CPU 2, where a
/// fair thread runs; with `head`, a more urgent thread that can go nowhere waits before it.
fn widened(head: bool) -> Nanos {
    let log = Log::default();
    run(4, |s| {
        let low_id = s.words(1);
        let told = log.clone();
        let mut state = 0;
        let low = Box::new(move |v: &mut View<'_>| {
            state += 1;
            match state {
                1 => {
                    v.store(low_id, v.tid.0 as u32);
                    Step::SleepUntil(ms(2))
                }
                2 => {
                    told.add("low", v);
                    Step::Compute(ms(1))
                }
                _ => Step::Exit,
            }
        });
        let mut state = 0;
        let widener = Box::new(move |v: &mut View<'_>| {
            state += 1;
            match state {
                1 => Step::SleepUntil(ms(4)),
                2 => {
                    let low = ids::Tid(v.load(low_id) as i32);
                    Step::SetAffinity(Who::Tid(low), cpus(&[0, 2]).expect("a mask"))
                }
                _ => Step::Exit,
            }
        });
        let mut all = vec![
            busy(Attr::fifo(90), cpus(&[0]), ms(1), ms(10)),
            busy(Attr::fifo(80), cpus(&[1]), ms(1), ms(10)),
            busy(Attr::DEFAULT, cpus(&[2]), ms(1), ms(30)),
            with(Attr::fifo(40), cpus(&[0]), low),
            with(Attr::fifo(99), cpus(&[3]), widener),
        ];
        if head {
            all.push(with(Attr::fifo(50), cpus(&[0, 1]), log.late("head", ms(2), ms(1))));
        }
        all
    });
    log.when("low")
}

#[test]
fn the_head_only_rule() {
    // The seed: "There is one case that is not covered": a head that can go nowhere keeps those
    // behind it from being pushed, though they could.
    assert_within(widened(false), ms(4), AT_ONCE);
    // With such a head, `low` goes only when the head itself has gone on.
    assert_within(widened(true), ms(10), ms(1));
}

#[test]
fn equals_run_in_the_order_of_their_wake_ups_and_keep_their_place() {
    let log = Log::default();
    run(1, |_| {
        vec![
            with(Attr::fifo(50), None, log.late("a", ms(2), ms(3))),
            with(Attr::fifo(50), None, log.late("b", ms(3), ms(3))),
            with(Attr::fifo(50), None, log.late("c", ms(4), ms(3))),
            with(Attr::fifo(60), None, log.late("above", us(2500), ms(1))),
        ]
    });
    // `a` is preempted by `above` and goes on before `b`, who woke meanwhile.
    assert_eq!(log.order(), ["a", "above", "b", "c"]);
    assert!(log.when("b") >= ms(6), "a kept its place");
}

#[test]
fn round_robin_rotates_at_the_end_of_a_slice() {
    let log = Log::default();
    let out = run(1, |_| {
        vec![
            with(Attr::round_robin(50), None, log.late("a", ms(1), ms(250))),
            with(Attr::round_robin(50), None, log.late("b", ms(2), ms(250))),
        ]
    });
    assert_within(log.when("b"), ms(101), ms(2));
    assert_within(out.time, ms(501), ms(3));
}

#[test]
fn priority_inversion_is_bounded_by_the_critical_section() {
    let when = |inherit: bool| {
        let log = Log::default();
        run(1, |s| {
            let m = s.mutex();
            let lock = move |m| if inherit { Step::LockPi(m) } else { Step::Lock(m) };
            let unlock = move |m| if inherit { Step::UnlockPi(m) } else { Step::Unlock(m) };
            let told = log.clone();
            let mut state = 0;
            let high = Box::new(move |v: &mut View<'_>| {
                state += 1;
                match state {
                    1 => Step::SleepUntil(ms(2)),
                    2 => lock(m),
                    3 => {
                        assert_eq!(v.result, 0, "the mutex");
                        told.add("high", v);
                        unlock(m)
                    }
                    _ => Step::Exit,
                }
            });
            vec![
                with(Attr::fifo(10), None, script([Step::SleepUntil(ms(1)), lock(m), Step::Compute(ms(4)), unlock(m)])),
                with(Attr::fifo(50), None, script([Step::SleepUntil(ms(3)), Step::Compute(ms(40))])),
                with(Attr::fifo(90), None, high),
            ]
        });
        log.when("high")
    };
    assert_within(when(true), ms(5), ms(1));
    assert_within(when(false), ms(45), ms(1));
}

#[test]
fn sleepers_are_never_early_and_not_much_late() {
    let mut config = Config::new(9, 2);
    config.faults = Faults { timer_late: 100_000, kick_late: 50_000, kick_lost: 500 };
    let late = Rc::new(RefCell::new(Vec::new()));
    let sleeper = |i: u64| {
        let late = late.clone();
        let mut left = 20;
        let mut due = Nanos::ZERO;
        Box::new(move |v: &mut View<'_>| {
            if due > Nanos::ZERO {
                assert!(v.now() >= due, "{:?} before {due:?}", v.now());
                late.borrow_mut().push(v.now().since(due));
            }
            if left == 0 {
                return Step::Exit;
            }
            left -= 1;
            due = v.now() + Nanos(v.rng.between(1, 1000 * (i + 1)));
            Step::SleepUntil(due)
        }) as Box<dyn Program>
    };
    let out = Setup::new(config).threads((0..30).map(sleeper).collect()).run();
    out.expect_sound(9);
    assert_eq!(late.borrow().len(), 600);
    let worst = late.borrow().iter().copied().max().expect("there are some");
    assert!(worst < ms(2), "{worst:?}");
}

#[test]
fn an_idle_cpu_takes_what_waits() {
    // Both start on CPU 0; then one may run elsewhere, too.
    let out = run(2, |_| {
        let bound = || script([Step::Compute(ms(20))]);
        let free = after([Step::Compute(ms(1)), Step::SetAffinity(Who::Me, CpuMask::first(2))], bound());
        vec![with(Attr::DEFAULT, cpus(&[0]), bound()), with(Attr::DEFAULT, cpus(&[0]), free)]
    });
    assert!(out.time < ms(26), "{:?}: they did not run side by side", out.time);
}

#[test]
fn nice_values_divide_time_by_weight() {
    let used = |nice| {
        let ends = Rc::new(RefCell::new(Vec::new()));
        run(1, |_| {
            let thread = |nice: i8| {
                let ends = ends.clone();
                let mut begun = false;
                let compute = Box::new(move |v: &mut View<'_>| {
                    if std::mem::replace(&mut begun, true) {
                        ends.borrow_mut().push(v.now());
                        return Step::Exit;
                    }
                    Step::Compute(ms(500))
                });
                with(Attr::fair(Policy::Other, nice), None, compute)
            };
            vec![thread(0), thread(nice)]
        });
        let ends = ends.borrow();
        (ends[0], ends[1])
    };
    // Weights 1024 and 335: the first has its 500 ms when the other has 335/1024 of that.
    let (first, last) = used(5);
    assert_within(last, ms(1000), ms(20));
    let expected = 500.0 * (1.0 + 335.0 / 1024.0);
    let got = first.0 as f64 / 1e6;
    assert!((got - expected).abs() < expected * 0.03, "{got} ms, expected {expected} ms");
}

#[test]
fn a_deadline_thread_gets_its_budget_and_no_more() {
    let params = DeadlineParams { runtime: ms(2), deadline: ms(10), period: ms(10) };
    let log = Log::default();
    let out = run(1, |_| {
        let told = log.clone();
        let mut state = 0;
        let reserved = Box::new(move |v: &mut View<'_>| {
            state += 1;
            match state {
                1 => Step::SleepUntil(ms(1)),
                2 => Step::Compute(ms(20)),
                _ => {
                    told.add("done", v);
                    Step::Exit
                }
            }
        });
        vec![busy(Attr::fifo(99), None, ms(1), ms(150)), with(Attr::deadline(params), None, reserved)]
    });
    // 20 ms at 2 ms in 10: ten periods, however urgent the other is. A tick late in each at most.
    let done = log.when("done");
    assert!((ms(60)..ms(125)).contains(&done), "{done:?}");
    assert_within(out.time, ms(150), ms(10));
}

#[test]
fn fair_threads_are_not_starved_for_ever() {
    let log = Log::default();
    run(1, |_| vec![with(Attr::fifo(50), None, script([Step::Compute(ms(2500))])), log.late("fair", ms(1), ms(30))]);
    // The fair server: 50 ms in each second, at its end.
    assert_within(log.when("fair"), ms(900), ms(120));
}

#[test]
fn a_host_call_does_not_hold_its_cpu() {
    let out = run(1, |_| vec![script([Step::Host(ms(20))]), script([Step::Compute(ms(20))])]);
    assert!(out.time < ms(21), "{:?}", out.time);
}

/// Three of four wake-ups, at least, within what a kick and a switch take: the reader is owed its turn for all but the first.
#[test]
fn who_waits_in_the_host_runs_at_once_when_it_is_owed_its_turn() {
    let lateness = Rc::new(RefCell::new(Vec::new()));
    let late = lateness.clone();
    run(1, |_| {
        let mut since = None;
        let reads = Box::new(move |v: &mut View<'_>| {
            if let Some(since) = since {
                late.borrow_mut().push((v.now() - since).since(ms(1)));
            }
            since = Some(v.now());
            if late.borrow().len() == 40 { Step::Exit } else { Step::Host(ms(1)) }
        });
        vec![reads, script([Step::Compute(ms(100))])]
    });
    let mut lateness = lateness.take();
    lateness.sort_unstable();
    assert!(lateness[30] < us(30), "{lateness:?}");
}

#[test]
fn a_signal_ends_a_host_call() {
    let log = Log::default();
    run(2, |s| {
        let id = s.words(1);
        let told = log.clone();
        let mut state = 0;
        let waits = Box::new(move |v: &mut View<'_>| {
            state += 1;
            match state {
                1 => {
                    v.store(id, v.tid.0 as u32);
                    Step::Handle { signal: 10, restart: false }
                }
                2 => Step::Host(ms(500)),
                _ => {
                    assert_eq!(v.result, abi::Errno::EINTR.to_ret());
                    told.add("back", v);
                    Step::Exit
                }
            }
        });
        let mut state = 0;
        let sends = Box::new(move |v: &mut View<'_>| {
            state += 1;
            match state {
                1 => Step::Sleep(ms(5)),
                2 => Step::Signal(ids::Tid(v.load(id) as i32), 10),
                _ => Step::Exit,
            }
        });
        vec![waits, sends]
    });
    assert_within(log.when("back"), ms(5), us(200));
}
