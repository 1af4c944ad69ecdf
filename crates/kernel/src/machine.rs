//! What the kernel stands on: the host, or a simulated machine (law 1: this trait is the whole seam).

use abi::frame::Registers;
use abi::{Errno, SaFlags, SigEvent, SigInfo, SigSet, Signal};
use ids::{CpuId, Nanos, ThreadIdx};
use signal::frame::{ExtendedState, Restorable};
use time::cpu::Usage;
use time::cpu::itimer::ItimerValue;
use time::cpu::limit::Rlimit;

/// The program's address cannot be read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// There is no memory for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

/// A clock of the host that programs name in timeouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_BOOTTIME.
    Boottime,
    /// CLOCK_TAI.
    Tai,
}

/// CPU time that a process brings along.
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

/// The machine. Every method may be called on any CPU unless it says otherwise, with no
/// lock held unless it says otherwise; none of them waits.
pub trait Machine: Sync + Sized {
    /// Scheduling time in nanoseconds: monotonic on each CPU, cheap.
    fn now(&self) -> Nanos;
    /// A clock of the host, exactly.
    fn clock(&self, clock: Clock) -> Nanos;
    /// CLOCK_MONOTONIC, cheaply: it reads no less than the first and no more than the second,
    /// which are a few microseconds apart.
    fn monotonic_bounds(&self) -> (Nanos, Nanos);
    /// Makes `cpu` enter the kernel soon ([`crate::Trap::Interrupt`]). May be lost only if that
    /// CPU is in the kernel and will look at its run queue before it leaves.
    fn kick(&self, cpu: CpuId);
    /// Sets the one-shot timer of `cpu`, the caller's own, in terms of CLOCK_MONOTONIC. As things stand the CPU will want
    /// it again at `then`: the machine may prepare for that, and a timer that goes off for nothing does no harm.
    fn arm(&self, cpu: CpuId, at: Nanos, then: Option<Nanos>);
    /// A host call that cannot wait.
    fn host(&self, call: Call) -> isize;
    /// `preadv2(2)` or `pwritev2(2)` at the file's own position with one buffer.
    fn host_vector(&self, nr: usize, fd: u64, addr: u64, len: u64, flags: u64) -> isize;
    /// `select(2)` of descriptors below `n` in three sets (0 for none) that does not wait.
    fn host_select(&self, n: u64, sets: [u64; 3]) -> isize;
    /// Whether an `open(2)` or `openat(2)` names a FIFO and may wait for its other end.
    fn opens_fifo(&self, call: &Call) -> bool;
    /// Whether `fd` is a socket with a time limit for sending, or for receiving.
    fn socket_times_out(&self, fd: u64, sending: bool) -> bool;
    /// Whether `poll(2)` finds `fd` ready for reading or writing, or finds fault with it.
    fn is_ready(&self, fd: u64, for_writing: bool) -> bool;
    /// ITIMER_REAL, which is the host's: what is left, and the period.
    fn real_itimer(&self) -> [Nanos; 2] {
        [Nanos::ZERO; 2]
    }
    /// The soft limit of a resource of this process.
    fn soft_limit(&self, resource: u64) -> u64;
    /// Whether the host lets this process set any priority (CAP_SYS_NICE).
    fn may_set_priorities(&self) -> bool;
    /// The first of `n` thread ids that no other process of ours uses.
    fn claim_ids(&self, n: i32) -> Option<i32>;
    /// Whether the host does not know this id, so that it does not notice when its thread ends.
    fn may_be_gone(&self, _tid: u32) -> bool {
        false
    }
    /// Whether the process of the thread with this id is known to be gone.
    fn is_gone(&self, _tid: u32) -> bool {
        false
    }
    /// The size in bytes of a System V shared memory segment.
    fn segment_size(&self, id: u64) -> Option<u64>;

    /// Loads a word of the program. Allowed under a futex bucket's lock, as are the next two.
    fn load_u32(&self, addr: u64) -> Result<u32, Fault>;
    /// Stores a word of the program.
    fn store_u32(&self, addr: u64, value: u32) -> Result<(), Fault>;
    /// Compares and exchanges a word of the program; gives what was there.
    fn cas_u32(&self, addr: u64, old: u32, new: u32) -> Result<u32, Fault>;
    /// Loads a long word.
    fn load_u64(&self, addr: u64) -> Result<u64, Fault>;
    /// Stores a long word.
    fn store_u64(&self, addr: u64, value: u64) -> Result<(), Fault>;
    /// Copies from the program.
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault>;
    /// Copies to the program; a prefix may have been written on a fault.
    fn write(&self, addr: u64, from: &[u8]) -> Result<(), Fault>;

    /// Records the position of `t`, the current thread of the calling CPU `cpu`, for a profile. The sample stands for
    /// `value`.
    fn sample(&self, _cpu: CpuId, _t: ThreadIdx, _value: Nanos) {}
    /// `cpu`, which calls, turns to this thread, or to none; the one before could have gone on or not. For a trace.
    fn switched(&self, _cpu: CpuId, _to: Option<ThreadIdx>, _preempted: bool, _at: Nanos) {}
    /// `cpu`, which calls, has a core of the host for its real-time and deadline threads, or none ([`sched::Kick::serves`]).
    fn serves(&self, _cpu: CpuId, _core: Option<usize>) {}
    /// Tells the program's user something.
    fn tell(&self, _what: core::fmt::Arguments<'_>) {}
    /// `t`, the current thread of the calling CPU `cpu`, ends. `value` is its CPU time since its last sample.
    fn unsampled(&self, _cpu: CpuId, _t: ThreadIdx, _value: Nanos) {}

    /// Reserves memory for the state of the thread in slot `t`.
    fn reserve_context(&self, t: ThreadIdx) -> Result<(), NoMemory>;
    /// Makes `child` a copy of `parent`, the caller's current thread, that returns 0 from
    /// its system call on the stack pointer (0: the parent's) and with the FS base given.
    fn clone_context(&self, parent: ThreadIdx, child: ThreadIdx, stack: u64, tls: Option<u64>);
    /// Saves the rest of the current thread's state, so that any CPU may resume it. It has not been saved since it
    /// was resumed, or the save was revoked.
    fn save(&self, t: ThreadIdx);
    /// Revokes the save of `cpu`'s current thread: it continues here, and no other CPU has seen it wait.
    fn keep(&self, cpu: CpuId, t: ThreadIdx);
    /// The result that was set last.
    fn result(&self, t: ThreadIdx) -> u64;
    /// The result of the thread's system call. The caller has the thread to itself.
    fn set_result(&self, t: ThreadIdx, value: isize);
    /// `set_result` for the current thread of the calling CPU.
    fn answer(&self, t: ThreadIdx, value: isize) {
        self.set_result(t, value);
    }
    /// The thread will make a system call again when it is resumed, with the same arguments:
    /// its own, or this one instead.
    fn restart_call(&self, t: ThreadIdx, instead: Option<usize>);
    /// The FS base of the current thread.
    fn fs_base(&self, t: ThreadIdx) -> u64;
    /// Sets the FS base of the current thread.
    fn set_fs_base(&self, t: ThreadIdx, value: u64);
    /// All general registers of the current thread.
    fn registers(&self, t: ThreadIdx) -> Registers;
    /// The stack pointer of the current thread.
    fn stack_pointer(&self, t: ThreadIdx) -> u64 {
        self.registers(t).rsp
    }
    /// Sets all general registers; from now on all of them count at resume.
    fn set_registers(&self, t: ThreadIdx, r: &Registers);
    /// The form of the extended state in signal frames.
    fn extended_state(&self) -> ExtendedState;
    /// Writes the thread's extended state to a signal frame.
    fn xstate_to_frame(&self, t: ThreadIdx, addr: u64) -> Result<(), Fault>;
    /// Takes the thread's extended state from a signal frame; `None` means the initial state.
    fn xstate_from_frame(&self, t: ThreadIdx, from: Option<(u64, Restorable)>) -> Result<(), Fault>;

    /// Ends the host call in which `t` waits, if it does, with EINTR.
    fn interrupt(&self, t: ThreadIdx);
    /// Ends or stops the whole process by the host's default action for this signal. Returns when a stopped process
    /// continues.
    fn default_action(&self, t: ThreadIdx, info: &SigInfo, action: Fatal);
    /// The host shall ignore this signal, or not, as the program does: exec hands it on, and
    /// for SIGCHLD it decides about zombies and about what the process is told (`flags`: SA_NOCLDWAIT, SA_NOCLDSTOP).
    fn set_ignored(&self, signal: Signal, ignored: bool, flags: SaFlags);
    /// [`crate::Kernel::simple_stops`] has changed: when this returns, the host stops the process by no other signals.
    fn stops_changed(&self) {}
    /// If `fd` is the terminal of the process's session and another process group is in front there: how the
    /// process stands to it.
    fn in_background(&self, _fd: u64) -> Option<Background> {
        None
    }
    /// The real user id of the process.
    fn uid(&self) -> u32;
    /// Where `t`, which has no CPU, will continue: instruction, stack and frame pointer. Callable at any time; the
    /// answer is meaningless if it is resumed at the same moment.
    fn parked(&self, _t: ThreadIdx) -> [u64; 3] {
        [0; 3]
    }
    /// The number of the rights that `t` has at the machine, for [`Machine::thread_gone`].
    fn identity(&self, _t: ThreadIdx) -> u32 {
        0
    }
    /// A thread with these rights is no more.
    fn thread_gone(&self, _identity: u32) {}
    /// A host timer with this event; its id.
    fn create_timer(&self, clock: u64, event: &SigEvent) -> Result<i32, Errno>;
    /// The CPU time that the host has given to the calling carrier; `None` where nobody can tell.
    fn carrier_time(&self) -> Option<Nanos> {
        None
    }
    /// User and system time of this process, as the host counts them.
    fn host_usage(&self) -> Usage {
        Usage::default()
    }
    /// The host's count of this process before ours began, and its CPU timers and limit. They are ours from now on:
    /// the host's are set so that they do nothing.
    fn take_over_times(&self) -> Times {
        Times::default()
    }
    /// Returns limit and timers to the host for the program that execs. The usage is the host's anyway.
    fn hand_on_times(&self, _times: &Times) {}
    /// Whether the host lets this process raise hard limits (CAP_SYS_RESOURCE).
    fn may_raise_limits(&self) -> bool {
        false
    }
    /// The host keeps what arrives of these signals, for descriptors of `signalfd(2)` to read. All
    /// others are the kernel's.
    fn leave_signals(&self, _set: SigSet) {}
    /// Stops for the calling carrier's tracer, which sees a signal: whether it lets it through.
    fn show_to_tracer(&self, _info: &SigInfo) -> bool {
        true
    }
    /// The kernel is given what the host has received for the process ([`crate::Kernel::signal_from_host`]). When this
    /// returns, nothing that was there when it was called is left, or, where a signal is named, that one is not. This may
    /// wait for another carrier that has taken one and not given it yet.
    fn receive(&self, _awaited: Option<Signal>) {}
    /// Queues a signal for the process at the host.
    fn queue_on_host(&self, _info: &SigInfo) {}
    /// Queues a signal at the host for the calling carrier, which blocks it.
    fn queue_on_carrier(&self, _info: &SigInfo) {}
    /// Takes a signal of the set that is pending for the calling carrier (first) or the process at the host.
    fn take_from_host(&self, _set: SigSet) -> Option<SigInfo> {
        None
    }
    /// Signals pending at the host for the calling carrier or the process.
    fn pending_on_host(&self) -> SigSet {
        SigSet::EMPTY
    }
    /// The subset that is pending for the carrier alone.
    fn pending_on_carrier(&self) -> SigSet {
        SigSet::EMPTY
    }
    /// A full fence on every CPU, where the machine has one: it takes microseconds, and saves frequent readers
    /// theirs.
    fn barrier(&self) -> Option<sync::rcu::Barrier> {
        None
    }
    /// Random bits.
    fn random(&self) -> u64;
}

/// Signals that the machine cannot leave pending for the process: those of faults, and its own two, are not blocked.
pub const NEVER_LEFT: SigSet = SigSet(SigSet::SYNCHRONOUS.0 | 0b11 << 31);

/// The default action of a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fatal {
    /// It ends the process (with a core where the host makes one).
    Terminate,
    /// It stops the process, unless SIGCONT has been sent since ([`crate::Kernel::continued`] was this).
    Stop {
        /// How often SIGCONT had been sent when the stop was chosen.
        continued: u32,
    },
}

/// How a process stands to its terminal that another process group has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Background {
    /// The process group is orphaned: no member of the session would continue it if it stopped.
    pub orphaned: bool,
    /// The terminal stops those who write, too (TOSTOP).
    pub stops_writers: bool,
}
