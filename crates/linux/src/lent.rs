//! Signals sent to one thread, for its own calls on `signalfd(2)` descriptors.
//!
//! Such a signal stays here, but the host must find it when the thread makes a call, because `signalfd_dequeue` checks
//! the caller's queue first. So it is **lent** to the calling carrier for the duration of the host call:
//! - for a call that reads, the signals themselves; those not read are taken back;
//! - for a call that only checks, one signal of each number, to show that it is pending.
//!
//! A thread that waits already is notified, and repeats its call (`notify_descriptors`).

use crate::ready::Points;
use crate::{Host, Linux, facts, left};
use abi::{Errno, SigInfo, SigSet, nr, si_code};
use ids::ThreadIdx;
use kernel::Call;

/// The bytes that a read returns for each signal (`struct signalfd_siginfo`).
const READ_SIZE: usize = 128;

impl<M: Host> Linux<'_, M> {
    /// The result of a call on descriptors that finds a signal sent to `t` alone; `None`: make the call as usual. A
    /// signal mask of the call's own is in force.
    #[inline]
    pub(crate) fn with_own_signals(&self, t: ThreadIdx, call: &Call) -> Option<isize> {
        if self.state().descriptors.named().is_empty() { None } else { self.lend_signals(t, call) }
    }

    #[cold]
    #[inline(never)]
    fn lend_signals(&self, t: ThreadIdx, call: &Call) -> Option<isize> {
        let own = self.own_signals(t);
        if own.is_empty() {
            return None;
        }
        let [a, b, c, ..] = call.args;
        let at_once = |nr, args| self.host(&Call { nr, args });
        match call.nr {
            nr::READ | nr::READV => self.read_own(t, call, own),
            // A `poll(2)` that continues has the same arguments.
            nr::POLL | nr::PPOLL | nr::RESTART_SYSCALL => {
                let call = Call { nr: nr::POLL, ..*call };
                self.look_with(own, &call, || at_once(nr::POLL, [a, b, 0, 0, 0, 0]))
            }
            nr::SELECT | nr::PSELECT6 => self.look_with(own, call, || self.try_select(call).unwrap_or(0)),
            nr::EPOLL_WAIT | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => {
                self.look_with(own, call, || at_once(nr::EPOLL_WAIT, [a, b, c, 0, 0, 0]))
            }
            _ => None,
        }
    }

    /// Signals sent to `t` alone that it blocks and a descriptor may read.
    pub(crate) fn own_signals(&self, t: ThreadIdx) -> SigSet {
        let process = self.process().signals.lock();
        let signals = self.thread(t).signals.0.lock();
        process.private_set(&signals) & signals.blocked() & self.state().descriptors.named()
    }

    /// The result of `ask`, by which `call` looks, while the carrier has a pending signal of each number in `own`; `None` if that is
    /// nothing or an error.
    fn look_with(&self, own: SigSet, call: &Call, ask: impl FnOnce() -> isize) -> Option<isize> {
        let pid = self.config().pid.0;
        let lend = || {
            let infos = own.iter().map(|signal| SigInfo::user(signal, pid, 0));
            let lent = infos.filter(|info| left::queue_for_carrier(&self.m, pid, info)).count();
            let result = ask();
            for _ in 0..lent {
                left::take(&self.m, own);
            }
            result
        };
        // An idle carrier that looks at a set finds no signal for itself, and the set would forget the descriptor.
        let result = match Points::of(&self.m, call) {
            Some(points) => self.state().ready.apart(&self.m, &points, lend),
            None => lend(),
        };
        (result > 0).then_some(result)
    }

    /// The result of a reading call while the carrier has the signals `own` of `t`; `None` if none is for it.
    fn read_own(&self, t: ThreadIdx, call: &Call, own: SigSet) -> Option<isize> {
        let wanted = self.signals_read_by(call.args[0] as i32)? & own;
        let room = if call.nr == nr::READ { call.args[2] as usize / READ_SIZE } else { usize::MAX };
        let mut lent = 0;
        while lent < room
            && let Some(info) = self.take_private_signal(t, wanted)
        {
            if !left::queue_for_carrier(&self.m, self.config().pid.0, &info) {
                self.requeue(t, info);
                break;
            }
            lent += 1;
        }
        if lent == 0 {
            return None;
        }
        let result = self.host(call);
        let read = usize::try_from(result).unwrap_or(0) / READ_SIZE;
        for _ in read..lent {
            // If a timer has expired again, a signal of it is here already.
            if let Some(info) = left::take(&self.m, wanted)
                && (info.code() != si_code::TIMER || !info.signal().is_some_and(|s| self.own_signals(t).contains(s)))
            {
                self.requeue(t, info);
            }
        }
        (result != Errno::EINTR.to_ret()).then_some(result)
    }

    /// The signals that a descriptor reads; `None` if it is not a `signalfd(2)` (`signalfd_show_fdinfo`).
    fn signals_read_by(&self, fd: i32) -> Option<SigSet> {
        let (mut path, mut bytes) = ([0; facts::PATH], [0; 512]);
        let text = facts::read_file(&self.m, facts::of_descriptor("fdinfo", fd, &mut path)?, &mut bytes);
        facts::hexadecimal(text, b"sigmask:").map(SigSet)
    }
}
