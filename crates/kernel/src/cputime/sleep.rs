//! Sleeping on CPU time: `clock_nanosleep(2)` on the clock of the process or of another thread.
//!
//! A sleeper is queued like a timer on that clock. The thread that expires it dequeues and wakes it. A sleeper that is
//! in no queue knows that its time has come.

use super::queues::{ORPHAN, SLEEPER};
use crate::machine::Machine;
use crate::trap::Out;
use crate::wait::Wait;
use crate::{Kernel, ThreadIdx};
use abi::{Errno, Timespec, nr};
use ids::{CpuId, Nanos};
use sync::atomic::Ordering::*;
use time::Heap;
use time::cpu::CpuClock;

/// A clock of this process to sleep on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SleepClock {
    /// The clock's thread; `None`: the process.
    pub(crate) thread: Option<ThreadIdx>,
    /// Which of its three clocks.
    pub(crate) clock: CpuClock,
}

impl SleepClock {
    fn to_word(self) -> u64 {
        (self.clock as u64) << 32 | self.thread.map_or(0, |t| u64::from(t.0) + 1)
    }

    fn from_word(word: u64) -> SleepClock {
        let thread = (word as u32).checked_sub(1).map(ThreadIdx);
        SleepClock { thread, clock: CpuClock::ALL[(word >> 32) as usize] }
    }
}

impl<M: Machine> Kernel<M> {
    /// The reading of a clock. User time was sampled before the last comparison with the host, so it may exceed what is
    /// left of the precise time.
    pub(crate) fn read_clock(&self, clock: SleepClock) -> Nanos {
        match (clock.thread, clock.clock) {
            (Some(t), CpuClock::Virt) => self.thread_sample(t).utime.min(self.thread_clock(t)),
            (Some(t), _) => self.thread_clock(t),
            (None, CpuClock::Virt) => self.cputime.cpu.sample(self.now()).utime.min(self.process_clock()),
            (None, _) => self.process_clock(),
        }
    }

    /// The current thread sleeps until `clock` reads `at`; `rem` is the address for the remaining time of a relative
    /// sleep.
    pub(crate) fn cpu_sleep(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        clock: SleepClock,
        at: Nanos,
        absolute: bool,
        rem: u64,
    ) -> Out {
        let wait = &self.thread(t).wait;
        self.begin_wait(t, Wait::CpuSleep);
        wait.deadline.store(at.0, Relaxed);
        wait.a.store(rem, Relaxed);
        wait.b.store(u64::from(absolute), Relaxed);
        if let Err(e) = self.queue_sleeper(cpu, t, clock, at) {
            self.abandon_wait(cpu, t);
            return e.into();
        }
        Out::Blocked
    }

    /// Continues a sleep that a signal without a handler interrupted.
    pub(crate) fn cpu_sleep_again(&self, cpu: CpuId, t: ThreadIdx) -> Out {
        let wait = &self.thread(t).wait;
        let clock = SleepClock::from_word(self.thread(t).time.sleeps_on.load(Relaxed));
        self.cpu_sleep(cpu, t, clock, wait.kept().at, false, wait.a.load(Relaxed))
    }

    fn queue_sleeper(&self, cpu: CpuId, t: ThreadIdx, on: SleepClock, at: Nanos) -> Result<(), Errno> {
        let time = &self.thread(t).time;
        time.sleeps_on.store(on.to_word(), Relaxed);
        let mut timers = self.cputime.timers.lock();
        timers.make_room(on).map_err(|_| Errno::ENOMEM)?;
        if let Some(whose) = on.thread {
            self.thread(whose).time.has_queues.store(true, Relaxed);
        }
        let newly = self.queue_item(&mut timers, on, t.0 | SLEEPER, at);
        drop(timers);
        if newly {
            self.ask_for_ticks(cpu);
        }
        Ok(())
    }

    /// 0 if the time has come; a signal ends it as in `posix_cpu_nsleep`.
    pub(crate) fn cpu_sleep_finished(&self, t: ThreadIdx) -> Option<isize> {
        let thread = self.thread(t);
        if thread.time.place.load(Acquire) == Heap::ABSENT {
            return Some(0);
        }
        if !self.interrupted(t) {
            return None;
        }
        let on = SleepClock::from_word(thread.time.sleeps_on.load(Relaxed));
        if self.take_out_sleeper(t, on) {
            return Some(0);
        }
        let wait = &thread.wait;
        if wait.b.load(Relaxed) != 0 {
            return Some(Errno::ERESTARTNOHAND.to_ret());
        }
        let left = Nanos(wait.deadline.load(Relaxed)) - self.read_clock(on);
        let rem = wait.a.load(Relaxed);
        if rem != 0 && self.put(rem, Timespec::from_nanos(left)).is_err() {
            return Some(Errno::EFAULT.to_ret());
        }
        Some(wait.keep_for_restart(nr::CLOCK_NANOSLEEP).to_ret())
    }

    /// Removes a sleeper from its queue before its time; true if its time came meanwhile.
    fn take_out_sleeper(&self, t: ThreadIdx, on: SleepClock) -> bool {
        let mut timers = self.cputime.timers.lock();
        let place = self.thread(t).time.place.load(Relaxed);
        if place == Heap::ABSENT {
            return true;
        }
        match place {
            ORPHAN => self.thread(t).time.place.store(Heap::ABSENT, Relaxed),
            place => self.take_out_item(&mut timers, on, place),
        }
        false
    }
}
