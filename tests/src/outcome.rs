//! What a run left behind, and how two runs differ.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Status or signal, core dump included.
    Status(ExitStatus),
    /// Not ended in time; what its threads were doing.
    Hung(String),
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(out, "ended with {}", describe_status(*status)),
            Self::Hung(threads) => write!(out, "hung; its threads:\n{threads}"),
        }
    }
}

/// All that a program shows to the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What it wrote to the error stream.
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// Ended with status 0.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.ended_with(0)
    }

    /// Ended with this status.
    #[must_use]
    pub fn ended_with(&self, code: i32) -> bool {
        matches!(&self.end, End::Status(status) if status.code() == Some(code))
    }

    /// Everything, for a person to read.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = format!("{}\n", self.end);
        for (name, bytes) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !bytes.is_empty() {
                let _ = writeln!(text, "{name}:\n{}", shortened(bytes));
            }
        }
        text
    }
}

fn describe_status(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) if status.core_dumped() => format!("signal {signal}, core dumped"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("{status}"),
    }
}

/// Compares the reference with the run under Entresol.
///
/// # Errors
/// What differs, in words: the end, then the lines that only one of the two wrote.
pub fn compare(native: &Outcome, ours: &Outcome, with_stderr: bool) -> Result<(), String> {
    let mut differences = String::new();
    if native.end != ours.end {
        let _ = writeln!(differences, "natively {}\nunder Entresol {}", native.end, ours.end);
    }
    let streams = [("stdout", &native.stdout, &ours.stdout), ("stderr", &native.stderr, &ours.stderr)];
    for (name, expected, got) in &streams[..if with_stderr { 2 } else { 1 }] {
        if expected != got {
            let _ = writeln!(differences, "{name} differs (- natively, + under Entresol):\n{}", diff(expected, got));
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(differences) }
}

/// Lines that only one side has. A line of the corpus names its case, so position adds nothing; when only the
/// order differs, both texts are shown whole.
#[must_use]
pub fn diff(expected: &[u8], got: &[u8]) -> String {
    let (expected, got) = (String::from_utf8_lossy(expected), String::from_utf8_lossy(got));
    let mut surplus: BTreeMap<&str, i64> = BTreeMap::new();
    for line in expected.lines() {
        *surplus.entry(line).or_default() += 1;
    }
    for line in got.lines() {
        *surplus.entry(line).or_default() -= 1;
    }
    let mut text = String::new();
    for (sign, wanted, lines) in [('-', 1, &expected), ('+', -1, &got)] {
        for line in lines.lines().filter(|line| surplus[line].signum() == wanted) {
            let _ = writeln!(text, "{sign} {line}");
        }
    }
    if text.is_empty() {
        text = format!("the same lines in another order; natively:\n{expected}\nunder Entresol:\n{got}");
    }
    shortened(text.as_bytes())
}

/// The last lines tell how far a program came.
fn shortened(bytes: &[u8]) -> String {
    const LIMIT: usize = 4000;
    let text = String::from_utf8_lossy(bytes);
    match text.char_indices().rev().nth(LIMIT) {
        Some((cut, _)) => format!("({} bytes in all) …{}", bytes.len(), &text[cut..]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(stdout: &str, raw_status: i32) -> Outcome {
        let end = End::Status(ExitStatus::from_raw(raw_status));
        Outcome { end, stdout: stdout.into(), stderr: Vec::new() }
    }

    #[test]
    fn equal_runs_compare_equal() {
        assert_eq!(compare(&outcome("a: 1\n", 0), &outcome("a: 1\n", 0), true), Ok(()));
    }

    #[test]
    fn a_differing_line_is_named() {
        let report = compare(&outcome("a: 1\nb: 2\n", 0), &outcome("a: 1\nb: 3\n", 0), true).unwrap_err();
        assert!(report.contains("- b: 2") && report.contains("+ b: 3") && !report.contains("a: 1"), "{report}");
    }

    #[test]
    fn order_counts() {
        assert!(compare(&outcome("a\nb\n", 0), &outcome("b\na\n", 0), true).is_err());
    }

    #[test]
    fn a_signal_is_not_a_status() {
        assert!(compare(&outcome("", 11), &outcome("", 139 << 8), true).is_err());
        assert!(compare(&outcome("", 11), &outcome("", 11 | 0x80), true).is_err(), "a core dump is part of the end");
    }
}
