//! The `entresol` command.
//!
//! [`args`] says what can be asked; each answer is a module of its own:
//!
//! - [`run`] finds the program ([`resolve`]), looks at what it is ([`program`]) and at what this machine allows
//!   ([`machine`]), puts the embedded image where the dynamic linker can load it ([`install`], [`plans`]), sets the
//!   environment ([`environment`]) and becomes the program by execve. So its process id, exit status, signals and
//!   streams are the program's own; there is no parent that could get in the way.
//! - [`profile`](mod@profile) runs a program in the same way, in a child process, and makes a profile of what its image writes down.
//! - [`doctor`] prints every one of these checks as a line.
//! - [`probe`] holds small programs that measure with the host's clock and know nothing of Entresol; [`mod@bench`] and
//!   [`demo`] run each of them natively and under `run`, by turns.
//! - [`timers`] asks a process that runs under Entresol for its timers.
//! - [`pages`] reads what running processes publish: `threads`, `ps`; [`mod@top`] and [`mod@export`] do so, too.
//! - [`mount`](mod@mount) serves the host's `/proc` with the threads in it, in a folder or over a command's own `/proc`.
//! - [`gdb`] starts gdb with commands that find parked threads in a stopped process.
//! - [`simulate`] runs the same kernel on simulated CPUs; [`laboratory`] compares it with what went before.

pub mod args;
pub mod bench;
pub mod demo;
pub mod doctor;
pub mod embedded;
pub mod environment;
pub mod export;
pub mod gdb;
pub mod inherited;
pub mod install;
pub mod laboratory;
pub mod later;
pub mod limits;
pub mod machine;
pub mod mount;
pub mod pages;
pub mod plans;
pub mod probe;
pub mod profile;
pub mod program;
pub mod resolve;
pub mod run;
pub mod simulate;
mod style;
pub mod timers;
pub mod top;
pub mod trace;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Arguments, Task};

/// Exit status of `run` when Entresol itself is the reason, as `env`, `nice` and `timeout` use it.
pub const STATUS_REFUSED: i32 = 125;

/// Reads the command line, does what it asks and answers the exit status.
#[must_use]
pub fn main() -> ExitCode {
    inherited::restore_pipe();
    let status = match Arguments::try_parse() {
        Ok(arguments) => perform(arguments.task).unwrap_or_else(|error| {
            style::complain(&format!("{error:#}"));
            1
        }),
        Err(error) => usage(&error),
    };
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}

fn perform(task: Task) -> anyhow::Result<i32> {
    match task {
        Task::Run(request) => Ok(run::run(&request)),
        Task::Profile(request) => profile::profile(&request),
        Task::Doctor(request) => Ok(doctor::doctor(request.program.as_deref())),
        Task::Demo(request) => demo::demo(&request),
        Task::Bench(request) => bench::bench(&request),
        Task::Threads(request) => pages::threads::threads(&request),
        Task::Gdb(request) => gdb::gdb(&request),
        Task::Ps(request) => pages::ps::ps(&request),
        Task::Top(request) => top::top(&request),
        Task::Export(request) => export::export(&request),
        Task::Mount(request) => mount::mount(&request),
        Task::Proc(request) => Ok(mount::command::run(&request)),
        Task::Lab(request) => laboratory::laboratory(&request),
        Task::Sim(request) => Ok(simulate::simulate(&request)),
        Task::Timers(request) => timers::timers(&request),
        Task::Probe(request) => Ok(probe::probe(request.name, request.quick, &request.parameters)),
        Task::Completions(request) => completions(request.shell),
        Task::Image(request) => image(&request.file),
    }
}

/// Prints clap's message. A mistake in the options of `run` must not look like the program's own status 2.
fn usage(error: &clap::Error) -> i32 {
    let _ = error.print();
    let asked_for_run =
        std::env::args_os().nth(1).is_some_and(|task| ["run", "profile", "proc"].iter().any(|name| task == *name));
    if error.use_stderr() && asked_for_run { STATUS_REFUSED } else { error.exit_code() }
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<i32> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut later::at_once(Arguments::command), "entresol", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(0)
}

fn image(file: &Path) -> anyhow::Result<i32> {
    use anyhow::Context;
    std::fs::write(file, embedded::IMAGE).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(0)
}
