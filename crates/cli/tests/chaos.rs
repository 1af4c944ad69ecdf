//! `entresol chaos`: programs with one planted bug each, which fail natively next to never, are found out with a fixed seed, and
//! fail again each time their schedule is repeated; nothing is found in programs that are right.

#[path = "chaos/room.rs"]
mod room;

use std::path::Path;
use std::process::Command;

use room::{Room, text};

/// How often a schedule is repeated.
const REPEATS: usize = 20;

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

/// The machine pauses, so that a short sleep is over before another thread has done its few steps.
#[test]
fn a_sleep_that_was_taken_to_be_long_enough() {
    found("late_worker", "exit status 3", 2);
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

/// Another processor may come between the load and the store of one instruction.
#[test]
fn an_update_by_one_instruction() {
    found("torn_update", "exit status 1", 3);
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
        for strategy in ["random", "surw", "dfs:2", "random,pct:2,surw"] {
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
    for name in ["correct", "hour", "short_sleeps", "heap", "restartable", "protected"] {
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
        (&["--strategy", "pct:3,", "--", "/bin/true"], "several of them as in pct:3,surw"),
        (&["--strategy", "surw,dfs", "--", "/bin/true"], "several of them as in pct:3,surw"),
        (&["--strategy", "dfs:0", "--", "/bin/true"], "dfs:1 to dfs:100"),
        (&["--strategy", "dfs", "--shard", "0/4", "--", "/bin/true"], "a search cannot be divided"),
        (&["--shard", "4/4", "--", "/bin/true"], "expected 0 to 3"),
        (&["--shard", "0", "--", "/bin/true"], "expected I/N"),
        (&["--junit", "no/folder", "--", "/bin/true"], "cannot write no/folder"),
        (&["--json", "no/folder", "--", "/bin/true"], "cannot write no/folder"),
        (&["--html", "why.html", "--", "/bin/true"], "--replay <FILE>|--bisect <FILE>"),
        (&["--trace", "why.pftrace", "--", "/bin/true"], "--replay <FILE>|--bisect <FILE>"),
        (&["--replay", "chaos.json", "--bisect", "chaos.json"], "cannot be used with"),
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
    let (right, wrong) = (room.compile("correct"), room.compile("mutex_order"));
    let counts = ["0/3", "1/3", "2/3"].map(|part| found(&["--runs", "10", "--shard", part], &right)["runs"].as_u64());
    assert_eq!(counts, [Some(4), Some(3), Some(3)]);
    // With places, a part learns from its own runs only where threads meet.
    let options = ["--strategy", "random", "--places", "0", "--runs", "2000"];
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
    room.chaos(&["--runs", "1", "--", "/bin/sh", "-c", "echo >> ran; exit 3"]);
    for (task, option) in
        [("--replay", "--html"), ("--bisect", "--html"), ("--replay", "--trace"), ("--bisect", "--trace")]
    {
        let nowhere = room.chaos(&[task, "chaos.json", option, "no/folder"]);
        assert_eq!(nowhere.status.code(), Some(125), "{}", text(&nowhere));
        assert!(text(&nowhere).contains("cannot write no/folder"), "{}", text(&nowhere));
    }
    assert_eq!(std::fs::read(room.path("ran")).unwrap(), b"\n", "nothing ran again");
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.args(["chaos", "--runs", "1", "--", "/bin/true"]).arg(std::ffi::OsStr::from_bytes(b"\xff"));
    let no_text = command.current_dir(room.folder.path()).output().unwrap();
    assert_eq!(no_text.status.code(), Some(125), "{}", text(&no_text));
    assert!(text(&no_text).contains("not UTF-8"), "{}", text(&no_text));
}

/// A failing schedule is explained as text, as a page and as a trace, which say the same.
#[test]
fn both_threads_of_a_switch_are_shown() {
    let room = Room::new();
    let program = room.compile("mutex_order");
    room.chaos(&["--runs", "2000", "--seed", "1", "--", program.to_str().unwrap()]);
    let files = ["--html", "why.html", "--trace", "why.pftrace"];
    let reduced = text(&room.chaos(&[&["--bisect", "chaos.json"], &files[..]].concat()));
    let page = std::fs::read_to_string(room.path("why.html")).unwrap();
    let trace = std::fs::read(room.path("why.pftrace")).unwrap();
    // Each waits for the other where it takes its second mutex.
    let source = include_str!("chaos/mutex_order.c");
    for (function, inner) in
        [("forwards", "pthread_mutex_lock(&second);"), ("backwards", "pthread_mutex_lock(&first);")]
    {
        let begins = source.find(&format!("*{function}(")).unwrap();
        let within = source[begins..].find(inner).unwrap();
        let number = source[..begins + within].lines().count();
        let place = format!("{function} at {}/tests/chaos/mutex_order.c:{number}", env!("CARGO_MANIFEST_DIR"));
        assert!(reduced.contains(&format!("{place}:  {inner}")), "{place}: {reduced}");
        assert!(page.contains(&place), "{place}: {page}");
        assert!(page.contains(&format!("<b>{number:5}      {}</b>", inner.replace('&', "&amp;"))), "{number}: {page}");
    }
    let circle = "They wait for each other: thread 1 (mutex_order) → thread 2 (mutex_order) → thread 1";
    assert!(reduced.contains(circle) && page.contains(circle), "{reduced}");
    assert!(page.contains("<svg") && !page.contains("http") && !page.contains("<script"), "it needs nothing else");

    let marks = perfetto::read_marks(&trace).unwrap();
    let (end, switches) = marks.split_last().unwrap();
    assert!(end.name.starts_with("deadlock") && end.notes[0].1.contains(circle), "{end:?}");
    let needed = reduced.lines().filter(|line| line.contains(". thread ")).count();
    assert!(needed > 0 && switches.len() == needed, "{reduced}");
    for (at, mark) in switches.iter().enumerate() {
        let [(stopped, stack), (runs, _), ..] = &mark.notes[..] else { panic!("{mark:?}") };
        assert!(stack.contains("mutex_order.c:"), "{mark:?}");
        assert!(reduced.contains(&format!("{}. {stopped}\n       {}\n", at + 1, stack.replace('\n', "\n       "))));
        assert!(reduced.contains(&format!("\n   {runs}\n")), "{runs}: {reduced}");
        assert!(page.contains(&format!("id=\"switch-{}\"", at + 1)) && page.contains(stopped) && page.contains(runs));
    }
    let processes = perfetto::read(&trace).unwrap();
    let spans = &processes[0].spans;
    assert!(spans.array_windows().all(|[first, second]| first.to == second.from), "{spans:?}");
    assert!(switches.iter().all(|mark| spans.iter().any(|span| span.from == mark.at)), "{marks:?}");
    let names: Vec<&str> = processes[0].threads.values().map(String::as_str).collect();
    assert_eq!(names, ["thread 0 (mutex_order)", "thread 1 (mutex_order)", "thread 2 (mutex_order)"]);

    let again = room.chaos(&[&["--replay", "chaos.json"], &files[..]].concat());
    assert_eq!(again.status.code(), Some(1), "{}", text(&again));
    assert_eq!(std::fs::read_to_string(room.path("why.html")).unwrap(), page);
    assert_eq!(std::fs::read(room.path("why.pftrace")).unwrap(), trace);
}

/// What a thread did between two switches is read afresh at each choice, also after virtual time has left the host's behind;
/// and names are text.
#[test]
fn what_ran_instead_is_shown() {
    let room = Room::new();
    let program = room.compile("named");
    room.chaos(&["--runs", "2000", "--seed", "1", "--", program.to_str().unwrap()]);
    let reduced = text(&room.chaos(&["--bisect", "chaos.json", "--html", "why.html"]));
    let source = include_str!("chaos/named.c");
    let places = ["pthread_setname_np(pthread_self()", "int seen = counter;", "counter = seen + 1;"].map(|text| {
        let number = source.lines().position(|line| line.contains(text)).unwrap() + 1;
        format!("named.c:{number}:  {text}")
    });
    let ways = reduced.split("by way of\n").skip(1);
    let mut ways = ways.map(|way| way.lines().take_while(|line| line.starts_with("       ")).collect::<Vec<_>>());
    let is_whole =
        |way: Vec<&str>| way.len() == places.len() && way.iter().zip(&places).all(|(line, place)| line.contains(place));
    assert!(ways.any(is_whole), "one of the threads passes the other: {reduced}");
    assert!(reduced.contains("(<i>&amp;\") is stopped at"), "{reduced}");
    let page = std::fs::read_to_string(room.path("why.html")).unwrap();
    assert!(page.contains("(&lt;i>&amp;amp;&quot;) is stopped at") && !page.contains("<i>"), "{page}");
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

/// Some of the programs with planted bugs, all of which `tests/chaos/run` explores: the bug is found, and nothing without it.
#[test]
fn planted_bugs() {
    for name in [
        "c/transfer.c",
        "c/missed_signal.c",
        "c/handler_malloc.c",
        "c/cancel_lock.c",
        "c/pause_race.c",
        "cpp/no_predicate.cc",
        "cpp/map_check.cc",
        "cpp/pure_virtual.cc",
        "rust/no_predicate.rs",
        "rust/ring.rs",
        "rust/double_checked.rs",
    ] {
        let room = Room::new();
        let (wrong, right) = (planted(&room, name, true), planted(&room, name, false));
        let explored = room.chaos(&["--runs", "3000", "--", wrong.to_str().unwrap()]);
        assert_eq!(explored.status.code(), Some(1), "{name}: {}", text(&explored));
        assert!(!text(&explored).contains("did not end in time"), "{name}: {}", text(&explored));
        let explored = room.chaos(&["--runs", "20", "--", right.to_str().unwrap()]);
        assert_eq!(explored.status.code(), Some(0), "{name}: {}", text(&explored));
    }
}

/// Compiles a program of `tests/chaos`.
fn planted(room: &Room, name: &str, bug: bool) -> std::path::PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/chaos").join(name);
    let program = room.path(if bug { "wrong" } else { "right" });
    let (compiler, options, plant): (_, &[&str], &[&str]) = match name.rsplit_once('.').expect("an ending").1 {
        "c" => ("cc", &["-std=gnu11", "-g", "-O1", "-pthread"], &["-DBUG"]),
        "cc" => ("c++", &["-std=c++20", "-g", "-O1", "-pthread"], &["-DBUG"]),
        _ => ("rustc", &["--edition", "2024", "-g", "-C", "opt-level=1"], &["--cfg", "bug"]),
    };
    let mut command = Command::new(compiler);
    command.args(options).args(if bug { plant } else { &[] }).arg("-o").arg(&program).arg(source);
    let done = command.output().expect("a compiler");
    assert!(done.status.success(), "{name}: {}", text(&done));
    program
}
