//! CPU time of a process: one slot per CPU, read by adding the slots up.
//!
//! A slot is written by its own CPU only, with plain stores, and it is written when the
//! CPU turns idle or busy, not when it switches between threads (see [`Stopwatch`]).
//! So accounting has no contention and costs the same for any number of threads; nothing
//! is folded in when a thread exits, because its time never was anywhere else.
//!
//! Compare the history in the lab: per-CPU totals of 2008 paid an add per accounting and
//! an allocation at the second thread; the atomics of 2015 pay a contended line per
//! accounting while a timer is armed and a walk of all threads when it is armed.

use crate::OutOfMemory;
use crate::cpu::{CpuClock, Cputime, Floor, GroupExpiry, Mode, Stopwatch, ThreadCputime};
use crate::planted::{self, Fault};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::{CpuId, Nanos};
use sync::CachePadded;
use sync::atomic::{AtomicU64, Ordering::Relaxed};

/// CPU time that a process consumed on one CPU.
#[derive(Debug, Default)]
struct Slot {
    clock: Stopwatch,
    utime: AtomicU64,
    stime: AtomicU64,
}

impl Slot {
    #[inline(always)]
    fn sample(&self, now: Nanos) -> Cputime {
        Cputime {
            utime: Nanos(self.utime.load(Relaxed)),
            stime: Nanos(self.stime.load(Relaxed)),
            exec: self.clock.read(now),
        }
    }

    #[inline(always)]
    fn attribute(&self, span: Nanos, mode: Mode) {
        let part = match mode {
            Mode::User => &self.utime,
            Mode::System => &self.stime,
        };
        part.store(part.load(Relaxed) + span.0, Relaxed);
    }
}

/// CPU time of one process. Methods that name a CPU are called by that CPU.
#[derive(Debug)]
pub struct ProcessCputime {
    slots: Box<[CachePadded<Slot>]>,
    floor: CachePadded<Floor>,
    /// The earliest process-wide event, and the claim to expire it.
    pub expiry: CachePadded<GroupExpiry>,
}

impl ProcessCputime {
    /// A process on a machine of `cpus` CPUs that has consumed nothing.
    pub fn new(cpus: usize) -> Result<ProcessCputime, OutOfMemory> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(cpus)?;
        slots.resize_with(cpus, CachePadded::default);
        Ok(ProcessCputime {
            slots: slots.into_boxed_slice(),
            floor: CachePadded::default(),
            expiry: CachePadded(GroupExpiry::new(cpus)),
        })
    }

    /// On `cpu`, thread `from` of this process stops running and `to` starts; `None`
    /// stands for idle, for another process's thread, and for the time inside a host call
    /// that may wait (charge that with [`Self::charge`] when it is over).
    #[inline(always)]
    pub fn switch(&self, cpu: CpuId, from: Option<&ThreadCputime>, to: Option<&ThreadCputime>, now: Nanos) {
        if let Some(from) = from {
            from.stop(now);
        }
        match to {
            Some(to) => {
                to.start(now);
                self.run(cpu, now);
            }
            None => self.rest(cpu, now),
        }
    }

    /// On `cpu`, some thread of this group runs from `now` on. For named groups of threads, which are accounted in
    /// addition to the process; a process uses [`Self::switch`].
    #[inline(always)]
    pub fn run(&self, cpu: CpuId, now: Nanos) {
        if planted::strikes(Fault::BackAtStart) && !self.slots[cpu.index()].clock.is_running() {
            self.slots[cpu.index()].clock.reset();
        }
        self.slots[cpu.index()].clock.start(now);
    }

    /// On `cpu`, no thread of this group runs from `now` on.
    #[inline(always)]
    pub fn rest(&self, cpu: CpuId, now: Nanos) {
        self.slots[cpu.index()].clock.stop(now);
    }

    /// CPU time that the group has consumed on `cpu`.
    pub fn on(&self, cpu: CpuId, now: Nanos) -> Nanos {
        self.slots[cpu.index()].clock.read(now)
    }

    /// A tick hit `thread` on `cpu`: what it has run since its last tick was this mode.
    #[inline]
    pub fn tick(&self, cpu: CpuId, thread: &ThreadCputime, mode: Mode, now: Nanos) {
        let span = thread.attribute_rest(now, mode);
        self.slots[cpu.index()].attribute(span, mode);
    }

    /// `span` of what `thread` has run on `cpu` since its last tick is known to have been this mode.
    pub fn attribute(&self, cpu: CpuId, thread: &ThreadCputime, span: Nanos, mode: Mode) {
        thread.attribute(span, mode);
        self.slots[cpu.index()].attribute(span, mode);
    }

    /// `thread`, now back on `cpu`, consumed `span` while its clock stood still:
    /// the smaller of wall time and host CPU time of a host call.
    pub fn charge(&self, cpu: CpuId, thread: &ThreadCputime, span: Nanos, mode: Mode) {
        thread.add(span, mode);
        let slot = &self.slots[cpu.index()];
        slot.clock.add(span);
        if planted::strikes(Fault::ChargeTwice) {
            slot.clock.add(span);
        }
        slot.attribute(span, mode);
        self.expiry.disturb();
    }

    /// Takes back `span` of what `thread` was charged while it ran on `cpu`, because the host stole it. Clocks that
    /// have been read stand still until they have caught up.
    pub fn take_back(&self, cpu: CpuId, thread: &ThreadCputime, span: Nanos, now: Nanos) {
        let slot = &self.slots[cpu.index()].clock;
        let span = Nanos(span.0.min(slot.read(now).0));
        self.expiry.take_back(span);
        let taken = thread.take_back(span, now);
        slot.take_back(taken, now);
    }

    /// The part of [`Self::take_back`] that is about the group, for threads whose clocks are counted elsewhere.
    pub fn take_back_on(&self, cpu: CpuId, span: Nanos, now: Nanos) {
        self.expiry.take_back(span);
        self.slots[cpu.index()].clock.take_back(span, now);
    }

    /// The group consumed `span` on `cpu` in addition, for a thread whose clock is counted elsewhere.
    pub fn add_on(&self, cpu: CpuId, span: Nanos) {
        if span != Nanos::ZERO {
            self.slots[cpu.index()].clock.add(span);
            self.expiry.disturb();
        }
    }

    /// Accounts the last run of `thread`, on `cpu`. Time that no tick has classified counts as user time. The process keeps
    /// all of it.
    pub fn exit(&self, cpu: CpuId, thread: &ThreadCputime, now: Nanos) {
        thread.stop(now);
        let span = thread.attribute_rest(now, Mode::User);
        self.slots[cpu.index()].attribute(span, Mode::User);
        if planted::strikes(Fault::LoseAtExit) {
            self.slots[cpu.index()].clock.take_back(span, now);
        }
    }

    /// CLOCK_PROCESS_CPUTIME_ID: precise, and never less than anyone has read before.
    #[inline]
    pub fn clock(&self, now: Nanos) -> Nanos {
        self.floor.raise(self.slots.iter().fold(Nanos::ZERO, |sum, slot| sum + slot.clock.read(now)))
    }

    /// One of the clocks as a program reads it: later readings of [`Self::clock`] are never lower.
    pub fn reading(&self, clock: CpuClock, now: Nanos) -> Nanos {
        match clock {
            CpuClock::Prof | CpuClock::Sched => self.clock(now),
            CpuClock::Virt => self.sample(now).utime,
        }
    }

    /// The three readings for checks and views, without raising the clock's floor.
    #[inline]
    pub fn sample(&self, now: Nanos) -> Cputime {
        self.sample_each(|_| now)
    }

    /// As [`Self::sample`], on a machine whose CPUs disagree about the time.
    #[inline(always)]
    pub fn sample_each(&self, now: impl Fn(CpuId) -> Nanos) -> Cputime {
        let slots = self.slots.iter().enumerate();
        slots.fold(Cputime::ZERO, |sum, (cpu, slot)| sum + slot.sample(now(CpuId(cpu as u16))))
    }

    /// As [`Self::sample`], but believes at most `known` of each CPU's count: a CPU that the host has preempted keeps
    /// counting until it compares its clock.
    #[inline]
    pub fn known(&self, now: Nanos, known: impl Fn(CpuId) -> Nanos) -> Cputime {
        let slots = self.slots.iter().enumerate();
        slots.fold(Cputime::ZERO, |sum, (cpu, slot)| {
            let sample = slot.sample(now);
            sum + Cputime { exec: sample.exec.min(known(CpuId(cpu as u16))), ..sample }
        })
    }

    /// [`Self::known`] for the expiry pass. Later readings are never lower, so a thread that gets an expiry finds the
    /// clock at or past it.
    pub fn settle(&self, now: Nanos, known: impl Fn(CpuId) -> Nanos) -> Cputime {
        let sample = self.known(now, known);
        self.floor.raise(sample.exec);
        sample
    }

    /// Whether process-wide events are due by what is [`Self::known`]. Constant cost: one
    /// load while nothing is armed, two while nothing can be due yet.
    #[inline(always)]
    pub fn is_due(&self, now: Nanos, known: impl Fn(CpuId) -> Nanos) -> bool {
        self.expiry.may_be_due(now) && self.look(now, known)
    }

    /// Whether the CPU that runs `thread` must keep ticking for a CPU timer's sake
    /// (the opposite of `posix_cpu_timers_can_stop_tick`).
    #[inline]
    pub fn needs_tick(&self, thread: &ThreadCputime) -> bool {
        self.expiry.is_active() || !thread.expiry.is_empty()
    }

    #[inline(never)]
    fn look(&self, now: Nanos, known: impl Fn(CpuId) -> Nanos) -> bool {
        self.expiry.look(now, || (self.sample(now), self.known(now, known)))
    }

    /// Resets all times for the child of a fork, where the caller is the only thread.
    pub fn reset(&self) {
        for slot in &self.slots {
            slot.clock.reset();
            slot.utime.store(0, Relaxed);
            slot.stime.store(0, Relaxed);
        }
        self.floor.reset();
        self.expiry.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUS: [CpuId; 2] = [CpuId(0), CpuId(1)];

    /// Two CPUs that run from 100 on.
    fn two() -> ProcessCputime {
        let p = ProcessCputime::new(2).unwrap();
        CPUS.iter().for_each(|cpu| p.run(*cpu, Nanos(100)));
        p
    }

    #[test]
    fn each_cpu_has_its_own_count() {
        let p = two();
        p.rest(CPUS[1], Nanos(130));
        p.add_on(CPUS[1], Nanos(5));
        p.take_back_on(CPUS[0], Nanos(20), Nanos(200));
        assert_eq!(CPUS.map(|cpu| p.on(cpu, Nanos(200))), [Nanos(80), Nanos(35)]);
        assert_eq!(p.sample(Nanos(200)).exec, Nanos(115));
        assert_eq!(p.sample_each(|cpu| Nanos(200 + 50 * u64::from(cpu.0 == 0))).exec, Nanos(165));
        p.reset();
        assert_eq!((p.clock(Nanos(300)), p.sample(Nanos(300))), (Nanos::ZERO, Cputime::ZERO));
    }

    #[test]
    fn what_is_known_to_be_system_time_is_told_apart_at_once() {
        let (p, t) = (two(), ThreadCputime::new());
        t.follow(Nanos(60));
        p.attribute(CPUS[1], &t, Nanos(45), Mode::System);
        p.tick(CPUS[1], &t, Mode::User, Nanos(160));
        for at in [p.sample(Nanos(160)), t.sample(Nanos(160))] {
            assert_eq!((at.utime, at.stime), (Nanos(15), Nanos(45)));
        }
    }

    #[test]
    fn a_cpu_is_believed_as_far_as_it_is_known() {
        let p = two();
        let known = |cpu: CpuId| Nanos(if cpu == CPUS[0] { u64::MAX } else { 40 });
        assert_eq!((p.known(Nanos(130), known).exec, p.known(Nanos(200), known).exec), (Nanos(60), Nanos(140)));
        assert_eq!(p.settle(Nanos(200), known).exec, Nanos(140));
        assert_eq!(p.clock(Nanos(105)), Nanos(140), "nobody reads less than what was settled");
        p.expiry.lower(crate::cpu::CpuClock::Prof, Nanos(150));
        assert!(!p.is_due(Nanos(209), known) && p.is_due(Nanos(210), known));
    }

    #[test]
    fn a_lump_of_time_voids_the_hint_and_no_time_does_not() {
        let p = two();
        p.expiry.lower(crate::cpu::CpuClock::Prof, Nanos(1_000));
        let all = |_| Nanos::MAX;
        assert!(!p.is_due(Nanos(200), all), "nothing is due before 600");
        p.add_on(CPUS[0], Nanos::ZERO);
        CPUS.iter().for_each(|cpu| p.take_back_on(*cpu, Nanos(0), Nanos(200)));
        assert!(!p.is_due(Nanos(300), all));
        p.add_on(CPUS[0], Nanos(600));
        assert!(p.is_due(Nanos(300), all));
    }
}
