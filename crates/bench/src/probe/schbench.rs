//! Like schbench (Chris Mason): workers ask a message thread to wake them, and compute once woken. How long does a
//! woken worker wait for a CPU?

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use nix::time::ClockId;

use super::clock::{now_ns, percentile, read_ns};
use super::{Measured, futex, report};

/// Numbers of workers that are measured, and the figures' names.
const SIZES: [(usize, &str); 3] = [(2, "schbench_p99_2"), (8, "schbench_p99_8"), (32, "schbench_p99_32")];
/// As schbench has by default.
const MESSENGERS: usize = 2;
/// CPU time that a worker spends on each message: two slices of the fair class on two CPUs.
const WORK_NS: u64 = 3_000_000;

/// The values of a worker's or message thread's word: it waits, or it has been called.
const WAITS: u32 = 0;
const CALLED: u32 = 1;

#[derive(Default)]
struct Post {
    /// `WAITS` or `CALLED`.
    word: AtomicU32,
    /// A worker that wants to be woken.
    asks: AtomicBool,
    woken_at_ns: AtomicU64,
    /// This call is the last: no further request is answered.
    over: AtomicBool,
}

impl Post {
    fn call(&self) {
        self.word.store(CALLED, Ordering::Release);
        futex::wake_one(&self.word);
    }

    fn wait(&self) {
        while self.word.swap(WAITS, Ordering::Acquire) == WAITS {
            futex::wait(&self.word, WAITS);
        }
    }
}

/// One message thread and its workers.
struct Team {
    messenger: Post,
    workers: Vec<Post>,
}

/// Microseconds from just before the message thread's futex call to the worker's first instruction, the 99th of a
/// hundred.
pub(super) fn measure(quick: bool) -> Measured {
    let seconds = if quick { 1 } else { 3 };
    for (workers, name) in SIZES {
        report::figure(name, "us", percentile(&mut latencies_us(workers, seconds), 99));
    }
    Ok(())
}

fn latencies_us(workers: usize, seconds: u64) -> Vec<f64> {
    let team =
        || Team { messenger: Post::default(), workers: (0..workers / MESSENGERS).map(|_| Post::default()).collect() };
    let teams: Vec<Team> = (0..MESSENGERS).map(|_| team()).collect();
    let until = now_ns() + seconds * 1_000_000_000;
    thread::scope(|scope| {
        let messengers: Vec<_> = teams.iter().map(|team| scope.spawn(move || deliver(team, until))).collect();
        let all = teams.iter().flat_map(|team| team.workers.iter().map(move |post| (team, post)));
        let workers: Vec<_> = all.map(|(team, post)| scope.spawn(move || work(team, post))).collect();
        let latencies = workers.into_iter().flat_map(|worker| worker.join().expect("it does not panic")).collect();
        messengers.into_iter().for_each(|messenger| messenger.join().expect("it does not panic"));
        latencies
    })
}

/// A worker: asks, waits, computes.
fn work(team: &Team, post: &Post) -> Vec<f64> {
    let mut latencies_us = Vec::with_capacity(10_000);
    loop {
        post.asks.store(true, Ordering::Release);
        team.messenger.call();
        post.wait();
        let now = now_ns();
        if post.over.load(Ordering::Relaxed) {
            return latencies_us;
        }
        latencies_us.push(now.saturating_sub(post.woken_at_ns.load(Ordering::Relaxed)) as f64 / 1e3);
        compute();
    }
}

/// Consumes CPU time by this thread's clock.
fn compute() {
    let until = own_time_ns() + WORK_NS;
    while own_time_ns() < until {
        (0..200).for_each(|_| hint::spin_loop());
    }
}

fn own_time_ns() -> u64 {
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// A message thread: wakes all workers that ask, then waits for the next request. Each worker's last wake-up comes
/// after `until`.
fn deliver(team: &Team, until: u64) {
    let mut over = 0;
    while over < team.workers.len() {
        team.messenger.wait();
        for post in &team.workers {
            if !post.asks.swap(false, Ordering::Acquire) {
                continue;
            }
            let now = now_ns();
            post.woken_at_ns.store(now, Ordering::Relaxed);
            post.over.store(now >= until, Ordering::Relaxed);
            over += usize::from(now >= until);
            post.call();
        }
    }
}
