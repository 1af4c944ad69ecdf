//! Controlled runs (crate `chaos`): a strategy makes every choice of a thread, time is virtual, and what a program gets
//! from clocks and random numbers is the same in each run.
//!
//! A controlled kernel has one CPU. It is *watched*, so every choice goes through [`Kernel::schedule_watched`], and its
//! scheduler leaves `need_resched` set, so every trap makes a choice: traps are the scheduling points. A program's own
//! scheduling points make the private call [`PRIVATE_POINT`].

use crate::machine::{Call, Clock, Event, Machine};
use crate::trap::{Next, Out};
use crate::wait::Wait;
use crate::{Kernel, Now, Personality};
use abi::args::{
    CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_REALTIME, GRND_INSECURE, GRND_NONBLOCK, GRND_RANDOM, MAX_RW_COUNT,
};
use abi::{Errno, nr};
use alloc::boxed::Box;
use alloc::vec::Vec;
use chaos::log::State;
use chaos::{Access, Control, Race, Rng, Why};
use ids::{CpuId, Nanos, ThreadIdx};
use sched::{Electorate, Prev};
use sync::Lock;
use sync::atomic::{AtomicU64, Ordering::*};

/// The number of the private call that a thread makes at a scheduling point.
pub const PRIVATE_POINT: usize = 0x454e_0020;

/// The kernel's state of a controlled run.
#[derive(Debug)]
pub(crate) struct Controlled {
    control: Lock<Control>,
    random: Lock<Rng>,
    /// The address of the program's own scheduling point that the current thread has reached; 0: none.
    place: AtomicU64,
    /// The access that the current thread is about to make there.
    arrival: Lock<Option<Arrival>>,
    /// The threads that were stopped within an update of memory, each with the bytes that it has loaded.
    torn: Lock<Vec<(ThreadIdx, Access, u64)>>,
    /// Whether the run looks for races.
    looks_for_races: bool,
    /// The carrier's CPU time when the host interrupted the current thread, in nanoseconds; 0: it has not.
    interrupted: AtomicU64,
    stretch: Stretch,
}

/// An access that a thread is about to make at a scheduling point.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The access.
    pub access: Access,
    /// Whether it is to the thread's own stack.
    pub is_own: bool,
    /// The number of the place ([`chaos::Sighting::place`]).
    pub number: u64,
}

/// A thread that computes for this long without a scheduling point of its own probably waits for others in a loop.
/// Measured in CPU time of the carrier, so that a busy host does not make a short computation look like a loop.
const SPIN: Nanos = Nanos::from_millis(4);

/// The time since the last choice, as far as interruptions by the host reveal it.
#[derive(Debug)]
struct Stretch {
    /// The number of choices at the last interruption.
    choices: AtomicU64,
    /// The carrier's CPU time at the first interruption after that choice, in nanoseconds.
    since: AtomicU64,
}

impl Stretch {
    fn new() -> Stretch {
        Stretch { choices: AtomicU64::new(u64::MAX), since: AtomicU64::new(0) }
    }

    /// Whether the thread seems to wait in a loop. Called at each interruption with the number of choices so far and
    /// the CPU time that the carrier has consumed.
    fn spins(&self, choices: u64, consumed: Nanos) -> bool {
        if self.choices.swap(choices, Relaxed) != choices {
            self.since.store(consumed.0, Relaxed);
        }
        consumed.since(Nanos(self.since.load(Relaxed))) >= SPIN
    }
}

/// The threads that could run, in the form that [`Control`] uses.
struct Candidates<'a, F> {
    tid: F,
    control: &'a mut Control,
    why: Why,
    place: u64,
    /// The thread that may only continue.
    stays: Option<ThreadIdx>,
    stop: bool,
}

impl<F: Fn(ThreadIdx) -> i32> Electorate for Candidates<'_, F> {
    fn offer(&mut self, t: ThreadIdx) {
        self.control.offer(t.0 as usize, (self.tid)(t));
    }

    fn choose(&mut self) -> ThreadIdx {
        if let Some(t) = self.stays {
            self.control.stay();
            return t;
        }
        let elected = self.control.choose(self.why, self.place).expect("a choice among none");
        self.stop |= elected.stop;
        ThreadIdx(elected.slot as u32)
    }
}

impl<M: Machine> Kernel<M> {
    /// Makes the run a controlled one. Called before there are threads; there must be one CPU.
    pub fn control(&mut self, control: Control, seed: u64) {
        assert!(self.config.cpus == 1, "a controlled run has one CPU");
        self.watched = true;
        let looks_for_races = control.looks_for_races();
        self.controlled = Some(Box::new(Controlled {
            control: Lock::new(control),
            random: Lock::new(Rng::new(seed)),
            place: AtomicU64::new(0),
            arrival: Lock::new(None),
            torn: Lock::new(Vec::new()),
            looks_for_races,
            interrupted: AtomicU64::new(0),
            stretch: Stretch::new(),
        }));
    }

    /// Whether the run is controlled.
    pub fn is_controlled(&self) -> bool {
        self.controlled.is_some()
    }

    /// Begins the controlled run: from now on each trap of this CPU makes a choice.
    pub fn begin_to_choose(&self, cpu: CpuId) {
        self.sched.at(cpu).begin_to_elect();
    }

    /// The current thread has been interrupted: by the host, or at a breakpoint. `consumed` returns the CPU time of its
    /// carrier. The host's interruption is a scheduling point only for a thread that has computed for long without one
    /// of its own, because it may be waiting for others in a loop.
    pub fn note_interrupt(&self, consumed: impl FnOnce() -> Nanos) {
        if let Some(controlled) = &self.controlled {
            let by_the_host = controlled.place.load(Relaxed) == 0;
            controlled.interrupted.store(if by_the_host { consumed().0.max(1) } else { 0 }, Relaxed);
        }
    }

    /// The words that a controlled run shares with the command.
    pub fn controlled_log(&self) -> Option<chaos::Log<'static>> {
        self.controlled.as_ref().map(|controlled| controlled.control.lock().log())
    }

    /// Chooses in a controlled run.
    #[cold]
    #[inline(never)]
    pub(crate) fn schedule_controlled(&self, controlled: &Controlled, cpu: CpuId, prev: Prev) -> Next {
        if self.pause(controlled, cpu, prev) || self.cpu(cpu).timer_is_due(self.now()) {
            let _ = self.on_timer(cpu);
        }
        if self.parked.is_any() {
            M::Personality::look_for_events(self, cpu);
        }
        let mut prev = prev;
        loop {
            let Some(t) = self.elect(controlled, cpu, prev) else {
                self.turn_idle(cpu, self.now());
                return self.go_idle(cpu);
            };
            if self.is_ready(t, self.thread(t)) {
                self.cputime.cpu.run(cpu, self.now());
                return self.exit(cpu, t);
            }
            prev = Prev::Block;
        }
    }

    /// Lets time pass up to the next timeout if the run has a pause before this choice.
    fn pause(&self, controlled: &Controlled, cpu: CpuId, prev: Prev) -> bool {
        // An interruption by the host must leave no trace.
        let is_ours = controlled.interrupted.load(Relaxed) == 0 || prev != Prev::Preempted;
        let until = self.cpu(cpu).next_timeout();
        let pauses = is_ours && controlled.control.lock().pauses(until.since(self.now()).0);
        if pauses {
            self.m.observe(Event::Pause(until));
        }
        pauses
    }

    /// Makes one choice.
    pub(crate) fn elect(&self, controlled: &Controlled, cpu: CpuId, prev: Prev) -> Option<ThreadIdx> {
        let last = self.sched.current(cpu);
        let consumed = controlled.interrupted.swap(0, Relaxed);
        let interrupted = consumed != 0 && prev == Prev::Preempted;
        let mut control = controlled.control.lock();
        let points = control.log().points();
        let spins = interrupted && controlled.stretch.spins(points, Nanos(consumed));
        let why = match prev {
            Prev::Preempted if spins => Why::Spins,
            Prev::Preempted => Why::Point,
            Prev::Yield => Why::Yield,
            Prev::Block | Prev::Exit => Why::Gone,
        };
        let place = match controlled.place.swap(0, Relaxed) {
            0 => last.filter(|_| prev != Prev::Exit).map_or(0, |t| self.m.registers(t).rip),
            place => place,
        };
        if let (Some(last), Prev::Exit) = (last, prev) {
            control.ended(last.0 as usize);
        }
        let stays = last.filter(|_| interrupted && !spins);
        // An interruption that leaves no trace must not show a race earlier than in another run.
        let arrival = if stays.is_none() { controlled.arrival.lock().take() } else { None };
        let looks = controlled.looks_for_races && stays.is_none();
        let races = if looks { self.races(&mut control, place, arrival) } else { Vec::new() };
        let torn = arrival
            .filter(|arrival| !arrival.is_own)
            .zip(last)
            .and_then(|(arrival, t)| self.look(&mut control, t, &arrival));
        let mut candidates =
            Candidates { tid: |t| self.tid(t).0, control: &mut control, why, place, stays, stop: false };
        self.note_wait(last, prev);
        let (next, now) = self.sched.at(cpu).elect(Now(&self.m), prev, self.kicks(cpu), &mut candidates);
        let (stop, log, step) = (candidates.stop, control.log(), Nanos(control.step_ns()));
        drop(control);
        if let (Some(last), Some((access, loaded))) = (last, torn)
            && next != Some(last)
        {
            controlled.torn.lock().push((last, access, loaded));
        }
        if let Some(next) = next {
            self.set_back(controlled, next);
        }
        self.switched(cpu, last, next, prev, now);
        // If the host interrupted the thread and it continues, that leaves no trace in virtual time.
        if !(interrupted && next == last) {
            self.m.observe(Event::Point(step));
        }
        for race in &races {
            log.set_race(race);
            self.m.observe(Event::Held(State::Raced));
        }
        if stop {
            self.m.observe(Event::Held(State::Stopped));
        }
        next
    }

    /// The races that show now that the current thread has come to `place`.
    fn races(&self, control: &mut Control, place: u64, arrival: Option<Arrival>) -> Vec<Race> {
        let may_wait = arrival.is_some_and(|arrival| !arrival.is_own);
        control.arrive(place, arrival.map(|arrival| arrival.access), may_wait, |access| self.value(access))
    }

    /// The bytes of an access, as a number.
    fn value(&self, access: &Access) -> Option<u64> {
        let mut bytes = [0; 8];
        self.m.read(access.address, bytes.get_mut(..usize::from(access.size))?).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// The thread `t` is about to make this access: writes it down, and returns what the thread has loaded if it does so
    /// before others run.
    fn look(&self, control: &mut Control, t: ThreadIdx, arrival: &Arrival) -> Option<(Access, u64)> {
        control.see(arrival.number, &arrival.access);
        let tears = control.tears(&arrival.access) && !self.is_in_sequence(t);
        Some((arrival.access, self.value(&arrival.access).filter(|_| tears)?))
    }

    /// No thread is within an update any more. Called before a call for which the host waits until every processor has
    /// completed its instruction: it changes the rights of pages, or orders memory.
    pub fn complete_updates(&self) {
        if let Some(controlled) = &self.controlled {
            controlled.torn.lock().clear();
        }
    }

    /// A thread goes on: if it was stopped within an update, the bytes are what it has loaded.
    fn set_back(&self, controlled: &Controlled, t: ThreadIdx) {
        let mut torn = controlled.torn.lock();
        let Some(at) = torn.iter().position(|&(thread, ..)| thread == t) else { return };
        let (_, access, loaded) = torn.swap_remove(at);
        drop(torn);
        // A signal does not come within an instruction: a handler runs before it has begun.
        if self.value(&access).is_some_and(|now| now != loaded) && self.pending_signals(t).is_empty() {
            // Memory that is gone is the thread's fault.
            let _ = self.m.write(access.address, &loaded.to_le_bytes()[..usize::from(access.size)]);
        }
    }

    /// The private call before a function of the C library whose entry is a scheduling point.
    pub(crate) fn sys_point(&self, t: ThreadIdx) -> Out {
        let caller = self.get(self.m.registers(t).rsp).unwrap_or(0);
        self.note_place(caller);
        Out::Done(0)
    }

    /// Notes that the current thread, whose state is saved, is at the program's own scheduling point at this address.
    pub fn note_place(&self, place: u64) {
        if let Some(controlled) = &self.controlled {
            controlled.place.store(place, Relaxed);
        }
    }

    /// Notes that the current thread, whose state is saved, is about to make this access.
    pub fn note_access(&self, arrival: Arrival) {
        if let Some(controlled) = &self.controlled {
            *controlled.arrival.lock() = Some(arrival);
        }
    }

    /// Whether a thread waits for something that may arrive from outside.
    pub fn waits_for_outside(&self) -> bool {
        let outside = [Wait::Host, Wait::Terminal, Wait::Signal, Wait::Suspend];
        self.threads.living().any(|t| outside.contains(&self.thread(t).wait.kind()))
    }

    /// `gettimeofday(2)`, `time(2)` and `getrandom(2)`, which the host answers unless the run is controlled.
    pub(crate) fn sys_chance(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let Some(controlled) = &self.controlled else { return self.foreign(cpu, t, call) };
        let [a, b, flags, ..] = call.args;
        let now = self.clock(Clock::Realtime).0;
        match call.nr {
            nr::GETRANDOM => Out::Done(Errno::ret_of(self.random(controlled, a, b, flags as u32))),
            nr::TIME => {
                let seconds = now / 1_000_000_000;
                let put = if a == 0 { Ok(()) } else { self.put(a, seconds) };
                put.map(|()| Out::Done(seconds as isize)).into()
            }
            _ => {
                let put = |at: u64| {
                    self.put(at, now / 1_000_000_000)?;
                    self.put(at + 8, now % 1_000_000_000 / 1000)
                };
                if a == 0 { Out::Done(0) } else { put(a).into() }
            }
        }
    }

    /// The reading of a host's clock in a controlled run.
    #[inline]
    pub(crate) fn virtual_clock(&self, clock: i32) -> Option<Nanos> {
        self.controlled.as_ref()?;
        // CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE.
        Some(match clock {
            CLOCK_REALTIME | 5 => self.clock(Clock::Realtime),
            CLOCK_MONOTONIC | CLOCK_BOOTTIME | 4 | 6 => self.clock(Clock::Monotonic),
            _ => return None,
        })
    }

    /// `getrandom(2)`, from the seed: always as many bytes as requested, like the host when no signal arrives.
    fn random(&self, controlled: &Controlled, to: u64, len: u64, flags: u32) -> Result<usize, Errno> {
        const SOURCES: u64 = GRND_RANDOM | GRND_INSECURE;
        let flags = u64::from(flags);
        if flags & !(GRND_NONBLOCK | SOURCES) != 0 || flags & SOURCES == SOURCES {
            return Err(Errno::EINVAL);
        }
        let (len, mut done) = (len.min(MAX_RW_COUNT), 0);
        while done < len {
            let mut bytes = [0; 256];
            let mut rng = controlled.random.lock();
            bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
            drop(rng);
            let part = (len - done).min(bytes.len() as u64);
            if self.m.write(to.wrapping_add(done), &bytes[..part as usize]).is_err() {
                return if done == 0 { Err(Errno::EFAULT) } else { Ok(done as usize) };
            }
            done += part;
        }
        Ok(len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_known_by_its_cpu_time() {
        let stretch = Stretch::new();
        let spins = |choices, ms| stretch.spins(choices, Nanos::from_millis(ms));
        // The host runs something else for most of the time between these looks.
        assert!(!spins(7, 100) && !spins(7, 101) && !spins(7, 103));
        assert!(spins(7, 104));
        // After another choice it is another stretch.
        assert!(!spins(8, 109) && !spins(8, 112));
        assert!(spins(8, 114));
    }
}
