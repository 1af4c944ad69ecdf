//! Borrowers: processes that run in our memory, by `vfork(2)` until they execute a program or end, or by `clone(2)` with
//! CLONE_VM for as long as they live.
//!
//! The host runs a borrower as a process of its own, with its own id, descriptors and signal actions, on none of our
//! CPUs. It has its own carrier block, kernel stack and context before its first instruction, because it runs the same
//! patched code; nearly all its calls go straight to the host.
//!
//! | module | subject |
//! |---|---|
//! | `mod` | its beginning, its calls, its end |
//! | `memory` | what its exec allocates |
//! | `signals` | its mask, its actions, and handlers that run in it |
//! | `tracer` | our threads as it sees them through `ptrace(2)` and `/proc`: this is how LeakSanitizer reads their registers |
//! | `words` | futex words that it shares with our threads |

pub mod memory;
mod signals;
mod tracer;
mod words;

pub(crate) use signals::{again, fault, sent};
pub(crate) use words::wake_borrowers;

use crate::base::catch;
use crate::base::dispositions::CLONING_MASK;
use crate::base::os::{self, nr};
use crate::carriers::carrier::Carrier;
use crate::carriers::leave::Frame;
use crate::process::Process;
use crate::services::exec::HandedDown;
use crate::services::fork::{by_either_call, make_process};
use crate::services::{alone, exec};
use crate::serving::away::away;
use abi::{CloneArgs, Errno, SigSet, clone_flags as cf};
use alloc::boxed::Box;
use arch::context::reg;
use arch::{Context, Kind, base, entry, user, xstate};
use core::cell::UnsafeCell;
use core::sync::atomic::compiler_fence;
use ids::ThreadIdx;
use kernel::{Call, Next, hint};
use signal::{ProcessSignals, ThreadSignals};
use sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// A borrower's state besides its carrier's block. Used by its own host thread only, except `tid`.
pub(crate) struct Borrower {
    context: UnsafeCell<Context>,
    /// The thread of ours that made it.
    from: ThreadIdx,
    process: ProcessSignals,
    thread: ThreadSignals,
    /// Written by its handler, possibly while the rest is in use.
    arrivals: signals::Arrivals,
    /// The frame with which it continues when a signal must be let in.
    frame: Frame,
    /// For a child with its own memory: state from before the fork. The kernel in its memory is a copy whose locks may
    /// be held for ever.
    apart: Option<HandedDown>,
    /// For a child whose maker waits for it: state from before, so that its exec needs none of our locks.
    down: Option<HandedDown>,
    /// Memory of ours that the borrower's exec needs.
    lent: exec::Lent,
    tracer: tracer::Tracer,
    /// The addresses for the borrower's id and for the 0 at its end; 0: none.
    set_tid: u64,
    clear_tid: u64,
    /// The borrower's host thread. The host stores 0 when the borrower has left our memory.
    tid: AtomicU32,
}

impl core::fmt::Debug for Borrower {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Borrower").field("from", &self.from).finish_non_exhaustive()
    }
}

impl Borrower {
    /// The borrower of this block: the caller itself, or one that has not begun or has ended.
    #[allow(clippy::mut_from_ref)]
    fn of(carrier: &Carrier) -> &mut Borrower {
        // SAFETY: set before it begins; one host thread uses it, and its handler the parts that are atomic.
        unsafe { &mut *carrier.borrower_state().cast() }
    }
}

/// Makes a borrower for a thread of ours. With CLONE_VFORK the thread waits for it as for a host call, and others have
/// the CPU.
#[inline(never)]
pub(crate) fn lend(me: &'static Carrier, args: &CloneArgs) -> Next {
    let (k, cpu) = (me.process(), me.cpu());
    let t = k.current(cpu);
    if args.flags & cf::VFORK == 0 {
        alone::end(k);
    }
    let signals = k.signals_for_child(t, args.flags);
    // For programs that the borrower executes: it must not update the clock itself, because it may be killed meanwhile.
    k.m.clock.keep();
    let down = (args.flags & cf::VFORK != 0).then(|| HandedDown::by(k, t));
    let Some(child) = create(k, t, signals, args, [None, down]) else {
        return k.process_done(cpu, Errno::ENOMEM.to_ret());
    };
    if args.flags & cf::VFORK == 0 {
        // SAFETY: the current thread's context, and a child that nobody has seen.
        let result = unsafe { start_with_slack(k, t, child, &me.gs.xmm, CLONING_MASK, args) };
        me.tracing.is_parent(k.tid(t));
        return k.process_done(cpu, result);
    }
    k.thread(t).wait.call.store(nr::VFORK as u32, Relaxed);
    let busy = k.leave_for_host(cpu, t, 0);
    alone::before_host(me, busy);
    away(me, t, busy, |_| {
        let mask = CLONING_MASK & !alone::let_through(k);
        // SAFETY: the thread waits, so its context is this carrier's; its FS base and control words are still loaded.
        let result = unsafe { start_with_slack(k, t, child, &me.gs.xmm, mask, args) };
        me.tracing.is_parent(k.tid(t));
        // Signals that the child has sent its parent come first.
        k.thread(t).hint.fetch_or(hint::ARRIVALS, AcqRel);
        // A borrower made by the child may outlive it.
        if words::are_shared(k) {
            alone::end(k);
        }
        result
    })
}

/// `start` for a thread of ours, whose timer slack the borrower inherits.
///
/// # Safety
/// As for `start`.
unsafe fn start_with_slack(
    k: &Process,
    t: ThreadIdx,
    child: *mut Carrier,
    xmm: &[u128; 16],
    mask: u64,
    args: &CloneArgs,
) -> isize {
    os::set_timer_slack(k.thread(t).slacks()[0]);
    // SAFETY: as the caller promises.
    let result = unsafe { start(child, k.m.contexts.get(t), xmm, mask, args) };
    os::set_timer_slack(os::FINEST);
    result
}

/// A block for a borrower; `None` without memory.
fn create(
    k: &Process,
    from: ThreadIdx,
    (thread, process): (ThreadSignals, ProcessSignals),
    args: &CloneArgs,
    [apart, down]: [Option<HandedDown>; 2],
) -> Option<*mut Carrier> {
    words::sweep(k);
    let wants = |flag: u64| if args.flags & flag != 0 { args.child_tid } else { 0 };
    let borrower = Box::new(Borrower {
        context: UnsafeCell::new(Context::default()),
        from,
        process,
        thread,
        arrivals: signals::Arrivals::default(),
        frame: Frame::default(),
        apart,
        down,
        lent: exec::Lent::default(),
        tracer: tracer::Tracer::default(),
        set_tid: wants(cf::CHILD_SETTID),
        clear_tid: wants(cf::CHILD_CLEARTID),
        tid: AtomicU32::new(u32::MAX),
    });
    let borrower = Box::into_raw(borrower);
    // SAFETY: nobody else has a block that the list of borrowers gives out.
    let child = unsafe { Carrier::borrowed(words::spare(k), k.m.carriers.process(), borrower.cast()) };
    if child.is_none() {
        // SAFETY: nobody has it.
        drop(unsafe { Box::from_raw(borrower) });
    }
    child
}

/// Clones the host thread of `child`, which continues where `parent` stands. With CLONE_VFORK it returns when the child
/// has left our memory. Until it returns, the caller has this mask, with which the child begins.
///
/// # Safety
/// `child` must be fresh, `parent` complete except for what is in the caller's registers.
unsafe fn start(child: *mut Carrier, parent: *const Context, xmm: &[u128; 16], mask: u64, args: &CloneArgs) -> isize {
    // These are not the host's: a child sets up what it has of its own itself (`begin`), and it has handlers of ours.
    const OURS: u64 = cf::CHILD_SETTID | cf::CHILD_CLEARTID | cf::SETTLS | cf::SIGHAND | cf::CLEAR_SIGHAND;
    // SAFETY: as the caller promises.
    unsafe {
        let k = (*child).process();
        let (b, gs) = (Borrower::of(&*child), &raw mut (*child).gs);
        let (c, parent) = (&mut *b.context.get(), &*parent);
        c.r = parent.r;
        (c.rip, c.rflags, c.kind, c.library) = (parent.rip, parent.rflags | 0x202, parent.kind, parent.library);
        c.r[reg::RAX] = 0;
        if args.stack != 0 {
            c.r[reg::RSP] = args.stack + args.stack_size;
        }
        c.fs_base = if args.flags & cf::SETTLS != 0 { args.tls } else { base::fs_base() };
        c.xbuf = Carrier::buffer_of(child);
        if c.kind == Kind::Full as u32 && !parent.xbuf.is_null() {
            core::ptr::copy_nonoverlapping(parent.xbuf, c.xbuf, xstate::size());
        }
        // It belongs to no carrier, and its loaded state is valid.
        c.claim(0);
        (*gs).xmm = *xmm;
        (*gs).fs_base_due = 1;
        (*gs).context = c;
        let (stack, stack_size) = Carrier::kernel_stack_of(child);
        // The host clears the word even if the child is killed before it has begun.
        let (flags, child_tid) = (args.flags & !OURS | cf::CHILD_CLEARTID, b.tid.as_ptr() as u64);
        let raw = CloneArgs { flags, child_tid, stack, stack_size, tls: 0, ..*args };
        words::lent(k, child);
        let before = os::sigprocmask(2, mask);
        let result = by_either_call(&raw, |nr, arguments| entry::clone_lent(nr, arguments, gs));
        os::sigprocmask(2, before);
        if result < 0 {
            b.tid.store(0, Relaxed);
        }
        words::sweep(k);
        result
    }
}

/// The first function of a borrower: sets what the host keeps per thread as the image needs it.
pub(crate) fn begin(me: &Carrier) -> *mut Context {
    let b = Borrower::of(me);
    me.use_signal_stack();
    catch::way().begin_thread();
    if b.set_tid != 0 {
        let _ = user::store_u32(b.set_tid, os::gettid() as u32);
    }
    // After a failed exec, some signals that are ignored by default have handlers of ours, too (`caught`).
    let ours = alone::installed(me.process()) | SigSet::IGNORED_BY_DEFAULT;
    signals::begin(b, b.process.actions().caught() | ours);
    b.context.get()
}

/// A call of a borrower. Calls with large frames are separate functions: each page of the stack is a fault for a
/// borrower.
#[inline(never)]
pub(crate) fn call(me: &Carrier, c: &mut Context, call: Call) {
    let a = &call.args;
    let b = || Borrower::of(me);
    let result = match call.nr {
        nr::EXECVE | nr::EXECVEAT => execute(b(), &call),
        nr::RT_SIGPROCMASK => signals::set_mask(b(), a),
        nr::RT_SIGACTION => signals::set_action(b(), a),
        nr::SIGALTSTACK => signals::set_stack(b(), c, a),
        nr::RT_SIGRETURN => signals::back(me, c),
        nr::FORK | nr::VFORK | nr::CLONE | nr::CLONE3 => multiply(me, c, &call),
        nr::EXIT | nr::EXIT_GROUP => end(me.process(), b(), &call),
        nr::FUTEX => words::futex(me.process(), b(), &call),
        // The word that the host clears is ours.
        nr::SET_TID_ADDRESS => {
            b().clear_tid = a[0];
            os::gettid() as isize
        }
        nr::PTRACE => tracer::ptrace(me.process(), &mut b().tracer, &call),
        nr::WAIT4 => tracer::wait(me.process(), &mut b().tracer, &call),
        nr::GETDENTS | nr::GETDENTS64 => tracer::list(me.process(), &call),
        _ => os::interruptible(&call),
    };
    signals::settle(b(), c, call.nr, result);
}

/// Ends the borrower. The host clears only one of the words that must be cleared at its end.
fn end(k: &Process, b: &Borrower, call: &Call) -> isize {
    if b.clear_tid != 0 && user::store_u32(b.clear_tid, 0).is_ok() {
        words::wake(k, b, b.clear_tid, false, 1);
    }
    os::interruptible(call)
}

#[inline(never)]
fn execute(b: &mut Borrower, call: &Call) -> isize {
    let (from, mask, ignored) = (b.from, b.thread.blocked(), b.process.actions().ignored());
    let known = b.apart.as_ref().or(b.down.as_ref());
    let down = || known.cloned().unwrap_or_else(|| HandedDown::by(Carrier::my_process(), from));
    // Left over from a failed exec.
    b.lent = exec::Lent::default();
    memory::within_piece(Carrier::me(), || exec::by_borrower(down, mask.0, ignored, &mut b.lent, call))
}

/// The borrower makes a process. A child with its own memory stays outside our kernel as well, and keeps a single
/// thread.
#[inline(never)]
fn multiply(me: &Carrier, c: &mut Context, call: &Call) -> isize {
    let a = &call.args;
    let vfork = cf::VM | cf::VFORK;
    let args = match call.nr {
        nr::FORK => Ok(CloneArgs { exit_signal: SIGCHLD, ..CloneArgs::default() }),
        nr::VFORK => Ok(CloneArgs { flags: vfork, exit_signal: SIGCHLD, ..CloneArgs::default() }),
        nr::CLONE => Ok(CloneArgs::from_clone(a[0], a[1], a[2], a[3], a[4])),
        _ => read_args(a),
    };
    let args = match args {
        Ok(args) if args.flags & cf::THREAD != 0 => return Errno::EAGAIN.to_ret(),
        Ok(args) => args,
        Err(e) => return e.to_ret(),
    };
    let b = Borrower::of(me);
    let signals = (b.thread.for_child(args.flags), b.process.for_child(args.flags & cf::CLEAR_SIGHAND != 0));
    let k = me.process();
    // Stopped threads may hold locks that are needed here.
    if b.tracer.holds_them() {
        return Errno::EAGAIN.to_ret();
    }
    if args.flags & cf::VM != 0 {
        return unkilled(|| {
            let apart = b.apart.clone();
            let Some(child) = create(k, b.from, signals, &args, [apart, None]) else { return Errno::ENOMEM.to_ret() };
            // SAFETY: the caller's own context, complete except for the registers that it continues with.
            unsafe { start(child, c, &me.gs.xmm, CLONING_MASK, &args) }
        });
    }
    let apart = b.apart.clone().unwrap_or_else(|| unkilled(|| HandedDown::by(k, b.from)));
    let raw = CloneArgs { flags: args.flags & !cf::CLEAR_SIGHAND, stack: 0, stack_size: 0, ..args };
    let mut result = 0;
    let mut call = || result = make_process(&raw);
    unkilled(|| {
        // The child makes borrowers as well, so it must find this lock free.
        let _lent = k.m.lent.lock();
        (k.m.settings.hooks.with_allocator_held)(&mut call);
    });
    compiler_fence(SeqCst);
    if result == 0 {
        catch::way().begin_thread();
        b.apart = Some(apart);
        // The host clears its own word, and the other one is its parent's.
        b.clear_tid = 0;
        let before = b.process.actions().caught();
        (b.thread, b.process) = signals;
        signals::begin(b, before);
        if args.stack != 0 {
            c.r[reg::RSP] = args.stack + args.stack_size;
        }
    }
    result
}

/// Runs code that takes our locks: a signal that ended a borrower there would leave them held. SIGKILL still can, and
/// so can the signals of faults if they are sent.
fn unkilled<T>(f: impl FnOnce() -> T) -> T {
    let before = os::sigprocmask(2, CLONING_MASK);
    let result = f();
    os::sigprocmask(2, before);
    result
}

const SIGCHLD: u64 = 17;

fn read_args(a: &[u64; 6]) -> Result<CloneArgs, Errno> {
    CloneArgs::check_size(a[1] as usize)?;
    let mut bytes = [0; 4096];
    let bytes = &mut bytes[..a[1] as usize];
    user::read(a[0], bytes).map_err(|_| Errno::EFAULT)?;
    CloneArgs::read(bytes)
}

/// A word written by a handler.
type Word = AtomicU64;
