//! Compares the host's count of a carrier's CPU time with our count for the CPU it serves.
//!
//! We count by the clock: a CPU that runs threads consumes time. The host counts what it gives the carrier. The counts
//! differ by time that the host gives to others, and by a carrier's work for an idle CPU: polling, going to sleep and
//! waking up. Asking the host is a system call, so a CPU remembers both counts of one moment and asks again when they
//! may have diverged:
//!
//! | when | asks |
//! |---|---|
//! | a carrier takes a seat | always: it has just been in the host |
//! | the CPU turns idle | after a burst of [`LONG_BURST`], or of [`BURST`] if [`ASSUMED_MAX`] were not asked about |
//! | it turns busy | after [`LONG_WAIT`], or after [`LOOKED`] if so many waits were not asked about |
//! | a long host call ends, another carrier takes over in the middle of one | always |
//! | a thread leaves its CPU for a host call | after [`BURST`], or after [`COMPARED_FOR`] if nobody wants the CPU |
//! | it returns, and its carrier has kept the CPU | after [`LONG_WAIT`], or if [`ASSUMED_MAX`] waits were only assumed |
//! | a tick | after [`COMPARED_FOR`]; always while something is armed |
//! | a reading of a clock by a thread that it counts | after [`READ_FOR`] |
//! | a reading, an exit after a wait that was only assumed | always |
//! | a thread exits | after [`BURST`] |
//!
//! Servers wait for a short time and often, and a reading costs them as much as a tenth of a request. So of a short wait it is
//! *assumed* that it has cost [`WAIT_COST`], or [`IDLE_COST`] if the CPU was idle, and of a short burst that nothing was stolen.
//! What is wrong with that becomes a debt when the host is asked next. While something is armed nothing is assumed.
//!
//! The difference is kept as a debt until a thread can bear it. Stolen time is taken back from the thread that runs
//! when the host is asked; the consumption of an idle CPU is charged to the next thread there, in portions of at
//! least [`BORNE`]. Attribution cannot be finer, because a switch records nothing.
//!
//! A CPU whose carrier the host has preempted cannot ask and keeps counting, and others see that count. Timers and
//! limits of the process therefore use *known* time: the count at the last comparison, less the debt. While something
//! is armed it is at most a tick old, unless the carrier is preempted.

use crate::machine::{Clock, Machine};
use crate::{Kernel, ThreadIdx};
use ids::{CpuId, Nanos};
use sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use time::cpu::Mode;

/// The interval between comparisons with the host's count, unless something is armed.
const COMPARED_FOR: Nanos = Nanos::from_millis(10);

/// The same for readings: a clock that was read too high would stand still until it is right.
const READ_FOR: Nanos = Nanos::from_millis(1);

/// For shorter bursts, asking the host does not pay: little can have been stolen.
const BURST: Nanos = Nanos::from_micros(20);

/// Time that the host gives to others makes a burst longer than this.
const LONG_BURST: Nanos = Nanos::from_micros(200);

/// An idle carrier looks around for some 20 µs. If that took longer, the host had preempted it.
const LOOKED: Nanos = Nanos::from_micros(50);

/// The assumed cost of a short wait in the host: going to sleep and waking up.
const WAIT_COST: Nanos = Nanos::from_micros(2);

/// What a CPU that was idle for a short time is assumed to have consumed: looking around, going to sleep and waking up.
const IDLE_COST: Nanos = Nanos::from_micros(5);

/// A wait so long pays for asking the host.
const LONG_WAIT: Nanos = Nanos::from_millis(1);

/// The most waits and bursts in a row about which the host is not asked.
const ASSUMED_MAX: u32 = 32;

/// A debt of this size is charged to the next thread at once, not only when the host is asked.
const BORNE: Nanos = Nanos::from_micros(100);

/// No reading.
const UNKNOWN: u64 = u64::MAX;

/// Both counts at one moment. Written by the CPU.
#[derive(Debug)]
pub(crate) struct HostTime {
    host: AtomicU64,
    ours: AtomicU64,
    /// Since when the CPU is idle, which is also the moment of the counts.
    rested: AtomicU64,
    /// Time counted too much (stolen) or too little (idle), up to that moment.
    debt: AtomicI64,
    /// Known consumption of this CPU: `ours`, less a debt. A word of its own, because other CPUs read it.
    known: AtomicU64,
    hit_kernel: AtomicBool,
    /// The CPU is not served: its carrier has handed it to another carrier that has not begun yet.
    passed_on: AtomicBool,
    /// Waits and bursts that were not asked about since the host was asked.
    assumed: AtomicU32,
}

impl Default for HostTime {
    fn default() -> HostTime {
        HostTime {
            host: AtomicU64::new(UNKNOWN),
            ours: AtomicU64::new(0),
            rested: AtomicU64::new(UNKNOWN),
            debt: AtomicI64::new(0),
            known: AtomicU64::new(0),
            hit_kernel: AtomicBool::new(false),
            passed_on: AtomicBool::new(false),
            assumed: AtomicU32::new(0),
        }
    }
}

impl HostTime {
    /// Forgets the counts, because the CPU has another carrier.
    pub(crate) fn forget(&self) {
        self.host.store(UNKNOWN, Relaxed);
        self.rested.store(UNKNOWN, Relaxed);
    }

    fn is_known(&self) -> bool {
        self.host.load(Relaxed) != UNKNOWN
    }

    fn set(&self, host: Nanos, ours: Nanos) {
        self.host.store(host.0, Relaxed);
        self.count(ours);
        self.rested.store(UNKNOWN, Relaxed);
    }

    /// Sets our count. The debt will be taken back from it, so the known consumption excludes it.
    fn count(&self, ours: Nanos) {
        self.ours.store(ours.0, Relaxed);
        let owed = self.debt.load(Relaxed).max(0) as u64;
        self.known.store(ours.0.saturating_sub(owed), Relaxed);
    }

    /// Our count since that moment.
    fn since(&self, ours: Nanos) -> Nanos {
        ours - Nanos(self.ours.load(Relaxed))
    }

    /// The host's count that would match `ours` if nothing had been stolen.
    fn expected(&self, ours: Nanos) -> Option<Nanos> {
        self.is_known().then(|| Nanos(self.host.load(Relaxed)) + self.since(ours))
    }

    /// Notes that a part of our count was not consumed by the carrier.
    pub(super) fn charged(&self, span: Nanos) {
        self.taken(-(span.0 as i64));
    }

    /// Takes time back from our count; the host's is unchanged.
    fn taken(&self, back: i64) {
        self.count(Nanos(self.ours.load(Relaxed).wrapping_sub(back as u64)));
    }

    /// Whether the debt is large enough to be charged.
    fn owes_much(&self) -> bool {
        self.debt.load(Relaxed).unsigned_abs() >= BORNE.0
    }

    /// Records both counts and keeps their difference as a debt.
    fn settle(&self, host: Nanos, ours: Nanos) {
        if self.rested.load(Relaxed) == UNKNOWN
            && let Some(expected) = self.expected(ours)
        {
            let over = expected.0.wrapping_sub(host.0) as i64;
            self.owe(over);
        }
        self.assumed.store(0, Relaxed);
        self.set(host, ours);
    }

    /// Adds time that was counted too much, or, if negative, too little.
    fn owe(&self, over: i64) {
        self.debt.store(self.debt.load(Relaxed).saturating_add(over), Relaxed);
    }

    /// Whether the host need not be asked before a wait for which nobody takes the CPU.
    fn may_assume(&self, ours: Nanos) -> bool {
        self.assumed.load(Relaxed) < ASSUMED_MAX && self.since(ours) < COMPARED_FOR
    }

    /// One more wait or burst is not asked about: false if there are enough of them.
    fn assume(&self) -> bool {
        let before = self.assumed.load(Relaxed);
        self.assumed.store((before + 1).min(ASSUMED_MAX), Relaxed);
        before < ASSUMED_MAX
    }

    /// What a wait has cost that is over `now`, if that can be assumed: it was short, and the carrier has kept the CPU.
    fn assumed_cost(&self, now: Nanos) -> Option<Nanos> {
        let rested = self.rested.load(Relaxed);
        if rested == UNKNOWN || !self.is_known() {
            return None;
        }
        let waited = now - Nanos(rested);
        (waited < LONG_WAIT && self.assume()).then(|| waited.min(WAIT_COST))
    }

    fn has_assumed(&self) -> bool {
        self.assumed.load(Relaxed) != 0
    }

    pub(crate) fn tick_hit_kernel(&self) {
        self.hit_kernel.store(true, Relaxed);
    }

    /// The mode that the tick interrupted.
    pub(crate) fn mode(&self) -> Mode {
        let kernel = self.hit_kernel.load(Relaxed);
        if kernel {
            self.hit_kernel.store(false, Relaxed);
        }
        if kernel { Mode::System } else { Mode::User }
    }
}

impl<M: Machine> Kernel<M> {
    /// The CPU time that the host has given to the calling carrier; `None` if unknown.
    pub(crate) fn carrier_time(&self) -> Option<Nanos> {
        Some(self.clock(Clock::Carrier)).filter(|&time| time != Nanos::ZERO)
    }

    /// Compares what was charged on this CPU since the last comparison with the host's count. Takes back what the host
    /// gave to others or spent waiting, or charges what was missed, to the current thread `t`. Returns the moment of
    /// the comparison.
    ///
    /// The moment is read after the host's answer: hosts tend to give the processor away at the end of a system call,
    /// and what they take there is still `t`'s.
    pub fn compare_with_host(&self, cpu: CpuId, t: ThreadIdx) -> Nanos {
        let host = self.carrier_time();
        let now = self.now();
        match host {
            Some(host) => self.compare_with(cpu, t, now, host),
            None => {
                let base = &self.cpu(cpu).host_time;
                base.forget();
                base.count(self.cputime.cpu.on(cpu, now));
                self.follow(t, now);
            }
        }
        now
    }

    /// The known consumption of a CPU, readable from any CPU.
    pub(super) fn known_on(&self, cpu: CpuId) -> Nanos {
        Nanos(self.cpu(cpu).host_time.known.load(Relaxed))
    }

    /// The known consumption of the process, which its timers and limits use.
    pub(crate) fn known_consumption(&self, now: Nanos) -> Nanos {
        self.cputime.cpu.known(now, |cpu| self.known_on(cpu)).exec
    }

    /// Like [`Kernel::compare_with_host`], with the host's count of the CPU's carrier given.
    pub(crate) fn compare_with(&self, cpu: CpuId, t: ThreadIdx, now: Nanos, host: Nanos) {
        self.cpu(cpu).host_time.settle(host, self.cputime.cpu.on(cpu, now));
        self.bear_debt(cpu, t, now);
    }

    /// Charges this CPU's debt to the current thread `t`, as far as its clock allows.
    fn bear_debt(&self, cpu: CpuId, t: ThreadIdx, now: Nanos) {
        let debt = self.cpu(cpu).host_time.debt.load(Relaxed);
        self.bear(cpu, t, now, debt, debt);
    }

    /// Charges `share` of the CPU's whole debt, `debt`, to this thread, as far as its clock allows.
    fn bear(&self, cpu: CpuId, t: ThreadIdx, now: Nanos, share: i64, debt: i64) {
        self.follow(t, now);
        self.adjust(cpu, t, now, share, debt);
        self.follow(t, now);
    }

    /// Corrects the time of a thread that need not be current. Another CPU may correct it at the same time, so words
    /// are exchanged atomically.
    fn adjust(&self, cpu: CpuId, t: ThreadIdx, now: Nanos, share: i64, debt: i64) {
        let (process, time) = (&self.cputime.cpu, &self.thread(t).time);
        let base = &self.cpu(cpu).host_time;
        let consumed = self.consumed(t, now);
        let over = share.min(consumed.min(process.on(cpu, now)).0 as i64);
        base.debt.store(debt - over, Relaxed);
        // A clock that has been read stands still until it has caught up. Meanwhile the process's clock includes that
        // time, because it is never less than its threads' clocks.
        let ahead = time.cpu.shown().0.saturating_sub(consumed.0.saturating_add_signed(-over)) as i64;
        let before = time.ahead.swap(ahead as u64, Relaxed) as i64;
        time.extra.fetch_sub(over, Relaxed);
        match over + before - ahead {
            back @ 1.. => process.take_back_on(cpu, Nanos(back as u64), now),
            missed => process.add_on(cpu, Nanos(missed.unsigned_abs())),
        }
        base.taken(over + before - ahead);
    }

    /// Takes back all that was counted for `t`: the host has counted it, too, without what was stolen.
    pub(super) fn forget_consumption(&self, cpu: CpuId, t: ThreadIdx) {
        let now = self.now();
        let counted = self.consumed(t, now).0 as i64;
        self.bear(cpu, t, now, counted, counted);
    }

    /// `t` has been chosen on a CPU that was idle.
    #[inline]
    pub(crate) fn bear_idle(&self, cpu: CpuId, t: ThreadIdx) {
        if self.cpu(cpu).host_time.owes_much() {
            self.bear_debt(cpu, t, self.now());
        }
    }

    /// The moment at which the current thread reads a clock. A thread that computes alone has no ticks, so the time
    /// that the host gave to others is taken back here.
    #[inline]
    pub(crate) fn moment_of_reading(&self, cpu: CpuId, t: ThreadIdx) -> Nanos {
        let now = self.now();
        let base = &self.cpu(cpu).host_time;
        if base.has_assumed() || base.since(self.cputime.cpu.on(cpu, now)) >= READ_FOR {
            return self.compare_with_host(cpu, t);
        }
        now
    }

    /// Compares if the last comparison is older than [`COMPARED_FOR`], because asking the host costs as much as a short
    /// thread's whole life.
    pub(super) fn compare_now_and_then(&self, cpu: CpuId, t: ThreadIdx, now: Nanos) -> Nanos {
        self.compare_after(COMPARED_FOR, cpu, t, now)
    }

    /// At the end of the current thread: takes back what was stolen from a longer life.
    pub(super) fn compare_at_exit(&self, cpu: CpuId, t: ThreadIdx, now: Nanos) -> Nanos {
        let span = if self.cpu(cpu).host_time.has_assumed() { Nanos::ZERO } else { BURST };
        let now = self.compare_after(span, cpu, t, now);
        self.bear_idle(cpu, t);
        now
    }

    fn compare_after(&self, span: Nanos, cpu: CpuId, t: ThreadIdx, now: Nanos) -> Nanos {
        if self.cpu(cpu).host_time.since(self.cputime.cpu.on(cpu, now)) >= span {
            return self.compare_with_host(cpu, t);
        }
        self.follow(t, now);
        now
    }

    /// Asks the host for the time of this busy CPU's carrier, if it is unknown.
    pub(crate) fn know_carrier(&self, cpu: CpuId, now: Nanos) {
        let base = &self.cpu(cpu).host_time;
        if !base.is_known()
            && let Some(host) = self.carrier_time()
        {
            base.set(host, self.cputime.cpu.on(cpu, now));
        }
    }

    /// The CPU turns idle, or stays so.
    pub(crate) fn turn_idle(&self, cpu: CpuId, now: Nanos) {
        let (base, ours) = (&self.cpu(cpu).host_time, self.cputime.cpu.on(cpu, now));
        self.cputime.cpu.rest(cpu, now);
        if base.rested.load(Relaxed) != UNKNOWN {
            // The CPU was busy since the last comparison, so what its carrier has consumed since is unknown.
            if base.since(ours) != Nanos::ZERO {
                base.forget();
                base.count(ours);
            }
            return;
        }
        let Some(expected) = base.expected(ours) else { return base.count(ours) };
        let span = base.since(ours);
        let asks = span >= BURST && (span >= LONG_BURST || self.cputime.is_armed() || !base.assume());
        match asks.then(|| self.carrier_time()).flatten() {
            Some(host) => base.settle(host, ours),
            None => base.set(expected, ours),
        }
        base.rested.store(now.0, Relaxed);
    }

    /// Ends the idle time of a CPU that was woken or has found work: from here on its carrier's consumption is charged to
    /// the thread that runs next.
    pub(crate) fn idle_over(&self, cpu: CpuId, now: Nanos) {
        let base = &self.cpu(cpu).host_time;
        let rested = base.rested.load(Relaxed);
        if rested == UNKNOWN {
            return self.know_carrier(cpu, now);
        }
        let before = base.host.load(Relaxed);
        let idle = now - Nanos(rested);
        let assumed = match idle {
            // It may have polled all the time.
            _ if idle < LOOKED => Some(idle),
            _ if idle < LONG_WAIT && !self.cputime.is_armed() && base.assume() => Some(IDLE_COST),
            _ => None,
        };
        let host = match assumed {
            Some(cost) => Nanos(before) + cost,
            None => self.carrier_time().inspect(|_| base.assumed.store(0, Relaxed)).unwrap_or(Nanos(before) + idle),
        };
        let missed = host.0.wrapping_sub(before) as i64;
        base.debt.store(base.debt.load(Relaxed).saturating_sub(missed), Relaxed);
        base.set(host, Nanos(base.ours.load(Relaxed)));
    }

    /// Takes back the time counted for `t`, the current thread of a CPU that no carrier has served since the last
    /// comparison.
    pub(crate) fn was_unserved(&self, cpu: CpuId, t: ThreadIdx) {
        let (base, now) = (&self.cpu(cpu).host_time, self.now());
        if base.is_known() {
            base.settle(Nanos(base.host.load(Relaxed)), self.cputime.cpu.on(cpu, now));
            self.bear_debt(cpu, t, now);
        }
    }

    /// The calling carrier hands this CPU to another carrier, whose host thread has yet to begin. The debt so far does
    /// not belong to the current thread, which that carrier will run. If the thread was only chosen and has not run,
    /// takes back what was counted since then. What was stolen from a carrier that runs a single thread, `only`, was
    /// stolen from that thread.
    pub fn seat_is_passed_on(&self, cpu: CpuId, only: Option<ThreadIdx>, has_run: bool) {
        let base = &self.cpu(cpu).host_time;
        if let Some(host) = self.carrier_time() {
            let (before, now) = (base.debt.load(Relaxed), self.now());
            base.settle(host, self.cputime.cpu.on(cpu, now));
            base.passed_on.store(true, Relaxed);
            if let Some(chosen) = self.sched.current(cpu).filter(|_| !has_run) {
                let span = self.sched.unaccounted(cpu, now).0 as i64;
                let found = base.debt.load(Relaxed);
                // The comparison has found this span already, unless nothing changed.
                self.bear(cpu, chosen, now, span, if found == before { found + span } else { found });
            }
            let debt = base.debt.load(Relaxed);
            if let Some(t) = only.filter(|_| debt > before) {
                self.adjust(cpu, t, now, debt - before, debt);
            }
        }
    }

    /// The new carrier has begun: time counted for the CPU before that was consumed by nobody.
    pub(crate) fn seat_is_taken(&self, cpu: CpuId) {
        let base = &self.cpu(cpu).host_time;
        if base.passed_on.load(Relaxed) {
            base.passed_on.store(false, Relaxed);
            let now = self.now();
            let span = base.since(self.cputime.cpu.on(cpu, now)).0 as i64;
            if let Some(t) = self.sched.current(cpu) {
                self.bear(cpu, t, now, span, base.debt.load(Relaxed) + span);
            }
        }
    }

    /// The current thread leaves its CPU for a host call.
    pub(crate) fn leave_carrier(&self, cpu: CpuId, t: ThreadIdx, now: Nanos) {
        let (base, ours) = (&self.cpu(cpu).host_time, self.cputime.cpu.on(cpu, now));
        let assumes = self.sched.queued(cpu) == 0 && !self.cputime.is_armed() && base.may_assume(ours);
        let expected = base.expected(ours).filter(|_| assumes || base.since(ours) < BURST);
        match expected {
            // The next comparison begins here.
            Some(expected) if assumes => base.set(expected, ours),
            Some(_) => {}
            None => drop(self.compare_with_host(cpu, t)),
        }
        // Time counted since then was spent in leaving the CPU.
        let since = expected.or_else(|| base.is_known().then(|| Nanos(base.host.load(Relaxed))));
        self.thread(t).time.call_began_at(since);
    }

    /// The carrier that serves this CPU has returned from the host, where it has made a call of `t`.
    pub(crate) fn carrier_is_back(&self, cpu: CpuId, t: ThreadIdx) {
        let (base, time, now) = (&self.cpu(cpu).host_time, &self.thread(t).time, self.now());
        let assumed = if self.cputime.is_armed() { None } else { base.assumed_cost(now) };
        let host = match assumed {
            Some(cost) => {
                time.owed.store(cost.0, Relaxed);
                Some(Nanos(base.host.load(Relaxed)) + cost)
            }
            None => {
                base.assumed.store(0, Relaxed);
                let (since, host) = (time.since.load(Relaxed), self.return_carrier(t));
                // What was stolen before the call, when the host was not asked.
                host.into_iter().for_each(|host| base.owe(since.saturating_sub(host.0) as i64));
                host
            }
        };
        match host {
            Some(host) => base.set(host, self.cputime.cpu.on(cpu, now)),
            None => base.forget(),
        }
    }
}
