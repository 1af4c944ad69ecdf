//! `fork(2)`.

use crate::base::clock::Clock;
use crate::base::os;
use crate::carriers::carrier::{Carrier, KERNEL_STACK};
use crate::process::{Host, found};
use crate::services::start::{begin, open};
use abi::{CloneArgs, Errno, clone_flags as cf};
use arch::context::reg;
use arch::{base, syscall};
use kernel::{Config, Kernel, Next};
use linux::{Inheritance, Linux};
use os::nr;
use sync::atomic::Ordering::*;

/// fork: the child gets a kernel of its own, with one thread. The parent's kernel is not
/// looked at in the child, so it does not matter who held which of its locks.
pub(crate) fn fork(me: &'static Carrier, args: &CloneArgs) -> Next {
    let k = me.process();
    let t = k.current(me.cpu());
    if !os::keep_room() {
        return k.process_done(me.cpu(), Errno::ENOMEM.to_ret());
    }
    // The child's stacks are what its kernel believes of them, so nobody maps or frees one meanwhile.
    let stacks = Linux(k).memory().stacks().hold();
    let inherited = Linux(k).inheritance(t, args.flags, &stacks);
    // The host's part: no CHILD_CLEARTID, which would be about the host thread, and no CLEAR_SIGHAND, as the handlers
    // that the host knows are ours.
    let flags = args.flags & !(cf::CHILD_CLEARTID | cf::CLEAR_SIGHAND);
    let raw = CloneArgs { flags, stack: 0, stack_size: 0, ..*args };
    let mut result = 0;
    let clock = k.m.clock.for_child();
    // The child's host thread has what this one has.
    os::set_timer_slack(k.thread(t).slacks()[0]);
    let mut call = || {
        // SAFETY: the child has a copy of all memory and goes on right here.
        result = unsafe { syscall!(nr::CLONE3, &raw const raw, size_of::<CloneArgs>()) };
    };
    let hooks = k.m.settings.hooks;
    (hooks.with_allocator_held)(&mut call);
    if result != 0 {
        drop(stacks);
        os::set_timer_slack(os::FINEST);
        me.tracing.is_parent(k.tid(t));
        return k.process_done(me.cpu(), result);
    }
    begin_child(me, args, inherited, clock)
}

/// The child begins, on the stack of its parent's carrier.
///
/// Not part of [`fork`], because the parent has no use for a frame with room for a kernel.
#[inline(never)]
fn begin_child(me: &'static Carrier, args: &CloneArgs, inherited: Inheritance, clock: Clock) -> Next {
    let k = me.process();
    let t = k.current(me.cpu());
    // The vectors of a call by dispatch, which lie in the block of a carrier that the child does not have.
    let xmm = me.gs.xmm;
    os::open_room();
    (k.m.settings.hooks.in_child)();
    // SAFETY: the parent's context, copied; nobody else runs in this process.
    let (parent, trapped) = unsafe { (core::ptr::read(k.m.contexts.get(t)), *k.m.contexts.trapped(t)) };
    let host = k.m.for_child(k.config().cpus, clock);
    let config = Config { pid: ids::Pid(os::getpid()), uid: os::getuid(), ..k.config().clone() };
    // It is made on this kernel stack, and passed on by value several times before it is in its box.
    const { assert!(size_of::<Kernel<Host>>() <= KERNEL_STACK / 8) };
    let Some(new) = host.and_then(|host| Kernel::new(host, config).ok()) else { os::exit_group(127) };
    // The copy of the parent's. With CLONE_FILES it is the parent's own.
    if let Some(fd) = k.m.poller.descriptor().filter(|_| args.flags & cf::FILES == 0) {
        os::close(fd as i32);
    }
    let parents = &k.m.records;
    let k = found(new);
    k.m.records.begin_child(k.config(), parents);
    let t = begin(k);
    Linux(k).take_inheritance(t, inherited);
    open(k);
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
