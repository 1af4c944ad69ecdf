// Check then act: a spin lock is seen to be free and taken by a plain store.
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;

static LOCKED: AtomicBool = AtomicBool::new(false);
static INSIDE: AtomicU32 = AtomicU32::new(0);

fn lock() {
    if cfg!(bug) {
        while LOCKED.load(SeqCst) {
            thread::yield_now();
        }
        LOCKED.store(true, SeqCst);
    } else {
        while LOCKED.swap(true, SeqCst) {
            thread::yield_now();
        }
    }
}

fn work() {
    for _ in 0..3 {
        lock();
        assert_eq!(INSIDE.fetch_add(1, SeqCst), 0);
        INSIDE.fetch_sub(1, SeqCst);
        LOCKED.store(false, SeqCst);
    }
}

fn main() {
    let other = thread::spawn(work);
    work();
    other.join().unwrap();
}
