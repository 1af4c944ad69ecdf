//! `entresol chaos`: programs with one planted bug each, which fail natively next to never, are found out with a fixed seed, and
//! fail again each time their schedule is repeated; nothing is found in programs that are right.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How often a schedule is repeated.
const REPEATS: usize = 20;

struct Room {
    folder: tempfile::TempDir,
}

impl Room {
    fn new() -> Room {
        Room { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/chaos/{name}.c"));
        let program = self.path(name);
        let done = Command::new("cc").args(["-g", "-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
        assert!(done.expect("a C compiler").success());
        program
    }

    fn chaos(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.arg("300").arg(env!("CARGO_BIN_EXE_entresol")).arg("chaos").args(arguments);
        command.current_dir(self.folder.path()).output().expect("entresol chaos")
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Finds the bug within so many runs, repeats it, and reduces it to at most so many switches.
fn found(name: &str, says: &str, switches_max: usize) {
    let room = Room::new();
    let program = room.compile(name);
    let explored = room.chaos(&["--runs", "2000", "--seed", "1", "--", program.to_str().unwrap()]);
    let said = text(&explored);
    assert_eq!(explored.status.code(), Some(1), "{said}");
    assert!(said.contains(says), "{said}");
    for _ in 0..REPEATS {
        let again = room.chaos(&["--replay", "chaos.json"]);
        assert_eq!(again.status.code(), Some(1), "{}", text(&again));
        assert!(text(&again).contains(says), "{}", text(&again));
    }
    let reduced = room.chaos(&["--bisect", "chaos.json", "-o", "least.json"]);
    let said = text(&reduced);
    assert_eq!(reduced.status.code(), Some(1), "{said}");
    let needed: usize =
        said.lines().find_map(|line| line.split(" of ").next()?.parse().ok()).expect("how many are needed");
    assert!(needed <= switches_max, "{said}");
    let again = room.chaos(&["--replay", "least.json"]);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again));
}

#[test]
fn mutexes_taken_in_opposite_orders() {
    found("mutex_order", "deadlock", 2);
}

#[test]
fn a_signal_before_the_wait() {
    found("lost_signal", "deadlock", 2);
}

#[test]
fn a_check_and_an_act_apart() {
    found("check_then_act", "exit status 3", 2);
}

#[test]
fn two_stores_next_to_each_other() {
    found("adjacent_stores", "signal 6", 3);
}

/// The run is held while the crash is reported, and something else may be mapped there meanwhile.
#[test]
fn a_store_to_a_page_that_is_gone() {
    found("unmapped", "signal 11", 3);
}

#[test]
fn an_update_that_is_lost() {
    found("lost_update", "exit status 1", 3);
}

/// The host finds at other moments in each run that a thread computes; a repeated run lets others run in the same places.
#[test]
fn threads_that_compute_for_long() {
    found("long_computation", "exit status 3", 4);
}

/// The host's clock that comes before a system call makes no choice of its own: all runs have as many.
#[test]
fn threads_that_make_many_calls() {
    let room = Room::new();
    let program = room.compile("short_calls");
    let choices = |arguments: &[&str]| {
        let ended = room.chaos(arguments);
        assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
        let said = text(&ended);
        said.split(", ").find(|part| part.ends_with(" choices")).expect("how many choices").to_owned()
    };
    let first = choices(&["--runs", "2000", "--seed", "1", "--", program.to_str().unwrap()]);
    for _ in 0..REPEATS {
        assert_eq!(choices(&["--replay", "chaos.json"]), first);
    }
}

#[test]
fn by_each_strategy() {
    let room = Room::new();
    for name in ["lost_update", "mutex_order", "adjacent_stores"] {
        let program = room.compile(name);
        for strategy in ["random", "surw", "dfs:2"] {
            let options = ["--runs", "2000", "--strategy", strategy, "--jobs", "2", "--", program.to_str().unwrap()];
            let explored = room.chaos(&options);
            assert_eq!(explored.status.code(), Some(1), "{name} by {strategy}: {}", text(&explored));
            let again = room.chaos(&["--replay", "chaos.json"]);
            assert_eq!(again.status.code(), Some(1), "{name} by {strategy}: {}", text(&again));
        }
    }
}

/// A search that has come to its end says what that proves, and one that was cut short does not.
#[test]
fn every_schedule_with_few_switches() {
    let room = Room::new();
    let program = room.compile("hour");
    let search = |options: &[&str]| {
        let explored = room.chaos(&[&["--strategy"], options, &["--", program.to_str().unwrap()]].concat());
        assert_eq!(explored.status.code(), Some(0), "{options:?}: {}", text(&explored));
        text(&explored)
    };
    assert!(search(&["dfs:1"]).contains("all schedules with at most 1 switch have been tried"));
    assert!(search(&["dfs", "--jobs", "3"]).contains("all schedules with at most 2 switches have been tried"));
    assert!(!search(&["dfs:2", "--runs", "20"]).contains("all schedules"));
}

#[test]
fn nothing_in_programs_that_are_right() {
    let room = Room::new();
    for name in ["correct", "hour", "short_sleeps", "heap"] {
        let program = room.compile(name);
        for strategy in ["random", "pct:3", "surw"] {
            let explored = room.chaos(&["--runs", "150", "--strategy", strategy, "--", program.to_str().unwrap()]);
            assert_eq!(explored.status.code(), Some(0), "{name}: {}", text(&explored));
            assert!(text(&explored).contains("no failure: 150 runs"), "{}", text(&explored));
        }
    }
    assert!(!room.path("chaos.json").exists());
}

#[test]
fn the_same_seed_is_the_same_run() {
    let room = Room::new();
    let program = room.compile("lost_update");
    let schedule = |seed: &str, file: &str| {
        let explored = room.chaos(&["--runs", "500", "--seed", seed, "-o", file, "--", program.to_str().unwrap()]);
        assert_eq!(explored.status.code(), Some(1), "{}", text(&explored));
        let text = std::fs::read_to_string(room.path(file)).unwrap();
        text.lines().filter(|line| !line.contains("epoch")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(schedule("7", "a.json"), schedule("7", "b.json"));
}

#[test]
fn a_failure_is_what_the_user_says() {
    let room = Room::new();
    let fails = |command: &str, fail_if: &str| {
        let said = room.chaos(&["--runs", "2", "--fail-if", fail_if, "--", "/bin/sh", "-c", command]);
        said.status.code()
    };
    assert_eq!(fails("echo lost; exit 0", "grep -q lost"), Some(1));
    assert_eq!(fails("echo found; exit 7", "grep -q lost"), Some(0));
    // The command need not read.
    assert_eq!(fails("seq 100000", "false"), Some(0));
}

#[test]
fn mistakes_are_said_and_have_a_status_of_their_own() {
    let room = Room::new();
    std::fs::write(room.path("bad.json"), "{}").unwrap();
    for (arguments, says) in [
        (&["--", "./not-there"][..], "not-there"),
        (&["--replay", "not-there.json"], "cannot read not-there.json"),
        (&["--replay", "bad.json"], "bad.json is no schedule"),
        (&["--bisect", "bad.json"], "bad.json is no schedule"),
        (&["--strategy", "best", "--", "/bin/true"], "one of random"),
        (&["--strategy", "dfs:0", "--", "/bin/true"], "dfs:1 to dfs:100"),
        (&["--strategy", "dfs", "--shard", "0/4", "--", "/bin/true"], "a search cannot be divided"),
        (&["--shard", "4/4", "--", "/bin/true"], "expected 0 to 3"),
        (&["--shard", "0", "--", "/bin/true"], "expected I/N"),
        (&["--junit", "no/folder", "--", "/bin/true"], "cannot write no/folder"),
        (&["--json", "no/folder", "--", "/bin/true"], "cannot write no/folder"),
        (&[], "PROGRAM"),
    ] {
        let said = room.chaos(arguments);
        assert_eq!(said.status.code(), Some(125), "{arguments:?}: {}", text(&said));
        assert!(text(&said).contains(says), "{arguments:?}: {}", text(&said));
    }
}

/// A status is the program's own once it has begun, also one by which `run` says that it has not.
#[test]
fn statuses_of_the_program() {
    let room = Room::new();
    for status in [1, 125, 126, 127] {
        let ended = room.chaos(&["--runs", "1", "--", "/bin/sh", "-c", &format!("exit {status}")]);
        assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
        assert!(text(&ended).contains(&status.to_string()), "{}", text(&ended));
    }
    let refused = room.chaos(&["--runs", "1", "--", "/etc/passwd"]);
    assert_eq!(refused.status.code(), Some(125), "{}", text(&refused));
    assert!(text(&refused).contains("did not run"), "{}", text(&refused));
}

/// Parts of the schedules have every one between them, and a part finds what the whole finds there.
#[test]
fn parts_of_the_whole() {
    let room = Room::new();
    let found = |arguments: &[&str], program: &Path| -> serde_json::Value {
        let all = [&["--json", "found.json"], arguments, &["--", program.to_str().unwrap()]].concat();
        let ended = room.chaos(&all);
        let found: serde_json::Value =
            serde_json::from_slice(&std::fs::read(room.path("found.json")).unwrap()).unwrap();
        assert_eq!(ended.status.code(), Some(i32::from(found["failed"] == true)), "{}", text(&ended));
        found
    };
    let (right, wrong) = (room.compile("correct"), room.compile("lost_update"));
    let counts = ["0/3", "1/3", "2/3"].map(|part| found(&["--runs", "10", "--shard", part], &right)["runs"].as_u64());
    assert_eq!(counts, [Some(4), Some(3), Some(3)]);
    let options = ["--strategy", "random", "--runs", "2000"];
    let whole = found(&options, &wrong);
    let seed = whole["failure"]["seed"].as_u64().unwrap();
    let part = format!("{}/4", (seed - 1) % 4);
    let in_part = found(&[&options[..], &["--shard", &part]].concat(), &wrong);
    assert_eq!(in_part["failure"], whole["failure"]);
    assert_eq!(in_part["shard"], part);
    assert_eq!(in_part["runs"], (seed - 1) / 4 + 1);
}

/// The JUnit report has one test case, and says why it failed.
#[test]
fn a_report_for_ci() {
    let room = Room::new();
    let read = |arguments: &[&str]| {
        let _ = room.chaos(&[&["--junit", "report.xml"], arguments].concat());
        let report = std::fs::read_to_string(room.path("report.xml")).unwrap();
        quick_junit::Report::deserialize_from_str(&report).unwrap()
    };
    let (right, wrong) = (room.compile("correct"), room.compile("mutex_order"));
    let passed = read(&["--runs", "5", "--", right.to_str().unwrap()]);
    assert_eq!((passed.tests, passed.failures, passed.errors), (1, 0, 0));
    let explored = read(&["--runs", "2000", "--", wrong.to_str().unwrap()]);
    let repeated = read(&["--replay", "chaos.json"]);
    for report in [explored, repeated] {
        assert_eq!((report.tests, report.failures, report.errors), (1, 1, 0));
        let case = &report.test_suites[0].test_cases[0];
        assert_eq!(case.name.as_str(), wrong.to_str().unwrap());
        let quick_junit::TestCaseStatus::NonSuccess { message, description, .. } = &case.status else {
            panic!("it has failed: {:?}", case.status)
        };
        assert!(message.as_ref().unwrap().as_str().starts_with("deadlock"));
        assert!(description.as_ref().unwrap().as_str().contains("They wait for each other"), "{description:?}");
    }
}

/// A schedule that could not be written is refused before any run.
#[test]
fn what_cannot_be_written() {
    use std::os::unix::ffi::OsStrExt;
    let room = Room::new();
    let nowhere = room.chaos(&["--runs", "1", "--output", "no/folder", "--", "/bin/true"]);
    assert_eq!(nowhere.status.code(), Some(125), "{}", text(&nowhere));
    assert!(text(&nowhere).contains("cannot write no/folder"), "{}", text(&nowhere));
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.args(["chaos", "--runs", "1", "--", "/bin/true"]).arg(std::ffi::OsStr::from_bytes(b"\xff"));
    let no_text = command.current_dir(room.folder.path()).output().unwrap();
    assert_eq!(no_text.status.code(), Some(125), "{}", text(&no_text));
    assert!(text(&no_text).contains("not UTF-8"), "{}", text(&no_text));
}

/// The command has no open file that would stay behind if it were killed: `--fail-if` looks at its descriptors.
#[test]
fn nothing_stays_behind() {
    let room = Room::new();
    let ended = room.chaos(&[
        "--runs",
        "1",
        "--fail-if",
        "ls -l /proc/$PPID/fd | grep -q entresol-chaos-.*[0-9]$",
        "--",
        "/bin/true",
    ]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
}

/// All random numbers follow from the seed.
#[test]
fn random_numbers() {
    let room = Room::new();
    let program = room.compile("random");
    let numbers = |seed: &str| {
        let ended = room.chaos(&["--runs", "1", "--seed", seed, "--", program.to_str().unwrap()]);
        assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
        let lines: Vec<String> =
            text(&ended).lines().filter(|line| line.contains("number")).map(|line| line.trim().to_owned()).collect();
        assert!(lines.len() >= 4 && !lines.iter().any(|line| line.contains("wrong")), "{}", text(&ended));
        lines
    };
    let first = numbers("5");
    assert_eq!(numbers("5"), first);
    assert!(numbers("6").iter().zip(&first).all(|(a, b)| a != b));
}
