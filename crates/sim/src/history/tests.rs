//! The historic machine itself.

use super::*;
use crate::user::{Barrier, script};
use lab::rt_balance::{Active, Passive};

fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

fn run(cpus: usize, threads: Vec<(u8, Box<dyn Program>)>) -> Outcome {
    History::new(Config::new(7, cpus), Box::new(Active), threads).run()
}

#[test]
fn threads_share_cpus_and_time_is_kept() {
    let busy = |rank| (rank, script([Step::Compute(us(500)), Step::Sleep(us(100)), Step::Compute(us(500))]));
    let out = run(2, vec![busy(2), busy(3), busy(4)]);
    assert!(out.violation.is_none(), "{:?}", out.violation);
    assert_eq!(out.end, End::Exited(0));
    // Three milliseconds of work on two CPUs, and kernel time.
    assert!((us(1500)..us(2200)).contains(&out.time), "{:?}", out.time);
}

#[test]
fn a_barrier_lets_everybody_go_at_once() {
    let barrier = Barrier { addr: 64, parties: 3 };
    let one = |n| script([Step::Compute(us(n)), Step::Barrier(barrier), Step::Compute(us(10))]);
    let out = run(4, vec![(2, one(10)), (3, one(400)), (4, one(20))]);
    assert!(out.violation.is_none(), "{:?}", out.violation);
    assert!((us(410)..us(600)).contains(&out.time), "{:?}", out.time);
}

#[test]
fn the_same_seed_is_the_same_run() {
    let hash = |seed| {
        let threads = (0..5).map(|i| (i + 2, script([Step::Sleep(us(50)), Step::Compute(us(300))]))).collect();
        History::new(Config::new(seed, 2), Box::new(Passive), threads).run().hash
    };
    assert_eq!(hash(4), hash(4));
    assert_ne!(hash(4), hash(5));
}

#[test]
fn what_it_does_not_know_is_a_failure_and_not_ignored() {
    let out = run(1, vec![(2, script([Step::Yield]))]);
    assert!(out.violation.is_some_and(|v| v.what.contains("Yield is not known")));
    let alone = Barrier { addr: 64, parties: 2 };
    let stuck = History::new(
        Config { limit: us(5000), ..Config::new(1, 1) },
        Box::new(Active),
        vec![(2, script([Step::Barrier(alone)]))],
    )
    .run();
    assert!(stuck.violation.is_some_and(|v| v.what.contains("1 threads have not ended")));
}
