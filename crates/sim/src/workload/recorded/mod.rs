//! A program that ran live, as its trace shows it, on other machines: what would it do on 64 CPUs?
//!
//! [`Recording::new`] turns a trace into a list of [`Action`]s for each thread; [`Recording::run`] does them on a simulated
//! machine. `path` says how fast they can be at most.
//!
//! # What is kept of the trace
//! A thread's run times, in nanoseconds, and their order. A thread that was preempted, or yielded, simply goes on later.
//! What follows the end of a run depends on what ended the wait:
//!
//! | the trace says | it is | so in a replay |
//! |---|---|---|
//! | another thread woke it | a dependency | it goes on when that thread has run for as long as before it woke it live |
//! | another thread made it | a dependency | the same |
//! | time had passed: a sleep, a time limit, a device | a delay | it waits as long as live, from the moment when it begins to wait |
//! | something outside: a descriptor, a child, a signal, a timer | an arrival | it goes on at the same time after the program's start as live, or at once if that has passed |
//!
//! Threads that still live when the program ends are gone when they have done what they did.
//!
//! # What a replay cannot know
//! - Run times are the recorded ones. Caches, memory bandwidth, frequency and sibling threads of a core change them; so does
//!   what the host took from a CPU while it was recorded, which counts as run time here.
//! - The order of events is the recorded one. A lock that was free live is free in a replay, and one that was contended is
//!   handed over by the same thread. Work that threads take from a common queue stays with the thread that took it.
//! - A thread that spins runs for as long as live, and a program that looks at the number of its CPUs starts as many threads
//!   as live.
//! - A descriptor is outside even if another thread of the program wrote to it, as to a pipe.
//! - Affinity masks, slices, and the parameters of SCHED_DEADLINE and SCHED_RR are not in a trace: all threads may use all
//!   CPUs, and these two run as SCHED_FIFO.

mod build;
mod path;
mod program;
mod run;
#[cfg(test)]
mod tests;

pub use build::Unusable;
pub use run::{Policies, Prediction};

use crate::report::Samples;
use ids::Nanos;

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It runs for so long.
    Run(Nanos),
    /// From here on it has this priority, as Linux's kernel counts it.
    Priority(i16),
    /// It makes the thread in that place of [`Recording::threads`].
    Create(usize),
    /// It ends a wait of that thread: the one with this number.
    Wake(usize, usize),
    /// It waits for the [`Action::Wake`] that names this number.
    Wait(usize),
    /// It waits for so long.
    Sleep(Nanos),
    /// It waits until this much time has passed since the program's start.
    Until(Nanos),
}

/// A thread of the recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Its id in the trace.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Its actions in order.
    pub actions: Vec<Action>,
    /// How long it ran.
    pub run: Nanos,
}

/// What the trace says of the real run.
#[derive(Clone, Debug)]
pub struct Real {
    /// CPUs.
    pub cpus: usize,
    /// From the start to the end of the last thread.
    pub makespan: Nanos,
    /// How long woken and new threads waited for a CPU, in nanoseconds.
    pub latency: Samples,
    /// How often a CPU turned to a thread.
    pub switches: usize,
}

/// A program's threads. The first one makes the others, directly or not.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The program's name.
    pub name: String,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// What they did live.
    pub real: Real,
    /// How long it takes with as many CPUs as threads if nothing has a cost: the longest chain of runs and waits that
    /// depend on each other.
    pub critical_path: Nanos,
}

/// Waits by what ended them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// Another thread.
    pub by_threads: usize,
    /// Time.
    pub by_time: usize,
    /// Something outside.
    pub by_outside: usize,
}

impl Recording {
    /// How long all threads ran together.
    #[must_use]
    pub fn work(&self) -> Nanos {
        self.threads.iter().fold(Nanos::ZERO, |sum, thread| sum + thread.run)
    }

    /// The part of the CPUs' time that the threads ran, from 0 to 1.
    #[must_use]
    pub fn utilisation(&self, cpus: usize, makespan: Nanos) -> f64 {
        self.work().0 as f64 / (cpus as f64 * makespan.0.max(1) as f64)
    }
}

impl Thread {
    /// Its waits.
    #[must_use]
    pub fn waits(&self) -> Waits {
        let count = |is: fn(&Action) -> bool| self.actions.iter().filter(|action| is(action)).count();
        Waits {
            by_threads: count(|action| matches!(action, Action::Wait(_))),
            by_time: count(|action| matches!(action, Action::Sleep(_))),
            by_outside: count(|action| matches!(action, Action::Until(_))),
        }
    }
}
