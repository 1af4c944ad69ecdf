//! `entresol compare`: all three sides do what the file, or the scenario, says. How fast is for the reader of the table.

use std::path::Path;
use std::process::{Command, Output};

/// Threads that meet in every way that a file knows, each with a number of loops.
const ALL_KINDS: &str = r#"{ "tasks": {
    "waiter": { "loop": 5, "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m", "barrier": "b" },
    "caller": { "loop": 5, "sleep": 100000, "lock": "m", "signal": "c", "unlock": "m", "barrier": "b" },
    "asleep": { "loop": 2, "suspend": "asleep", "run": 10 },
    "alarm": { "loop": 2, "sleep": 100000, "resume": "asleep" },
    "walker": { "loop": 3, "phases": { "here": { "loop": 2, "cpus": [0], "run": 100, "sleep": 50 },
                                       "there": { "runtime": 100, "yield": "", "fork": "helper" } } },
    "helper": { "instance": 0, "loop": 2, "mem": 10000, "iorun": 10000, "sleep": 50 },
    "poster": { "loop": 3, "sem_post": "s", "sem_post": "s", "sleep": 100 },
    "taker": { "loop": 6, "sem_wait": "s", "run": 10 },
    "ticker": { "loop": 4, "run": 10, "timer": { "ref": "unique", "period": 5000, "mode": "absolute" } } } }"#;

fn entresol(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_entresol")).args(arguments).output().expect("the command can be started")
}

fn file(folder: &Path, text: &str) -> String {
    let file = folder.join("app.json");
    std::fs::write(&file, text).expect("the file can be written");
    file.to_str().expect("temporary names are UTF-8").to_owned()
}

#[test]
fn all_sides_run_the_same_script() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = file(folder.path(), ALL_KINDS);
    let output = entresol(&["compare", &file, "--runs", "2", "--cpus", "1", "--costs", "host", "--json"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    assert_eq!(all["failures"].as_array().map(Vec::len), Some(0), "{all}");
    let rows = all["rows"].as_array().expect("rows");
    // Of two runs: sleeps, and periods that were not over when they were asked for.
    for (thread, quantity, samples) in [
        ("caller-0", "wake-up", 10),
        ("alarm-0", "wake-up", 4),
        ("walker-0", "wake-up", 12),
        ("helper, forked", "wake-up", 12),
    ] {
        let row = rows.iter().find(|row| row["thread"] == thread && row["quantity"] == quantity).expect("such a row");
        for side in ["simulated", "entresol", "native"] {
            assert_eq!(row[side]["samples"], samples, "{thread} {side}: {row}");
            assert!(row[side]["p50"].as_f64() <= row[side]["max"].as_f64(), "{row}");
        }
    }
}

/// Of two runs, each of them with 2 threads (or groups) and 3 rounds: workers times rounds; pairs times rounds; rounds, and
/// rounds times all threads but the least urgent.
#[test]
fn all_sides_run_the_same_scenario() {
    for (scenario, expected, count) in [
        ("schbench", &[("wake-up", 2 * 4 * 3)][..], None),
        ("hackbench", &[("time a message", 2), ("in the queue", 2 * 50 * 3)], Some(("messages", 2 * 50 * 3))),
        ("rt-migrate", &[("highest thread's start", 2 * 3), ("top threads' start", 2 * 3)], None),
    ] {
        let options = ["--threads", "2", "--rounds", "3", "--runs", "2", "--cpus", "1", "--json"];
        let output = entresol(&[&["compare", scenario], &options[..]].concat());
        assert!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&output.stderr));
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
        assert_eq!(all["failures"].as_array().map(Vec::len), Some(0), "{all}");
        let rows = all["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), expected.len(), "{all}");
        for (quantity, samples) in expected {
            let row = rows.iter().find(|row| row["quantity"] == *quantity).expect("such a row");
            for side in ["simulated", "entresol", "native"] {
                assert_eq!(row[side]["samples"], *samples, "{scenario} {side}: {row}");
            }
        }
        if let Some((what, n)) = count {
            let counted = all["counts"].as_array().and_then(|counts| counts.iter().find(|one| one["what"] == what));
            let counted = counted.unwrap_or_else(|| panic!("{what}: {all}"));
            assert!(["simulated", "entresol", "native"].iter().all(|side| counted[side] == n), "{counted}");
        }
        assert!(all["costs"]["switch"].as_u64() > Some(0) && all["costs_are"].as_str().is_some(), "{all}");
    }
}

#[test]
fn live_threads_that_still_wait_at_the_end_are_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file =
        file(folder.path(), r#"{ "global": { "duration": 0.2 }, "tasks": { "stuck": { "run": 10, "suspend": "" } } }"#);
    let output = entresol(&["compare", &file, "--runs", "1", "--cpus", "1", "--costs", "host"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fine = file(folder.path(), r#"{ "tasks": { "a": { "loop": 1, "run": 10, "cpus": [1] } } }"#);
    for (arguments, sentence) in [
        (vec!["compare", "periodic"], "is a scenario of the simulator without a live form: expected one of rt-migrate"),
        (vec!["compare", "none"], "there is no scenario 'none'"),
        (vec!["compare", &fine, "--rounds", "2"], "the file says it"),
        (vec!["compare", "schbench", "--write", "a", "--html", "a"], "name the same file"),
        (vec!["compare", "/nonexistent.json"], "cannot read /nonexistent.json"),
        (vec!["compare", &fine, "--cpus", "4096"], "expected --cpus"),
        (vec!["compare", &fine, "--cpus", "1"], "CPU 1: expected one of 0 to 0"),
        (vec!["compare", &fine, "--costs", "none"], "--costs none"),
    ] {
        let output = entresol(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(sentence), "{arguments:?}: {errors}");
    }
}
