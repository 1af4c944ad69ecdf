//! The memory of a scenario's real threads: words, and the C library's objects.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use ids::Nanos;
use sim::user::{Barrier, Cond, Mutex, Surroundings};
use sim::workload::threads::Maker;

use super::super::objects::{RawCond, RawMutex};
use bench::probe::clock::now_ns;

/// A word on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Word(AtomicU32);

/// All objects; each kind has addresses of its own, counted from zero.
#[derive(Default)]
pub(super) struct Memory {
    words: Vec<Word>,
    mutexes: Vec<RawMutex>,
    conds: Vec<RawCond>,
    barriers: Vec<RawBarrier>,
}

impl Memory {
    fn word_at(&self, addr: u64) -> &AtomicU32 {
        &self.words[addr as usize].0
    }

    pub fn mutex_at(&self, mutex: Mutex) -> &RawMutex {
        &self.mutexes[mutex.0 as usize]
    }

    pub fn cond_at(&self, cond: Cond) -> &RawCond {
        &self.conds[cond.0 as usize]
    }

    pub fn barrier_at(&self, barrier: Barrier) -> &RawBarrier {
        &self.barriers[barrier.addr as usize]
    }

    /// FUTEX_WAIT; returns at once if the word holds something else.
    pub fn futex_wait(&self, addr: u64, value: u32) {
        let word = self.word_at(addr).as_ptr();
        // SAFETY: the word lives as long as `self`; a null timeout means none.
        unsafe { libc::syscall(libc::SYS_futex, word, WAIT, value, ptr::null::<libc::timespec>()) };
    }

    /// FUTEX_WAKE.
    pub fn futex_wake(&self, addr: u64, count: u32) {
        // SAFETY: as above; the call does not even look at the word.
        unsafe { libc::syscall(libc::SYS_futex, self.word_at(addr).as_ptr(), WAKE, count) };
    }
}

const WAIT: libc::c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;

/// Adds an object and returns its address.
fn add<T>(to: &mut Vec<T>, object: T) -> u64 {
    to.push(object);
    to.len() as u64 - 1
}

impl Maker for Memory {
    fn word(&mut self) -> u64 {
        add(&mut self.words, Word::default())
    }

    fn mutex(&mut self) -> Mutex {
        Mutex(add(&mut self.mutexes, RawMutex::new(false)))
    }

    fn cond(&mut self) -> Cond {
        Cond(add(&mut self.conds, RawCond::new()))
    }

    fn barrier(&mut self, parties: u32) -> Barrier {
        Barrier { addr: add(&mut self.barriers, RawBarrier::new(parties)), parties }
    }
}

impl Surroundings for Memory {
    fn now(&self) -> Nanos {
        Nanos(now_ns())
    }

    fn load(&self, addr: u64) -> u32 {
        self.word_at(addr).load(SeqCst)
    }

    fn store(&self, addr: u64, value: u32) {
        self.word_at(addr).store(value, SeqCst);
    }
}

/// The C library's barrier.
pub(super) struct RawBarrier(Box<UnsafeCell<libc::pthread_barrier_t>>);

// SAFETY: a barrier is made to be used by several threads.
unsafe impl Sync for RawBarrier {}
// SAFETY: as above; it is boxed, so it does not move.
unsafe impl Send for RawBarrier {}

impl RawBarrier {
    fn new(parties: u32) -> RawBarrier {
        let mut barrier = MaybeUninit::uninit();
        // SAFETY: it is initialised here, for one thread at least, and one at which nobody waits may be moved.
        let barrier = unsafe {
            let error = libc::pthread_barrier_init(barrier.as_mut_ptr(), ptr::null(), parties.max(1));
            assert_eq!(error, 0, "a barrier for {parties} threads cannot be made");
            barrier.assume_init()
        };
        RawBarrier(Box::new(UnsafeCell::new(barrier)))
    }

    /// Waits until all have come; 1 in one of them, else 0.
    pub fn wait(&self) -> isize {
        // SAFETY: it is initialised and does not move.
        let result = unsafe { libc::pthread_barrier_wait(self.0.get()) };
        isize::from(result == libc::PTHREAD_BARRIER_SERIAL_THREAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_each_kind_have_addresses_of_their_own() {
        let mut memory = Memory::default();
        assert_eq!([(); 3].map(|()| memory.word()), [0, 1, 2]);
        assert_eq!((memory.barrier(2).addr, memory.mutex(), memory.cond()), (0, Mutex(0), Cond(0)));
        memory.store(1, 7);
        assert_eq!((memory.load(0), memory.load(1)), (0, 7));
    }

    #[test]
    fn waiters_go_on_once_they_are_woken() {
        let mut memory = Memory::default();
        let (word, all) = (memory.word(), memory.barrier(3));
        let memory = &memory;
        std::thread::scope(|scope| {
            let wait = || {
                while memory.load(word) == 0 {
                    memory.futex_wait(word, 0);
                }
                memory.barrier_at(all).wait()
            };
            let waiters = [scope.spawn(wait), scope.spawn(wait)];
            memory.store(word, 1);
            memory.futex_wake(word, 2);
            let last = memory.barrier_at(all).wait();
            let ends: isize = waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum();
            assert_eq!(ends + last, 1, "one of the three is told");
        });
    }
}
