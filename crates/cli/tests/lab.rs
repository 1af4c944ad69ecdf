//! `entresol lab` from the outside. Live latencies are not judged: the runs are left out.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    page_of("rt-migrate", arguments)
}

fn page_of(subject: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.args(["lab", subject, "--no-live"]).args(arguments).output().expect("the command starts")
}

/// The page as programs read it, which is also written for a browser.
fn json_of(subject: &str, arguments: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let html = folder.path().join("page.html");
    let output = ["--json", "--html", html.to_str().unwrap()];
    let answer = page_of(subject, &[arguments, &output].concat());
    assert_eq!(answer.status.code(), Some(0), "{}", String::from_utf8_lossy(&answer.stderr));
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("<svg") && page.contains("</html>"));
    serde_json::from_slice(&answer.stdout).unwrap()
}

/// All rows of all tables, by their first labels.
fn rows(page: &serde_json::Value) -> Vec<(String, &Vec<serde_json::Value>)> {
    let rows = page["parts"].as_array().unwrap().iter().filter_map(|part| part["rows"].as_array()).flatten();
    let label = |row: &serde_json::Value| row["labels"][0].as_str().unwrap().to_owned();
    rows.map(|row| (label(row), row["cells"].as_array().unwrap())).collect()
}

#[test]
fn the_page_has_every_policy_and_the_seeds_figures() {
    let folder = tempfile::tempdir().unwrap();
    let html = folder.path().join("page.html");
    let answer = lab(&["--cpus", "2,4", "--html", html.to_str().unwrap()]);
    let text = String::from_utf8(answer.stdout).unwrap();
    assert_eq!(answer.status.code(), Some(0), "{text}");
    let page = fs::read_to_string(&html).unwrap();
    for shown in [&text, &page] {
        for part in ["   1:       36      33   20041      39      33", "2007-passive", "2007-push-pull", "2007-both"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
    assert!(page.contains("<svg") && page.contains("</html>"));
    assert!(!text.contains('\x1b'), "colours are for terminals");
}

/// Each figure names the command that gives it again.
#[test]
fn every_figure_can_be_had_again() {
    let answer = lab(&["--cpus", "3", "--rounds", "9", "--seed", "5", "--full", "--json"]);
    let page: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    let mut cells = BTreeMap::new();
    for row in page["parts"].as_array().unwrap().iter().filter_map(|part| part["rows"].as_array()).flatten() {
        for cell in row["cells"].as_array().unwrap() {
            let command = cell["command"].as_str().unwrap();
            let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
            let again = Command::new(env!("CARGO_BIN_EXE_entresol")).args(&arguments).arg("--json").output().unwrap();
            let report: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
            let values = report["values"].as_array().unwrap();
            let (name, figure) = match arguments[2] {
                "rt-storm" => ("wake-up p99", "wakeup_p99_us"),
                _ => ("top threads' start max", "worst_us"),
            };
            let value = values.iter().find(|value| value["name"] == name).unwrap();
            assert_eq!(value["value"], cell[figure], "{command}");
            *cells.entry(arguments[2].to_owned()).or_insert(0) += 1;
        }
    }
    // Five policies, two cost profiles, two loads; three policies, two profiles.
    assert_eq!(cells, BTreeMap::from([("rt-migrate".to_owned(), 20), ("rt-storm".to_owned(), 6)]));
}

#[test]
fn the_page_on_fairness_has_all_designs_side_by_side() {
    let answer = page_of("fair", &["--tick", "4000", "--json"]);
    assert_eq!(answer.status.code(), Some(0), "{}", String::from_utf8_lossy(&answer.stderr));
    let page: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    let designs: Vec<String> = rows(&page).into_iter().map(|(design, _)| design).collect();
    let each = ["CFS, Linux 6.5", "EEVDF, the paper of 1995", "EEVDF, Linux 6.12", "Entresol"];
    let on_machines = ["entresol", "cfs-6.5", "eevdf-6.12"];
    assert_eq!(designs, [&each[..], &each, &on_machines].concat());
}

#[test]
fn what_makes_no_sense_is_refused() {
    for arguments in [&["--cpus", "1"][..], &["--cpus", "4097"], &["--rounds", "1"], &["--cpus", "four"]] {
        assert_eq!(lab(arguments).status.code(), Some(2), "{arguments:?}");
    }
    let answer = lab(&["--html", "/no/such/folder/page.html"]);
    assert_eq!(answer.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&answer.stderr).contains("cannot write /no/such/folder/page.html"));
}

/// Every generation is raced and modelled, and the message's words stand beside them.
#[test]
fn the_page_on_cpu_time_has_every_generation() {
    let page = json_of("cputimer", &["--cpus", "1"]);
    let rows = rows(&page);
    for (generation, tables) in
        [("walk", 3), ("per-cpu", 3), ("spinlock", 3), ("atomics", 3), ("today", 1), ("ours", 3)]
    {
        let cells: Vec<_> = rows.iter().filter(|row| row.0 == generation).flat_map(|row| row.1).collect();
        assert!(cells.len() >= 3 * tables, "{generation}");
        assert!(cells.iter().all(|cell| !cell["text"].as_str().unwrap().is_empty()), "{generation}");
    }
    assert!(page.to_string().contains("more than 30% of total time"));
    let answer = page_of("cputimer", &["--cpus", "64"]);
    let few = std::thread::available_parallelism().unwrap().get() < 64;
    assert_eq!(answer.status.code() == Some(1), few, "{}", String::from_utf8_lossy(&answer.stderr));
}

/// Generation 0 beyond its cliff, and ours as far, executed and modelled.
#[test]
fn the_page_on_profiling_timers_has_the_bug() {
    let page = json_of("itimer", &[]);
    let rows = rows(&page);
    let of = |name: &str| rows.iter().filter(|row| row.0 == name).flat_map(|row| row.1).collect::<Vec<_>>();
    assert_eq!(of("walk").len(), of("ours").len());
    assert!(of("walk").iter().any(|cell| cell["text"] == "stands still"), "modelled");
    assert!(of("ours").iter().all(|cell| !cell["text"].as_str().unwrap().contains("stands still")));
    assert!(page.to_string().contains("at least O(n*3)"));
}

/// The message's figures, what the model says to each, and every design raced.
#[test]
fn the_page_on_timer_ids_has_the_seven_tests() {
    let page = json_of("posix-timers", &[]);
    let rows = rows(&page);
    let told: Vec<_> = rows.iter().flat_map(|row| row.1).filter(|cell| cell["told_ms"].is_number()).collect();
    assert_eq!(told.len(), 48);
    assert!(told.iter().any(|cell| cell["told_ms"] == 180_239.0));
    let tests = ["1: 20,000", "2: 50,000", "3: 100,000", "4: 63 threads × 1,000", "5: 63 processes × 1,000"];
    for test in tests.iter().chain(&["4: 63 threads, 2,000 pairs", "5: 63 processes, 2,000 pairs"]) {
        let raced = rows.iter().filter(|row| row.0.starts_with(test)).flat_map(|row| row.1);
        assert!(raced.filter(|cell| cell["ms"].is_number()).count() >= 5, "{test}");
    }
    assert!(page.to_string().contains("more than one megabyte"));
}

/// Every design at every size, and the message's gain.
#[test]
fn the_page_on_procfs_meets_the_seed() {
    let page = json_of("procfs", &["--cpus", "2,128"]);
    let rows = rows(&page);
    for design in ["4.14-mutex", "references", "5.15-before", "2021-patch", "entresol"] {
        let cells: Vec<_> = rows.iter().filter(|row| row.0 == design).flat_map(|row| row.1).collect();
        assert_eq!(cells.len(), 4, "{design}");
    }
    assert!(rows.iter().any(|row| row.0 == "the patch" && row.1[1]["verdict"] == "good"));
}
