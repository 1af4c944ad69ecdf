//! The output of a probe, as written and as parsed: one fact per line.
//!
//! ```text
//! figure NAME UNIT VALUE
//! progress DONE TOTAL WHAT
//! refused SENTENCE
//! ```

use std::io::Write;
use std::{fs, io};

/// One line of a probe.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A measured figure.
    Figure {
        /// Which.
        name: String,
        /// Its unit.
        unit: String,
        /// The figure.
        value: f64,
    },
    /// How far a long step is.
    Progress {
        /// Steps done.
        done: u64,
        /// Steps in all.
        total: u64,
        /// The current step.
        what: String,
    },
    /// The host refused what the probe needs.
    Refused(String),
}

impl Line {
    /// Reads a line back.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ')?;
        let mut words = rest.splitn(3, ' ');
        match kind {
            "figure" => Some(Self::Figure {
                name: words.next()?.to_owned(),
                unit: words.next()?.to_owned(),
                value: words.next()?.parse().ok()?,
            }),
            "progress" => Some(Self::Progress {
                done: words.next()?.parse().ok()?,
                total: words.next()?.parse().ok()?,
                what: words.next()?.to_owned(),
            }),
            "refused" => Some(Self::Refused(rest.to_owned())),
            _ => None,
        }
    }
}

fn say(line: std::fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    // A reader that has gone away needs no answer.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

pub(super) fn figure(name: &str, unit: &str, value: f64) {
    say(format_args!("figure {name} {unit} {value}"));
}

pub(super) fn progress(done: usize, total: usize, what: &str) {
    say(format_args!("progress {done} {total} {what}"));
}

pub(super) fn refused(sentence: &str) {
    say(format_args!("refused {sentence}"));
}

/// Prints how long this process's host threads were runnable and not running. Under Entresol these are carriers, and
/// what they waited is what the host stole.
pub(super) fn stolen() {
    figure("stolen", "ms", of_host_threads(1) as f64 / 1e6);
}

/// CPU time of this process's host threads by the host's count, in nanoseconds. What one that runs just now has consumed
/// since its last tick is not in it, so it is asked after a short sleep.
pub(super) fn consumed_ns() -> u64 {
    std::thread::sleep(std::time::Duration::from_millis(3));
    of_host_threads(0)
}

/// The sum of this number of each host thread's schedstat, see proc(5).
fn of_host_threads(which: usize) -> u64 {
    // The host resolves this name, so this lists carriers; `/proc/self/task` lists our threads.
    let Ok(threads) = fs::read_dir("/proc/./self/task") else { return 0 };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').nth(which)?.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back() {
        let figure = Line::Figure { name: "a".into(), unit: "ns".into(), value: 1.5 };
        assert_eq!(Line::parse("figure a ns 1.5"), Some(figure));
        let progress = Line::Progress { done: 3, total: 10, what: "threads are created".into() };
        assert_eq!(Line::parse("progress 3 10 threads are created"), Some(progress));
        assert_eq!(Line::parse("refused for a reason"), Some(Line::Refused("for a reason".into())));
        for line in ["", "figure", "figure a ns many", "figure a ns", "progress 1 x y", "other a b c"] {
            assert_eq!(Line::parse(line), None, "{line:?}");
        }
    }
}
