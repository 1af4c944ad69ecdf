// Inconsistent pair: sum and count are atomic one by one, and the reader sees the one without the other.
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

static SUM: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);
static BOTH: AtomicU64 = AtomicU64::new(0);

fn record(value: u64) {
    SUM.fetch_add(value, SeqCst);
    COUNT.fetch_add(1, SeqCst);
    BOTH.fetch_add(value << 32 | 1, SeqCst);
}

fn average() -> Option<u64> {
    let (sum, count) = if cfg!(bug) {
        (SUM.load(SeqCst), COUNT.load(SeqCst))
    } else {
        let both = BOTH.load(SeqCst);
        (both >> 32, both & 0xffff_ffff)
    };
    sum.checked_div(count)
}

fn main() {
    let recorder = thread::spawn(|| (0..3).for_each(|_| record(20)));
    for _ in 0..2 {
        assert!(average().is_none_or(|average| average == 20));
    }
    recorder.join().unwrap();
}
