// Lost update: a counter is loaded and stored instead of added to.
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

static HITS: AtomicU32 = AtomicU32::new(0);

fn hit() {
    if cfg!(bug) {
        let hits = HITS.load(Relaxed);
        HITS.store(hits + 1, Relaxed);
    } else {
        HITS.fetch_add(1, Relaxed);
    }
}

fn main() {
    let threads: Vec<_> = (0..2).map(|_| thread::spawn(|| (0..4).for_each(|_| hit()))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(HITS.load(Relaxed), 8);
}
