// Publication: the flag is set before the value that it announces, which is wrong under any memory model.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

static VALUE: AtomicU64 = AtomicU64::new(0);
static READY: AtomicBool = AtomicBool::new(false);

fn publish(value: u64) {
    if cfg!(bug) {
        READY.store(true, Ordering::Relaxed);
        VALUE.store(value, Ordering::Relaxed);
    } else {
        VALUE.store(value, Ordering::Relaxed);
        READY.store(true, Ordering::Release);
    }
}

fn main() {
    let reader = thread::spawn(|| {
        if READY.load(Ordering::Acquire) {
            assert_eq!(VALUE.load(Ordering::Relaxed), 99);
        }
    });
    publish(99);
    reader.join().unwrap();
}
