//! Published behaviour of Linux on several CPUs.

use super::*;
use ids::Nice;
use std::vec;

const TICK: Nanos = Nanos::from_millis(1);

fn both(cpus: usize) -> [(&'static str, Many); 2] {
    [("EEVDF", Many::eevdf(cpus, TICK)), ("CFS", Many::cfs(cpus))]
}

/// Threads that always compute.
fn hogs(many: &mut Many, nices: &[i8]) {
    for &nice in nices {
        let thread = many.spawn(Share { nice: Nice(nice), ..Share::DEFAULT }, Nanos::ZERO);
        let woken = many.wake(thread, None, Nanos::ZERO);
        let _ = many.choose(woken.cpu, Nanos::ZERO);
    }
}

/// Lets so many ticks pass; returns each thread's number of them, and how many found a CPU idle.
fn pass(many: &mut Many, from: u64, ticks: u64) -> (Vec<u64>, u64) {
    let (mut used, mut idle) = (vec![0; many.threads.len()], 0);
    for now in (from..from + ticks).map(|n| Nanos(TICK.0 * (n + 1))) {
        for cpu in (0..many.cpus.len() as u16).map(CpuId) {
            match many.running(cpu) {
                Some(thread) => used[thread] += 1,
                None => idle += 1,
            }
            many.tick(cpu, now);
            let _ = many.choose(cpu, now);
        }
    }
    (used, idle)
}

#[test]
fn new_threads_spread_over_idle_cpus() {
    for (name, mut many) in both(4) {
        hogs(&mut many, &[0; 4]);
        let (used, idle) = pass(&mut many, 0, 100);
        assert_eq!((used, idle), (vec![100; 4], 0), "{name}");
    }
}

/// "3 tasks on 2 CPUs": a difference of one thread is balanced by turns.
#[test]
fn three_threads_take_turns_on_two_cpus() {
    for (name, mut many) in both(2) {
        hogs(&mut many, &[0; 3]);
        let (used, idle) = pass(&mut many, 0, 12_000);
        assert_eq!(idle, 0, "{name}");
        // Without a balance it were 12,000 for one of them. The balance and the slices of CFS are in step.
        assert!(used.iter().all(|n| (5_500..10_500).contains(n)), "{name}: {used:?}");
    }
}

#[test]
fn an_idle_cpu_takes_what_waits() {
    for (name, mut many) in both(2) {
        hogs(&mut many, &[0; 4]);
        let gone = many.running(CpuId(0)).unwrap();
        pass(&mut many, 0, 20);
        // All but one of the first CPU's threads leave.
        let now = Nanos(20 * TICK.0);
        let here: Vec<_> = (0..4).filter(|&t| many.threads[t].cpu == CpuId(0)).collect();
        assert!(here.contains(&gone), "{name}");
        for _ in &here {
            many.block(CpuId(0), now);
            let _ = many.choose(CpuId(0), now);
        }
        // At once, or after some balances if the one that waits ran just now.
        let (_, idle) = pass(&mut many, 20, 50);
        assert!(idle < 8 && many.running(CpuId(0)).is_some(), "{name}: idle for {idle} ticks");
    }
}

#[test]
fn a_mask_is_kept_to() {
    for (name, mut many) in both(4) {
        for _ in 0..3 {
            let thread = many.spawn(Share::DEFAULT, Nanos::ZERO);
            many.set_mask(thread, CpuMask::only(CpuId(2)));
            assert_eq!(many.wake(thread, Some(CpuId(0)), Nanos::ZERO).cpu, CpuId(2), "{name}");
        }
        let _ = many.choose(CpuId(2), Nanos::ZERO);
        let (used, _) = pass(&mut many, 0, 900);
        assert!(used.iter().all(|n| (290..310).contains(n)), "{name}: {used:?}");
    }
}

/// On one CPU it is the design alone: nice 0 and nice 5 share it 3 to 1 (weights 1024 and 335).
#[test]
fn weights_count_on_each_cpu() {
    for (name, mut many) in both(1) {
        hogs(&mut many, &[0, 5]);
        let (used, _) = pass(&mut many, 0, 13_590);
        assert!((10_100..10_400).contains(&used[0]), "{name}: {used:?}");
    }
}

/// `select_idle_sibling`: the last CPU if it is idle, otherwise any that is.
#[test]
fn a_woken_thread_goes_to_an_idle_cpu() {
    for (name, mut many) in both(3) {
        hogs(&mut many, &[0, 0, 0]);
        let now = Nanos::from_millis(5);
        let sleeper = many.running(CpuId(1)).unwrap();
        many.block(CpuId(1), now);
        let _ = many.choose(CpuId(1), now);
        let woken = many.wake(sleeper, Some(CpuId(0)), Nanos::from_millis(6));
        assert_eq!(woken, Woken { cpu: CpuId(1), preempts: true }, "{name}");
    }
}

/// A thread takes its debt along: one that goes from CPU to CPU gets no more than its share.
#[test]
fn a_debt_goes_along() {
    for (name, mut many) in both(2) {
        // One more on each CPU than the wanderer, which sleeps for a moment whenever its slice is nearly over.
        hogs(&mut many, &[0; 2]);
        let wanderer = many.spawn(Share::DEFAULT, Nanos::ZERO);
        let mut used = 0;
        let mut target = CpuId(0);
        many.set_mask(wanderer, CpuMask::only(target));
        let mut here = many.wake(wanderer, None, Nanos::ZERO).cpu;
        for n in 1..=4_000 {
            let now = Nanos(TICK.0 * n);
            for cpu in [CpuId(0), CpuId(1)] {
                used += u64::from(many.running(cpu) == Some(wanderer));
                many.tick(cpu, now);
                let _ = many.choose(cpu, now);
            }
            if n % 2 == 0 && many.running(here) == Some(wanderer) {
                target = CpuId(1 - target.0);
                many.block(here, now);
                let _ = many.choose(here, now);
                many.set_mask(wanderer, CpuMask::only(target));
                here = many.wake(wanderer, Some(here), now).cpu;
                let _ = many.choose(here, now);
            }
        }
        // Half of a CPU is its due; the credit of sleepers makes it somewhat more under CFS.
        assert!((1_700..2_500).contains(&used), "{name}: {used} of 4000");
    }
}

/// A thread that was charged just before it asks for another share is in debt; it gets that share nevertheless.
#[test]
fn a_share_can_be_changed_in_debt() {
    for (name, mut many) in both(1) {
        hogs(&mut many, &[0, 0]);
        let first = many.running(CpuId(0)).unwrap();
        many.set_share(first, Share { nice: Nice(5), ..Share::DEFAULT }, Nanos(1_000));
        let _ = many.choose(CpuId(0), Nanos(1_000));
        let (used, _) = pass(&mut many, 0, 13_590);
        assert!((3_200..3_500).contains(&used[first]), "{name}: {used:?}");
    }
}

#[test]
fn a_thread_in_debt_leaves_a_cpu_that_it_may_not_use_any_more() {
    for (name, mut many) in both(2) {
        hogs(&mut many, &[0, 0, 0]);
        let now = Nanos::from_micros(700);
        let thread = many.running(CpuId(0)).unwrap();
        many.set_mask(thread, CpuMask::only(CpuId(1)));
        many.block(CpuId(0), now);
        assert_eq!(many.wake(thread, None, now).cpu, CpuId(1), "{name}");
        let _ = many.choose(CpuId(0), now);
        let (_, idle) = pass(&mut many, 1, 200);
        assert_eq!((idle, many.threads[thread].cpu), (0, CpuId(1)), "{name}");
    }
}

/// Time of the CPU where new threads are made has passed.
#[test]
fn a_thread_made_later_starts_like_others() {
    for (name, mut many) in both(1) {
        hogs(&mut many, &[0]);
        pass(&mut many, 0, 1_000);
        let now = Nanos::from_millis(1_000);
        let late = many.spawn(Share::DEFAULT, now);
        let _ = many.wake(late, Some(CpuId(0)), now);
        let (used, _) = pass(&mut many, 1_000, 1_000);
        assert!((480..520).contains(&used[late]), "{name}: {used:?}");
    }
}

/// A CPU whose threads may all run there only hides no other one (LBF_ALL_PINNED).
#[test]
fn pinned_threads_do_not_hide_others() {
    for (name, mut many) in both(3) {
        let pinned: Vec<_> = (0..4).map(|_| many.spawn(Share::DEFAULT, Nanos::ZERO)).collect();
        for &thread in &pinned {
            many.set_mask(thread, CpuMask::only(CpuId(0)));
            let _ = many.wake(thread, None, Nanos::ZERO);
        }
        for _ in 0..2 {
            let thread = many.spawn(Share::DEFAULT, Nanos::ZERO);
            many.set_mask(thread, CpuMask::only(CpuId(1)));
            let _ = many.wake(thread, None, Nanos::ZERO);
            many.set_mask(thread, CpuMask::first(3));
        }
        let (_, idle) = pass(&mut many, 0, 200);
        assert!(idle < 10, "{name}: idle for {idle} ticks");
    }
}

/// SCHED_IDLE has weight 3, and does not preempt; SCHED_BATCH is as heavy as SCHED_OTHER.
#[test]
fn idle_threads_get_what_is_left() {
    for (name, mut many) in both(1) {
        let share = |policy| Share { policy, ..Share::DEFAULT };
        let threads = [ids::Policy::Other, ids::Policy::Batch, ids::Policy::Idle].map(|policy| {
            let thread = many.spawn(share(policy), Nanos::ZERO);
            let _ = many.wake(thread, None, Nanos::ZERO);
            thread
        });
        let _ = many.choose(CpuId(0), Nanos::ZERO);
        let (used, _) = pass(&mut many, 0, 10_000);
        let [other, batch, idle] = threads.map(|thread| used[thread]);
        assert!(other.abs_diff(batch) < 50 && idle < 60, "{name}: {used:?}");
    }
}
