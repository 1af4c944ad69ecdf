//! `entresol chaos --races`: races in small programs are reported with both lines and the variable, and again when their schedule
//! is repeated; nothing is reported of programs that are right.

#[path = "chaos/room.rs"]
mod room;

use room::{Room, text};

/// How many runs each program gets.
const RUNS: &str = "200";

/// The line of a program on which this comment stands.
fn line(name: &str, comment: &str) -> String {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/chaos/races/{name}.c"));
    let text = std::fs::read_to_string(source).unwrap();
    let at =
        text.lines().position(|line| line.contains(&format!("/* {comment} */"))).expect("a line with this comment");
    format!("{name}.c:{}", at + 1)
}

/// What is found in the program: the reports on races, as JSON.
fn races(room: &Room, name: &str) -> Vec<serde_json::Value> {
    let program = room.compile(&format!("races/{name}"));
    let explored = room.chaos(&["--races", "--runs", RUNS, "--json", "found.json", "--", program.to_str().unwrap()]);
    let found = std::fs::read(room.path("found.json")).unwrap();
    let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
    let races = found["races"].as_array().unwrap().clone();
    assert_eq!(explored.status.code(), Some(i32::from(!races.is_empty())), "{}", text(&explored));
    assert_eq!(
        (&found["failed"], &found["runs"]),
        (&(!races.is_empty()).into(), &200.into()),
        "it goes on after a race"
    );
    for race in &races {
        let title = format!("data race: {} ({} byte", race["variable"].as_str().unwrap(), race["size"]);
        assert!(text(&explored).contains(&title), "{}", text(&explored));
    }
    races
}

/// A race for this variable between these lines is among those of the program, and again when its schedule is repeated and
/// reduced.
fn found(name: &str, variable: &str, comments: [&str; 2]) {
    let room = Room::new();
    let races = races(&room, name);
    let mut lines = comments.map(|comment| line(name, comment));
    lines.sort_unstable();
    let is_it = |race: &&serde_json::Value| {
        let mut at =
            [0, 1].map(|i| race["threads"][i]["line"].as_str().unwrap().rsplit('/').next().unwrap().to_owned());
        at.sort_unstable();
        race["variable"] == variable && at == lines
    };
    let race = races.iter().find(is_it).unwrap_or_else(|| panic!("no {variable} {lines:?} in {races:#?}"));
    for i in [0, 1] {
        let frames = race["threads"][i]["frames"].as_array().unwrap();
        assert!(lines.iter().any(|line| frames[0].as_str().unwrap().contains(line)), "{race:#?}");
    }
    let schedule = race["schedule"].as_str().unwrap();
    for arguments in [&["--replay", schedule][..], &["--bisect", schedule], &["--replay", schedule]] {
        let again = room.chaos(&[arguments, &["-o", schedule]].concat());
        assert_eq!(again.status.code(), Some(1), "{}", text(&again));
        assert!(text(&again).contains(&format!("data race: {variable} ")), "{}", text(&again));
        assert!(lines.iter().all(|line| text(&again).contains(line)), "{}", text(&again));
    }
}

#[test]
fn two_stores_and_two_loads() {
    let room = Room::new();
    let program = room.compile("adjacent_stores");
    let explored = room.chaos(&["--races", "--fail-if", "false", "--runs", RUNS, "--", program.to_str().unwrap()]);
    for variable in ["low", "high"] {
        assert!(text(&explored).contains(&format!("data race: {variable} (4 bytes at 0x")), "{}", text(&explored));
    }
}

#[test]
fn a_flag_without_a_lock() {
    found("flag", "ready", ["the store", "the load"]);
}

#[test]
fn a_counter_without_a_lock() {
    found("counter", "counter", ["the update", "the update"]);
}

#[test]
fn a_write_under_the_wrong_lock() {
    found("wrong_lock", "table + 8", ["the store", "the other store"]);
}

/// The value has changed, and only the thread that has changed it is known.
#[test]
fn what_the_c_library_writes() {
    let room = Room::new();
    let races = races(&room, "cleared");
    let [race] = &races[..] else { panic!("{races:#?}") };
    assert_eq!((&race["variable"], &race["size"]), (&"on the heap".into(), &4.into()));
    assert!(race["threads"][0]["line"].as_str().unwrap().ends_with(&line("cleared", "the load")), "{race:#?}");
    let does = race["threads"][1]["does"].as_str().unwrap();
    assert!(does.starts_with("has changed it from 0x7 to 0x0"), "{does}");
    let frames = race["threads"][1]["frames"].to_string();
    assert!(frames.contains("clear at "), "{frames}");
}

#[test]
fn nothing_in_programs_that_are_right() {
    let room = Room::new();
    for name in ["ordered", "interrupted"] {
        let races = races(&room, name);
        assert!(races.is_empty(), "{races:#?}");
    }
    for name in ["correct", "hour", "short_sleeps", "heap"] {
        let program = room.compile(name);
        let explored = room.chaos(&["--races", "--runs", RUNS, "--", program.to_str().unwrap()]);
        assert_eq!(explored.status.code(), Some(0), "{name}: {}", text(&explored));
    }
}

#[test]
fn the_same_seed_is_the_same_report() {
    let room = Room::new();
    assert_eq!(races(&room, "counter"), races(&room, "counter"));
}

/// Without the option nothing is said of races, and they are no failures.
#[test]
fn only_who_asks_is_told() {
    let room = Room::new();
    let program = room.compile("races/flag");
    let explored = room.chaos(&["--runs", RUNS, "--places", "128", "--", program.to_str().unwrap()]);
    assert_eq!(explored.status.code(), Some(0), "{}", text(&explored));
    assert!(!text(&explored).contains("race"), "{}", text(&explored));
}

/// The JUnit report fails and names the races.
#[test]
fn a_report_for_ci() {
    let room = Room::new();
    let program = room.compile("races/flag");
    let _ = room.chaos(&["--races", "--runs", RUNS, "--junit", "report.xml", "--", program.to_str().unwrap()]);
    let report = std::fs::read_to_string(room.path("report.xml")).unwrap();
    let report = quick_junit::Report::deserialize_from_str(&report).unwrap();
    assert_eq!((report.tests, report.failures, report.errors), (1, 1, 0));
    let quick_junit::TestCaseStatus::NonSuccess { description, .. } = &report.test_suites[0].test_cases[0].status
    else {
        panic!("it has failed")
    };
    assert!(description.as_ref().unwrap().as_str().contains("data race: ready (4 bytes"), "{description:?}");
}
