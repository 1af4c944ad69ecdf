//! The state common to all generations: three fields per thread, and totals of exited threads.

use crate::cputime::Kind;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::Nanos;
use sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use sync::{CachePadded, Lock};
use time::cpu::Cputime;

/// Three counters that only one thread at a time adds to.
#[derive(Debug, Default)]
pub(super) struct Fields {
    utime: AtomicU64,
    stime: AtomicU64,
    exec: AtomicU64,
}

impl Fields {
    pub fn read(&self) -> Cputime {
        Cputime {
            utime: Nanos(self.utime.load(Relaxed)),
            stime: Nanos(self.stime.load(Relaxed)),
            exec: Nanos(self.exec.load(Relaxed)),
        }
    }

    pub fn of(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::User => &self.utime,
            Kind::System => &self.stime,
            Kind::Exec => &self.exec,
        }
    }

    /// Adds by a plain load and store: there is one writer.
    pub fn add(&self, kind: Kind, span: Nanos) {
        let field = self.of(kind);
        field.store(field.load(Relaxed) + span.0, Relaxed);
    }

    pub fn set(&self, to: Cputime) {
        self.utime.store(to.utime.0, Relaxed);
        self.stime.store(to.stime.0, Relaxed);
        self.exec.store(to.exec.0, Relaxed);
    }

    /// Raises each field to at least this (`__update_gt_cputime`).
    pub fn raise(&self, to: Cputime) {
        for (field, to) in [(&self.utime, to.utime), (&self.stime, to.stime), (&self.exec, to.exec)] {
            field.fetch_max(to.0, Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct Thread {
    alive: AtomicBool,
    times: Fields,
}

/// The threads of a process. The sum over all of them, dead or alive, is exact: a thread
/// is folded into the dead and leaves the living inside one write section.
#[derive(Debug)]
pub struct Threads {
    slots: Box<[CachePadded<Thread>]>,
    dead: Fields,
    /// Odd while a thread is being folded in (Linux's `stats_lock`).
    sequence: AtomicU64,
    write: Lock<()>,
}

impl Threads {
    /// Room for `threads` threads, none alive.
    pub fn new(threads: usize) -> Threads {
        Threads {
            slots: (0..threads).map(|_| CachePadded::default()).collect::<Vec<_>>().into_boxed_slice(),
            dead: Fields::default(),
            sequence: AtomicU64::new(0),
            write: Lock::new(()),
        }
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn spawn(&self, thread: usize) {
        let slot = &self.slots[thread];
        slot.times.set(Cputime::ZERO);
        slot.alive.store(true, Release);
    }

    pub(super) fn is_alive(&self, thread: usize) -> bool {
        self.slots[thread].alive.load(Relaxed)
    }

    pub(super) fn add(&self, thread: usize, kind: Kind, span: Nanos) {
        self.slots[thread].times.add(kind, span);
    }

    pub(super) fn read(&self, thread: usize) -> Cputime {
        self.slots[thread].times.read()
    }

    pub(super) fn exit(&self, thread: usize) {
        let _write = self.write.lock();
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence + 1, Relaxed);
        fence(Release);
        let slot = &self.slots[thread];
        self.dead.set(self.dead.read() + slot.times.read());
        slot.alive.store(false, Relaxed);
        self.sequence.store(sequence + 2, Release);
    }

    /// The sum over the dead and the living: optimistic, then with exits kept out.
    pub fn walk(&self) -> Cputime {
        let before = self.sequence.load(Acquire);
        let sum = self.sum();
        fence(Acquire);
        if before.is_multiple_of(2) && self.sequence.load(Relaxed) == before {
            return sum;
        }
        let _write = self.write.lock();
        self.sum()
    }

    fn sum(&self) -> Cputime {
        let alive = self.slots.iter().filter(|t| t.alive.load(Acquire));
        alive.fold(self.dead.read(), |sum, t| sum + t.times.read())
    }
}
