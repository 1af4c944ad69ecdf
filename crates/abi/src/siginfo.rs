use crate::bytes::{get_i32, get_u64, put_i32, put_u32, put_u64};
use crate::{Errno, Signal};
use core::fmt;

/// Values of `si_code`. Zero and below come from programs, above zero from the kernel.
#[allow(missing_docs, reason = "the names are the header's")]
pub mod si_code {
    pub const USER: i32 = 0;
    pub const KERNEL: i32 = 0x80;
    pub const QUEUE: i32 = -1;
    pub const TIMER: i32 = -2;
    pub const MESGQ: i32 = -3;
    pub const ASYNCIO: i32 = -4;
    pub const SIGIO: i32 = -5;
    pub const TKILL: i32 = -6;
    pub const DETHREAD: i32 = -7;
    pub const ASYNCNL: i32 = -60;

    pub const ILL_ILLOPC: i32 = 1;
    pub const ILL_ILLOPN: i32 = 2;
    pub const ILL_PRVOPC: i32 = 5;
    pub const FPE_INTDIV: i32 = 1;
    pub const FPE_FLTDIV: i32 = 3;
    pub const SEGV_MAPERR: i32 = 1;
    pub const SEGV_ACCERR: i32 = 2;
    pub const SEGV_BNDERR: i32 = 3;
    pub const SEGV_PKUERR: i32 = 4;
    pub const BUS_ADRALN: i32 = 1;
    pub const BUS_ADRERR: i32 = 2;
    pub const BUS_OBJERR: i32 = 3;
    pub const BUS_MCEERR_AR: i32 = 4;
    pub const BUS_MCEERR_AO: i32 = 5;
    pub const TRAP_BRKPT: i32 = 1;
    pub const TRAP_TRACE: i32 = 2;
    pub const TRAP_PERF: i32 = 6;
    pub const CLD_EXITED: i32 = 1;
    pub const CLD_KILLED: i32 = 2;
    pub const CLD_DUMPED: i32 = 3;
    pub const CLD_TRAPPED: i32 = 4;
    pub const CLD_STOPPED: i32 = 5;
    pub const CLD_CONTINUED: i32 = 6;
    pub const POLL_IN: i32 = 1;
    pub const POLL_HUP: i32 = 6;
    pub const SYS_SECCOMP: i32 = 1;
    pub const SYS_USER_DISPATCH: i32 = 2;
}

/// Which members of the union are there (`siginfo_layout`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// pid, uid.
    Kill,
    /// timer id, overrun, value.
    Timer,
    /// band, file descriptor.
    Poll,
    /// address.
    Fault,
    /// address and how many of its low bits are meaningless.
    FaultMachineCheck,
    /// address and bounds.
    FaultBounds,
    /// address and protection key.
    FaultKey,
    /// address and data of a perf event.
    FaultPerf,
    /// pid, uid, status, times.
    Child,
    /// pid, uid, value.
    Queue,
    /// call address, system call, architecture.
    Sys,
}

/// The highest code of signals that have codes of their own (`sig_sicodes`).
const fn specific_codes(signo: i32) -> Option<(i32, Layout)> {
    Some(match signo {
        4 => (11, Layout::Fault),
        8 => (15, Layout::Fault),
        11 => (10, Layout::Fault),
        7 => (5, Layout::Fault),
        5 => (6, Layout::Fault),
        17 => (6, Layout::Child),
        29 => (6, Layout::Poll),
        31 => (2, Layout::Sys),
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

    /// From the kernel without more to say (SI_KERNEL).
    pub const fn kernel(signal: Signal) -> SigInfo {
        SigInfo::with(signal, si_code::KERNEL, [0; 4])
    }

    /// Of a signal whose information could not be kept (`collect_signal`): SI_USER, pid 0, uid 0.
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

    /// A fault by a protection key (SEGV_PKUERR).
    pub const fn fault_key(addr: u64, pkey: u32) -> SigInfo {
        SigInfo::with(Signal::SEGV, si_code::SEGV_PKUERR, [addr, 0, pkey as u64, 0])
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
    /// `si_errno`.
    pub const fn errno(&self) -> i32 {
        self.errno
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
    /// Child: exit status or signal.
    pub const fn status(&self) -> i32 {
        self.data[1] as i32
    }
    /// Child: user time in clock ticks.
    pub const fn utime(&self) -> i64 {
        self.data[2] as i64
    }
    /// Child: system time in clock ticks.
    pub const fn stime(&self) -> i64 {
        self.data[3] as i64
    }
    /// Fault: the address.
    pub const fn addr(&self) -> u64 {
        self.data[0]
    }
    /// FaultMachineCheck: meaningless low bits of the address.
    pub const fn addr_lsb(&self) -> i16 {
        self.data[1] as i16
    }
    /// FaultBounds: lower and upper bound.
    pub const fn bounds(&self) -> (u64, u64) {
        (self.data[2], self.data[3])
    }
    /// FaultKey: the protection key.
    pub const fn pkey(&self) -> u32 {
        self.data[2] as u32
    }
    /// FaultPerf: the event's data word.
    pub const fn perf_data(&self) -> u64 {
        self.data[1]
    }
    /// Poll: the events.
    pub const fn band(&self) -> i64 {
        self.data[0] as i64
    }
    /// Poll: the file descriptor.
    pub const fn fd(&self) -> i32 {
        self.data[1] as i32
    }
    /// Sys: the address after the system call.
    pub const fn call_addr(&self) -> u64 {
        self.data[0]
    }
    /// Sys: the number.
    pub const fn syscall(&self) -> i32 {
        self.data[1] as i32
    }
    /// Sys: AUDIT_ARCH_*.
    pub const fn arch(&self) -> u32 {
        (self.data[1] >> 32) as u32
    }

    /// The same with another number, as `rt_sigqueueinfo(2)` overwrites it.
    pub const fn with_signal(mut self, signal: Signal) -> SigInfo {
        self.signo = signal.raw();
        self
    }
    /// The same with another sender.
    pub const fn with_sender(mut self, pid: i32, uid: u32) -> SigInfo {
        self.data[0] = pair(pid as u32, uid);
        self
    }
    /// The same with another overrun count.
    pub const fn with_overrun(mut self, overrun: i32) -> SigInfo {
        self.data[0] = pair(self.data[0] as u32, overrun as u32);
        self
    }
}

impl SigInfo {
    /// The size a program sees.
    pub const SIZE: usize = 128;

    /// Whether the code claims a sender that only the kernel may claim: `rt_sigqueueinfo(2)`
    /// refuses such codes (EPERM) towards other processes.
    pub const fn impersonates(&self) -> bool {
        self.code >= 0 || self.code == si_code::TKILL
    }

    /// Which members are there (`siginfo_layout`).
    pub const fn layout(&self) -> Layout {
        match self.code {
            si_code::TIMER => Layout::Timer,
            si_code::SIGIO => Layout::Poll,
            ..=-1 => Layout::Queue,
            1..si_code::KERNEL => self.layout_of_kernel_code(),
            _ => Layout::Kill,
        }
    }

    const fn layout_of_kernel_code(&self) -> Layout {
        match (specific_codes(self.signo), self.signo, self.code) {
            (_, 7, si_code::BUS_MCEERR_AR | si_code::BUS_MCEERR_AO) => Layout::FaultMachineCheck,
            (_, 11, si_code::SEGV_BNDERR) => Layout::FaultBounds,
            (_, 11, si_code::SEGV_PKUERR) => Layout::FaultKey,
            (_, 5, si_code::TRAP_PERF) => Layout::FaultPerf,
            (Some((limit, layout)), _, code) if code <= limit => layout,
            (_, _, code) if code <= si_code::POLL_HUP => Layout::Poll,
            _ => Layout::Kill,
        }
    }

    /// Whether signal and code belong together (`known_siginfo_layout`).
    const fn is_known(&self) -> bool {
        match self.code {
            si_code::KERNEL | si_code::ASYNCNL => true,
            1.. => match specific_codes(self.signo) {
                Some((limit, _)) => self.code <= limit,
                None => self.code <= si_code::POLL_HUP,
            },
            code => code >= si_code::DETHREAD,
        }
    }

    /// Reads what a program passed in (`post_copy_siginfo_from_user`): E2BIG if signal and
    /// code are unknown together and there is something behind what can be kept.
    pub fn from_bytes(b: &[u8; 128]) -> Result<SigInfo, Errno> {
        let data = core::array::from_fn(|i| get_u64(b, 16 + 8 * i));
        let info = SigInfo { signo: get_i32(b, 0), errno: get_i32(b, 4), code: get_i32(b, 8), data };
        if !info.is_known() && b[48..].iter().any(|&x| x != 0) {
            return Err(Errno::E2BIG);
        }
        Ok(info)
    }

    /// Writes what the program sees: 48 bytes and zeros.
    pub fn to_bytes(&self) -> [u8; 128] {
        let mut b = [0; 128];
        put_i32(&mut b, 0, self.signo);
        put_i32(&mut b, 4, self.errno);
        put_i32(&mut b, 8, self.code);
        for (i, &word) in self.data.iter().enumerate() {
            put_u64(&mut b, 16 + 8 * i, word);
        }
        b
    }

    /// Writes it as `signalfd(2)` gives it (`signalfd_copyinfo`).
    pub fn to_signalfd(&self) -> [u8; 128] {
        let mut b = [0; 128];
        put_i32(&mut b, 0, self.signo);
        put_i32(&mut b, 4, self.errno);
        put_i32(&mut b, 8, self.code);
        match self.layout() {
            Layout::Kill => self.put_signalfd_sender(&mut b),
            Layout::Queue => {
                self.put_signalfd_sender(&mut b);
                self.put_signalfd_value(&mut b);
            }
            Layout::Timer => {
                put_i32(&mut b, 24, self.timer_id());
                put_i32(&mut b, 32, self.overrun());
                self.put_signalfd_value(&mut b);
            }
            Layout::Poll => {
                put_u32(&mut b, 28, self.band() as u32);
                put_i32(&mut b, 20, self.fd());
            }
            Layout::Child => {
                self.put_signalfd_sender(&mut b);
                put_i32(&mut b, 40, self.status());
                put_u64(&mut b, 56, self.data[2]);
                put_u64(&mut b, 64, self.data[3]);
            }
            Layout::Fault | Layout::FaultBounds | Layout::FaultKey | Layout::FaultPerf => {
                put_u64(&mut b, 72, self.addr());
            }
            Layout::FaultMachineCheck => {
                put_u64(&mut b, 72, self.addr());
                b[80..82].copy_from_slice(&self.addr_lsb().to_le_bytes());
            }
            Layout::Sys => {
                put_u64(&mut b, 88, self.call_addr());
                put_i32(&mut b, 84, self.syscall());
                put_u32(&mut b, 96, self.arch());
            }
        }
        b
    }

    fn put_signalfd_sender(&self, b: &mut [u8; 128]) {
        put_i32(b, 12, self.pid());
        put_u32(b, 16, self.uid());
    }

    fn put_signalfd_value(&self, b: &mut [u8; 128]) {
        put_i32(b, 44, self.value() as i32);
        put_u64(b, 48, self.value());
    }
}

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

    #[test]
    fn layouts_follow_signal_and_code() {
        let layout = |signal, code| SigInfo::with(signal, code, [0; 4]).layout();
        assert_eq!(layout(Signal::SEGV, si_code::USER), Layout::Kill);
        assert_eq!(layout(Signal::SEGV, si_code::KERNEL), Layout::Kill);
        assert_eq!(layout(Signal::SEGV, si_code::SEGV_MAPERR), Layout::Fault);
        assert_eq!(layout(Signal::SEGV, si_code::SEGV_PKUERR), Layout::FaultKey);
        assert_eq!(layout(Signal::BUS, si_code::BUS_MCEERR_AO), Layout::FaultMachineCheck);
        assert_eq!(layout(Signal::CHLD, si_code::CLD_EXITED), Layout::Child);
        assert_eq!(layout(Signal::CHLD, 7), Layout::Kill);
        assert_eq!(layout(Signal::USR1, 3), Layout::Poll);
        assert_eq!(layout(Signal::USR1, si_code::TIMER), Layout::Timer);
        assert_eq!(layout(Signal::USR1, si_code::SIGIO), Layout::Poll);
        assert_eq!(layout(Signal::USR1, si_code::TKILL), Layout::Queue);
        assert_eq!(layout(Signal::SYS, si_code::SYS_SECCOMP), Layout::Sys);
    }

    #[test]
    fn unknown_information_must_fit() {
        let mut b = SigInfo::queue(Signal::USR1, 1, 2, 3).to_bytes();
        b[127] = 1;
        assert!(SigInfo::from_bytes(&b).is_ok(), "SI_QUEUE is known: the rest is not looked at");
        put_i32(&mut b, 8, -40);
        assert_eq!(SigInfo::from_bytes(&b), Err(Errno::E2BIG));
        b[127] = 0;
        assert_eq!(SigInfo::from_bytes(&b).map(|i| i.code()), Ok(-40));
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
            assert_eq!(SigInfo::from_bytes(&info.to_bytes()), Ok(info));
        }
    }

    #[test]
    fn only_the_kernel_may_claim_its_codes() {
        assert!(SigInfo::user(Signal::HUP, 1, 0).impersonates());
        assert!(SigInfo::tkill(Signal::HUP, 1, 0).impersonates());
        assert!(!SigInfo::queue(Signal::HUP, 1, 0, 0).impersonates());
    }
}
