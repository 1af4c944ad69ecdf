//! A thread parks, is woken and tries again.

use super::points::{Point, Points, after, deadline, time_left_at};
use crate::host_call::Attempt;
use crate::kinds::is_of_pieces;
use crate::machine::Arg::{Out as Filled, Word};
use crate::masked::is_masked;
use crate::planted::Fault;
use crate::{Host, Linux, facts};
use abi::epoll::Readiness;
use abi::{Errno, Timespec, Timeval, nr};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::parked::Begin;
use kernel::wait::Wait;
use kernel::{Call, Clock, Io, USER_END};
use sync::atomic::{Ordering::*, fence};

/// Up to this many threads wait in the host itself, each on a carrier: the event then wakes the carrier that continues
/// the thread. With more, a poller that learns of many events at once is cheaper.
const DIRECT_MAX: u32 = 4;

/// How many threads park on a busy CPU before it polls for events, if no idle one does.
const LOOK_EVERY: u64 = 32;

/// Bits by which events choose the waiters to wake.
pub(super) const EXCLUSIVE: u32 = 1;
const SHARED: u32 = 2;
pub(super) const PEEKS: u32 = 4;

/// Values of `ThreadParked::nodes`; from `POOLED` on, the number of the first node in the pool.
const OWN_NODE: u32 = 1;
const NO_NODE: u32 = 2;
const POOLED: u32 = 3;

impl<M: Host> Linux<'_, M> {
    /// Notes generations before a call is tried, so that a missed event shows later. Without registered descriptors
    /// nothing can be missed, because a registration reports the present state.
    #[inline]
    pub(crate) fn note_generations(&self, t: ThreadIdx, call: &Call) {
        if self.parked.is_used() {
            let seen = Points::of(&self.m, call).map_or(0, |points| self.state().ready.generations(&points));
            self.thread(t).parked.seen.store(seen, Relaxed);
        }
    }

    /// Notes the descriptor that a call has made, if it is `accept(2)`.
    pub(crate) fn note_accepted(&self, nr: usize, result: isize) {
        if matches!(nr, nr::ACCEPT | nr::ACCEPT4)
            && let Ok(fd) = u32::try_from(result)
        {
            self.state().ready.note_accepted(fd);
        }
    }

    /// Notes a short result of a call for which `note_generations` was called before.
    #[inline]
    pub(crate) fn note_short(&self, t: ThreadIdx, call: &Call, result: isize) {
        if self.parked.is_used() {
            self.state().ready.note_short(call, result, self.thread(t).parked.seen.load(Relaxed));
        }
    }

    /// Whether a call of `t` is known to wait and need not be tried; notes the generation then.
    #[inline]
    pub(crate) fn is_known_to_wait(&self, t: ThreadIdx, call: &Call) -> bool {
        let known = self.parked.is_used() && !self.state().enough.is_used();
        known
            && self.state().ready.is_empty(call).is_some_and(|generation| {
                self.thread(t).parked.seen.store(generation, Relaxed);
                true
            })
    }

    /// Parks the current thread for a call that would wait. False if it must wait in the host instead.
    pub(crate) fn park(&self, cpu: CpuId, t: ThreadIdx, call: &Call, done: isize) -> bool {
        let Some(points) = Points::of(&self.m, call) else { return false };
        if points.one_of().is_some_and(|point| !point.out && self.is_denied(point.fd)) {
            // The host answers without waiting.
            return false;
        }
        let thread = self.thread(t);
        // The host reports a bad address only when its wait ends, perhaps by a tick.
        let is_told_late = points.len() == 0 && call.args[0] >= USER_END;
        // The rest of a call that is made in pieces cannot wait in the host.
        let may_wait_there = matches!(call.nr, nr::WRITE | nr::SENDTO) || done == 0 && is_of_pieces(call.nr);
        let is_told = !may_wait_there || facts::tells_writers(&self.m, call.args[0]);
        if !is_told || !(self.is_crowd() || is_told_late || done > 0 && is_of_pieces(call.nr)) {
            thread.parked.leave_to_host(&self.parked, Begin::Tried);
            return false;
        }
        let Ok(deadline) = deadline(&self.m, call) else { return false };
        if !points.iter().all(|point| self.state().ready.register(&self.m, point)) {
            return false;
        }
        let nodes = match points.len() {
            0 => NO_NODE,
            1 => OWN_NODE,
            n => match self.take_nodes(n, t) {
                Some(first) => POOLED + first,
                None => return false,
            },
        };
        if let Some(point) = points.one_of() {
            self.hold_file(t, point.fd);
        }
        self.begin_park(t, call, done, nodes);
        let is_first = self.parked.add(&thread.parked, self.sched.is_real_time(t));
        let count = &self.cpu(cpu).count.parked;
        kernel::cpu::bump(count);
        let of_socket = || {
            let limit = points.one_of().and_then(|point| self.state().ready.time_limit(&self.m, point));
            limit.map(|limit| after(&self.m, limit))
        };
        if let Some(deadline) = deadline.or_else(of_socket) {
            self.arm_timeout(cpu, t, deadline);
        }
        self.join_queues(t, &points);
        if self.has_missed(t) {
            self.wake(cpu, t);
        }
        if self.sched.queued(cpu) > 0 && !self.parked.is_slept_for() {
            // This CPU stays busy.
            if is_first {
                // An idle CPU that fell asleep before there was anything to poll for does it.
                self.sched.idle_cpus().next().into_iter().for_each(|idle| self.m.kick(idle));
            }
            if count.load(Relaxed).is_multiple_of(LOOK_EVERY) {
                self.look_for_events(cpu);
                self.parked.note_look(cpu, self.now());
            }
        }
        true
    }

    /// Whether another thread that must wait is parked rather than left in the host on a carrier.
    pub(crate) fn is_crowd(&self) -> bool {
        match self.config().io {
            Io::Auto => self.parked.is_any() || self.parked.direct() >= DIRECT_MAX,
            Io::Poller => true,
            Io::Threads => false,
        }
    }

    fn begin_park(&self, t: ThreadIdx, call: &Call, done: isize, nodes: u32) {
        let thread = self.thread(t);
        thread.parked.nodes.store(nodes, Relaxed);
        self.begin_wait(t, Wait::Host);
        thread.wait.a.store(done as u64, Relaxed);
        thread.wait.b.store(self.now().0, Relaxed);
        if call.nr == nr::POLL && done == 0 {
            self.begin_poll(t, call.args[2]);
        }
    }

    fn join_queues(&self, t: ThreadIdx, points: &Points) {
        let bits = match (points.exclusive, points.peeks) {
            (true, true) => PEEKS,
            (true, false) => EXCLUSIVE,
            (false, _) => SHARED,
        };
        for (place, point) in self.places(t).zip(points.iter()) {
            self.join_queue(t, place, point.key(), bits);
        }
    }

    /// The thread's nodes: its own (`None`), or some from the pool.
    fn places(&self, t: ThreadIdx) -> impl Iterator<Item = Option<u32>> + '_ {
        let nodes = self.thread(t).parked.nodes.load(Relaxed);
        let pooled = nodes.checked_sub(POOLED).map(|first| self.nodes(first).map(Some));
        (nodes == OWN_NODE).then_some(None).into_iter().chain(pooled.into_iter().flatten())
    }

    /// Joins its queues again. The descriptors may have been closed since and refer to other files; registering one
    /// again costs little.
    fn rejoin_queues(&self, t: ThreadIdx) {
        for place in self.places(t) {
            self.state().ready.register(&self.m, Point::of_key(self.queue_of(t, place)));
            self.rejoin_queue(t, place);
        }
    }

    /// The sum of the generations of all descriptors that it waits for.
    fn present_generations(&self, t: ThreadIdx) -> u32 {
        let points = self.places(t).map(|place| Point::of_key(self.queue_of(t, place)));
        points.map(|point| self.state().ready.generation(point.fd)).fold(0, u32::wrapping_add)
    }

    fn is_taken(&self, t: ThreadIdx) -> bool {
        self.places(t).any(|place| !self.is_queued(t, place))
    }

    /// Whether an event came after the last try, but before the thread was in the queues.
    fn has_missed(&self, t: ThreadIdx) -> bool {
        self.present_generations(t) != self.thread(t).parked.seen.load(Relaxed) && !self.strikes(Fault::MissEvent)
    }

    /// Whether there is a reason to try again, or to give up.
    fn has_reason(&self, t: ThreadIdx) -> bool {
        self.is_taken(t) || self.has_missed(t) || self.thread(t).wait.timed_out() || self.stops_waiting(t)
    }

    /// A parked thread has been chosen: whether it can continue. If not, marks it as waiting again.
    pub(crate) fn is_unparked(&self, t: ThreadIdx) -> bool {
        loop {
            if !self.has_reason(t) {
                // Mark first, check again, and only then leave, as in `ready_slow`.
                self.sched.prepare_block(t);
                fence(SeqCst);
                if !self.has_reason(t) {
                    return false;
                }
                self.sched.cancel_block(t);
            }
            // Read anew in each round, because the last one may have done a part.
            let mut call = self.parked_call(t);
            let taken = self.places(t).fold(false, |taken, place| !self.leave_queue(t, place) | taken);
            let announced = self.announce_try(t, &mut call);
            self.thread(t).parked.seen.store(self.present_generations(t), Relaxed);
            let result = self.try_parked(t, &call).or_else(|| self.is_ended(t, &call));
            drop(announced);
            if let Some(result) = result {
                self.unpark(t, taken, &call, result);
                return true;
            }
            self.rejoin_queues(t);
        }
    }

    /// The call of a parked thread, from its registers; the rest, if a part is done.
    fn parked_call(&self, t: ThreadIdx) -> Call {
        let (args, wait) = (self.arguments(t), &self.thread(t).wait);
        let nr = wait.call.load(Relaxed) as usize;
        let mut call = Call { nr, args };
        if matches!(nr, nr::WRITE | nr::SENDTO | nr::RECVFROM) {
            let part = if self.strikes(Fault::RepeatParked) { 0 } else { wait.a.load(Relaxed) };
            (call.args[1], call.args[2]) = (call.args[1] + part, call.args[2] - part);
            if part > 0 {
                call = self.without_signal(call);
            }
        }
        call
    }

    /// Makes the call in a form that does not wait. `None`: it would wait.
    fn try_parked(&self, t: ThreadIdx, call: &Call) -> Option<isize> {
        let mut rest = *call;
        loop {
            match self.attempt(t, &rest) {
                // A tick or a kick, which the program must not see.
                Attempt::Done(r) if r == Errno::EINTR.to_ret() => {}
                Attempt::Done(result) => {
                    self.note_short(t, call, result);
                    return Some(result);
                }
                Attempt::Part(part) => {
                    self.thread(t).wait.a.fetch_add(part as u64, Relaxed);
                    if !is_of_pieces(call.nr) {
                        (rest.args[1], rest.args[2]) = (rest.args[1] + part as u64, rest.args[2] - part as u64);
                        rest = self.without_signal(rest);
                    }
                }
                Attempt::Wait => {
                    let part = if call.nr == nr::POLL { 0 } else { self.thread(t).wait.a.load(Relaxed) };
                    return (part > 0 && facts::is_nonblocking_pipe(&self.m, call.args[0])).then_some(0);
                }
            }
        }
    }

    /// The result of a call that stops waiting without an event: a signal, or its time is over.
    fn is_ended(&self, t: ThreadIdx, call: &Call) -> Option<isize> {
        if self.stops_waiting(t) {
            return Some(Errno::EINTR.to_ret());
        }
        self.thread(t).wait.timed_out().then(|| {
            if matches!(call.nr, nr::SELECT | nr::PSELECT6) {
                // Clears the sets and decides the result. A tick or a kick may interrupt it.
                let [n, read, write, except, ..] = call.args;
                let last = || facts::select_at_once(&self.m, n, [read, write, except]);
                let eintr = Errno::EINTR.to_ret();
                return core::iter::repeat_with(last).find(|&r| r != eintr).unwrap_or(0);
            }
            match call.nr {
                nr::MQ_TIMEDRECEIVE | nr::MQ_TIMEDSEND => Errno::ETIMEDOUT.to_ret(),
                // A socket's own time limit.
                nr::CONNECT => Errno::EINPROGRESS.to_ret(),
                _ if is_transfer(call.nr) => Errno::EAGAIN.to_ret(),
                _ => 0,
            }
        })
    }

    /// Ends the wait. `taken`: an event woke the thread, and what the thread leaves is for the next one.
    fn unpark(&self, t: ThreadIdx, taken: bool, call: &Call, result: isize) {
        let thread = self.thread(t);
        if taken && thread.parked.nodes.load(Relaxed) == OWN_NODE && !self.strikes(Fault::KeepWakeUp) {
            self.wake_first(self.sched.cpu_of(t), self.queue_of(t, None), EXCLUSIVE);
        }
        if let nodes @ POOLED.. = thread.parked.nodes.swap(0, Relaxed) {
            self.give_nodes_back(nodes - POOLED);
        }
        self.parked.remove(&thread.parked);
        self.let_go_of_file(t);
        if let Some(end) = thread.wait.armed() {
            self.tell_time_left(call, end);
        }
        let result = self.outcome(t, call.nr, result);
        self.finish_wait(t, result);
    }

    /// `poll_select_finish`: writes the remaining time of a call whose deadline is `end`.
    pub(crate) fn tell_time_left(&self, call: &Call, end: Nanos) {
        if let Some(at) = time_left_at(call) {
            let left = end.since(self.clock(Clock::MonotonicCeiling));
            // As in Linux, a failure to write it has no effect.
            let _ = match call.nr {
                nr::SELECT => self.put(at, Timeval::from_nanos(left)),
                _ => self.put(at, Timespec::from_nanos(left)),
            };
        }
    }

    /// Polls for events on a busy CPU.
    pub(crate) fn look_for_events(&self, cpu: CpuId) {
        const AT_ONCE: usize = 64;
        let Some(poller) = self.state().ready.poller.descriptor() else { return };
        kernel::cpu::bump(&self.cpu(cpu).count.looks);
        let mut bytes = [[0; Readiness::SIZE]; AT_ONCE];
        let at_once = Word(AT_ONCE as u64);
        let args = &mut [Word(poller.into()), Filled(bytes.as_flattened_mut()), at_once, Word(0)];
        let found = usize::try_from(self.ask(nr::EPOLL_WAIT, args)).unwrap_or(0);
        for event in &bytes[..found] {
            self.descriptors_ready(cpu, &[Readiness::from_bytes(event)]);
        }
    }

    /// Handles events from the machine's poller. `cpu` is the caller's own, or none.
    pub fn descriptors_ready(&self, cpu: CpuId, events: &[Readiness]) {
        for event in events.iter().filter(|event| self.state().ready.note_event(event)) {
            if cpu != CpuId::NONE {
                kernel::cpu::bump(&self.cpu(cpu).count.events);
            }
            let fd = event.token as u32;
            for out in [false, true] {
                let about = if out { Readiness::FOR_WRITERS } else { Readiness::FOR_READERS };
                if event.events & about != 0 {
                    self.queue_is_ready(cpu, Point { fd, out }.key());
                }
            }
        }
    }

    /// Wakes one exclusive waiter, and all waiters that only ask or peek.
    fn queue_is_ready(&self, cpu: CpuId, key: u64) {
        let may_be_more = if self.strikes(Fault::DropEvent) {
            true
        } else if self.strikes(Fault::WakeAll) {
            self.wake_from_queue(cpu, key, usize::MAX, EXCLUSIVE);
            true
        } else {
            self.wake_first(cpu, key, EXCLUSIVE)
        };
        if may_be_more {
            self.wake_from_queue(cpu, key, usize::MAX, SHARED | PEEKS);
        }
    }
}

/// Whether the call moves data or accepts, rather than asking what is ready.
fn is_transfer(nr: usize) -> bool {
    !(is_masked(nr) || matches!(nr, nr::POLL | nr::EPOLL_WAIT))
}
