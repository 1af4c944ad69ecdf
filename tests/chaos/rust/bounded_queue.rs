// Signal for broadcast: both ends of a full or empty queue wait on one condition, and notify_one may wake the wrong end.
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::thread;

static QUEUE: Mutex<VecDeque<u32>> = Mutex::new(VecDeque::new());
static CHANGED: Condvar = Condvar::new();

fn notify() {
    if cfg!(bug) {
        CHANGED.notify_one();
    } else {
        CHANGED.notify_all();
    }
}

fn push(item: u32) {
    let mut queue = CHANGED.wait_while(QUEUE.lock().unwrap(), |queue| !queue.is_empty()).unwrap();
    queue.push_back(item);
    notify();
}

fn pop() -> u32 {
    let mut queue = CHANGED.wait_while(QUEUE.lock().unwrap(), |queue| queue.is_empty()).unwrap();
    let item = queue.pop_front().unwrap();
    notify();
    item
}

fn main() {
    let mut threads = Vec::new();
    for _ in 0..2 {
        threads.push(thread::spawn(|| (1..3).map(|item| (push(item), 0).1).sum::<u32>()));
        threads.push(thread::spawn(|| pop() + pop()));
    }
    let sum: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(sum, 6);
}
