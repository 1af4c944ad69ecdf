//! Published behaviour of each design, and the paper's theorem.

use super::*;
use alloc::vec;
use proptest::prelude::*;

const TICK: Nanos = Nanos::from_millis(1);
const SECOND: Nanos = Nanos::from_secs(1);

fn hog(share: Share) -> Load {
    Load { share, begins: Nanos::ZERO, bursts: vec![] }
}

fn nice(nice: i8) -> Share {
    Share { nice: Nice(nice), ..Share::DEFAULT }
}

fn slice(micros: u64) -> Share {
    Share { slice: Nanos::from_micros(micros), ..Share::DEFAULT }
}

fn sleeper(share: Share, run_micros: u64, sleep_micros: u64) -> Load {
    let burst = Burst { run: Nanos::from_micros(run_micros), sleep: Nanos::from_micros(sleep_micros) };
    Load { bursts: vec![burst], ..hog(share) }
}

/// Received time in per mille of the time due.
fn due(served: &Served) -> u64 {
    served.received.0 * 1000 / served.ideal.0
}

fn worst_wait(served: &Served) -> Nanos {
    *served.waits[1..].iter().max().expect("it waited")
}

prop_compose! {
    fn clients()(
        clients in prop::collection::vec((-10i8..10, 100u64..8_000, 0u64..50_000), 2..9),
    ) -> Vec<Load> {
        let load = |(value, micros, begins)| Load {
            begins: Nanos::from_micros(begins),
            ..hog(Share { nice: Nice(value), ..slice(micros) })
        };
        clients.into_iter().map(load).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Theorem 1: −r < lag < max(r, q). Clients join, which they do without lag. A nanosecond is for rounding.
    #[test]
    fn the_papers_bounds_hold(loads in clients(), quantum in 100u64..8_000) {
        let quantum = Nanos::from_micros(quantum);
        let outcome = run(&mut Paper::new(quantum), &loads, TICK, Nanos::from_millis(400));
        for (load, served) in loads.iter().zip(&outcome.threads) {
            let request = load.share.slice;
            prop_assert!(served.ahead <= request.0 as i64 + 1, "{served:?} of {load:?}");
            prop_assert!(served.owed <= request.max(quantum).0 as i64 + 1, "{served:?} of {load:?}");
        }
    }

    /// Linux ends a slice at the first tick after its end. By the argument of the paper's proof, what is owed to a thread is below
    /// the longest slice and, for each thread, a tick; no tick here is longer than a slice. Ours does the same in less.
    #[test]
    fn both_successors_stay_within_a_slice_and_a_tick_for_each(loads in clients(), tick in 100u64..10_000) {
        let slices = || loads.iter().map(|load| load.share.slice);
        let (shortest, longest) = (slices().min().unwrap(), slices().max().unwrap());
        let tick = Nanos::from_micros(tick).min(shortest);
        for mut design in [Box::new(Linux::new(tick)) as Box<dyn Fair>, Box::new(Ours::new(tick).unwrap())] {
            let outcome = run(&mut *design, &loads, tick, Nanos::from_millis(400));
            for (load, served) in loads.iter().zip(&outcome.threads) {
                let (ahead, owed) = (load.share.slice.0 + tick.0, longest.0 + loads.len() as u64 * tick.0);
                prop_assert!(served.ahead <= ahead as i64, "{}: {served:?} of {load:?}", design.name());
                prop_assert!(served.owed <= owed as i64, "{}: {served:?} of {load:?}", design.name());
            }
        }
    }

    /// The CPU is never idle while a thread wants it.
    #[test]
    fn every_design_conserves_work(
        bursts in prop::collection::vec((1u64..5_000, 1u64..20_000, 0u64..9_000), 1..7),
    ) {
        let load = |(run, sleep, begins)| Load { begins: Nanos::from_micros(begins), ..sleeper(Share::DEFAULT, run, sleep) };
        let loads: Vec<Load> = bursts.into_iter().map(load).collect();
        for mut design in all(TICK) {
            let outcome = run(&mut *design, &loads, TICK, Nanos::from_millis(200));
            let sum = |of: fn(&Served) -> Nanos| outcome.threads.iter().map(|served| of(served).0).sum::<u64>();
            // The ideal machine counts a thread's time only while it wants to run here.
            let (received, ideal) = (sum(|served| served.received), sum(|served| served.ideal));
            prop_assert!(received.abs_diff(ideal) <= loads.len() as u64, "{}: {received} of {ideal}", design.name());
        }
    }
}

/// "These bounds are asymptotically tight."
#[test]
fn the_last_of_many_is_owed_nearly_a_quantum() {
    let loads = vec![hog(slice(1_000)); 50];
    let outcome = run(&mut Paper::new(TICK), &loads, TICK, SECOND);
    let owed = outcome.threads.iter().map(|served| served.owed).max().unwrap();
    assert!((970_000..1_000_000).contains(&owed), "{owed}");
}

/// One nice level is about a tenth of the CPU: 55 and 45 of 100 (`sched-nice-design.rst`).
#[test]
fn a_nice_level_is_a_tenth_of_the_cpu() {
    for mut design in all(TICK) {
        let outcome = run(&mut *design, &[hog(nice(0)), hog(nice(1))], TICK, Nanos::from_secs(4));
        let part = outcome.threads[0].received.0 * 1000 / Nanos::from_secs(4).0;
        assert!((553..=558).contains(&part), "{}: {part} per mille", design.name());
    }
}

/// Up to eight threads run once in 6 ms, more of them for 0.75 ms each (`sched-design-CFS.rst`, `__sched_period`).
#[test]
fn a_period_of_cfs_is_six_milliseconds_or_longer() {
    // Slices end at ticks: with one every 50 µs they are as long as they are meant.
    let tick = Nanos::from_micros(50);
    for (threads, micros) in [(2u64, 3_000u64), (3, 2_000), (6, 1_000), (8, 750), (16, 750)] {
        let loads = vec![hog(Share::DEFAULT); threads as usize];
        let outcome = run(&mut Cfs::default(), &loads, tick, Nanos::from_secs(2));
        let each = 2_000_000 / outcome.switches;
        assert!((micros..=micros + 60).contains(&each), "{threads} threads: {each} µs");
    }
}

/// A sleeper is placed half a period before the others: it runs at once when it wakes, for a short burst.
#[test]
fn a_sleeper_of_cfs_preempts() {
    let loads = [hog(Share::DEFAULT), hog(Share::DEFAULT), sleeper(Share::DEFAULT, 500, 20_000)];
    let outcome = run(&mut Cfs::default(), &loads, TICK, SECOND);
    assert_eq!(worst_wait(&outcome.threads[2]), Nanos::ZERO);
}

/// The credit is half a period at most, however long the sleep was: behind it the thread has what its weight says.
#[test]
fn sleepers_of_cfs_earn_half_a_period_at_most() {
    let loads = [hog(Share::DEFAULT), sleeper(Share::DEFAULT, 40_000, 500_000)];
    let outcome = run(&mut Cfs::default(), &loads, TICK, SECOND);
    let ahead = outcome.threads[1].ahead;
    // Half of its credit of virtual time, and what it runs before the other's turn comes.
    assert!((cfs::PERIOD / 4..cfs::PERIOD / 2).contains(&ahead), "{ahead}");
}

/// A thread that sleeps as long as it runs gets half of the CPU beside one that computes, though a third is its due: the fault
/// for which sleepers lost their credit with EEVDF. The others give it no more than its due.
#[test]
fn sleeping_half_of_the_time_pays_under_cfs_only() {
    let loads = [hog(Share::DEFAULT), sleeper(Share::DEFAULT, 2_000, 2_000)];
    for mut design in all(TICK) {
        let time = Nanos::from_secs(4);
        let outcome = run(&mut *design, &loads, TICK, time);
        let part = outcome.threads[1].received.0 * 1000 / time.0;
        let expected = if design.name().starts_with("CFS") { 480..=500 } else { 300..=400 };
        assert!(expected.contains(&part), "{}: {part} per mille of the CPU", design.name());
    }
}

/// "Doing so will allow a task to game the system by purposefully (micro) sleeping at the end of its time quantum"
/// (the message of `DELAY_DEQUEUE`).
#[test]
fn sleeping_for_a_moment_sheds_no_debt() {
    let loads = [hog(Share::DEFAULT), hog(Share::DEFAULT), sleeper(Share::DEFAULT, 2_990, 1)];
    for mut design in all(TICK) {
        let outcome = run(&mut *design, &loads, TICK, Nanos::from_secs(4));
        let due = due(&outcome.threads[2]);
        assert!(due <= 1_030, "{}: {due} per mille of its share", design.name());
    }
}

/// A thread that asks for a short slice waits less and gets no more ("allows latency-sensitive tasks with shorter time slices to
/// be prioritized", `sched-eevdf.rst`).
#[test]
fn a_short_slice_buys_latency_and_no_time() {
    let others = [hog(Share::DEFAULT), hog(Share::DEFAULT), hog(Share::DEFAULT)];
    let designs: [fn() -> Box<dyn Fair>; 2] = [|| Box::new(Linux::new(TICK)), || Box::new(Ours::new(TICK).unwrap())];
    for design in designs {
        let mean_wait = |micros| {
            let loads = [&others[..], &[sleeper(slice(micros), 400, 2_617)]].concat();
            let outcome = run(&mut *design(), &loads, TICK, Nanos::from_secs(4));
            let waits = &outcome.threads[3].waits;
            waits.iter().map(|wait| wait.0).sum::<u64>() / waits.len() as u64
        };
        let (name, short, long) = (design().name(), mean_wait(500), mean_wait(3_000));
        assert!(short < long, "{name}: {short} ns, {long} ns on average");
        let loads = [&others[..], &[hog(slice(500))]].concat();
        let due = due(&run(&mut *design(), &loads, TICK, Nanos::from_secs(4)).threads[3]);
        assert!((998..=1_002).contains(&due), "{name}: {due} per mille of its share");
    }
}
