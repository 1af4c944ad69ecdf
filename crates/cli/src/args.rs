//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::chaos::args::ChaosArguments;
use crate::later::Later;
use crate::limits::{CpuLimit, CpusetOption, GroupOption};
use crate::mount::{MountArguments, ProcArguments};
use crate::profile::args::ProfileArguments;
use bench::args::{BenchArguments, DemoArguments, ProbeArguments};
use clap::{Args, Parser, Subcommand, ValueEnum};
use laboratory::args::LabArguments;
use observe::args::{ExportArguments, PsArguments, ThreadsArguments, TopArguments};
use observe::timers::TimersArguments;
use profile::Sampling;
use simulate::args::SimArguments;
use simulate::compare::CompareArguments;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "entresol",
    version,
    about = "Runs an unmodified program's threads on a preemptive scheduler of its own, without any privilege",
    after_help = "Examples:\n  \
        entresol run -- python3 server.py     run a program\n  \
        entresol run --stats -- xz -T2 file   run it and say what happened\n  \
        entresol doctor                       can this machine do it?\n  \
        entresol demo                         what is it good for?\n  \
        entresol doctor /usr/bin/python3      and this program?"
)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub task: Task,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Run a program with its threads scheduled by Entresol
    Run(Later<RunArguments>),
    /// Run a program and find out where its threads spend their time
    Profile(Later<ProfileArguments>),
    /// Run a program under many schedules, find one that makes it fail, and repeat it
    Chaos(Later<ChaosArguments>),
    /// Say what this machine and a program allow, and what to do where they do not
    Doctor(Later<DoctorArguments>),
    /// Show in half a minute what Entresol does, beside the same programs run natively
    Demo(Later<DemoArguments>),
    /// Measure costs, by turns under Entresol and natively
    Bench(Later<BenchArguments>),
    /// Run a workload of rt-app simulated, under Entresol and natively, side by side
    Compare(Later<CompareArguments>),
    /// Run the same kernel on simulated CPUs, in virtual time
    Sim(Later<SimArguments>),
    /// Show the threads of a process that runs under Entresol
    Threads(Later<ThreadsArguments>),
    /// Attach gdb to a process, with commands for threads that no host thread has
    Gdb(Later<GdbArguments>),
    /// Show all processes under Entresol with their threads
    Ps(Later<PsArguments>),
    /// Watch all threads under Entresol, full screen
    Top(Later<TopArguments>),
    /// Write figures of all processes under Entresol in the OpenMetrics format
    Export(Later<ExportArguments>),
    /// Mount the host's /proc with the threads of all processes under Entresol in it
    Mount(Later<MountArguments>),
    /// Run a command, as `ps`, with that tree over its /proc
    Proc(Later<ProcArguments>),
    /// Show historic designs beside Entresol's, simulated and live
    Lab(Later<LabArguments>),
    /// Show the POSIX timers of a process that runs under Entresol
    Timers(Later<TimersArguments>),
    /// One of the measuring programs of `bench` and `demo`
    #[command(hide = true)]
    Probe(Later<ProbeArguments>),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  entresol completions bash > ~/.local/share/bash-completion/completions/entresol"
    )]
    Completions(Later<CompletionsArguments>),
    /// Write the manual, a page for each command, to a folder
    #[command(after_help = "Example:\n  entresol manual ~/.local/share/man/man1")]
    Manual(Later<ManualArguments>),
    /// Write the embedded image to a file, or to the folder where a packaged command finds it
    #[command(
        after_help = "Examples:\n  entresol image libentresol.so\n  entresol image --folder /usr/local/lib/entresol\n\n\
                      Read-only containers without a folder to write to need the second: the command looks in \
                      PREFIX/lib/entresol if it lies in PREFIX/bin. That folder must be root's, and no other user may \
                      write to it."
    )]
    Image(Later<ImageArguments>),
}

/// `entresol run`.
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "entresol run [OPTIONS] [--] PROGRAM [ARGS]...",
    after_help = "Exit status: the program's own. 127 if there is no such program, 126 if it cannot be executed,\n\
        125 if Entresol cannot run it (the reason is printed), as with env(1) and timeout(1).\n\n\
        Examples:\n  \
        entresol run -- ./server --port 80           as many CPUs as the host lets this process use\n  \
        entresol run --cpus 1 -- python3 app.py      on one CPU\n  \
        entresol run --rt=host -- chrt -f 10 ./app   FIFO only where the host would allow it\n  \
        entresol run --cpu-limit 9s:soft=TERM --cpu-limit 10s -- ./job    warned, then ended\n  \
        entresol run --group io:match=io-* --group io=cpu.max:20% -- ./app   a fifth of a CPU for some threads\n  \
        entresol run --stats -- sort --parallel=4 f  print a summary at the end"
)]
pub struct RunArguments {
    /// Number of CPUs to schedule on [default: as many as affinity mask and cgroup quota allow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ids::CPUS_MAX as i64))]
    pub cpus: Option<u32>,
    /// Scheduler ticks in a second on a CPU where threads compete [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub hz: Option<u32>,
    /// The threads that may use real-time policies: all, or only those that the host would let
    #[arg(long, value_name = "RULE")]
    pub rt: Option<RealTime>,
    /// End the program with a report when threads wait for a CPU that makes no progress for so long; 0: never
    /// [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub watchdog: Option<u32>,
    /// Wake idle CPUs at most this many microseconds before a real-time thread's sleep ends, so that the host's own wake-up
    /// delays nothing; 0: never [default: 4000]
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub ahead: Option<u32>,
    /// End the program with a report if a real-time thread stays where it waits though it could run: for tests
    #[arg(long, hide = true)]
    pub check_order: bool,
    /// Whether the host's limit on pending signals, which POSIX timers count against, holds [default: host]
    #[arg(long, value_name = "RULE")]
    pub pending_signals: Option<PendingSignals>,
    /// How overflows of stacks are caught: by markers in page tables, or by mappings without access, which tools that know
    /// no markers can see, but of which a process has few [default: markers where the host has them, from Linux 6.13]
    #[arg(long, value_name = "HOW")]
    pub guards: Option<Guards>,
    /// Where threads wait for descriptors: in an epoll instance that idle CPUs share, or each in a host thread of its own; auto
    /// leaves up to four to host threads, which is faster for few [default: auto]
    #[arg(long, value_name = "WHERE")]
    pub io: Option<Io>,
    /// Limit the CPU time of the process, or of each thread with thread: in front. TIME:hard ends it, TIME:soft=SIGNAL warns it,
    /// TIME/PERIOD:throttle makes it wait [default: hard]
    #[arg(long, value_name = "[thread:]TIME[:ACT]")]
    pub cpu_limit: Vec<CpuLimit>,
    /// Define a named group of threads: NAME:match=PATTERN selects its threads by name, NAME=cpu.max:50% limits what it may use
    #[arg(long, value_name = "NAME[=cpu.max:SHARE|:match=PATTERN]")]
    pub group: Vec<GroupOption>,
    /// The CPUs that a group's threads may use, of ours; with :exclusive nobody else may
    #[arg(long, value_name = "NAME=LIST[:exclusive]")]
    pub cpuset: Vec<CpusetOption>,
    /// Write every switch of every CPU to a file for ui.perfetto.dev
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub trace: Option<PathBuf>,
    /// Print a summary on standard error at the end
    #[arg(long)]
    pub stats: bool,
    /// The reaction to a program that Entresol cannot run, instead of exit status 125
    #[arg(long, value_name = "HOW")]
    pub fallback: Option<Fallback>,
    /// Nothing runs natively: what the program executes and Entresol cannot enter fails with EPERM, and a line on standard error
    /// says why
    #[arg(long, conflicts_with = "fallback")]
    pub require: bool,
    /// No line on standard error when the first of the programs that this one executes runs natively
    #[arg(long)]
    pub no_note: bool,
    /// How the image enters the program
    #[arg(long, value_name = "WAY", default_value = "audit")]
    pub enter: Enter,
    /// The way to catch system calls: by Syscall User Dispatch, or by a seccomp filter, which sets no_new_privs and lets nothing run
    /// that Entresol cannot enter; auto takes the filter only where the host has no dispatch [default: auto]
    #[arg(long, value_name = "HOW")]
    pub catch: Option<CatchOption>,
    /// Samples are taken.
    #[arg(skip)]
    pub sampling: Option<Sampling>,
    /// The folder for what images write down.
    #[arg(skip)]
    pub records: Option<PathBuf>,
    /// The run is controlled.
    #[arg(skip)]
    pub controlled: Option<Controlled>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl RunArguments {
    /// A controlled run of this program: on one CPU, with nothing to say about it but what fails.
    #[must_use]
    pub fn one_cpu(command: Vec<OsString>) -> RunArguments {
        RunArguments {
            cpus: Some(1),
            hz: None,
            rt: None,
            watchdog: Some(0),
            ahead: None,
            check_order: false,
            pending_signals: None,
            guards: None,
            io: None,
            cpu_limit: vec![],
            group: vec![],
            cpuset: vec![],
            trace: None,
            stats: false,
            fallback: None,
            require: false,
            no_note: true,
            enter: Enter::Audit,
            catch: None,
            sampling: None,
            records: None,
            controlled: None,
            command,
        }
    }
}

/// A run whose choices are made by `entresol chaos`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controlled {
    /// The file with its log.
    pub log: PathBuf,
    /// `None`: the switches in the log are repeated.
    pub strategy: Option<chaos::Spec>,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// When it begins, in nanoseconds since 1970.
    pub epoch: u64,
    /// How many memory accesses become scheduling points.
    pub places: u16,
    /// The code in which most of these are, by address in the program's file; empty: anywhere in the program.
    pub own_code: Vec<std::ops::Range<u64>>,
    /// Whether it looks for races.
    pub races: bool,
    /// Whether it may have pauses.
    pub pauses: bool,
    /// The program that is controlled, by the end of its path; `None`: the one that is started.
    pub only: Option<String>,
    /// The number of the run, of those with this log.
    pub run: u32,
}

/// The clock that samples are taken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SamplingClock {
    /// CPU time
    Cpu,
    /// Wall time
    Wall,
}

/// The rules that decide about real-time policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RealTime {
    /// Every thread may use them: they order threads inside the program only
    Allow,
    /// The host's limits and privileges decide, as they do natively
    Host,
}

/// Where threads wait for descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Io {
    /// Few in host threads, many in an epoll instance.
    Auto,
    /// In an epoll instance.
    Epoll,
    /// In host threads.
    Threads,
}

/// The mechanism that guards stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Guards {
    /// Markers in page tables
    Markers,
    /// Mappings without access, as on a host before Linux 6.13
    Mappings,
}

/// How many signals may be pending, and POSIX timers exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PendingSignals {
    /// As many as RLIMIT_SIGPENDING says
    Host,
    /// As many as there is memory for
    Unlimited,
}

/// How a program that Entresol cannot run is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fallback {
    /// Run it without Entresol and say so
    Native,
}

/// By which of the dynamic linker's doors the image enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Enter {
    /// LD_AUDIT: before any library is mapped
    Audit,
    /// LD_PRELOAD: as the first library
    Preload,
}

/// A way to catch system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CatchOption {
    /// By dispatch where the host has it, else by a filter
    Auto,
    /// By Syscall User Dispatch
    Sud,
    /// By a seccomp filter
    Seccomp,
}

/// `entresol doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 if everything works, 1 if something does not.\n\n\
        Examples:\n  entresol doctor\n  entresol doctor /usr/bin/python3")]
pub struct DoctorArguments {
    /// A program to look at
    pub program: Option<OsString>,
}

/// `entresol gdb`.
#[derive(Debug, Args)]
#[command(
    override_usage = "entresol gdb PID [-- GDB-ARGS]...\n       entresol gdb --print-script",
    after_help = "In gdb, `info threads` shows the host threads. These commands know all threads of the program:\n  \
        entresol threads         all threads, what they wait for, where they are\n  \
        entresol bt TID          the backtrace of one (and `entresol bt all`)\n  \
        entresol thread TID      look at it: bt, up, frame, info locals, print\n  \
        entresol thread off      back to the host thread\n\n\
        Examples:\n  \
        entresol gdb 1234\n  \
        entresol gdb 1234 -- -batch -ex 'entresol bt all'\n  \
        entresol gdb --print-script > entresol.gdb    for `source entresol.gdb` in gdb, also with a core file"
)]
pub struct GdbArguments {
    /// The process
    #[arg(value_name = "PID", required_unless_present = "print_script", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// Print the commands as a script for gdb, and end
    #[arg(long, conflicts_with = "pid")]
    pub print_script: bool,
    /// More arguments for gdb
    #[arg(last = true, value_name = "GDB-ARGS")]
    pub arguments: Vec<OsString>,
}

/// `entresol completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `entresol manual`.
#[derive(Debug, Args)]
pub struct ManualArguments {
    /// The folder, which is made if it is missing
    pub folder: PathBuf,
}

/// `entresol image`.
#[derive(Debug, Args)]
pub struct ImageArguments {
    /// The file, or the folder
    pub path: PathBuf,
    /// Make a folder, with the image in both of its forms
    #[arg(long)]
    pub folder: bool,
}
