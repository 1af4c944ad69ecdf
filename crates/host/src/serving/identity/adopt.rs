//! Every host thread of the process takes on the identity that all its threads have.
//!
//! The caller signals the carriers that have the old base and waits until none has. The handler makes the calls
//! wherever it finds a carrier: parked, in a host call (which is cut short and made again), or in the kernel. glibc
//! does the same natively. A carrier that cannot, or that ends up with other credentials than it should, ends the
//! process: running on with old rights would be worse.
//!
//! **None is missed.** A carrier is cloned, with the number of its creator's identity, under a lock and with signals
//! blocked. The last walk holds that lock, so it finds every carrier; and a carrier can have the old base only from its
//! creator.
//!
//! **No deadlock: the caller waits for nobody that waits for it.** The caller holds the lock of the table of identities
//! all the time. A carrier waits for that lock with the signal unblocked, and follows the order meanwhile. Three have
//! it blocked: the service thread, which follows when it asks for its next signal, a carrier that clones, and one in an
//! exec. They do not take that lock (`Identities::lock`) and wait for nobody who does; so a carrier is cloned without
//! it (`identity_for_new`).
//!
//! **The changes are made once, and in order.** A carrier that is already making them has the signal blocked
//! (`uninterrupted`).

use crate::base::dispositions::CLONING_MASK;
use crate::base::{os, report};
use crate::carriers::carrier::{Carrier, NO_IDENTITY, SERVICE};
use crate::carriers::credentials::{Change, Credentials};
use crate::carriers::identities::{Order, Table};
use crate::process::{Host, Process};
use abi::args::{PR_GET_DUMPABLE, PR_SET_DUMPABLE};
use alloc::boxed::Box;
use arch::syscall;
use ids::Nanos;
use os::nr;
use sync::atomic::Ordering::*;

/// Makes `table.others[at]` the base, on all host threads.
pub(super) fn everywhere(k: &Process, table: &mut Table, at: usize) {
    let all = &k.m.identities;
    let (from, to) = (all.base.load(Relaxed), table.others[at].number);
    let Some(path) = table.path(from, to) else {
        report::fatal(format_args!("identity {to} cannot be reached from {from}"));
    };
    let credentials = table.others[at].credentials;
    let order = Box::into_raw(Box::new(Order { to, path, credentials }));
    #[cfg(feature = "planted")]
    crate::carriers::planted::before_order(&all.missing, &k.m.service);
    let before = all.order.swap(order, SeqCst);
    all.left.store(from + 1, SeqCst);
    if !before.is_null() {
        // SAFETY: it came from `Box::into_raw`. No reader holds the old order: each carrier reloads it only after its
        // base changes.
        drop(unsafe { Box::from_raw(before) });
    }
    #[cfg(feature = "planted")]
    crate::carriers::planted::order_is_out();
    uninterrupted(|| adopt_here(Carrier::me()));
    wait_for_all(&k.m, from);
    table.base = Some(credentials);
    table.others.clear();
    all.base.store(to, SeqCst);
    k.process().set_uid(credentials.users[0]);
    k.m.carriers.end_spares_but(to);
}

/// Waits until no host thread has the identity `from` any more. `followed` changes whenever a thread gives it up.
fn wait_for_all(m: &Host, from: u32) {
    let (carriers, followed) = (&m.carriers, &m.identities.followed);
    let mut patience = PATIENCE;
    carriers.with_identity(from).for_each(|c| call(m, c));
    loop {
        let seen = followed.load(SeqCst);
        if !carriers.has_identity(from) {
            return;
        }
        os::futex_wait(followed, seen, Some(patience));
        // The carrier is new, or the signal did not find it.
        if followed.load(SeqCst) == seen {
            carriers.with_identity(from).for_each(|c| call(m, c));
            patience = Nanos((2 * patience.0).min(PATIENCE_MAX.0));
        }
    }
}

/// If nobody has followed for this long, the remaining host threads are signalled again.
const PATIENCE: Nanos = Nanos::from_millis(1);
const PATIENCE_MAX: Nanos = Nanos::from_millis(100);

fn call(m: &Host, carrier: &Carrier) {
    if carrier.gs.borrowed == SERVICE {
        m.service.call();
    } else {
        let tid = carrier.tid.load(Acquire);
        if tid != 0 {
            os::signal_for_identity(m.pid, tid as i32);
        }
    }
}

/// Whether the calling host thread has a base that an order replaces.
pub(super) fn is_to_change(me: &Carrier) -> bool {
    let mine = me.identity.load(SeqCst);
    mine != NO_IDENTITY && me.process().m.identities.left.load(SeqCst) == mine + 1
}

/// Carries out the order if the calling host thread has the old base. Also called by the handler of the interrupt
/// signal, so it takes no locks and allocates nothing.
pub(super) fn adopt_here(me: &Carrier) {
    let all = &me.process().m.identities;
    if !is_to_change(me) {
        return;
    }
    // SAFETY: identity numbers are not reused, so this is the order to leave this base. It lives while any host thread
    // has that base, and the caller has.
    let order = unsafe { &*all.order.load(SeqCst) };
    make(&order.path, &order.credentials);
    me.identity.store(order.to, SeqCst);
    all.followed.fetch_add(1, SeqCst);
    os::futex_wake(&all.followed);
}

/// Makes these changes on the calling carrier, whose identity changes from `from` to `to`, unless an order has come
/// first.
pub(super) fn become_one(me: &Carrier, from: u32, to: u32, path: &[Change], credentials: &Credentials) {
    uninterrupted(|| {
        if me.identity.load(SeqCst) == from {
            make(path, credentials);
            me.identity.store(to, SeqCst);
        }
    });
}

fn uninterrupted(f: impl FnOnce()) {
    let before = os::sigprocmask(2, CLONING_MASK);
    f();
    os::sigprocmask(2, before);
}

/// Makes these changes on the calling host thread. Ends the process if it does not have these credentials afterwards.
fn make(path: &[Change], credentials: &Credentials) {
    // A change of rights makes the process undumpable again, though the program may have changed that since the first
    // (`commit_creds`).
    // SAFETY: only asks.
    let dumpable = unsafe { syscall!(nr::PRCTL, PR_GET_DUMPABLE, 0, 0, 0, 0) };
    #[cfg(feature = "planted")]
    let path = crate::carriers::planted::forget_changes(path);
    let refused = path.iter().map(Change::make).find(|&r| r < 0);
    let now = Credentials::mine(credentials.opaque());
    if now != *credentials {
        report::fatal(format_args!(
            "a host thread could not take on the rights of the process (error {}; it has {now:?}, not {credentials:?}); \
             the process ends before it does anything with other rights",
            -refused.unwrap_or(0)
        ));
    }
    // SAFETY: restores the former value.
    unsafe { syscall!(nr::PRCTL, PR_SET_DUMPABLE, dumpable, 0, 0, 0) };
}
