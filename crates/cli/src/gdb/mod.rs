//! `entresol gdb`: gdb on a process, with commands for threads that have no CPU.
//!
//! The host knows carriers only, and so does gdb. A thread that waits is a context in the image's memory; the script
//! finds all of them by the table that the image publishes for it (`crates/host/src/process/debugger.rs`), and lets gdb unwind
//! from such a context instead of the host thread's registers. Nothing is written to the process.

use crate::args::GdbArguments;
use anyhow::{Context, bail};
use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use watch::find;

/// The commands.
const SCRIPT: &str = include_str!("threads.gdb");

/// Becomes gdb.
///
/// # Errors
/// The reason why it does not.
pub fn gdb(request: &GdbArguments) -> anyhow::Result<i32> {
    let Some(pid) = request.pid else {
        std::io::stdout().write_all(SCRIPT.as_bytes())?;
        return Ok(0);
    };
    if find::one(pid).is_none() {
        bail!("process {pid} does not run under Entresol, or is not yours");
    }
    let script = script()?;
    let error = Command::new("gdb")
        .args(["-q", "-p", &pid.to_string(), "-x", &format!("/proc/self/fd/{}", script.as_raw_fd())])
        .args(&request.arguments)
        .exec();
    Err(error).context("cannot execute gdb (on Debian: apt install gdb)")
}

/// The script as a file without a name that gdb inherits.
fn script() -> anyhow::Result<std::fs::File> {
    let name = CString::new("entresol-gdb")?;
    // SAFETY: the name is a string; the descriptor is nobody else's.
    let mut file = unsafe {
        match libc::memfd_create(name.as_ptr(), 0) {
            fd @ 0.. => std::fs::File::from_raw_fd(fd),
            _ => return Err(std::io::Error::last_os_error()).context("cannot make a file for the script"),
        }
    };
    file.write_all(SCRIPT.as_bytes())?;
    Ok(file)
}
