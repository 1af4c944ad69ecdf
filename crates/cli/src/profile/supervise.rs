//! A program run as `run` does, by a child of this process, which waits and gets what images wrote down.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use anyhow::Context;
use tempfile::TempDir;

use crate::args::RunArguments;
use crate::run;

/// The child, for signals that are meant for it.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// The folder with a file for each process.
#[derive(Debug)]
pub struct Records(TempDir);

impl Records {
    /// The words of every process's file.
    pub fn read(&self) -> io::Result<Vec<Vec<u64>>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.0.path())? {
            let bytes = fs::read(entry?.path())?;
            files.push(bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect());
        }
        Ok(files)
    }
}

/// Runs the program to its end: its exit status as shells say it, and the records.
pub fn run(mut request: RunArguments) -> anyhow::Result<(i32, Records)> {
    let folder = tempfile::Builder::new().prefix("entresol-").tempdir().context("no place for records")?;
    request.records = Some(folder.path().to_owned());
    Ok((supervise(&request)?, Records(folder)))
}

fn supervise(request: &RunArguments) -> anyhow::Result<i32> {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context("cannot start a process"),
        0 => std::process::exit(run::run(request)),
        child => Ok(wait(child)),
    }
}

/// Waits for our child: its exit status as shells report it. Signals to this process are passed on to it.
pub fn wait(child: i32) -> i32 {
    CHILD.store(child, Relaxed);
    // The terminal signals the child directly; signals sent to this process are passed on to it.
    // SAFETY: the handler calls nothing but kill.
    unsafe {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
        for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
            libc::signal(signal, pass_on as *const () as libc::sighandler_t);
        }
    }
    let mut status = 0;
    // SAFETY: our own child and word.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return 1;
        }
    }
    if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

extern "C" fn pass_on(signal: i32) {
    // SAFETY: allowed in handlers.
    unsafe { libc::kill(CHILD.load(Relaxed), signal) };
}
