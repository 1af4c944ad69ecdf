//! The `entresol` command.
//!
//! [`args`] declares the command line; each command is a module or a crate of its own:
//!
//! - [`run`] finds the program ([`tool::resolve`]), checks what it is ([`program`]) and what this machine allows
//!   ([`tool::machine`]), puts the embedded image where the dynamic linker can load it ([`install`], [`plans`]), sets the
//!   environment ([`environment`]) and becomes the program by execve. So the process id, exit status, signals and
//!   streams are the program's own; no parent gets in the way.
//! - [`profile`](mod@profile) runs a program in a child process and makes a profile of the image's samples.
//! - [`chaos`](mod@chaos) runs a program under many controlled schedules, each in a child process.
//! - [`doctor`] prints each of these checks as a line.
//! - [`mount`](mod@mount) serves the host's `/proc` with the threads in it, in a folder or over a command's own `/proc`.
//! - [`gdb`] starts gdb with commands that find parked threads in a stopped process.
//!
//! **May touch:** files, the terminal and child processes. Nothing of a running program but what its state page shows.
//!
//! **Start reading at** [`args`], then [`run`].
//!
//! `ps`, `threads`, `top`, `export` and `timers`, which show running processes, are crate `observe`. `bench`, `demo` and the
//! measuring programs are crate `bench`, `sim` is crate `simulate`, `lab` is crate `laboratory`.

pub mod args;
pub mod chaos;
pub mod doctor;
pub mod embedded;
pub mod environment;
pub mod gdb;
pub mod inherited;
pub mod install;
pub mod later;
pub mod limits;
pub mod load;
pub mod mount;
pub mod plans;
pub mod profile;
pub mod program;
pub mod run;
mod seal;
mod stack;
pub mod trace;
mod unentered;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser};

use args::{Arguments, ImageArguments, Task};
use tool::style;

/// Exit status of `run` when Entresol itself is the reason, as `env`, `nice` and `timeout` use it.
pub const STATUS_REFUSED: i32 = 125;

/// Parses the command line, runs the task and returns the exit status.
#[must_use]
pub fn main() -> ExitCode {
    inherited::restore_pipe();
    ExitCode::from(u8::try_from(stack::with_room(command)).unwrap_or(1))
}

fn command() -> i32 {
    match Arguments::try_parse() {
        Ok(arguments) => perform(arguments.task).unwrap_or_else(|error| {
            style::complain(&format!("{error:#}"));
            1
        }),
        Err(error) => usage(&error),
    }
}

fn perform(task: Task) -> anyhow::Result<i32> {
    match task {
        Task::Run(request) => Ok(run::run(&request)),
        Task::Profile(request) => profile::profile(&request),
        Task::Chaos(request) => Ok(chaos::chaos(&request)),
        Task::Doctor(request) => doctor::doctor(request.program.as_deref()),
        Task::Demo(request) => bench::demo::demo(&request),
        Task::Bench(request) => bench::bench(&request),
        Task::Threads(request) => observe::threads::threads(&request),
        Task::Gdb(request) => gdb::gdb(&request),
        Task::Ps(request) => observe::ps::ps(&request),
        Task::Top(request) => observe::top::top(&request),
        Task::Export(request) => observe::export::export(&request),
        Task::Mount(request) => mount::mount(&request),
        Task::Proc(request) => Ok(mount::command::run(&request)),
        Task::Lab(request) => laboratory::laboratory(&request),
        Task::Compare(request) => simulate::compare::compare(&request),
        Task::Sim(request) => Ok(simulate::simulate(&request)),
        Task::Timers(request) => observe::timers::timers(&request),
        Task::Probe(request) => Ok(bench::probe::probe(request.name, request.quick, &request.parameters)),
        Task::Completions(request) => completions(request.shell),
        Task::Manual(request) => manual(&request.folder),
        Task::Image(request) => image(&request),
    }
}

/// Prints clap's message. A mistake in the options of `run` must not look like the program's own status 2.
fn usage(error: &clap::Error) -> i32 {
    let printed = error.print();
    if let Err(why) = printed
        && !error.use_stderr()
    {
        style::complain(&format!("cannot write the answer: {why}"));
        return 1;
    }
    let asked_for_run = std::env::args_os()
        .nth(1)
        .is_some_and(|task| ["run", "profile", "proc", "chaos"].iter().any(|name| task == *name));
    if error.use_stderr() && asked_for_run { STATUS_REFUSED } else { error.exit_code() }
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<i32> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut later::at_once(Arguments::command), "entresol", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(0)
}

fn manual(folder: &Path) -> anyhow::Result<i32> {
    let pages = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(later::at_once(Arguments::command), folder));
    pages.with_context(|| format!("cannot write the manual to {}", folder.display()))?;
    Ok(0)
}

fn image(request: &ImageArguments) -> anyhow::Result<i32> {
    let path = &request.path;
    let written = if request.folder { install::install_into(path) } else { std::fs::write(path, embedded::IMAGE) };
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(0)
}
