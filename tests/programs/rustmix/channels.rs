//! crossbeam: channels, select, scoped threads, queues, deques, epochs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam::channel::{after, bounded, select, tick, unbounded};
use crossbeam::deque::{Injector, Steal, Worker};
use crossbeam::queue::{ArrayQueue, SegQueue};
use crossbeam::sync::{Parker, WaitGroup};
use crossbeam::utils::Backoff;

pub fn run() {
    fan_in();
    rendezvous();
    selecting();
    queues();
    stealing();
    waiting();
}

fn fan_in() {
    let (sender, receiver) = unbounded::<u64>();
    let sum = crossbeam::scope(|scope| {
        for i in 0..8 {
            let sender = sender.clone();
            scope.spawn(move |_| (0..2000).for_each(|j| sender.send(i * j).expect("a receiver")));
        }
        drop(sender);
        let receivers: Vec<_> = (0..3).map(|_| scope.spawn(|_| receiver.iter().sum::<u64>())).collect();
        receivers.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>()
    });
    println!("crossbeam: fan-in {}", sum.expect("no panic"));
}

fn rendezvous() {
    let (there, here) = bounded::<u64>(0);
    let (back, answer) = bounded::<u64>(0);
    crossbeam::scope(|scope| {
        scope.spawn(move |_| here.iter().for_each(|number| back.send(number + 1).expect("a receiver")));
        let mut number = 0;
        for _ in 0..2000 {
            there.send(number).expect("a receiver");
            number = answer.recv().expect("a sender");
        }
        drop(there);
        println!("crossbeam: rendezvous {number}");
    })
    .expect("no panic");
}

fn selecting() {
    let (first, from_first) = unbounded::<u64>();
    let (second, from_second) = bounded::<u64>(2);
    let (mut sum, mut open) = (0, 2);
    crossbeam::scope(|scope| {
        scope.spawn(move |_| (0..1000).for_each(|i| first.send(i).expect("a receiver")));
        scope.spawn(move |_| (0..1000).for_each(|i| second.send(i * 3).expect("a receiver")));
        let (mut a, mut b) = (from_first, from_second);
        while open > 0 {
            select! {
                recv(a) -> number => match number {
                    Ok(number) => sum += number,
                    Err(_) => { a = crossbeam::channel::never(); open -= 1; }
                },
                recv(b) -> number => match number {
                    Ok(number) => sum += number,
                    Err(_) => { b = crossbeam::channel::never(); open -= 1; }
                },
            }
        }
    })
    .expect("no panic");
    println!("crossbeam: selected {sum}");
    let (ticks, timeout) = (tick(Duration::from_millis(2)), after(Duration::from_millis(30)));
    let mut seen = 0;
    loop {
        select! {
            recv(ticks) -> _ => seen += 1,
            recv(timeout) -> _ => break,
        }
    }
    println!("crossbeam: ticks {}", (1..=15).contains(&seen));
}

fn queues() {
    let (segments, array) = (SegQueue::new(), ArrayQueue::new(16));
    let sum = AtomicU64::new(0);
    crossbeam::scope(|scope| {
        for i in 0..4u64 {
            let (segments, array, sum) = (&segments, &array, &sum);
            scope.spawn(move |_| {
                for j in 0..2000 {
                    segments.push(i * j);
                    let backoff = Backoff::new();
                    while array.push(j).is_err() {
                        backoff.snooze();
                    }
                }
            });
            scope.spawn(move |_| {
                for _ in 0..2000 {
                    let backoff = Backoff::new();
                    let number = loop {
                        if let Some(number) = array.pop() {
                            break number;
                        }
                        backoff.snooze();
                    };
                    sum.fetch_add(number, Ordering::Relaxed);
                }
            });
        }
    })
    .expect("no panic");
    let left: u64 = std::iter::from_fn(|| segments.pop()).sum();
    println!("crossbeam: queues {} {left}", sum.load(Ordering::Relaxed));
}

fn stealing() {
    let injector = Injector::new();
    (0..10_000u64).for_each(|number| injector.push(number));
    let workers: Vec<_> = (0..4).map(|_| Worker::new_lifo()).collect();
    let stealers: Vec<_> = workers.iter().map(Worker::stealer).collect();
    let (sum, done) = (AtomicU64::new(0), AtomicU64::new(0));
    crossbeam::scope(|scope| {
        for worker in workers {
            let (injector, stealers, sum, done) = (&injector, &stealers, &sum, &done);
            scope.spawn(move |_| {
                while done.load(Ordering::Acquire) < 10_000 {
                    let steal = || {
                        injector
                            .steal_batch_and_pop(&worker)
                            .or_else(|| stealers.iter().map(|other| other.steal()).collect())
                    };
                    let found = worker.pop().or_else(|| {
                        std::iter::repeat_with(steal).find(|steal| !steal.is_retry()).and_then(Steal::success)
                    });
                    let Some(number) = found else {
                        std::thread::yield_now();
                        continue;
                    };
                    sum.fetch_add(number, Ordering::Relaxed);
                    done.fetch_add(1, Ordering::Release);
                }
            });
        }
    })
    .expect("no panic");
    println!("crossbeam: stolen {}", sum.load(Ordering::Relaxed));
}

fn waiting() {
    let group = WaitGroup::new();
    let count = AtomicU64::new(0);
    crossbeam::scope(|scope| {
        for _ in 0..20 {
            let (group, count) = (group.clone(), &count);
            scope.spawn(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                drop(group);
            });
        }
        group.wait();
        println!("crossbeam: waited for {}", count.load(Ordering::Relaxed));
        let parker = Parker::new();
        let unparker = parker.unparker().clone();
        scope.spawn(move |_| unparker.unpark());
        parker.park();
    })
    .expect("no panic");
}
