//! Descriptions of a thread, a CPU and the process for the state page, made without disturbing them.
//!
//! The caller may be any host thread, at any moment. The only locks taken are a CPU's run queue (a few loads, only
//! where a thread runs), a thread's signals (two loads), and the process's signals and timers (once). Two existing
//! counts show whether loads belong to the same thread and the same wait:
//!
//! | count | changes when | reason |
//! |---|---|---|
//! | a slot's thread id | its thread ends, another begins | it is 0 in between, and ids repeat after 2^28 |
//! | [`WaitState::generation`] | the thread begins to wait | a late timeout must not end the next wait |
//!
//! 1. Each is loaded before and after the words it guards, with a fence between. If it is unchanged, the words belong together.
//! 2. The writer's side of the first is in `Thread::reset`, of the second in `WaitState::begin`.
//!
//! [`WaitState::generation`]: crate::wait::WaitState

use crate::machine::{Clock, Machine};
use crate::wait::{Wait, WaitState};
use crate::{Kernel, Thread};
use ids::{CpuId, Nanos, ThreadIdx};
use signal::Sets;
use state::{Full, Memory, Place, Process, Writer};
use sync::atomic::{Ordering::*, fence};
use time::cpu::Adjuster;
use time::cpu::Usage;

/// One moment, as read on the clocks that timeouts use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Scheduling time.
    pub now: Nanos,
    /// CLOCK_MONOTONIC.
    pub monotonic: Nanos,
    /// CLOCK_REALTIME.
    pub real: Nanos,
}

/// The pause after a snapshot is at least this many times the time it took: being watched costs the program at most a
/// third of a percent of a processor, however many watch.
const SNAPSHOT_PACE: u64 = 300;
/// For a large program, snapshots take longer. The pause is limited to [`SNAPSHOT_LATE`], but not below this many times
/// the snapshot's time, which is 1 %.
const SNAPSHOT_PACE_LARGE: u64 = 100;
const SNAPSHOT_LATE: Nanos = Nanos::from_millis(100);
/// The cost of a snapshot besides its own CPU time: a signal, a host thread that wakes and is switched to and from,
/// and cache lines that the program has to fetch again.
const SNAPSHOT_AROUND: Nanos = Nanos::from_micros(50);

/// The pause after a snapshot that took this much CPU time.
#[must_use]
pub fn snapshot_rest(cost: Nanos) -> Nanos {
    let times = |pace: u64| Nanos((cost + SNAPSHOT_AROUND).0.saturating_mul(pace));
    times(SNAPSHOT_PACE).min(SNAPSHOT_LATE).max(times(SNAPSHOT_PACE_LARGE))
}

/// A thread that begins to wait more often than this during a description is described as it was last.
const TRIES: usize = 4;

/// A thread's wait, consistent for one wait.
#[derive(Clone, Copy, Default)]
struct Waits {
    kind: state::Wait,
    call: u16,
    address: u64,
    until: Nanos,
}

impl<M: Machine> Kernel<M> {
    /// This moment.
    pub fn moment(&self) -> Moment {
        let (now, m) = (self.now(), &self.m);
        Moment { now, monotonic: m.clock(Clock::Monotonic), real: m.clock(Clock::Realtime) }
    }

    /// The thread in that slot; `None` if there is none, or no longer. `position` returns where a thread without a CPU
    /// will continue: instruction, stack and frame pointer. The result may be torn if the thread is resumed meanwhile.
    pub fn describe(
        &self,
        t: ThreadIdx,
        at: &Moment,
        position: impl Fn(ThreadIdx) -> [u64; 3],
    ) -> Option<state::Thread> {
        let thread = self.thread(t);
        let tid = thread.tid.load(Acquire);
        if tid == 0 {
            return None;
        }
        let cpu = self.sched.cpu_of(t);
        let place = if self.sched.current(cpu) == Some(t) {
            Place::Running
        } else if self.sched.is_blocked(t) {
            Place::Waiting
        } else {
            Place::Queued
        };
        let waits = if place == Place::Waiting { waits(thread, at) } else { Waits::default() };
        // While a controlled run waits for the command, no thread runs.
        let runs = place == Place::Running && !self.is_controlled();
        let parked = if runs { [0; 3] } else { position(t) };
        let (attr, counts) = (self.sched.attr(t), self.sched.counts(t, at.now));
        let [pending, blocked] = self.signals_of(t);
        let (mask, usage) = (self.sched.affinity(t), Adjuster::new().adjust(self.thread_sample(t)));
        let described = state::Thread {
            tid,
            name: thread.name_bytes(),
            place,
            policy: attr.policy,
            nice: attr.nice,
            rt: attr.rt,
            cpu: cpu.0,
            allowed: mask.count() as u16,
            mask: mask.words().first().copied().unwrap_or(0),
            wait: waits.kind,
            call: waits.call,
            address: waits.address,
            until: waits.until,
            user: usage.utime,
            system: usage.stime,
            queued: counts.queued,
            pending,
            blocked,
            voluntary: u64::from(thread.wait.begun()),
            involuntary: u64::from(counts.involuntary),
            migrations: u64::from(counts.migrations),
            parked,
        };
        fence(Acquire);
        (thread.tid.load(Relaxed) == tid).then_some(described)
    }

    /// The signals pending for the thread, pending for the process, blocked, ignored, caught.
    pub fn signal_sets(&self, t: ThreadIdx) -> [u64; 5] {
        let sets = Sets::of(&self.process().signals, &self.thread(t).signals.0);
        [sets.private, sets.shared, sets.blocked, sets.ignored, sets.caught].map(|set| set.0)
    }

    /// The thread's pending and blocked signals. Pending ones may have been flushed for the whole process, which only
    /// the process knows; it is asked only if there are any.
    fn signals_of(&self, t: ThreadIdx) -> [u64; 2] {
        let [pending, blocked] = {
            let thread = self.thread(t).signals.0.lock();
            [thread.queued_set().0, thread.blocked().0]
        };
        if pending == 0 {
            return [0, blocked];
        }
        let [pending, _, blocked, ..] = self.signal_sets(t);
        [pending, blocked]
    }

    /// Describes a CPU.
    pub fn describe_cpu(&self, cpu: CpuId, now: Nanos) -> state::Cpu {
        let (s, count) = (self.sched.stats(cpu), &self.cpu(cpu).count);
        state::Cpu {
            current: self.sched.current(cpu).map_or(0, |t| self.tid(t).0),
            queued: self.sched.queued(cpu),
            busy: self.cputime.cpu.on(cpu, now),
            switches: s.switches,
            preemptions: s.preemptions,
            wakeups: s.wakeups,
            migrations: s.migrations_in,
            ticks: count.ticks.load(Relaxed),
            kicks: count.kicks.load(Relaxed),
            passed: count.passed.load(Relaxed),
            waited: count.waited.load(Relaxed),
        }
    }

    /// Makes a snapshot of everything. Threads that live from its beginning to its end are all in it. `usage` is the process's
    /// ([`Kernel::process_usage`]); `position` is that of [`Kernel::describe`].
    ///
    /// # Errors
    /// [`Full`] if the page has no memory; the last snapshot stands then.
    pub fn snapshot<P: Memory>(
        &self,
        page: &mut Writer<P>,
        usage: Usage,
        position: impl Fn(ThreadIdx) -> [u64; 3],
    ) -> Result<(), Full> {
        let (at, before) = (self.moment(), self.carrier_time());
        page.begin()?;
        for i in 0..self.config.cpus {
            page.cpu(i, &self.describe_cpu(CpuId(i as u16), at.now))?;
        }
        for t in self.threads.living() {
            if let Some(thread) = self.describe(t, &at, &position)
                && !page.thread(&thread)?
            {
                break;
            }
        }
        let (peak, started) = self.threads.totals();
        let [pending, ignored, caught] = {
            let signals = self.process.signals.lock();
            [signals.shared_set(), signals.actions().ignored(), signals.actions().caught()].map(|set| set.0)
        };
        let end = self.clock(Clock::Monotonic);
        // The host may have served others meanwhile.
        let spent = before.zip(self.carrier_time()).map(|(before, after)| after - before);
        let cost = spent.unwrap_or(end - at.monotonic);
        page.finish(&Process {
            taken: at.monotonic,
            cost,
            next: end + snapshot_rest(cost),
            threads: 0,
            living: self.threads.live(),
            peak,
            started,
            user: usage.utime,
            system: usage.stime,
            pending,
            ignored,
            caught,
        })
    }
}

/// The wait of a thread that has left its CPU; none if it keeps being woken and waiting again.
fn waits(thread: &Thread, at: &Moment) -> Waits {
    for _ in 0..TRIES {
        let before = thread.wait.generation();
        fence(Acquire);
        let found = look(thread, &thread.wait, at);
        fence(Acquire);
        if thread.wait.generation() == before {
            return found;
        }
    }
    Waits::default()
}

/// The name of a wait in the state page.
pub fn reason(kind: Wait) -> state::Wait {
    match kind {
        Wait::None | Wait::Work => state::Wait::None,
        Wait::Futex | Wait::FutexRequeuePi => state::Wait::Futex,
        Wait::FutexVector => state::Wait::Futexes,
        Wait::FutexPi => state::Wait::PiMutex,
        Wait::Sleep | Wait::Terminal => state::Wait::Sleep,
        Wait::Host => state::Wait::Host,
        Wait::Signal => state::Wait::Signal,
        Wait::Suspend => state::Wait::Suspend,
        Wait::CpuSleep => state::Wait::CpuTime,
        Wait::Throttled => state::Wait::Throttled,
    }
}

fn look(thread: &Thread, wait: &WaitState, at: &Moment) -> Waits {
    let mut found = Waits { kind: reason(wait.kind()), ..Waits::default() };
    match found.kind {
        // Words are aligned; the lowest bits mark private words.
        state::Wait::Futex | state::Wait::PiMutex => found.address = thread.node.address() & !3,
        state::Wait::Host => {
            found.call = wait.call.load(Relaxed) as u16;
            found.address = wait.on.load(Relaxed).into();
        }
        _ => {}
    }
    if let Some(deadline) = wait.armed() {
        let by_real_time = wait.clock.load(Relaxed) != 0;
        found.until = if by_real_time { at.monotonic + (deadline - at.real) } else { deadline };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_watched_loses_little_and_who_watches_waits_little() {
        let rest = |us: u64| snapshot_rest(Nanos::from_micros(us));
        assert_eq!(rest(20), Nanos::from_millis(21));
        assert_eq!(rest(280), Nanos::from_millis(99));
        assert_eq!((rest(300), rest(950)), (SNAPSHOT_LATE, SNAPSHOT_LATE));
        // A hundred thousand threads.
        assert_eq!(rest(14_000), Nanos::from_millis(1405));
        assert_eq!(snapshot_rest(Nanos(u64::MAX / 2)), Nanos(u64::MAX));
    }
}
