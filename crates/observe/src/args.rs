//! The arguments of the commands that show processes.

use crate::top::view::Key;
use clap::Args;
use watch::column::{Column, SortKey};

/// `entresol threads`.
#[derive(Debug, Args)]
#[command(
    after_help = "S is R for running, Q for queued for a CPU, H for a host call, S for any other wait. TIME and QUEUED are \
        seconds: CPU time, and time in queues for a CPU. VOL counts waits, INVOL preemptions and yields, MIG \
        changes of CPU.\n\n\
        Examples:\n  \
        entresol threads 1234\n  \
        entresol threads 1234 --stack    with the functions that each is in\n  \
        entresol threads 1234 --json"
)]
pub struct ThreadsArguments {
    /// The process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// Under each thread that has no CPU the functions that it is in
    #[arg(long, conflicts_with = "json")]
    pub stack: bool,
    /// As JSON; times in nanoseconds
    #[arg(long)]
    pub json: bool,
}

/// `entresol ps`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0, also if there are none; 1 if a process that was asked for cannot be shown.\n\n\
        Examples:\n  \
        entresol ps                                    all of them\n  \
        entresol ps --sort=-time | head                who has consumed most\n  \
        entresol ps -p 1234 -o tid,name,state,wait     some columns of one process\n  \
        entresol ps --json -o pid,tid,time             for programs; times in nanoseconds"
)]
pub struct PsArguments {
    /// Only these processes
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Vec<i32>,
    /// The columns to show
    #[arg(short = 'o', long = "format", value_name = "COLUMNS", value_delimiter = ',')]
    pub columns: Vec<Column>,
    /// Columns to sort by, the first one above all; with a minus the largest first
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', allow_hyphen_values = true)]
    pub sort: Vec<SortKey>,
    /// As JSON; times in nanoseconds
    #[arg(long)]
    pub json: bool,
    /// No line of headings
    #[arg(long = "no-headers")]
    pub no_headings: bool,
}

/// `entresol top`.
#[derive(Debug, Args)]
#[command(after_help = "Keys: h shows them, q leaves.\n\n\
        Examples:\n  \
        entresol top\n  \
        entresol top --interval 0.2 --sort queued    who waits for a CPU\n  \
        entresol top --once --json -p 1234           once, for programs")]
pub struct TopArguments {
    /// Only these processes
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Vec<i32>,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: f64,
    /// The order [default: cpu]
    #[arg(long, value_name = "KEY")]
    pub sort: Option<Key>,
    /// Only names and ids with this text in them
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Print what happened in one interval, and end
    #[arg(long)]
    pub once: bool,
    /// The same as JSON
    #[arg(long)]
    pub json: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.01..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("from 0.01 to 3600 seconds".to_owned()) }
}

/// `entresol export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        entresol export                            once, on standard output\n  \
        entresol export --listen 127.0.0.1:9099    for Prometheus: http://127.0.0.1:9099/metrics\n  \
        entresol export --listen 0.0.0.0:9099 --host metrics.example.org\n  \
        entresol export --processes                no figures of single threads")]
pub struct ExportArguments {
    /// Serve them by HTTP at this address, to all that can reach it
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<std::net::SocketAddr>,
    /// A name by which clients may ask for this machine, beside its addresses, its own name and localhost
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub host: Vec<String>,
    /// Figures of processes and CPUs only: single threads make many series
    #[arg(long)]
    pub processes: bool,
}
