//! The end of the process.

use crate::base::os::{self, HostAction};
use crate::base::report;
use crate::carriers::carrier::{BORROWED, Carrier, UNBORN};
use crate::carriers::leave::Frame;
use crate::process::{Process, states};
use abi::SigInfo;
use arch::base;
use ids::ThreadIdx;

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

/// Has the host stop the process. Returns when it continues.
pub(crate) fn stop(signal: i32) {
    if let Some(before) = os::suffer(signal) {
        report::sigaction(signal, Some(&before));
    }
}

/// Ends the process by a signal of its current thread `t`. A core dump and a debugger find the program's registers: those
/// at the instruction that faulted, or behind the call in which the signal came. An instruction that faulted is not
/// executed again: something may be mapped there by now, by another thread or by the image.
pub(crate) fn fall(k: &Process, t: ThreadIdx, info: &SigInfo) -> ! {
    leave_nothing(k);
    let signal = info.signo();
    // SIGKILL has no action that could be changed.
    let _ = os::try_sigaction(signal, Some(&HostAction::default()));
    // The host delivers it before all others that are pending (`dequeue_synchronous_signal`).
    let mask = os::sigprocmask(0, 1 << (signal - 1));
    if os::queue_info(os::getpid(), os::gettid(), &info.to_bytes()) < 0 {
        os::suffer(signal);
    }
    let (registers, state) = k.m.with_context(t, |c| {
        states::load_fs_base(c);
        k.m.state_in_frame(c)
    });
    Frame::default().go(&registers, state, mask & !(1 << (signal - 1)), Carrier::me().signal_stack())
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
