//! Tests the tests: each deliberate fault must be caught by some scene or some random life.

mod support;

use entresol_sched::{Config, Fault};
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::lives::run;
use support::scenes::SCENES;

/// What catches the fault, if anything does. A panic inside the scheduler counts: it would be seen.
fn caught_by(fault: Fault) -> Option<String> {
    let config = Config { fault: Some(fault), ..Config::default() };
    let fails = |play: &dyn Fn() -> bool| catch_unwind(AssertUnwindSafe(play)).unwrap_or(true);
    for (name, play) in SCENES {
        if fails(&|| play(&config).is_err()) {
            return Some((*name).into());
        }
    }
    (0..400)
        .find(|&seed| fails(&|| run(&config, seed, 1 + seed as usize % 4, 300).is_err()))
        .map(|s| format!("seed {s}"))
}

#[test]
fn every_planted_fault_is_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<_> = Fault::ALL
        .into_iter()
        .filter(|&f| {
            let by = caught_by(f);
            println!("{f:?}: {by:?}");
            by.is_none()
        })
        .collect();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "nothing catches {missed:?}");
}
