// Wait without a loop: who was woken takes a permit that another thread has taken meanwhile.
use std::sync::{Condvar, Mutex};
use std::thread;

static PERMITS: Mutex<i32> = Mutex::new(1);
static RETURNED: Condvar = Condvar::new();

fn acquire() {
    let mut permits = PERMITS.lock().unwrap();
    if cfg!(bug) {
        if *permits == 0 {
            permits = RETURNED.wait(permits).unwrap();
        }
    } else {
        permits = RETURNED.wait_while(permits, |permits| *permits == 0).unwrap();
    }
    *permits -= 1;
    assert!(*permits >= 0, "more users than permits");
}

fn release() {
    *PERMITS.lock().unwrap() += 1;
    RETURNED.notify_one();
}

fn main() {
    let threads: Vec<_> = (0..3)
        .map(|_| {
            thread::spawn(|| {
                acquire();
                release();
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
