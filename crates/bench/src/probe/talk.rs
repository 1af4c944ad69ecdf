//! 100,000 threads of Rust's standard library, each of which gets a message from all others, directly or through
//! others.
//!
//! The dissemination pattern of Hensgen, Finkel and Manber's barrier (1988): in round k, thread i sends thread i + 2^k
//! (modulo their number) the largest number that it has received. After 17 rounds every thread has received the largest
//! number of all.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::{self, JoinHandle, Thread};

use super::clock::now_ns;
use super::crowd::{STACK, THREADS, resident_bytes};
use super::{Measured, report};

const STEP: usize = 1_000;
/// 2 to this power is the first power of two that is not below the number of threads: 17.
const ROUNDS: usize = THREADS.next_power_of_two().ilog2() as usize;

/// One thread's letter box: what it received in each round (0: nothing yet), and the thread to wake.
#[derive(Default)]
struct LetterBox {
    told: [AtomicU64; ROUNDS],
    owner: OnceLock<Thread>,
}

struct Room {
    boxes: Vec<LetterBox>,
    opened: Mutex<bool>,
    opening: Condvar,
    finished: AtomicUsize,
}

impl Room {
    /// Blocks until every thread has been created.
    fn wait_for_opening(&self) {
        let mut opened = self.opened.lock().expect("nobody panics with the lock");
        while !*opened {
            opened = self.opening.wait(opened).expect("nobody panics with the lock");
        }
    }

    fn open(&self) {
        *self.opened.lock().expect("nobody panics with the lock") = true;
        self.opening.notify_all();
    }

    /// Takes part in every round and answers the largest number heard of.
    fn talk(&self, own: usize) -> u64 {
        let mut largest = number_of(own);
        for round in 0..ROUNDS {
            let partner = &self.boxes[(own + (1 << round)) % THREADS];
            partner.told[round].store(largest, Ordering::Release);
            partner.owner.get().expect("everyone is there before the room opens").unpark();
            let told = &self.boxes[own].told[round];
            while told.load(Ordering::Acquire) == 0 {
                thread::park();
            }
            largest = largest.max(told.load(Ordering::Acquire));
        }
        self.finished.fetch_add(1, Ordering::Relaxed);
        largest
    }
}

/// A thread's number: never zero, and in no order (the finaliser of splitmix64).
fn number_of(thread: usize) -> u64 {
    let mut word = (thread as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ word >> 31) | 1
}

/// Creates the threads, has them talk, joins them; prints what each step cost.
pub(super) fn measure() -> Measured {
    let room = Arc::new(Room {
        boxes: (0..THREADS).map(|_| LetterBox::default()).collect(),
        opened: Mutex::new(false),
        opening: Condvar::new(),
        finished: AtomicUsize::new(0),
    });
    let before = resident_bytes();
    let start = now_ns();
    let threads = create(&room)?;
    let created = now_ns();
    report::figure("talk_create", "us", (created - start) as f64 / 1e3 / THREADS as f64);
    report::figure("talk_resident", "KiB", resident_bytes().saturating_sub(before) as f64 / 1024.0 / THREADS as f64);

    let start = now_ns();
    room.open();
    while room.finished.load(Ordering::Relaxed) < THREADS {
        report::progress(room.finished.load(Ordering::Relaxed), THREADS, "threads heard from all others");
        thread::sleep(std::time::Duration::from_millis(20));
    }
    let talked = now_ns();
    report::figure("talk_message", "ns", (talked - start) as f64 / (THREADS * ROUNDS) as f64);

    let largest = (0..THREADS).map(number_of).max();
    for (at, thread) in threads.into_iter().enumerate() {
        let heard = thread.join().map_err(|_| format!("thread {at} panicked"))?;
        assert_eq!(Some(heard), largest, "thread {at} did not hear from all others");
        if at % STEP == 0 {
            report::progress(at, THREADS, "threads joined");
        }
    }
    report::figure("talk_join", "us", (now_ns() - talked) as f64 / 1e3 / THREADS as f64);
    Ok(())
}

fn create(room: &Arc<Room>) -> Result<Vec<JoinHandle<u64>>, String> {
    let mut threads = Vec::with_capacity(THREADS);
    for own in 0..THREADS {
        let room_of_thread = Arc::clone(room);
        let thread = thread::Builder::new().stack_size(STACK).spawn(move || {
            room_of_thread.wait_for_opening();
            room_of_thread.talk(own)
        });
        // The threads that exist still wait for the room to open: they end with the process.
        let thread = thread.map_err(|why| format!("thread {} could not be created: {why}", own + 1))?;
        room.boxes[own].owner.set(thread.thread().clone()).expect("set once");
        threads.push(thread);
        if own % STEP == 0 {
            report::progress(own, THREADS, "threads created");
        }
    }
    report::progress(THREADS, THREADS, "threads created");
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_all_rounds_everyone_has_heard_from_everyone() {
        // The pattern on its own, without threads.
        let mut known: Vec<u64> = (0..THREADS).map(number_of).collect();
        let largest = known.iter().copied().max().unwrap();
        for round in 0..ROUNDS {
            known = (0..THREADS).map(|own| known[own].max(known[(own + THREADS - (1 << round)) % THREADS])).collect();
        }
        assert!(known.iter().all(|&heard| heard == largest));
        assert!((0..THREADS).all(|thread| number_of(thread) != 0));
    }
}
