//! `stress-ng` of Debian: each stressor that is about threads, signals, processes or waiting calls, with its own
//! verification, as user nobody: one worker for a second. With `ENTRESOL_STRESS_SECS=20` as many workers as there are
//! CPUs for that long, natively, too, and a table of operations per second side by side. Those are printed and not judged.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;

use crate::outcome::Outcome;
use crate::requirement::Requirement;
use crate::run::Run;
use crate::trial::{Conditions, trial};

const STRESS_NG: &str = "/usr/bin/stress-ng";
const STRESSORS: [&str; 29] = [
    "pthread",
    "mutex",
    "futex",
    "sem",
    "switch",
    "yield",
    "sigq",
    "sigrt",
    "sigfd",
    "sigpending",
    "sigsegv",
    "sigsuspend",
    "signest",
    "sigio",
    "kill",
    "fork",
    "vfork",
    "exec",
    "clone",
    "pipe",
    "sock",
    "poll",
    "epoll",
    "eventfd",
    "timerfd",
    "nanosleep",
    "schedpolicy",
    "affinity",
    "nice",
];
/// stress-ng's status for "a counter was left as it is in the middle of a step". The processes of `affinity` share one
/// counter and end each other by SIGKILL, so it says this now and then, natively, too (1 run of 150, ours 1 of 150).
const UNTRUSTWORTHY: i32 = 7;
const SHARE_A_COUNTER: &str = "affinity";
/// For a stressor to notice that its time is over and to gather its workers.
const GRACE: Duration = Duration::from_secs(40);

/// One test for all of them.
#[must_use]
pub fn trials() -> Vec<Trial> {
    let conditions = Conditions { needs: vec![Requirement::package("stress-ng", "stress-ng")], alone: false };
    vec![trial("stress-ng", &conditions, all)]
}

fn all() -> Result<(), String> {
    let seconds: Option<u64> = match std::env::var("ENTRESOL_STRESS_SECS") {
        Ok(text) => Some(text.parse().map_err(|error| format!("ENTRESOL_STRESS_SECS={text}: {error}"))?),
        Err(_) => None,
    };
    let folder = std::env::temp_dir().join(format!("entresol-stress-{}", std::process::id()));
    let made = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o1777)));
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut table = String::from("stress-ng       operations/s  natively   ratio\n");
    let mut failures = String::new();
    for stressor in STRESSORS {
        match row(stressor, seconds, &folder) {
            Ok(row) => table += &row,
            Err(reason) => failures += &format!("{stressor}: {reason}\n"),
        }
    }
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    println!("{table}");
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

fn row(stressor: &str, seconds: Option<u64>, folder: &Path) -> Result<String, String> {
    let cpus = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let (workers, time) = (seconds.map_or(1, |_| cpus()), seconds.unwrap_or(1));
    let run = Run::new(STRESS_NG)
        .args([format!("--{stressor}"), workers.to_string(), "--timeout".into(), format!("{time}s")])
        .args(["--verify", "--metrics", "--temp-path"])
        .args([folder])
        .timeout(Duration::from_secs(time) + GRACE);
    let ours = operations(stressor, &run.under_entresol_as_nobody(&[])?)?;
    if seconds.is_none() {
        return Ok(format!("{stressor:<12} {ours:>15.0}\n"));
    }
    let native = operations(stressor, &run.natively_as_nobody()?).map_err(|reason| format!("natively: {reason}"))?;
    Ok(format!("{stressor:<12} {ours:>15.0} {native:>9.0} {:>7.2}\n", ours / native))
}

/// Operations per second, from the line of the metrics that names the stressor; an error if it failed, did not verify,
/// or did not run at all.
fn operations(stressor: &str, outcome: &Outcome) -> Result<f64, String> {
    let text = [&outcome.stdout, &outcome.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    let failed = text.lines().find(|line| line.contains(" fail:"));
    let only_the_counter = stressor == SHARE_A_COUNTER && outcome.ended_with(UNTRUSTWORTHY);
    if !(outcome.succeeded() || only_the_counter) || failed.is_some() {
        return Err(outcome.describe());
    }
    let row = text.lines().filter(|line| line.contains(" metrc:")).find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with('[')).skip(1);
        (words.next() == Some(stressor)).then(|| words.nth(4)?.parse().ok()).flatten()
    });
    row.ok_or_else(|| format!("no metrics; {}", outcome.describe()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::End;
    use std::os::unix::process::ExitStatusExt;

    fn outcome(text: &str, status: i32) -> Outcome {
        let end = End::Status(std::process::ExitStatus::from_raw(status << 8));
        Outcome { end, stdout: text.into(), stderr: Vec::new() }
    }

    #[test]
    fn the_metrics_are_found_in_either_form() {
        let line = "stress-ng: metrc: [3965] fork    2345   1.00   0.19   0.13   2344.96  7180.76  32.66  2580\n";
        assert_eq!(operations("fork", &outcome(line, 0)), Ok(2344.96));
        assert!(operations("vfork", &outcome(line, 0)).is_err());
    }

    #[test]
    fn a_failed_verification_is_a_failure() {
        let text = "stress-ng: fail:  [7] fork: wrong\nstress-ng: metrc: [7] fork 1 1.0 1.0 1.0 5.0 5.0\n";
        assert!(operations("fork", &outcome(text, 0)).is_err());
        assert!(operations("fork", &outcome("stress-ng: metrc: [7] fork 1 1.0 1.0 1.0 5.0 5.0\n", 2)).is_err());
    }

    #[test]
    fn only_a_shared_counter_may_be_left_in_the_middle() {
        let text = |stressor| format!("stress-ng: metrc: [7] {stressor} 1 1.0 1.0 1.0 5.0 5.0\n");
        assert_eq!(operations("affinity", &outcome(&text("affinity"), 7)), Ok(5.0));
        assert!(operations("affinity", &outcome(&text("affinity"), 2)).is_err());
        assert!(operations("fork", &outcome(&text("fork"), 7)).is_err());
    }
}
