//! A program that becomes another one with all its timers, and a process that is asked from outside.
//!
//! `ENTRESOL_HOT_RESTART="100000 20 60"` asks for so many timers, restarts and seconds.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use entresol_tests::{cargo, entresol};

fn entresol() -> Command {
    Command::new(entresol::command().expect("the command is built"))
}

fn example() -> PathBuf {
    let built = cargo::build(&["--package", "entresol-api", "--example", "hot_restart"]).expect("the example is built");
    built.join("examples/hot_restart")
}

fn start(timers: &str, restarts: &str, seconds: &str) -> Child {
    let mut command = entresol();
    command.args(["run", "--pending-signals=unlimited", "--"]).arg(example());
    command.args(["--timers", timers, "--restarts", restarts, "--seconds", seconds]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn no_expiry_is_lost_and_none_comes_twice() {
    let asked = std::env::var("ENTRESOL_HOT_RESTART").unwrap_or_else(|_| "1000 3 2".to_owned());
    let [timers, restarts, seconds] = asked.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("ENTRESOL_HOT_RESTART: timers, restarts and seconds")
    };
    let output = start(timers, restarts, seconds).wait_with_output().expect("it ends");
    let (out, err) = text(&output);
    assert!(output.status.success(), "{out}{err}");
    assert!(out.starts_with(&format!("{timers} timers, {restarts} restarts, ")), "{out}");
    assert!(out.ends_with("none lost, none doubled, ids unchanged\n"), "{out}");
}

/// Until the process has its timers.
fn ask(arguments: &[&str], pid: u32, enough: impl Fn(&str) -> bool) -> String {
    let since = Instant::now();
    loop {
        let output = entresol().arg("timers").args(arguments).arg(pid.to_string()).output().expect("it runs");
        let (out, err) = text(&output);
        if output.status.success() && enough(&out) {
            return out;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{out}{err}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_process_is_asked_from_outside() {
    let child = start("200", "0", "5");
    let timers = ask(&[], child.id(), |text| text.lines().count() == 800);
    let newest: Vec<&str> = timers.lines().take(5).collect();
    let notify = format!("notify: signal/pid.{}", child.id());
    assert_eq!(newest, ["ID: 199", "signal: 40/00000000000000c7", &notify, "ClockID: 1", "ID: 198"]);
    let dump = ask(&["dump"], child.id(), |_| true);
    let dump = api::Checkpoint::from_json(&dump).expect("it is whole");
    assert_eq!((dump.pid as u32, dump.next_id, dump.timers.len()), (child.id(), 200, 200));
    assert!(dump.timers.iter().all(|timer| timer.interval == 10_000_000 && timer.absolute));
    assert!(dump.cpu.total > 0 && dump.threads.iter().any(|thread| thread.tid == dump.pid));
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "asking has changed something: {:?}", text(&output));
}

#[test]
fn a_native_process_is_not_asked() {
    let mut child = Command::new("sleep").arg("60").spawn().expect("it starts");
    let output = entresol().args(["timers", &child.id().to_string()]).output().expect("it runs");
    assert_eq!(text(&output).1, format!("entresol: process {} does not run under Entresol\n", child.id()));
    assert_eq!(output.status.code(), Some(1));
    child.kill().expect("it is there");
    child.wait().expect("it ends");
}
