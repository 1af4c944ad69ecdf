// Seqlock without retry: the reader takes what it has read, whether or not a writer was there meanwhile.
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

static SEQUENCE: AtomicU32 = AtomicU32::new(0);
static PAIR: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

fn write(value: u32) {
    SEQUENCE.fetch_add(1, SeqCst);
    PAIR[0].store(value, SeqCst);
    PAIR[1].store(value, SeqCst);
    SEQUENCE.fetch_add(1, SeqCst);
}

fn read() -> (u32, u32) {
    loop {
        let before = SEQUENCE.load(SeqCst);
        let pair = (PAIR[0].load(SeqCst), PAIR[1].load(SeqCst));
        if before % 2 == 0 && (cfg!(bug) || SEQUENCE.load(SeqCst) == before) {
            return pair;
        }
        thread::yield_now();
    }
}

fn main() {
    let writer = thread::spawn(|| (1..4).for_each(write));
    for _ in 0..3 {
        let (a, b) = read();
        assert_eq!(a, b);
    }
    writer.join().unwrap();
}
