//! Small programs that measure: each is an ordinary threaded program on glibc and the host's clock, runs unchanged
//! natively and under `run`, and knows nothing of Entresol.
//!
//! A probe prints its figures in the form of [`report`], one a line, and nothing else. Figures of one run are
//! medians over batches; a caller that runs a probe several times takes medians over runs.

pub mod clock;
mod condvar;
mod cpu_clock;
mod create;
mod crowd;
mod futex;
mod handover;
mod host_time;
mod parameters;
mod passthrough;
mod pipe_wakeup;
mod preemption;
pub mod primes;
mod process;
mod procfs;
mod procfs_scan;
mod profile;
pub mod pthread;
pub mod report;
mod rt_wakeup;
mod schbench;
mod sieve;
mod talk;
mod tick;
mod timer_ids;
mod timer_scale;
mod timers;
mod watched;

use clap::ValueEnum;

use parameters::Parameters;
use tool::style;

/// The probes, by the name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Probe {
    /// Two threads on one CPU yield to each other
    Yield,
    /// Two threads on one CPU wake each other by a futex
    Futex,
    /// Two threads wake each other by a mutex and a condition variable
    Condvar,
    /// A thread is created and joined
    Create,
    /// A system call that the host answers
    Passthrough,
    /// Two spinning threads on one CPU take turns
    Preemption,
    /// A real-time thread is woken while every CPU spins
    RtWakeup,
    /// A thread that waits on a pipe is woken while every CPU spins
    PipeWakeup,
    /// Workers of schbench are woken: how long do they wait for a CPU?
    Schbench,
    /// Processes are made and awaited
    Process,
    /// A process is forked while eight threads call malloc
    ForkMalloc,
    /// 100,000 threads are created and wait
    Crowd,
    /// Every CPU sieves primes
    Sieve,
    /// The clocks of CPU time are read, beside up to 1,000 threads
    CpuClock,
    /// The process's clock of CPU time is read beside 100,000 threads
    CpuClock100k,
    /// 8 threads compute under a profiling timer
    Profile8,
    /// 1,000 threads compute under a profiling timer
    Profile1k,
    /// 20,000 threads compute under a profiling timer
    Profile20k,
    /// 100,000 threads compute under a profiling timer
    Profile100k,
    /// 20,000 POSIX timers are created, asked and deleted
    Timers20k,
    /// 96,000 of them
    Timers96k,
    /// A million of them
    Timers1m,
    /// POSIX timers are created and deleted, armed and disarmed
    TimerPairs,
    /// 90,000 POSIX timers get exact ids
    TimerRestore,
    /// 1,000 periodic POSIX timers expire
    TimerLateness,
    /// The first POSIX timer of a process gets an exact id
    TimerExact,
    /// A million POSIX timers are armed
    TimerMemory,
    /// POSIX timers are created while 100,000 of them are listed
    TimerListed,
    /// A thread computes beside many threads and timers while its CPU ticks
    Tick,
    /// Threads compute until the limits on CPU time come
    CpuLimit,
    /// Threads of all kinds consume CPU time, which the host counts as well
    ClockSum,
    /// Threads of the process are looked up in /proc
    Procfs,
    /// 128 loops scan /proc for 2,000 threads of the process
    ProcfsScan,
    /// A thread computes as long as it is asked to, beside others that wait
    Watched,
    /// 100,000 threads of Rust's standard library talk to each other
    Talk,
    /// Threads compute primes under timers and limits on CPU time
    Primes,
    /// Threads or processes create POSIX timers and ask for their overruns
    TimerIds,
}

impl Probe {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Its parameters.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Probe::Primes => primes::PARAMETERS,
            Probe::TimerIds => timer_ids::PARAMETERS,
            Probe::CpuLimit => host_time::LIMIT_PARAMETERS,
            Probe::ClockSum => host_time::SUM_PARAMETERS,
            Probe::Tick => tick::PARAMETERS,
            _ => &[],
        }
    }
}

/// Runs one probe and returns the exit status.
#[must_use]
pub fn probe(probe: Probe, quick: bool, parameters: &[String]) -> i32 {
    let parameters = match Parameters::read(parameters, probe.parameters()) {
        Ok(parameters) => parameters,
        Err(mistake) => {
            style::complain(&mistake);
            return 2;
        }
    };
    let measured = match probe {
        Probe::Yield => handover::by_yield(quick),
        Probe::Futex => handover::by_futex(quick),
        Probe::Condvar => condvar::measure(quick),
        Probe::Create => create::measure(quick),
        Probe::Passthrough => passthrough::measure(quick),
        Probe::Preemption => preemption::measure(quick),
        Probe::RtWakeup => rt_wakeup::measure(quick),
        Probe::PipeWakeup => pipe_wakeup::measure(quick),
        Probe::Schbench => schbench::measure(quick),
        Probe::Process => process::measure(quick),
        Probe::ForkMalloc => process::measure_malloc(quick),
        Probe::Crowd => crowd::measure(),
        Probe::Sieve => sieve::measure(quick),
        Probe::CpuClock => cpu_clock::measure(quick),
        Probe::CpuClock100k => cpu_clock::measure_many(quick),
        Probe::Profile8 => profile::measure(8, "profile_tick_8", quick),
        Probe::Profile1k => profile::measure(1_000, "profile_tick_1k", quick),
        Probe::Profile20k => profile::measure(20_000, "profile_tick_20k", quick),
        Probe::Profile100k => profile::measure(100_000, "profile_tick_100k", quick),
        Probe::Timers20k => timers::many(20_000, "20k", quick),
        Probe::Timers96k => timers::many(96_000, "96k", quick),
        Probe::Timers1m => timers::many(1_000_000, "1m", quick),
        Probe::TimerPairs => timers::pairs(quick),
        Probe::TimerRestore => timers::restore(),
        Probe::TimerLateness => timers::lateness(quick),
        Probe::TimerExact => timer_scale::exact(),
        Probe::TimerMemory => timer_scale::memory(),
        Probe::TimerListed => timer_scale::listed(quick),
        Probe::Tick => tick::measure(&parameters, quick),
        Probe::CpuLimit => host_time::at_limits(&parameters),
        Probe::ClockSum => host_time::sum(&parameters, quick),
        Probe::Procfs => procfs::measure(quick),
        Probe::ProcfsScan => procfs_scan::measure(quick),
        Probe::Watched => watched::measure(),
        Probe::Talk => talk::measure(),
        Probe::Primes => primes::measure(&parameters),
        Probe::TimerIds => timer_ids::measure(&parameters),
    };
    if let Err(refusal) = measured {
        report::refused(&refusal);
        return 0;
    }
    report::stolen();
    0
}

/// A probe's result: nothing, since it has printed its figures, or the reason why the host refused.
type Measured = Result<(), String>;
