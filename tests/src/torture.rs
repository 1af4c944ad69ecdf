//! `programs/torture`: threads that hold patterns in every register over computations and system calls, and mix
//! them with everything that moves threads about: locks, waiting calls, signals, timers, fork and exec. Meanwhile the order
//! of real-time threads is sampled (`crates/host/src/process/order.rs`). Four seconds, or `ENTRESOL_TORTURE_SECS`.

use std::time::Duration;

use libtest_mimic::Trial;

use crate::compile::compile;
use crate::directives::Directives;
use crate::form::Form;
use crate::places;
use crate::run::Run;
use crate::trial::{Conditions, trial};

const SECONDS: u64 = 4;
/// How long the program waits for its threads before it says which of them do not end, and some more.
const GRACE: Duration = Duration::from_secs(90);
/// More than the CPUs, so that every hold is interrupted; few enough that each comes to run often.
const THREADS: u64 = 16;
/// A tick of 50 µs.
const HZ: &str = "20000";

/// One test for two CPUs and one for four.
#[must_use]
pub fn trials() -> Vec<Trial> {
    let conditions = Conditions { alone: true, ..Conditions::default() };
    let with_cpus = |cpus: &'static str| trial(format!("torture@{cpus}"), &conditions, move || torture(cpus));
    vec![with_cpus("2"), with_cpus("4")]
}

fn torture(cpus: &str) -> Result<(), String> {
    let seconds = match std::env::var("ENTRESOL_TORTURE_SECS") {
        Ok(text) => text.parse().map_err(|error| format!("ENTRESOL_TORTURE_SECS={text}: {error}"))?,
        Err(_) => SECONDS,
    };
    let source = places::programs().join("torture/torture.c");
    let text = std::fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    let program = compile(&source, &Directives::parse(&text)?, Form::Dynamic)?.program;
    let seed = u64::from(std::process::id());
    let outcome = Run::new(program)
        .args([seconds, THREADS, seed].map(|number| number.to_string()))
        .timeout(Duration::from_secs(seconds) + GRACE)
        .under_entresol_as_nobody(&["--cpus", cpus, "--hz", HZ, "--check-order"])?;
    let last_line = String::from_utf8_lossy(&outcome.stdout).lines().last().unwrap_or_default().to_owned();
    if outcome.succeeded() && last_line.ends_with(" 0 corruptions") {
        println!("{cpus} CPUs, {seconds} s, seed {seed}: {last_line}");
        return Ok(());
    }
    Err(outcome.describe())
}
