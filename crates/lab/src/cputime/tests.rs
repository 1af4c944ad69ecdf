//! The properties that every generation must have, and the traps that some have.

use super::*;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

const C: [CpuId; 4] = [CpuId(0), CpuId(1), CpuId(2), CpuId(3)];
const TICK: Nanos = Nanos(1_000_000);

fn all(threads: usize, cpus: usize) -> Vec<Box<dyn Accounting>> {
    vec![
        Box::new(Walk::new(threads)),
        Box::new(PerCpu::new(threads, cpus)),
        Box::new(Locked::new(threads)),
        Box::new(Atomic::new(threads)),
        Box::new(Today::new(threads)),
        Box::new(Ours::new(threads, cpus).unwrap()),
    ]
}

/// One tick of user time, as kernels account it: precise time first.
fn burn(a: &dyn Accounting, cpu: usize, thread: usize) {
    a.account(C[cpu], thread, Kind::Exec, TICK);
    a.account(C[cpu], thread, Kind::User, TICK);
}

fn ticks(n: u64) -> Cputime {
    Cputime { utime: Nanos(n * TICK.0), stime: Nanos(0), exec: Nanos(n * TICK.0) }
}

#[test]
fn p3_exact_when_quiet_in_one_epoch() {
    for a in all(4, 2) {
        (0..4).for_each(|t| a.spawn(t).unwrap());
        a.start();
        for i in 0..100 {
            burn(&*a, i % 2, i % 2);
        }
        a.account(C[0], 0, Kind::Exec, TICK);
        a.account(C[0], 0, Kind::System, TICK);
        let want = Cputime { stime: TICK, exec: Nanos(101 * TICK.0), ..ticks(100) };
        assert_eq!(a.snapshot(), want, "{}", a.name());
        assert_eq!(a.clock(), want, "{}", a.name());
    }
}

#[test]
fn p2_a_start_is_not_behind_the_threads() {
    for a in all(2, 2) {
        a.spawn(0).unwrap();
        a.spawn(1).unwrap();
        (0..10).for_each(|i| burn(&*a, i % 2, i % 2));
        assert_eq!(a.start(), ticks(10), "{}", a.name());
    }
}

#[test]
fn p4_what_was_consumed_while_stopped_is_there_at_the_next_start() {
    for a in all(2, 1) {
        a.spawn(0).unwrap();
        a.start();
        burn(&*a, 0, 0);
        a.stop();
        (0..5).for_each(|_| burn(&*a, 0, 0));
        assert_eq!(a.clock(), ticks(6), "{}", a.name());
        a.start();
        burn(&*a, 0, 0);
        assert_eq!(a.snapshot(), ticks(7), "{}", a.name());
    }
}

#[test]
fn p5_an_exited_thread_counts_exactly_once() {
    for a in all(3, 2) {
        (0..3).for_each(|t| a.spawn(t).unwrap());
        for t in 0..3 {
            (0..4).for_each(|_| burn(&*a, t % 2, t));
        }
        a.exit(C[0], 2);
        assert_eq!(a.clock(), ticks(12), "{}", a.name());
        a.spawn(2).unwrap();
        burn(&*a, 0, 2);
        assert_eq!(a.clock(), ticks(13), "{}: a reused slot starts at zero", a.name());
    }
}

/// Two real threads account, one exits now and then, a third reads.
#[test]
fn p1_p5_monotonic_under_accounting_and_exits() {
    for a in all(2, 2) {
        let a = &*a;
        a.spawn(0).unwrap();
        a.spawn(1).unwrap();
        a.start();
        std::thread::scope(|s| {
            for (t, cpu) in C.into_iter().enumerate().take(2) {
                s.spawn(move || {
                    for i in 0..3_000 {
                        burn(a, t, t);
                        if i % 100 == 99 {
                            a.exit(cpu, t);
                            a.spawn(t).unwrap();
                        }
                    }
                });
            }
            s.spawn(move || {
                let (mut clock, mut snapshot) = (Cputime::ZERO, Cputime::ZERO);
                while clock.exec < ticks(6_000).exec {
                    for (last, read) in [(&mut clock, a.clock()), (&mut snapshot, a.snapshot())] {
                        assert!(read.utime >= last.utime && read.exec >= last.exec, "{}", a.name());
                        *last = read;
                    }
                    std::thread::yield_now();
                }
            });
        });
        assert_eq!(a.clock(), ticks(6_000), "{}", a.name());
        assert_eq!(a.snapshot(), ticks(6_000), "{}", a.name());
    }
}

#[test]
fn a_timer_is_due_at_its_reading_and_not_before() {
    for a in all(2, 1) {
        a.spawn(0).unwrap();
        a.start();
        a.arm(CpuClock::Prof, Nanos(3 * TICK.0));
        let due: Vec<bool> = (0..3)
            .map(|_| {
                burn(&*a, 0, 0);
                a.tick(C[0], 0)
            })
            .collect();
        assert_eq!(due, [false, false, true], "{}", a.name());
    }
}

#[test]
fn p8_the_second_thread_can_fail_in_2008_and_nothing_is_lost() {
    let a = PerCpu::new(2, 4);
    a.spawn(0).unwrap();
    burn(&a, 3, 0);
    assert_eq!(a.bytes(), 0, "a process of one thread pays nothing");
    a.run_short_of_memory();
    assert_eq!(a.spawn(1), Err(OutOfMemory));
    assert_eq!(a.clock(), ticks(1));
    a.spawn(1).unwrap();
    assert_eq!(a.clock(), ticks(1), "the first thread's time is put into a slot");
    assert_eq!(a.bytes(), 4 * 128);
}

#[test]
fn the_uniprocessor_variant_needs_no_allocation() {
    let a = PerCpu::new(2, 1);
    a.spawn(0).unwrap();
    burn(&a, 0, 0);
    a.run_short_of_memory();
    a.spawn(1).unwrap();
    burn(&a, 0, 1);
    assert_eq!(a.snapshot(), ticks(2));
}

#[test]
fn the_trap_of_2008_a_cpu_that_goes_offline_takes_its_time_along() {
    let a = PerCpu::new(2, 2);
    a.spawn(0).unwrap();
    a.spawn(1).unwrap();
    burn(&a, 0, 0);
    burn(&a, 1, 1);
    a.set_online(C[1], false);
    assert_eq!(a.snapshot(), ticks(1), "the clock went back");
    assert_eq!(a.sum_possible(), ticks(2));
    a.set_online(C[1], true);
    assert_eq!(a.snapshot(), ticks(2));
}

#[test]
fn the_bug_of_the_seed_every_tick_walks_all_threads() {
    let threads = 1_000;
    let a = Walk::new(threads);
    (0..threads).for_each(|t| a.spawn(t).unwrap());
    a.arm(CpuClock::Prof, Nanos(10 * TICK.0));
    let before = a.visits();
    for t in 0..9 {
        burn(&a, 0, t);
        assert!(!a.tick(C[0], t));
    }
    let visits = a.visits() - before;
    assert_eq!(visits, 9 * 3 * threads as u64, "a share is a hundredth of a tick");
    burn(&a, 0, 9);
    assert!(a.tick(C[0], 9));
}

#[test]
fn few_threads_rarely_walk() {
    let a = Walk::new(2);
    a.spawn(0).unwrap();
    a.arm(CpuClock::Prof, Nanos(1_000 * TICK.0));
    let before = a.visits();
    for _ in 0..900 {
        burn(&a, 0, 0);
        assert!(!a.tick(C[0], 0));
    }
    assert_eq!(a.visits(), before);
}

#[test]
fn today_has_one_expirer_at_a_time() {
    let a = Today::new(1);
    a.spawn(0).unwrap();
    a.start();
    a.arm(CpuClock::Prof, Nanos(1));
    burn(&a, 0, 0);
    assert!(a.tick(C[0], 0));
    let ran = a.expire(|| {
        assert!(!a.tick(C[0], 0), "other ticks do not wait");
        assert!(!a.expire(|| panic!("a second expirer")));
    });
    assert!(ran && a.tick(C[0], 0));
}
