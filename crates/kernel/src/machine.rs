//! The machine below the kernel: the host, or a simulation (law 1: this trait is the whole seam).

use crate::{Kernel, Personality};
use abi::bytes::Plain;
use abi::frame::Registers;
use abi::{Errno, SigInfo, SigSet, Signal, Timespec};
use ids::{CpuId, Left, Nanos, ThreadIdx};
use signal::frame::{ExtendedState, Restorable};
use time::cpu::Usage;
use time::cpu::itimer::ItimerValue;
use time::cpu::limit::Rlimit;

/// The program's address cannot be accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

impl From<Fault> for Errno {
    fn from(Fault: Fault) -> Errno {
        Errno::EFAULT
    }
}

/// An access to a word of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads it.
    Load,
    /// Writes this.
    Store(u32),
    /// Writes `new` if the word holds `old`.
    CompareExchange {
        /// The expected value.
        old: u32,
        /// The new value.
        new: u32,
    },
}

/// How a thread continues.
#[derive(Clone, Copy, Debug)]
pub enum Resume<'a> {
    /// Its system call has this result.
    Result(isize),
    /// It makes its system call again with the same arguments: the same call, or the one with this number.
    Call(Option<usize>),
    /// With these general registers, all of which are loaded.
    Registers(&'a Registers),
}

/// A move of extended state.
pub enum Transfer<'a> {
    /// From the thread to the frame's area at the address that this gives for a state of this form.
    ToFrame(&'a mut dyn FnMut(ExtendedState) -> Option<u64>),
    /// From a frame's area at this address, as far as it can be restored.
    FromFrame(u64, Restorable),
    /// The thread gets the state with which a handler begins.
    Initial,
}

/// The machine has no memory for a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

/// A clock of the machine: those that programs name in timeouts, read exactly, and some that are cheap or the machine's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Scheduling time: monotonic on each CPU, cheap.
    Scheduling,
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_MONOTONIC, cheaply: what it reads, or a few microseconds less.
    MonotonicFloor,
    /// CLOCK_MONOTONIC, cheaply: what it reads, or a few microseconds more.
    MonotonicCeiling,
    /// CLOCK_BOOTTIME.
    Boottime,
    /// CLOCK_TAI.
    Tai,
    /// The CPU time that the host has given to the calling carrier (CLOCK_THREAD_CPUTIME_ID); 0 if unknown.
    Carrier,
}

/// CPU time that a process inherits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Its consumption so far.
    pub usage: Usage,
    /// RLIMIT_CPU.
    pub limit: Rlimit,
    /// RLIMIT_RTTIME.
    pub rttime: Rlimit,
    /// ITIMER_VIRTUAL and ITIMER_PROF; `None` leaves the host's alone.
    pub itimers: Option<[ItimerValue; 2]>,
}

/// A system call: seven words in this order, as the trap entry lays them down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Call {
    /// Its number.
    pub nr: usize,
    /// Its arguments.
    pub args: [u64; 6],
}

/// What [`Machine::receive`] receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// Every signal.
    All,
    /// This one at least.
    One(Signal),
    /// Every signal, where nobody else receives those that threads block.
    Blocked,
}

/// Something that happened; a CPU named in it is the caller's.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The profile must get the position of the CPU's current thread, for this much time.
    Sample(CpuId, ThreadIdx, Nanos),
    /// The CPU's current thread ends, and had this CPU time since its last sample.
    Unsampled(CpuId, ThreadIdx, Nanos),
    /// The CPU switches to this thread, or to none.
    Switched {
        /// The CPU.
        cpu: CpuId,
        /// The thread.
        to: Option<ThreadIdx>,
        /// How the one before left.
        left: Left,
        /// When.
        at: Nanos,
    },
    /// The CPU gets a host CPU for its real-time and deadline threads, or loses it ([`sched::Kick::serves`]).
    Serves(CpuId, Option<usize>),
    /// The lowest nice value of all threads has changed: the process uses it in competition with other processes, which
    /// can see it.
    Nice(ids::Nice),
    /// The process treats signals differently: when the machine has been told, the host does with signals what the process wants.
    Signals(SignalChange),
    /// A thread with these rights ([`Machine::identity`]) has ended and is no longer among the living.
    Gone(u32),
    /// A message to the program's user.
    Message(core::fmt::Arguments<'a>),
    /// The program's dynamic linker has loaded objects or removed some, and none of their code has run.
    Objects,
    /// A scheduling point of a controlled run: advances virtual time by this.
    Point(Nanos),
    /// In a controlled run no thread runs before this time.
    Pause(Nanos),
    /// A controlled run waits until the command has seen this state.
    Held(chaos::log::State),
}

/// The machine. Every method may be called on any CPU unless it says otherwise, with no
/// lock held unless it says otherwise; none of them waits.
pub trait Machine: Sync + Sized {
    /// The side that answers calls which are not the kernel's.
    type Personality: Personality<Self>;

    /// Reads a clock, in nanoseconds.
    fn clock(&self, clock: Clock) -> Nanos;
    /// Makes `cpu` enter the kernel soon ([`crate::Trap::Interrupt`]). May be lost only if that
    /// CPU is in the kernel and will look at its run queue before it leaves.
    fn kick(&self, cpu: CpuId);
    /// Sets the one-shot timer of `cpu`, the caller's own, in terms of CLOCK_MONOTONIC. `then` is the likely next
    /// request: the machine may prepare for it, and a timer that goes off in vain does no harm.
    fn arm(&self, cpu: CpuId, at: Nanos, then: Option<Nanos>);
    /// The first of `n` thread ids that no other process of ours uses.
    fn claim_ids(&self, n: i32) -> Option<i32>;

    /// One access to a 32-bit word of the program, atomic if the word is aligned; returns the former value, or for a
    /// store the new one. Allowed under a futex bucket's lock.
    fn word(&self, addr: u64, access: Access) -> Result<u32, Fault>;
    /// Copies from the program; eight bytes are one access.
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault>;
    /// Copies to the program; a prefix may have been written on a fault.
    fn write(&self, addr: u64, from: &[u8]) -> Result<(), Fault>;

    /// Tells the machine what has happened: for traces, profiles and messages, and for its own records.
    fn observe(&self, _event: Event<'_>) {}

    /// Makes `child` a copy of `parent`, the caller's current thread, that returns 0 from
    /// its system call on the stack pointer (0: the parent's) and with the FS base given. The child counts as one with
    /// the parent's rights until [`Event::Gone`].
    fn clone_context(&self, parent: ThreadIdx, child: ThreadIdx, stack: u64, tls: Option<u64>) -> Result<(), NoMemory>;
    /// Saves the rest of the current thread's state, so that any CPU may resume it. It was not saved since it was
    /// resumed, or the save was revoked.
    fn save(&self, t: ThreadIdx);
    /// Revokes the save of `cpu`'s current thread: it continues here, and no other CPU has seen it wait.
    fn keep(&self, cpu: CpuId, t: ThreadIdx);
    /// How the thread continues when it is resumed. The caller has the thread to itself.
    fn set_resume(&self, t: ThreadIdx, how: Resume<'_>);
    /// All general registers of the current thread.
    fn registers(&self, t: ThreadIdx) -> Registers;
    /// The arguments of the system call with which the current thread entered. Its registers hold the call's result
    /// (Linux: `orig_ax`), or with [`Resume::Call`] its number. `None` after [`Resume::Registers`], and if its own code
    /// was interrupted.
    fn call_arguments(&self, t: ThreadIdx) -> Option<[u64; 6]>;
    /// Moves the thread's extended state between the thread and a signal frame.
    fn move_extended_state(&self, t: ThreadIdx, how: Transfer<'_>) -> Result<(), Fault>;

    /// Ends the host call in which `t` waits, if any, with EINTR.
    fn interrupt(&self, t: ThreadIdx);
    /// Raises a signal of `t` at the host, which performs the default action. Returns false if a tracer discarded the
    /// signal, or the process survives it.
    fn raise(&self, t: ThreadIdx, info: &SigInfo, why: Raise) -> bool;
    /// The number of the rights that `t` has at the machine.
    fn identity(&self, _t: ThreadIdx) -> u32 {
        0
    }
    /// Passes what the host has received for the process to the kernel (`Linux::signal_from_host`). When this returns,
    /// nothing of that which was pending when it was called is left. This may wait for another carrier that has taken a
    /// signal and not passed it on yet.
    fn receive(&self, _what: Received) {}
}

/// Reads a value of the program's.
#[inline]
pub fn get<T: Plain>(m: &impl Machine, addr: u64) -> Result<T, Fault> {
    T::fetch(|bytes| m.read(addr, bytes))
}

/// Writes a value of the program's.
#[inline]
pub fn put<T: Plain>(m: &impl Machine, addr: u64, value: T) -> Result<(), Fault> {
    value.give(|bytes| m.write(addr, bytes))
}

impl<M: Machine> Kernel<M> {
    /// Scheduling time.
    #[inline(always)]
    pub fn now(&self) -> Nanos {
        self.m.clock(Clock::Scheduling)
    }

    /// Reads a clock of the machine.
    #[inline(always)]
    pub fn clock(&self, clock: Clock) -> Nanos {
        self.m.clock(clock)
    }

    /// The arguments of the call by which `t` came; zeros if its own code was interrupted.
    pub fn arguments(&self, t: ThreadIdx) -> [u64; 6] {
        self.m.call_arguments(t).unwrap_or_default()
    }

    /// Sets the result of the thread's system call. The caller has the thread to itself.
    #[inline(always)]
    pub(crate) fn set_result(&self, t: ThreadIdx, value: isize) {
        self.m.set_resume(t, Resume::Result(value));
    }

    /// Makes the thread repeat its system call when it is resumed, with the same arguments: the same call, or this one
    /// instead.
    pub fn restart_call(&self, t: ThreadIdx, instead: Option<usize>) {
        self.m.set_resume(t, Resume::Call(instead));
    }

    /// Loads a word of the program.
    #[inline(always)]
    pub fn load_u32(&self, addr: u64) -> Result<u32, Fault> {
        self.m.word(addr, Access::Load)
    }

    /// Stores a word of the program.
    #[inline(always)]
    pub fn store_u32(&self, addr: u64, value: u32) -> Result<(), Fault> {
        self.m.word(addr, Access::Store(value)).map(drop)
    }

    /// Compares and exchanges a word of the program; returns the former value.
    #[inline(always)]
    pub fn cas_u32(&self, addr: u64, old: u32, new: u32) -> Result<u32, Fault> {
        self.m.word(addr, Access::CompareExchange { old, new })
    }

    /// Reads a value of the program's.
    #[inline]
    pub fn get<T: Plain>(&self, addr: u64) -> Result<T, Fault> {
        get(&self.m, addr)
    }

    /// Writes a value of the program's.
    #[inline]
    pub fn put<T: Plain>(&self, addr: u64, value: T) -> Result<(), Fault> {
        put(&self.m, addr, value)
    }
}

/// Reads a `struct timespec` of the program's: EFAULT, or EINVAL for an invalid time.
pub fn read_timespec(m: &impl Machine, addr: u64) -> Result<Nanos, Errno> {
    get::<Timespec>(m, addr)?.to_nanos()
}

/// Signals that the machine cannot leave pending for the process, because it does not block them: those of faults, and
/// its own two.
pub const NEVER_LEFT: SigSet = SigSet(SigSet::SYNCHRONOUS.0 | 0b11 << 31);

/// A change in how a process treats signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalChange {
    /// It begins or ceases to ignore this one, or SIGCHLD has another action.
    Action(Signal),
    /// The set of signals that may simply stop it has changed ([`crate::Kernel::simple_stops`]).
    SimpleStops,
    /// The host keeps these signals, for descriptors of `signalfd(2)` or the next program to read. All others are the
    /// kernel's.
    LeftToHost(SigSet),
}

/// Why a signal is raised at the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raise {
    /// The signal ends the process, with a core where the host makes one.
    Terminate,
    /// The calling carrier's tracer, if there is one, sees the signal and may discard it.
    Show,
    /// The signal stops the process until it is continued, unless SIGCONT has been sent since.
    Stop {
        /// How often SIGCONT had been sent when the stop was chosen.
        continued: u32,
    },
}
