//! As hackbench: in each group every sender sends to every receiver, through a queue with a
//! mutex and two condition variables. Nothing but waiting and waking. As there, nobody begins before all are there.

use super::Options;
use super::threads::{Code, Extent, Maker, Quantity, Results, Shared, Threads, simulate, together};
use crate::report::{Report, Samples};
use crate::user::{Barrier, Cond, Mutex, Step, View};
use ids::Nanos;
use sched::Attr;
use std::collections::VecDeque;

/// Senders, and receivers, of a group.
const SIDE: usize = 5;
/// Messages a queue holds.
const ROOM: u32 = 4;

/// A bounded queue: its words count what is in it.
#[derive(Clone)]
struct Queue {
    mutex: Mutex,
    filled: Cond,
    emptied: Cond,
    count: u64,
    /// When each message in it was sent. The mutex protects it, too.
    sent: Shared<VecDeque<Nanos>>,
}

impl Queue {
    fn new(maker: &mut dyn Maker) -> Queue {
        let [filled, emptied] = [(); 2].map(|()| maker.cond());
        Queue { mutex: maker.mutex(), filled, emptied, count: maker.word(), sent: Shared::default() }
    }
}

/// Runs it; `options.threads` groups of 10 (1 for two CPUs), `options.rounds` messages a pair (20).
pub fn run(seed: u64, cpus: usize, options: &Options) -> Report {
    let (mut report, results) = simulate("hackbench", threads, seed, cpus, options);
    report.value("messages", results.counts.iter().map(|(_, n)| *n as f64).sum(), "");
    report.value("time a message", results.samples("time a message").mean() / 1e3, "µs");
    report
}

/// Its threads.
pub fn threads(maker: &mut dyn Maker, cpus: usize, options: &Options) -> Threads {
    let groups = options.threads.unwrap_or(cpus.div_ceil(2));
    let messages = options.rounds.unwrap_or(20);
    let start = maker.barrier((2 * SIDE * groups) as u32);
    let mut threads: Vec<(Attr, Code)> = Vec::new();
    let (mut waits, mut spans) = (Vec::new(), Vec::new());
    let mut add = |queues: Vec<Queue>, put| {
        let measured = Measured::default();
        waits.push(measured.waits.clone());
        spans.push(measured.span.clone());
        threads.push((Attr::DEFAULT, transfer(queues, SIDE as u32 * messages, put, start, measured)));
    };
    for _ in 0..groups {
        let queues: Vec<Queue> = (0..SIDE).map(|_| Queue::new(maker)).collect();
        for queue in &queues {
            add(vec![queue.clone()], false);
            add(queues.clone(), true);
        }
    }
    let results = move || {
        let waits = together(&waits);
        let mut whole = Extent::default();
        spans.iter().for_each(|span| whole.join(*span.lock()));
        let total = waits.len() as u64;
        let mut per_message = Samples::default();
        per_message.add(whole.span().0 / total.max(1));
        let quantity =
            |threads, name, samples, of_means| Quantity { threads, attr: Attr::DEFAULT, name, samples, of_means };
        Results {
            quantities: vec![
                quantity("all", "time a message", per_message, true),
                quantity("receivers", "in the queue", waits, false),
            ],
            counts: vec![("messages", total)],
            ..Results::default()
        }
    };
    Threads { threads, results: Box::new(results) }
}

/// The measurements of one thread.
#[derive(Clone, Default)]
struct Measured {
    /// From its begin to its end.
    span: Shared<Extent>,
    /// How long each message that it received was in the queue.
    waits: Shared<Samples>,
}

/// The state of a thread between two of its steps.
#[derive(Clone, Copy)]
enum At {
    Begin,
    /// Outside of a queue.
    Outside,
    /// It has the queue's mutex.
    Inside,
    /// It has put a message, or taken one.
    Changed(Cond),
    Signalled,
}

/// Sends this many messages to the queues in turn, or receives them.
fn transfer(queues: Vec<Queue>, mut left: u32, put: bool, start: Barrier, seen: Measured) -> Code {
    let (mut turn, mut at) = (0, At::Begin);
    Box::new(move |v: &mut View<'_>| {
        let q = &queues[turn % queues.len()];
        match at {
            At::Begin => {
                at = At::Outside;
                return Step::Barrier(start);
            }
            At::Outside => {
                if turn == 0 || left == 0 {
                    seen.span.lock().add(v.now());
                }
                if left == 0 {
                    return Step::Exit;
                }
                at = At::Inside;
                return Step::Lock(q.mutex);
            }
            At::Inside => {}
            At::Changed(wake) => {
                at = At::Signalled;
                return Step::CondSignal(wake);
            }
            At::Signalled => {
                (at, turn, left) = (At::Outside, turn + 1, left - 1);
                return Step::Unlock(q.mutex);
            }
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
        let mut sent = q.sent.lock();
        if put {
            sent.push_back(v.now());
        } else if let Some(at) = sent.pop_front() {
            seen.waits.lock().add(v.now().since(at).0);
        }
        at = At::Changed(wake);
        Step::Compute(Nanos(500))
    })
}
