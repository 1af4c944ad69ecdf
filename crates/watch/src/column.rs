//! Columns of a table of threads: what they are called, what they say, and in which order they sort.

use crate::{Watched, printable};
use clap::ValueEnum;
use ids::{Nanos, Policy};
use serde_json::{Value, json};
use state::{Thread, Wait};
use std::cmp::Ordering;

/// A thread of a process.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The process.
    pub process: &'a Watched,
    /// The thread.
    pub thread: &'a Thread,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// Id of the process
    Pid,
    /// Id of the thread
    Tid,
    /// Name of the thread
    Name,
    /// R running, Q queued for a CPU, H in a host call, S waiting for anything else
    State,
    /// Scheduling policy
    Policy,
    /// Real-time priority, or the nice value
    Pri,
    /// The CPU that it is on, or was on last
    Cpu,
    /// On how many CPUs it may run
    Allowed,
    /// CPU time in percent of the time since the process's start
    Pcpu,
    /// CPU time, seconds
    Time,
    /// CPU time in user mode, seconds
    Utime,
    /// CPU time in the kernel, seconds
    Stime,
    /// Time in queues for a CPU, seconds
    Queued,
    /// How often it began to wait
    Vol,
    /// How often it was preempted or yielded
    Invol,
    /// Changes of CPU
    Mig,
    /// Signals sent to it alone that it has not received, as in /proc/PID/status
    Pending,
    /// Signals that it blocks, as in /proc/PID/status
    Blocked,
    /// The cause of its wait
    Wait,
}

impl Column {
    /// The line above.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Tid => "TID",
            Self::Name => "NAME",
            Self::State => "S",
            Self::Policy => "POLICY",
            Self::Pri => "PRI",
            Self::Cpu => "CPU",
            Self::Allowed => "ALLOWED",
            Self::Pcpu => "%CPU",
            Self::Time => "TIME",
            Self::Utime => "UTIME",
            Self::Stime => "STIME",
            Self::Queued => "QUEUED",
            Self::Vol => "VOL",
            Self::Invol => "INVOL",
            Self::Mig => "MIG",
            Self::Pending => "PENDING",
            Self::Blocked => "BLOCKED",
            Self::Wait => "WAITS FOR",
        }
    }

    /// Whether it is text rather than a number.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self, Self::Name | Self::State | Self::Policy | Self::Wait)
    }

    /// The column's value.
    #[must_use]
    pub fn text(self, row: Row<'_>) -> String {
        let mut text = String::new();
        self.write(row, &mut text);
        text
    }

    /// Appends the column's value: there may be a million cells, and allocating each would take as long as everything
    /// else.
    fn write(self, row: Row<'_>, to: &mut String) {
        let t = row.thread;
        match self {
            Self::Pid => write_number(to, i64::from(row.process.pid)),
            Self::Tid => write_number(to, i64::from(t.tid)),
            Self::Name => to.push_str(&printable(t.name())),
            Self::State => to.push(t.letter()),
            Self::Policy => to.push_str(policy(t.policy)),
            Self::Pri => write_number(to, if t.policy.is_rt() { i64::from(t.rt.0) } else { i64::from(t.nice.0) }),
            Self::Cpu => write_number(to, i64::from(t.cpu)),
            Self::Allowed => write_number(to, i64::from(t.allowed)),
            Self::Pcpu => {
                let tenths = (percent(row) * 10.0).round() as i64;
                write_number(to, tenths / 10);
                to.push('.');
                write_number(to, tenths % 10);
            }
            Self::Time => write_seconds(to, t.cpu_time()),
            Self::Utime => write_seconds(to, t.user),
            Self::Stime => write_seconds(to, t.system),
            Self::Queued => write_seconds(to, t.queued),
            Self::Vol => write_count(to, t.voluntary),
            Self::Invol => write_count(to, t.involuntary),
            Self::Mig => write_count(to, t.migrations),
            Self::Pending => write_set(to, t.pending),
            Self::Blocked => write_set(to, t.blocked),
            Self::Wait => write_wait(to, t, row.process.snapshot.process.taken),
        }
    }

    /// The same for programs: times in nanoseconds.
    #[must_use]
    pub fn value(self, row: Row<'_>) -> Value {
        let t = row.thread;
        match self {
            Self::Pid => json!(row.process.pid),
            Self::Tid => json!(t.tid),
            Self::Pri => json!(if t.policy.is_rt() { i32::from(t.rt.0) } else { i32::from(t.nice.0) }),
            Self::Cpu => json!(t.cpu),
            Self::Allowed => json!(t.allowed),
            Self::Pcpu => json!(percent(row)),
            Self::Time => json!(t.cpu_time().0),
            Self::Utime => json!(t.user.0),
            Self::Stime => json!(t.system.0),
            Self::Queued => json!(t.queued.0),
            Self::Vol => json!(t.voluntary),
            Self::Invol => json!(t.involuntary),
            Self::Mig => json!(t.migrations),
            Self::Pending => json!(t.pending),
            Self::Blocked => json!(t.blocked),
            Self::Name | Self::State | Self::Policy | Self::Wait => json!(self.text(row)),
        }
    }

    /// Smaller first.
    #[must_use]
    pub fn compare(self, a: Row<'_>, b: Row<'_>) -> Ordering {
        let (s, t) = (a.thread, b.thread);
        match self {
            Self::Pid => a.process.pid.cmp(&b.process.pid),
            Self::Tid => s.tid.cmp(&t.tid),
            Self::Name => s.name().cmp(t.name()),
            Self::State => (s.place, s.wait).cmp(&(t.place, t.wait)),
            Self::Policy => (s.policy as u8).cmp(&(t.policy as u8)),
            // The more urgent the greater.
            Self::Pri => (s.rt, t.nice).cmp(&(t.rt, s.nice)),
            Self::Cpu => s.cpu.cmp(&t.cpu),
            Self::Allowed => s.allowed.cmp(&t.allowed),
            Self::Pcpu => percent(a).total_cmp(&percent(b)),
            Self::Time => s.cpu_time().cmp(&t.cpu_time()),
            Self::Utime => s.user.cmp(&t.user),
            Self::Stime => s.system.cmp(&t.system),
            Self::Queued => s.queued.cmp(&t.queued),
            Self::Vol => s.voluntary.cmp(&t.voluntary),
            Self::Invol => s.involuntary.cmp(&t.involuntary),
            Self::Mig => s.migrations.cmp(&t.migrations),
            Self::Pending => s.pending.cmp(&t.pending),
            Self::Blocked => s.blocked.cmp(&t.blocked),
            Self::Wait => (s.wait, s.call, s.address).cmp(&(t.wait, t.call, t.address)),
        }
    }

    /// Its name in `-o` and in JSON.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A column to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// Which.
    pub column: Column,
    /// The largest first.
    pub down: bool,
}

impl std::str::FromStr for SortKey {
    type Err = String;

    fn from_str(text: &str) -> Result<SortKey, String> {
        let (down, name) = match text.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let column = Column::from_str(name, true).map_err(|_| {
            let names: Vec<String> = Column::value_variants().iter().map(|column| column.name()).collect();
            format!("there is no column {name:?}; there are {}", names.join(", "))
        })?;
        Ok(SortKey { column, down })
    }
}

fn percent(row: Row<'_>) -> f64 {
    row.thread.cpu_time().0 as f64 * 100.0 / row.process.age.0.max(1) as f64
}

/// As ps(1) writes it.
#[must_use]
pub fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::Other => "TS",
        Policy::Fifo => "FF",
        Policy::RoundRobin => "RR",
        Policy::Batch => "B",
        Policy::Idle => "IDL",
        Policy::Deadline => "DLN",
    }
}

fn write_number(to: &mut String, n: i64) {
    if n < 0 {
        to.push('-');
    }
    write_count(to, n.unsigned_abs());
}

/// A number in decimal, without the general way's detours.
fn write_count(to: &mut String, n: u64) {
    let (mut digits, mut rest, mut at) = ([0; 20], n, 20);
    while at == 20 || rest != 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    to.extend(digits[at..].iter().map(|&digit| char::from(digit)));
}

/// A set of signals: signal 1 is the lowest bit.
fn write_set(to: &mut String, set: u64) {
    use std::fmt::Write;
    let _ = write!(to, "{set:016x}");
}

fn write_seconds(to: &mut String, time: Nanos) {
    let ms = time.0 / 1_000_000;
    write_count(to, ms / 1_000);
    to.push('.');
    // Formats 1,000 + n and drops the leading one, which leaves three digits.
    let at = to.len();
    write_count(to, 1_000 + ms % 1_000);
    to.remove(at);
}

/// Seconds with milliseconds.
#[must_use]
pub fn seconds(time: Nanos) -> String {
    let mut text = String::new();
    write_seconds(&mut text, time);
    text
}

/// A thread's wait, and its longest duration from the time of the snapshot on.
#[must_use]
pub fn waits_for(thread: &Thread, taken: Nanos) -> String {
    let mut text = String::new();
    write_wait(&mut text, thread, taken);
    text
}

fn write_wait(to: &mut String, thread: &Thread, taken: Nanos) {
    use std::fmt::Write;
    match thread.wait {
        Wait::Futex | Wait::PiMutex => {
            to.push_str(thread.wait.name());
            let _ = write!(to, " {:#x}", thread.address);
        }
        Wait::Host => match abi::nr::name(usize::from(thread.call)) {
            Some(name) if abi::nr::is_about_descriptor(usize::from(thread.call)) => {
                let _ = write!(to, "{name}({})", thread.address as i32);
            }
            Some(name) => to.push_str(name),
            None => drop(write!(to, "host call {}", thread.call)),
        },
        wait => to.push_str(wait.name()),
    }
    if thread.until != Nanos::ZERO {
        to.push_str(", ");
        write_seconds(to, thread.until.since(taken));
        to.push_str(" s left");
    }
}

/// Its width in characters. Most text is ASCII, and there may be a million cells.
fn length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Writes rows in columns that line up, a heading above if wanted.
///
/// # Errors
/// Those of the stream.
pub fn write_table(
    out: &mut impl std::io::Write,
    columns: &[Column],
    rows: &[Row<'_>],
    headings: bool,
) -> std::io::Result<()> {
    write_cells(out, columns, rows, headings, |_, _| Ok(()))
}

/// The same, with something under each line.
///
/// # Errors
/// Those of the stream.
pub fn write_cells<W: std::io::Write>(
    out: &mut W,
    columns: &[Column],
    rows: &[Row<'_>],
    headings: bool,
    mut under: impl FnMut(usize, &mut W) -> std::io::Result<()>,
) -> std::io::Result<()> {
    // All cells one after the other, and where each ends.
    let (mut text, mut ends) = (String::new(), Vec::with_capacity(rows.len() * columns.len()));
    let heading = |column: &Column| if headings { column.heading().len() } else { 0 };
    let mut widths: Vec<usize> = columns.iter().map(heading).collect();
    for &row in rows {
        for (column, width) in columns.iter().zip(&mut widths) {
            let begin = text.len();
            column.write(row, &mut text);
            *width = (*width).max(length(&text[begin..]));
            ends.push(text.len());
        }
    }
    let mut line = String::new();
    let mut write = |cells: &mut dyn Iterator<Item = &str>, out: &mut dyn std::io::Write| {
        line.clear();
        for ((cell, column), width) in cells.zip(columns).zip(&widths) {
            let blanks = width - length(cell);
            let (before, after) = if column.is_text() { (0, blanks) } else { (blanks, 0) };
            line.extend(std::iter::repeat_n(' ', before));
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', after + 1));
        }
        out.write_all(line.trim_end().as_bytes())?;
        out.write_all(b"\n")
    };
    if headings {
        write(&mut columns.iter().map(|column| column.heading()), out)?;
    }
    let mut begin = 0;
    for (i, ends) in ends.chunks(columns.len().max(1)).enumerate() {
        let mut cells = ends.iter().map(|&end| &text[std::mem::replace(&mut begin, end)..end]);
        write(&mut cells, out)?;
        under(i, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_general_way_writes_them() {
        for n in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX / 10, u64::MAX] {
            let mut text = String::new();
            write_count(&mut text, n);
            assert_eq!(text, n.to_string());
            text.clear();
            write_number(&mut text, n as i64);
            assert_eq!(text, (n as i64).to_string());
        }
        let times = [0, 999_999, 1_000_000, 999_999_999, 1_000_000_000, 61_007_000_000, u64::MAX];
        for ns in times {
            assert_eq!(seconds(Nanos(ns)), format!("{}.{:03}", ns / 1_000_000_000, ns / 1_000_000 % 1_000));
        }
    }
}
