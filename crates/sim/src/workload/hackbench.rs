//! As hackbench: in each group every sender sends to every receiver, through a queue with a
//! mutex and two condition variables. Nothing but waiting and waking.

use super::Options;
use crate::history::Threads;
use crate::report::Report;
use crate::user::{Cond, Mutex, Program, Step, View};
use crate::world::Setup;
use ids::Nanos;
use sched::Attr;
use std::collections::VecDeque;

/// Senders, and receivers, of a group.
const SIDE: usize = 5;
/// Messages a queue holds.
const ROOM: u32 = 4;

/// A bounded queue: its words count what is in it.
#[derive(Clone, Copy, Debug)]
struct Queue {
    mutex: Mutex,
    filled: Cond,
    emptied: Cond,
    count: u64,
}

/// Runs it; `options.threads` groups of 10 (1 for two CPUs), `options.rounds` messages a pair (20).
pub fn run(seed: u64, cpus: usize, options: &Options) -> Report {
    let groups = options.threads.unwrap_or(cpus.div_ceil(2));
    let messages = options.rounds.unwrap_or(20);
    let mut setup = Setup::new(options.config(seed, cpus));
    let mut programs = Threads::new();
    for _ in 0..groups {
        let queues: Vec<Queue> = (0..SIDE)
            .map(|_| Queue { mutex: setup.mutex(), filled: setup.cond(), emptied: setup.cond(), count: setup.words(1) })
            .collect();
        for &q in &queues {
            programs.push((Attr::DEFAULT, transfer(vec![q], SIDE as u32 * messages, false)));
            programs.push((Attr::DEFAULT, transfer(queues.clone(), messages * SIDE as u32, true)));
        }
    }
    let out = super::run(setup, options.policy, programs);
    let mut report = Report::new("hackbench", seed, cpus, out);
    let total = groups * SIDE * SIDE * messages as usize;
    report.value("messages", total as f64, "");
    report.value("time a message", report.time_ns as f64 / total.max(1) as f64 / 1e3, "µs");
    report
}

/// Sends this many messages to the queues in turn, or receives them.
fn transfer(queues: Vec<Queue>, mut left: u32, put: bool) -> Box<dyn Program> {
    let mut turn = 0;
    let mut steps: VecDeque<Step> = VecDeque::new();
    let mut inside = false;
    Box::new(move |v: &mut View<'_>| {
        if let Some(step) = steps.pop_front() {
            return step;
        }
        if left == 0 {
            return Step::Exit;
        }
        let q = queues[turn % queues.len()];
        if !std::mem::replace(&mut inside, true) {
            return Step::Lock(q.mutex);
        }
        let n = v.load(q.count);
        let (blocked, changed, wait, wake) = if put {
            (n == ROOM, n + 1, q.emptied, q.filled)
        } else {
            (n == 0, n.wrapping_sub(1), q.filled, q.emptied)
        };
        if blocked {
            return Step::CondWait(wait, q.mutex);
        }
        v.store(q.count, changed);
        (inside, turn, left) = (false, turn + 1, left - 1);
        steps.extend([Step::CondSignal(wake), Step::Unlock(q.mutex)]);
        Step::Compute(Nanos(500))
    })
}
