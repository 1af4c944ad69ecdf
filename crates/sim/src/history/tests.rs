//! The machine of other schedulers itself.

use super::*;
use crate::user::{View, Who, script};
use crate::workload::{Class, run};
use ids::CpuMask;

fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

fn fifo(rank: u8, steps: impl IntoIterator<Item = Step>) -> (Attr, Box<dyn Program>) {
    (Attr::fifo(rank), script(steps))
}

fn fair(steps: impl IntoIterator<Item = Step>) -> (Attr, Box<dyn Program>) {
    (Attr::DEFAULT, script(steps))
}

fn setup(cpus: usize) -> Setup {
    Setup::new(Config::new(7, cpus))
}

fn sound(out: Outcome) -> Outcome {
    assert!(out.violation.is_none(), "{:?}", out.violation);
    assert_eq!(out.end, End::Exited(0));
    out
}

#[test]
fn threads_share_cpus_and_time_is_kept() {
    let work = || [Step::Compute(us(500)), Step::Sleep(us(100)), Step::Compute(us(500))];
    for policy in Policy::ALL {
        let attr = |i: u8| if policy.class() == Some(Class::Fair) { Attr::DEFAULT } else { Attr::fifo(i) };
        let out = sound(run(setup(2), policy, (2..5).map(|i| (attr(i), script(work()))).collect()));
        // Three milliseconds of work on two CPUs, and kernel time.
        assert!((us(1500)..us(2300)).contains(&out.time), "{}: {:?}", policy.name(), out.time);
    }
}

#[test]
fn a_barrier_lets_everybody_go_at_once() {
    for policy in [Policy::Active, Policy::Eevdf] {
        let mut setup = setup(4);
        let barrier = setup.barrier(3);
        let one = |n| [Step::Compute(us(n)), Step::Barrier(barrier), Step::Compute(us(10))];
        let threads = match policy {
            Policy::Active => vec![fifo(2, one(10)), fifo(3, one(400)), fifo(4, one(20))],
            _ => vec![fair(one(10)), fair(one(400)), fair(one(20))],
        };
        let out = sound(run(setup, policy, threads));
        assert!((us(410)..us(600)).contains(&out.time), "{:?}", out.time);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for policy in [Policy::Passive, Policy::Cfs, Policy::Eevdf] {
        let hash = |seed| {
            let attr = if policy.class() == Some(Class::Fair) { Attr::DEFAULT } else { Attr::fifo(3) };
            let threads = (0..5).map(|_| (attr, script([Step::Sleep(us(50)), Step::Compute(us(300))]))).collect();
            run(Setup::new(Config::new(seed, 2)), policy, threads).hash
        };
        assert_eq!(hash(4), hash(4));
        assert_ne!(hash(4), hash(5));
    }
}

#[test]
fn what_it_does_not_know_is_a_failure_and_not_ignored() {
    let fails = |out: Outcome, what: &str| {
        let said = out.violation.map(|v| v.what).unwrap_or_default();
        assert!(said.contains(what), "{said}");
    };
    fails(run(setup(1), Policy::Active, vec![fifo(2, [Step::Yield])]), "Yield is not known");
    fails(run(setup(1), Policy::Active, vec![fair([])]), "has real-time threads only");
    fails(run(setup(1), Policy::Eevdf, vec![fifo(2, [])]), "has fair threads only");
    let change = Step::SetPolicy(Who::Me, Attr::fifo(4));
    fails(run(setup(1), Policy::Cfs, vec![fair([change])]), "has fair threads only");
    let mut setup = Setup::new(Config { limit: us(5000), ..Config::new(1, 1) });
    let alone = setup.barrier(2);
    fails(run(setup, Policy::Active, vec![fifo(2, [Step::Barrier(alone)])]), "1 threads have not ended");
}

/// Takes the mutex, adds one to the word after some time and tells all, `times` times.
fn adds(mutex: crate::user::Mutex, cond: crate::user::Cond, word: u64, times: u32) -> Box<dyn Program> {
    let (mut left, mut part) = (times, 0);
    Box::new(move |v: &mut View<'_>| {
        part += 1;
        match part {
            1 if left == 0 => Step::Exit,
            1 => Step::Lock(mutex),
            2 => {
                v.store(word, v.load(word) + 1);
                Step::Compute(us(3))
            }
            3 => Step::CondBroadcast(cond),
            _ => {
                (part, left) = (0, left - 1);
                Step::Unlock(mutex)
            }
        }
    })
}

#[test]
fn mutexes_and_condition_variables_work() {
    for policy in [Policy::Cfs, Policy::Eevdf] {
        let mut setup = setup(2);
        let (mutex, cond, word) = (setup.mutex(), setup.cond(), setup.words(1));
        let waits = Box::new(move |v: &mut View<'_>| match v.load(word) {
            60 => Step::Exit,
            _ => Step::CondWait(cond, mutex),
        });
        let unlocks = |program| crate::user::after([Step::Lock(mutex)], program);
        let mut threads = vec![(Attr::DEFAULT, unlocks(waits))];
        threads.extend((0..3).map(|_| (Attr::DEFAULT, adds(mutex, cond, word, 20))));
        sound(run(setup, policy, threads));
    }
}

#[test]
fn a_futex_wait_ends_at_its_limit_and_a_wake_up_voids_it() {
    let mut setup = setup(2);
    let word = setup.words(1);
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = seen.clone();
    let mut turn = 0;
    let waits = Box::new(move |v: &mut View<'_>| {
        if turn > 0 {
            log.borrow_mut().push((v.result, v.now()));
        }
        turn += 1;
        match turn {
            1 | 2 => Step::FutexWait { addr: word, value: 0, timeout: Some(us(1_000)) },
            3 => Step::Sleep(us(5_000)),
            _ => Step::Exit,
        }
    });
    let wakes = script([Step::Sleep(us(1_500)), Step::FutexWake { addr: word, count: 1 }]);
    sound(run(setup, Policy::Eevdf, vec![(Attr::DEFAULT, waits), (Attr::DEFAULT, wakes)]));
    let seen = seen.borrow();
    let results: Vec<isize> = seen.iter().map(|(result, _)| *result).collect();
    assert_eq!(results, [Errno::ETIMEDOUT.to_ret(), 0, 0]);
    // The limit of the second wait, 2 ms, does not end the sleep that follows.
    assert!(seen[2].1.since(seen[1].1) >= us(5_000), "{seen:?}");
}

#[test]
fn a_thread_keeps_to_its_mask() {
    let only = CpuMask::only(CpuId(1));
    let on_one = || {
        let mut turn = 0;
        let only = only.clone();
        let program = move |v: &mut View<'_>| {
            turn += 1;
            match turn {
                1 => Step::SetAffinity(Who::Me, only.clone()),
                20 => Step::Exit,
                n => {
                    assert_eq!(v.cpu, CpuId(1));
                    if n % 2 == 0 { Step::Compute(us(700)) } else { Step::Sleep(us(100)) }
                }
            }
        };
        (Attr::DEFAULT, Box::new(program) as Box<dyn Program>)
    };
    for policy in [Policy::Cfs, Policy::Eevdf] {
        let out = sound(run(setup(3), policy, vec![on_one(), on_one(), on_one()]));
        assert!(out.time > us(3 * 9 * 700), "they share one CPU: {:?}", out.time);
    }
}
