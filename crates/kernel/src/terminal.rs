//! Job control at the terminal (`__tty_check_change`): a process group that is not in front there and reads,
//! changes modes, or writes where writers are stopped, gets SIGTTIN or SIGTTOU, and the call is made again when it
//! goes on.
//!
//! The host would judge by the carrier's mask, and carriers block both signals: it takes them for ignored. So it is
//! looked before the call whether it is such a one. Blocked or ignored by the *thread*, the host's answer is right.

use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::wait::{Deadline, Wait};
use crate::{Kernel, ThreadIdx};
use abi::{Errno, SIG_IGN, Signal, nr};
use ids::{CpuId, Nanos};

/// The signal comes by way of the host, as to all processes of the group. After this the thread looks again: another
/// thread may have handled it.
const PATIENCE: Nanos = Nanos(200_000_000);
/// The host stops the process, and no thread hears of it.
const UNTIL_STOPPED: Nanos = Nanos(5_000_000);

/// `tcsetpgrp(3)`: refused in its own way.
const TIOCSPGRP: u64 = 0x5410;

impl<M: Machine> Kernel<M> {
    /// Stops the process group for a call at a terminal that it may not make now; `None` if it may.
    pub(crate) fn stop_at_terminal(&self, cpu: CpuId, t: ThreadIdx, call: &Call, signal: Signal) -> Option<Out> {
        let ground = self.m.in_background(call.args[0])?;
        if call.nr == nr::WRITE && !ground.stops_writers {
            return None;
        }
        let ignored = self.process.signals.lock().actions().get(signal).handler == SIG_IGN;
        if ignored || self.blocked(t).contains(signal) {
            return None;
        }
        if ground.orphaned {
            let error = if call.nr == nr::IOCTL && call.args[1] == TIOCSPGRP { Errno::ENOTTY } else { Errno::EIO };
            return Some(error.into());
        }
        // To the whole group, this process with it.
        self.m.host(Call { nr: nr::KILL, args: [0, signal.raw() as u64, 0, 0, 0, 0] });
        let patience = if self.simple_stops().contains(signal) { UNTIL_STOPPED } else { PATIENCE };
        self.begin_wait(t, Wait::Terminal);
        self.arm_timeout(cpu, t, Deadline::after(&self.m, patience));
        Some(Out::Blocked)
    }

    /// The call is made again, unless a handler without SA_RESTART ran (`-ERESTARTSYS`).
    pub(crate) fn terminal_finished(&self, t: ThreadIdx) -> Option<isize> {
        (self.thread(t).wait.timed_out() || self.interrupted(t)).then_some(Errno::ERESTARTSYS.to_ret())
    }
}

/// Whether this ioctl(2) is for process groups in front only (`tty_check_change` in `drivers/tty`).
pub(crate) fn changes_terminal(request: u64) -> bool {
    const TCSETS: u64 = 0x5402;
    const TCSETAF: u64 = 0x5408;
    const TCSBRK: u64 = 0x5409;
    const TCXONC: u64 = 0x540a;
    const TCFLSH: u64 = 0x540b;
    const TIOCSETD: u64 = 0x5423;
    const TCSBRKP: u64 = 0x5425;
    const TIOCSBRK: u64 = 0x5427;
    const TIOCCBRK: u64 = 0x5428;
    const TCSETS2: u64 = 0x402c_542b;
    const TCSETSF2: u64 = 0x402c_542d;
    const TCGETA: u64 = 0x5405;
    matches!(
        request,
        TCSETS..=TCSETAF | TCSBRK | TCXONC | TCFLSH | TIOCSPGRP | TIOCSETD | TCSBRKP | TIOCSBRK | TIOCCBRK
            | TCSETS2..=TCSETSF2
    ) && request != TCGETA
}
