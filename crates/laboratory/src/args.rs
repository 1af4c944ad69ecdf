//! Arguments of `entresol lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `entresol lab`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  entresol lab rt-migrate --html page.html")]
pub struct LabArguments {
    /// The subject.
    #[command(subcommand)]
    pub task: LabTask,
}

/// The pages.
#[derive(Debug, Subcommand)]
pub enum LabTask {
    /// Real-time balancing (2007): before the patch, the patch, and ours, simulated and live
    RtMigrate(RtMigrateArguments),
    /// CPU time of a process (2015): four generations, Linux today and ours, raced and in a cost model
    Cputimer(CputimerArguments),
    /// Profiling timers and many threads (2008): the bug executed, and the message's cases live
    Itimer(ItimerArguments),
    /// POSIX timer ids (2025): the message's seven tests modelled, raced and live
    PosixTimers(PosixTimersArguments),
    /// Looking names up in /proc (2021): a mutex, references, the patch, and ours, in a cost model and raced
    Procfs(ProcfsArguments),
    /// Sharing a CPU fairly: CFS, EEVDF as in its paper and as in Linux, and ours, on a model of one CPU
    Fair(FairArguments),
}

/// Where a page goes beside the terminal.
#[derive(Debug, Args)]
pub struct Output {
    /// Write the page to a file as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the page as JSON
    #[arg(long)]
    pub json: bool,
}

impl LabTask {
    /// Where the page goes.
    #[must_use]
    pub fn output(&self) -> &Output {
        match self {
            LabTask::RtMigrate(request) => &request.output,
            LabTask::Cputimer(request) => &request.output,
            LabTask::Itimer(request) => &request.output,
            LabTask::PosixTimers(request) => &request.output,
            LabTask::Procfs(request) => &request.output,
            LabTask::Fair(request) => &request.output,
        }
    }
}

/// `entresol lab rt-migrate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Everything simulated comes from the seed, and each figure has the command that repeats it. Live \
        figures are printed beside what the host took, and not judged.\n\n\
        Exit status: 1 if Entresol, simulated on up to 16 CPUs, broke the test's rule.\n\n\
        Examples:\n  \
        entresol lab rt-migrate                      on the terminal; some 20 s with the live runs\n  \
        entresol lab rt-migrate --html page.html     and as a page\n  \
        entresol lab rt-migrate --no-live --json     for programs"
)]
pub struct RtMigrateArguments {
    /// Everything simulated comes from it
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Sizes to simulate
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [4, 16, 128, 1024],
        value_parser = clap::value_parser!(u32).range(2..=ids::CPUS_MAX as i64))]
    pub cpus: Vec<u32>,
    /// Rounds on up to 16 CPUs and live; larger machines get fewer
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub rounds: u32,
    /// Simulate four threads a CPU as well: takes some times as long
    #[arg(long)]
    pub full: bool,
    /// Do not run rt-migrate-test itself, neither on Linux nor under Entresol
    #[arg(long)]
    pub no_live: bool,
    /// Where the page goes
    #[command(flatten)]
    pub output: Output,
}

/// `entresol lab cputimer`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 1 if the cost model no longer gives what the message of 2015 says, within a factor of \
        two. What is raced or live is not judged.\n\n\
        Examples:\n  \
        entresol lab cputimer                        on the terminal; some 10 s\n  \
        entresol lab cputimer --cpus 1,8,16          raced on other numbers of CPUs\n  \
        entresol lab cputimer --html page.html       and as a page"
)]
pub struct CputimerArguments {
    /// Real CPUs to race on [default: 1, 2, 4, … as far as the host lets us]
    #[arg(long, value_name = "N,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=super::cputimer::CPUS_MAX as i64))]
    pub cpus: Vec<u32>,
    /// Do not run programs, neither on Linux nor under Entresol
    #[arg(long)]
    pub no_live: bool,
    /// Where the page goes
    #[command(flatten)]
    pub output: Output,
}

/// `entresol lab itimer`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 1 if the cost model no longer gives what the message of 2008 says. What is executed or \
        live is not judged.\n\n\
        Examples:\n  \
        entresol lab itimer                          on the terminal; about a minute\n  \
        entresol lab itimer --full                   the message's cases as written; some six minutes of two CPUs\n  \
        entresol lab itimer --html page.html         and as a page"
)]
pub struct ItimerArguments {
    /// The message's cases as written, with up to 100,000 threads
    #[arg(long)]
    pub full: bool,
    /// Do not run the cases, neither on Linux nor under Entresol
    #[arg(long)]
    pub no_live: bool,
    /// Where the page goes
    #[command(flatten)]
    pub output: Output,
}

/// `entresol lab posix-timers`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 1 if the cost model no longer gives the figures of the message of 2025 within a factor of \
        two, or sparse ids cost what they must not. What is raced or live is not judged.\n\n\
        Examples:\n  \
        entresol lab posix-timers                    on the terminal; some 10 s\n  \
        entresol lab posix-timers --full             63 times 20,000 timers, 63 times 100,000 pairs; the old designs take half an hour\n  \
        entresol lab posix-timers --html page.html   and as a page"
)]
pub struct PosixTimersArguments {
    /// The message's tests 4 and 5 as written
    #[arg(long)]
    pub full: bool,
    /// Do not run programs, neither on Linux nor under Entresol
    #[arg(long)]
    pub no_live: bool,
    /// Where the page goes
    #[command(flatten)]
    pub output: Output,
}

/// `entresol lab procfs`.
#[derive(Debug, Args)]
#[command(after_help = "Live figures are of this machine's CPUs and not judged.\n\n\
    Exit status: 1 if the cost model leaves the message's figures, or a live look-up failed.\n\n\
    Examples:\n  \
    entresol lab procfs                      on the terminal; a few seconds with the live runs\n  \
    entresol lab procfs --html page.html     and as a page")]
pub struct ProcfsArguments {
    /// Sizes of machines in the cost model
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [2, 8, 16, 32, 64, 128],
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cpus: Vec<u32>,
    /// Do not run the designs on this machine
    #[arg(long)]
    pub no_live: bool,
    /// Where the page goes
    #[command(flatten)]
    pub output: Output,
}

/// `entresol lab fair`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 1 if a design breaks the bounds that its page states.\n\n\
    Examples:\n  \
    entresol lab fair                        on the terminal; below a second\n  \
    entresol lab fair --tick 4000            with a tick of 4 ms, as many distributions have\n  \
    entresol lab fair --html page.html       and as a page")]
pub struct FairArguments {
    /// The time between two ticks, and the paper's quantum, in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(50..=10_000))]
    pub tick: u64,
    /// Nothing of this page is live; accepted as by the other pages
    #[arg(long, hide = true)]
    pub no_live: bool,
    /// Where the page goes
    #[command(flatten)]
    pub output: Output,
}
