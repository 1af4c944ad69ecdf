//! How the process stands to its terminal.

use crate::os::{self, nr};
use crate::report::Text;
use crate::survey;
use arch::syscall;
use core::fmt::Write;
use kernel::Background;

const TIOCGPGRP: usize = 0x540f;
const TIOCGPTN: usize = 0x8004_5430;
const TCGETS: usize = 0x5401;
/// In `c_lflag`.
const TOSTOP: u32 = 0o400;
/// The number of ancestors that are examined.
const GENERATIONS_MAX: usize = 64;

/// If `fd` is the terminal of our session and another process group is in front there.
pub(crate) fn in_background(fd: u64) -> Option<Background> {
    let mut front = 0i32;
    // SAFETY: the host fills the word; it refuses if the terminal is not our session's.
    let r = unsafe { syscall!(nr::IOCTL, fd, TIOCGPGRP, &raw mut front) };
    if r < 0 || front <= 0 {
        return None;
    }
    // SAFETY: has no effect.
    let mine = unsafe { syscall!(nr::GETPGRP) } as i32;
    let mut number = 0u32;
    // The other side of a pseudo-terminal answers for the terminal, but has no job control.
    // SAFETY: the host fills the word.
    if front == mine || unsafe { syscall!(nr::IOCTL, fd, TIOCGPTN, &raw mut number) } == 0 {
        return None;
    }
    let mut modes = [0u32; 16];
    // SAFETY: `struct termios` of the system call has 36 bytes; `c_lflag` is its fourth word.
    let r = unsafe { syscall!(nr::IOCTL, fd, TCGETS, modes.as_mut_ptr()) };
    Some(Background { orphaned: is_orphaned(mine), stops_writers: r == 0 && modes[3] & TOSTOP != 0 })
}

/// Whether nobody in the session would continue the group (`will_become_orphaned_pgrp`), as far as our own ancestors tell:
/// the first of them in another group counts, if it is of the same session.
fn is_orphaned(group: i32) -> bool {
    // SAFETY: has no effect.
    let session = unsafe { syscall!(nr::GETSID, 0) } as i32;
    let mut pid = os::getpid();
    for _ in 0..GENERATIONS_MAX {
        let Some([parent, ..]) = ids_of(pid) else { return true };
        let Some([_, its_group, its_session]) = ids_of(parent) else { return true };
        if its_group != group {
            return its_session != session;
        }
        pid = parent;
    }
    true
}

/// Parent, process group and session of a process.
fn ids_of(pid: i32) -> Option<[i32; 3]> {
    let mut path = Text::<32>::default();
    let _ = write!(path, "/proc/{pid}/stat\0");
    let mut bytes = [0; 512];
    // State, parent, group, session.
    let mut fields = survey::after_name(os::read_file(path.as_bytes(), &mut bytes))?.split(' ').skip(1);
    let mut id = || fields.next()?.parse().ok();
    Some([id()?, id()?, id()?])
}
