//! `entresol sim` from the outside: what it prints, what it refuses, and that a failure can be had again.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn sim(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.arg("sim").args(arguments).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

/// Standard output of a run that must succeed.
#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let answer = sim(arguments);
    assert_eq!(answer.status.code(), Some(0), "{arguments:?}: {}", text(&answer.stderr));
    text(&answer.stdout)
}

/// Standard error of a request that must be refused.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let answer = sim(arguments);
    assert_eq!(answer.status.code(), Some(2), "{arguments:?}: {}", text(&answer.stderr));
    assert!(answer.stdout.is_empty(), "nothing has run: {}", text(&answer.stdout));
    text(&answer.stderr)
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("a plain path").to_owned()
}

#[test]
fn list_has_every_scenario_and_profile() {
    let list = succeed(&["list"]);
    for scenario in sim::scenarios() {
        assert!(list.contains(scenario.name) && list.contains(scenario.about), "{}", scenario.name);
    }
    assert!(list.contains("host, smp2007"), "{list}");
}

#[test]
fn the_same_seed_prints_the_same() {
    let run = |seed| succeed(&["run", "hackbench", "--cpus", "2", "--rounds", "2", "--seed", seed]);
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
}

#[test]
fn a_run_leaves_its_pictures_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, page) = (path(&folder, "run.pftrace"), path(&folder, "run.html"));
    let arguments = ["run", "rt-migrate", "--cpus", "2", "--rounds", "2", "--trace", &trace, "--html", &page, "--json"];
    let report: serde_json::Value = serde_json::from_str(&succeed(&arguments)).unwrap();
    assert_eq!((report["scenario"].as_str(), report["cpus"].as_u64()), (Some("rt-migrate"), Some(2)));
    assert!(fs::read(&trace).unwrap().len() > 1_000);
    assert!(fs::read_to_string(&page).unwrap().contains("rt-migrate, 2 CPUs, seed 1"));
}

#[test]
fn contradictions_are_refused_before_anything_runs() {
    for (arguments, word) in [
        (&["run", "no-such"][..], "expected one of rt-migrate"),
        (&["run", "swarm", "--cpus", "2"], "--cpus contradicts"),
        (&["run", "swarm", "--costs", "host"], "--costs contradicts"),
        (&["run", "swarm", "--threads", "2"], "--threads"),
        (&["run", "periodic", "--length", "2"], "--length"),
        (&["run", "periodic", "--cpus", "0"], "--cpus"),
        (&["run", "periodic", "--cpus", "4097"], "--cpus"),
        (&["run", "periodic", "--costs", "none"], "expected one of host, smp2007"),
        (&["run", "periodic", "--trace", "/no/such/folder/t"], "cannot write /no/such/folder/t"),
        (&["run", "periodic", "--trace", "same", "--html", "same"], "same file"),
        (&["run", "swarm", "--plant", "lose-kick", "--no-check"], "--plant contradicts --no-check"),
        (&["run", "swarm", "--plant", "none"], "--plant"),
        (
            &["run", "periodic", "--policy", "2007-passive"],
            "--policy 2007-passive knows real-time threads only: the scenario",
        ),
        (&["run", "rt-migrate", "--policy", "eevdf-6.12"], "--policy eevdf-6.12 knows fair threads"),
        (&["run", "rt-migrate", "--policy", "2007-passive", "--plant", "lose-kick"], "--plant contradicts --policy"),
        (&["sweep", "--seeds", "7..7"], "expected A < B"),
        (&["sweep", "--seeds", "7"], "expected two numbers"),
        (&["sweep"], "--seeds"),
        (&["sweep", "--seeds", "0..9", "--jobs", "0"], "--jobs"),
        (&["sweep", "--seeds", "0..9", "--failures", "/no/such/folder"], "expected a folder"),
        (&["replay", "/no/such/file"], "cannot read /no/such/file"),
    ] {
        let error = refused(arguments);
        assert!(error.contains(word), "{arguments:?}: {error}");
    }
}

#[test]
fn the_historic_balance_fails_where_ours_does_not() {
    let run = |policy| sim(&["run", "rt-migrate", "--costs", "smp2007", "--policy", policy]);
    assert_eq!(run("entresol").status.code(), Some(0));
    assert_eq!(run("2007-push-pull").status.code(), Some(0));
    let passive = run("2007-passive");
    assert_eq!(passive.status.code(), Some(1));
    assert!(text(&passive.stderr).contains("after less urgent thread"), "{}", text(&passive.stderr));
}

#[test]
fn a_wrong_cost_file_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "cost.toml");
    fs::write(&file, "[host]\natomic = \"much\"\n").unwrap();
    let error = refused(&["run", "periodic", "--costs", &file]);
    assert!(error.contains(&file) && error.contains("line 2") && error.contains("expected u64"), "{error}");
    let error = refused(&["run", "periodic", "--costs", &format!("{file}:other")]);
    assert!(error.contains("other") || error.contains("line 2"), "{error}");
}

#[test]
fn a_sound_sweep_says_so() {
    let summary = succeed(&["sweep", "--seeds", "100..110", "--jobs", "2"]);
    assert!(summary.contains("0 of 10 failed; 1 run twice with equal traces"), "{summary}");
}

#[test]
fn a_failure_leaves_a_file_that_shows_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let failures = folder.path().to_str().unwrap();
    let answer = sim(&["sweep", "--seeds", "0..12", "--plant", "resume-twice", "--failures", failures]);
    assert_eq!(answer.status.code(), Some(1), "{}", text(&answer.stderr));
    assert!(text(&answer.stdout).contains("failed"));
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty() && files.len() <= 10);
    for file in &files {
        let error = text(&answer.stderr);
        assert!(error.contains(&format!("entresol sim replay {}", file.display())), "{error}");
        replays(file);
    }
}

/// The same trace, and the same words.
fn replays(file: &Path) {
    let stored: serde_json::Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let again = sim(&["replay", file.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stdout).contains("the same trace as in"), "{}", text(&again.stdout));
    assert!(text(&again.stderr).contains(stored["failure"].as_str().unwrap()));
    assert!(text(&again.stderr).contains("what happened last:"));
}

#[test]
fn a_damaged_replay_file_is_refused_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "failure.json");
    fs::write(&file, "{\n  \"entresol_replay\": 1,\n  \"seed\": \"five\"\n}\n").unwrap();
    let error = refused(&["replay", &file]);
    assert!(error.contains(&file) && error.contains("expected u64 at line 3"), "{error}");
}

#[test]
fn calibrate_writes_a_file_that_can_be_used() {
    if fs::read_to_string("/proc/self/maps").unwrap().contains("/libentresol") {
        println!("SKIPPED: calibrate refuses to measure inside Entresol");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "cost.toml");
    assert_eq!(succeed(&["calibrate", "--quick", "--write", &file]), "");
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("[smp2007]") && written.contains("# a host signal taken"), "{written}");
    let report = succeed(&["run", "schbench", "--cpus", "2", "--rounds", "2", "--costs", &file]);
    assert!(report.contains("wake-up p99"), "{report}");
}

const APP: &str = r#"{
    "global": { "duration": 0.2 },
    "tasks": { "beat": { "instance": 3, "policy": "SCHED_FIFO", "loop": -1, "run": 500,
                         "timer": { "ref": "unique", "period": 5000 } } }
}"#;

#[test]
fn an_rt_app_file_runs_and_its_failures_replay() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "beat.json");
    fs::write(&file, APP).unwrap();
    let report = succeed(&["run", &file, "--cpus", "2", "--seed", "9"]);
    assert!(report.contains("beat-2") && report.contains("Fifo 10"), "{report}");

    let failures = folder.path().to_str().unwrap();
    let planted = ["sweep", &file, "--seeds", "0..2", "--plant", "resume-twice", "--failures", failures];
    assert_eq!(sim(&planted).status.code(), Some(1));
    fs::remove_file(&file).unwrap();
    replays(&folder.path().join("entresol-beat-0.json"));
}

#[test]
fn a_wrong_rt_app_file_is_refused_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "app.json");
    for (text, line, expected) in [
        (APP.replace("\"run\"", "\"memrun\""), 3, "\"memrun\" is not built here, because its time is that of caches"),
        (APP.replace("0.2 }", "0.2"), 5, "expected a comma or '}'"),
        (APP.replace("\"loop\"", "\"cpus\": [7], \"loop\""), 3, "CPU 7: expected one of 0 to 3"),
    ] {
        fs::write(&file, text).unwrap();
        let error = refused(&["run", &file]);
        assert!(error.contains(&format!("{file}: line {line}: ")) && error.contains(expected), "{error}");
    }
    fs::write(&file, APP).unwrap();
    assert!(refused(&["run", &file, "--threads", "3"]).contains("the file says it"));
    assert!(refused(&["run", &path(&folder, "none.json")]).contains("cannot read"));
}
