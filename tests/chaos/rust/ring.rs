// Publication: the ring's consumer frees a slot before it has read it, and the producer overwrites it.
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::thread;

const SIZE: usize = 2;
const ITEMS: usize = 6;
static SLOTS: [AtomicU32; SIZE] = [AtomicU32::new(0), AtomicU32::new(0)];
static HEAD: AtomicUsize = AtomicUsize::new(0);
static TAIL: AtomicUsize = AtomicUsize::new(0);

fn push(item: u32) {
    let at = HEAD.load(SeqCst);
    while at - TAIL.load(SeqCst) == SIZE {
        thread::yield_now();
    }
    SLOTS[at % SIZE].store(item, SeqCst);
    HEAD.store(at + 1, SeqCst);
}

fn pop() -> u32 {
    let at = TAIL.load(SeqCst);
    while HEAD.load(SeqCst) == at {
        thread::yield_now();
    }
    if cfg!(bug) {
        TAIL.store(at + 1, SeqCst);
        SLOTS[at % SIZE].load(SeqCst)
    } else {
        let item = SLOTS[at % SIZE].load(SeqCst);
        TAIL.store(at + 1, SeqCst);
        item
    }
}

fn main() {
    let producer = thread::spawn(|| (0..ITEMS as u32).for_each(push));
    for item in 0..ITEMS as u32 {
        assert_eq!(pop(), item);
    }
    producer.join().unwrap();
}
