//! Programs that the image loads itself: it is executed in their place, with the program's file open.
//!
//! The arguments are those that the host would give the program, also for a script, whose words Linux puts in order itself. The
//! image's front page (`entresol_image::loader`) says what it does then.

use std::ffi::{CString, OsString};
use std::fmt::Write;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::environment::c_string;
use crate::program::Program;
use tool::machine::Catch;
use tool::resolve::executable;

/// The variable that carries the name of the executed file to the image.
const FILE: &str = "ENTRESOL_FILE";
/// The most bytes of a thread's name (`TASK_COMM_LEN`, without its zero).
const NAME_MAX: usize = 15;

/// Options for the image: how it catches, the program's descriptor, and the name that the process has by its file.
#[must_use]
pub fn options(program: &Program, executed: &Path, catch: Catch) -> String {
    let mut text = String::new();
    if let Catch::Filter { is_there } = catch {
        text.push_str(if is_there { ";catch=seccomp" } else { ";catch=seccomp;filter=1" });
    }
    let _ = write!(text, ";program={};name=", program.file.as_raw_fd());
    let name = executed.file_name().unwrap_or_default().as_bytes();
    for byte in name.iter().take(NAME_MAX) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The entry of the environment that says what was executed.
#[must_use]
pub fn file(executed: &Path) -> CString {
    let mut entry = OsString::from(FILE);
    entry.push("=");
    entry.push(executed);
    c_string(&entry)
}

/// The program's arguments.
#[must_use]
pub fn arguments(program: &Program, command: &[OsString]) -> Vec<CString> {
    let replaced = if program.words.is_empty() { &command[..1] } else { &program.words };
    replaced.iter().chain(&command[1..]).map(|word| c_string(word)).collect()
}

/// Whether the host would execute the file, which only the image opens: its mode, and its file system's options.
///
/// # Errors
/// EACCES, as by `execve(2)`.
pub fn check(program: &Program) -> io::Result<()> {
    let fd = program.file.as_raw_fd();
    // SAFETY: all zeroes are a value of this structure of numbers.
    let mut system: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is ours.
    let known = unsafe { libc::fstatvfs(fd, &raw mut system) == 0 };
    let flags = libc::AT_EACCESS | libc::AT_EMPTY_PATH;
    // SAFETY: an empty path means the descriptor.
    let allowed = match unsafe { libc::faccessat(fd, c"".as_ptr(), libc::X_OK, flags) } {
        0 => true,
        _ if io::Error::last_os_error().raw_os_error() == Some(libc::EACCES) => false,
        // About the call, which a sandbox may not know.
        _ => executable(&program.binary).is_ok(),
    };
    match allowed && !(known && system.f_flag & libc::ST_NOEXEC != 0) {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EACCES)),
    }
}

/// Lets the image find the file open.
pub fn hand_on(program: &Program) {
    // SAFETY: changes a flag of a descriptor of ours.
    unsafe { libc::fcntl(program.file.as_raw_fd(), libc::F_SETFD, 0) };
}
