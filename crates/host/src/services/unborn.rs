//! A forked child before it has a kernel.
//!
//! Many children only exit, or soon execute a program. So `fork` gives a child no kernel: it continues with a copy of
//! its parent's context, on a copy of the block of its parent's carrier, which is marked [`UNBORN`]. The few calls with
//! which children begin, end and arrange their descriptors are passed to the host ([`call`]). For an exec it uses what
//! was read for it before the fork ([`exec::by_unborn`]). At any other trap it is born ([`be_born`]): it gets a kernel
//! of its own, which handles the trap. A timer forces that after a few milliseconds.
//!
//! Of its parent's memory it uses the context, the block and the signal stack, which nobody else wrote to at the time
//! of the fork. It takes none of the parent's locks, because their holders do not exist in it.
//!
//! Signals are handled as in a process that is [`alone`]: those that the host treats as the program wants are
//! unblocked, the others stay pending at the host until the child is born.

use crate::base::catch;
use crate::base::clock::Clock;
use crate::base::os::{self, nr};
use crate::carriers::carrier::{Carrier, KERNEL_STACK, UNBORN};
use crate::carriers::{alarms, outside};
use crate::process::{Host, found};
use crate::services::start::{begin, open};
use crate::services::{alone, caught, exec};
use abi::{CloneArgs, clone_flags as cf};
use alloc::boxed::Box;
use arch::context::{pending, reg};
use arch::{Context, base, syscall};
use ids::ThreadIdx;
use kernel::machine::Received;
use kernel::{Call, Config, Kernel, Machine, Next};
use linux::{Inheritance, Linux};
use sync::atomic::Ordering::*;

/// What a child has from its parent, and what it has done itself so far.
pub(crate) struct Birth {
    /// The thread that forked, and its arguments.
    pub thread: ThreadIdx,
    pub args: CloneArgs,
    pub inherited: Inheritance,
    pub clock: Clock,
    /// The signals that the carrier leaves unblocked.
    pub open: u64,
    /// The timer by which it is born at the latest; -1: none.
    pub timer: i32,
    /// The list of robust futexes that the child has registered; 0: none.
    pub robust_list: u64,
}

impl Birth {
    fn shares_descriptors(&self) -> bool {
        self.args.flags & cf::FILES != 0
    }
}

/// Continues in a forked child, in the middle of the call: without a kernel if it can do so for a while.
pub(crate) fn go_on(me: &'static Carrier, mut birth: Box<Birth>) -> Next {
    let (k, t) = (me.process(), birth.thread);
    catch::way().begin_thread();
    me.gs.pending.store(0, Relaxed);
    me.gs.interrupt.store(0, Relaxed);
    k.m.with_context(t, |context| {
        context.r[reg::RAX] = 0;
        if birth.args.stack != 0 {
            context.r[reg::RSP] = birth.args.stack + birth.args.stack_size;
        }
    });
    // Only a kernel enforces limits and makes records.
    let waits = k.config().limits.is_empty() && !k.m.records.are_made();
    birth.timer = waits.then(|| alarms::make_one(alone::PATIENCE)).flatten().unwrap_or(-1);
    let (waits, open) = (birth.timer >= 0, birth.open);
    // Closes its copies of descriptors that only its parent knows. With CLONE_FILES they are the parent's own.
    if !birth.shares_descriptors() {
        let personality = &k.personality;
        personality.poller().into_iter().chain(personality.stand_ins()).for_each(|fd| os::close(fd as i32));
    }
    me.borrower.store(Box::into_raw(birth).cast(), Relaxed);
    if waits {
        // SAFETY: this carrier's own block.
        unsafe { (*base::gs()).borrowed = UNBORN };
        // A signal may have been noted before the mark was cleared above.
        if outside::is_due(os::getpid()) {
            me.gs.pending.fetch_or(pending::KICK, AcqRel);
        }
        alone::change_mask(k.m.service.open.load(Relaxed), open);
        return Next::Run(t);
    }
    let me = be_born(me);
    let k = me.process();
    Next::Run(k.current(me.cpu()))
}

/// Called at the beginning of a trap: the caller's block. If the process is not born yet, it is born first.
#[inline(always)]
pub(crate) fn born() -> &'static Carrier {
    let me = Carrier::me();
    if me.gs.borrowed == UNBORN { be_born(me) } else { me }
}

/// A call that the host answers as the child's kernel would: its result; `None` for other calls.
pub(crate) fn call(me: &Carrier, call: &Call) -> Option<isize> {
    // SAFETY: set before the block was marked, and the child has one host thread.
    let birth = unsafe { &mut *me.borrower.load(Relaxed).cast::<Birth>() };
    let [a, b, c, ..] = call.args;
    match call.nr {
        nr::EXIT | nr::EXIT_GROUP => os::exit_group(a as i32),
        nr::GETPID | nr::GETTID => Some(os::getpid() as isize),
        nr::SET_ROBUST_LIST => {
            // SAFETY: the program's own call, on its behalf.
            let result = unsafe { syscall!(nr::SET_ROBUST_LIST, a, b) };
            if result == 0 {
                birth.robust_list = a;
            }
            Some(result)
        }
        // A kernel of its own would know no more of its descriptors than the host does.
        nr::CLOSE | nr::DUP | nr::DUP2 | nr::DUP3 if !birth.shares_descriptors() => {
            // SAFETY: the program's own call, on its behalf.
            Some(unsafe { syscall!(call.nr, a, b, c) })
        }
        nr::EXECVE => exec::by_unborn(me, &birth.clock, &birth.inherited, call),
        _ => None,
    }
}

/// Gives the child a kernel for a call that [`call`] did not make.
pub(crate) fn be_born_to_answer(old: &'static Carrier) -> &'static Carrier {
    let me = be_born(old);
    // Signals may have arrived while an exec failed.
    caught::hand_in(me);
    me
}

/// Gives the child a kernel. The caller continues on the kernel's first carrier, whose block this returns; the thread
/// is where it was.
#[cold]
#[inline(never)]
pub(crate) fn be_born(old: &'static Carrier) -> &'static Carrier {
    let parent = old.process();
    // SAFETY: from `go_on`, and nobody uses it again.
    let birth = unsafe { Box::from_raw(old.borrower.load(Relaxed).cast::<Birth>()) };
    let context = old.gs.context;
    os::open_room();
    (parent.m.settings.hooks.in_child)();
    let Birth { thread: forker, args, inherited, clock, timer, robust_list, .. } = *birth;
    let host = parent.m.for_child(parent.config().cpus, clock);
    let config = Config { pid: ids::Pid(os::getpid()), uid: os::getuid(), ..parent.config().clone() };
    // The kernel is built on this kernel stack and moved several times before it is boxed.
    const { assert!(size_of::<Kernel<Host>>() <= KERNEL_STACK / 8) };
    let Some(new) = host.and_then(|host| Kernel::new(host, config).ok()) else { os::exit_group(127) };
    let k = found(new);
    k.m.records.begin_child(k.config(), &parent.m.records);
    let t = begin(k, inherited.kernel().first_cpu());
    Linux(k).take_inheritance(t, inherited);
    // SAFETY: a copy of the parent's, which nobody uses any more.
    k.m.contexts.set_trapped(t, unsafe { *parent.m.contexts.trapped(forker) });
    let thread = k.thread(t);
    thread.robust_list.store(robust_list, Relaxed);
    if args.flags & cf::CHILD_CLEARTID != 0 {
        thread.clear_child_tid.store(args.child_tid, Relaxed);
    }
    let me = Carrier::me();
    me.alarms.adopt(timer);
    // SAFETY: the new thread's context, which this carrier has claimed, and a copy of the parent's, which nobody uses any more.
    unsafe { move_in(old, me, &mut *k.m.contexts.get(t), &*context) };
    open(k);
    // Signals that were noted or stayed pending meanwhile.
    k.m.receive(Received::All);
    os::close_room();
    me
}

/// Makes the new thread continue where the thread that forked was, or where the child has come since.
///
/// # Safety
/// `mine` is the context of the calling carrier `me`.
unsafe fn move_in(old: &Carrier, me: &Carrier, mine: &mut Context, before: &Context) {
    // SAFETY: as the caller promises; plain data.
    unsafe {
        let claim = mine.claim.load(Relaxed);
        core::ptr::copy_nonoverlapping(before, mine, 1);
        mine.claim.store(claim, Relaxed);
        mine.host_carrier.store(0, Relaxed);
        // Whatever rights the caller had, all threads of this process have them.
        mine.identity.store(0, Relaxed);
        (*base::gs()).xmm = old.gs.xmm;
        *me.fault.info.get() = *old.fault.info.get();
        *me.fault.trapped.get() = *old.fault.trapped.get();
    }
    me.fault.pending.store(old.fault.pending.load(Relaxed), Relaxed);
    me.gs.pending.fetch_or(old.gs.pending.load(Relaxed), AcqRel);
}
