//! The host's signals.
//!
//! Every handler runs on the carrier's signal stack with all signals blocked, checks where the carrier was, and does
//! one of three things: it leaves a mark (the carrier is in the kernel and will check), changes where the carrier
//! continues (the entry, a fixup, the kernel stack), or reports and ends the process.

use crate::carrier::{BORROWED, Carrier};
use crate::os::{self, HostAction};
use crate::{outside, report, sites};
use arch::context::{flag, pending, reg};
use arch::frame::HostFrame;
use arch::{entry, syscall, user};
use sync::atomic::{AtomicU64, Ordering::*};

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;
const SIGSYS: i32 = 31;

/// The signals of faults.
pub const FAULTS: u64 = bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV) | bit(SIGSYS);
/// The mask of carriers: everything but faults, dispatch, tick and interrupt.
pub const CARRIER_MASK: u64 = !(FAULTS | bit(os::SIGNAL_TICK) | bit(os::SIGNAL_INTERRUPT));
/// The mask of a carrier in a waiting host call: the tick, too.
pub const WAITING_MASK: u64 = CARRIER_MASK | bit(os::SIGNAL_TICK);
/// The mask of a carrier that clones another: everything but faults, including what may be one of ours.
pub const CLONING_MASK: u64 = !FAULTS | bit(os::SIGNAL_NO_ROOM);
/// The signals that the service thread receives.
pub const SERVICE_SET: u64 = CARRIER_MASK;

const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SI_TIMER: i32 = -2;
const SYS_USER_DISPATCH: i32 = 2;
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

static TEXT: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Says where the image's text lies: one range, which dispatch lets through.
pub fn set_text(start: u64, end: u64) {
    TEXT[0].store(start, Relaxed);
    TEXT[1].store(end, Relaxed);
}

pub(crate) fn in_image(rip: u64) -> bool {
    (TEXT[0].load(Relaxed)..TEXT[1].load(Relaxed)).contains(&rip)
}

/// Turns system call dispatch on for this host thread.
pub fn dispatch_on() {
    const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
    let (start, end) = (TEXT[0].load(Relaxed), TEXT[1].load(Relaxed));
    // SAFETY: from here on system calls outside the image arrive at our handler.
    let r = unsafe { syscall!(os::nr::PRCTL, PR_SET_SYSCALL_USER_DISPATCH, 1, start, end - start, 0) };
    if r < 0 {
        report::fatal(format_args!("the host refused system call dispatch (error {})", -r));
    }
}

const SIG_IGN: u64 = 1;

/// Before a new program: the host ignores what the program ignores of the signals that have handlers of ours, as exec
/// hands that on. True if our handlers must be installed again should the exec fail.
pub fn hand_back() -> bool {
    let k = crate::machine::kernel();
    // Other threads may still make calls and get ticks and kicks, whose handlers they need until the call succeeds.
    let needed = bit(SIGSYS) | bit(os::SIGNAL_TICK) | bit(os::SIGNAL_INTERRUPT);
    let kept = if k.threads().live() > 1 && !Carrier::is_borrowed() { needed } else { 0 };
    let ignored = if Carrier::is_borrowed() { Carrier::me().borrower().ignored() } else { k.ignored() };
    let set = ignored.0 & !SERVICE_SET & !kept;
    for signal in (1..=os::SIGNAL_INTERRUPT).filter(|&signal| set & bit(signal) != 0 && is_handled(signal)) {
        crate::report::sigaction(signal, Some(&HostAction { handler: SIG_IGN, ..HostAction::default() }));
    }
    set != 0
}

/// The host's `sigaction` for a handler of ours, with additional flags.
pub(crate) fn action(handler: u64, flags: u64) -> HostAction {
    let restorer = entry::entresol_restorer as *const () as u64;
    HostAction { handler, flags: flags | SA_SIGINFO | SA_RESTORER | SA_ONSTACK, restorer, mask: !0 }
}

/// Whether the host has a handler of ours for the signal: a vfork child may have put another action in its place.
pub(crate) fn is_handled(signal: i32) -> bool {
    let has_one = (1..=os::SIGNAL_INTERRUPT).contains(&signal) && !SERVICE_SET & bit(signal) != 0;
    has_one && crate::report::sigaction(signal, None).handler > SIG_IGN
}

/// Installs the handlers of the process.
pub fn install() {
    crate::run::set_up();
    let action = |handler: u64| action(handler, 0);
    crate::report::sigaction(os::SIGNAL_TICK, Some(&action(on_tick as *const () as u64)));
    crate::report::sigaction(os::SIGNAL_INTERRUPT, Some(&action(on_interrupt as *const () as u64)));
    crate::report::sigaction(SIGSYS, Some(&action(on_dispatch as *const () as u64)));
    for signal in [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV] {
        crate::report::sigaction(signal, Some(&action(on_fault as *const () as u64)));
    }
}

/// Of a SIGBUS: an access that is not aligned, with EFLAGS.AC set.
const BUS_ADRALN: i32 = 1;
/// Of a SIGTRAP: a single step.
const TRAP_TRACE: i32 = 2;

/// The parts of the host's siginfo that we look at.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct HostInfo {
    signal: i32,
    errno: i32,
    code: i32,
    pad: i32,
    fields: [u64; 14],
}

impl HostInfo {
    /// Of a system call that was dispatched: the table that its number is from.
    fn architecture(&self) -> u32 {
        (self.fields[1] >> 32) as u32
    }

    /// Of a timer's signal: the timer.
    fn timer(&self) -> i32 {
        self.fields[0] as i32
    }

    /// The signal's number.
    pub(crate) fn signal(&self) -> i32 {
        self.signal
    }

    /// Whether a process has sent it.
    pub(crate) fn was_sent(&self) -> bool {
        self.code <= 0
    }

    /// The value of a queued signal or timer.
    fn value(&self) -> u64 {
        self.fields[1]
    }
}

/// Whether it is a signal of ours that was sent without a cookie ([`os::send`]): from this process or, if the queue
/// had no room to say so, from an unknown sender. Signals that the program sends itself do not pass through the host.
pub(crate) fn is_ours(info: &[u8; 128]) -> bool {
    const SI_USER: i32 = 0;
    const SI_TKILL: i32 = -6;
    let word = |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    match word(8) {
        SI_TKILL => word(16) == crate::machine::kernel().m.pid,
        SI_USER => word(16) == 0,
        _ => false,
    }
}

/// It stands for kick and interrupt, and does what either would.
fn without_room(me: &Carrier, frame: &mut HostFrame) {
    crate::identity::called();
    me.called_in_poller();
    me.gs.pending.fetch_or(kicked(me), AcqRel);
    match entry::interrupted(frame.rip()) {
        Some(to) if me.gs.interrupt.load(SeqCst) != 0 => frame.set_rip(to),
        _ => look(me, frame),
    }
}

/// The message of the kick that has arrived.
fn kicked(me: &Carrier) -> u32 {
    me.kicked.store(false, Release);
    pending::KICK | if me.alarms.was_rung() { pending::TIMER } else { 0 }
}

/// The carrier looks at what is pending, from wherever it is.
fn look(me: &Carrier, frame: &mut HostFrame) {
    let rip = frame.rip();
    if !in_image(rip) {
        preempt(me, frame);
    } else if (entry::resume_start()..entry::resume_end()).contains(&rip) {
        frame.divert(entry::again(), me.gs.kernel_stack);
    }
}

/// Tick and kick.
unsafe extern "C" fn on_tick(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    if info.value() != os::COOKIE {
        return outside::note(&info_bytes(info));
    }
    if !arch::base::has_gs() {
        return;
    }
    let me = Carrier::me();
    let bits = if info.code == SI_TIMER {
        me.alarms.went_off(info.timer());
        pending::TIMER
    } else {
        kicked(me)
    };
    me.gs.pending.fetch_or(bits, AcqRel);
    look(me, frame);
}

/// Takes the thread's state out of the frame; the carrier continues in the kernel. False without memory for it: the
/// thread continues, and the next tick tries again.
fn preempt(me: &Carrier, frame: &mut HostFrame) -> bool {
    // SAFETY: the carrier is in user code, so it has a current thread, whose context is its own.
    let context = unsafe { &mut *me.gs.context };
    let mut buffer = context.xbuf;
    if buffer.is_null() {
        buffer = me.buffer.swap(core::ptr::null_mut(), Relaxed);
        if buffer.is_null() {
            return false;
        }
    }
    // SAFETY: the frame is the host's, the buffer one of ours.
    unsafe { frame.copy_out(context, buffer) };
    frame.land(entry::entresol_entry_preempt as *const () as u64, me.gs.kernel_stack);
    true
}

/// Ends a host call.
unsafe extern "C" fn on_interrupt(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    if info.value() == os::IDENTITY_COOKIE {
        if arch::base::has_gs() && Carrier::me().gs.borrowed == 0 {
            crate::identity::called();
        }
        return;
    }
    if info.value() != os::COOKIE {
        return outside::note(&info_bytes(info));
    }
    if arch::base::has_gs() {
        Carrier::me().called_in_poller();
    }
    if let Some(to) = entry::interrupted(frame.rip()) {
        frame.set_rip(to);
    }
}

/// A system call from a place that is not patched.
unsafe extern "C" fn on_dispatch(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    if info.code != SYS_USER_DISPATCH {
        return sent_or_fault(info, frame);
    }
    if info.architecture() != AUDIT_ARCH_X86_64 {
        // By `int $0x80`: its numbers are those of another table. As a host without it would answer.
        return frame.set_reg(reg::RAX, abi::Errno::ENOSYS.to_ret() as u64);
    }
    let rip = frame.rip();
    if frame.flags() & (flag::TF | flag::AC) != 0 && copy_call(frame, rip, crate::run::DISPATCHED) {
        return;
    }
    frame.set_reg(reg::RCX, rip);
    frame.set_reg(reg::R11, u64::from(crate::run::DISPATCHED));
    frame.set_rip(entry::entresol_entry_vectors as *const () as u64);
    frame.clear_flags(flag::TF);
}

/// The thread makes a system call with flags that the entries do not keep: all of its state is copied out, as for a
/// preemption, and the flags come back with that. False in a vfork child, which has no kernel to enter, or without memory.
fn copy_call(frame: &mut HostFrame, rip: u64, library: u32) -> bool {
    if !arch::base::has_gs() || Carrier::me().gs.borrowed != 0 || !preempt(Carrier::me(), frame) {
        return false;
    }
    // SAFETY: as in `preempt`, which has filled it.
    let context = unsafe { &mut *Carrier::me().gs.context };
    context.rip = rip;
    context.call = context.r[reg::RAX] as u32;
    context.library = library;
    // As the instruction leaves them.
    context.r[reg::RCX] = rip;
    context.r[reg::R11] = context.rflags;
    frame.set_rip(entry::entresol_entry_copied as *const () as u64);
    true
}

/// Faults, and those signals sent by somebody.
unsafe extern "C" fn on_fault(_signal: i32, info: *const HostInfo, frame: *mut HostFrame) {
    arch::base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    let no_room = info.signal == os::SIGNAL_NO_ROOM && is_ours(&info_bytes(info));
    if no_room && arch::base::has_gs() && Carrier::me().gs.borrowed == 0 {
        return without_room(Carrier::me(), frame);
    }
    sent_or_fault(info, frame);
}

fn sent_or_fault(info: &HostInfo, frame: &mut HostFrame) {
    if info.code <= 0 {
        return outside::note(&info_bytes(info));
    }
    fault(info, frame);
}

/// A flag of the program's that traps in the image. False if the trap is for another reason.
fn trapped_by_flag(info: &HostInfo, frame: &mut HostFrame) -> bool {
    let flag = match (info.signal, info.code) {
        (SIGTRAP, TRAP_TRACE) => flag::TF,
        (SIGBUS, BUS_ADRALN) => flag::AC,
        _ => return false,
    };
    if frame.flags() & flag == 0 {
        return false;
    }
    let (rip, back, library) = (frame.rip(), frame.reg(reg::RCX), frame.reg(reg::R11) as u32);
    if !entry::begins_call(rip) || !copy_call(frame, back, library) {
        frame.clear_flags(flag);
    }
    true
}

fn fault(info: &HostInfo, frame: &mut HostFrame) {
    let rip = frame.rip();
    if in_image(rip) {
        if trapped_by_flag(info, frame) {
            return;
        }
        if let Some(to) = user::fixup(rip) {
            return frame.set_rip(to);
        }
        report::fatal(format_args!(
            "internal fault: signal {} at {:#x} (image + {:#x}), address {:#x}, stack {:#x}",
            info.signal,
            rip,
            rip - TEXT[0].load(Relaxed),
            info.fields[0],
            frame.reg(reg::RSP)
        ));
    }
    if (info.signal, info.code) == (SIGTRAP, TRAP_TRACE) && sites::is_within(rip, frame.reg(reg::RCX)) {
        // The program knows of one instruction there, which has not been made yet.
        return;
    }
    if !arch::base::has_gs() {
        return die_again(info.signal);
    }
    if Carrier::me().gs.borrowed == BORROWED {
        return crate::borrower::fault(info, frame);
    }
    let me = Carrier::me();
    let trapped = frame.trapped();
    #[cfg(feature = "planted")]
    let trapped = if crate::planted::forgets_trap() { Default::default() } else { trapped };
    if !preempt(me, frame) {
        report::fatal(format_args!("no memory to handle signal {} at {rip:#x}", info.signal));
    }
    // SAFETY: only this carrier uses it, and it is not pending now.
    unsafe {
        (*me.fault.info.get()).as_mut_ptr().cast::<HostInfo>().write(*info);
        *me.fault.trapped.get() = trapped;
    }
    me.fault.pending.store(true, Relaxed);
    me.gs.pending.fetch_or(pending::KICK, AcqRel);
}

/// The host's siginfo as bytes.
pub fn info_bytes(info: &HostInfo) -> [u8; 128] {
    // SAFETY: plain data of that size.
    unsafe { core::ptr::read(core::ptr::from_ref(info).cast()) }
}

const _: () = assert!(size_of::<HostInfo>() == 128);

/// Lets the instruction fault again, with the default action this time.
pub fn die_again(signal: i32) {
    crate::report::sigaction(signal, Some(&HostAction::default()));
}
