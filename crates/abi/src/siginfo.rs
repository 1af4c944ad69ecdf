use crate::bytes::layout;
use crate::{Errno, Signal};
use core::fmt;

/// Values of `si_code`. Zero and below come from programs, above zero from the kernel.
#[allow(missing_docs, reason = "the names are the header's")]
pub mod si_code {
    pub const USER: i32 = 0;
    pub const KERNEL: i32 = 0x80;
    pub const QUEUE: i32 = -1;
    pub const TIMER: i32 = -2;
    pub const SIGIO: i32 = -5;
    pub const TKILL: i32 = -6;
    pub const DETHREAD: i32 = -7;
    pub const ASYNCNL: i32 = -60;

    pub const SEGV_MAPERR: i32 = 1;
    pub const SEGV_ACCERR: i32 = 2;
    pub const SEGV_PKUERR: i32 = 4;
    /// A single step (SIGTRAP).
    pub const TRAP_TRACE: i32 = 2;
    /// An access that is not aligned, with EFLAGS.AC set (SIGBUS).
    pub const BUS_ADRALN: i32 = 1;
    pub const BUS_MCEERR_AO: i32 = 5;
    pub const CLD_EXITED: i32 = 1;
    pub const CLD_KILLED: i32 = 2;
    pub const CLD_STOPPED: i32 = 5;
    pub const POLL_HUP: i32 = 6;
    pub const SYS_SECCOMP: i32 = 1;
    pub const SYS_USER_DISPATCH: i32 = 2;
}

/// The highest code of signals that have codes of their own (`sig_sicodes`).
const fn specific_codes(signo: i32) -> Option<i32> {
    Some(match signo {
        4 => 11,
        8 => 15,
        11 => 10,
        7 => 5,
        5 | 17 | 29 => 6,
        31 => 2,
        _ => return None,
    })
}

/// The information of a signal: `siginfo_t`, of which Linux only ever fills 48 bytes (`kernel_siginfo_t`). The
/// program sees 128 bytes, the rest zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct SigInfo {
    signo: i32,
    errno: i32,
    code: i32,
    /// The union at offset 16.
    data: [u64; 4],
}

/// Two 32-bit members in one word, the first at the lower address.
const fn pair(lo: u32, hi: u32) -> u64 {
    lo as u64 | (hi as u64) << 32
}

/// How each kind is made.
impl SigInfo {
    const fn with(signal: Signal, code: i32, data: [u64; 4]) -> SigInfo {
        SigInfo { signo: signal.raw(), errno: 0, code, data }
    }

    /// From `kill(2)` (SI_USER).
    pub const fn user(signal: Signal, pid: i32, uid: u32) -> SigInfo {
        SigInfo::with(signal, si_code::USER, [pair(pid as u32, uid), 0, 0, 0])
    }

    /// From `tkill(2)` and `tgkill(2)` (SI_TKILL).
    pub const fn tkill(signal: Signal, pid: i32, uid: u32) -> SigInfo {
        SigInfo::with(signal, si_code::TKILL, [pair(pid as u32, uid), 0, 0, 0])
    }

    /// From `sigqueue(3)` (SI_QUEUE).
    pub const fn queue(signal: Signal, pid: i32, uid: u32, value: u64) -> SigInfo {
        SigInfo::with(signal, si_code::QUEUE, [pair(pid as u32, uid), value, 0, 0])
    }

    /// A signal from the kernel without further information (SI_KERNEL).
    pub const fn kernel(signal: Signal) -> SigInfo {
        SigInfo::with(signal, si_code::KERNEL, [0; 4])
    }

    /// The information of a signal whose own could not be kept (`collect_signal`): SI_USER, pid 0, uid 0.
    pub const fn lost(signal: Signal) -> SigInfo {
        SigInfo::with(signal, si_code::USER, [0; 4])
    }

    /// From a POSIX timer (SI_TIMER).
    pub const fn timer(signal: Signal, id: i32, overrun: i32, value: u64) -> SigInfo {
        SigInfo::with(signal, si_code::TIMER, [pair(id as u32, overrun as u32), value, 0, 0])
    }

    /// SIGCHLD about a child; times in clock ticks.
    pub const fn child(code: i32, pid: i32, uid: u32, status: i32, utime: i64, stime: i64) -> SigInfo {
        SigInfo::with(Signal::CHLD, code, [pair(pid as u32, uid), pair(status as u32, 0), utime as u64, stime as u64])
    }

    /// A fault at an address.
    pub const fn fault(signal: Signal, code: i32, addr: u64) -> SigInfo {
        SigInfo::with(signal, code, [addr, 0, 0, 0])
    }

    /// I/O is possible on `fd`.
    pub const fn poll(signal: Signal, code: i32, band: i64, fd: i32) -> SigInfo {
        SigInfo::with(signal, code, [band as u64, pair(fd as u32, 0), 0, 0])
    }

    /// A system call that was not let through (SIGSYS).
    pub const fn sys(code: i32, errno: i32, call_addr: u64, nr: i32, arch: u32) -> SigInfo {
        SigInfo { signo: Signal::SYS.raw(), errno, code, data: [call_addr, pair(nr as u32, arch), 0, 0] }
    }
}

/// Members. Those of the union mean something only under the layouts named.
impl SigInfo {
    /// The number as it stands, which need not be a signal's.
    #[inline(always)]
    pub const fn signo(&self) -> i32 {
        self.signo
    }
    /// The signal, if the number is one's.
    #[inline]
    pub const fn signal(&self) -> Option<Signal> {
        Signal::from_raw(self.signo)
    }
    /// `si_code`.
    #[inline(always)]
    pub const fn code(&self) -> i32 {
        self.code
    }
    /// Kill, Queue, Child: the sender or child.
    pub const fn pid(&self) -> i32 {
        self.data[0] as i32
    }
    /// Kill, Queue, Child: the real user id of the sender or child.
    pub const fn uid(&self) -> u32 {
        (self.data[0] >> 32) as u32
    }
    /// Timer: the timer's id.
    pub const fn timer_id(&self) -> i32 {
        self.data[0] as i32
    }
    /// Timer: expiries beyond this one.
    pub const fn overrun(&self) -> i32 {
        (self.data[0] >> 32) as i32
    }
    /// Queue, Timer: the value sent along (`si_value`, all 64 bits).
    pub const fn value(&self) -> u64 {
        self.data[1]
    }
    /// Fault: the address.
    pub const fn addr(&self) -> u64 {
        self.data[0]
    }
    /// Poll: the file descriptor.
    pub const fn fd(&self) -> i32 {
        self.data[1] as i32
    }

    /// The same information with another signal number, as `rt_sigqueueinfo(2)` overwrites it.
    pub const fn with_signal(mut self, signal: Signal) -> SigInfo {
        self.signo = signal.raw();
        self
    }
}

impl SigInfo {
    /// Whether it is about a descriptor (`siginfo_layout` says SIL_POLL).
    pub const fn is_poll(&self) -> bool {
        match (self.code, specific_codes(self.signo)) {
            (si_code::SIGIO, _) => true,
            (1..=si_code::POLL_HUP, limit) => match limit {
                Some(limit) => self.signo == 29 || self.code > limit,
                None => true,
            },
            _ => false,
        }
    }

    /// Whether signal and code belong together (`known_siginfo_layout`).
    const fn is_known(&self) -> bool {
        match self.code {
            si_code::KERNEL | si_code::ASYNCNL => true,
            1.. => match specific_codes(self.signo) {
                Some(limit) => self.code <= limit,
                None => self.code <= si_code::POLL_HUP,
            },
            code => code >= si_code::DETHREAD,
        }
    }

    /// Reads what a program passed in (`post_copy_siginfo_from_user`): E2BIG if signal and
    /// code are unknown together and there is something behind what can be kept.
    pub fn read(b: &[u8; 128]) -> Result<SigInfo, Errno> {
        let info = SigInfo::from_bytes(b);
        if !info.is_known() && b[48..].iter().any(|&x| x != 0) {
            return Err(Errno::E2BIG);
        }
        Ok(info)
    }
}

// The program sees 128 bytes, of which all but 48 are zeros.
layout!(SigInfo: 128 { 0 signo, 4 errno, 8 code, 16 data });

impl fmt::Debug for SigInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("SigInfo");
        match self.signal() {
            Some(signal) => s.field("signal", &signal),
            None => s.field("signo", &self.signo),
        };
        s.field("code", &self.code).field("data", &self.data).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Plain;

    #[test]
    fn what_is_about_a_descriptor_follows_from_signal_and_code() {
        let is_poll = |signal, code| SigInfo::with(signal, code, [0; 4]).is_poll();
        assert!(is_poll(Signal::IO, 1) && is_poll(Signal::USR1, 3) && is_poll(Signal::USR1, si_code::SIGIO));
        for code in [si_code::USER, si_code::KERNEL, si_code::TIMER, si_code::TKILL, 7] {
            assert!(!is_poll(Signal::USR1, code) && !is_poll(Signal::IO, code), "{code}");
        }
        assert!(!is_poll(Signal::SEGV, si_code::SEGV_MAPERR) && !is_poll(Signal::CHLD, si_code::CLD_EXITED));
    }

    #[test]
    fn unknown_information_must_fit() {
        let mut b = SigInfo::queue(Signal::USR1, 1, 2, 3).to_bytes();
        b[127] = 1;
        assert!(SigInfo::read(&b).is_ok(), "SI_QUEUE is known: the rest is not looked at");
        (-40_i32).put(&mut b[8..]);
        assert_eq!(SigInfo::read(&b), Err(Errno::E2BIG));
        b[127] = 0;
        assert_eq!(SigInfo::read(&b).map(|i| i.code()), Ok(-40));
    }

    #[test]
    fn information_survives_the_way_through_memory() {
        for info in [
            SigInfo::user(Signal::HUP, 77, 1000),
            SigInfo::queue(Signal::RTMAX, 1, 2, u64::MAX),
            SigInfo::timer(Signal::ALRM, 5, 9, 6),
            SigInfo::child(si_code::CLD_KILLED, 3, 4, 9, 10, 11),
            SigInfo::sys(1, 38, 0xdead, 202, 0xC000_003E),
        ] {
            assert_eq!(SigInfo::read(&info.to_bytes()), Ok(info));
        }
    }
}
