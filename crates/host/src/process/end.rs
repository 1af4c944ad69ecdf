//! The end of the process.

use crate::base::os;
use crate::base::report;
use crate::carriers::carrier::{BORROWED, Carrier, UNBORN};
use crate::process::Process;
use arch::base;
use kernel::Raise;

/// Ends the process.
pub(crate) fn exit(k: &Process, status: i32) -> ! {
    k.m.records.end();
    sum_up(k);
    k.m.page.remove();
    k.m.natives.end();
    os::exit_group(status)
}

/// Makes the summary, before the process ends.
pub(crate) fn sum_up(k: &Process) {
    (k.m.settings.hooks.at_exit)(k);
}

/// Has the host perform the signal's default action on the process.
pub(crate) fn suffer(k: &Process, signal: i32, action: Raise) {
    if action == Raise::Terminate {
        leave_nothing(k);
    }
    let before = os::suffer(signal);
    // Only a stop returns, when the process continues.
    if action != Raise::Terminate
        && let Some(before) = before
    {
        report::sigaction(signal, Some(&before));
    }
}

/// Makes a process that ends with a report remove its files.
pub(crate) fn prepare() {
    report::set_last_act(|| {
        // A borrower is a process of its own, and a child without a kernel has nothing yet.
        if base::has_gs() && !matches!(Carrier::me().gs.borrowed, BORROWED | UNBORN) {
            leave_nothing(Carrier::my_process());
        }
    });
}

fn leave_nothing(k: &Process) {
    k.m.page.remove();
    k.m.natives.end();
    k.m.records.end();
}
