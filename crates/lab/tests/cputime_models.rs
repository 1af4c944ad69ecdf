//! Every order of memory accesses that a model checker can find, over the races that the
//! designs' authors worried about. Run with `RUSTFLAGS="--cfg shuttle"`.
#![cfg(shuttle)]

use entresol_lab::cputime::*;
use ids::{CpuId, Nanos};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use time::cpu::{CpuClock, Cputime, GroupExpiry, ProcessCputime, ThreadCputime};

const TICK: Nanos = Nanos(1_000);
const SCHEDULES: usize = 20_000;

fn burn(a: &impl Accounting, thread: usize) {
    a.account(CpuId(thread as u16), thread, Kind::Exec, TICK);
    a.account(CpuId(thread as u16), thread, Kind::User, TICK);
}

/// Whether some schedule makes `model` return true.
fn some_schedule(model: impl Fn() -> bool + Send + Sync + 'static) -> bool {
    let seen = Arc::new(AtomicBool::new(false));
    let note = seen.clone();
    // One of the two must run long while the other stands at a bad place: schedules with
    // few switches find that soonest.
    shuttle::check_pct(
        move || {
            if model() {
                note.store(true, Ordering::Relaxed);
            }
        },
        SCHEDULES,
        3,
    );
    seen.load(Ordering::Relaxed)
}

/// Start, stop and start again against an accounter: no reading goes back (P1), and a
/// start is never behind what was consumed before it (P2).
fn start_against_account_and_stop<A: Accounting + Send + 'static>(new: fn() -> A) {
    shuttle::check_random(
        move || {
            let a = Arc::new(new());
            a.spawn(0).unwrap();
            a.spawn(1).unwrap();
            let b = a.clone();
            let accounter = thread::spawn(move || (0..2).for_each(|_| burn(&*b, 0)));
            let mut last = Cputime::ZERO;
            for _ in 0..2 {
                let before = a.clock();
                let started = a.start();
                assert!(started.exec >= before.exec && started.utime >= before.utime, "P2 {}", a.name());
                for read in [started, a.snapshot()] {
                    assert!(read.exec >= last.exec && read.utime >= last.utime, "P1 {}", a.name());
                    last = read;
                }
                a.stop();
            }
            accounter.join().unwrap();
            assert!(a.start().exec >= Nanos(2 * TICK.0), "P4 {}", a.name());
        },
        SCHEDULES,
    );
}

#[test]
fn p1_p2_p4_spinlock() {
    start_against_account_and_stop(|| Locked::new(2));
}

#[test]
fn p1_p2_p4_atomics() {
    start_against_account_and_stop(|| Atomic::new(2));
}

#[test]
fn p1_p2_p4_today() {
    start_against_account_and_stop(|| Today::new(2));
}

#[test]
fn p1_p2_p4_ours() {
    start_against_account_and_stop(|| Ours::new(2, 2).unwrap());
}

/// Whether some schedule counts an accounting twice: seen by the starter's walk in the
/// thread's own field, and added to the group afterwards (P6).
fn counts_twice<A: Accounting + Send + 'static>(new: fn() -> A) -> bool {
    some_schedule(move || {
        let a = Arc::new(new());
        a.spawn(0).unwrap();
        let b = a.clone();
        let accounter = thread::spawn(move || burn(&*b, 0));
        a.start();
        accounter.join().unwrap();
        a.snapshot().exec > TICK
    })
}

#[test]
fn p6_the_atomics_of_2015_can_count_twice_and_ours_cannot() {
    assert!(counts_twice(|| Atomic::new(1)));
    assert!(counts_twice(|| Today::new(1)));
    assert!(!counts_twice(|| Ours::new(1, 1).unwrap()));
}

/// Whether a stop can slip between an unlocked start and the arming.
fn armed_without_accounting<A: Accounting + Send + 'static>(new: fn() -> A) -> bool {
    some_schedule(move || {
        let a = Arc::new(new());
        a.spawn(0).unwrap();
        a.start();
        let b = a.clone();
        let ticker = thread::spawn(move || b.stop());
        a.arm(CpuClock::Prof, Nanos(1));
        ticker.join().unwrap();
        burn(&*a, 0);
        !a.tick(CpuId(0), 0)
    })
}

#[test]
fn the_race_of_stop_and_start_is_there_in_2015_and_gone_in_2021() {
    assert!(armed_without_accounting(|| Atomic::new(1)));
    assert!(!armed_without_accounting(|| Today::new(1)));
    assert!(!armed_without_accounting(|| Ours::new(1, 1).unwrap()));
}

/// A thread exits while others read: counted exactly once, at every moment (P5).
fn exit_folding<A: Accounting + Send + 'static>(new: fn() -> A) {
    shuttle::check_random(
        move || {
            let a = Arc::new(new());
            a.spawn(0).unwrap();
            a.spawn(1).unwrap();
            burn(&*a, 0);
            burn(&*a, 1);
            let b = a.clone();
            let leaver = thread::spawn(move || {
                burn(&*b, 0);
                b.exit(CpuId(0), 0);
            });
            let mut last = Nanos(2 * TICK.0);
            for _ in 0..3 {
                let read = a.clock().exec;
                assert!(read >= last && read <= Nanos(3 * TICK.0), "P5 {}: {read:?} after {last:?}", a.name());
                last = read;
            }
            leaver.join().unwrap();
            assert_eq!(a.clock().exec, Nanos(3 * TICK.0));
        },
        SCHEDULES,
    );
}

#[test]
fn p5_walks_fold_exits_exactly() {
    exit_folding(|| Walk::new(2));
}

#[test]
fn p5_ours_has_nothing_to_fold() {
    exit_folding(|| Ours::new(2, 2).unwrap());
}

#[test]
fn one_expirer_at_a_time() {
    shuttle::check_random(
        || {
            let g = Arc::new(GroupExpiry::new(2));
            let inside = Arc::new(AtomicBool::new(false));
            let hands: Vec<_> = (0..3)
                .map(|_| {
                    let (g, inside) = (g.clone(), inside.clone());
                    thread::spawn(move || {
                        if let Some(claim) = g.claim() {
                            assert!(!inside.swap(true, Ordering::SeqCst), "two expirers");
                            thread::yield_now();
                            inside.store(false, Ordering::SeqCst);
                            drop(claim);
                        }
                    })
                })
                .collect();
            hands.into_iter().for_each(|h| h.join().unwrap());
            assert!(g.claim().is_some(), "the claim came back");
        },
        SCHEDULES,
    );
}

/// A look leaves a hint while another thread arms something earlier: the tick at the
/// earlier moment must see it.
#[test]
fn a_hint_never_hides_an_event() {
    shuttle::check_random(
        || {
            let p = Arc::new(ProcessCputime::new(1).unwrap());
            let t = ThreadCputime::new();
            p.switch(CpuId(0), None, Some(&t), Nanos(0));
            p.expiry.lower(CpuClock::Prof, Nanos(1_000));
            let q = p.clone();
            let armer = thread::spawn(move || q.expiry.lower(CpuClock::Sched, Nanos(10)));
            let _ = p.is_due(Nanos(1), |_| Nanos::MAX);
            armer.join().unwrap();
            assert!(p.is_due(Nanos(10), |_| Nanos::MAX));
        },
        SCHEDULES,
    );
}

/// The same with a lump of host time instead of an earlier event.
#[test]
fn a_hint_does_not_survive_a_lump_of_time() {
    shuttle::check_random(
        || {
            let p = Arc::new(ProcessCputime::new(2).unwrap());
            let t = Arc::new(ThreadCputime::new());
            p.expiry.lower(CpuClock::Prof, Nanos(1_000));
            let (q, u) = (p.clone(), t.clone());
            let charger = thread::spawn(move || q.charge(CpuId(1), &u, Nanos(1_000), time::cpu::Mode::System));
            let _ = p.is_due(Nanos(1), |_| Nanos::MAX);
            charger.join().unwrap();
            assert!(p.is_due(Nanos(2), |_| Nanos::MAX));
        },
        SCHEDULES,
    );
}

/// Clocks of a process whose threads start, stop and move, read from elsewhere.
#[test]
fn a_process_clock_never_goes_back() {
    shuttle::check_random(
        || {
            let p = Arc::new(ProcessCputime::new(2).unwrap());
            let now = Arc::new(shuttle::sync::atomic::AtomicU64::new(100));
            let (q, clock) = (p.clone(), now.clone());
            let worker = thread::spawn(move || {
                let t = ThreadCputime::new();
                for cpu in [CpuId(0), CpuId(1)] {
                    let moment = || Nanos(clock.fetch_add(10, Ordering::SeqCst) + 10);
                    q.switch(cpu, None, Some(&t), moment());
                    q.switch(cpu, Some(&t), None, moment());
                }
            });
            let mut last = Nanos(0);
            for _ in 0..3 {
                let read = p.clock(Nanos(now.load(Ordering::SeqCst)));
                assert!(read >= last, "{read:?} after {last:?}");
                last = read;
            }
            worker.join().unwrap();
            assert_eq!(p.clock(Nanos(500)), Nanos(20));
        },
        SCHEDULES,
    );
}
