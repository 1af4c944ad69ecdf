//! The host's signals as all host threads have them: masks, actions, and what handlers are told.

use crate::base::os::{self, HostAction};
use crate::base::report;
use abi::{SigSet, Signal};
use arch::entry;
use core::ops::Range;
use sync::Lock;
use sync::atomic::{AtomicU64, Ordering::*};

pub(crate) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

pub(crate) const SIGILL: i32 = Signal::ILL.raw();
pub(crate) const SIGTRAP: i32 = Signal::TRAP.raw();
pub(crate) const SIGBUS: i32 = Signal::BUS.raw();
pub(crate) const SIGFPE: i32 = Signal::FPE.raw();
pub(crate) const SIGSEGV: i32 = Signal::SEGV.raw();
pub(crate) const SIGSYS: i32 = Signal::SYS.raw();

/// The signals of faults.
pub const FAULTS: u64 = bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV) | bit(SIGSYS);
/// The mask of carriers: everything but faults, dispatch, tick and interrupt.
pub const CARRIER_MASK: u64 = !(FAULTS | bit(os::SIGNAL_TICK) | bit(os::SIGNAL_INTERRUPT));
/// The mask of a carrier in a waiting host call: the tick is blocked as well.
pub const WAITING_MASK: u64 = CARRIER_MASK | bit(os::SIGNAL_TICK);
/// The mask of a carrier that clones another: everything but faults. It blocks SIGFPE, which may be ours
/// ([`os::SIGNAL_NO_ROOM`]).
pub const CLONING_MASK: u64 = !FAULTS | bit(os::SIGNAL_NO_ROOM);
/// Signals that queue: 32 and above.
pub(crate) const REAL_TIME: u64 = !0 << 31;
/// The signals that the service thread receives.
pub const SERVICE_SET: u64 = CARRIER_MASK;

const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;

/// The range of the image's text; the same in every child.
static TEXT: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Sets the range of the image's text.
pub fn set_text(start: u64, end: u64) {
    TEXT[0].store(start, Relaxed);
    TEXT[1].store(end, Relaxed);
}

/// The range of the image's text.
pub(crate) fn text() -> Range<u64> {
    TEXT[0].load(Relaxed)..TEXT[1].load(Relaxed)
}

/// The offset of an address in the image's text.
pub(crate) fn offset_in_image(rip: u64) -> Option<u64> {
    let text = text();
    text.contains(&rip).then(|| rip - text.start)
}

pub(crate) fn in_image(rip: u64) -> bool {
    offset_in_image(rip).is_some()
}

/// The signals that carriers need while one of them executes a program. If the host dropped a tick or a kick, it would
/// count as on its way for ever. Ignored signals reach a program of ours through its options instead.
pub(crate) const NEEDED_BY_CARRIERS: u64 = bit(os::SIGNAL_TICK) | bit(os::SIGNAL_INTERRUPT) | bit(os::SIGNAL_NO_ROOM);
/// The signals that threads need which make calls meanwhile: a fault at a bad address in such a call must not reach the
/// program.
pub(crate) const NEEDED_BY_THREADS: u64 = NEEDED_BY_CARRIERS | FAULTS;

/// Actions of ours that are not installed in the host while a program is executed.
#[derive(Debug, Default)]
pub(crate) struct HandedBack {
    actions: [(i32, HostAction); 8],
    len: usize,
}

/// Prepares exec: where a signal has a handler of ours but the program ignores it, the host is told to ignore it,
/// because exec passes that on. Signals in `needed` keep their handlers until the call succeeds.
pub(crate) fn hand_back(ignored: SigSet, needed: u64) -> HandedBack {
    let set = ignored.0 & !SERVICE_SET & !needed;
    let mut back = HandedBack::default();
    for signal in (1..=os::SIGNAL_INTERRUPT).filter(|&signal| set & bit(signal) != 0) {
        // A vfork child may have put another action in the place of ours.
        if report::sigaction(signal, None).handler > abi::SIG_IGN {
            let ignore = HostAction { handler: abi::SIG_IGN, ..HostAction::default() };
            back.actions[back.len] = (signal, report::sigaction(signal, Some(&ignore)));
            back.len += 1;
        }
    }
    back
}

impl HandedBack {
    /// Restores the actions after a failed exec. Returns whether signals may have been dropped meanwhile.
    pub(crate) fn restore(&self) -> bool {
        for (signal, action) in &self.actions[..self.len] {
            report::sigaction(*signal, Some(action));
        }
        self.len > 0
    }
}

/// How many threads are executing a program; and the signals that were caught for them and no longer need to be
/// (`caught`). A signal that is ignored by default keeps its handler, because removing it would drop a pending one
/// (`do_sigaction`).
#[derive(Debug, Default)]
pub(crate) struct Caught(pub Lock<(u32, u64)>);

/// The host's `sigaction` for a handler of ours, with additional flags.
pub(crate) fn action(handler: u64, flags: u64) -> HostAction {
    let restorer = entry::entresol_restorer as *const () as u64;
    HostAction { handler, flags: flags | SA_SIGINFO | SA_RESTORER | SA_ONSTACK, restorer, mask: !0 }
}

/// The parts of the host's siginfo that we look at.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct HostInfo {
    pub(crate) signal: i32,
    pub(crate) errno: i32,
    pub(crate) code: i32,
    pad: i32,
    pub(crate) fields: [u64; 14],
}

impl HostInfo {
    /// For a caught system call: the table that its number refers to.
    pub(crate) fn architecture(&self) -> u32 {
        (self.fields[1] >> 32) as u32
    }

    /// For a timer's signal: the timer's id.
    pub(crate) fn timer(&self) -> i32 {
        self.fields[0] as i32
    }

    /// Whether a process sent it.
    pub(crate) fn was_sent(&self) -> bool {
        self.code <= 0
    }

    /// The value of a queued signal or timer.
    pub(crate) fn value(&self) -> u64 {
        self.fields[1]
    }
}

/// Whether it is a signal of ours that was sent without a cookie ([`os::send`]): from this process, or from an unknown
/// sender if the queue had no room for the information. Signals that the program sends itself do not pass through the
/// host.
pub(crate) fn is_ours(info: &[u8; 128], pid: i32) -> bool {
    const SI_USER: i32 = 0;
    const SI_TKILL: i32 = -6;
    let word = |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    match word(8) {
        SI_TKILL => word(16) == pid,
        SI_USER => word(16) == 0,
        _ => false,
    }
}

/// The host's siginfo as bytes.
pub fn info_bytes(info: &HostInfo) -> [u8; 128] {
    // SAFETY: plain data of that size.
    unsafe { core::ptr::read(core::ptr::from_ref(info).cast()) }
}

const _: () = assert!(size_of::<HostInfo>() == 128);

/// Lets the instruction fault again, with the default action this time.
pub fn die_again(signal: i32) {
    report::sigaction(signal, Some(&HostAction::default()));
}
