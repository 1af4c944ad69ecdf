//! The next timer due: one queue per CPU and clock.
//!
//! A timer's expiries are always in the queue of its home, the CPU that created it, so memory is reserved there,
//! once, at creation. Arming and cancelling touch the timer, its home's lock and one path of a heap; they make no
//! host call. The owner keeps its CPU's host timer at the earliest expiry only.

use crate::planted::{self, Fault};
use crate::posix::table::Slot;
use crate::posix::{Base, TimerKey, TimerTable};
use crate::{Heap, OutOfMemory};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::{CpuId, Nanos};
use sync::atomic::{AtomicUsize, Ordering::Relaxed};
use sync::{CachePadded, Lock};

/// The clocks, read when they are asked.
pub trait ReadClock {
    /// The reading of `base`; `None` for CPU clocks.
    fn read(&self, base: Base) -> Option<Nanos>;
}

/// The readings of the clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WallClocks {
    /// CLOCK_MONOTONIC.
    pub monotonic: Nanos,
    /// CLOCK_REALTIME.
    pub realtime: Nanos,
    /// CLOCK_BOOTTIME.
    pub boottime: Nanos,
    /// CLOCK_TAI.
    pub tai: Nanos,
}

impl WallClocks {
    fn all(&self) -> [Nanos; 4] {
        [self.monotonic, self.realtime, self.boottime, self.tai]
    }
}

impl ReadClock for WallClocks {
    fn read(&self, base: Base) -> Option<Nanos> {
        Some(self.all()[index(base)?])
    }
}

fn index(base: Base) -> Option<usize> {
    match base {
        Base::Monotonic => Some(0),
        Base::Realtime => Some(1),
        Base::Boottime => Some(2),
        Base::Tai => Some(3),
        Base::ProcessCpu(_) | Base::ThreadCpu(..) => None,
    }
}

#[derive(Debug, Default)]
struct CpuQueue {
    heaps: Lock<[Heap; 4]>,
    /// How many timers on each clock may be armed here at a time.
    needed: [AtomicUsize; 4],
    /// The heaps' capacities; written under their lock.
    room: [AtomicUsize; 4],
}

/// The clocks that a timer on `base` may count on: relative CLOCK_REALTIME expiries count
/// on the monotonic clock.
fn clocks_of(base: Base) -> (Option<usize>, Option<usize>) {
    (index(base), if base == Base::Realtime { index(Base::Monotonic) } else { None })
}

impl CpuQueue {
    fn reserve(&self, clock: Option<usize>) -> Result<(), OutOfMemory> {
        let Some(clock) = clock else { return Ok(()) };
        let needed = self.needed[clock].fetch_add(1, Relaxed) + 1;
        if needed <= self.room[clock].load(Relaxed) {
            return Ok(());
        }
        let mut heaps = self.heaps.lock();
        let reserved = heaps[clock].reserve(needed).inspect_err(|_| self.unreserve(Some(clock)));
        self.room[clock].store(heaps[clock].capacity(), Relaxed);
        reserved
    }

    fn unreserve(&self, clock: Option<usize>) {
        if let Some(clock) = clock {
            self.needed[clock].fetch_sub(1, Relaxed);
        }
    }
}

/// The expiry queues of all CPUs.
#[derive(Debug)]
pub struct ExpiryQueues {
    cpus: Box<[CachePadded<CpuQueue>]>,
}

impl ExpiryQueues {
    /// Empty queues for `cpus` CPUs.
    pub fn new(cpus: usize) -> Result<ExpiryQueues, OutOfMemory> {
        let mut queues = Vec::new();
        queues.try_reserve_exact(cpus)?;
        queues.resize_with(cpus, CachePadded::default);
        Ok(ExpiryQueues { cpus: queues.into_boxed_slice() })
    }

    /// Reserves memory at `home` for one more timer on `base`, so that its expiries never allocate. A CLOCK_REALTIME
    /// timer also needs a place on the monotonic clock.
    pub(super) fn reserve(&self, home: CpuId, base: Base) -> Result<(), OutOfMemory> {
        let queue = &self.cpus[home.index()];
        let (first, second) = clocks_of(base);
        queue.reserve(first)?;
        queue.reserve(second).inspect_err(|_| queue.unreserve(first))
    }

    /// Releases the reservation of a deleted timer.
    pub(super) fn unreserve(&self, home: CpuId, base: Base) {
        let (first, second) = clocks_of(base);
        self.cpus[home.index()].unreserve(first);
        self.cpus[home.index()].unreserve(second);
    }

    /// Arms a timer; true if it is now the first on its clock at its home: then that CPU's
    /// host timer may have to come earlier.
    #[inline]
    pub(super) fn arm(&self, table: &TimerTable, key: TimerKey, slot: &Slot, base: Base, at: Nanos) -> bool {
        let Some(clock) = index(base) else { return false };
        let mut heaps = self.cpus[slot.home().index()].heaps.lock();
        heaps[clock].insert(key.0, at, &mut &*table);
        heaps[clock].first() == Some((key.0, at))
    }

    /// Takes a timer out of its queue, if it is there. The caller has the timer's lock, so the timer can leave the
    /// queue in the meantime, by being due, but not return.
    #[inline]
    pub(super) fn disarm(&self, table: &TimerTable, slot: &Slot, base: Base) {
        let Some(clock) = index(base) else { return };
        if slot.place.load(Relaxed) == Heap::ABSENT {
            return;
        }
        let mut heaps = self.cpus[slot.home().index()].heaps.lock();
        let place = slot.place.load(Relaxed);
        if place != Heap::ABSENT {
            heaps[clock].remove(place, &mut &*table);
        }
    }

    /// Takes the next due timer out of the queue of `cpu`.
    pub(super) fn pop_due(&self, table: &TimerTable, cpu: CpuId, now: &WallClocks) -> Option<TimerKey> {
        let mut heaps = self.cpus[cpu.index()].heaps.lock();
        let early = if planted::strikes(Fault::EarlyByATick) { Nanos::from_millis(1) } else { Nanos::ZERO };
        let due = heaps
            .iter_mut()
            .zip(now.all().map(|now| now + early))
            .find_map(|(heap, now)| heap.pop_due(now, &mut &*table));
        due.map(|(key, _)| TimerKey(key))
    }

    /// Whether any timer has its home at `cpu`.
    #[inline(always)]
    pub fn is_used(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].needed.iter().any(|needed| needed.load(Relaxed) != 0)
    }

    /// The first expiry at `cpu` on each clock, as that clock counts.
    pub fn firsts(&self, cpu: CpuId) -> [(Base, Option<Nanos>); 4] {
        const BASES: [Base; 4] = [Base::Monotonic, Base::Realtime, Base::Boottime, Base::Tai];
        let heaps = self.cpus[cpu.index()].heaps.lock();
        core::array::from_fn(|i| (BASES[i], heaps[i].first().map(|(_, at)| at)))
    }

    /// How long from `now` until the first expiry at `cpu`, on any clock.
    pub fn until_first(&self, cpu: CpuId, now: &WallClocks) -> Option<Nanos> {
        let heaps = self.cpus[cpu.index()].heaps.lock();
        let firsts = heaps.iter().zip(now.all()).filter_map(|(heap, now)| Some(heap.first()?.1.since(now)));
        firsts.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative times on CLOCK_REALTIME wait on the monotonic clock.
    #[test]
    fn room_is_kept_on_every_clock_that_a_timer_may_wait_on() {
        let queues = ExpiryQueues::new(1).unwrap();
        let (home, queue) = (CpuId(0), &queues.cpus[0]);
        let needed = || queue.needed.each_ref().map(|needed| needed.load(Relaxed));
        for (base, clocks) in [
            (Base::Monotonic, [1, 0, 0, 0]),
            (Base::Realtime, [1, 1, 0, 0]),
            (Base::Boottime, [0, 0, 1, 0]),
            (Base::Tai, [0, 0, 0, 1]),
            (Base::ProcessCpu(crate::CpuClock::Sched), [0; 4]),
        ] {
            queues.reserve(home, base).unwrap();
            assert_eq!(needed(), clocks, "{base:?}");
            for (clock, needed) in clocks.into_iter().enumerate() {
                let room = queue.room[clock].load(Relaxed);
                assert!(room >= needed && room <= queue.heaps.lock()[clock].capacity(), "{base:?}");
            }
            queues.unreserve(home, base);
            assert_eq!(needed(), [0; 4]);
        }
    }
}
