//! Columns of a table of threads: what they are called, what they say, and in which order they sort.

use super::{Watched, printable};
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
    /// What it waits for
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
            Self::Wait => "WAITS FOR",
        }
    }

    /// Whether it is text rather than a number.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self, Self::Name | Self::State | Self::Policy | Self::Wait)
    }

    /// What stands in it.
    #[must_use]
    pub fn text(self, row: Row<'_>) -> String {
        let t = row.thread;
        match self {
            Self::Pid => row.process.pid.to_string(),
            Self::Tid => t.tid.to_string(),
            Self::Name => printable(t.name()),
            Self::State => t.letter().to_string(),
            Self::Policy => policy(t.policy).to_owned(),
            Self::Pri => if t.policy.is_rt() { i32::from(t.rt.0) } else { i32::from(t.nice.0) }.to_string(),
            Self::Cpu => t.cpu.to_string(),
            Self::Allowed => t.allowed.to_string(),
            Self::Pcpu => format!("{:.1}", percent(row)),
            Self::Time => seconds(t.cpu_time()),
            Self::Utime => seconds(t.user),
            Self::Stime => seconds(t.system),
            Self::Queued => seconds(t.queued),
            Self::Vol => t.voluntary.to_string(),
            Self::Invol => t.involuntary.to_string(),
            Self::Mig => t.migrations.to_string(),
            Self::Wait => waits_for(t, row.process.snapshot.process.taken),
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
            Self::Wait => (s.wait, s.call, s.address).cmp(&(t.wait, t.call, t.address)),
        }
    }

    /// What it is called in `-o` and in JSON.
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

/// Seconds with milliseconds.
#[must_use]
pub fn seconds(time: Nanos) -> String {
    format!("{}.{:03}", time.0 / 1_000_000_000, time.0 / 1_000_000 % 1_000)
}

/// What a thread waits for, and how long at most from the time of the snapshot on.
#[must_use]
pub fn waits_for(thread: &Thread, taken: Nanos) -> String {
    let mut text = match thread.wait {
        Wait::Futex | Wait::PiMutex => format!("{} {:#x}", thread.wait.name(), thread.address),
        Wait::Host => match abi::nr::name(usize::from(thread.call)) {
            Some(name) => name.to_owned(),
            None => format!("host call {}", thread.call),
        },
        wait => wait.name().to_owned(),
    };
    if thread.until != Nanos::ZERO {
        text += &format!(", {} s left", seconds(thread.until.since(taken)));
    }
    text
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
    let cells: Vec<Vec<String>> = rows.iter().map(|&row| columns.iter().map(|c| c.text(row)).collect()).collect();
    let width = |i: usize| {
        let longest = cells.iter().map(|line| length(&line[i])).max().unwrap_or(0);
        longest.max(if headings { columns[i].heading().len() } else { 0 })
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut line = String::new();
    let mut write = |cells: &mut dyn Iterator<Item = &str>, out: &mut dyn std::io::Write| {
        line.clear();
        for (i, cell) in cells.enumerate() {
            use std::fmt::Write;
            let width = widths[i];
            let _ = if columns[i].is_text() { write!(line, "{cell:width$} ") } else { write!(line, "{cell:>width$} ") };
        }
        writeln!(out, "{}", line.trim_end())
    };
    if headings {
        write(&mut columns.iter().map(|column| column.heading()), out)?;
    }
    cells.iter().enumerate().try_for_each(|(i, line)| {
        write(&mut line.iter().map(String::as_str), out)?;
        under(i, out)
    })
}
