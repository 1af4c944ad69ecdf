//! Stopping the process in the way the host does.
//!
//! **Simply**, where possible: a stop signal of job control that has no handler and that some thread does not block is
//! blocked by all host threads but the service thread, which does not ask for it either. So the host stops the process
//! by itself, in the order in which stops and SIGCONT are sent.
//!
//! **By a signal to itself**, if a thread finds the stop in its queue: it was sent inside, or blocked until then.
//! SIGCONT voids every stop that was chosen before it, and sending a stop signal removes a SIGCONT that is pending at
//! the host. So the service thread sends itself the stop between two signals that it takes, while no carrier takes any
//! (`Receiving::turn`): no SIGCONT is then on its way between the host and the kernel, and none was pending at the host
//! a moment ago.
//!
//! **By a signal of the thread's carrier to itself**, under a tracer, which waits for that host thread to stop.

use crate::base::{dispositions, os, report, task};
use crate::process::Process;
use crate::process::end;
use abi::{SigInfo, Signal};
use kernel::Machine;
use kernel::machine::Received;
use linux::left;
use sync::atomic::{AtomicI32, Ordering::*};

/// Unblocks the signals by which the host may stop the process itself, and returns them. The service thread, which
/// blocks all others, calls this before it asks the host for a signal.
pub(crate) fn adopt(k: &Process, left: u64) -> u64 {
    let simple = k.simple_stops().0 & !left;
    let now = &k.m.service.simple_stops;
    if simple != now.load(Relaxed) {
        os::sigprocmask(2, !dispositions::FAULTS & !simple);
        now.store(simple, SeqCst);
    }
    simple
}

/// Called when the service thread may leave too much unblocked: waits until it does not.
pub(crate) fn changed(k: &Process) {
    if !k.m.service.call() {
        return;
    }
    for round in 0.. {
        if k.m.service.simple_stops.load(SeqCst) & !k.simple_stops().0 == 0 {
            return;
        }
        os::relax(round);
    }
}

/// Stops the process, unless it was continued since. Returns when it continues.
pub(crate) fn ask(k: &Process, signal: i32, continued: u32) {
    let asked = &k.m.service.stop;
    if is_traced() {
        // A tracer waits for a stop of this host thread.
        end::stop(signal);
        return k.m.receive(Received::All);
    }
    let word = u64::from(continued) << 32 | signal as u64;
    for round in 0.. {
        if k.continued() != continued {
            return;
        }
        match asked.compare_exchange(0, word, AcqRel, Acquire) {
            Ok(_) => break,
            // Another thread's stop comes first.
            Err(_) => os::relax(round),
        }
    }
    if !k.m.service.call() {
        asked.store(0, Release);
        end::stop(signal);
        return k.m.receive(Received::All);
    }
    for round in 0.. {
        if asked.load(Acquire) != word {
            break;
        }
        os::relax(round);
    }
    // The SIGCONT that continued the process is handled before the thread continues.
    k.m.receive(Received::All);
}

/// The last signal that a tracer let through.
static SHOWN: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_shown(signal: i32) {
    SHOWN.store(signal, Relaxed);
}

/// Sends the calling carrier a signal of the program's, so that its tracer sees it; true if the tracer let it through.
/// Signals of faults must keep their handler.
pub(crate) fn show(info: &SigInfo) -> bool {
    let bit = 1 << (info.signo() - 1);
    if dispositions::SERVICE_SET & bit == 0 || !is_traced() {
        return true;
    }
    SHOWN.store(0, Relaxed);
    raise(info, on_shown as *const () as u64);
    SHOWN.load(Relaxed) != 0
}

/// Sends the calling carrier a signal with this handler installed meanwhile; 0: the default action, which is the only one
/// that SIGKILL has (`do_sigaction`).
fn raise(info: &SigInfo, handler: u64) {
    let has_action = info.signo() != Signal::KILL.raw();
    let before = has_action.then(|| report::sigaction(info.signo(), Some(&dispositions::action(handler, 0))));
    os::queue_info(os::getpid(), os::gettid(), &info.to_bytes());
    let mask = os::sigprocmask(1, 1 << (info.signo() - 1));
    os::sigprocmask(2, mask);
    if let Some(before) = before {
        report::sigaction(info.signo(), Some(&before));
    }
}

/// Lets the host end the process by this signal. Returns false if the process survives.
pub(crate) fn survive(k: &Process, info: &SigInfo) -> bool {
    let had_page = k.m.page.withdraw();
    raise(info, 0);
    if had_page {
        k.m.announce_again();
    }
    false
}

/// Whether a signal whose default action ends a process may not end this one: a tracer may discard it, and the first
/// process of a namespace is spared (SIGNAL_UNKILLABLE).
pub(crate) fn may_survive(pid: i32) -> bool {
    pid == 1 || is_traced()
}

/// Whether this host thread is traced (`TracerPid` in its `status`). False if the host does not say.
fn is_traced() -> bool {
    let mut bytes = [0; 1024];
    let status = task::read(os::gettid() as u32, "status", &mut bytes);
    task::labelled(status, "TracerPid:").is_some_and(|tracer| tracer != "0")
}

/// Makes the requested stop. The service thread calls this before it asks the host for a signal of any set but `left`.
pub(crate) fn serve(k: &Process, left: u64) {
    let asked = &k.m.service.stop;
    let word = asked.load(Acquire);
    if word == 0 {
        return;
    }
    // No carrier holds a SIGCONT that the kernel does not know yet, except one that is in an exec (`caught`).
    let Some(_turn) = k.m.receiving.turn.try_lock() else {
        let _ = k.m.service.call();
        return;
    };
    let (signal, continued) = (word as i32 & 0xff, (word >> 32) as u32);
    if k.continued() == continued {
        let cont = 1 << Signal::CONT.index();
        if left & cont == 0 && left::pending(&k.m).0 & cont != 0 {
            // SIGCONT is pending. The service thread takes it next, and the stop is void then.
            return;
        }
        end::stop(signal);
    }
    asked.store(0, Release);
}
