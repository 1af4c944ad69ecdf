// Double-checked locking: the second check, under the lock, is missing, and the table is filled twice.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::thread;

static FILLED: AtomicBool = AtomicBool::new(false);
static TABLE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn fill() {
    if FILLED.load(Ordering::Acquire) {
        return;
    }
    let mut table = TABLE.lock().unwrap();
    if !cfg!(bug) && FILLED.load(Ordering::Acquire) {
        return;
    }
    table.extend([1, 2, 3]);
    FILLED.store(true, Ordering::Release);
}

fn main() {
    let threads: Vec<_> = (0..2).map(|_| thread::spawn(fill)).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(TABLE.lock().unwrap().len(), 3);
}
