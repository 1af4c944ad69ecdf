//! Hot restart: timers outlive the program that made them.
//!
//! ```no_run
//! use entresol_api::restart;
//!
//! // At the start: the timers of the program before this one.
//! if let Some(left) = restart::inherited().expect("a good checkpoint") {
//!     restart::restore(&left, restart::same_threads).expect("all timers are back");
//! }
//! // Later: become the new program. This returns only if it fails; the timers are restored then.
//! let error = restart::exec(&mut std::process::Command::new("/proc/self/exe"));
//! eprintln!("no restart: {error}");
//! ```
//! Signals delivered before [`save`] belong to the old program, later ones to the new one: block the
//! timers' signals first, and install the new handlers before [`restore`]. Timers that another thread makes
//! in between are lost with the old program.

use std::env;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use abi::checkpoint::TimerRecord;

use crate::checkpoint::boot;
use crate::outside::nameless_file;
use crate::{Checkpoint, Damaged, Unavailable, calls};

/// The variable that names the descriptor of the checkpoint.
const VARIABLE: &str = "ENTRESOL_TIME_FD";

/// Takes all timers of this process: a signal of theirs is either delivered by now, or in the checkpoint.
///
/// # Errors
/// Outside Entresol.
pub fn save() -> Result<Checkpoint, Unavailable> {
    copy(true)
}

/// As [`save`], but the timers stay.
///
/// # Errors
/// Outside Entresol.
pub fn look() -> Result<Checkpoint, Unavailable> {
    copy(false)
}

fn copy(take: bool) -> Result<Checkpoint, Unavailable> {
    let process = calls::process()?;
    Ok(Checkpoint::new(&process, &[], &calls::copy_timers(take)?))
}

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum NotRestored {
    /// Outside Entresol.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The checkpoint is refused.
    #[error("the checkpoint is damaged: {0}")]
    Damaged(#[from] Damaged),
    /// No thread here replaces a thread of the checkpoint.
    #[error("timer {id} belongs to thread {tid}, and no thread here stands in for it")]
    NoOwner {
        /// The timer.
        id: i32,
        /// The thread of then.
        tid: i32,
    },
    /// The kernel refuses a timer.
    #[error("timer {id}: {error}")]
    Timer {
        /// The timer.
        id: i32,
        /// EBUSY: the id is taken; EAGAIN: the limit on pending signals; EINVAL.
        error: io::Error,
    },
}

/// For [`restore`] in the same process: only the main thread, which keeps its id, gets the timers of the old main
/// thread.
#[must_use]
pub fn same_threads(tid: i32) -> Option<i32> {
    (tid == std::process::id() as i32).then_some(tid)
}

/// Makes all timers of the checkpoint, or none. `stands_in` returns the thread that replaces a thread of the
/// checkpoint.
///
/// # Errors
/// [`NotRestored`]; then nothing has changed and nothing has expired.
pub fn restore(from: &Checkpoint, stands_in: impl Fn(i32) -> Option<i32>) -> Result<(), NotRestored> {
    let process = calls::process()?;
    // After another boot, times of clocks that begin at the boot are shifted to what the clocks read now.
    let same_boot = from.boot == boot();
    let shift = |then: u64, now: ids::Nanos| if same_boot { 0 } else { now.0 as i64 - then as i64 };
    let monotonic = shift(from.clocks.monotonic, process.clocks[0]);
    let boottime = shift(from.clocks.boottime, process.clocks[2]);
    let mut records = Vec::with_capacity(from.timers.len());
    // The oldest first, so that they are listed in the same order.
    for timer in from.timers.iter().rev() {
        let mut record = timer.to_record();
        let owner = |tid: i32| match tid {
            0 => Ok(0),
            tid => stands_in(tid).ok_or(NotRestored::NoOwner { id: timer.id, tid }),
        };
        record.tid = owner(record.tid)?;
        record.clock_tid = owner(record.clock_tid)?;
        record.clock = clock_here(&record, from.pid);
        let shift = match (record.clock, timer.absolute) {
            (1, _) | (0, false) => monotonic,
            (7, _) => boottime,
            _ => 0,
        };
        record.expires = ids::Nanos(record.expires.0.saturating_add_signed(shift).max(1));
        records.push(record);
    }
    let refused = |failed: calls::NotMade| NotRestored::Timer { id: records[failed.at].id, error: failed.error };
    calls::make_timers(&records).map_err(refused)?;
    calls::start_timers(&records).map_err(refused)?;
    Ok(calls::set_next_id(from.next_id)?)
}

/// The clock's number in this process: threads and the process itself may be called otherwise.
fn clock_here(record: &TimerRecord, pid: i32) -> i32 {
    let encoded = |id: i32, rest: i32| (!id << 3) | rest;
    match record.clock {
        libc::CLOCK_THREAD_CPUTIME_ID => encoded(record.clock_tid, 4 | 2),
        clock if clock < 0 && record.clock_tid > 0 => encoded(record.clock_tid, clock & 7),
        clock if clock < 0 && !(clock >> 3) == pid => encoded(0, clock & 7),
        clock => clock,
    }
}

/// Becomes another program, which finds the timers by [`inherited`]. Returns if that fails: the timers are back then,
/// or, should that fail as well, the error says so.
pub fn exec(command: &mut Command) -> io::Error {
    let saved = match save() {
        Ok(saved) => saved,
        Err(error) => return io::Error::other(error),
    };
    let error = match hand_over(&saved, command) {
        Ok(file) => {
            let error = command.exec();
            drop(file);
            error
        }
        Err(error) => error,
    };
    match restore(&saved, Some) {
        Ok(()) => error,
        Err(lost) => io::Error::other(format!("{error}; and the timers are lost: {lost}")),
    }
}

/// Gives a checkpoint to a program that is about to be executed. The file must stay open until then.
fn hand_over(saved: &Checkpoint, command: &mut Command) -> io::Result<File> {
    let mut file = nameless_file()?;
    file.write_all(saved.to_json().as_bytes())?;
    // SAFETY: exec is to leave it open.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    command.env(VARIABLE, file.as_raw_fd().to_string());
    Ok(file)
}

/// The checkpoint that the program before this one has left, once: this removes the variable and the file.
///
/// # Errors
/// There is one, and it cannot be read or is damaged.
pub fn inherited() -> Result<Option<Checkpoint>, NotInherited> {
    let Some(number) = env::var_os(VARIABLE) else { return Ok(None) };
    // SAFETY: as for every change of the environment, no other thread may read it meanwhile; that is for the start.
    unsafe { env::remove_var(VARIABLE) };
    let number: i32 = number.to_str().and_then(|n| n.parse().ok()).ok_or(NotInherited::NoDescriptor)?;
    // SAFETY: `exec` has left this descriptor for us.
    let mut file = unsafe { File::from_raw_fd(number) };
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(Some(Checkpoint::from_json(&text)?))
}

/// Why an inherited checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NotInherited {
    /// The variable holds no number.
    #[error("{VARIABLE} holds no descriptor")]
    NoDescriptor,
    /// Reading failed.
    #[error("{VARIABLE}: {0}")]
    Unreadable(#[from] io::Error),
    /// It is refused.
    #[error("the checkpoint is damaged: {0}")]
    Damaged(#[from] Damaged),
}
