//! `fork(2)`.

use crate::base::os;
use crate::carriers::carrier::Carrier;
use crate::services::alone;
use crate::services::unborn::{self, Birth};
use abi::{CloneArgs, Errno, clone_flags as cf};
use alloc::boxed::Box;
use arch::syscall;
use core::ptr;
use kernel::Next;
use linux::Linux;
use os::nr;

/// `fork(2)`. The child gets its own kernel, with one thread, when it needs one (`unborn`). It never uses the parent's
/// kernel, so locks that were held there at the fork do not matter.
#[inline(never)]
pub(crate) fn fork(me: &'static Carrier, args: &CloneArgs) -> Next {
    let k = me.process();
    let t = k.current(me.cpu());
    if !os::keep_room() {
        return k.process_done(me.cpu(), Errno::ENOMEM.to_ret());
    }
    // The child inherits the mappings and its kernel inherits their records, so nobody may map or free a stack
    // meanwhile.
    let stacks = Linux(k).memory().stacks().hold();
    let birth = Box::new(Birth {
        thread: t,
        args: *args,
        inherited: Linux(k).inheritance(t, args.flags, &stacks),
        clock: k.m.clock.for_child(),
        open: alone::open_for(k, t),
        timer: -1,
        robust_list: 0,
    });
    // The flags for the host: no CHILD_CLEARTID, which would apply to the host thread, and no CLEAR_SIGHAND, because
    // the handlers that the host knows are ours.
    let flags = args.flags & !(cf::CHILD_CLEARTID | cf::CLEAR_SIGHAND);
    let raw = CloneArgs { flags, stack: 0, stack_size: 0, ..*args };
    let mut result = 0;
    // The child's host thread inherits the slack of this one, which must not have it while it may wait for a lock: with
    // a long one the host may never end our own short sleeps.
    let mut call = || {
        os::set_timer_slack(k.thread(t).slacks()[0]);
        result = make_process(&raw);
        if result != 0 {
            os::set_timer_slack(os::FINEST);
        }
    };
    let hooks = k.m.settings.hooks;
    (hooks.with_allocator_held)(&mut call);
    if result == 0 {
        return unborn::go_on(me, birth);
    }
    drop((stacks, birth));
    me.tracing.is_parent(k.tid(t));
    k.process_done(me.cpu(), result)
}

/// Asks the host for a process with a copy of all memory, which goes on right here, too: the result is 0 there.
pub(crate) fn make_process(args: &CloneArgs) -> isize {
    debug_assert!(args.flags & cf::VM == 0);
    // SAFETY: the child has a copy of all memory and goes on right here.
    by_either_call(args, |nr, [a, b, c, d, e]| unsafe { syscall!(nr, a, b, c, d, e) })
}

/// Makes `clone3(2)`, or `clone(2)` where a filter refuses the former: those of Docker and containerd do, because they cannot
/// look at the flags behind its pointer.
pub(crate) fn by_either_call(args: &CloneArgs, make: impl Fn(usize, [u64; 5]) -> isize) -> isize {
    let result = make(nr::CLONE3, [ptr::from_ref(args) as u64, size_of::<CloneArgs>() as u64, 0, 0, 0]);
    let is_refused = [Errno::ENOSYS, Errno::EPERM].iter().any(|refused| refused.to_ret() == result);
    match args.to_clone().filter(|_| is_refused) {
        Some(old) => make(nr::CLONE, old),
        None => result,
    }
}
