//! `entresol timers`: the time of a process that runs under Entresol, asked from outside.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};

/// `entresol timers`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "No thread of the process stops for it.\n\nExamples:\n  \
        entresol timers 4711                       as /proc/4711/timers would show them\n  \
        entresol timers dump 4711 -o server.json   everything about its time, as JSON"
)]
pub struct TimersArguments {
    /// The process
    #[arg(required = true, value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write timers, interval timers, limits and clocks of CPU time as JSON
    Dump {
        /// The process
        #[arg(value_parser = clap::value_parser!(i32).range(1..))]
        pid: i32,
        /// A file instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Requests the timers of a process and prints them.
///
/// # Errors
/// The process does not answer, or the output cannot be written.
pub fn timers(request: &TimersArguments) -> anyhow::Result<i32> {
    match (&request.what, request.pid) {
        (Some(What::Dump { pid, output }), _) => {
            let json = api::outside::ask(*pid)?.to_json();
            match output {
                Some(file) => std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))?,
                None => std::io::stdout().write_all(json.as_bytes())?,
            }
        }
        (None, Some(pid)) => {
            let checkpoint = api::outside::ask(pid)?;
            let text: String = checkpoint.timers.iter().map(|timer| timer.proc_text(pid)).collect();
            std::io::stdout().write_all(text.as_bytes())?;
        }
        (None, None) => anyhow::bail!("which process?"),
    }
    Ok(0)
}
