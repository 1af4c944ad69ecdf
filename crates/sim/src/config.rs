//! How a run is set up.

use crate::cost::Cost;
use crate::hardware::Hardware;
use ids::Nanos;
use kernel::Io;
use linux::Fault;

/// A simulated machine and what may go wrong on it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Everything random comes from it.
    pub seed: u64,
    /// 1 to 4,096.
    pub cpus: usize,
    /// The time between ticks.
    pub tick: Nanos,
    /// Whether timeouts may be late by the timer slack of their threads.
    pub timer_slack: bool,
    /// The costs of operations.
    pub cost: Cost,
    /// The model of its CPUs; `None`: it is flat.
    pub hardware: Option<Hardware>,
    /// Disturbances that the kernel must bear.
    pub faults: Faults,
    /// How threads wait for descriptors.
    pub io: Io,
    /// A fault that the kernel cannot bear: the checks must find it.
    pub plant: Option<Plant>,
    /// Keep the whole trace.
    pub record: bool,
    /// Whether the invariants are checked after every event.
    pub check: bool,
    /// The run ends here at the latest; threads that are still alive then are a failure if
    /// `must_end`.
    pub limit: Nanos,
    /// Whether all threads must have exited at the end.
    pub must_end: bool,
}

impl Config {
    /// An undisturbed machine of this size with all checks.
    pub fn new(seed: u64, cpus: usize) -> Config {
        Config {
            seed,
            cpus,
            tick: Nanos::from_millis(1),
            timer_slack: false,
            cost: Cost::host(),
            hardware: None,
            faults: Faults::default(),
            io: Io::Auto,
            plant: None,
            record: false,
            check: true,
            limit: Nanos::from_secs(100),
            must_end: true,
        }
    }
}

/// Disturbances that a correct kernel bears.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The longest additional delay of a kick, nanoseconds.
    pub kick_late: u64,
    /// How many of 1,000 losable kicks are lost. A kick is losable if its CPU enters the kernel by itself before it
    /// arrives.
    pub kick_lost: u32,
    /// The longest delay of a timer, nanoseconds.
    pub timer_late: u64,
}

/// A planted bug, and at which opportunity it strikes (0: the first).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plant {
    /// The planted bug.
    pub bug: Bug,
    /// How many opportunities pass before.
    pub after: u64,
}

/// A bug that can be planted: in the machine, or in the personality.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// All kicks to a CPU are lost until it enters the kernel by itself.
    LoseKick,
    /// A kick goes to the next CPU instead.
    KickElsewhere,
    /// A thread is resumed on a second CPU.
    ResumeTwice,
    /// A thread is resumed on another CPU than the scheduler said.
    ResumeElsewhere,
    /// An armed timer never goes off.
    LoseTimer,
    /// A timer goes off 20 ms late.
    LateTimer,
    /// The clock shows 200 µs more than it is, from then on for one timer.
    FastClock,
    /// Scheduling time goes back by 100 µs.
    ClockBack,
    /// A host call's result never comes.
    LoseHostReturn,
    /// From then on nothing takes over the CPU of a carrier that is in the host.
    NoTakeOver,
    /// From then on idle CPUs sleep without telling the scheduler.
    SleepBlindly,
    /// An atomic exchange of the program says it stored and did not.
    LyingExchange,
    /// A system call's result is lost: the thread sees an old one.
    LoseResult,
    /// Interrupts of host calls are lost from then on.
    LoseInterrupt,
    /// A thread loses the rest of its computation at a preemption.
    SkipCompute,
    /// A thread that waits is resumed as if it had been chosen.
    ResumeWaiter,
    /// One of the personality's own.
    Linux(Fault),
}

impl Bug {
    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Bug::LoseKick => "lose-kick",
            Bug::KickElsewhere => "kick-elsewhere",
            Bug::ResumeTwice => "resume-twice",
            Bug::ResumeElsewhere => "resume-elsewhere",
            Bug::LoseTimer => "lose-timer",
            Bug::LateTimer => "late-timer",
            Bug::FastClock => "fast-clock",
            Bug::ClockBack => "clock-back",
            Bug::LoseHostReturn => "lose-host-return",
            Bug::NoTakeOver => "no-take-over",
            Bug::SleepBlindly => "sleep-blindly",
            Bug::LyingExchange => "lying-exchange",
            Bug::LoseResult => "lose-result",
            Bug::LoseInterrupt => "lose-interrupt",
            Bug::SkipCompute => "skip-compute",
            Bug::ResumeWaiter => "resume-waiter",
            Bug::Linux(fault) => fault.name(),
        }
    }

    /// All of them.
    pub const ALL: [Bug; MACHINE.len() + Fault::ALL.len()] = {
        let (mut all, mut i) = ([Bug::LoseKick; _], 0);
        while i < all.len() {
            all[i] = if i < MACHINE.len() { MACHINE[i] } else { Bug::Linux(Fault::ALL[i - MACHINE.len()]) };
            i += 1;
        }
        all
    };
}

/// Those of the machine.
const MACHINE: [Bug; 16] = [
    Bug::LoseKick,
    Bug::KickElsewhere,
    Bug::ResumeTwice,
    Bug::ResumeElsewhere,
    Bug::LoseTimer,
    Bug::LateTimer,
    Bug::FastClock,
    Bug::ClockBack,
    Bug::LoseHostReturn,
    Bug::NoTakeOver,
    Bug::SleepBlindly,
    Bug::LyingExchange,
    Bug::LoseResult,
    Bug::LoseInterrupt,
    Bug::SkipCompute,
    Bug::ResumeWaiter,
];
