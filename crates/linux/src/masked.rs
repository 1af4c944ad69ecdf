//! Calls that wait for descriptors and have a signal mask of their own: `ppoll(2)`, `pselect(2)`, `epoll_pwait(2)` and
//! related ones; and `select(2)`, which has none but is otherwise the same.
//!
//! We apply the mask; the host gets the call without one. As in Linux (`set_user_sigmask`,
//! `restore_saved_sigmask_unless`), readiness takes precedence over a signal. If the call ends by itself, the old mask
//! is restored and what only the call's mask let through stays pending. If a signal interrupted it, the mask stays
//! until the handler's frame has saved the old one.

use crate::host_call::is_told_late;
use crate::ready::{after, read_time, tells_time_left};
use crate::{Host, Linux, facts, left};
use abi::{Errno, SigSet, nr};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::machine::{Call, Received};
use kernel::trap::Out;

/// The largest descriptor set, in bytes, that is tried first; larger ones go to the host at once.
const SET_MAX: usize = 128;

/// One such call, with its arguments checked in Linux's order.
struct Masked {
    /// The call that waits in the host: the same without a mask.
    call: Call,
    mask: Option<SigSet>,
    /// The call's time limit is zero, so it does not wait at all.
    at_once: bool,
    /// The deadline, if the call reports the remaining time.
    end: Option<Nanos>,
}

impl<M: Host> Linux<'_, M> {
    pub(crate) fn sys_masked(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        kernel::cpu::bump(&self.cpu(cpu).count.passed);
        let masked = match self.read_masked(call) {
            Ok(masked) => masked,
            Err(e) => return e.into(),
        };
        if let Some(mask) = masked.mask {
            self.begin_mask(t, mask);
        }
        if let Some(result) = self.with_own_signals(t, &masked.call) {
            return Out::Done(self.masked_over(t, &masked, result));
        }
        let epoll = matches!(call.nr, nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2);
        if masked.at_once && !epoll && masked.mask.is_some_and(|mask| self.lets_through(mask)) {
            // This call does not wait, so nothing else receives them.
            self.m.receive(Received::All);
        }
        let interrupted = !(epoll && masked.at_once) && self.interrupted(t);
        if !interrupted && self.is_expected_to_wait(cpu, t, &masked.call) {
            return self.wait_in_host(t, masked.call);
        }
        self.note_generations(t, &masked.call);
        let tried = loop {
            let tried = self.try_ready(&masked.call, masked.at_once, interrupted);
            // A tick or a kick cut it short, which the program must not see.
            if tried != Some(Errno::EINTR.to_ret()) {
                break tried;
            }
        };
        let is_over = |&result: &isize| result != 0 && (masked.at_once || !is_told_late(&masked.call, result));
        if let Some(result) = tried.filter(is_over) {
            return Out::Done(self.masked_over(t, &masked, result));
        }
        if interrupted {
            let result = self.told_late(t, call.nr, Errno::EINTR.to_ret());
            return Out::Done(self.masked_over(t, &masked, result));
        }
        if masked.at_once {
            return Out::Done(self.masked_result(t, call.nr, 0));
        }
        if tried.is_none() {
            return Out::Host(masked.call, 0);
        }
        self.descriptor_wait(cpu, t, masked.call, 0)
    }

    /// Whether signals are pending at the host for the only thread that this mask lets through. Those of several threads are received
    /// as they come.
    fn lets_through(&self, mask: SigSet) -> bool {
        self.has_one_thread() && left::pending(&self.m).0 & !mask.0 != 0
    }

    fn masked_over(&self, t: ThreadIdx, masked: &Masked, result: isize) -> isize {
        if let Some(end) = masked.end {
            self.tell_time_left(&masked.call, end);
        }
        self.masked_result(t, masked.call.nr, result)
    }

    fn read_masked(&self, call: &Call) -> Result<Masked, Errno> {
        let a = &call.args;
        let mut bare = *call;
        let (time, mask) = match call.nr {
            nr::PPOLL => {
                bare.args[3] = 0;
                (Some(a[2]), (a[3], a[4]))
            }
            nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => {
                bare.args[4] = 0;
                ((call.nr == nr::EPOLL_PWAIT2).then_some(a[3]), (a[4], a[5]))
            }
            nr::SELECT => (Some(a[4]), (0, 0)),
            // pselect6, io_pgetevents: the sixth argument is the address of both.
            _ => {
                bare.args[5] = 0;
                (Some(a[4]), if a[5] == 0 { (0, 0) } else { self.get::<[u64; 2]>(a[5])?.into() })
            }
        };
        let (at_once, end) = match time {
            None => (a[3] as i32 == 0, None),
            Some(0) => (false, None),
            Some(at) => match read_time(&self.m, call.nr, at)? {
                Nanos::ZERO => (true, None),
                span => (false, tells_time_left(call.nr).then(|| after(&self.m, span).at)),
            },
        };
        let mask = match mask {
            (0, _) => None,
            (at, size) => {
                SigSet::check_size(size as usize)?;
                Some(self.get::<SigSet>(at)?.blockable())
            }
        };
        Ok(Masked { call: bare, mask, at_once, end })
    }

    /// The call's result without waiting; `None` if it has no such form. A call that may not wait ends even if nothing
    /// is ready, unless a signal interrupts it.
    pub(crate) fn try_ready(&self, call: &Call, at_once: bool, interrupted: bool) -> Option<isize> {
        let a = &call.args;
        match call.nr {
            nr::PPOLL => Some(self.host(&Call { nr: nr::POLL, args: [a[0], a[1], 0, 0, 0, 0] })),
            nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => {
                Some(self.host(&Call { nr: nr::EPOLL_WAIT, args: [a[0], a[1], a[2], 0, 0, 0] }))
            }
            nr::SELECT | nr::PSELECT6 if at_once && !interrupted => {
                Some(facts::select_at_once(&self.m, a[0], [a[1], a[2], a[3]]))
            }
            nr::SELECT | nr::PSELECT6 => self.try_select(call),
            _ => at_once.then(|| self.host(call)),
        }
    }

    /// The host clears the sets if nothing is ready. A call that keeps waiting needs them unchanged, and one that is
    /// interrupted leaves them unchanged.
    pub(crate) fn try_select(&self, call: &Call) -> Option<isize> {
        let a = &call.args;
        let bytes = usize::try_from(a[0] as i32).ok()?.div_ceil(64) * 8;
        let mut sets = [[0u8; SET_MAX]; 3];
        if bytes > SET_MAX {
            return None;
        }
        for (set, &at) in sets.iter_mut().zip(&a[1..4]) {
            if at != 0 && self.m.read(at, &mut set[..bytes]).is_err() {
                return None;
            }
        }
        let ready = facts::select_at_once(&self.m, a[0], [a[1], a[2], a[3]]);
        if ready == 0 {
            for (set, &at) in sets.iter().zip(&a[1..4]) {
                if at != 0 && self.m.write(at, &set[..bytes]).is_err() {
                    return Some(Errno::EFAULT.to_ret());
                }
            }
        }
        Some(ready)
    }

    /// `select(2)` that has waited, and a descriptor of which was closed since: a closed descriptor counts as ready for
    /// all that was asked (`select_poll_one`), whereas a call that begins is refused.
    pub(crate) fn select_without_closed(&self, call: &Call) -> isize {
        let [count, at_sets @ .., _, _] = call.args;
        let words = (count as usize).div_ceil(64);
        let mut closed_bits = 0;
        let mut closed = [[0_u64; SET_MAX / 8]; 3];
        for (closed, &at) in closed.iter_mut().zip(&at_sets) {
            for (word, closed) in closed.iter_mut().enumerate().take(if at == 0 { 0 } else { words }) {
                let at = at.wrapping_add(word as u64 * 8);
                let Ok(asked) = self.get::<u64>(at) else { return Errno::EFAULT.to_ret() };
                let is_closed = |bit: &u64| asked >> bit & 1 != 0 && !facts::is_open(&self.m, word as u64 * 64 + bit);
                *closed = (0..64).filter(is_closed).map(|bit| 1 << bit).sum();
                closed_bits += closed.count_ones() as isize;
                let _ = self.put(at, asked & !*closed);
            }
        }
        let ready = facts::select_at_once(&self.m, count, at_sets);
        for (closed, &at) in closed.iter().zip(&at_sets) {
            for (word, &closed) in closed.iter().enumerate().filter(|&(_, &closed)| closed != 0) {
                let at = at.wrapping_add(word as u64 * 8);
                let _ = self.get::<u64>(at).map(|found| self.put(at, found | closed));
            }
        }
        if ready < 0 { ready } else { ready + closed_bits }
    }
}

/// Whether the call is one of these.
pub(crate) fn is_masked(nr: usize) -> bool {
    use nr::*;
    matches!(nr, PPOLL | SELECT | PSELECT6 | EPOLL_PWAIT | EPOLL_PWAIT2 | IO_PGETEVENTS)
}
