//! From a trace to a recording.

use super::{Action, Real, Recording, Thread, path};
use crate::report::Samples;
use ids::{Left, Nanos, Waker};
use perfetto::{Process, Span};
use std::collections::BTreeMap;
use std::fmt;

/// Why a trace cannot be replayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// Switches are missing.
    Lost,
    /// It has no thread.
    Empty,
    /// Nothing says what ended this thread's wait, or what made it: its id, and when it went on.
    Unexplained(i32, Nanos),
    /// A thread was woken by one that is not in the trace: their ids, and when.
    Stranger(i32, i32, Nanos),
    /// It takes longer than simulated time is counted.
    Long,
    /// Each of these threads, by their ids, waits for another one of them.
    Circle(Vec<i32>),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Lost => {
                f.write_str("switches are missing, because its program switched faster than they were written")
            }
            Unusable::Empty => f.write_str("no thread runs in it"),
            Unusable::Unexplained(tid, at) => {
                write!(
                    f,
                    "it does not say what made thread {tid} runnable before {} ns (a trace of a version that did not \
                           record that?)",
                    at.0
                )
            }
            Unusable::Stranger(tid, waker, at) => {
                write!(f, "thread {tid} was woken at {} ns by thread {waker}, which it does not show", at.0)
            }
            Unusable::Long => f.write_str("its times span more than 13 days, so they are damaged"),
            Unusable::Circle(tids) => write!(f, "threads {tids:?} wait for each other in a circle"),
        }
    }
}

impl std::error::Error for Unusable {}

/// All CPUs' times of a replay, which takes no longer than its runs and waits one after the other, can be counted together.
const LONGEST: Nanos = Nanos(1 << 50);
/// The priority with which a program begins in the simulator.
const FIRST_PRIORITY: i16 = 120;

/// A thread from its birth to its end; a later thread may have the same id.
struct Life<'a> {
    tid: i32,
    spans: Vec<&'a Span>,
    /// What other threads want of it: when, and what.
    asked: Vec<(Nanos, Action)>,
    waits: usize,
}

impl Life<'_> {
    fn from(&self) -> Nanos {
        self.spans[0].from
    }
}

impl Recording {
    /// The recording of a process of a trace.
    ///
    /// # Errors
    /// Why there is none.
    pub fn new(process: &Process) -> Result<Recording, Unusable> {
        if process.lost {
            return Err(Unusable::Lost);
        }
        let mut lives = lives(process);
        let start = lives.first().ok_or(Unusable::Empty)?.from();
        let end = process.spans.iter().map(|span| span.to).max().unwrap_or(start);
        let before_runs: Vec<Vec<Option<Action>>> =
            (0..lives.len()).map(|at| explain(&mut lives, at, start)).collect::<Result<_, _>>()?;
        let mut latency = Samples::default();
        lives.iter().flat_map(latencies).for_each(|ns| latency.add(ns));
        let mut inherited = vec![FIRST_PRIORITY; lives.len()];
        let mut threads = Vec::with_capacity(lives.len());
        // A thread is made after its creator has begun, so what it inherits is known when its turn comes.
        for (at, (life, before)) in lives.iter_mut().zip(&before_runs).enumerate() {
            let name = process.threads.get(&life.tid).cloned().unwrap_or_default();
            let run = life.spans.iter().fold(Nanos::ZERO, |sum, span| sum + span.to.since(span.from));
            let actions = actions(life, before, inherited[at]);
            hand_on(&actions, at, &mut inherited);
            threads.push(Thread { tid: life.tid, name, actions, run });
        }
        let critical_path = path::longest(&threads)
            .map_err(|stuck| Unusable::Circle(stuck.into_iter().map(|at| threads[at].tid).collect()))?;
        let work = threads.iter().fold(Nanos::ZERO, |sum, thread| sum + thread.run);
        if work.max(critical_path).max(end.since(start)) > LONGEST {
            return Err(Unusable::Long);
        }
        let (cpus, switches) = (process.cpus.len().max(1), process.spans.len());
        let real = Real { cpus, makespan: end.since(start), latency, switches };
        Ok(Recording { name: process.name.clone(), threads, real, critical_path })
    }
}

/// All threads, in order of their first runs.
fn lives(process: &Process) -> Vec<Life<'_>> {
    let mut spans: Vec<&Span> = process.spans.iter().collect();
    spans.sort_by_key(|span| (span.from, span.to));
    let mut lives: Vec<Life<'_>> = Vec::new();
    let mut current: BTreeMap<i32, usize> = BTreeMap::new();
    for span in spans {
        let known = current.get(&span.tid).copied().filter(|&at| {
            let is_over = lives[at].spans.last().is_some_and(|last| last.left == Left::Ended);
            !is_over && !is_birth(span)
        });
        let at = known.unwrap_or_else(|| {
            lives.push(Life { tid: span.tid, spans: Vec::new(), asked: Vec::new(), waits: 0 });
            lives.len() - 1
        });
        current.insert(span.tid, at);
        lives[at].spans.push(span);
    }
    lives
}

fn is_birth(span: &Span) -> bool {
    span.woken.is_some_and(|wake| matches!(wake.by, Waker::Creator(_)))
}

/// For each run of a thread, what it does before; and tells those on which that depends.
fn explain(lives: &mut [Life<'_>], at: usize, start: Nanos) -> Result<Vec<Option<Action>>, Unusable> {
    let mut last: Option<&Span> = None;
    let mut all = Vec::with_capacity(lives[at].spans.len());
    for i in 0..lives[at].spans.len() {
        let span = lives[at].spans[i];
        let unexplained = Unusable::Unexplained(span.tid, span.from);
        all.push(match (last, span.woken) {
            (Some(last), _) if last.left == Left::Runnable => None,
            // The program's first thread.
            (None, None) if at == 0 => None,
            (_, None) => return Err(unexplained),
            (last, Some(wake)) => match wake.by {
                Waker::Creator(tid) if last.is_none() => {
                    ask(lives, tid.0, wake.at, span, Action::Create(at))?;
                    None
                }
                Waker::Thread(tid) if last.is_some() => {
                    let wait = lives[at].waits;
                    lives[at].waits += 1;
                    ask(lives, tid.0, wake.at, span, Action::Wake(at, wait))?;
                    Some(Action::Wait(wait))
                }
                Waker::Time => last.map(|last| Action::Sleep(wake.at.since(last.to))),
                Waker::Outside => last.map(|_| Action::Until(wake.at.since(start))),
                Waker::Creator(_) | Waker::Thread(_) => return Err(unexplained),
            },
        });
        last = Some(span);
    }
    Ok(all)
}

/// The thread that had this id then shall do this.
fn ask(lives: &mut [Life<'_>], tid: i32, at: Nanos, woken: &Span, action: Action) -> Result<(), Unusable> {
    let life = lives.iter_mut().rev().find(|life| life.tid == tid && life.from() <= at);
    let life = life.ok_or(Unusable::Stranger(woken.tid, tid, at))?;
    life.asked.push((at, action));
    Ok(())
}

/// How long a woken or new thread waited for a CPU, each time, in nanoseconds.
fn latencies(life: &Life<'_>) -> Vec<u64> {
    let mut last: Option<&Span> = None;
    let mut all = Vec::new();
    for &span in &life.spans {
        let waited = last.is_none_or(|last| last.left == Left::Waiting);
        if let (true, Some(wake)) = (waited, span.woken) {
            let since = last.map_or(wake.at, |last| wake.at.max(last.to));
            all.push(span.from.since(since).0);
        }
        last = Some(span);
    }
    all
}

/// Tells the threads that a thread makes which priority they inherit.
fn hand_on(actions: &[Action], at: usize, inherited: &mut [i16]) {
    let mut priority = inherited[at];
    for action in actions {
        match action {
            Action::Priority(new) => priority = *new,
            Action::Create(child) => inherited[*child] = priority,
            _ => {}
        }
    }
}

/// A thread's actions: its runs, what it does before them, and what others want of it, at their places in its run time.
fn actions(life: &mut Life<'_>, before: &[Option<Action>], mut priority: i16) -> Vec<Action> {
    life.asked.sort_by_key(|(at, _)| *at);
    let mut asked = life.asked.iter().copied().peekable();
    let mut actions = Vec::new();
    for (i, (span, before)) in life.spans.iter().zip(before).enumerate() {
        actions.extend(*before);
        if span.priority != priority {
            priority = span.priority;
            actions.push(Action::Priority(priority));
        }
        // What falls between two runs, if clocks differ that much, belongs to the first: it was done before the wait.
        let next = life.spans.get(i + 1).map_or(Nanos::MAX, |next| next.from);
        let mut now = span.from;
        while let Some((at, action)) = asked.next_if(|(at, _)| *at < next) {
            let at = at.clamp(now, span.to);
            run(&mut actions, at.since(now));
            actions.push(action);
            now = at;
        }
        run(&mut actions, span.to.since(now));
    }
    actions.extend(asked.map(|(_, action)| action));
    actions
}

/// Adds a run, to the one before if nothing came between.
fn run(actions: &mut Vec<Action>, span: Nanos) {
    match actions.last_mut() {
        _ if span == Nanos::ZERO => {}
        Some(Action::Run(before)) => *before += span,
        _ => actions.push(Action::Run(span)),
    }
}
