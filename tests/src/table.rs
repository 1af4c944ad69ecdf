//! What the corpus covers of host calls: `cargo test -p entresol-tests -- table-of-calls --nocapture` runs the
//! programs that have the directive `table` natively and prints, for every call and way of calling it, what it answered. The
//! lines are those that the corpus compares (`programs/calls/tried.h`), so the table cannot promise what no case shows.

use std::collections::{BTreeMap, BTreeSet};

use libtest_mimic::Trial;

use crate::compile::compile;
use crate::form::Form;
use crate::run::Run;
use crate::trial::{Conditions, trial};
use crate::{corpus, outcome::Outcome};

/// The table, and that it has as many rows as are promised.
#[must_use]
pub fn trials() -> Vec<Trial> {
    vec![trial("table-of-calls", &Conditions::default(), print)]
}

/// Pairs of a call and a way that the corpus has at least.
const ROWS_MIN: usize = 300;

fn print() -> Result<(), String> {
    let mut table = Table::default();
    for (source, directives) in corpus::sources()? {
        if directives.table {
            let outcome = Run::new(compile(&source, &directives, Form::Dynamic)?.program).natively()?;
            if !outcome.succeeded() {
                return Err(format!("{}: {}", source.display(), outcome.describe()));
            }
            table.add(&outcome);
        }
    }
    print!("{}", table.text());
    if table.rows() < ROWS_MIN { Err(format!("{} rows, not {ROWS_MIN}", table.rows())) } else { Ok(()) }
}

/// Answers by way, by call.
#[derive(Debug, Default)]
struct Table(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Table {
    /// Takes the lines `case: call [way] = answer`.
    fn add(&mut self, outcome: &Outcome) {
        for line in String::from_utf8_lossy(&outcome.stdout).lines() {
            let Some((_, line)) = line.split_once(": ") else { continue };
            let Some((call, rest)) = line.split_once(" [") else { continue };
            let Some((way, answer)) = rest.rsplit_once("] = ") else { continue };
            let number = answer.parse::<i64>().is_ok();
            let answer = if number { "done".to_owned() } else { answer.to_owned() };
            self.0.entry(call.to_owned()).or_default().entry(way.to_owned()).or_default().insert(answer);
        }
    }

    fn rows(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    fn text(&self) -> String {
        let mut text = String::from("| call | way | answers |\n|---|---|---|\n");
        for (call, ways) in &self.0 {
            for (way, answers) in ways {
                let answers: Vec<_> = answers.iter().map(String::as_str).collect();
                text += &format!("| `{call}` | {way} | {} |\n", answers.join(", "));
            }
        }
        text + &format!("{} calls, {} rows\n", self.0.len(), self.rows())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::End;

    #[test]
    fn a_line_becomes_a_row() {
        let end = End::Hung(String::new());
        let stdout = "a: read [pipe] = 3\nb: read [pipe] = EINTR\nb: read [bad fd] = EBADF\nb: count 3\n".into();
        let mut table = Table::default();
        table.add(&Outcome { end, stdout, stderr: Vec::new() });
        assert_eq!(table.rows(), 2);
        assert!(table.text().contains("| `read` | pipe | EINTR, done |"));
    }
}
