//! Asking another process, by a signal that its service thread takes (`abi::checkpoint::request`).

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd};
use std::thread;
use std::time::{Duration, Instant};

use abi::checkpoint::request::{self, Item};
use abi::checkpoint::{ProcessRecord, ThreadRecord, TimerRecord, VERSION};

use crate::Checkpoint;

/// So long an answer may take to begin, or to go on.
const PATIENCE: Duration = Duration::from_secs(5);
/// After this without a word it is asked again: a process that has just begun ignores the signal.
const AGAIN: Duration = Duration::from_millis(250);

/// Why a process was not asked, or has not answered.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// There is none of that id, or it may not be looked at.
    #[error("process {0}: {1}")]
    NoProcess(i32, io::Error),
    /// It is not ours to ask.
    #[error("process {0} does not run under Entresol")]
    NotOurs(i32),
    /// It is not ours to ask.
    #[error("process {0} has not answered within {1} s: it reads SIGURG itself, or its image is an older one")]
    Silent(i32, u64),
    /// It speaks another version.
    #[error("process {0} answers in version {1}, this reads {VERSION}")]
    OtherVersion(i32, u64),
    /// It has ended, or its image is broken.
    #[error("the answer of process {0} is not one: {1}")]
    Nonsense(i32, &'static str),
    /// Something of our own.
    #[error("{0}")]
    Own(#[from] io::Error),
}

/// Asks a process for its time. None of its threads stops for it.
///
/// # Errors
/// [`NoAnswer`]. The request is SIGURG, which does nothing to a process that does not know it.
pub fn ask(pid: i32) -> Result<Checkpoint, NoAnswer> {
    if !has_image(pid).map_err(|e| NoAnswer::NoProcess(pid, e))? {
        return Err(NoAnswer::NotOurs(pid));
    }
    let since = Instant::now();
    // Each request has a file of its own, which stays open: an answer that comes late disturbs no other.
    let mut asked = Vec::new();
    loop {
        let mut answer = nameless_file()?;
        send(pid, answer.as_raw_fd()).map_err(|e| NoAnswer::NoProcess(pid, e))?;
        match await_end(pid, &mut answer)? {
            Some(bytes) => return read(pid, &bytes),
            None if since.elapsed() > PATIENCE => return Err(NoAnswer::Silent(pid, PATIENCE.as_secs())),
            None => asked.push(answer),
        }
    }
}

/// Whether a process has the image, and so runs under Entresol.
///
/// # Errors
/// There is no such process, or it may not be looked at.
pub fn has_image(pid: i32) -> io::Result<bool> {
    Ok(std::fs::read_to_string(format!("/proc/{pid}/maps"))?.contains("/libentresol-"))
}

pub(crate) fn nameless_file() -> io::Result<File> {
    // SAFETY: the name ends with a zero.
    let fd = unsafe { libc::memfd_create(c"entresol-time".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn send(pid: i32, descriptor: i32) -> io::Result<()> {
    let value = libc::sigval { sival_ptr: request::value(descriptor) as *mut libc::c_void };
    // SAFETY: a signal that is ignored unless somebody wants it.
    if unsafe { libc::sigqueue(pid, request::SIGNAL, value) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Everything up to the end item, which is known by its bytes at a place where an item begins; `None` if the answer
/// has not begun after a while.
fn await_end(pid: i32, answer: &mut File) -> Result<Option<Vec<u8>>, NoAnswer> {
    let (mut bytes, mut looked, mut since) = (Vec::new(), 0, Instant::now());
    loop {
        answer.seek(io::SeekFrom::Start(bytes.len() as u64))?;
        if answer.read_to_end(&mut bytes)? > 0 {
            since = Instant::now();
        }
        while let Some((kind, size)) = header(&bytes[looked..]) {
            if kind == Item::End as u32 {
                return Ok(Some(bytes));
            }
            if bytes.len() < looked + 8 + size {
                break;
            }
            looked += 8 + size;
        }
        if bytes.is_empty() && since.elapsed() > AGAIN {
            return Ok(None);
        }
        if since.elapsed() > PATIENCE {
            return Err(NoAnswer::Silent(pid, PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn header(bytes: &[u8]) -> Option<(u32, usize)> {
    let header = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    Some((header as u32, (header >> 32) as usize))
}

fn read(pid: i32, bytes: &[u8]) -> Result<Checkpoint, NoAnswer> {
    let (mut process, mut threads, mut timers) = (None, Vec::new(), Vec::new());
    let nonsense = |what| NoAnswer::Nonsense(pid, what);
    let mut rest = bytes;
    while let Some((kind, size)) = header(rest) {
        let item = rest.get(8..8 + size).ok_or(nonsense("it is cut"))?;
        rest = &rest[8 + size..];
        let wrong = |_| nonsense("a record has another size");
        match kind {
            k if k == Item::Version as u32 => {
                let version = u64::from_le_bytes(item.try_into().map_err(wrong)?);
                if version != VERSION {
                    return Err(NoAnswer::OtherVersion(pid, version));
                }
            }
            k if k == Item::Process as u32 => {
                process = Some(ProcessRecord::from_bytes(item.try_into().map_err(wrong)?))
            }
            k if k == Item::Thread as u32 => threads.push(ThreadRecord::from_bytes(item.try_into().map_err(wrong)?)),
            k if k == Item::Timer as u32 => timers.push(TimerRecord::from_bytes(item.try_into().map_err(wrong)?)),
            _ => {}
        }
    }
    let process = process.ok_or(nonsense("there is no process in it"))?;
    Ok(Checkpoint::new(&process, &threads, &timers))
}
