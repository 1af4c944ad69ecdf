//! Job control at the terminal (`__tty_check_change`): a background process group that reads, changes modes, or writes
//! where writers are stopped, gets SIGTTIN or SIGTTOU, and the call is repeated when the group continues.
//!
//! The host would judge by the carrier's mask, and carriers block both signals, which counts as ignoring them. So the
//! call is checked here first. If the *thread* blocks or ignores the signal, the host's answer is right.

use crate::facts;
use crate::machine::Arg::{Out as Filled, Word};
use crate::{Host, Linux};
use abi::args::{
    TCFLSH, TCGETA, TCGETS, TCSBRK, TCSBRKP, TCSETAF, TCSETS, TCSETS2, TCSETSF2, TCXONC, TIOCCBRK, TIOCGPGRP, TIOCGPTN,
    TIOCSBRK, TIOCSETD, TIOCSPGRP,
};
use abi::{Errno, SIG_IGN, Signal, nr};
use core::ffi::CStr;
use core::fmt::Write;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::machine::Call;
use kernel::trap::Out;
use kernel::wait::{Deadline, Wait};

/// How long the signal, which comes through the host as for all processes of the group, is awaited. After this the
/// thread checks again: another thread may have handled the signal.
const PATIENCE: Nanos = Nanos(200_000_000);
/// How long the host may take to stop the process, which no thread notices.
const UNTIL_STOPPED: Nanos = Nanos(5_000_000);

/// In `c_lflag`.
const TOSTOP: u32 = 0o400;
/// The number of ancestors that are examined.
const GENERATIONS_MAX: usize = 64;

/// A process whose terminal has another foreground group.
struct Background {
    /// The process group is orphaned: no member of the session would continue it if it stopped.
    orphaned: bool,
    /// The terminal stops writers, too (TOSTOP).
    stops_writers: bool,
}

impl<M: Host> Linux<'_, M> {
    /// Stops the process group for a call at a terminal that it may not make now; `None` if it may.
    pub(crate) fn stop_at_terminal(&self, cpu: CpuId, t: ThreadIdx, call: &Call, signal: Signal) -> Option<Out> {
        let ground = self.in_background(call.args[0])?;
        if call.nr == nr::WRITE && !ground.stops_writers {
            return None;
        }
        let ignored = self.process().signals.lock().actions().get(signal).handler == SIG_IGN;
        if ignored || self.blocked(t).contains(signal) {
            return None;
        }
        if ground.orphaned {
            let error = if call.nr == nr::IOCTL && call.args[1] == TIOCSPGRP { Errno::ENOTTY } else { Errno::EIO };
            return Some(error.into());
        }
        // To the whole group, including this process.
        self.host(&Call { nr: nr::KILL, args: [0, signal.raw() as u64, 0, 0, 0, 0] });
        let patience = if self.simple_stops().contains(signal) { UNTIL_STOPPED } else { PATIENCE };
        self.begin_wait(t, Wait::Terminal);
        self.arm_exactly(cpu, t, Deadline::after(&self.m, patience));
        Some(Out::Blocked)
    }

    /// Whether `fd` is a terminal, where a read may return no byte (VTIME) and there is job control. False for the
    /// master side of a pseudo-terminal.
    pub(crate) fn is_terminal(&self, fd: u64) -> bool {
        self.ask(nr::IOCTL, &mut [Word(fd), Word(TCGETS), Filled(&mut [0; 36])]) == 0 && !self.is_other_side(fd)
    }

    fn is_other_side(&self, fd: u64) -> bool {
        self.ask(nr::IOCTL, &mut [Word(fd), Word(TIOCGPTN), Filled(&mut [0; 4])]) == 0
    }

    /// `Some` if `fd` is the terminal of our session and another process group is in the foreground.
    fn in_background(&self, fd: u64) -> Option<Background> {
        let mut front = [0; 4];
        // The host refuses if the terminal is not our session's.
        let known = self.ask(nr::IOCTL, &mut [Word(fd), Word(TIOCGPGRP), Filled(&mut front)]);
        let front = i32::from_le_bytes(front);
        if known < 0 || front <= 0 {
            return None;
        }
        let mine = self.ask(nr::GETPGRP, &mut []) as i32;
        // The master side of a pseudo-terminal answers for the terminal, but has no job control.
        if front == mine || self.is_other_side(fd) {
            return None;
        }
        // `struct termios` of the system call has 36 bytes; `c_lflag` is its fourth word.
        let mut modes = [[0; 4]; 9];
        let known = self.ask(nr::IOCTL, &mut [Word(fd), Word(TCGETS), Filled(modes.as_flattened_mut())]);
        let stops_writers = known == 0 && u32::from_le_bytes(modes[3]) & TOSTOP != 0;
        Some(Background { orphaned: self.is_orphaned(mine), stops_writers })
    }

    /// Whether nobody in the session would continue the group (`will_become_orphaned_pgrp`), judged by our own
    /// ancestors: the first of them in another group counts, if it is in the same session.
    fn is_orphaned(&self, group: i32) -> bool {
        let session = self.ask(nr::GETSID, &mut [Word(0)]) as i32;
        let mut pid = self.config().pid.0;
        for _ in 0..GENERATIONS_MAX {
            let Some([parent, ..]) = self.ids_of_process(pid) else { return true };
            let Some([_, its_group, its_session]) = self.ids_of_process(parent) else { return true };
            if its_group != group {
                return its_session != session;
            }
            pid = parent;
        }
        true
    }

    /// Parent, process group and session of a process.
    fn ids_of_process(&self, pid: i32) -> Option<[i32; 3]> {
        let mut path = [0; 32];
        write!(procfs::text::Room::new(&mut path), "/proc/{pid}/stat").ok()?;
        let mut bytes = [0; 512];
        let stat = facts::read_file(&self.m, CStr::from_bytes_until_nul(&path).ok()?, &mut bytes);
        // The name is in parentheses and may hold any bytes. State, parent, group, session follow.
        let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
        let mut fields = core::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace().skip(1);
        let mut id = || fields.next()?.parse().ok();
        Some([id()?, id()?, id()?])
    }

    /// The call is repeated, unless a handler without SA_RESTART ran (`-ERESTARTSYS`).
    pub(crate) fn terminal_finished(&self, t: ThreadIdx) -> Option<isize> {
        (self.thread(t).wait.timed_out() || self.interrupted(t)).then_some(Errno::ERESTARTSYS.to_ret())
    }
}

/// Whether this ioctl(2) is only for foreground process groups (`tty_check_change` in `drivers/tty`).
pub(crate) fn changes_terminal(request: u64) -> bool {
    matches!(
        request,
        TCSETS..=TCSETAF | TCSBRK | TCXONC | TCFLSH | TIOCSPGRP | TIOCSETD | TCSBRKP | TIOCSBRK | TIOCCBRK
            | TCSETS2..=TCSETSF2
    ) && request != TCGETA
}
