//! Waiting calls for which the host allows us no carrier (RLIMIT_NPROC, `pids.max`, memory).
//!
//! Such a call must not keep its CPU: the thread it waits for may be queued there, or sleep until that CPU's timeouts.
//! So the thread is **put off**: it sleeps and then repeats its call, until the host allows us carriers or the call
//! ends. Threads that are put off take turns, and runnable threads have the CPU meanwhile.
//!
//! - If the host can say whether the call would still wait ([`Linux::would_wait`]), the call is not made before that.
//!   `poll(2)` and `epoll_wait(2)` are polled in place instead, because their own timeout would restart.
//! - Any other call is made on the CPU's own carrier, which is recalled after 20 to 40 ms (the machine returns
//!   [`crate::TRY_AGAIN`]). It then sleeps longer the more threads are put off, so that they hold the CPU at most half
//!   of the time. A call with a timeout of its own then returns EINTR.

use crate::kinds::restarts;
use crate::{Host, Linux, facts};
use abi::args::{MSG_DONTWAIT_NOSIGNAL, WNOHANG};
use abi::{Errno, nr};
use ids::{Nanos, ThreadIdx};
use kernel::Clock;
use kernel::machine::Call;
use kernel::wait::{Deadline, Wait};
use sync::atomic::Ordering::*;

/// The time between two checks by one thread, and what each further thread that is put off adds to it. A check takes
/// some 4 µs.
const LOOK: Nanos = Nanos::from_millis(2);
const LOOK_OF_MANY: Nanos = Nanos::from_micros(100);
/// How long a call that is really made keeps its CPU: at most two rounds of the machine's watcher.
const MADE: Nanos = Nanos::from_millis(40);

/// What a thread that is put off does next; stored in `wait.value`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
enum Then {
    /// The thread's call starts over.
    Again = 1,
    /// The thread checks whether its call would complete.
    Look = 2,
}

impl<M: Host> Linux<'_, M> {
    /// Whether the call has to wait, as far as the host can be asked. If this is false, only making the call will tell:
    /// a carrier that has no other to leave its CPU to makes it.
    pub fn would_wait(&self, call: &Call) -> bool {
        let a = &call.args;
        if let Some(writing) = direction(call.nr) {
            return !facts::is_ready(&self.m, a[0], writing)
                && !facts::is_nonblocking(&self.m, a[0])
                && facts::socket_time_limit(&self.m, a[0], writing).is_none();
        }
        match call.nr {
            // These calls have just been tried, or are polled in place.
            nr::POLL | nr::EPOLL_WAIT | nr::FLOCK | nr::MSGRCV | nr::MSGSND => true,
            nr::WAIT4 => a[2] & WNOHANG == 0,
            _ => false,
        }
    }

    /// Continues a thread whose host call was given up and that has been chosen: the call's result, or `None` if the
    /// thread sleeps first.
    pub(crate) fn put_off(&self, t: ThreadIdx, call: usize) -> Option<isize> {
        if self.stops_waiting(t) {
            return Some(Errno::EINTR.to_ret());
        }
        let wait = &self.thread(t).wait;
        let (began, part) = (Nanos(wait.b.load(Relaxed)), wait.a.load(Relaxed) as i64);
        let (then, made) = match call {
            nr::POLL | nr::EPOLL_WAIT => (Then::Look, false),
            // The rest of a write to a socket is sent.
            nr::WRITE | nr::SENDTO if part > 0 => (Then::Look, false),
            nr::FLOCK | nr::MSGRCV | nr::MSGSND | nr::WAIT4 => (Then::Again, false),
            _ if part == 0 && direction(call).is_some() && !self.has_time_limit(t, call) => (Then::Again, false),
            _ => (Then::Again, true),
        };
        // Threads that are put off now. Relaxed: nothing else depends on the count.
        let others = u64::from(self.state().put_off.fetch_add(1, Relaxed));
        let span = if made { MADE.0 * (others + 1) } else { LOOK.0.max(LOOK_OF_MANY.0 * others) };
        // Time in the host, or waiting for this CPU, counts towards the call's time limit.
        let gone = self.now().since(began);
        wait.begin(Wait::Host);
        wait.value.store(then as i64, Relaxed);
        if then == Then::Look {
            // The cheap clock may be ahead of the host's by a few parts per million: never early.
            let left = self.time_of(t, call).map(|time| time.since(gone) + Nanos(gone.0 >> 10));
            let until = left.map_or(u64::MAX, |left| (self.clock(Clock::Monotonic) + left).0);
            wait.b.store(until, Relaxed);
        }
        self.sleep_on(t, Nanos(span));
        None
    }

    /// The time limit of `poll(2)` or `epoll_wait(2)`; `None` without one.
    fn time_of(&self, t: ThreadIdx, call: usize) -> Option<Nanos> {
        let args = self.arguments(t);
        let ms = match call {
            nr::POLL => args[2] as i32,
            nr::EPOLL_WAIT => args[3] as i32,
            _ => -1,
        };
        u64::try_from(ms).ok().map(Nanos::from_millis)
    }

    fn sleep_on(&self, t: ThreadIdx, span: Nanos) {
        let wait = &self.thread(t).wait;
        let now = self.clock(Clock::Monotonic);
        let mut at = now + span;
        if wait.value.load(Relaxed) == Then::Look as i64 {
            at = at.min(Nanos(wait.b.load(Relaxed)));
        }
        // The thread has been chosen, so its CPU is the caller's own.
        self.arm_exactly(self.sched.cpu_of(t), t, Deadline { at, clock: Clock::Monotonic });
    }

    /// A thread that was put off has been chosen: returns the result of its call, if it has ended.
    pub(crate) fn put_off_finished(&self, t: ThreadIdx) -> Option<isize> {
        let wait = &self.thread(t).wait;
        let call = wait.call.load(Relaxed) as usize;
        if self.stops_waiting(t) {
            self.state().put_off.fetch_sub(1, Relaxed);
            return Some(Errno::EINTR.to_ret());
        }
        if !wait.timed_out() {
            return None;
        }
        if wait.value.load(Relaxed) == Then::Again as i64 {
            self.state().put_off.fetch_sub(1, Relaxed);
            return Some(self.given_up(t, call));
        }
        if let Some(result) = self.look(t, call) {
            self.state().put_off.fetch_sub(1, Relaxed);
            return Some(result);
        }
        let others = u64::from(self.state().put_off.load(Relaxed));
        wait.begin(Wait::Host);
        self.sleep_on(t, Nanos(LOOK.0.max(LOOK_OF_MANY.0 * others)));
        None
    }

    /// Makes the call in a form that does not wait; returns its result, if it has completed or its time is over.
    fn look(&self, t: ThreadIdx, call: usize) -> Option<isize> {
        let (args, wait) = (self.arguments(t), &self.thread(t).wait);
        // The host returns EINTR for our own ticks, too.
        let undecided = |result: isize| result == Errno::EINTR.to_ret() || result == Errno::EAGAIN.to_ret();
        if matches!(call, nr::WRITE | nr::SENDTO) {
            let part = wait.a.load(Relaxed);
            let (at, left) = (args[1] + part, args[2] - part);
            let more = match call {
                nr::WRITE => facts::transfer_at_once(&self.m, nr::PWRITEV2, args[0], at, left),
                _ => self.host(&Call { nr: call, args: [args[0], at, left, MSG_DONTWAIT_NOSIGNAL, 0, 0] }),
            };
            return match more {
                more if more >= 0 && (more as u64) < left => {
                    wait.a.store(part + more as u64, Relaxed);
                    None
                }
                result if undecided(result) => None,
                result => Some(result),
            };
        }
        let past = self.clock(Clock::Monotonic) >= Nanos(wait.b.load(Relaxed));
        let args = if call == nr::POLL { [args[0], args[1], 0, 0, 0, 0] } else { [args[0], args[1], args[2], 0, 0, 0] };
        match self.host(&Call { nr: call, args }) {
            0 if !past => None,
            result if undecided(result) => None,
            result => Some(result),
        }
    }

    /// The result of a call that is given up. A call with its own timeout is interrupted, because its timeout would
    /// restart.
    fn given_up(&self, t: ThreadIdx, call: usize) -> isize {
        let args = self.arguments(t);
        let timed = match call {
            nr::PPOLL => args[2] != 0,
            nr::EPOLL_PWAIT => args[3] as i32 >= 0,
            nr::EPOLL_PWAIT2 | nr::SEMTIMEDOP => args[3] != 0,
            nr::SELECT | nr::PSELECT6 | nr::RECVMMSG | nr::IO_GETEVENTS | nr::IO_PGETEVENTS => args[4] != 0,
            _ => self.has_time_limit(t, call),
        };
        if timed {
            return Errno::EINTR.to_ret();
        }
        // The call starts over, unless a signal has arrived, which ends it like any waiting call.
        match restarts(call) {
            Errno::ERESTARTSYS => Errno::ERESTARTSYS.to_ret(),
            _ => Errno::ERESTARTNOHAND.to_ret(),
        }
    }
}

/// The direction in which these calls wait for their descriptor, the first argument: reading (`false`) or writing.
fn direction(call: usize) -> Option<bool> {
    match call {
        nr::READ | nr::READV | nr::RECVFROM | nr::RECVMSG | nr::ACCEPT | nr::ACCEPT4 => Some(false),
        nr::WRITE | nr::WRITEV | nr::SENDTO | nr::SENDMSG => Some(true),
        _ => None,
    }
}
