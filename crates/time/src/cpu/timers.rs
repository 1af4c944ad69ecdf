//! The armed CPU timers of one thread or one process: a queue per clock.
//!
//! Items are the numbers of POSIX timers; their places in the heaps are kept by the owner
//! of the timers. Everything here happens under the process lock.

use crate::OutOfMemory;
use crate::cpu::{CpuClock, Cputime};
use crate::heap::{Heap, Places};
use ids::Nanos;

/// The most timers of one clock that fire in one pass; the rest fire a tick later
/// (Linux's bound on the time its lock is held: `collect_timerqueue` stops at the 20th).
pub const FIRED_PER_PASS_MAX: usize = 19;

/// Queues of armed CPU timers, one per clock.
#[derive(Debug, Default)]
pub struct CpuTimers {
    queues: [Heap; 3],
}

impl CpuTimers {
    /// Without timers or memory for any.
    pub const fn new() -> CpuTimers {
        CpuTimers { queues: [const { Heap::new() }; 3] }
    }

    /// Reserves memory for `timers` on `clock` in all, so that arming never allocates.
    pub fn reserve(&mut self, clock: CpuClock, timers: usize) -> Result<(), OutOfMemory> {
        self.queues[clock.index()].reserve(timers)
    }

    /// Reserves memory for `timers` more on `clock`.
    pub fn make_room_for(&mut self, clock: CpuClock, timers: usize) -> Result<(), OutOfMemory> {
        let armed = self.queues[clock.index()].len();
        self.reserve(clock, armed + timers)
    }

    /// Whether nothing is armed.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(Heap::is_empty)
    }

    /// Arms `timer`, which is in no queue, for the reading `at` of `clock`. Tells the new
    /// earliest reading if this timer is it now (then the caller lowers the cache).
    #[must_use = "the cache of next events must be lowered"]
    pub fn arm(&mut self, clock: CpuClock, timer: u32, at: Nanos, places: &mut impl Places) -> Option<Nanos> {
        let queue = &mut self.queues[clock.index()];
        queue.insert(timer, at, places);
        (queue.first() == Some((timer, at))).then_some(at)
    }

    /// Disarms the timer at `place`. True if it was the earliest (then the caller asks
    /// for a recheck, which may find that nothing is left: added to Linux in 2021).
    #[must_use = "the cache of next events must be looked at again"]
    pub fn disarm(&mut self, clock: CpuClock, place: u32, places: &mut impl Places) -> bool {
        let queue = &mut self.queues[clock.index()];
        let was_first = queue.first().is_some_and(|(_, at)| at == queue.expiry(place));
        queue.remove(place, places);
        was_first
    }

    /// The earliest expiry on each clock, `Nanos::MAX` where there is none.
    pub fn next(&self) -> [Nanos; 3] {
        CpuClock::ALL.map(|clock| self.queues[clock.index()].first().map_or(Nanos::MAX, |(_, at)| at))
    }

    /// Takes out what is due at these readings, in order, at most
    /// [`FIRED_PER_PASS_MAX`] per clock.
    pub fn collect<P: Places>(&mut self, at: &Cputime, places: &mut P, mut fire: impl FnMut(u32, Nanos, &mut P)) {
        for clock in CpuClock::ALL {
            for _ in 0..FIRED_PER_PASS_MAX {
                let Some((timer, expiry)) = self.queues[clock.index()].pop_due(at.of(clock), places) else { break };
                fire(timer, expiry, places);
            }
        }
    }

    /// Takes every timer out without firing it: the thread exits, or the process execs.
    /// Bounded by the number of timers the caller has created on these clocks.
    pub fn clear(&mut self, places: &mut impl Places) {
        for queue in &mut self.queues {
            while queue.pop_due(Nanos::MAX, places).is_some() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn at(exec: u64) -> Cputime {
        Cputime { exec: Nanos(exec), ..Cputime::ZERO }
    }

    fn collected(t: &mut CpuTimers, now: u64, p: &mut Vec<u32>) -> Vec<u32> {
        let mut got = vec![];
        t.collect(&at(now), p, |timer, _, _| got.push(timer));
        got
    }

    #[test]
    fn thirty_equal_timers_come_as_19_and_11() {
        let (mut t, mut p) = (CpuTimers::new(), vec![0; 30]);
        t.reserve(CpuClock::Sched, 30).unwrap();
        assert!(t.is_empty());
        for timer in 0..30 {
            assert_eq!(t.arm(CpuClock::Sched, timer, Nanos(50), &mut p).is_some(), timer == 0);
            assert!(!t.is_empty());
        }
        assert_eq!(collected(&mut t, 49, &mut p), []);
        assert_eq!(collected(&mut t, 50, &mut p), (0..19).collect::<Vec<u32>>());
        assert_eq!(t.next()[2], Nanos(50), "the next event is past already: next tick goes on");
        assert_eq!(collected(&mut t, 50, &mut p), (19..30).collect::<Vec<u32>>());
        assert_eq!(t.next(), [Nanos::MAX; 3]);
    }

    #[test]
    fn room_is_made_beside_what_is_armed() {
        let (mut t, mut p) = (CpuTimers::new(), vec![0; 1_200]);
        for timer in 0..1_200 {
            t.make_room_for(CpuClock::Virt, 1).unwrap();
            let _ = t.arm(CpuClock::Virt, timer, Nanos(5), &mut p);
        }
        assert_eq!(t.next()[1], Nanos(5));
    }

    #[test]
    fn disarming_tells_whether_it_was_the_earliest() {
        let (mut t, mut p) = (CpuTimers::new(), vec![0; 3]);
        t.reserve(CpuClock::Prof, 3).unwrap();
        for (timer, expiry) in [(0, 10), (1, 20), (2, 30)] {
            let _ = t.arm(CpuClock::Prof, timer, Nanos(expiry), &mut p);
        }
        assert!(!t.disarm(CpuClock::Prof, p[1], &mut p));
        assert!(t.disarm(CpuClock::Prof, p[0], &mut p));
        assert_eq!(t.next()[0], Nanos(30));
        t.clear(&mut p);
        assert_eq!(p, [Heap::ABSENT; 3]);
    }

    #[test]
    fn clocks_are_collected_in_the_order_prof_virt_sched() {
        let (mut t, mut p) = (CpuTimers::new(), vec![0; 3]);
        for (timer, clock) in [CpuClock::Sched, CpuClock::Virt, CpuClock::Prof].into_iter().enumerate() {
            t.reserve(clock, 1).unwrap();
            assert_eq!(t.arm(clock, timer as u32, Nanos(5), &mut p), Some(Nanos(5)));
        }
        let mut got = vec![];
        let now = Cputime { utime: Nanos(5), stime: Nanos(0), exec: Nanos(5) };
        t.collect(&now, &mut p, |timer, _, _| got.push(timer));
        assert_eq!(got, [2, 1, 0]);
    }
}
