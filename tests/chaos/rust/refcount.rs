// Reference count: who drops the last reference is decided by a load before the subtraction, so nobody or both may free.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

struct Buffer {
    references: AtomicUsize,
    freed: AtomicBool,
}

static BUFFER: Buffer = Buffer { references: AtomicUsize::new(3), freed: AtomicBool::new(false) };

impl Buffer {
    fn release(&self) {
        let was = if cfg!(bug) {
            let was = self.references.load(SeqCst);
            self.references.store(was - 1, SeqCst);
            was
        } else {
            self.references.fetch_sub(1, SeqCst)
        };
        if was == 1 {
            assert!(!self.freed.swap(true, SeqCst), "freed twice");
        }
    }
}

fn main() {
    let threads: Vec<_> = (0..3).map(|_| thread::spawn(|| BUFFER.release())).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(BUFFER.freed.load(SeqCst), "never freed");
}
