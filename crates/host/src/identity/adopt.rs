//! Every host thread of the process takes on the identity that all its threads have.
//!
//! The caller walks the carriers and signals those that have the old base, until none has: the handler makes
//! the calls wherever it finds them (parked, in a host call that it cuts short and that is made again, in the kernel),
//! as glibc does natively. A carrier that cannot, or that has other credentials afterwards than it should,
//! ends the process: that is better than to run on with old rights.
//!
//! **None is missed.** A carrier is cloned, with the number of its maker's identity, under a lock and with
//! signals blocked, and a walk holds that lock: what it finds is all there is, and a carrier has the
//! old base from its maker only.

use super::{Credentials, Identities, Table};
use crate::carrier::Carrier;
use crate::identity::credentials::Change;
use crate::machine::kernel;
use crate::{os, report, service};
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::syscall;
use os::nr;
use sync::atomic::Ordering::*;

/// What is to be done by each host thread.
#[derive(Debug)]
pub(super) struct Order {
    from: u32,
    to: u32,
    path: Vec<Change>,
    credentials: Credentials,
}

/// Makes `table.others[at]` the base, on all host threads.
pub(super) fn everywhere(table: &mut Table, all: &Identities, at: usize) {
    let (from, to) = (all.base.load(Relaxed), table.others[at].number);
    let Some(path) = table.path(from, to) else {
        report::fatal(format_args!("identity {to} cannot be reached from {from}"));
    };
    let credentials = table.others[at].credentials;
    let order = Box::into_raw(Box::new(Order { from, to, path, credentials }));
    // The order before this one has been carried out by everybody.
    let before = all.order.swap(order, SeqCst);
    if !before.is_null() {
        // SAFETY: it came from `Box::into_raw`, and nobody looks at it after its walk.
        drop(unsafe { Box::from_raw(before) });
    }
    adopt_here();
    let mut round = 0;
    while let Some(late) = kernel().m.carriers.find(from) {
        if round % 64 == 0 {
            call(late);
        }
        os::relax(round % 64);
        round += 1;
    }
    table.base = Some(credentials);
    table.others.clear();
    all.base.store(to, SeqCst);
    kernel().m.set_uid(credentials.users[0]);
    kernel().m.carriers.end_spares_but(to);
}

fn call(carrier: &Carrier) {
    if carrier.gs.borrowed == service::SERVICE {
        service::call();
    } else {
        let tid = carrier.tid.load(Acquire);
        if tid != 0 {
            os::signal_for_identity(kernel().m.pid, tid as i32);
        }
    }
}

/// The calling host thread carries the order out if it has the old base. Also called by the
/// handler of the interrupt signal, so without locks and memory of its own.
pub(crate) fn adopt_here() {
    let me = Carrier::me();
    // SAFETY: an order lives until the next one, which comes when all have carried it out.
    let Some(order) = (unsafe { kernel().m.identities.order.load(SeqCst).as_ref() }) else { return };
    if me.identity.load(SeqCst) == order.from {
        make(&order.path, &order.credentials);
        me.identity.store(order.to, SeqCst);
    }
}

const PR_GET_DUMPABLE: usize = 3;
const PR_SET_DUMPABLE: usize = 4;

/// Makes these changes on the calling host thread, which has these credentials then, or the
/// process ends.
pub(super) fn make(path: &[Change], credentials: &Credentials) {
    // A change of rights makes the process undumpable once more; the program may have said otherwise
    // since the first (`commit_creds`).
    // SAFETY: only asks.
    let dumpable = unsafe { syscall!(nr::PRCTL, PR_GET_DUMPABLE, 0, 0, 0, 0) };
    #[cfg(feature = "planted")]
    let path = crate::planted::forget_changes(path);
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
