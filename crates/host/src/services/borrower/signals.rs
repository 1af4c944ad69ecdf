//! Signals of a borrower.
//!
//! The host delivers them by the borrower's own mask and actions, because it is never made with CLONE_SIGHAND. Where
//! the program has a handler, the host has `on_signal`. It finds the borrower
//!
//! - **in user code**, or at the first instruction of an entry, which is equivalent: it puts the program's frame on the
//!   program's stack and returns to the program's handler.
//! - **in the image**: the signal stays at the host, blocked, and the call in progress ends or does not begin
//!   ([`entry::host_call`]). The way out finds the mark in `Gs::pending` and ends in [`again`], which leaves through
//!   `rt_sigreturn` with a frame of our own. Mask and registers change together, and the signal arrives in user code.

use super::{Borrower, Word};
use crate::base::dispositions::{self, FAULTS, HostInfo, SERVICE_SET};
use crate::base::os::{self, nr};
use crate::base::{report, sites};
use crate::carriers::carrier::Carrier;
use crate::process::states;
use abi::frame::{self as layout, Registers};
use abi::{Errno, SIG_DFL, SaFlags, SigAction, SigInfo, SigSet, Signal, StackT};
use arch::context::{pending, reg};
use arch::frame::HostFrame;
use arch::{Context, base, entry, syscall, user};
use signal::frame::{ExtendedState, FramePlan, address_at_sigreturn, read};
use signal::{AltStack, Delivery, MaskHow};
use sync::atomic::Ordering::*;

/// Signals that the handler leaves to the rest of the image.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Signals that stay at the host until the way out.
    kept: Word,
    /// Kept signals whose handlers restart calls (SA_RESTART); the others end them with EINTR.
    restarting: Word,
    /// A signal without SA_RESTART has been kept.
    ends_call: Word,
    /// The host's description of extended state in its frames.
    state: [Word; layout::FpSwBytes::SIZE / 8],
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The mask for the host: the program's, except for signals that the image needs.
fn host_mask(b: &Borrower) -> u64 {
    b.thread.blocked().0 & !FAULTS
}

/// Puts the actions of these signals and the mask into force.
pub(super) fn begin(b: &Borrower, caught: SigSet) {
    for signal in caught.iter() {
        tell_host(b, signal);
    }
    os::sigprocmask(2, host_mask(b));
}

/// Sets the host's action for a signal to the program's, with our handler in place of the program's.
fn tell_host(b: &Borrower, signal: Signal) {
    const OF_CHILDREN: u64 = SaFlags::NOCLDSTOP.0 | SaFlags::NOCLDWAIT.0;
    let action = b.process.actions().get(signal);
    let restarts = if action.flags.has(SaFlags::RESTART) { bit(signal.raw()) } else { 0 };
    b.arrivals.restarting.fetch_and(!bit(signal.raw()), Relaxed);
    b.arrivals.restarting.fetch_or(restarts, Relaxed);
    if SERVICE_SET & bit(signal.raw()) == 0 {
        return;
    }
    let flags = action.flags.0 & OF_CHILDREN;
    let host = match action.is_handler() {
        true => dispositions::action(on_signal as *const () as u64, flags),
        false => os::HostAction { handler: action.handler, flags, ..os::HostAction::default() },
    };
    report::sigaction(signal.raw(), Some(&host));
}

pub(super) fn set_mask(b: &mut Borrower, a: &[u64; 6]) -> isize {
    let [how, set, old, size, ..] = *a;
    let before = b.thread.blocked();
    let set_it = |b: &mut Borrower| {
        SigSet::check_size(size as usize)?;
        if set != 0 {
            let set = SigSet(user::load_u64(set).map_err(|_| Errno::EFAULT)?);
            let _ = b.process.set_mask(&mut b.thread, MaskHow::from_raw(how as i32)?, set);
            os::sigprocmask(2, host_mask(b));
        }
        if old == 0 { Ok(()) } else { user::store_u64(old, before.0).map_err(|_| Errno::EFAULT) }
    };
    answer(set_it(b))
}

pub(super) fn set_action(b: &mut Borrower, a: &[u64; 6]) -> isize {
    let [signal, new, old, size, ..] = *a;
    let set_it = |b: &mut Borrower| {
        SigSet::check_size(size as usize)?;
        let mut bytes = [0; SigAction::SIZE];
        if new != 0 {
            user::read(new, &mut bytes).map_err(|_| Errno::EFAULT)?;
        }
        let signal = Signal::from_raw(signal as i32).ok_or(Errno::EINVAL)?;
        let before = b.process.actions().get(signal);
        if new != 0 {
            let _ = b.process.set_action(signal, SigAction::from_bytes(&bytes))?;
            tell_host(b, signal);
        }
        if old == 0 { Ok(()) } else { user::write(old, &before.to_bytes()).map_err(|_| Errno::EFAULT) }
    };
    answer(set_it(b))
}

pub(super) fn set_stack(b: &mut Borrower, c: &Context, a: &[u64; 6]) -> isize {
    let [new, old, ..] = *a;
    let sp = c.r[reg::RSP];
    let before = b.thread.altstack.report(sp);
    let set_it = |b: &mut Borrower| {
        if new != 0 {
            let mut bytes = [0; StackT::SIZE];
            user::read(new, &mut bytes).map_err(|_| Errno::EFAULT)?;
            b.thread.altstack.set(StackT::from_bytes(&bytes), sp, AltStack::MIN_SIZE)?;
        }
        if old == 0 { Ok(()) } else { user::write(old, &before.to_bytes()).map_err(|_| Errno::EFAULT) }
    };
    answer(set_it(b))
}

fn answer(result: Result<(), Errno>) -> isize {
    result.map_or_else(Errno::to_ret, |()| 0)
}

/// Ends a call: sets its result, or restarts it after the handler.
pub(super) fn settle(b: &mut Borrower, c: &mut Context, nr: usize, result: isize) {
    let cut = result == Errno::EINTR.to_ret() && b.arrivals.kept.load(Relaxed) != 0;
    let again = cut && linux::restarts(nr) == Errno::ERESTARTSYS && b.arrivals.ends_call.load(Relaxed) == 0;
    b.arrivals.ends_call.store(0, Relaxed);
    if again || result == Errno::ERESTARTNOINTR.to_ret() {
        Carrier::my_process().m.restart(c, None);
    } else {
        c.r[reg::RAX] = result as u64;
    }
}

/// The host's handler for a signal for which the program has one.
unsafe extern "C" fn on_signal(_: i32, info: *const HostInfo, frame: *mut HostFrame) {
    base::allow_misaligned();
    // SAFETY: the host passes both.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    catch(Carrier::me(), info, frame);
}

fn catch(me: &Carrier, info: &HostInfo, frame: &mut HostFrame) {
    if dispositions::in_image(frame.rip()) && !entry::is_entry(frame.rip()) {
        keep(me, info, frame);
    } else {
        deliver(me, info, frame);
    }
}

fn keep(me: &Carrier, info: &HostInfo, frame: &mut HostFrame) {
    let (arrivals, bytes) = (&Borrower::of(me).arrivals, dispositions::info_bytes(info));
    let signal = info.signal;
    for (to, word) in arrivals.state.iter().zip(frame.state_words()) {
        to.store(word, Relaxed);
    }
    arrivals.kept.fetch_or(bit(signal), Relaxed);
    if arrivals.restarting.load(Relaxed) & bit(signal) == 0 {
        arrivals.ends_call.store(1, Relaxed);
    }
    // SAFETY: the host copies the information; the signal is blocked from here on.
    unsafe { syscall!(nr::RT_TGSIGQUEUEINFO, os::getpid(), os::gettid(), signal, bytes.as_ptr()) };
    frame.sigmask |= bit(signal);
    me.gs.interrupt.store(1, SeqCst);
    me.gs.pending.fetch_or(pending::KICK, SeqCst);
    if let Some(to) = entry::interrupted(frame.rip()) {
        frame.set_rip(to);
    } else if (entry::resume_start()..entry::resume_end()).contains(&frame.rip()) {
        frame.divert(entry::again(), me.gs.kernel_stack);
    }
}

/// After a signal was kept: the borrower continues with its own mask, and the signal arrives there.
pub(crate) fn again(me: &Carrier) -> ! {
    let b = Borrower::of(me);
    me.gs.pending.store(0, SeqCst);
    me.gs.interrupt.store(0, SeqCst);
    // SAFETY: the borrower's own, which the image works with.
    let c = unsafe { &mut *b.context.get() };
    states::load_fs_base(c);
    me.process().m.make_full(c);
    let registers = Registers { rip: c.rip, ..states::registers(c) };
    let words = b.arrivals.state.each_ref().map(|word| word.load(Relaxed));
    // SAFETY: the buffer has room for the host's form of the state, and what ends it.
    let state = unsafe { arch::frame::finish_state(c.xbuf, words) };
    go_on(me, &registers, state as u64)
}

/// Leaves the image through the host's `rt_sigreturn`.
fn go_on(me: &Carrier, registers: &Registers, state: u64) -> ! {
    let b = Borrower::of(me);
    let kept = b.arrivals.kept.swap(0, Relaxed);
    let mask = host_mask(b) & !kept;
    b.frame.go(registers, state, mask, me.signal_stack())
}

/// Makes the program's handler run next, on the program's stack.
fn deliver(me: &Carrier, info: &HostInfo, frame: &mut HostFrame) {
    let b = Borrower::of(me);
    let Ok(info) = SigInfo::read(&dispositions::info_bytes(info)) else { return };
    let Some(signal) = info.signal() else { return };
    let action = b.process.actions().get(signal);
    if !action.is_handler() {
        return;
    }
    let (old_mask, altstack) = (b.thread.mask_to_save(), b.thread.altstack);
    let delivery = Delivery { info, action, old_mask, altstack };
    let Some(entry) = write_frame(&delivery, frame) else {
        os::suffer(SIGSEGV);
        return;
    };
    if action.flags.has(SaFlags::RESETHAND) {
        let _ = b.process.set_action(signal, SigAction { handler: SIG_DFL, ..action });
        tell_host(b, signal);
    }
    let _ = b.process.delivered(&mut b.thread, &delivery);
    frame.enter(words_of(&entry), entry.rip, entry.eflags);
    frame.sigmask = host_mask(b);
}

const SIGSEGV: i32 = 11;

fn write_frame(delivery: &Delivery, frame: &HostFrame) -> Option<Registers> {
    let mut interrupted = Registers::default();
    let r = |i| frame.reg(i);
    set_words(&mut interrupted, r);
    interrupted.rip = sites::seen(frame.rip(), r(reg::RCX));
    interrupted.eflags = frame.flags();
    let trapped = frame.trapped();
    (interrupted.err, interrupted.trapno, interrupted.cr2) = (trapped.error, trapped.number, trapped.address);
    let state = frame.state();
    let form = match frame.state_size() {
        None => ExtendedState::Fxsave,
        // The copied state records its own features.
        Some(size) => ExtendedState::Xsave { size, features: 0 },
    };
    let plan = FramePlan::new(delivery, interrupted.rsp, form).ok()?;
    user::write(plan.fpstate, state).ok()?;
    user::write(plan.frame, &plan.bytes(delivery, &interrupted)).ok()?;
    Some(plan.entry(delivery, &interrupted))
}

/// General registers in the order of [`reg`].
fn words_of(r: &Registers) -> [u64; 16] {
    [r.rax, r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9, r.rsp, r.rbx, r.rcx, r.rbp, r.r11, r.r12, r.r13, r.r14, r.r15]
}

fn set_words(to: &mut Registers, r: impl Fn(usize) -> u64) {
    (to.rax, to.rdi, to.rsi, to.rdx) = (r(reg::RAX), r(reg::RDI), r(reg::RSI), r(reg::RDX));
    (to.r10, to.r8, to.r9, to.rsp) = (r(reg::R10), r(reg::R8), r(reg::R9), r(reg::RSP));
    (to.rbx, to.rcx, to.rbp, to.r11) = (r(reg::RBX), r(reg::RCX), r(reg::RBP), r(reg::R11));
    (to.r12, to.r13, to.r14, to.r15) = (r(reg::R12), r(reg::R13), r(reg::R14), r(reg::R15));
}

/// `rt_sigreturn(2)`: the handler has returned.
pub(super) fn back(me: &Carrier, c: &Context) -> ! {
    let b = Borrower::of(me);
    let mut bytes = [0; layout::SIZE];
    let at = address_at_sigreturn(c.r[reg::RSP]);
    let returned = user::read(at, &mut bytes).ok().and_then(|()| read(&bytes, c.rflags).ok());
    let Some(returned) = returned.filter(|returned| returned.fault(user::USER_END).is_none()) else {
        os::suffer(SIGSEGV);
        report::abort()
    };
    let sp = returned.registers.rsp;
    let _ = b.process.sigreturn(&mut b.thread, returned.mask, returned.stack, sp);
    let registers = Registers { rip: sites::real(returned.registers.rip), ..returned.registers };
    go_on(me, &registers, returned.fpstate)
}

/// A fault signal in user code.
pub(crate) fn fault(info: &HostInfo, frame: &mut HostFrame) {
    let me = Carrier::me();
    let b = Borrower::of(me);
    let signal = Signal::from_raw(info.signal);
    let handled = signal.is_some_and(|s| b.process.actions().get(s).is_handler() && !b.thread.blocked().contains(s));
    if handled {
        deliver(me, info, frame);
    } else {
        dispositions::die_again(info.signal);
    }
}

/// A signal that was sent and for which the host has a handler of the image's own: faults, ticks and interrupts. There
/// is no kernel to leave it to, so without a handler of the program's the host performs the default action.
pub(crate) fn sent(me: &Carrier, info: &HostInfo, frame: &mut HostFrame) {
    let b = Borrower::of(me);
    let Some(signal) = Signal::from_raw(info.signal) else { return };
    if b.process.actions().ignores(signal) || b.thread.blocked().contains(signal) {
        return;
    }
    if b.process.actions().get(signal).is_handler() {
        return catch(me, info, frame);
    }
    report::sigaction(info.signal, Some(&os::HostAction::default()));
    os::queue_info(os::getpid(), os::gettid(), &dispositions::info_bytes(info));
}
