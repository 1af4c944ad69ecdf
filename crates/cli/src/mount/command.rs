//! `entresol proc`: a command with the tree over its `/proc`.
//!
//! This process serves the tree and stays in its namespaces, with the host's `/proc`. A child enters namespaces of its
//! own, mounts, passes the descriptor of the mount to this process, waits until it is served, and becomes the command.

use super::{ProcArguments, namespace, tree};
use crate::{STATUS_REFUSED, profile::supervise};
use anyhow::{Context, anyhow};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use tool::style;

/// Runs the command to its end: its exit status, or 125.
#[must_use]
pub fn run(request: &ProcArguments) -> i32 {
    supervise(request).unwrap_or_else(|error| {
        style::complain(&format!("{error:#}"));
        STATUS_REFUSED
    })
}

fn supervise(request: &ProcArguments) -> anyhow::Result<i32> {
    let options = request.hiding.options();
    let mut tree = tree(options)?;
    let (ours, theirs) = UnixStream::pair().context("no socket pair")?;
    // SAFETY: this process has one thread.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()).context("cannot start a process"),
        0 => {
            drop(ours);
            std::process::exit(become_command(request, theirs));
        }
        child => child,
    };
    drop(theirs);
    // Without a descriptor the child has said why, and ends.
    if let Some(device) = receive(&ours).context("nothing was heard of the child")? {
        tree.used_by(child);
        let session = mount::serve::attach(tree, &options, device).and_then(mount::serve::Session::spawn);
        let session = session.context("the mount cannot be served")?;
        (&ours).write_all(&[1]).context("the child has gone")?;
        let status = supervise::wait(child);
        // The mount ends with the last process in the namespace; a remaining process finds an empty folder.
        drop(session);
        return Ok(status);
    }
    Ok(supervise::wait(child))
}

/// In the child. Does not come back if the command could be executed.
fn become_command(request: &ProcArguments, parent: UnixStream) -> i32 {
    let served = namespace::enter().and_then(|device| {
        send(&parent, &device).context("cannot hand the mount over")?;
        drop(device);
        (&parent).read_exact(&mut [0]).map_err(|_| anyhow!("nobody serves the mount"))
    });
    drop(parent);
    if let Err(error) = served {
        style::complain(&format!("{error:#}"));
        return STATUS_REFUSED;
    }
    let [program, arguments @ ..] = request.command.as_slice() else { return STATUS_REFUSED };
    let error = Command::new(program).args(arguments).exec();
    style::complain(&format!("{}: {error}", program.display()));
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

const RIGHTS_SPACE: usize = 64;

fn send(to: &UnixStream, descriptor: &OwnedFd) -> io::Result<()> {
    let mut control = [0_u64; RIGHTS_SPACE / 8];
    let byte = [IoSlice::new(&[1])];
    let mut message = header(byte.as_ptr().cast_mut().cast(), &mut control);
    // SAFETY: the header lies in our buffer, which has room for one descriptor; the host reads both.
    let sent = unsafe {
        let rights = libc::CMSG_FIRSTHDR(&raw const message);
        (*rights).cmsg_level = libc::SOL_SOCKET;
        (*rights).cmsg_type = libc::SCM_RIGHTS;
        (*rights).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as usize;
        libc::CMSG_DATA(rights).cast::<i32>().write_unaligned(descriptor.as_raw_fd());
        message.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as usize;
        libc::sendmsg(to.as_raw_fd(), &raw const message, 0)
    };
    if sent == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `None`: the other side has closed.
fn receive(from: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut control = [0_u64; RIGHTS_SPACE / 8];
    let mut byte = [0];
    let mut part = [IoSliceMut::new(&mut byte)];
    let mut message = header(part.as_mut_ptr().cast(), &mut control);
    // SAFETY: the host writes to our buffers, and what it says of them is looked at before it is used.
    unsafe {
        match libc::recvmsg(from.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) {
            0 => return Ok(None),
            1 => {}
            _ => return Err(io::Error::last_os_error()),
        }
        let rights = libc::CMSG_FIRSTHDR(&raw const message);
        if rights.is_null() || (*rights).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Some(OwnedFd::from_raw_fd(libc::CMSG_DATA(rights).cast::<i32>().read_unaligned())))
    }
}

/// A message of one part.
fn header(part: *mut libc::iovec, control: &mut [u64]) -> libc::msghdr {
    // SAFETY: zeros are a valid one.
    let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(control);
    message
}
