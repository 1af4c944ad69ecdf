//! The visible part, and the keys that change it.

use super::rates::{Measured, Rates, Speed};
use clap::ValueEnum;
use ids::Nanos;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use serde_json::{Value, json};
use state::{Place, Thread};
use std::time::Duration;
use watch::column::{self, seconds, waits_for};
use watch::printable;

/// The sort key; the largest first, but for names and ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Key {
    /// CPU time in percent
    #[default]
    Cpu,
    /// Time in queues in percent
    Queued,
    /// Switches a second
    Switches,
    /// Changes of CPU a second
    Migrations,
    /// CPU time in all
    Time,
    /// The most urgent first
    Priority,
    /// Running ones first
    State,
    /// By name
    Name,
    /// By process and thread
    Id,
}

/// How lines are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Threads of all processes together.
    Threads,
    /// Under each process its threads.
    Tree,
    /// Processes only.
    Processes,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The next picture.
    Go,
    /// The end.
    Leave,
}

/// A line of the table.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    /// The process.
    pub process: &'a Measured,
    /// The thread; `None`: the line is about the process.
    pub thread: Option<&'a Thread>,
    /// Its speed, or the sum of its threads'.
    pub speed: Speed,
    /// CPU time.
    pub time: Nanos,
    /// Whether it stands under its process.
    pub below: bool,
}

impl Line<'_> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.thread.map_or_else(|| self.process.name.clone(), |thread| printable(thread.name()))
    }

    /// R, Q, H or S; of a process, that of its busiest thread.
    #[must_use]
    pub fn state(&self) -> char {
        let busiest = || self.process.watched.snapshot.threads.iter().min_by_key(|t| (t.place, t.wait));
        self.thread.or_else(busiest).map_or('-', Thread::letter)
    }

    /// Its wait; of a process, the number of threads.
    #[must_use]
    pub fn wait(&self) -> String {
        let snapshot = &self.process.watched.snapshot;
        match self.thread {
            Some(thread) => waits_for(thread, snapshot.process.taken),
            None => format!("{} threads", snapshot.threads.len()),
        }
    }

    /// Its priority: with the policy's initial where that is real time, else the nice value.
    #[must_use]
    pub fn priority(&self) -> String {
        match self.thread {
            Some(thread) if thread.policy.is_rt() => format!("{}{}", column::policy(thread.policy), thread.rt.0),
            Some(thread) if thread.policy == ids::Policy::Deadline => "DLN".to_owned(),
            Some(thread) => thread.nice.0.to_string(),
            None => String::new(),
        }
    }
}

/// The visible part.
#[derive(Debug)]
pub struct View {
    /// The order.
    pub key: Key,
    /// The other way round.
    pub reversed: bool,
    /// Only names and ids with this text in them.
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// How lines are grouped.
    pub group: Group,
    /// The line that is marked.
    pub marked: usize,
    /// Nothing is asked for.
    pub paused: bool,
    /// The keys are shown.
    pub help: bool,
    /// Only these processes, if any are named.
    pub only: Vec<i32>,
    /// The time between two looks.
    pub interval: Duration,
}

const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

impl View {
    /// Threads in this order, with this filter.
    #[must_use]
    pub fn new(key: Key, filter: String) -> View {
        View {
            key,
            reversed: false,
            filter,
            typing: false,
            group: Group::Threads,
            marked: 0,
            paused: false,
            help: false,
            only: vec![],
            interval: Duration::from_secs(1),
        }
    }

    /// Whether it is about this process.
    #[must_use]
    pub fn has(&self, process: &Measured) -> bool {
        self.only.is_empty() || self.only.contains(&process.watched.pid)
    }

    /// The lines, in their order.
    #[must_use]
    pub fn lines<'a>(&self, rates: &'a Rates) -> Vec<Line<'a>> {
        let processes = rates.processes.iter().filter(|process| self.has(process));
        let mut lines = match self.group {
            Group::Threads => processes.flat_map(|process| threads(process, false)).collect(),
            Group::Tree | Group::Processes => processes.map(whole).collect::<Vec<_>>(),
        };
        if self.group != Group::Tree {
            lines.retain(|line| self.matches(line));
            self.sort(&mut lines);
            return lines;
        }
        self.sort(&mut lines);
        let with_threads = |parent: Line<'a>| {
            let mut below = threads(parent.process, true).collect::<Vec<_>>();
            if !self.matches(&parent) {
                below.retain(|line| self.matches(line));
            }
            self.sort(&mut below);
            let shown = self.matches(&parent) || !below.is_empty();
            shown.then_some(parent).into_iter().chain(below)
        };
        lines.into_iter().flat_map(with_threads).collect()
    }

    fn matches(&self, line: &Line<'_>) -> bool {
        let filter = self.filter.to_lowercase();
        let id = line.thread.map_or(line.process.watched.pid, |thread| thread.tid);
        filter.is_empty() || line.name().to_lowercase().contains(&filter) || id.to_string().contains(&filter)
    }

    fn sort(&self, lines: &mut [Line<'_>]) {
        let id = |line: &Line<'_>| (line.process.watched.pid, line.thread.map_or(0, |thread| thread.tid));
        let urgency = |line: &Line<'_>| line.thread.map(|thread| (thread.rt, std::cmp::Reverse(thread.nice)));
        lines.sort_by(|a, b| {
            let (s, t) = (&a.speed, &b.speed);
            let order = match self.key {
                Key::Cpu => t.cpu.total_cmp(&s.cpu),
                Key::Queued => t.queued.total_cmp(&s.queued),
                Key::Switches => t.switches.total_cmp(&s.switches),
                Key::Migrations => t.migrations.total_cmp(&s.migrations),
                Key::Time => b.time.cmp(&a.time),
                Key::Priority => urgency(b).cmp(&urgency(a)),
                Key::State => place(a).cmp(&place(b)),
                Key::Name => a.name().cmp(&b.name()),
                Key::Id => std::cmp::Ordering::Equal,
            };
            let order = order.then_with(|| id(a).cmp(&id(b)));
            if self.reversed { order.reverse() } else { order }
        });
    }

    /// A key was pressed.
    pub fn press(&mut self, key: KeyCode, modifiers: KeyModifiers, rates: &Rates) -> After {
        let control_c = key == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL);
        if control_c {
            return After::Leave;
        }
        if self.typing {
            self.type_filter(key);
            return After::Go;
        }
        if std::mem::take(&mut self.help) {
            return After::Go;
        }
        const PAGE: usize = 10;
        let last = self.lines(rates).len().saturating_sub(1);
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return After::Leave,
            KeyCode::Up | KeyCode::Char('k') => self.marked = self.marked.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.marked += 1,
            KeyCode::PageUp => self.marked = self.marked.saturating_sub(PAGE),
            KeyCode::PageDown => self.marked += PAGE,
            KeyCode::Home => self.marked = 0,
            KeyCode::End => self.marked = last,
            KeyCode::Char('s') | KeyCode::Right => self.key = next(self.key, 1),
            KeyCode::Char('S') | KeyCode::Left => self.key = next(self.key, Key::value_variants().len() - 1),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('g') | KeyCode::Tab => {
                self.group = match self.group {
                    Group::Threads => Group::Tree,
                    Group::Tree => Group::Processes,
                    Group::Processes => Group::Threads,
                }
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('+') => self.interval = (self.interval * 2).min(INTERVAL_MAX),
            KeyCode::Char('-') => self.interval = (self.interval / 2).max(INTERVAL_MIN),
            KeyCode::Char('h' | '?') => self.help = true,
            _ => {}
        }
        self.marked = self.marked.min(last);
        After::Go
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
        self.marked = 0;
    }

    /// All of it for programs.
    #[must_use]
    pub fn json(&self, rates: &Rates) -> Value {
        let processes = rates.processes.iter().filter(|process| self.has(process)).map(|p| {
            let process = &p.watched.snapshot.process;
            json!({ "pid": p.watched.pid, "name": p.name, "threads": process.threads, "cpu_percent": p.busy,
                "user_ns": process.user.0, "system_ns": process.system.0,
                "stale_seconds": p.watched.stale.map(|age| age.as_secs_f64()) })
        });
        let lines = self.lines(rates);
        let threads = lines.iter().filter_map(|line| line.thread.map(|thread| (line, thread))).map(|(line, thread)| {
            json!({ "pid": line.process.watched.pid, "tid": thread.tid, "name": line.name(),
                "state": line.state().to_string(), "policy": column::policy(thread.policy),
                "priority": thread.rt.0, "nice": thread.nice.0, "cpu": thread.cpu, "wait": line.wait(),
                "cpu_percent": line.speed.cpu, "queued_percent": line.speed.queued,
                "switches_per_second": line.speed.switches, "migrations_per_second": line.speed.migrations,
                "time_ns": thread.cpu_time().0, "queued_ns": thread.queued.0 })
        });
        json!({ "processes": processes.collect::<Vec<_>>(), "threads": threads.collect::<Vec<_>>() })
    }

    /// The title: how many threads run, are queued, wait.
    #[must_use]
    pub fn title(&self, rates: &Rates) -> String {
        let shown = || rates.processes.iter().filter(|process| self.has(process));
        let threads = || shown().flat_map(|process| &process.watched.snapshot.threads);
        let count = |place| threads().filter(|thread| thread.place == place).count();
        let some = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        format!(
            "{}, {}: {} running, {} queued, {} waiting",
            some(shown().count(), "process", "processes"),
            some(threads().count(), "thread", "threads"),
            count(Place::Running),
            count(Place::Queued),
            count(Place::Waiting)
        )
    }
}

fn place(line: &Line<'_>) -> usize {
    "RQHS".find(line.state()).unwrap_or(4)
}

fn next(key: Key, steps: usize) -> Key {
    let all = Key::value_variants();
    let at = all.iter().position(|&k| k == key).unwrap_or(0);
    all[(at + steps) % all.len()]
}

fn threads(process: &Measured, below: bool) -> impl Iterator<Item = Line<'_>> {
    let threads = process.watched.snapshot.threads.iter().zip(&process.speeds);
    threads.map(move |(thread, &speed)| Line { process, thread: Some(thread), speed, time: thread.cpu_time(), below })
}

fn whole(process: &Measured) -> Line<'_> {
    let mut speed = Speed::default();
    process.speeds.iter().for_each(|&one| speed += one);
    let Nanos(user) = process.watched.snapshot.process.user;
    let time = Nanos(user.saturating_add(process.watched.snapshot.process.system.0));
    Line { process, thread: None, speed, time, below: false }
}

/// Formats seconds in as few characters as possible.
#[must_use]
pub fn short_seconds(time: Nanos) -> String {
    let text = seconds(time);
    if text.len() <= 8 { text } else { format!("{}", time.0 / 1_000_000_000) }
}
