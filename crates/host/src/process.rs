//! The whole process: its end, its children, the next program.

use crate::carrier::{Carrier, KERNEL_STACK};
use crate::machine::{Host, kernel, set_kernel};
use crate::os::{self, HostAction, nr};
use crate::{borrower, debugger, exec, identity, page, recorder, service};
use abi::{CloneArgs, Errno, clone_flags as cf};
use alloc::boxed::Box;
use arch::context::reg;
use arch::{base, syscall};
use core::sync::atomic::AtomicPtr;
use ids::CpuId;
use kernel::{Config, Fatal, Kernel, Next, Process};
use linux::Linux;
use sync::atomic::Ordering::*;

/// Hooks by which the image learns of the life of the process.
#[derive(Debug)]
pub struct Hooks {
    /// The process ends: the summary.
    pub at_exit: fn(),
    /// A forked child begins.
    pub in_child: fn(),
    /// Runs its argument with the allocator held, so that a child finds it whole.
    pub with_allocator_held: fn(&mut dyn FnMut()),
}

static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the hooks.
pub fn set_hooks(hooks: &'static Hooks) {
    HOOKS.store(core::ptr::from_ref(hooks).cast_mut(), Release);
}

fn hooks() -> Option<&'static Hooks> {
    // SAFETY: null or a `&'static Hooks`.
    unsafe { HOOKS.load(Acquire).as_ref() }
}

/// Carries out what the kernel leaves to the machine.
pub(crate) fn carry_out(me: &'static Carrier, what: Process) -> Next {
    let result = match what {
        Process::Exit(status) => exit(status),
        Process::Exec(call) => {
            let t = kernel().current(me.cpu());
            if let Some(next) = identity::to_first(me, t) {
                return next;
            }
            recorder::flush();
            exec::by_thread(&kernel().m.handover, t, &call)
        }
        Process::Rights(call) => return identity::carry_out(me, kernel().current(me.cpu()), &call),
        Process::Clone(args) if args.flags & cf::VM != 0 => return borrower::lend(me, &args),
        Process::Clone(args) => return fork(me, &args),
    };
    kernel().process_done(me.cpu(), result)
}

/// Ends the process.
pub fn exit(status: i32) -> ! {
    recorder::end();
    if let Some(hooks) = hooks() {
        (hooks.at_exit)();
    }
    page::remove();
    loop {
        // SAFETY: ends everything.
        unsafe { syscall!(nr::EXIT_GROUP, status) };
    }
}

/// Ends the process by SIGABRT, whatever the program wants of it.
pub fn abort() -> ! {
    const SIGABRT: i32 = 6;
    suffer(SIGABRT, Fatal::Terminate);
    loop {
        // SAFETY: as in `exit`.
        unsafe { syscall!(nr::EXIT_GROUP, 134) };
    }
}

/// Lets the host do to the process what it does by default for this signal.
pub(crate) fn suffer(signal: i32, action: Fatal) {
    let ends = action == Fatal::Terminate;
    if ends {
        page::remove();
        recorder::end();
    }
    let before = os::try_sigaction(signal, Some(&HostAction::default()));
    // SAFETY: the signal is for this host thread and arrives when it is let through.
    unsafe { syscall!(nr::TGKILL, os::getpid(), os::gettid(), signal) };
    let mask = os::sigprocmask(1, 1 << (signal - 1));
    // Only a stop returns, when the process continues.
    os::sigprocmask(2, mask);
    if !ends && let Ok(before) = before {
        crate::report::sigaction(signal, Some(&before));
    }
}

/// fork: the child gets a kernel of its own, with one thread. The parent's kernel is not
/// looked at in the child, so it does not matter who held which of its locks.
fn fork(me: &'static Carrier, args: &CloneArgs) -> Next {
    let k = kernel();
    let t = k.current(me.cpu());
    if !os::keep_room() {
        return k.process_done(me.cpu(), Errno::ENOMEM.to_ret());
    }
    // The child's stacks are what its kernel believes of them, so nobody maps or frees one meanwhile.
    let stacks = Linux(k).memory().stacks().hold();
    let inherited = Linux(k).inheritance(t, args.flags, &stacks);
    // The vectors of a call by dispatch, which lie in the block of a carrier that the child does not have.
    let xmm = me.gs.xmm;
    // The host's part: no CHILD_CLEARTID, which would be about the host thread, and no CLEAR_SIGHAND, as the handlers
    // that the host knows are ours.
    let flags = args.flags & !(cf::CHILD_CLEARTID | cf::CLEAR_SIGHAND);
    let mut raw = CloneArgs { flags, stack: 0, stack_size: 0, ..*args };
    raw.set_tid_size = 0;
    let mut result = 0;
    // The child's host thread has what this one has.
    os::set_timer_slack(k.thread(t).slacks()[0]);
    let mut call = || {
        // SAFETY: the child has a copy of all memory and goes on right here.
        result = unsafe { syscall!(nr::CLONE3, &raw const raw, size_of::<CloneArgs>()) };
    };
    match hooks() {
        Some(hooks) => (hooks.with_allocator_held)(&mut call),
        None => call(),
    }
    if result != 0 {
        drop(stacks);
        os::set_timer_slack(os::FINEST);
        me.tracing.is_parent(t);
        return kernel().process_done(me.cpu(), result);
    }
    os::open_room();
    // SAFETY: the parent's context, copied; nobody else runs in this process.
    let (parent, trapped) = unsafe { (core::ptr::read(k.m.contexts.get(t)), *k.m.contexts.trapped(t)) };
    let host = Host::new(k.config().cpus, k.m.handover.clone()).inspect(|host| host.ahead.follow(&k.m.ahead));
    let config = Config { pid: ids::Pid(os::getpid()), ..k.config().clone() };
    // It is made on this kernel stack, and passed on by value several times before it is in its box.
    const { assert!(size_of::<Kernel<Host>>() <= KERNEL_STACK / 8) };
    let Some(new) = host.and_then(|host| Kernel::new(host, config).ok()) else { exit(127) };
    // The copy of the parent's.
    if let Some(fd) = k.m.poller.descriptor() {
        os::close(fd as i32);
    }
    set_kernel(Box::new(new));
    recorder::begin_child();
    if let Some(hooks) = hooks() {
        (hooks.in_child)();
    }
    let k = kernel();
    let t = begin(k.config().pid.0);
    Linux(k).take_inheritance(t, inherited);
    open();
    os::close_room();
    if args.flags & cf::CHILD_CLEARTID != 0 {
        k.thread(t).clear_child_tid.store(args.child_tid, Relaxed);
    }
    let mine = k.m.contexts.get(t);
    k.m.contexts.set_trapped(t, trapped);
    let me = Carrier::me();
    // SAFETY: the new thread's context, which this carrier has claimed.
    unsafe {
        let claim = (*mine).claim.load(Relaxed);
        core::ptr::write(mine, parent);
        (*mine).claim.store(claim, Relaxed);
        (*mine).host_carrier.store(0, Relaxed);
        // Whatever rights the caller had are those that all have here.
        (*mine).identity.store(0, Relaxed);
        (*base::gs()).xmm = xmm;
        if args.stack != 0 {
            (*mine).r[reg::RSP] = args.stack + args.stack_size;
        }
    }
    k.process_done(me.cpu(), 0)
}

/// Makes the calling host thread the first carrier, on the first CPU, and its user thread
/// the main thread. The kernel has been set.
pub fn begin(pid: i32) -> ids::ThreadIdx {
    let k = kernel();
    service::forget();
    let Some(me) = k.m.carriers().create() else { crate::report::fatal(format_args!("no memory for a carrier")) };
    // SAFETY: from now on this host thread is that carrier.
    unsafe { base::set_gs_base(&raw const me.gs) };
    me.tid.store(pid as u32, Release);
    // All begin with the rights of this one.
    me.identity.store(0, Relaxed);
    let cpu = CpuId(0);
    k.m.seats().take_first(cpu, me);
    let Some(t) = k.adopt_main(cpu) else { crate::report::fatal(format_args!("no memory for the main thread")) };
    // A forked child has it from its parent, and a program that exec has brought from the one before.
    k.thread(t).set_slacks(os::reset_timer_slack());
    let context = k.m.contexts.get(t);
    // SAFETY: the thread runs here and now; its block is ours alone.
    unsafe {
        let gs = core::ptr::from_ref(&me.gs).cast_mut();
        (*gs).context = context;
        (*context).claim(me.number);
    }
    me.settle();
    debugger::publish();
    t
}

/// From now on signals from outside arrive: mask and dispositions are the program's.
pub fn open() {
    service::start();
    page::announce();
}

/// Registrations that the loader made with the host for the main thread before we came: they are ours from now on.
/// `rseq_offset` is the distance of the rseq area from the FS base.
pub fn adopt_registrations(t: ids::ThreadIdx, rseq_offset: Option<i64>) {
    const PR_GET_NAME: usize = 16;
    const PR_GET_TID_ADDRESS: usize = 40;
    let thread = kernel().thread(t);
    let (mut head, mut len, mut word) = (0u64, 0u64, 0u64);
    let mut name = [0u8; 16];
    // SAFETY: the host fills the words.
    unsafe {
        if syscall!(nr::PRCTL, PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) == 0 {
            thread.set_name(&name);
            kernel().begin_groups(t);
        }
        if syscall!(nr::GET_ROBUST_LIST, 0, &raw mut head, &raw mut len) == 0 {
            // It stays with the host, too, for the case that the process is killed.
            thread.robust_list.store(head, Relaxed);
        }
        if syscall!(nr::PRCTL, PR_GET_TID_ADDRESS, &raw mut word, 0, 0, 0) == 0 {
            thread.clear_child_tid.store(word, Relaxed);
            syscall!(nr::SET_TID_ADDRESS, 0);
        }
    }
    if let Some(offset) = rseq_offset {
        let area = base::fs_base().wrapping_add_signed(offset);
        // SAFETY: the host checks that this is what was registered.
        let gone = unsafe { syscall!(nr::RSEQ, area, 32, 1, RSEQ_SIGNATURE) } == 0;
        if gone {
            thread.rseq.store(area, Relaxed);
            thread.rseq_signature.store(RSEQ_SIGNATURE, Relaxed);
            thread.rseq_cpu.store(0, Relaxed);
        }
    }
}

/// The signature that glibc registers on x86-64 (`RSEQ_SIG`).
const RSEQ_SIGNATURE: u32 = 0x5305_3053;
