//! The kernel's state of each CPU apart from its run queue.

use crate::cputime::Ticked;
use crate::machine::Machine;
use crate::{Kernel, Kicks, Personality};
use ids::{CpuId, Nanos, ThreadIdx};
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use sync::{CachePadded, Lock};
use time::timeouts::TimeoutQueue;

/// A CPU's own cache lines.
#[derive(Debug, Default)]
pub struct Cpu {
    /// Sleeps and futex timeouts that this CPU serves.
    pub timeouts: Lock<TimeoutQueue>,
    /// At most the earliest timeout; MAX for none. Lowered under the lock above.
    earliest: AtomicU64,
    /// When the machine's timer of this CPU goes off; MAX for never. Written by the CPU.
    armed: AtomicU64,
    /// Whether the timer is set early enough for the next tick. Written by the CPU.
    ticking: AtomicBool,
    /// The last regular tick. Written by the CPU.
    ticked: AtomicU64,
    /// When the slice that the timer was last set for ends; MAX if it is not set for one. Written by the CPU.
    slice_end: AtomicU64,
    /// Another CPU has asked this one to check its tick.
    pub(crate) asked: AtomicBool,
    /// Its timer is being handled, so what wakes threads is not its current one. For traces only; written by the CPU.
    pub(crate) in_timer: AtomicBool,
    /// The last tick let the current thread keep its CPU (`favour`). Written by the CPU.
    favoured: AtomicBool,
    /// When a thread was sampled here last. Written by the CPU.
    pub(crate) sampled: AtomicU64,
    /// A sample of the thread that runs here was requested.
    pub(crate) sample_asked: AtomicBool,
    /// The host's count of this carrier's time, compared with ours.
    pub(crate) host_time: crate::cputime::HostTime,
    /// Counters. Written by the CPU.
    pub count: CpuCounters,
}

/// Event counts of a CPU.
#[derive(Debug, Default)]
pub struct CpuCounters {
    /// System calls answered or passed on, by library.
    pub calls_by_library: [AtomicU64; LIBRARIES_MAX],
    /// Calls passed on to the host.
    pub passed: AtomicU64,
    /// Host calls that had to wait.
    pub waited: AtomicU64,
    /// Threads that parked for descriptors.
    pub parked: AtomicU64,
    /// Events that the machine's poller has reported here.
    pub events: AtomicU64,
    /// How often events were polled for at ticks, while threads ran here.
    pub looks: AtomicU64,
    /// Ticks.
    pub ticks: AtomicU64,
    /// Kicks received.
    pub kicks: AtomicU64,
    /// `waited` by the number of the call.
    pub waited_by_call: ByCall,
}

/// A counter for each system call.
#[derive(Debug)]
pub struct ByCall([AtomicU32; CALLS]);

/// The calls that have their own counter; all others share the last one.
pub(crate) const CALLS: usize = 512;

impl Default for ByCall {
    fn default() -> ByCall {
        ByCall(core::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl ByCall {
    /// Adds one for a call; written by one CPU only.
    pub(crate) fn bump(&self, nr: usize) {
        let counter = &self.0[nr.min(CALLS - 1)];
        counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// How many there were of this call.
    pub(crate) fn get(&self, nr: usize) -> u64 {
        self.0[nr.min(CALLS - 1)].load(Relaxed).into()
    }
}

/// The libraries that have their own counter; later ones share the last one.
pub const LIBRARIES_MAX: usize = 32;

/// Adds to a counter that only this CPU writes.
#[inline(always)]
pub fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// When the timer must go off for a tick, and the likely time of the next one.
struct NextTick {
    at: Nanos,
    then: Option<Nanos>,
}

impl Cpu {
    pub(crate) fn new() -> CachePadded<Cpu> {
        let never = || AtomicU64::new(u64::MAX);
        let cpu = Cpu { armed: never(), earliest: never(), slice_end: never(), ..Cpu::default() };
        CachePadded(cpu)
    }

    /// When the earliest timeout of the calling CPU may be due.
    pub(crate) fn next_timeout(&self) -> Nanos {
        Nanos(self.earliest.load(Relaxed))
    }

    /// Whether the machine's timer of the calling CPU should have gone off.
    pub(crate) fn timer_is_due(&self, now: Nanos) -> bool {
        self.armed.load(Relaxed) <= now.0
    }

    /// Whether the machine's timer is set early enough for the next tick.
    #[inline(always)]
    pub(crate) fn is_ticking(&self) -> bool {
        self.ticking.load(Relaxed)
    }

    /// Whether the machine's timer is set too late for the earliest timeout.
    #[inline(always)]
    pub(crate) fn must_arm(&self) -> bool {
        self.earliest.load(Relaxed) < self.armed.load(Relaxed)
    }

    /// Notes that the tick which is about to be handled interrupted the kernel, not the program.
    pub fn tick_hit_kernel(&self) {
        self.host_time.tick_hit_kernel();
    }
}

impl<M: Machine> Kernel<M> {
    /// The earliest timeout or timer of this CPU; `None` if there is none. Refreshes the published word; adding an
    /// earlier one later lowers it and kicks.
    pub(crate) fn earliest(&self, cpu: CpuId) -> Option<Nanos> {
        let c = self.cpu(cpu);
        let firsts = {
            let queue = c.timeouts.lock();
            let (monotonic, others) = self.first_posix_expiries(cpu);
            let at = queue.earliest().unwrap_or(Nanos::MAX).min(monotonic);
            c.earliest.store(at.0, Relaxed);
            others
        };
        // Clocks are read without the lock.
        for (base, at) in firsts.into_iter().flatten() {
            self.lower_earliest(cpu, self.look_at(base, at));
        }
        Some(Nanos(c.earliest.load(Relaxed))).filter(|at| *at != Nanos::MAX)
    }

    /// The time at which an idle CPU must handle its timer.
    pub(crate) fn idle_until(&self, cpu: CpuId) -> Option<Nanos> {
        let earliest = self.earliest(cpu)?;
        let first = self.cpu(cpu).timeouts.lock().first();
        Some(first.map_or(earliest, |(t, latest)| earliest.min(self.may_end_at(t, latest))))
    }

    /// Whether a real-time or deadline thread's sleep or other timeout on `cpu` ends by this time.
    pub fn ends_urgent_sleep(&self, cpu: CpuId, at: Nanos) -> bool {
        let first = self.cpu(cpu).timeouts.lock().first();
        first.is_some_and(|(t, due)| due <= at && self.sched.urgency(t) != sched::Urgency::Fair)
    }

    /// Publishes a timeout of `cpu` at this time; returns whether it is the earliest now.
    pub(crate) fn lower_earliest(&self, cpu: CpuId, at: Nanos) -> bool {
        let c = self.cpu(cpu);
        let _queue = c.timeouts.lock();
        let lower = at.0 < c.earliest.load(Relaxed);
        if lower {
            c.earliest.store(at.0, Relaxed);
        }
        lower
    }

    /// [`Here::set_timer`](crate::brief::Here::set_timer) for a CPU without a thread. Its carrier sleeps only until the
    /// next timeout ([`Next::Idle`](crate::Next::Idle)), for which no timer is needed.
    pub(crate) fn set_idle_timer(&self, cpu: CpuId) {
        if self.sched.tick_needed(cpu) && !self.cpu(cpu).is_ticking() {
            self.set_timer_slow(cpu, true);
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn set_timer_slow(&self, cpu: CpuId, tick: bool) {
        let c = self.cpu(cpu);
        let mut want = Nanos(c.earliest.load(Relaxed)).min(Nanos(c.armed.load(Relaxed)));
        let mut then = None;
        if tick {
            let next = self.next_tick(cpu);
            want = want.min(next.at);
            then = next.then;
            c.ticking.store(true, Relaxed);
        }
        if want.0 < c.armed.load(Relaxed) {
            c.armed.store(want.0, Relaxed);
            self.m.arm(cpu, want, then);
        }
    }

    /// The next regular tick or the exact end of the running slice, whichever comes first. A regular tick shortly
    /// before the end of the slice is skipped unless something counts on its regularity.
    ///
    /// Linux's HRTICK (`hrtick_start_fair`) does the same but sets the timer at each switch. Here a switch sets
    /// nothing: the tick that is already set comes first, and is then set for the thread that runs.
    fn next_tick(&self, cpu: CpuId) -> NextTick {
        let (c, tick) = (self.cpu(cpu), self.config.tick);
        let (now, last) = (self.now(), Nanos(c.ticked.load(Relaxed)));
        let goes_on = now.since(last) < tick;
        let regular = if goes_on { last } else { now } + tick;
        // If ticks follow each other, the one after the next is likely, too.
        let likely = |at| goes_on.then_some(at);
        let favoured = c.favoured.load(Relaxed);
        let slice = self.sched.slice_end(cpu).filter(|_| !favoured);
        let slice = slice.map(|(end, length)| (end.max(now + Nanos(tick.0 / 16)), length));
        let latest = if self.cputime.is_armed() { regular } else { regular + Nanos(tick.0 / 2) };
        c.slice_end.store(slice.map_or(u64::MAX, |(end, _)| end.0), Relaxed);
        match slice {
            Some((end, length)) if end <= latest => {
                let following = if end > regular { end + length } else { regular };
                NextTick { at: end, then: likely(following.min(end + tick + Nanos(tick.0 / 2))) }
            }
            Some((end, _)) => NextTick { at: regular, then: likely(end.min(regular + tick)) },
            None => NextTick { at: regular, then: likely(regular + tick) },
        }
    }

    /// Puts a timeout into the queue of `cpu`.
    pub(crate) fn queue_timeout(&self, cpu: CpuId, t: ThreadIdx, at: Nanos, generation: u32) {
        let c = self.cpu(cpu);
        let mut queue = c.timeouts.lock();
        queue.arm(t, at, generation);
        if at.0 < c.earliest.load(Relaxed) {
            c.earliest.store(at.0, Relaxed);
        }
    }

    /// Notes that the CPU has another carrier, whose timer is not set.
    pub fn seat_changed(&self, cpu: CpuId) {
        self.forget_timer(cpu);
    }

    pub(crate) fn forget_timer(&self, cpu: CpuId) {
        self.cpu(cpu).armed.store(u64::MAX, Relaxed);
        self.cpu(cpu).ticking.store(false, Relaxed);
        self.cpu(cpu).host_time.forget();
    }

    /// The machine is about to set the timer of the calling CPU for a purpose of its own, so the way out must set it
    /// again.
    pub fn lend_timer(&self, cpu: CpuId) {
        let c = self.cpu(cpu);
        c.armed.store(u64::MAX, Relaxed);
        c.ticking.store(false, Relaxed);
    }

    /// Handles the CPU's timer: timeouts, then the tick.
    #[must_use]
    pub(crate) fn on_timer(&self, cpu: CpuId) -> Ticked {
        if !self.watched {
            return self.handle_timer(cpu);
        }
        let in_timer = &self.cpu(cpu).in_timer;
        in_timer.store(true, Relaxed);
        let ticked = self.handle_timer(cpu);
        in_timer.store(false, Relaxed);
        ticked
    }

    fn handle_timer(&self, cpu: CpuId) -> Ticked {
        let c = self.cpu(cpu);
        c.armed.store(u64::MAX, Relaxed);
        c.ticking.store(false, Relaxed);
        let mode = c.host_time.mode();
        // Every insertion lowers the word, so none is missed. Reading the host's clock would be a host call.
        if c.earliest.load(Relaxed) != u64::MAX {
            self.expire_timeouts(cpu);
            self.expire_posix_timers(cpu);
            self.earliest(cpu);
        }
        if self.parked.is_any() {
            M::Personality::look_for_events(self, cpu);
        }
        let now = self.now();
        let last = Nanos(c.ticked.load(Relaxed));
        let mut ticked = Ticked::Quietly;
        let (tick, since) = (self.config.tick, now.since(last));
        let grace = Nanos(tick.0 / 16);
        let slice_over = (now + grace).0 >= c.slice_end.load(Relaxed);
        // The end of a slice is not a regular tick, if something relies on regular ticks.
        let apart = slice_over && since + grace < tick && self.cputime.is_armed();
        // Half a tick of tolerance: a timer that went off slightly early for a timeout need not tick twice.
        if since.0 >= tick.0 / 2 && !apart {
            bump(&c.count.ticks);
            c.ticked.store(now.0, Relaxed);
            let urgent = self.sched.need_resched(cpu);
            ticked = match self.account_tick(cpu, mode, now) {
                Ticked::Signalled if urgent => Ticked::SignalledUrgently,
                ticked => ticked,
            };
            if !self.favour(cpu, ticked) {
                self.sched.tick(cpu, now, &mut self.kicks(cpu));
            }
        } else if slice_over {
            self.sched.tick(cpu, now, &mut self.kicks(cpu));
        }
        // The exit sets the timer for timeouts that the limit left over.
        ticked
    }

    /// Whether the current thread keeps its CPU until the next tick although its slice is over: it has a signal, and
    /// its handler may enter the kernel (to read a clock), where it would be preempted. Not twice in a row, and not if
    /// this tick is that of a budget.
    fn favour(&self, cpu: CpuId, ticked: Ticked) -> bool {
        let c = self.cpu(cpu);
        let favoured = c.favoured.load(Relaxed);
        let favour = ticked == Ticked::Signalled && !favoured && self.sched.next_event(cpu).is_none();
        if favour != favoured {
            c.favoured.store(favour, Relaxed);
        }
        favour
    }

    /// Asks `other`, which may run without ticks and has just been given a competing thread, to set its timer.
    #[inline(always)]
    pub(crate) fn tick_elsewhere(&self, cpu: CpuId, other: CpuId) {
        if other != cpu {
            self.ask_for_tick(other);
        }
    }

    #[inline(never)]
    fn ask_for_tick(&self, other: CpuId) {
        let c = self.cpu(other);
        if !c.ticking.load(Relaxed) && self.sched.tick_needed(other) && !c.asked.swap(true, AcqRel) {
            self.m.kick(other);
        }
    }

    /// Handles the requests of other CPUs.
    pub(crate) fn answer_asked(&self, cpu: CpuId) {
        let c = self.cpu(cpu);
        if c.asked.load(Relaxed) {
            c.asked.store(false, Release);
            self.answer_sample(cpu);
        }
    }

    pub(crate) fn kicks(&self, me: CpuId) -> Kicks<'_, M> {
        Kicks { m: &self.m, me }
    }
}
