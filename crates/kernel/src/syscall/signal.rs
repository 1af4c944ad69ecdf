//! Calls about signals: arguments and their errors in Linux's order (`kernel/signal.c`).

use crate::Personality;
use crate::hint;
use crate::machine::{Call, Event, Machine, Received, SignalChange};
use crate::posix_timers::talk::TimerTalk;
use crate::trap::Out;
use crate::wait::{Deadline, Wait};
use crate::{Kernel, ThreadIdx};
use abi::{Errno, SIG_IGN, SigAction, SigInfo, SigSet, Signal, StackT, nr, si_code};
use ids::{CpuId, Nanos, Tid};
use signal::{AltStack, MaskHow, ProcessSignals, Quota, Taken, Target};
use sync::atomic::Ordering::*;

impl<M: Machine> Kernel<M> {
    pub(crate) fn sys_sigprocmask(&self, t: ThreadIdx, a: &[u64; 6]) -> Result<Out, Errno> {
        let [how, set, old, size, ..] = *a;
        SigSet::check_size(size as usize)?;
        let before = if set == 0 {
            self.thread(t).signals.0.lock().blocked()
        } else {
            let change = self.get(set)?;
            self.set_mask(t, MaskHow::from_raw(how as i32)?, change)
        };
        Ok(if old == 0 { Out::Done(0) } else { self.put(old, before).into() })
    }

    fn set_mask(&self, t: ThreadIdx, how: MaskHow, set: SigSet) -> SigSet {
        self.join_pending(t);
        let thread = self.thread(t);
        let ((before, left), stops_changed) = {
            let mut process = self.process.signals.lock();
            let mut signals = thread.signals.0.lock();
            let stops = process.simple_stops();
            let result = process.set_mask(&mut signals, how, set);
            if !process.deliverable(&signals).is_empty() {
                thread.hint.fetch_or(hint::SIGNAL, AcqRel);
            }
            (result, stops != process.simple_stops())
        };
        self.retarget(self.sched.cpu_of(t), t, left);
        M::Personality::wanted(self, t, || !self.blocked(t));
        if stops_changed {
            self.m.observe(Event::Signals(SignalChange::SimpleStops));
        }
        before
    }

    /// What others have sent joins the signals that are pending here, before a new mask of `t` may let those through or it executes a
    /// program: it may be of the same kind, of which one is delivered, or come before them, or be SIGCONT, which voids a stop.
    pub fn join_pending(&self, t: ThreadIdx) {
        if !(self.process.signals.shown_shared() | self.thread(t).signals.0.shown_queued()).is_empty() {
            self.m.receive(Received::Blocked);
        }
    }

    /// Thread `t` is about to send its process this signal. What others have sent comes first, if it may be pending beside this one,
    /// or be voided by it.
    fn before_sending(&self, t: ThreadIdx, signal: Signal) {
        const JOB_CONTROL: SigSet = SigSet(SigSet::STOP.0 | SigSet::only(Signal::CONT).0);
        if JOB_CONTROL.contains(signal) || self.thread(t).signals.0.shown_mask().contains(signal) {
            self.m.receive(Received::Blocked);
        }
    }

    pub(crate) fn sys_sigaction(&self, t: ThreadIdx, a: &[u64; 6]) -> Result<Out, Errno> {
        let [signal, new, old, size, ..] = *a;
        SigSet::check_size(size as usize)?;
        let action = if new == 0 { None } else { Some(self.get::<SigAction>(new)?) };
        let signal = Signal::from_raw(signal as i32).ok_or(Errno::EINVAL)?;
        let (before, flushed, revived) = {
            let mut process = self.process.signals.lock();
            match action {
                None => (process.actions().get(signal), false, false),
                Some(action) => {
                    let change = process.set_action(signal, action)?;
                    self.settle_timers(&mut process);
                    (change.old, change.flushed, change.revived)
                }
            }
        };
        if flushed {
            self.flush_aimed_timers();
        }
        if revived {
            self.revive_timers(self.sched.cpu_of(t), t, signal);
        }
        if let Some(action) = action {
            let ignored = (action.handler == SIG_IGN) != (before.handler == SIG_IGN);
            let stops = SigSet::STOP.contains(signal) && action.handler != before.handler;
            if ignored || signal == Signal::CHLD {
                self.m.observe(Event::Signals(SignalChange::Action(signal)));
            } else if stops {
                self.m.observe(Event::Signals(SignalChange::SimpleStops));
            }
        }
        Ok(if old == 0 { Out::Done(0) } else { self.put(old, before).into() })
    }

    pub(crate) fn sys_sigreturn(&self, cpu: CpuId, t: ThreadIdx) -> Out {
        self.return_from_handler(cpu, t);
        Out::Restored
    }

    /// The signals that the thread blocks and that are pending for it or the process, including those that have just
    /// arrived.
    pub fn pending_signals(&self, t: ThreadIdx) -> SigSet {
        self.m.receive(Received::All);
        let process = self.process.signals.lock();
        process.pending(&self.thread(t).signals.0.lock())
    }

    pub(crate) fn sys_sigaltstack(&self, t: ThreadIdx, a: &[u64; 6]) -> Result<Out, Errno> {
        let new = if a[0] == 0 { None } else { Some(self.get::<StackT>(a[0])?) };
        let sp = self.m.registers(t).rsp;
        let before = {
            let mut signals = self.thread(t).signals.0.lock();
            let before = signals.altstack.report(sp);
            if let Some(new) = new {
                // Whether a frame fits is checked when it is written (`sigaltstack_size_valid`).
                signals.altstack.set(new, sp, AltStack::MIN_SIZE)?;
            }
            before
        };
        Ok(if a[1] == 0 { Out::Done(0) } else { self.put(a[1], before).into() })
    }

    pub(crate) fn sys_sigsuspend(&self, t: ThreadIdx, a: &[u64; 6]) -> Result<Out, Errno> {
        SigSet::check_size(a[1] as usize)?;
        let mask: SigSet = self.get(a[0])?;
        self.begin_wait(t, Wait::Suspend);
        self.begin_mask(t, mask.blockable());
        Ok(Out::Blocked)
    }

    pub(crate) fn sys_pause(&self, t: ThreadIdx) -> Out {
        self.begin_wait(t, Wait::Suspend);
        Out::Blocked
    }

    pub(crate) fn suspend_finished(&self, t: ThreadIdx) -> Option<isize> {
        self.interrupted(t).then_some(Errno::ERESTARTNOHAND.to_ret())
    }

    /// The rest of `rt_sigtimedwait(2)` when no signal of `wanted` is pending: the current thread `t` waits for one,
    /// which is written to `info` unless that is 0. Without a `span` there is no time limit.
    ///
    /// # Errors
    /// EAGAIN if the span is zero.
    pub fn wait_for_signal(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        wanted: SigSet,
        info: u64,
        span: Option<Nanos>,
    ) -> Result<Out, Errno> {
        if span == Some(Nanos::ZERO) {
            self.m.receive(Received::All);
            let taken = self.take_signal(t, wanted).ok_or(Errno::EAGAIN)?;
            return Ok(Out::Done(self.report_taken(info, &taken)));
        }
        self.begin_wait(t, Wait::Signal);
        let thread = self.thread(t);
        thread.wait.a.store(wanted.0, Relaxed);
        thread.wait.b.store(info, Relaxed);
        {
            let mut process = self.process.signals.lock();
            let mut signals = thread.signals.0.lock();
            process.begin_wait(&mut signals, wanted);
            if !process.deliverable(&signals).is_empty() {
                thread.hint.fetch_or(hint::SIGNAL, AcqRel);
            }
        }
        M::Personality::wanted(self, t, || wanted);
        if let Some(span) = span {
            self.arm_timeout(cpu, t, Deadline::after(&self.m, span));
        }
        Ok(Out::Blocked)
    }

    /// Sets a mask until the call ends. Also used by `sigsuspend(2)`.
    pub fn begin_mask(&self, t: ThreadIdx, mask: SigSet) {
        self.join_pending(t);
        let thread = self.thread(t);
        let left = {
            let mut process = self.process().signals.lock();
            let mut signals = thread.signals.0.lock();
            let left = process.begin_mask(&mut signals, mask);
            if !process.deliverable(&signals).is_empty() {
                thread.hint.fetch_or(hint::SIGNAL, AcqRel);
            }
            left
        };
        self.retarget(self.sched.cpu_of(t), t, left);
        M::Personality::wanted(self, t, || !mask);
    }

    /// Ends the call: prepares the old mask, and adapts the result if there was a signal without a handler.
    pub fn masked_result(&self, t: ThreadIdx, nr: usize, result: isize) -> isize {
        self.join_pending(t);
        let thread = self.thread(t);
        let interrupted = result == Errno::EINTR.to_ret();
        let left = {
            let mut process = self.process().signals.lock();
            let mut signals = thread.signals.0.lock();
            let left = process.end_mask(&mut signals, interrupted);
            // Signals that the call's mask blocked.
            if !process.deliverable(&signals).is_empty() {
                thread.hint.fetch_or(hint::SIGNAL, AcqRel);
            }
            left
        };
        self.retarget(self.sched.cpu_of(t), t, left);
        if !interrupted {
            M::Personality::wanted(self, t, || !self.blocked(t));
            return result;
        }
        // The mask must still be restored, even without a signal.
        thread.hint.fetch_or(hint::SIGNAL, AcqRel);
        if matches!(nr, nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2) { result } else { Errno::ERESTARTNOHAND.to_ret() }
    }

    /// Takes a pending signal of the set, the own ones of `t` first.
    pub fn take_signal(&self, t: ThreadIdx, wanted: SigSet) -> Option<SigInfo> {
        self.take_with(t, |process, timers| process.take(&mut self.thread(t).signals.0.lock(), wanted, timers))
    }

    /// Takes a pending signal of the set that was sent to `t` alone.
    pub fn take_private_signal(&self, t: ThreadIdx, wanted: SigSet) -> Option<SigInfo> {
        self.take_with(t, |process, timers| process.take_private(&mut self.thread(t).signals.0.lock(), wanted, timers))
    }

    /// Takes a pending signal of the set that is for the process as a whole.
    pub fn take_shared_signal(&self, t: ThreadIdx, wanted: SigSet) -> Option<SigInfo> {
        self.take_with(t, |process, timers| process.take_shared(wanted, timers))
    }

    fn take_with(
        &self,
        t: ThreadIdx,
        take: impl Fn(&mut ProcessSignals, &mut TimerTalk<'_, M>) -> Taken,
    ) -> Option<SigInfo> {
        loop {
            let mut timers = self.timer_talk();
            let taken = {
                let mut process = self.process.signals.lock();
                let taken = take(&mut process, &mut timers);
                self.settle_timers(&mut process);
                taken
            };
            timers.finish(self.sched.cpu_of(t));
            match taken {
                Taken::Signal(info) => return Some(info),
                Taken::Nothing => return None,
                Taken::More => {}
            }
        }
    }

    /// Queues a signal again that was taken from `t`, which blocks it. Notifies nobody.
    pub fn requeue(&self, t: ThreadIdx, info: SigInfo) {
        let state = self.state_of(t);
        let mut process = self.process.signals.lock();
        let mut signals = self.thread(t).signals.0.lock();
        let candidate = signals.candidate(state);
        let _ = process.send(Target::Thread(&mut signals, candidate), info, Quota::UNLIMITED);
    }

    /// The result of `rt_sigtimedwait(2)` that has taken this signal, which is written to `to` unless that is 0.
    pub fn report_taken(&self, to: u64, info: &SigInfo) -> isize {
        if to != 0 && self.put(to, *info).is_err() {
            return Errno::EFAULT.to_ret();
        }
        info.signo() as isize
    }

    pub(crate) fn sigwait_finished(&self, t: ThreadIdx) -> Option<isize> {
        let timed_out = self.thread(t).wait.timed_out();
        if !timed_out && !self.interrupted(t) {
            return None;
        }
        let thread = self.thread(t);
        let (wanted, to) = (SigSet(thread.wait.a.load(Relaxed)), thread.wait.b.load(Relaxed));
        let left = {
            let mut process = self.process.signals.lock();
            process.end_wait(&mut thread.signals.0.lock())
        };
        self.retarget(self.sched.cpu_of(t), t, left);
        let taken = self.take_signal(t, wanted);
        M::Personality::wanted(self, t, || !self.blocked(t));
        Some(match taken {
            Some(info) => self.report_taken(to, &info),
            None if timed_out => Errno::EAGAIN.to_ret(),
            None => Errno::EINTR.to_ret(),
        })
    }

    pub(crate) fn sys_kill(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let (id, signal) = (call.args[0] as i32, call.args[1] as i32);
        let pid = self.host_id(id);
        if pid != self.config.pid.0 || signal == 0 {
            return self.foreign(cpu, t, call);
        }
        let Some(signal) = Signal::from_raw(signal) else { return Errno::EINVAL.into() };
        self.before_sending(t, signal);
        let info = SigInfo::user(signal, pid, self.process.uid());
        Out::from(self.send_to_process(cpu, self.threads().find(Tid(id)), info).map(|()| 0))
    }

    pub(crate) fn sys_tkill(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        self.signal_thread(cpu, t, self.config.pid.0, call.args[0] as i32, call.args[1] as i32, call)
    }

    pub(crate) fn sys_tgkill(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        self.signal_thread(cpu, t, call.args[0] as i32, call.args[1] as i32, call.args[2] as i32, call)
    }

    fn signal_thread(&self, cpu: CpuId, t: ThreadIdx, pid: i32, tid: i32, signal: i32, call: &Call) -> Out {
        if pid <= 0 || tid <= 0 {
            return Errno::EINVAL.into();
        }
        let target = self.threads().find(Tid(tid));
        let Some(target) = target.filter(|_| pid == self.config.pid.0) else {
            return self.foreign(cpu, t, call);
        };
        if signal == 0 {
            return Out::Done(0);
        }
        let Some(signal) = Signal::from_raw(signal) else { return Errno::EINVAL.into() };
        self.before_sending(t, signal);
        let info = SigInfo::tkill(signal, pid, self.process.uid());
        Out::from(self.send_directed(cpu, target, Tid(tid), info).map(|()| 0))
    }

    pub(crate) fn sys_sigqueueinfo(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [pid, signal, from, ..] = call.args;
        let id = pid as i32;
        if self.host_id(id) != self.config.pid.0 {
            return self.foreign(cpu, t, call);
        }
        // The named thread is the first choice for the signal (`complete_signal`).
        let first = self.threads().find(Tid(id));
        let sent = self.read_info(t, id, from, signal as i32).and_then(|info| match info {
            Some(info) => self.send_to_process(cpu, first, info),
            None => Ok(()),
        });
        Out::from(sent.map(|()| 0))
    }

    pub(crate) fn sys_tgsigqueueinfo(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [pid, tid, signal, from, ..] = call.args;
        let (pid, target) = (pid as i32, self.threads().find(Tid(tid as i32)));
        let Some(target) = target.filter(|_| pid > 0) else {
            return self.foreign(cpu, t, call);
        };
        if pid != self.config.pid.0 {
            // The host would take the carrier for the sender, and a sender that names itself may claim anything.
            let info = self.read_info(t, tid as i32, from, 0);
            return info.err().unwrap_or(Errno::ESRCH).into();
        }
        let sent = self.read_info(t, tid as i32, from, signal as i32).and_then(|info| match info {
            Some(info) => self.send_directed(cpu, target, Tid(tid as i32), info),
            None => Ok(()),
        });
        Out::from(sent.map(|()| 0))
    }

    /// The signal that the current thread `t` is about to send to the thread or process that it calls `id`; `None` if it only asks
    /// whether it may.
    fn read_info(&self, t: ThreadIdx, id: i32, from: u64, signal: i32) -> Result<Option<SigInfo>, Errno> {
        let mut bytes = [0; 128];
        self.m.read(from, &mut bytes)?;
        bytes[..4].copy_from_slice(&signal.to_le_bytes());
        let info = SigInfo::read(&bytes)?;
        // Only a signal to the sender itself may claim to come from the kernel or from `tgkill(2)`
        // (`do_rt_sigqueueinfo`).
        if (info.code() >= 0 || info.code() == si_code::TKILL) && self.tid(t).0 != id {
            return Err(Errno::EPERM);
        }
        if signal == 0 {
            return Ok(None);
        }
        self.before_sending(t, Signal::from_raw(signal).ok_or(Errno::EINVAL)?);
        Ok(Some(info))
    }

    /// `restart_syscall(2)`: a sleep, a futex wait or a poll that a signal without a handler interrupted continues to
    /// its old deadline.
    pub(crate) fn sys_restart(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let wait = &self.thread(t).wait;
        if !wait.continues.swap(false, Relaxed) {
            // The program made this call itself: `do_no_restart_syscall`.
            return Errno::EINTR.into();
        }
        match wait.call.load(Relaxed) as usize {
            nr::FUTEX => return self.futex_wait_again(cpu, t),
            nr::CLOCK_NANOSLEEP => return self.cpu_sleep_again(cpu, t),
            nr::POLL => return self.foreign(cpu, t, call),
            _ => {}
        }
        let (deadline, rem) = (wait.kept(), wait.a.load(Relaxed));
        self.begin_wait(t, Wait::Sleep);
        self.thread(t).wait.a.store(rem, Relaxed);
        self.thread(t).wait.b.store(0, Relaxed);
        self.arm_timeout(cpu, t, deadline);
        Out::Blocked
    }
}
