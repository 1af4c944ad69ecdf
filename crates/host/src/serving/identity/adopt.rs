//! Every host thread of the process takes on the identity that all its threads have.
//!
//! The caller signals the carriers that have the old base and waits until none has: the handler makes
//! the calls wherever it finds them (parked, in a host call that it cuts short and that is made again, in the kernel),
//! as glibc does natively. A carrier that cannot, or that has other credentials afterwards than it should,
//! ends the process: that is better than to run on with old rights.
//!
//! **None is missed.** A carrier is cloned, with the number of its maker's identity, under a lock and with
//! signals blocked, and the last walk holds that lock: what it finds is all there is, and a carrier has the
//! old base from its maker only.
//!
//! **None is waited for that waits for the caller**, who holds the lock of the table of identities all the time.
//! A carrier waits for that lock with the signal open, and follows the order meanwhile. Three have it blocked: the service
//! thread, which follows when it asks for its next signal, a carrier that clones, and one that makes an exec. They do not
//! take that lock (`Identities::lock`), nor wait for anybody who does; so a carrier is made without it (`identity_for_new`).
//!
//! **The changes are made once, and in their order.** Who is making them already has the signal blocked (`uninterrupted`).

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
        // The carrier was made since, or is one that the signal did not find.
        if followed.load(SeqCst) == seen {
            carriers.with_identity(from).for_each(|c| call(m, c));
            patience = Nanos((2 * patience.0).min(PATIENCE_MAX.0));
        }
    }
}

/// After so long without anybody following, those that are left are called again; and at most after so long.
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

/// Whether the calling host thread has a base that is to be left.
pub(super) fn is_to_change(me: &Carrier) -> bool {
    let mine = me.identity.load(SeqCst);
    mine != NO_IDENTITY && me.process().m.identities.left.load(SeqCst) == mine + 1
}

/// The calling host thread carries the order out if it has the old base. Also called by the
/// handler of the interrupt signal, so without locks and memory of its own.
pub(super) fn adopt_here(me: &Carrier) {
    let all = &me.process().m.identities;
    if !is_to_change(me) {
        return;
    }
    // SAFETY: numbers are not given again, so it is the order to leave this base, which lives for as long as anybody has
    // that base, and the caller has.
    let order = unsafe { &*all.order.load(SeqCst) };
    make(&order.path, &order.credentials);
    me.identity.store(order.to, SeqCst);
    all.followed.fetch_add(1, SeqCst);
    os::futex_wake(&all.followed);
}

/// The calling carrier, whose identity is `from`, makes these changes for itself and has the identity `to` then;
/// unless an order has come first.
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

/// Makes these changes on the calling host thread, which has these credentials then, or the
/// process ends.
fn make(path: &[Change], credentials: &Credentials) {
    // A change of rights makes the process undumpable once more; the program may have said otherwise
    // since the first (`commit_creds`).
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
    // SAFETY: sets what was.
    unsafe { syscall!(nr::PRCTL, PR_SET_DUMPABLE, dumpable, 0, 0, 0) };
}
