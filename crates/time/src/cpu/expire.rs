//! The slow path of a tick: what is due now, and when to look next.

use crate::cpu::itimer::{CacheChange, CpuItimer, ItimerValue};
use crate::cpu::limit::{Reached, Rlimit};
use crate::cpu::{CpuClock, CpuTimers, Cputime, ExpiryClaim, ProcessCputime, ThreadCputime};
use crate::heap::Places;
use ids::Nanos;

/// Something that happens because CPU time was consumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuEvent {
    /// SIGPROF to the process.
    Prof,
    /// SIGVTALRM to the process.
    Virtual,
    /// SIGXCPU to the process.
    SoftLimit,
    /// SIGKILL to the process.
    HardLimit,
    /// SIGXCPU to the thread (`RLIMIT_RTTIME`).
    SoftRtTime,
    /// This POSIX timer expires; it is in no queue any more. With the reading of its
    /// clock that it was armed for.
    Timer(u32, Nanos),
}

/// Which of the two CPU interval timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuItimerKind {
    /// ITIMER_VIRTUAL: user time.
    Virtual,
    /// ITIMER_PROF: user and system time.
    Prof,
}

impl CpuItimerKind {
    /// The clock it runs on.
    pub const fn clock(self) -> CpuClock {
        match self {
            CpuItimerKind::Virtual => CpuClock::Virt,
            CpuItimerKind::Prof => CpuClock::Prof,
        }
    }
}

/// The CPU timers and limit of a process; guarded by the process lock.
#[derive(Debug, Default)]
pub struct ProcessTimers {
    /// The POSIX timers on this process's clocks.
    pub timers: CpuTimers,
    prof: CpuItimer,
    virt: CpuItimer,
    limit: Rlimit,
}

impl ProcessTimers {
    /// Nothing armed, no limit.
    pub const fn new() -> ProcessTimers {
        ProcessTimers { timers: CpuTimers::new(), prof: CpuItimer::new(), virt: CpuItimer::new(), limit: Rlimit::NONE }
    }

    /// The timers of a fork's child: nothing armed, the limit copied and watched
    /// (`posix_cputimers_group_init`). `child` reads zero.
    pub fn forked(&self, child: &ProcessCputime) -> ProcessTimers {
        let mut timers = ProcessTimers::new();
        timers.set_limit(self.limit, child);
        timers
    }

    /// RLIMIT_CPU, with the soft limit moved on by each SIGXCPU.
    pub fn limit(&self) -> Rlimit {
        self.limit
    }

    /// Sets RLIMIT_CPU; [`Rlimit::may_become`] checks the permission. Lifting it changes nothing now: the next pass
    /// finds that nothing is armed.
    pub fn set_limit(&mut self, limit: Rlimit, cpu: &ProcessCputime) {
        self.limit = limit;
        if limit.next_cpu() != Nanos::MAX {
            cpu.expiry.lower(CpuClock::Prof, limit.next_cpu());
        }
    }

    /// `setitimer(2)`: the old setting. `tick` is one tick's length, added to the value.
    pub fn set_itimer(
        &mut self,
        which: CpuItimerKind,
        new: ItimerValue,
        cpu: &ProcessCputime,
        now: Nanos,
        tick: Nanos,
    ) -> ItimerValue {
        let reading = cpu.reading(which.clock(), now);
        let (old, change) = self.itimer(which).set(new, reading, tick);
        match change {
            CacheChange::None => {}
            CacheChange::Lower(at) => cpu.expiry.lower(which.clock(), at),
            CacheChange::Recheck => cpu.expiry.recheck(which.clock()),
        }
        old
    }

    /// `getitimer(2)`.
    pub fn get_itimer(&self, which: CpuItimerKind, cpu: &ProcessCputime, now: Nanos, tick: Nanos) -> ItimerValue {
        let timer = match which {
            CpuItimerKind::Prof => &self.prof,
            CpuItimerKind::Virtual => &self.virt,
        };
        timer.get(cpu.reading(which.clock(), now), tick)
    }

    fn itimer(&mut self, which: CpuItimerKind) -> &mut CpuItimer {
        match which {
            CpuItimerKind::Prof => &mut self.prof,
            CpuItimerKind::Virtual => &mut self.virt,
        }
    }

    /// One pass over everything of the process that may be due (`check_process_timers`): ITIMER_PROF, ITIMER_VIRTUAL,
    /// RLIMIT_CPU, then a bounded number of POSIX timers.
    ///
    /// `at` is the result of [`ProcessCputime::settle`], `claim` the proof that no other thread is expiring. At the
    /// hard limit nothing else happens, but the claim is released. (Linux keeps it for ever, which is right only
    /// because SIGKILL is final.)
    pub fn expire<P: Places>(
        &mut self,
        claim: ExpiryClaim<'_>,
        cpu: &ProcessCputime,
        at: Cputime,
        places: &mut P,
        mut event: impl FnMut(CpuEvent, &mut P),
    ) {
        assert!(claim.is_for(&cpu.expiry), "a claim for another process");
        if self.prof.expire(at.of(CpuClock::Prof)) {
            event(CpuEvent::Prof, places);
        }
        if self.virt.expire(at.of(CpuClock::Virt)) {
            event(CpuEvent::Virtual, places);
        }
        match self.limit.check_cpu(at.of(CpuClock::Prof)) {
            Reached::Hard => return event(CpuEvent::HardLimit, places),
            Reached::Soft => event(CpuEvent::SoftLimit, places),
            Reached::Nothing => {}
        }
        self.timers.collect(&at, places, |timer, expiry, places| event(CpuEvent::Timer(timer, expiry), places));
        cpu.expiry.set_next(self.next());
    }

    /// The earliest event on each clock. The limit has no queue entry, so it is computed each time.
    pub fn next(&self) -> [Nanos; 3] {
        let [prof, virt, sched] = self.timers.next();
        [prof.min(self.prof.next()).min(self.limit.next_cpu()), virt.min(self.virt.next()), sched]
    }
}

/// One pass over a thread's own timers (`check_thread_timers`): RLIMIT_RTTIME first, then
/// its POSIX timers, a bounded number. `timers` is guarded by the process lock; `rt_run`
/// is, for a real-time thread, what it has run since it last woke up, and the limit.
pub fn expire_thread<P: Places>(
    timers: Option<&mut CpuTimers>,
    rt_run: Option<(Nanos, &mut Rlimit)>,
    cpu: &ThreadCputime,
    now: Nanos,
    places: &mut P,
    mut event: impl FnMut(CpuEvent, &mut P),
) {
    if let Some((run, limit)) = rt_run {
        match limit.check_rttime(run) {
            Reached::Hard => return event(CpuEvent::HardLimit, places),
            Reached::Soft => event(CpuEvent::SoftRtTime, places),
            Reached::Nothing => {}
        }
    }
    cpu.clock(now);
    let Some(timers) = timers else { return cpu.expiry.clear() };
    timers.collect(&cpu.sample(now), places, |timer, expiry, places| event(CpuEvent::Timer(timer, expiry), places));
    CpuClock::ALL.iter().zip(timers.next()).for_each(|(&clock, at)| cpu.expiry.set(clock, at));
}

#[cfg(test)]
mod tests;
