//! A `/proc` of one's own: mount and user namespaces, without privilege.

use anyhow::Context;
use std::ffi::CString;
use std::fs;
use std::io::{self, Error};
use std::os::fd::{AsRawFd, OwnedFd};

/// Puts this process into its own namespaces and mounts over `/proc` there. Returns the descriptor by which the tree is
/// served: of `/dev/fuse`, and only a process in the namespace can open it.
///
/// # Errors
/// A sentence that says what is missing and what to do.
pub fn enter() -> anyhow::Result<OwnedFd> {
    // SAFETY: asks for numbers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // Root keeps its rights over the host's processes, which it would lose in a user namespace.
    let is_roots = user == 0 && unshare(libc::CLONE_NEWNS).is_ok();
    if !is_roots {
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS).map_err(why_no_namespace)?;
        become_oneself(user, group).context("cannot stay who you are in a namespace of your own")?;
    }
    // Mounts of the host propagate here, and ours do not propagate there.
    mount(None, "/", None, libc::MS_REC | libc::MS_SLAVE, None).context("cannot make mounts private")?;
    super::refusal::device()?;
    let device = OwnedFd::from(fs::OpenOptions::new().read(true).write(true).open(super::refusal::DEVICE)?);
    let others = if is_roots { ",allow_other" } else { "" };
    let options = format!("fd={},rootmode=40555,user_id={user},group_id={group}{others}", device.as_raw_fd());
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(Some("entresol"), "/proc", Some("fuse.proc"), flags, Some(&options)).context("cannot mount over /proc")?;
    Ok(device)
}

fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: this process has one thread.
    if unsafe { libc::unshare(what) } == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn become_oneself(user: u32, group: u32) -> io::Result<()> {
    // A user's map of groups is only taken when groups can no longer be dropped.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn mount(
    source: Option<&str>,
    target: &str,
    kind: Option<&str>,
    flags: libc::c_ulong,
    options: Option<&str>,
) -> io::Result<()> {
    let text = |text: Option<&str>| text.map(CString::new).transpose();
    let (source, target, kind, options) = (text(source)?, CString::new(target)?, text(kind)?, text(options)?);
    let at = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    // SAFETY: texts that end with a zero, or none.
    let result =
        unsafe { libc::mount(at(&source), target.as_ptr(), at(&kind), flags, at(&options).cast::<libc::c_void>()) };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn why_no_namespace(error: Error) -> anyhow::Error {
    anyhow::anyhow!(
        "this machine gives users no namespaces of their own ({error}): sysctl user.max_user_namespaces, \
         kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, or the container forbids it. \
         `entresol mount DIR` needs none, and `entresol ps` and `entresol top` neither"
    )
}
