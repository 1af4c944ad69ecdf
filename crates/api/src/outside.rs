//! Requests to another process, by a signal that its service thread takes (`abi::checkpoint::request`).
//!
//! The process may be hostile. So the signal is one that is ignored by default, it is sent only to a process that maps
//! the image, and through a descriptor of that very process. The process answers with a file, of which a limited length
//! is read.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, BufRead, BufReader, IoSliceMut, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use abi::checkpoint::request::{self, Item};
use abi::checkpoint::{ProcessRecord, ThreadRecord, TimerRecord, VERSION};

use crate::Checkpoint;

/// The time limit for an answer.
const PATIENCE: Duration = Duration::from_millis(900);
/// The time after which a silent process is asked again: one that has just started ignores the signal.
const AGAIN: Duration = Duration::from_millis(250);
/// The longest answer: some 140,000 timers or 390,000 threads.
const ANSWER_MAX: u64 = 12 << 20;
/// The most of `/proc/PID/maps` that is searched for the image.
const MAPS_MAX: u64 = 16 << 20;

/// Why a process was not asked, or has not answered.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// There is no process with that id, or it may not be inspected.
    #[error("process {0}: {1}")]
    NoProcess(i32, io::Error),
    /// It is not ours to ask.
    #[error("process {0} does not run under Entresol")]
    NotOurs(i32),
    /// It is not ours to ask.
    #[error(
        "process {0} has not answered within {1} ms: it is stopped, reads SIGURG itself, has another network namespace, or its \
         image is an older one"
    )]
    Silent(i32, u128),
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

/// A process that maps the image. A signal reaches this process or none, even if its id is reused.
#[derive(Debug)]
pub struct Target(OwnedFd);

impl Target {
    /// The process of this id, if it carries the image.
    ///
    /// # Errors
    /// [`NoAnswer::NoProcess`] or [`NoAnswer::NotOurs`].
    pub fn open(pid: i32) -> Result<Target, NoAnswer> {
        // SAFETY: a new descriptor, or an error.
        let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if process < 0 {
            return Err(NoAnswer::NoProcess(pid, io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new and ours.
        let process = unsafe { OwnedFd::from_raw_fd(process as i32) };
        // If the id has been given again since, the descriptor is of a process that is gone, and no signal arrives.
        match has_image(pid) {
            Ok(true) => Ok(Target(process)),
            Ok(false) => Err(NoAnswer::NotOurs(pid)),
            Err(error) => Err(NoAnswer::NoProcess(pid, error)),
        }
    }

    /// Sends a request. A process that does not know it ignores it, or handles SIGURG itself.
    ///
    /// # Errors
    /// The process is gone, or belongs to another user.
    pub fn send(&self, value: u64) -> io::Result<()> {
        let mut info = [0_u8; 128];
        info[0..4].copy_from_slice(&request::SIGNAL.to_ne_bytes());
        info[8..12].copy_from_slice(&libc::SI_QUEUE.to_ne_bytes());
        info[24..32].copy_from_slice(&value.to_ne_bytes());
        // SAFETY: the host copies the information.
        let sent = unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), request::SIGNAL, info.as_ptr(), 0)
        };
        if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Asks a process for its time. None of its threads stops for it.
///
/// # Errors
/// [`NoAnswer`]. The request is SIGURG, which does nothing to a process that does not know it.
pub fn ask(pid: i32) -> Result<Checkpoint, NoAnswer> {
    let target = Target::open(pid)?;
    let (number, listener) = listen()?;
    let since = Instant::now();
    let mut next = since;
    loop {
        if Instant::now() >= next {
            target.send(request::value(number)).map_err(|e| NoAnswer::NoProcess(pid, e))?;
            next += AGAIN;
        }
        match listener.accept() {
            // Any process can connect: only the answer of `pid` counts.
            Ok((stream, _)) if peer(&stream)? == pid => {
                if let Some(file) = receive(&stream)? {
                    return read(pid, &bytes(pid, file)?);
                }
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error.into()),
        }
        if since.elapsed() > PATIENCE {
            return Err(NoAnswer::Silent(pid, PATIENCE.as_millis()));
        }
    }
}

/// Whether a process has the image, and so runs under Entresol.
///
/// # Errors
/// There is no such process, or it may not be inspected.
pub fn has_image(pid: i32) -> io::Result<bool> {
    let mut maps = BufReader::new(File::open(format!("/proc/{pid}/maps"))?.take(MAPS_MAX));
    let mut line = Vec::new();
    while maps.read_until(b'\n', &mut line)? > 0 {
        if is_image(&line) {
            return Ok(true);
        }
        line.clear();
    }
    Ok(false)
}

/// Whether a line of `/proc/PID/maps` maps the image's code.
fn is_image(line: &[u8]) -> bool {
    let executable = line.split(|&b| b == b' ').nth(1).is_some_and(|rights| rights.get(2) == Some(&b'x'));
    let Some(start) = line.iter().position(|&b| b == b'/').filter(|_| executable) else { return false };
    let name = line[start..].trim_ascii_end().rsplit(|&b| b == b'/').next().unwrap_or_default();
    name.starts_with(b"libentresol-") && name.ends_with(b".so")
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

/// A socket for answers, and its number, which is part of its name.
fn listen() -> io::Result<(u32, UnixListener)> {
    loop {
        let number = RandomState::new().hash_one(std::process::id()) as u32;
        // The first byte says that the name is abstract; the library adds it.
        let name = request::name(number);
        match UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name[1..])?) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return Ok((number, listener));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
}

/// The process at the other end.
fn peer(stream: &UnixStream) -> io::Result<i32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the host fills our words.
    let r = unsafe {
        let to = (&raw mut peer).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut size)
    };
    if r == 0 { Ok(peer.pid) } else { Err(io::Error::last_os_error()) }
}

/// The file that comes with a byte; the process sends both at once, or closes.
fn receive(stream: &UnixStream) -> io::Result<Option<File>> {
    stream.set_read_timeout(Some(AGAIN))?;
    let mut control = [0_u64; 8];
    let mut byte = [0];
    let mut part = [IoSliceMut::new(&mut byte)];
    // SAFETY: zeros are a valid header; the host writes to our buffers, and what it says of them is looked at.
    unsafe {
        let mut message = std::mem::zeroed::<libc::msghdr>();
        message.msg_iov = part.as_mut_ptr().cast();
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        if libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) != 1 {
            return Ok(None);
        }
        let rights = libc::CMSG_FIRSTHDR(&raw const message);
        if rights.is_null() || (*rights).cmsg_type != libc::SCM_RIGHTS {
            return Ok(None);
        }
        // Further descriptors would stay open; this process ends soon.
        Ok(Some(File::from_raw_fd(libc::CMSG_DATA(rights).cast::<i32>().read_unaligned())))
    }
}

/// The file's bytes, if they can be an answer.
fn bytes(pid: i32, mut file: File) -> Result<Vec<u8>, NoAnswer> {
    use std::io::Seek;
    let found = file.metadata()?;
    if !found.is_file() || found.len() > ANSWER_MAX {
        return Err(NoAnswer::Nonsense(pid, "it is no file, or too long"));
    }
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(ANSWER_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn header(bytes: &[u8]) -> Option<(u32, usize)> {
    let header = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    Some((header as u32, (header >> 32) as usize))
}

/// Reads an answer, which may be anything.
fn read(pid: i32, bytes: &[u8]) -> Result<Checkpoint, NoAnswer> {
    let (mut process, mut threads, mut timers) = (None, Vec::new(), Vec::new());
    let nonsense = |what| NoAnswer::Nonsense(pid, what);
    let mut rest = bytes;
    let mut is_whole = false;
    while let Some((kind, size)) = header(rest).filter(|_| !is_whole) {
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
            k if k == Item::End as u32 => is_whole = true,
            _ => {}
        }
    }
    if !is_whole {
        return Err(nonsense("it has no end"));
    }
    let process = process.ok_or(nonsense("there is no process in it"))?;
    Ok(Checkpoint::new(&process, &threads, &timers))
}
