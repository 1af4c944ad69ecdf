//! The documents at the top cite tests, figures and files: all of them exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bench::groups::GROUPS;

const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "SPECIFICATION.md",
    "CAVEATS.md",
    "docs/HACKING.md",
    "docs/PROC.md",
    "docs/SEEDS.md",
    "docs/CHAOS.md",
    "docs/CHECKPOINT.md",
    "docs/PERFORMANCE.md",
    "docs/STRESS.md",
    "docs/SWEEPS.md",
    "docs/REPLAY.md",
];
/// How a name begins that is a path from the root of the workspace.
const ROOTS: &[&str] = &["crates/", "tests/", "docs/", "packaging/", ".ci/"];
/// Stands where a measured value belongs.
const MARK: &str = "measured-by-bench ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// What stands between backticks on one line, outside of blocks of code.
fn quoted(text: &str) -> Vec<&str> {
    text.split("```").step_by(2).flat_map(str::lines).flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

fn figures() -> BTreeSet<&'static str> {
    GROUPS.iter().flat_map(|group| group.tasks).flat_map(|task| task.figures).copied().collect()
}

/// Whether the file has a test of that name: a function, or a case of a C program.
fn has_test(file: &str, name: &str) -> bool {
    let text = read(file);
    [format!("fn {name}("), format!("fn {name}<"), format!("CASE({name})")].iter().any(|form| text.contains(form))
}

/// What is wrong with a quoted name; names of other kinds are none of this test's business.
fn fault(name: &str) -> Option<String> {
    if let Some(figure) = name.strip_prefix("bench ") {
        let known = figures().contains(figure) || figure.starts_with('-');
        return (!known).then(|| format!("bench has no figure `{figure}`"));
    }
    if let Some(row) = name.strip_prefix("lab ") {
        let known = laboratory::rows().iter().any(|known| known == row);
        return (!known).then(|| format!("lab has no row `{row}`"));
    }
    if !ROOTS.iter().any(|start| name.starts_with(start)) || name.contains("NAME") {
        return None;
    }
    let path = |text: &str| text.split([' ', ',']).next().unwrap_or_default().to_owned();
    match name.split_once("::") {
        Some((file, test)) => (!has_test(file, test)).then(|| format!("{file} has no test `{test}`")),
        None => (!root().join(path(name)).exists()).then(|| format!("there is no file `{name}`")),
    }
}

#[test]
fn every_cited_name_exists() {
    let mut faults = Vec::new();
    for document in DOCUMENTS {
        let text = read(document);
        faults.extend(quoted(&text).into_iter().filter_map(fault).map(|fault| format!("{document}: {fault}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_row_of_the_specification_says_what_holds_it() {
    let text = read("SPECIFICATION.md");
    let mut rows = 0;
    for row in
        text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what ") && !line.starts_with("| | "))
    {
        let holder = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        assert!(holder.contains('`') || holder.contains("prints its time"), "nothing holds: {row}");
        rows += 1;
    }
    assert!(rows > 40, "the tables are where they were: {rows} rows");
}

/// What is wrong with a row: sentence, kernel name, ours, test, lab row, difference.
fn fault_of_seed(row: &str) -> Option<String> {
    let cells: Vec<&str> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
    let [sentence, _kernel, ours, test, _lab, _differs] = cells[..] else {
        return Some(format!("{} columns: {row}", cells.len()));
    };
    let is_test = |name: &&str| {
        let (file, _) = name.split_once("::").unwrap_or((name, ""));
        let tests = ["/tests/", "/tests.rs", "/benches/"].iter().any(|part| file.contains(part));
        tests || file.starts_with("tests/programs/") || read(file).contains("#[test]")
    };
    if !sentence.contains('"') && !sentence.contains("rt-migrate-test") {
        return Some(format!("nothing is quoted: {row}"));
    }
    let named = |cell| quoted(cell).iter().any(|name| ROOTS.iter().any(|root| name.starts_with(root)));
    if !named(ours) || !named(test) {
        return Some(format!("no name of ours, or no test: {row}"));
    }
    quoted(test).iter().find(|name| !is_test(name)).map(|name| format!("`{name}` is no test"))
}

#[test]
fn every_sentence_of_a_seed_says_where_it_is_and_what_holds_it() {
    let text = read("docs/SEEDS.md");
    let rows: Vec<&str> =
        text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| the message says ")).collect();
    let faults: Vec<String> = rows.iter().filter_map(|row| fault_of_seed(row)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(rows.len() >= 40, "the tables are where they were: {} rows", rows.len());
    for row in laboratory::rows() {
        assert!(quoted(&text).contains(&format!("lab {row}").as_str()), "{row} is nobody's row");
    }
}

#[test]
fn every_figure_of_the_bench_is_specified() {
    let text = read("SPECIFICATION.md");
    let cited: BTreeSet<&str> = quoted(&text).into_iter().filter_map(|name| name.strip_prefix("bench ")).collect();
    for figure in figures() {
        assert!(cited.contains(figure), "SPECIFICATION.md says nothing about `{figure}`");
    }
    for open in text.split(MARK).skip(1) {
        let name = open.split([' ', '|']).next().unwrap_or_default();
        assert!(figures().contains(name), "no bench measures `{name}`");
    }
}

#[test]
fn the_readme_has_two_commands_for_a_fresh_machine() {
    let text = read("README.md");
    let commands: Vec<&str> = text.lines().filter(|line| line.starts_with("cargo ")).collect();
    assert_eq!(commands, ["cargo run --release -p entresol -- demo", "cargo test --workspace"]);
}

#[test]
fn pkg_config_tells_the_version_of_the_packages() {
    assert!(read("packaging/entresol.pc").contains(&format!("\nVersion: {}\n", env!("CARGO_PKG_VERSION"))));
}
