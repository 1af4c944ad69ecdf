//! Threads that wait for descriptors without a host thread. The personality **parks** and wakes them, and repeats their
//! calls when they are chosen ([`Personality::resumes`](crate::Personality::resumes)).

use crate::habit::Habit;
use crate::lasting::Lasting;
use ids::{CpuId, Nanos};
use sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*};

/// A CPU that polled for events this recently will soon poll again, or sleep until there are some, unless another
/// program has its host CPU.
const LATELY: Nanos = Nanos::from_micros(100);

/// How many threads wait for descriptors.
#[derive(Debug, Default)]
pub struct Parked {
    /// Threads that are parked.
    threads: AtomicU32,
    /// Threads that wait in the host though they could be parked.
    direct: AtomicU32,
    /// The real-time threads among them.
    urgent: AtomicU32,
    /// A thread has been parked at some time: CPUs that run threads tick, and poll for events.
    used: AtomicBool,
    /// The CPU that polled last, and when.
    looker: AtomicU32,
    looked: AtomicU64,
    /// CPUs that sleep until there are events, and in the upper half how often one has looked for some or begun to sleep.
    sleepers: AtomicU64,
}

/// In [`Parked::sleepers`].
const ONE_MORE_TURN: u64 = 1 << 32;

impl Parked {
    /// An idle CPU is about to sleep until there are events.
    pub fn begin_sleep(&self) {
        self.sleepers.fetch_add(ONE_MORE_TURN + 1, Relaxed);
    }

    /// The CPU does not sleep any more.
    pub fn end_sleep(&self) {
        self.sleepers.fetch_sub(1, Relaxed);
    }

    /// An idle CPU looks for events.
    pub fn count_look(&self) {
        self.sleepers.fetch_add(ONE_MORE_TURN, Relaxed);
    }

    /// Whether a CPU sleeps until there are events.
    pub fn is_slept_for(&self) -> bool {
        !self.attendance().is_multiple_of(ONE_MORE_TURN)
    }

    /// How often an idle CPU has looked for events or begun to sleep until there are some.
    pub fn turns(&self) -> u64 {
        self.attendance() / ONE_MORE_TURN
    }

    /// Differs after an idle CPU has looked for events, or has begun or ended its sleep.
    pub fn attendance(&self) -> u64 {
        self.sleepers.load(Relaxed)
    }

    /// Whether threads are parked now.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.threads.load(Relaxed) != 0
    }

    /// Whether threads wait for descriptors now, in the host or parked.
    pub fn is_waited_for(&self) -> bool {
        self.is_any() || self.direct() != 0
    }

    /// Whether real-time threads are parked now.
    pub fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0
    }

    /// Whether a thread has ever been parked.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.used.load(Relaxed)
    }

    /// How many threads wait in the host though they could be parked.
    pub fn direct(&self) -> u32 {
        self.direct.load(Relaxed)
    }

    /// Notes that `cpu` has polled for events at `now`.
    pub fn note_look(&self, cpu: CpuId, now: Nanos) {
        self.looker.store(cpu.0.into(), Relaxed);
        self.looked.store(now.0, Relaxed);
    }

    /// Whether another CPU polls for events often. The last one to poll gets false: it must not rely on others.
    pub fn is_attended(&self, cpu: CpuId, now: Nanos) -> bool {
        self.looker.load(Relaxed) != u32::from(cpu.0) && now.since(Nanos(self.looked.load(Relaxed))) < LATELY
    }

    /// Counts a thread; returns whether it is the only one.
    pub fn add(&self, thread: &ThreadParked, urgent: bool) -> bool {
        self.used.store(true, Relaxed);
        thread.urgent.store(urgent, Relaxed);
        if urgent {
            self.urgent.fetch_add(1, Relaxed);
        }
        self.threads.fetch_add(1, Relaxed) == 0
    }

    /// Uncounts a thread.
    pub fn remove(&self, thread: &ThreadParked) {
        self.threads.fetch_sub(1, Relaxed);
        if thread.urgent.load(Relaxed) {
            self.urgent.fetch_sub(1, Relaxed);
        }
    }
}

/// A thread's state.
#[derive(Debug, Default)]
pub struct ThreadParked {
    /// The sum of the generations of what it waits for, before the last attempt of its call.
    pub seen: AtomicU32,
    /// The thread's nodes in queues (values in the personality's `ready::park`); 0 if it is not parked.
    pub nodes: AtomicU32,
    /// The descriptor by which the thread reaches the file that it waits for (values in the personality's
    /// `ready::closing`).
    pub on: AtomicU64,
    /// The thread was a real-time thread when it was parked.
    urgent: AtomicBool,
    /// The thread is counted in `direct`: 0 if it is not, otherwise a [`Begin`].
    direct: AtomicU8,
    /// Whether its next call can be expected to wait.
    pub habit: Habit,
    /// Whether its calls wait for a disk.
    pub lasting: Lasting,
}

impl ThreadParked {
    /// Whether it is parked.
    #[inline(always)]
    pub fn is_parked(&self) -> bool {
        self.nodes.load(Relaxed) != 0
    }

    /// Notes that the thread is about to wait in the host instead.
    pub fn leave_to_host(&self, all: &Parked, begin: Begin) {
        self.direct.store(begin as u8, Relaxed);
        all.direct.fetch_add(1, Relaxed);
    }

    /// Whether it waits in the host instead.
    pub fn is_left_to_host(&self) -> bool {
        self.direct.load(Relaxed) != 0
    }

    /// Whether its call begins only in the host.
    pub fn begins_in_host(&self) -> bool {
        self.direct.load(Relaxed) == Begin::InHost as u8
    }

    /// Notes that the thread no longer waits in the host.
    #[inline]
    pub(crate) fn is_back(&self, all: &Parked) {
        if self.is_left_to_host() {
            self.direct.store(0, Relaxed);
            all.direct.fetch_sub(1, Relaxed);
        }
    }
}

/// When a call begins whose thread waits in the host: what Linux checks at the beginning is checked then, and only then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Begin {
    /// With a try in the form that cannot wait.
    Tried = 1,
    /// With its first host call, whether it was tried before or not.
    InHost = 2,
}
