// Lost wake-up: the waiter looks at the flag before it registers, so the event finds nobody to unpark.
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Mutex;
use std::thread::{self, Thread};

static HAPPENED: AtomicBool = AtomicBool::new(false);
static WAITERS: Mutex<Vec<Thread>> = Mutex::new(Vec::new());

fn happen() {
    HAPPENED.store(true, SeqCst);
    for waiter in WAITERS.lock().unwrap().drain(..) {
        waiter.unpark();
    }
}

fn wait() {
    if cfg!(bug) {
        if !HAPPENED.load(SeqCst) {
            WAITERS.lock().unwrap().push(thread::current());
            thread::park();
        }
    } else {
        WAITERS.lock().unwrap().push(thread::current());
        while !HAPPENED.load(SeqCst) {
            thread::park();
        }
    }
}

fn main() {
    let waiter = thread::spawn(wait);
    happen();
    waiter.join().unwrap();
    assert!(HAPPENED.load(SeqCst));
}
