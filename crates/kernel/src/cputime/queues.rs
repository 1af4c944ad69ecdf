//! Sleepers and POSIX timers on CPU time, in one queue for each clock.

use super::{SleepClock, Timers};
use crate::Kernel;
use crate::ThreadIdx;
use crate::machine::Machine;
use crate::thread::ThreadTable;
use alloc::collections::BTreeMap;
use ids::{CpuId, Nanos};
use sync::atomic::{
    Ordering::{Relaxed, Release, SeqCst},
    fence,
};
use time::OutOfMemory;
use time::cpu::{CpuClock, CpuTimers};
use time::heap::{Heap, Places};
use time::posix::{TimerKey, TimerTable};

/// Marks an item of the queues as a sleeping thread's slot; others are timers.
pub(super) const SLEEPER: u32 = 1 << 31;

/// The place of a sleeper whose clock's thread has exited: only a signal wakes it.
pub(super) const ORPHAN: u32 = u32::MAX;

/// The place of each item in its queue; written under the lock of [`Timers`].
pub(super) struct Waiting<'a> {
    threads: &'a ThreadTable,
    timers: &'a TimerTable,
    /// Items leave their queue because the clock is gone.
    clock_gone: bool,
}

impl Places for Waiting<'_> {
    fn set_place(&mut self, item: u32, place: u32) {
        if item & SLEEPER == 0 {
            return self.timers.set_place(TimerKey(item), place);
        }
        let place = if self.clock_gone && place == Heap::ABSENT { ORPHAN } else { place };
        self.threads.get(ThreadIdx(item & !SLEEPER)).time.place.store(place, Release);
    }
}

/// A thread's own queues, and the number of reserved timers on each clock.
#[derive(Debug, Default)]
struct Own {
    queues: CpuTimers,
    timers: [usize; 3],
}

/// The queues of the threads that have any.
#[derive(Debug, Default)]
pub(super) struct ThreadQueues {
    own: BTreeMap<ThreadIdx, Own>,
    /// How many of them are not empty.
    busy: usize,
}

impl ThreadQueues {
    pub const fn new() -> ThreadQueues {
        ThreadQueues { own: BTreeMap::new(), busy: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// Does something with a thread's queues, which may empty or fill them.
    pub fn with<R>(&mut self, t: ThreadIdx, act: impl FnOnce(Option<&mut CpuTimers>) -> R) -> R {
        let Some(own) = self.own.get_mut(&t) else { return act(None) };
        let before = own.queues.is_empty();
        let result = act(Some(&mut own.queues));
        let (after, unused) = (own.queues.is_empty(), own.timers == [0; 3]);
        match (before, after) {
            (true, false) => self.busy += 1,
            (false, true) => self.busy -= 1,
            _ => {}
        }
        if after && unused {
            self.own.remove(&t);
        }
        result
    }

    /// Removes a thread's queues, because the thread has ended.
    pub fn remove(&mut self, t: ThreadIdx, places: &mut Waiting<'_>) {
        if let Some(mut own) = self.own.remove(&t) {
            self.busy -= usize::from(!own.queues.is_empty());
            own.queues.clear(places);
        }
    }
}

impl Timers {
    /// Reserves memory for a timer on this clock, which may be armed at any time.
    fn keep_room(&mut self, on: SleepClock) -> Result<(), OutOfMemory> {
        let (queues, timers) = self.queues_of(on);
        let count = &mut timers[on.clock.index()];
        // Sleepers reserve memory when they begin; the reservation for timers is in addition.
        queues.make_room_for(on.clock, *count + 1)?;
        *count += 1;
        Ok(())
    }

    /// Releases the reservation of a deleted timer. (If the thread of its clock has exited, it is gone already.)
    fn drop_room(&mut self, on: SleepClock) {
        if on.thread.is_some_and(|t| !self.threads.own.contains_key(&t)) {
            return;
        }
        let timers = self.queues_of(on).1;
        timers[on.clock.index()] = timers[on.clock.index()].saturating_sub(1);
        if let Some(t) = on.thread {
            self.threads.with(t, |_| ());
        }
    }

    fn queues_of(&mut self, on: SleepClock) -> (&mut CpuTimers, &mut [usize; 3]) {
        match on.thread {
            None => (&mut self.process.timers, &mut self.posix),
            Some(t) => {
                let own = self.threads.own.entry(t).or_default();
                (&mut own.queues, &mut own.timers)
            }
        }
    }

    /// Reserves memory for a sleeper that is about to be queued, in addition to that of the timers.
    pub(super) fn make_room(&mut self, on: SleepClock) -> Result<(), OutOfMemory> {
        let (queues, timers) = self.queues_of(on);
        queues.make_room_for(on.clock, timers[on.clock.index()] + 1)
    }
}

impl<M: Machine> Kernel<M> {
    pub(super) fn waiting(&self) -> Waiting<'_> {
        Waiting { threads: self.threads(), timers: self.timer_table(), clock_gone: false }
    }

    /// Queues an item whose memory is reserved. True if CPUs must be asked for ticks ([`Kernel::ask_for_ticks`]).
    pub(super) fn queue_item(&self, timers: &mut Timers, on: SleepClock, item: u32, at: Nanos) -> bool {
        let places = &mut self.waiting();
        let earliest = match on.thread {
            None => timers.process.timers.arm(on.clock, item, at, places),
            Some(whose) => timers.threads.with(whose, |own| own.and_then(|own| own.arm(on.clock, item, at, places))),
        };
        match (on.thread, earliest) {
            (None, Some(at)) => self.cputime.cpu.expiry.lower(on.clock, at),
            (Some(whose), Some(at)) => self.thread(whose).time.cpu.expiry.lower(on.clock, at),
            (_, None) => {}
        }
        self.newly_armed(timers)
    }

    /// Removes the item at `place` before its time.
    pub(super) fn take_out_item(&self, timers: &mut Timers, on: SleepClock, place: u32) {
        let places = &mut self.waiting();
        match on.thread {
            None => {
                if timers.process.timers.disarm(on.clock, place, places) {
                    self.cputime.cpu.expiry.recheck(on.clock);
                }
            }
            Some(whose) => {
                let first =
                    timers.threads.with(whose, |own| own.is_some_and(|own| own.disarm(on.clock, place, places)));
                if first {
                    self.thread(whose).time.cpu.expiry.recheck(on.clock);
                }
            }
        }
        self.cputime.note_armed(timers);
    }

    /// Reserves memory for a timer on this clock. Fails with ENOMEM, also if the clock's thread has exited.
    pub(crate) fn keep_cpu_timer(&self, on: SleepClock) -> Result<(), OutOfMemory> {
        let mut timers = self.cputime.timers.lock();
        timers.keep_room(on)?;
        if let Some(t) = on.thread {
            self.thread(t).time.has_queues.store(true, Relaxed);
        }
        Ok(())
    }

    /// A timer on this clock has been deleted.
    pub(crate) fn drop_cpu_timer(&self, on: SleepClock) {
        self.cputime.timers.lock().drop_room(on);
    }

    /// Arms a timer whose memory is reserved. True: call [`Kernel::ask_for_ticks`] with no lock held.
    #[must_use = "CPUs may have to tick"]
    pub(crate) fn arm_cpu_timer(&self, on: SleepClock, timer: TimerKey, at: Nanos) -> bool {
        self.queue_item(&mut self.cputime.timers.lock(), on, timer.0, at)
    }

    /// Disarms a timer if it is armed.
    pub(crate) fn disarm_cpu_timer(&self, on: SleepClock, timer: TimerKey) {
        let mut timers = self.cputime.timers.lock();
        let place = self.timer_table().place(timer);
        if place != Heap::ABSENT {
            self.take_out_item(&mut timers, on, place);
        }
    }

    /// A thread exits: items that wait for its time never expire.
    pub(super) fn forget_queues_of(&self, t: ThreadIdx) {
        let mut timers = self.cputime.timers.lock();
        timers.threads.remove(t, &mut Waiting { clock_gone: true, ..self.waiting() });
        self.thread(t).time.has_queues.store(false, Relaxed);
        self.thread(t).time.cpu.expiry.clear();
        self.cputime.note_armed(&timers);
    }

    /// Called after a change that may have armed the first timer: whether it has.
    pub(super) fn newly_armed(&self, timers: &Timers) -> bool {
        let before = self.cputime.is_armed();
        self.cputime.note_armed(timers);
        !before && self.cputime.is_armed()
    }

    /// A timer was armed, so CPUs that run threads without ticks must set their timers. They are made to pass the
    /// kernel's exit, where the flag is read; CPUs that pass it later see the flag anyway.
    pub(crate) fn ask_for_ticks(&self, cpu: CpuId) {
        fence(SeqCst);
        for other in (0..self.config.cpus).map(|i| CpuId(i as u16)) {
            if other != cpu && self.sched.current(other).is_some() {
                self.m.kick(other);
            }
        }
    }

    /// The clock of a thread or of the process.
    pub(crate) fn cpu_clock_of(&self, thread: Option<ids::Tid>, clock: CpuClock) -> Option<SleepClock> {
        match thread {
            None => Some(SleepClock { thread: None, clock }),
            Some(tid) => self.threads.find(tid).map(|t| SleepClock { thread: Some(t), clock }),
        }
    }
}
