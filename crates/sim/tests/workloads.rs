//! The registered scenarios: they run, they pass their own rule, they repeat.

use entresol_sim::{Cost, Options, scenario, scenarios};

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

/// The order of magnitude of the patch's own figures, and that it does not hang on the costs.
#[test]
fn rt_migrate_on_the_machine_of_2007() {
    let run = scenario("rt-migrate").expect("registered").run;
    let cost = Cost::profile("smp2007").expect("in the file");
    for percent in [50, 100, 200] {
        let options = Options { cost: cost.scaled(percent), ..Options::default() };
        let report = run(1, 4, &options);
        assert_eq!(report.failure, None, "costs at {percent} %");
        let worst = report.get("top threads' start max").expect("measured");
        assert!(worst < 1000.0, "{worst} µs with costs at {percent} %");
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
