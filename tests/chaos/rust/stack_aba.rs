// ABA by indices: a lock-free stack compares the top's index only, though the entry may have been taken and come back.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;

const ENTRIES: usize = 3;
static TOP: AtomicU64 = AtomicU64::new(1);
static NEXT: [AtomicU32; ENTRIES + 1] = [AtomicU32::new(0), AtomicU32::new(2), AtomicU32::new(3), AtomicU32::new(0)];
static USERS: [AtomicU32; ENTRIES + 1] = [const { AtomicU32::new(0) }; ENTRIES + 1];

fn tagged(old: u64, index: u32) -> u64 {
    let tag = if cfg!(bug) { 0 } else { (old >> 32) + 1 };
    tag << 32 | u64::from(index)
}

fn pop() -> Option<u32> {
    loop {
        let old = TOP.load(SeqCst);
        let index = old as u32;
        if index == 0 {
            return None;
        }
        let next = NEXT[index as usize].load(SeqCst);
        if TOP.compare_exchange(old, tagged(old, next), SeqCst, SeqCst).is_ok() {
            assert_eq!(USERS[index as usize].fetch_add(1, SeqCst), 0, "an entry has two users");
            return Some(index);
        }
    }
}

fn push(index: u32) {
    USERS[index as usize].fetch_sub(1, SeqCst);
    loop {
        let old = TOP.load(SeqCst);
        NEXT[index as usize].store(old as u32, SeqCst);
        if TOP.compare_exchange(old, tagged(old, index), SeqCst, SeqCst).is_ok() {
            return;
        }
    }
}

fn work() {
    for _ in 0..3 {
        let (first, second) = (pop(), pop());
        first.map(push);
        second.map(push);
    }
}

fn main() {
    let other = thread::spawn(work);
    work();
    other.join().unwrap();
}
