//! The measuring programs: each prints the figures that it promises, natively and under `run`. How large they are is
//! never judged here.

use std::collections::BTreeMap;
use std::process::Command;

use bench::probe::report::Line;

/// Figures by name; `None` if the host refused what the probe needs.
fn figures(arguments: &[&str]) -> Option<BTreeMap<String, f64>> {
    let answer = Command::new(env!("CARGO_BIN_EXE_entresol")).args(arguments).output().expect("the command starts");
    let text = String::from_utf8(answer.stdout).unwrap();
    let errors = String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success(), "{arguments:?} ended with {}: {errors}", answer.status);
    let mut figures = BTreeMap::new();
    for line in text.lines() {
        match Line::parse(line).unwrap_or_else(|| panic!("{line:?} is not in the promised form")) {
            Line::Figure { name, value, .. } => drop(figures.insert(name, value)),
            Line::Progress { .. } => {}
            Line::Refused(_) => return None,
        }
    }
    Some(figures)
}

fn check(probe: &str, names: &[&str], refusable: bool) {
    let own = env!("CARGO_BIN_EXE_entresol");
    let native = figures(&["probe", probe, "--quick"]);
    assert!(refusable || native.is_some(), "the host refused {probe}");
    let ours = figures(&["run", "--", own, "probe", probe, "--quick"]);
    for figures in [native, ours].into_iter().flatten() {
        for name in names {
            let value = figures.get(*name).unwrap_or_else(|| panic!("{probe} printed no {name}: {figures:?}"));
            assert!(value.is_finite() && *value > 0.0, "{name} is {value}");
        }
    }
}

#[test]
fn handovers() {
    check("yield", &["yield_same_cpu"], false);
    check("futex", &["futex_handover_same_cpu"], false);
    check("condvar", &["condvar_handover"], false);
}

#[test]
fn creation_and_calls() {
    check("create", &["create_join"], false);
    check("passthrough", &["passthrough_getppid"], false);
}

#[test]
fn taking_turns() {
    check("preemption", &["preemption"], false);
}

#[test]
fn real_time() {
    // Without privilege the host refuses SCHED_FIFO.
    check("rt-wakeup", &["rt_wakeup_p50", "rt_wakeup_p99", "rt_wakeup_max"], true);
}

#[test]
fn computing() {
    check("sieve", &["cpu_bound"], false);
}

#[test]
fn looking_threads_up() {
    check("procfs-scan", &["proc_scan"], true);
    check("watched", &[], false);
    check("procfs", &["proc_stat_scaling", "proc_stat_1", "proc_access_2", "proc_readlink_64", "proc_read_64"], false);
}

/// The laboratory's programs do on both sides what they are told, and nothing that they do not know.
#[test]
fn what_can_be_told() {
    let own = env!("CARGO_BIN_EXE_entresol");
    let primes = ["probe", "primes", "threads=5", "upto=20000", "first=0.01", "soft=100", "hard=200"];
    for before in [&[][..], &["run", "--", own]] {
        let found = figures(&[before, &primes].concat()).expect("the host refused primes");
        assert_eq!(found["primes"], 5.0 * 2_262.0);
        for who in ["threads=3", "processes=3"] {
            let made =
                figures(&[before, &["probe", "timer-ids", who, "each=40"]].concat()).expect("the host refused timers");
            assert!(made["create"].is_finite() && made["getoverrun"].is_finite());
            let paired = figures(&[before, &["probe", "timer-ids", who, "pairs=40"]].concat()).expect("refused");
            assert!(paired["loop"].is_finite());
        }
    }
    let answer = Command::new(own).args(["probe", "primes", "speed=9"]).output().unwrap();
    assert_eq!(answer.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&answer.stderr).contains("threads, upto"));
}

/// Servers answer on every side, and what is measured of them is written down.
#[test]
fn servers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    // Half a second each: on a busy machine a tenth passed without an answer.
    let asked = "bench servers --connections 2,20 --idle 50 --paced 2000 --runs 1 --seconds 0.5 --sides native,auto,epoll,threads --json";
    let answer = Command::new(env!("CARGO_BIN_EXE_entresol"))
        .args(asked.split(' '))
        .arg(&file)
        .output()
        .expect("the command starts");
    assert!(
        answer.status.success(),
        "{}{}",
        String::from_utf8_lossy(&answer.stdout),
        String::from_utf8_lossy(&answer.stderr)
    );
    let rows: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    for load in ["echo 2", "echo 20", "echo 100, 50 idle", "echo 100, 2000 a second"] {
        for side in ["native", "auto", "epoll", "threads"] {
            let row = rows.iter().find(|row| row["load"] == load && row["side"] == side);
            let rate = row.and_then(|row| row["rate"]["median"].as_f64());
            assert!(rate.is_some_and(|rate| rate > 0.0), "{load}, {side}: {rows:?}");
        }
    }
}
