// Use after free: the old version is given back to the pool when it is replaced, though a reader may still have it.
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;

// Two versions of (version, 10 * version); the one that is not current is free.
static VERSIONS: [[AtomicU64; 2]; 2] = [[AtomicU64::new(1), AtomicU64::new(10)], [const { AtomicU64::new(0) }; 2]];
static CURRENT: AtomicUsize = AtomicUsize::new(0);
static READERS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn read() -> (u64, u64) {
    loop {
        let at = CURRENT.load(SeqCst);
        READERS[at].fetch_add(1, SeqCst);
        if CURRENT.load(SeqCst) == at {
            let seen = (VERSIONS[at][0].load(SeqCst), VERSIONS[at][1].load(SeqCst));
            READERS[at].fetch_sub(1, SeqCst);
            return seen;
        }
        READERS[at].fetch_sub(1, SeqCst);
    }
}

fn update(version: u64) {
    let free = 1 - CURRENT.load(SeqCst);
    while !cfg!(bug) && READERS[free].load(SeqCst) != 0 {
        thread::yield_now();
    }
    VERSIONS[free][0].store(version, SeqCst);
    VERSIONS[free][1].store(10 * version, SeqCst);
    CURRENT.store(free, SeqCst);
}

fn main() {
    let writer = thread::spawn(|| (2..6).for_each(update));
    for _ in 0..3 {
        let (version, tenfold) = read();
        assert_eq!(tenfold, 10 * version);
    }
    writer.join().unwrap();
}
