//! `signalfd(2)`. The descriptor is the host's, so that `poll(2)`, `epoll(7)`, `dup(2)` and fork work on it; signals
//! are moved to the host.
//!
//! Signals of the whole process that some descriptor reads and every thread blocks are *left* to the host: the machine
//! does not take them when they arrive from outside, and one sent inside that no thread takes is queued there. As soon
//! as a thread unblocks such a signal or waits for it, it is ours again, with its pending instances. So are those that
//! were sent to the only thread of a process.
//!
//! Sender and unblocking thread synchronise through the lock of the process's signals: the sender finds that all
//! threads block the signal and marks it as left under the lock; the thread changes its mask under the lock and then
//! reads the mark.
//!
//! A signal that was sent to one of several threads, and that it blocks, stays here: other threads that unblock it must
//! not get it. Calls of that thread find it through `lent`.

use crate::{Host, Linux, left};
use abi::{Errno, SigInfo, SigSet, Signal, si_code};
use alloc::vec::Vec;
use ids::{CpuId, ThreadIdx};
use kernel::Call;
use kernel::machine::{Event, NEVER_LEFT, Received, SignalChange, read_timespec};
use kernel::trap::Out;
use sync::atomic::{AtomicU64, Ordering::*};

/// The signals that descriptors read.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    /// All signals that a descriptor was ever made for.
    named: AtomicU64,
    /// The signals among them that are left to the host.
    left: AtomicU64,
}

impl Descriptors {
    /// All signals that a descriptor was ever made for. A forked child inherits the descriptors.
    pub fn named(&self) -> SigSet {
        SigSet(self.named.load(Relaxed))
    }

    pub fn inherit(&self, named: SigSet) {
        self.named.store(named.0, Relaxed);
    }

    pub fn left(&self) -> SigSet {
        SigSet(self.left.load(SeqCst))
    }
}

impl<M: Host> Linux<'_, M> {
    pub(crate) fn sys_signalfd(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        // They are left to the host in the order in which they came.
        self.m.receive(Received::Blocked);
        let out = self.pass(cpu, call);
        if let (Out::Done(0..), Ok(mask)) = (out, self.get::<u64>(call.args[1])) {
            let mask = SigSet(mask).blockable().without(NEVER_LEFT);
            self.state().descriptors.named.fetch_or(mask.0, Relaxed);
            for signal in mask.iter() {
                self.leave_if_unwanted(t, signal);
            }
        }
        out
    }

    /// `rt_sigpending(2)`: what is pending here and at the host.
    pub(crate) fn sys_sigpending(&self, t: ThreadIdx, call: &Call) -> Out {
        let [to, size, ..] = call.args;
        if size as usize > SigSet::SIZE {
            return Errno::EINVAL.into();
        }
        // First, because receiving may leave a signal to the host.
        let here = self.pending_signals(t);
        let left = self.state().descriptors.left();
        let at_host = if left.is_empty() { left } else { left::pending(&self.m) & left };
        let bytes = (here | at_host).0.to_le_bytes();
        let wanted = &bytes[..size as usize];
        if wanted.is_empty() { Out::Done(0) } else { self.m.write(to, wanted).into() }
    }

    /// `rt_sigtimedwait(2)`: takes the signal with the lowest number, pending here or left to the host; waits if there
    /// is none.
    pub(crate) fn sys_sigtimedwait(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Result<Out, Errno> {
        let [set, info, timeout, size, ..] = call.args;
        SigSet::check_size(size as usize)?;
        let wanted = self.get::<SigSet>(set)?.blockable();
        let span = if timeout == 0 { None } else { Some(read_timespec(&self.m, timeout)?) };
        self.m.receive(Received::Blocked);
        let left = self.state().descriptors.left() & wanted;
        let taken = if left.is_empty() { self.take_signal(t, wanted) } else { self.take_lowest(t, wanted, left) };
        match taken {
            Some(taken) => Ok(Out::Done(self.report_taken(info, &taken))),
            None => self.wait_for_signal(cpu, t, wanted, info, span),
        }
    }

    /// Takes a signal of `wanted`; those of `left` are left to the host.
    fn take_lowest(&self, t: ThreadIdx, wanted: SigSet, left: SigSet) -> Option<SigInfo> {
        let here = self.process().signals.lock().pending(&self.thread(t).signals.0.lock()) & wanted;
        let at_host = left::pending(&self.m) & left;
        let host_first = !at_host.is_empty() && at_host.0.trailing_zeros() < here.0.trailing_zeros();
        let taken = if host_first { left::take(&self.m, left) } else { None };
        taken.or_else(|| self.take_signal(t, wanted)).or_else(|| left::take(&self.m, left))
    }

    /// A signal was queued for `t` or the process, and nobody takes it now.
    pub(crate) fn unwanted(&self, t: ThreadIdx, info: &SigInfo) {
        if let Some(signal) = info.signal().filter(|s| self.state().descriptors.named().contains(*s)) {
            self.leave_if_unwanted(t, signal);
            // It was sent to this thread alone, and stays here.
            if self.own_signals(t).contains(signal) {
                self.notify_descriptors(t);
            }
        }
    }

    /// Leaves a signal to the host if every thread blocks it and none waits for it.
    fn leave_if_unwanted(&self, t: ThreadIdx, signal: Signal) {
        let only = SigSet::only(signal);
        {
            let signals = self.process().signals.lock();
            if signals.is_open(signal) {
                return;
            }
            self.state().descriptors.left.fetch_or(only.0, SeqCst);
        }
        self.tell_left();
        let is_only_thread = self.threads().live() == 1;
        let take = || match is_only_thread {
            true => self.take_signal(t, only),
            false => self.take_shared_signal(t, only),
        };
        while let Some(info) = take() {
            // A timer that expires faster than its signals are read has only one signal there.
            if info.code() != si_code::TIMER || !left::pending(&self.m).contains(signal) {
                left::queue(&self.m, &info);
            }
        }
    }

    /// Tells the machine which signals are left to the host, and repeats it if another thread has changed the set
    /// meanwhile, so that the last value told is the current one.
    fn tell_left(&self) {
        loop {
            let left = self.state().descriptors.left();
            self.m.observe(Event::Signals(SignalChange::LeftToHost(left)));
            if self.state().descriptors.left() == left {
                return;
            }
        }
    }

    /// A thread's mask has changed, or its wait for blocked signals begins or ends: takes back those left to the host
    /// that it takes, and leaves those that no thread takes any more. Otherwise they would arrive here first, and
    /// `poll` would tell of a signal that a descriptor cannot read for a moment.
    #[inline]
    pub(crate) fn follow_mask(&self, t: ThreadIdx, takes: impl FnOnce() -> SigSet) {
        let named = self.state().descriptors.named();
        if !named.is_empty() {
            self.reclaim_or_leave(t, named, takes());
        }
    }

    #[cold]
    fn reclaim_or_leave(&self, t: ThreadIdx, named: SigSet, takes: SigSet) {
        let left = self.state().descriptors.left();
        self.reclaim(t, left & takes);
        for signal in named.without(left | takes).iter() {
            self.leave_if_unwanted(t, signal);
        }
    }

    fn reclaim(&self, t: ThreadIdx, taken: SigSet) {
        if taken.is_empty() {
            return;
        }
        self.state().descriptors.left.fetch_and(!taken.0, SeqCst);
        self.tell_left();
        let cpu = self.sched.cpu_of(t);
        while let Some(info) = left::take(&self.m, taken) {
            // The host has accepted it; if the queue here is full, it is lost as on Linux.
            if !self.send_to_owner(cpu, info) {
                let _ = self.send_to_process(cpu, Some(t), info);
            }
        }
    }

    /// Gives signals that are left to the host, but were sent by descriptors that threads own, to those threads.
    pub fn hand_on_left(&self, cpu: CpuId) {
        let left = self.state().descriptors.left();
        // The only thread finds at the host what it owns.
        if left.is_empty() || !self.has_owners() || self.threads().live() == 1 {
            return;
        }
        let pending = left::pending(&self.m) & left;
        if pending.is_empty() {
            return;
        }
        for signal in (pending & self.signals_of_owners()).iter() {
            // All of them first: what is queued again would be found again.
            let taken: Vec<SigInfo> = core::iter::from_fn(|| left::take(&self.m, SigSet::only(signal))).collect();
            for info in taken {
                if !self.send_to_owner(cpu, info) {
                    // The host had room for it before.
                    left::queue(&self.m, &info);
                }
            }
        }
    }
}
