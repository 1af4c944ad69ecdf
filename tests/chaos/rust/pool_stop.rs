// Thread pool shutdown: the stop flag is set outside the lock, after the worker has looked at it and before it waits.
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::thread;

static JOBS: Mutex<VecDeque<u32>> = Mutex::new(VecDeque::new());
static CHANGED: Condvar = Condvar::new();
static STOPPING: AtomicBool = AtomicBool::new(false);
static SUM: AtomicU32 = AtomicU32::new(0);

fn work() {
    let mut jobs = JOBS.lock().unwrap();
    loop {
        if let Some(job) = jobs.pop_front() {
            SUM.fetch_add(job, SeqCst);
        } else if STOPPING.load(SeqCst) {
            return;
        } else {
            jobs = CHANGED.wait(jobs).unwrap();
        }
    }
}

fn stop() {
    let _guard = if cfg!(bug) { None } else { Some(JOBS.lock().unwrap()) };
    STOPPING.store(true, SeqCst);
    CHANGED.notify_all();
}

fn main() {
    let worker = thread::spawn(work);
    JOBS.lock().unwrap().push_back(5);
    CHANGED.notify_one();
    stop();
    worker.join().unwrap();
    assert_eq!(SUM.load(SeqCst), 5);
}
