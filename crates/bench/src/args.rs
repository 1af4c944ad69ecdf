//! The options of `entresol bench`, `demo` and `probe`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::probe::Probe;
use crate::servers::ServersArguments;

/// `entresol demo`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  entresol demo\n  entresol demo --cpus 1")]
pub struct DemoArguments {
    /// Number of CPUs for Entresol's side [default: as many as affinity mask and cgroup quota allow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ids::CPUS_MAX as i64))]
    pub cpus: Option<u32>,
}

/// `entresol bench`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  entresol bench\n  entresol bench threads --quick --json figures.json\n  \
        entresol bench servers"
)]
pub struct BenchArguments {
    /// Something with figures of its own
    #[command(subcommand)]
    pub of: Option<BenchTask>,
    /// The groups to measure [default: everything]
    #[arg(value_name = "GROUP", value_parser = crate::group_names())]
    pub groups: Vec<String>,
    /// Fewer repetitions: at most two minutes instead of ten
    #[arg(long)]
    pub quick: bool,
    /// Write the figures to a file as well
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The measurements of `entresol bench` that are not groups of single figures.
#[derive(Debug, Subcommand)]
pub enum BenchTask {
    /// Servers with a thread for each connection, beside native ones and beside Go and tokio
    Servers(ServersArguments),
}

/// `entresol probe`.
#[derive(Debug, Args)]
pub struct ProbeArguments {
    /// Which one
    pub name: Probe,
    /// Fewer repetitions
    #[arg(long)]
    pub quick: bool,
    /// Arguments for the probe, if it takes any
    #[arg(value_name = "NAME=VALUE")]
    pub parameters: Vec<String>,
}
