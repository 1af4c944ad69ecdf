//! The watcher: the service thread watches the CPUs while threads compete for one.
//!
//! It sleeps otherwise. A carrier that sets a tick or sends a kick while threads are queued turns it on (`Service::watch`) with
//! one signal; it turns itself off after two rounds without queued threads. Each round it checks whether every CPU
//! with queued threads has made progress: a system call, a tick or a kick answered. If not,
//! - and its carrier is in a host call that was expected to be short: a spare takes the CPU over (`takeover.rs`), in a
//!   controlled run only if the call sleeps;
//! - and another CPU is idle: that one is told to pull;
//! - for ten seconds (`--watchdog`): the process ends with a report. If the host is what keeps the carrier, the report says so,
//!   and the process continues when the host does.
//!
//! Time is counted in rounds, so a process that was stopped, with this thread, has not been stuck.

use crate::base::{os, report};
use crate::carriers::seat::Seat;
use crate::process::Process;
use crate::process::order::Order;
use crate::process::survey;
use crate::serving::{scarce, takeover};
use alloc::boxed::Box;
use core::fmt::Write;
use ids::{CpuId, Nanos};
use sync::atomic::{Ordering::*, fence};

/// The time between two rounds.
pub const ROUND: Nanos = Nanos::from_millis(20);
const ROUNDS_PER_SECOND: u32 = 50;

/// What was seen of one CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    progress: u64,
    /// Rounds without progress.
    rounds: u32,
    /// The carrier's number and its inline call, if it was in one.
    inline: Option<(u32, u32)>,
    /// The carrier's time in user mode and in the host, recorded at half the limit.
    times: (u64, u64),
    /// The user has been told that the host keeps the carrier.
    said: bool,
}

/// The watcher's state.
#[derive(Debug)]
pub(crate) struct Watch {
    cpus: Box<[Seen]>,
    /// When the next round is due, while it is on.
    next: Option<Nanos>,
    /// Successive rounds without queued threads.
    quiet: u32,
    order: Order,
}

impl Watch {
    pub(crate) fn new(cpus: usize) -> Watch {
        Watch { cpus: (0..cpus).map(|_| Seen::default()).collect(), next: None, quiet: 0, order: Order::new(cpus) }
    }

    /// Starts watching, because the service thread has been called to.
    pub(crate) fn begin(&mut self) {
        self.quiet = 0;
        self.next.get_or_insert(os::clock_gettime(1) + ROUND);
    }

    /// How long the service thread may sleep; `None`: no limit.
    pub(crate) fn sleep(&self) -> Option<Nanos> {
        self.next.map(|at| at.since(os::clock_gettime(1)))
    }

    /// Does a round if it is due.
    pub(crate) fn look(&mut self, k: &Process) {
        let Some(at) = self.next else { return };
        let now = os::clock_gettime(1);
        if now < at {
            return;
        }
        self.next = Some(now + ROUND);
        let competing = self.round(k);
        self.quiet = if competing { 0 } else { self.quiet + 1 };
        if self.quiet < 2 {
            return;
        }
        let on = &k.m.service.watches;
        on.store(false, SeqCst);
        fence(SeqCst);
        // Pairs with `Host::want_watch`: a thread queued before this point finds it on.
        if (0..self.cpus.len()).all(|i| k.sched.queued(CpuId(i as u16)) == 0) || on.swap(true, SeqCst) {
            self.next = None;
        }
    }

    /// Checks all CPUs once; returns whether threads wait for any.
    fn round(&mut self, k: &Process) -> bool {
        let mut competing = false;
        for i in 0..self.cpus.len() {
            let cpu = CpuId(i as u16);
            let seen = &mut self.cpus[i];
            competing |= k.m.seats.look(cpu).0 == Seat::Empty && scarce::look_after(k, cpu);
            if k.sched.queued(cpu) == 0 {
                *seen = Seen { progress: seen.progress, ..Seen::default() };
                // No thread is queued, but sleepers of that CPU may be late.
                competing |= recall(k, cpu, &[Seat::Running]);
                continue;
            }
            competing = true;
            self.order.look(k, cpu);
            seen.round(k, cpu);
        }
        competing
    }
}

impl Seen {
    fn round(&mut self, k: &Process, cpu: CpuId) {
        let inline = inline_call(k, cpu);
        let progress = progress(k, cpu);
        if progress != self.progress {
            *self = Seen { progress, inline, ..Seen::default() };
            return;
        }
        self.rounds += 1;
        let before = core::mem::replace(&mut self.inline, inline);
        if let Some((carrier, call)) = inline.filter(|_| inline == before)
            && may_take(k, cpu)
            && takeover::take(k, cpu, k.m.carriers.get(carrier), call)
        {
            *self = Seen { progress, ..Seen::default() };
            return;
        }
        // The kick may have come before the call began, when there was no spare either.
        let _ = recall(k, cpu, &[Seat::Running, Seat::Host]);
        help(k, cpu);
        self.judge(k, cpu);
    }

    /// Judges whether the CPU has made no progress for too long.
    fn judge(&mut self, k: &Process, cpu: CpuId) {
        let seconds = k.m.settings.watchdog;
        // Allow for slow ticks.
        let tick = k.config().tick;
        let limit = (seconds * ROUNDS_PER_SECOND).max((4 * tick.0 / ROUND.0) as u32);
        if seconds == 0 {
            return;
        }
        if self.rounds == limit / 2 {
            self.times = survey::host_thread(k, cpu).map_or((0, 0), |h| (h.user, h.system));
        } else if self.rounds >= limit {
            match kept_by_host(k, cpu, self.times) {
                None => end(k, cpu, seconds),
                Some(Kept::Stopped) => {}
                Some(Kept::Busy) => self.say(k, cpu, seconds),
            }
            self.rounds = 0;
        }
    }

    fn say(&mut self, k: &Process, cpu: CpuId, seconds: u32) {
        if !core::mem::replace(&mut self.said, true) {
            let mut out = report::Line::default();
            let _ = writeln!(
                out,
                "entresol: CPU {} has made no progress for {seconds} s, because the host keeps its carrier; this \
                 is said once",
                cpu.0
            );
            survey::cpu(k, &mut out, cpu);
            out.flush();
        }
    }
}

/// A word that changes while the CPU works.
fn progress(k: &Process, cpu: CpuId) -> u64 {
    let count = &k.cpu(cpu).count;
    let calls = count.calls_by_library.iter().map(|n| n.load(Relaxed));
    let rest = [&count.ticks, &count.kicks, &count.waited].map(|n| n.load(Relaxed));
    calls.chain(rest).fold(0, u64::wrapping_add)
}

/// The carrier that serves the CPU and the inline call that it is in.
fn inline_call(k: &Process, cpu: CpuId) -> Option<(u32, u32)> {
    let m = &k.m;
    let (Seat::Running, carrier) = m.seats.look(cpu) else { return None };
    Some((carrier, m.carriers.get(carrier).inline.current()?))
}

/// Whether a CPU may be taken from a carrier whose host call lasts. In a controlled run that lets another thread run, at a
/// moment that a repeated run does not have: only if the call sleeps, which another thread may have to end.
fn may_take(k: &Process, cpu: CpuId) -> bool {
    !k.is_controlled() || survey::host_thread(k, cpu).is_some_and(|host| host.state == b'S')
}

/// Recalls the carrier of `cpu` from a host call that waits, if it has one of these seats: there may have been no spare
/// to leave the CPU to. Returns whether it is in such a call.
fn recall(k: &Process, cpu: CpuId, seats: &[Seat]) -> bool {
    let (seat, carrier) = k.m.seats.look(cpu);
    seats.contains(&seat) && k.m.carriers.get(carrier).recall(k.m.pid)
}

/// Makes an idle CPU pull what waits on `cpu`.
fn help(k: &Process, cpu: CpuId) {
    if let Some(idle) = k.sched.idle_cpus().find(|&idle| idle != cpu) {
        kernel::Machine::kick(&k.m, idle);
    }
}

enum Kept {
    /// A debugger or a job control signal has stopped the host thread.
    Stopped,
    /// The host thread is in a call, or the host gives it no processor.
    Busy,
}

/// Whether the carrier of `cpu` is out of our reach. `before` is its time in user mode and in the host some seconds
/// ago.
fn kept_by_host(k: &Process, cpu: CpuId, before: (u64, u64)) -> Option<Kept> {
    let host = survey::host_thread(k, cpu)?;
    let (user, system) = (host.user - before.0.min(host.user), host.system - before.1.min(host.system));
    match host.state {
        b'T' | b't' => Some(Kept::Stopped),
        b'D' => Some(Kept::Busy),
        // Busy in the host for its thread, or waiting for a processor all the time.
        b'R' if user == 0 => Some(Kept::Busy),
        b'R' if system > 0 && user * 10 < system => Some(Kept::Busy),
        _ => None,
    }
}

fn end(k: &Process, cpu: CpuId, seconds: u32) -> ! {
    report::say(format_args!(
        "CPU {} has made no progress for {seconds} s, and {} threads wait for it; the process ends",
        cpu.0,
        k.sched.queued(cpu)
    ));
    survey::end(k)
}
