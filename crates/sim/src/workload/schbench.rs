//! As schbench (Chris Mason): message threads wake their workers; each worker computes and waits for the next
//! message. The result is how long a woken worker waits for a CPU. Only waiting workers get messages.

use super::Options;
use super::threads::{Code, Maker, Quantity, Results, Shared, Threads, simulate, together};
use crate::report::{Report, Samples};
use crate::user::{Step, View};
use ids::Nanos;
use sched::Attr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const MESSENGERS: usize = 2;
/// A worker's word: it waits, it has a message, it works.
const WAITS: u32 = 0;
const WOKEN: u32 = 1;
const WORKS: u32 = 2;
/// A worker's CPU time per message.
const WORK: Nanos = Nanos::from_millis(3);

/// Runs it with `options.threads` workers for each message thread (default: 2 a CPU) and `options.rounds` messages
/// (default: 50).
pub fn run(seed: u64, cpus: usize, options: &Options) -> Report {
    let (mut report, results) = simulate("schbench", threads, seed, cpus, options);
    results.samples("wake-up").report("wake-up", &mut report);
    report
}

/// When a worker's message was sent; it is stored before the worker's word and read after it.
type Sent = Arc<AtomicU64>;

/// Its threads.
pub fn threads(maker: &mut dyn Maker, cpus: usize, options: &Options) -> Threads {
    let workers = options.threads.unwrap_or(2 * cpus);
    let rounds = options.rounds.unwrap_or(50);
    let latency: Vec<Shared<Samples>> = (0..MESSENGERS * workers).map(|_| Shared::default()).collect();
    let mut threads: Vec<(Attr, Code)> = Vec::new();
    for of_messenger in latency.chunks(workers) {
        let boxes: Vec<(u64, Sent)> = (0..workers).map(|_| (maker.word(), Sent::default())).collect();
        for ((word, sent), latency) in boxes.iter().zip(of_messenger) {
            threads.push((Attr::DEFAULT, worker(latency.clone(), sent.clone(), *word, rounds)));
        }
        threads.push((Attr::DEFAULT, messenger(boxes, rounds)));
    }
    let results = move || {
        let samples = together(&latency);
        let quantity = Quantity { threads: "workers", attr: Attr::DEFAULT, name: "wake-up", samples, of_means: false };
        Results { quantities: vec![quantity], ..Results::default() }
    };
    Threads { threads, results: Box::new(results) }
}

fn worker(latency: Shared<Samples>, sent: Sent, word: u64, rounds: u32) -> Code {
    let mut left = rounds;
    Box::new(move |v: &mut View<'_>| {
        match v.load(word) {
            WAITS if left == 0 => return Step::Exit,
            WAITS => return Step::FutexWait { addr: word, value: WAITS, timeout: None },
            WORKS => {
                v.store(word, WAITS);
                return Step::Compute(Nanos(1));
            }
            _ => v.store(word, WORKS),
        }
        left -= 1;
        latency.lock().add(v.now().since(Nanos(sent.load(Relaxed))).0);
        let half = WORK.0 / 2;
        Step::Compute(Nanos(v.rng.between(half, WORK.0 + half)))
    })
}

fn messenger(boxes: Vec<(u64, Sent)>, rounds: u32) -> Code {
    let mut owed: Vec<u32> = vec![rounds; boxes.len()];
    let mut at = 0;
    Box::new(move |v: &mut View<'_>| {
        while let Some((word, sent)) = boxes.get(at) {
            let owed = &mut owed[at];
            at += 1;
            // A worker that is not done yet gets its message later.
            if *owed > 0 && v.load(*word) == WAITS {
                *owed -= 1;
                sent.store(v.now().0, Relaxed);
                v.store(*word, WOKEN);
                return Step::FutexWake { addr: *word, count: 1 };
            }
        }
        at = 0;
        if owed.iter().all(|n| *n == 0) { Step::Exit } else { Step::Sleep(Nanos::from_millis(1)) }
    })
}
