//! As schbench (Chris Mason): message threads wake their workers; each worker computes and waits for the next
//! message. The result is how long a woken worker waits for a CPU. Only waiting workers get messages.

use super::Options;
use crate::history::Threads;
use crate::report::{Report, Samples};
use crate::user::{Program, Step, View};
use crate::world::Setup;
use ids::Nanos;
use sched::Attr;
use std::cell::RefCell;
use std::rc::Rc;

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
    let workers = options.threads.unwrap_or(2 * cpus);
    let rounds = options.rounds.unwrap_or(50);
    let mut setup = Setup::new(options.config(seed, cpus));
    let latency = Rc::new(RefCell::new(Samples::default()));
    let mut programs = Threads::new();
    for _ in 0..MESSENGERS {
        // One word for each worker, and the time at which its message was sent.
        let boxes: Vec<u64> = (0..workers).map(|_| setup.words(1)).collect();
        let sent = Rc::new(RefCell::new(vec![Nanos::ZERO; workers]));
        for (i, &word) in boxes.iter().enumerate() {
            programs.push((Attr::DEFAULT, worker(latency.clone(), sent.clone(), i, word, rounds)));
        }
        programs.push((Attr::DEFAULT, messenger(sent, boxes, rounds)));
    }
    let out = super::run(setup, options.policy, programs);
    let mut report = Report::new("schbench", seed, cpus, out);
    latency.borrow().report("wake-up", &mut report);
    report
}

fn worker(
    latency: Rc<RefCell<Samples>>,
    sent: Rc<RefCell<Vec<Nanos>>>,
    me: usize,
    word: u64,
    rounds: u32,
) -> Box<dyn Program> {
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
        latency.borrow_mut().add(v.now().since(sent.borrow()[me]).0);
        let half = WORK.0 / 2;
        Step::Compute(Nanos(v.rng.between(half, WORK.0 + half)))
    })
}

fn messenger(sent: Rc<RefCell<Vec<Nanos>>>, boxes: Vec<u64>, rounds: u32) -> Box<dyn Program> {
    let mut owed: Vec<u32> = vec![rounds; boxes.len()];
    let mut at = 0;
    Box::new(move |v: &mut View<'_>| {
        while at < boxes.len() {
            let i = at;
            at += 1;
            // A worker that is not done yet gets its message later.
            if owed[i] > 0 && v.load(boxes[i]) == WAITS {
                owed[i] -= 1;
                sent.borrow_mut()[i] = v.now();
                v.store(boxes[i], WOKEN);
                return Step::FutexWake { addr: boxes[i], count: 1 };
            }
        }
        at = 0;
        if owed.iter().all(|n| *n == 0) { Step::Exit } else { Step::Sleep(Nanos::from_millis(1)) }
    })
}
