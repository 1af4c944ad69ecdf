//! Shows that the fuzzer finds faults: each of ten is planted in turn, and the first program that differs because of it is named.
//! The command must have been built with the feature `planted`.

use std::time::{Duration, Instant};

use crate::program::{self, Kind};
use crate::run::{Runner, SETTINGS, difference};

/// What `crates/arch/src/planted.rs` and `crates/host/src/carriers/planted.rs` can plant that shows in what a program observes.
const FAULTS: [&str; 10] = [
    "munmap-kept",
    "protection-ignored",
    "advice-ignored",
    "wrong-error",
    "signal-lost",
    "close-range-flags",
    "direction-flag",
    "never-restarts",
    "vectors-lost",
    "trap-unknown",
];
const LIMIT: Duration = Duration::from_secs(600);

/// Whether all were found in time.
#[must_use]
pub fn all(runner: &Runner, kinds: &[Kind], start: u64) -> bool {
    let missed = FAULTS.iter().filter(|fault| !find(runner, kinds, start, fault)).count();
    missed == 0
}

fn find(runner: &Runner, kinds: &[Kind], start: u64, fault: &str) -> bool {
    let begin = Instant::now();
    for seed in (start..).take_while(|_| begin.elapsed() < LIMIT) {
        let text = program::text(&program::random(kinds, seed));
        let native = runner.run(&text, None);
        let setting = SETTINGS[seed as usize % SETTINGS.len()];
        let Some((expected, got)) = difference(&native, &runner.run_planted(&text, setting, fault)) else { continue };
        // It is due to the fault: without it the program tells each time what it tells natively, with it never.
        let same =
            || difference(&native, &runner.run(&text, Some(setting))).is_none() && runner.run(&text, None) == native;
        let differs = || difference(&native, &runner.run_planted(&text, setting, fault)).is_some();
        if (0..4).all(|_| same() && differs()) {
            let programs = seed - start + 1;
            println!("{fault}: found in {} s, program {programs}\n  {expected}\n  {got}", begin.elapsed().as_secs());
            return true;
        }
    }
    println!("{fault}: NOT FOUND in {} s", begin.elapsed().as_secs());
    false
}
