//! `entresol lab` from the outside. Live latencies are not judged: the runs are left out.

use std::fs;
use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.args(["lab", "rt-migrate", "--no-live"]).args(arguments).output().expect("the command starts")
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
    let mut cells = 0;
    for row in page["tables"].as_array().unwrap().iter().flat_map(|table| table["rows"].as_array().unwrap()) {
        for cell in row["cells"].as_array().unwrap() {
            let command = cell["command"].as_str().unwrap();
            let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
            let again = Command::new(env!("CARGO_BIN_EXE_entresol")).args(arguments).arg("--json").output().unwrap();
            let report: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
            let values = report["values"].as_array().unwrap();
            let worst = values.iter().find(|value| value["name"] == "top threads' start max").unwrap();
            assert_eq!(worst["value"], cell["worst_us"], "{command}");
            cells += 1;
        }
    }
    assert_eq!(cells, 16, "four policies, two cost profiles, two loads");
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

#[test]
fn the_page_on_procfs_meets_the_seed() {
    let folder = tempfile::tempdir().unwrap();
    let html = folder.path().join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.args(["lab", "procfs", "--no-live", "--html"]).arg(&html);
    let answer = command.output().expect("the command starts");
    let text = String::from_utf8(answer.stdout).unwrap();
    assert_eq!(answer.status.code(), Some(0), "{text}");
    let page = fs::read_to_string(&html).unwrap();
    for design in ["4.14-mutex", "references", "5.15-before", "2021-patch", "entresol", "share of system time"] {
        assert!(text.contains(design) && page.contains(design), "{design}: {text}");
    }
    assert!(page.contains("<svg") && !text.contains('\x1b'));
}
