//! The registered scenarios: they run, they pass their own rule, they repeat.

use entresol_sim::{Cost, Options, Policy, scenario, scenarios};

#[test]
fn every_scenario_runs_and_repeats() {
    for s in scenarios() {
        let small = Options { rounds: Some(3), ..Options::default() };
        let a = (s.run)(11, 3, &small);
        assert_eq!(a.failure, None, "{}", s.name);
        assert!(a.events > 0 && a.get("threads").is_some_and(|n| n > 1.0), "{}", s.name);
        assert!(a.tables.iter().all(|t| t.rows.iter().all(|r| r.len() == t.columns.len())), "{}", s.name);
        assert_eq!((s.run)(11, 3, &small).hash, a.hash, "{}", s.name);
    }
    assert!(scenario("rt-migrate").is_some() && scenario("no such").is_none());
}

#[test]
fn rt_migrate_passes_on_4_16_and_128_cpus() {
    let run = scenario("rt-migrate").expect("registered").run;
    for (cpus, threads, rounds) in [(4, 5, 50), (4, 16, 50), (16, 17, 50), (16, 64, 5), (128, 129, 3)] {
        let options = Options { threads: Some(threads), rounds: Some(rounds), ..Options::default() };
        let report = run(1, cpus, &options);
        assert_eq!(report.failure, None, "{threads} threads on {cpus} CPUs");
    }
}

/// The top threads' starts on the patch's own machine (4 CPUs, 5 threads), µs: mean and worst over the seeds.
fn on_the_machine_of_2007(policy: Policy, cost: &Cost) -> (f64, f64) {
    let run = scenario("rt-migrate").expect("registered").run;
    let starts = (1..=3).map(|seed| {
        let report = run(seed, 4, &Options { cost: cost.clone(), policy, ..Options::default() });
        assert_eq!(report.failure.is_some(), policy == Policy::Passive, "{policy:?}: {:?}", report.failure);
        let value = |name| report.get(name).expect("measured");
        (value("top threads' start mean"), value("top threads' start max"))
    });
    let all: Vec<_> = starts.collect();
    (all.iter().map(|s| s.0).sum::<f64>() / all.len() as f64, all.iter().map(|s| s.1).fold(0.0, f64::max))
}

/// Before: 20 ms. After: 31 to 61 µs. Each within a factor of two.
#[test]
fn the_seeds_figures_come_out() {
    let cost = Cost::profile("smp2007").expect("in the file");
    let (_, before) = on_the_machine_of_2007(Policy::Passive, &cost);
    assert!((10_000.0..40_000.0).contains(&before), "before: {before} µs");
    for policy in [Policy::Active, Policy::Both, Policy::Entresol] {
        let (mean, worst) = on_the_machine_of_2007(policy, &cost);
        assert!((31.0 / 2.0..=61.0 * 2.0).contains(&mean), "{policy:?}: mean {mean} µs");
        assert!((31.0 / 2.0..=61.0 * 2.0).contains(&worst), "{policy:?}: worst {worst} µs");
    }
}

/// What the figures show does not hang on any one cost: passive is the worst by far with each of them halved and
/// doubled, and ours is not behind the patch.
#[test]
fn the_order_stays_with_every_cost_halved_and_doubled() {
    let cost = Cost::profile("smp2007").expect("in the file");
    for name in Cost::NAMES {
        for percent in [50, 200] {
            let changed = cost.with_one_scaled(name, percent).expect("it has that name");
            let worst = |policy| on_the_machine_of_2007(policy, &changed).1;
            let [passive, patch, both, ours] =
                [Policy::Passive, Policy::Active, Policy::Both, Policy::Entresol].map(worst);
            let all = format!("{name} at {percent} %: {passive} {patch} {both} {ours}");
            assert!(passive > 20.0 * patch && passive > 20.0 * both && passive > 20.0 * ours, "{all}");
            assert!(ours < 2.0 * patch, "{all}");
        }
    }
}

#[test]
fn periodic_threads_at_70_percent_meet_their_deadlines() {
    let run = scenario("periodic").expect("registered").run;
    for seed in 0..3 {
        let report = run(seed, 4, &Options::default());
        assert_eq!((report.failure.clone(), report.get("deadlines missed")), (None, Some(0.0)), "seed {seed}");
    }
}

/// Fair threads that are woken wait for others' slices, not for all that these have to do: with `w` workers on `c` CPUs, and
/// two threads that wake them, 99 of 100 run within `w / c + 1` slices and the tick in which time is seen.
#[test]
fn woken_workers_of_schbench_wait_for_a_slice_of_each_other_at_most() {
    const SLICE_US: f64 = 1_400.0; // 0.7 ms × (1 + log2 2)
    const TICK_US: f64 = 1_000.0;
    let run = scenario("schbench").expect("registered").run;
    for workers in [2, 8, 32] {
        let options = Options { threads: Some(workers / 2), rounds: Some(100), ..Options::default() };
        let of_seeds = [1, 2, 3, 4].map(|seed| run(seed, 2, &options).get("wake-up p99").expect("measured"));
        let p99 = of_seeds.iter().sum::<f64>() / of_seeds.len() as f64;
        let bound = (workers as f64 / 2.0 + 1.0) * SLICE_US + TICK_US;
        assert!(p99 <= bound, "{workers} workers: {of_seeds:?}, at most {bound} µs");
    }
}

/// All threads begin on one or two of a thousand CPUs, and the others sleep: the threads spread within a few slices. The
/// whole run and the p99 of the wake-ups are about as long as under the simulated Linux.
#[test]
fn woken_workers_of_schbench_spread_over_a_thousand_cpus() {
    const SLICE_US: f64 = 2_800.0; // 0.7 ms × (1 + log2 8)
    const TICK_US: f64 = 1_000.0;
    let run = scenario("schbench").expect("registered").run;
    let of = |policy| {
        let report = run(1, 1024, &Options { policy, rounds: Some(5), check: false, ..Options::default() });
        (report.time_ns as f64, report.get("wake-up p99").expect("measured"))
    };
    let (ours, linux) = (of(Policy::Entresol), of(Policy::Eevdf));
    assert!(ours.0 <= 1.1 * linux.0 && ours.1 <= 1.5 * linux.1, "{ours:?}, Linux {linux:?}");
    assert!(ours.1 <= 5.0 * SLICE_US + TICK_US, "{ours:?}");
}

/// Why Linux turned the pull round: where many CPUs become less urgent together, those that pull keep the locks that
/// who is woken needs. On a small machine it makes no difference.
#[test]
fn where_cpus_are_many_a_roaming_push_spares_the_locks() {
    let run = scenario("rt-storm").expect("registered").run;
    let of = |policy, cpus| {
        let cost = Cost::profile("smp2007").expect("in the file");
        let report = run(1, cpus, &Options { policy, cost, rounds: Some(5), ..Options::default() });
        assert_eq!(report.failure, None, "{policy:?} on {cpus} CPUs");
        assert!(report.get("work of low priority").is_some_and(|ms| ms > 0.0), "{policy:?} on {cpus} CPUs");
        let value = |name| report.get(name).expect("measured");
        (value("waiting for locks, a wake-up"), value("wake-up p99"))
    };
    let [pull, push] = [Policy::Active, Policy::Roaming].map(|policy| of(policy, 256));
    assert!(pull.0 > 10.0 * push.0 && pull.1 > 1.5 * push.1, "pull {pull:?}, roaming push {push:?}");
    let [pull, push] = [Policy::Active, Policy::Roaming].map(|policy| of(policy, 4));
    assert!(pull.0 < 1.0 && push.0 < 1.0 && pull.1 < 2.0 * push.1, "pull {pull:?}, roaming push {push:?}");
}

/// Linux's fair schedulers finish the same work in about the same time, because none of them leaves a CPU idle for long.
#[test]
fn fair_schedulers_do_the_same_work() {
    for (name, threads) in [("schbench", 4), ("schbench", 16), ("hackbench", 4)] {
        let run = scenario(name).expect("registered").run;
        let time = |policy| {
            let options = Options { policy, threads: Some(threads), rounds: Some(40), ..Options::default() };
            let report = run(1, 8, &options);
            assert_eq!(report.failure, None, "{name} under {}", policy.name());
            report.time_ns as f64
        };
        let ours = time(Policy::Entresol);
        for policy in [Policy::Cfs, Policy::Eevdf] {
            let ratio = time(policy) / ours;
            assert!((0.8..2.0).contains(&ratio), "{name} under {}: {ratio} times as long", policy.name());
        }
    }
}

/// A fair rt-app file runs under each of them; one with real-time threads is told from it.
#[test]
fn fair_files_run_under_linux_schedulers() {
    use entresol_sim::workload::rtapp::Workload;
    let thread = |policy: &str| {
        let file = format!(
            r#"{{"tasks": {{"a": {{"instance": 3, "loop": 20, {policy} "run": 3000, "sleep": 1000, "yield": "", "lock": "m",
               "run1": 50, "unlock": "m", "barrier": "b", "sem_post": "s", "sem_wait": "s"}},
               "b": {{"loop": 20, "priority": 5, "cpus": [1], "run": 2000, "fork": "c", "sleep": 500}},
               "c": {{"loop": 1, "policy": "SCHED_IDLE", "run": 100, "runtime": 0}}}}, "global": {{"default_policy": "SCHED_OTHER"}}}}"#
        );
        Workload::parse(&file).expect("it is a workload")
    };
    assert!(!thread(r#""policy": "SCHED_FIFO", "priority": 10,"#).is_fair());
    let workload = thread("");
    assert!(workload.is_fair());
    for policy in [Policy::Entresol, Policy::Cfs, Policy::Eevdf] {
        let report = workload.run("a", 1, 2, &Options { policy, ..Options::default() });
        assert_eq!((report.failure.clone(), report.get("loops")), (None, Some(101.0)), "{}", policy.name());
    }
}
