//! The tree on a folder of this machine: serving and unmounting.
//!
//! A mount ends in one of two ways. If it is unmounted, the kernel ends the connection, and its path may already be
//! another mount's. If the server is asked to end, it removes the mount from its path, if the mount is still there.
//!
//! The mount is there if the connection lives (`fuse_dev_poll` reports POLLERR without one) *and* the path is on its
//! device.
//! Neither alone is enough: a copy of the mount in another namespace keeps the connection alive, and the number of a
//! removed device is reused.

use crate::serve::{self, FileSystem};
use crate::tree::Tree;
use fuser::{BackgroundSession, Session};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::{self as host, Errno};
use rustix::mount::UnmountFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// A mount that waits to be served.
#[derive(Debug)]
pub struct Mounted {
    session: Session<FileSystem>,
    folder: PathBuf,
}

impl Mounted {
    /// Mounts the tree on `folder`; `all_users`: all users may access it, each with their own rights. `None` if
    /// somebody unmounted it before the kernel's first request was read.
    ///
    /// # Errors
    /// Those of mounting: no `/dev/fuse`, no right, no `fusermount3`.
    pub fn new(tree: Tree, options: &procfs::Options, folder: &Path, all_users: bool) -> io::Result<Option<Mounted>> {
        match serve::mount(tree, options, folder, all_users) {
            Ok(session) => Ok(Some(Mounted { session, folder: folder.to_owned() })),
            Err(error) if is_disconnected(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The handle that unmounts it.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn unmounter(&self) -> io::Result<Unmounter> {
        let connection = self.session.as_fd().try_clone_to_owned()?;
        let device = match device(&self.folder) {
            Ok(device) => Some(device),
            // The folder itself may be gone if the mount is.
            Err(_) if !is_connected(&connection)? => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Unmounter { connection, device, folder: self.folder.clone() })
    }

    /// Serves until the kernel ends the connection.
    ///
    /// # Errors
    /// There are no more threads, or the kernel sent a request that cannot be parsed.
    pub fn serve(self) -> io::Result<()> {
        let mut session = self.session.spawn()?;
        let served = join(&mut session);
        // Dropping it would unmount once more, by the path, where another may have mounted by now: fuser 0.18 means to look whether it
        // is still there, but takes POLLERR for a yes (https://github.com/cberner/fuser/pull/703).
        std::mem::forget(session);
        served
    }
}

/// The connection ended during the handshake, as fuser reports it. (ENOTCONN itself has the same kind; it comes of a
/// folder whose server is gone.)
fn is_disconnected(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotConnected && error.raw_os_error().is_none()
}

fn join(session: &mut BackgroundSession) -> io::Result<()> {
    let served = std::mem::replace(&mut session.guard, thread::spawn(|| Ok(())));
    served.join().unwrap_or_else(|_| Err(io::Error::other("a thread that served the mount has panicked")))
}

/// Takes a mount from its path.
#[derive(Debug)]
pub struct Unmounter {
    connection: OwnedFd,
    device: Option<(u32, u32)>,
    folder: PathBuf,
}

/// The device of the path, without asking the server of a file system.
fn device(folder: &Path) -> host::Result<(u32, u32)> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = rustix::fs::statx(CWD, folder, flags, StatxFlags::empty())?;
    Ok((found.stx_dev_major, found.stx_dev_minor))
}

fn is_connected(connection: &OwnedFd) -> host::Result<bool> {
    let mut polled = [PollFd::new(connection, PollFlags::empty())];
    host::retry_on_intr(|| poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })))?;
    Ok(!polled[0].revents().contains(PollFlags::ERR))
}

impl Unmounter {
    /// Removes the mount at once, if it is still there. Files that are open in it stay open until it is no longer
    /// served, and then return ENOTCONN.
    ///
    /// # Errors
    /// Neither the host nor `fusermount3` can remove it.
    pub fn unmount(&self) -> io::Result<()> {
        if !is_connected(&self.connection)? || self.device.is_none() || device(&self.folder).ok() != self.device {
            return Ok(());
        }
        match rustix::mount::unmount(&self.folder, UnmountFlags::DETACH) {
            Err(Errno::PERM) => self.by_helper(),
            done => Ok(done?),
        }
    }

    fn by_helper(&self) -> io::Result<()> {
        let done =
            Command::new("fusermount3").args(["-u", "-z", "--"]).arg(&self.folder).stdin(Stdio::null()).status()?;
        if done.success() { Ok(()) } else { Err(io::Error::other(format!("fusermount3: {done}"))) }
    }
}
