//! `entresol chaos` controls a program that another one starts: in its own place, or as a child.

#[path = "chaos/room.rs"]
mod room;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use room::{Room, text};

/// A folder with a program that has a deadlock, and a script that starts it after other programs.
fn harness() -> Room {
    let room = Room::new();
    room.compile("mutex_order");
    let script = room.path("harness");
    std::fs::write(&script, "#!/bin/sh\n/bin/true\n./mutex_order\necho the test ended with $?\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    room
}

/// The deadlock is found, and once more in each of ten repetitions.
fn finds_the_deadlock(room: &Room, arguments: &[&str]) {
    let explored = room.chaos(&[&["--runs", "500"], arguments].concat());
    let said = text(&explored);
    assert_eq!(explored.status.code(), Some(1), "{said}");
    assert!(said.contains("deadlock") && said.contains("They wait for each other"), "{said}");
    for _ in 0..10 {
        let again = room.chaos(&["--replay", "chaos.json"]);
        assert_eq!(again.status.code(), Some(1), "{}", text(&again));
        assert!(text(&again).contains("They wait for each other"), "{}", text(&again));
    }
    let reduced = room.chaos(&["--bisect", "chaos.json"]);
    assert_eq!(reduced.status.code(), Some(1), "{}", text(&reduced));
    assert!(text(&reduced).contains("thread 2 (mutex_order)"), "{}", text(&reduced));
}

#[test]
fn in_the_place_of_another() {
    let room = harness();
    finds_the_deadlock(&room, &["--", "/bin/sh", "-c", "exec env X=1 ./mutex_order"]);
}

#[test]
fn as_a_child() {
    let room = harness();
    let without = room.chaos(&["--runs", "3", "--", "./harness"]);
    let said = text(&without);
    assert_eq!(without.status.code(), Some(0), "{said}");
    assert!(said.contains("it has started 2 other programs, which were not controlled; --only NAME"), "{said}");
    for name in ["mutex_order", "./mutex_order"] {
        finds_the_deadlock(&room, &["--only", name, "--", "./harness"]);
    }
}

/// A name with folders is the end of a path, and need not be a path from here.
#[test]
fn by_the_end_of_its_path() {
    let room = harness();
    let folder = room.folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    let (name, program) = (format!("{folder}/mutex_order"), room.path("mutex_order"));
    let script = format!("{}; exit $?", program.to_str().unwrap());
    finds_the_deadlock(&room, &["--only", &name, "--", "/bin/sh", "-c", &script]);
}

/// A process that a run leaves behind is not controlled in the next one.
#[test]
fn only_in_its_own_run() {
    let room = harness();
    std::fs::create_dir(room.path("late")).unwrap();
    std::fs::copy(room.path("mutex_order"), room.path("late/program")).unwrap();
    std::fs::rename(room.compile("hour"), room.path("program")).unwrap();
    let script = "setsid sh -c 'sleep 0.05; exec late/program' & sleep 0.02; ./program";
    let explored = room.chaos(&["--runs", "60", "--only", "program", "--", "/bin/sh", "-c", script]);
    assert_eq!(explored.status.code(), Some(0), "{}", text(&explored));
}

/// A script is named by its own path, and its interpreter is controlled.
#[test]
fn by_the_name_of_a_script() {
    let room = harness();
    let script = room.path("wrapper");
    std::fs::write(&script, "#!/usr/bin/env sh\nexec ./mutex_order\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    finds_the_deadlock(&room, &["--only", "wrapper", "--", "/bin/sh", "-c", "./wrapper; exit $?"]);
}

/// `timeout` makes a process group of its own, which is ended all the same when the child has come to a deadlock.
#[test]
fn in_a_group_of_its_own() {
    let room = harness();
    let program = room.path("mutex_order");
    let explored =
        room.chaos(&["--runs", "500", "--only", "mutex_order", "--", "timeout", "600", program.to_str().unwrap()]);
    assert_eq!(explored.status.code(), Some(1), "{}", text(&explored));
    let left = Command::new("pgrep").arg("-f").arg(&program).output().expect("pgrep");
    assert!(left.stdout.is_empty(), "{}", String::from_utf8_lossy(&left.stdout));
}

#[test]
fn a_program_that_is_never_started() {
    let room = harness();
    let said = room.chaos(&["--only", "other", "--", "./harness"]);
    assert_eq!(said.status.code(), Some(125), "{}", text(&said));
    assert!(text(&said).contains("no program other was started that can be controlled"), "{}", text(&said));
    for (name, says) in [("", "the name of a program"), ("a;b", "a semicolon")] {
        let said = room.chaos(&["--only", name, "--", "./harness"]);
        assert_eq!(said.status.code(), Some(125), "{}", text(&said));
        assert!(text(&said).contains(says), "{}", text(&said));
    }
}

/// A program with ThreadSanitizer needs more room for its libraries and is started once more (`image::restart`).
#[test]
fn a_program_that_is_started_once_more() {
    let room = Room::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chaos/check_then_act.c");
    let program = room.path("sanitized");
    let done = Command::new("cc")
        .args(["-g", "-O1", "-pthread", "-fsanitize=thread", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(done.expect("a C compiler").success());
    let explored = room.chaos(&["--runs", "500", "--", program.to_str().unwrap()]);
    let said = text(&explored);
    assert_eq!(explored.status.code(), Some(1), "{said}");
    assert!(said.contains("exit status 3") && !said.contains("never more than one thread"), "{said}");
}
