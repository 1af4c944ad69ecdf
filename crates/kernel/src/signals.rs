//! Signals: crate `signal` applied to threads. Sending finds the thread and notifies it; delivery builds the frame on
//! the thread's way to user code.
//!
//! Locks: the process's signals, then one thread's. User memory is not touched under them.

use crate::hint;
use crate::machine::{Event, Machine, Raise, Received, Resume, SignalChange, Transfer};
use crate::wait::Wait;
use crate::{Kernel, Personality, SetUpFailed, Thread};
use abi::frame::Registers;
use abi::{Errno, SigInfo, Signal};
use ids::{CpuId, ThreadIdx, Tid};
use signal::frame::{self, FramePlan};
use signal::{
    Action, Candidate, Delivery, Dispositions, Fate, Force, ProcessSignals, Restart, Retarget, Sent, Shown, Target,
    ThreadState, Wake,
};
use sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*, fence};

/// The process's signal state.
pub struct ProcessState {
    /// The signals of the process.
    pub signals: Shown<ProcessSignals>,
    exit_status: AtomicI32,
    /// The real user id, which receivers of the process's signals see.
    uid: AtomicU32,
    /// How often SIGCONT was sent, written under the lock of `signals`. It voids stops that were chosen before.
    continued: AtomicU32,
    /// Threads that have not begun to exit. The one that lowers it to 0 ends the process (Linux: `signal->live`).
    pub(crate) staying: AtomicU32,
    /// The nice value of the process for the machine ([`crate::machine::Event::Nice`]).
    pub(crate) nice: AtomicI32,
    /// Threads may have different nice values.
    pub(crate) nices_differ: AtomicBool,
    /// Resources that other processes may share with this one, as flags of `clone(2)`: descriptors, folders, semaphore undo lists.
    pub shares: AtomicU64,
}

impl core::fmt::Debug for ProcessState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ProcessState").finish_non_exhaustive()
    }
}

impl ProcessState {
    pub(crate) fn new(uid: u32) -> Result<ProcessState, SetUpFailed> {
        let mut signals = ProcessSignals::new(Dispositions::DEFAULT);
        signals.prepare_timers().map_err(|_| SetUpFailed)?;
        Ok(ProcessState {
            signals: Shown::new(signals),
            exit_status: AtomicI32::new(0),
            uid: AtomicU32::new(uid),
            continued: AtomicU32::new(0),
            staying: AtomicU32::new(1),
            nice: AtomicI32::new(0),
            nices_differ: AtomicBool::new(false),
            shares: AtomicU64::new(0),
        })
    }

    /// The real user id.
    pub fn uid(&self) -> u32 {
        self.uid.load(Relaxed)
    }

    /// The process has another real user id.
    pub fn set_uid(&self, uid: u32) {
        self.uid.store(uid, Relaxed);
    }

    pub(crate) fn exit_status(&self) -> i32 {
        self.exit_status.load(Relaxed)
    }
}

/// Whether the processor accepts it as an address: the highest 17 bits are equal.
fn is_canonical(addr: u64) -> bool {
    (addr as i64) << 16 >> 16 == addr as i64
}

/// Results of system calls that exist only inside the kernel and say how to restart.
fn restart_code(result: u64) -> Option<Errno> {
    let e = (result as i64).checked_neg()?;
    (512..=516).contains(&e).then_some(Errno(e as i32))
}

/// Whether a call reads descriptors, or waits for them: a `signalfd(2)` may be among them.
pub fn reads_signals(nr: usize) -> bool {
    use abi::nr::*;
    let polls = matches!(nr, POLL | PPOLL | SELECT | PSELECT6 | EPOLL_WAIT | EPOLL_PWAIT | EPOLL_PWAIT2);
    polls || matches!(nr, READ | READV)
}

impl<M: Machine> Kernel<M> {
    /// Whether a waiting thread must give up its wait for a signal.
    pub fn interrupted(&self, t: ThreadIdx) -> bool {
        let thread = self.thread(t);
        if thread.hint.load(Acquire) & hint::SIGNAL == 0 {
            return false;
        }
        let process = self.process.signals.lock();
        let deliverable = !process.deliverable(&thread.signals.0.lock()).is_empty();
        if !deliverable {
            thread.hint.fetch_and(!hint::SIGNAL, AcqRel);
            // If a signal is queued after this check, its sender sets the hint again.
        }
        deliverable
    }

    /// Whether a host call of `t` must end; the machine asks before and after the call. A wake-up of our futex words
    /// may end it as well.
    pub fn host_interrupted(&self, t: ThreadIdx) -> bool {
        self.stops_waiting(t) || self.mixed_woken(t)
    }

    pub(crate) fn state_of(&self, t: ThreadIdx) -> ThreadState {
        let thread = self.thread(t);
        ThreadState {
            thread: t,
            running: self.sched.current(self.sched.cpu_of(t)) == Some(t),
            exiting: thread.tid.load(Relaxed) == 0,
            stopped: false,
            notified: thread.hint.load(Acquire) & hint::SIGNAL != 0,
        }
    }

    /// Sends a signal to the thread with this id.
    ///
    /// # Errors
    /// ESRCH if there is none, EAGAIN if there is no room.
    pub fn send_to_id(&self, cpu: CpuId, id: Tid, info: SigInfo) -> Result<(), Errno> {
        let t = self.threads().find(id).ok_or(Errno::ESRCH)?;
        self.send_directed(cpu, t, id, info)
    }

    /// Sends a signal to one thread.
    pub fn send_to_thread(&self, cpu: CpuId, t: ThreadIdx, info: SigInfo) -> Result<(), Errno> {
        self.send_directed(cpu, t, self.tid(t), info)
    }

    /// Sends a signal to `t`, which was found by this id. ESRCH if it has another id by now.
    pub(crate) fn send_directed(&self, cpu: CpuId, t: ThreadIdx, id: Tid, info: SigInfo) -> Result<(), Errno> {
        let quota = self.quota();
        let sent = {
            let mut process = self.process.signals.lock();
            // A notified thread checks for signals under this lock, so if it has not checked yet it finds this signal,
            // too.
            let state = self.state_of(t);
            self.take_back(&mut process, quota);
            let mut signals = self.thread(t).signals.0.lock();
            // The thread may have exited since, and another one may have its slot.
            if self.tid(t) != id {
                return Err(Errno::ESRCH);
            }
            let candidate = signals.candidate(state);
            let sent = process.send(Target::Thread(&mut signals, candidate), info, quota)?;
            drop(signals);
            self.settle_timers(&mut process);
            self.note_continued(&sent);
            sent
        };
        self.after_sending(cpu, sent, info, t);
        Ok(())
    }

    /// Sends a signal to the process. The first choice is the thread `first`, otherwise the main thread
    /// (`complete_signal`), whichever thread sends it.
    pub fn send_to_process(&self, cpu: CpuId, first: Option<ThreadIdx>, info: SigInfo) -> Result<(), Errno> {
        let Some(first) = first.or_else(|| self.threads().iter().next()) else { return Ok(()) };
        let state = self.state_of(first);
        let quota = self.quota();
        let sent = {
            let mut process = self.process.signals.lock();
            self.take_back(&mut process, quota);
            let candidate = self.thread(first).signals.0.lock().candidate(state);
            let sent = process.send(Target::Process(candidate), info, quota)?;
            self.settle_timers(&mut process);
            self.note_continued(&sent);
            sent
        };
        self.after_sending(cpu, sent, info, first);
        Ok(())
    }

    /// Lets the current thread take a signal that is pending for the process and that it does not block, even if
    /// another thread was notified: with a thousand threads that one may run seconds later, and until then all signals
    /// of the kind would coalesce.
    pub(crate) fn take_pending(&self, cpu: CpuId, t: ThreadIdx, signal: Signal) {
        if self.candidate_for(t).is_some_and(|candidate| candidate.wants(signal)) {
            self.notify(cpu, t);
        }
    }

    pub(crate) fn after_sending(&self, cpu: CpuId, sent: Sent, info: SigInfo, first: ThreadIdx) {
        if sent.fate == Fate::Ignored {
            return;
        }
        match sent.wake {
            Wake::Nobody if sent.fate == Fate::Coalesced => {}
            Wake::Nobody => M::Personality::unwanted(self, first, &info),
            Wake::Thread(t) => self.notify(cpu, t),
            Wake::EndProcess(_) => drop(self.terminate(first, &info)),
            Wake::Search(signal) => self.search_receiver(cpu, signal, first, info),
        }
    }

    fn search_receiver(&self, cpu: CpuId, signal: Signal, first: ThreadIdx, info: SigInfo) {
        let found = self.process.signals.lock().find_receiver(signal, first, |t| self.candidate_for(t));
        match found {
            Wake::Thread(t) => self.notify(cpu, t),
            Wake::EndProcess(_) => drop(self.terminate(first, &info)),
            Wake::Nobody | Wake::Search(_) => M::Personality::unwanted(self, first, &info),
        }
    }

    /// Counts SIGCONT. Called under the lock of the process's signals.
    fn note_continued(&self, sent: &Sent) {
        if sent.resume {
            self.process.continued.store(self.continued().wrapping_add(1), Release);
        }
    }

    /// The stop signals that always stop the process, so that the host may do it by itself.
    pub fn simple_stops(&self) -> abi::SigSet {
        self.process.signals.lock().simple_stops()
    }

    /// The mask of a thread, the ignored signals, and those with handlers. Takes no lock: only for a thread whose
    /// signals nobody else changes.
    #[inline]
    pub fn shown_signals(&self, t: ThreadIdx) -> [abi::SigSet; 3] {
        let [ignored, caught] = self.process.signals.shown_actions();
        [self.thread(t).signals.0.shown_mask(), ignored, caught]
    }

    /// The signals that have a handler of the program.
    pub fn caught_signals(&self) -> abi::SigSet {
        self.process.signals.lock().actions().caught()
    }

    /// How often SIGCONT has been sent to the process.
    pub fn continued(&self) -> u32 {
        self.process.continued.load(Acquire)
    }

    fn candidate_for(&self, t: ThreadIdx) -> Option<Candidate> {
        let state = self.state_of(t);
        (!state.exiting).then(|| self.thread(t).signals.0.lock().candidate(state))
    }

    /// A signal has arrived that `t` blocks and that its descriptors may read: if `t` waits for descriptors, it repeats
    /// its call.
    pub fn notify_descriptors(&self, t: ThreadIdx) {
        let thread = self.thread(t);
        thread.hint.fetch_or(hint::FOR_DESCRIPTORS, AcqRel);
        // Pairs with the fence of a thread that begins to wait: it sees the hint, or its wait is seen here. Other calls
        // are not disturbed.
        fence(SeqCst);
        if thread.wait.kind() == Wait::Host && reads_signals(thread.wait.call.load(Relaxed) as usize) {
            self.notify(CpuId::NONE, t);
        }
    }

    /// Whether the call in which `t` waits must be repeated, because signals have arrived that its descriptors may
    /// read.
    pub fn descriptors_changed(&self, t: ThreadIdx) -> bool {
        let thread = self.thread(t);
        thread.hint.load(Acquire) & hint::FOR_DESCRIPTORS != 0 && reads_signals(thread.wait.call.load(Relaxed) as usize)
    }

    /// Makes the thread check on its way out for a result that restarts its call without a signal.
    pub fn restart_at_exit(&self, t: ThreadIdx) {
        self.thread(t).hint.fetch_or(hint::RESTART, AcqRel);
    }

    /// Whether a waiting thread must give up its wait for a signal, or for one that its descriptors may read.
    pub fn stops_waiting(&self, t: ThreadIdx) -> bool {
        self.descriptors_changed(t) || self.interrupted(t)
    }

    /// Makes a thread check its signals, wherever it is. The signal is in its queue or the process's.
    ///
    /// If it was notified of another signal and has not checked since, that notifier wakes or kicks it, or it is in the
    /// kernel and checks before it leaves; then it finds this signal, too. So a storm of signals causes one kick.
    pub(crate) fn notify(&self, cpu: CpuId, t: ThreadIdx) {
        let thread = self.thread(t);
        if thread.hint.fetch_or(hint::SIGNAL, AcqRel) & hint::SIGNAL != 0 {
            return;
        }
        // A thread whose call is put off or that is parked sleeps, and is in no host call.
        if thread.wait.kind() == Wait::Host && thread.wait.armed().is_none() && !thread.parked.is_parked() {
            return self.m.interrupt(t);
        }
        if !self.wake(cpu, t) {
            let on = self.sched.cpu_of(t);
            if on != cpu && self.sched.current(on) == Some(t) {
                self.m.kick(on);
            }
        }
        // The thread may have begun a host call between the check and the wake-up.
        if thread.wait.kind() == Wait::Host {
            self.m.interrupt(t);
        }
    }

    /// Finds other threads for the signals that this one can no longer take, with at most one search per signal.
    pub(crate) fn retarget(&self, cpu: CpuId, me: ThreadIdx, mut left: Retarget) {
        while !left.is_done() {
            let taker = self.process.signals.lock().next_taker(&mut left, me, |t| self.candidate_for(t));
            if let Some(t) = taker {
                self.notify(cpu, t);
            }
        }
    }

    /// Passes on a signal that the host sent to the host thread which made a call for `t`.
    pub fn host_signal(&self, t: ThreadIdx, info: SigInfo) {
        // A standard signal always fits.
        let _ = self.send_to_thread(CpuId::NONE, t, info);
    }

    /// The mask of a thread.
    pub fn blocked(&self, t: ThreadIdx) -> abi::SigSet {
        self.thread(t).signals.0.lock().blocked()
    }

    /// The program's initial state: the mask of its first thread, and ignored signals.
    pub fn set_initial_signals(&self, t: ThreadIdx, blocked: abi::SigSet, ignored: abi::SigSet) {
        let mut process = self.process.signals.lock();
        self.enter_signals(&mut process, t, signal::ThreadSignals::new(blocked));
        for s in ignored.iter() {
            let action = abi::SigAction { handler: abi::SIG_IGN, ..abi::SigAction::DEFAULT };
            // SIGKILL and SIGSTOP cannot be ignored, so they are not in the set.
            let _ = process.set_action(s, action);
        }
    }

    /// The signals that the program ignores.
    pub fn ignored(&self) -> abi::SigSet {
        self.process.signals.lock().actions().ignored()
    }

    /// Forces the signal of a fault on the current thread, which can neither block nor ignore it.
    pub fn fault(&self, t: ThreadIdx, info: SigInfo) {
        let state = self.state_of(t);
        let sent = {
            let mut process = self.process.signals.lock();
            let mut signals = self.thread(t).signals.0.lock();
            process.force(&mut signals, state, info, Force::Current)
        };
        // No wake-up is needed: this thread checks its signals on its way out of the kernel.
        let _ = sent;
        self.thread(t).hint.fetch_or(hint::SIGNAL, AcqRel);
    }

    /// Forces SIGSEGV for an address of the program's that the kernel needed and could not use.
    pub(crate) fn force_fault(&self, t: ThreadIdx, addr: u64) {
        self.fault(t, SigInfo::fault(Signal::SEGV, abi::si_code::SEGV_MAPERR, addr));
    }

    /// Handles signals on the way to user code: handlers, default actions, restarts (`arch_do_signal_or_restart`).
    pub(crate) fn deliver_signals(&self, cpu: CpuId, t: ThreadIdx) {
        let (thread, mut is_sent) = (self.thread(t), false);
        loop {
            is_sent |= thread.hint.fetch_and(!(hint::SIGNAL | hint::RESTART), AcqRel) & hint::SIGNAL != 0;
            let (action, continued) = if is_sent { self.next_action(cpu, thread) } else { (Action::None, 0) };
            match self.show_to_tracer(t, action) {
                Action::None => {
                    let masked = self.blocked(t);
                    let left = self.process.signals.lock().restore_mask(&mut thread.signals.0.lock());
                    self.retarget(cpu, t, left);
                    M::Personality::wanted(self, t, || !self.blocked(t));
                    is_sent |= self.blocked(t) != masked;
                    if !is_sent || self.process.signals.lock().deliverable(&thread.signals.0.lock()).is_empty() {
                        return self.restart_without_handler(t);
                    }
                }
                Action::More => {}
                Action::Handler(delivery) => {
                    self.run_handler(cpu, t, &delivery);
                }
                Action::Stop(signal) => {
                    self.m.raise(t, &SigInfo::kernel(signal), Raise::Stop { continued });
                }
                Action::Terminate { info, .. } => {
                    self.restart_without_handler(t);
                    if self.terminate(t, &info) {
                        return;
                    }
                }
                // The process is about to end. Until the host ends it, the call is repeated and notices that.
                Action::Exit => return self.restart_without_handler(t),
                Action::Show(_) => return,
            }
        }
    }

    /// Has the host end the process; false if the process survives.
    fn terminate(&self, t: ThreadIdx, info: &SigInfo) -> bool {
        let dies = self.m.raise(t, info, Raise::Terminate);
        if !dies {
            self.process.signals.lock().survive();
        }
        dies
    }

    /// The action that is left after the tracer, if there is one, has seen the signal (`ptrace_signal`).
    fn show_to_tracer(&self, t: ThreadIdx, action: Action) -> Action {
        let Action::Show(info) = action else { return action };
        let action = self.m.raise(t, &info, Raise::Show).then(|| {
            let mut process = self.process.signals.lock();
            process.act_on(&self.thread(t).signals.0.lock(), info)
        });
        action.flatten().unwrap_or(Action::More)
    }

    /// On the way to user code: moves what has arrived at the host into the queues here.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_arrivals(&self, cpu: CpuId, t: ThreadIdx) {
        self.thread(t).hint.fetch_and(!hint::ARRIVALS, AcqRel);
        self.m.receive(Received::All);
        // This may have woken a more urgent thread, and the last check for that was before.
        if self.sched.need_resched(cpu) {
            self.m.kick(cpu);
        }
    }

    /// Notes that the process has asked to be traced.
    pub fn set_traced(&self) {
        self.process.signals.lock().set_traced();
    }

    /// The next action, and the value of [`Kernel::continued`] at that moment.
    fn next_action(&self, cpu: CpuId, thread: &Thread) -> (Action, u32) {
        let mut timers = self.timer_talk();
        let result = {
            let mut process = self.process.signals.lock();
            let action = process.next_action(&mut thread.signals.0.lock(), &mut timers);
            self.settle_timers(&mut process);
            (action, self.continued())
        };
        timers.finish(cpu);
        result
    }

    /// The result of the thread's call, if it says how to restart it. In interrupted code, the same number in the
    /// register is the program's own.
    fn restart_code(&self, t: ThreadIdx) -> Option<Errno> {
        self.m.call_arguments(t).and_then(|_| restart_code(self.m.registers(t).rax))
    }

    fn restart_without_handler(&self, t: ThreadIdx) {
        let Some(code) = self.restart_code(t) else { return };
        match signal::restart(code, None) {
            Restart::Return(e) => self.set_result(t, e.to_ret()),
            Restart::Again => self.restart_call(t, None),
            Restart::Continue => {
                self.thread(t).wait.continues.store(true, Relaxed);
                self.restart_call(t, Some(abi::nr::RESTART_SYSCALL));
            }
        }
    }

    fn run_handler(&self, cpu: CpuId, t: ThreadIdx, delivery: &Delivery) {
        if let Some(code) = self.restart_code(t) {
            match signal::restart(code, Some(&delivery.action)) {
                Restart::Return(e) => self.set_result(t, e.to_ret()),
                Restart::Again | Restart::Continue => self.restart_call(t, None),
            }
        }
        // A handler aborts the critical section that it interrupts (`rseq_signal_deliver`).
        let thread = self.thread(t);
        thread.rseq_cpu.store(0, Relaxed);
        self.rseq_resume(cpu, t);
        let interrupted = self.m.registers(t);
        let left = match self.write_frame(t, delivery, &interrupted) {
            Some(entry) => {
                self.m.set_resume(t, Resume::Registers(&entry));
                let left = self.process.signals.lock().delivered(&mut thread.signals.0.lock(), delivery);
                // A jump there would fault in the image.
                if !is_canonical(entry.rip) {
                    self.fault(t, SigInfo::kernel(Signal::SEGV));
                }
                left
            }
            None => {
                let state = self.state_of(t);
                let sent = {
                    let mut process = self.process.signals.lock();
                    process.frame_failed(&mut thread.signals.0.lock(), state, delivery)
                };
                let _ = sent;
                thread.hint.fetch_or(hint::SIGNAL, AcqRel);
                Retarget::NONE
            }
        };
        self.retarget(cpu, t, left);
    }

    /// Writes the frame to the thread's stack; returns the registers with which to enter the handler.
    fn write_frame(&self, t: ThreadIdx, delivery: &Delivery, interrupted: &Registers) -> Option<Registers> {
        let mut plan = None;
        let mut place = |form| Some(plan.insert(FramePlan::new(delivery, interrupted.rsp, form).ok()?).fpstate);
        self.m.move_extended_state(t, Transfer::ToFrame(&mut place)).ok()?;
        let plan = plan?;
        self.put(plan.fpstate + abi::frame::SW_RESERVED as u64, plan.state.sw_bytes()).ok()?;
        if let Some((at, magic)) = plan.state.magic2() {
            self.m.write(plan.fpstate + at, &magic).ok()?;
        }
        self.m.write(plan.frame, &plan.bytes(delivery, interrupted)).ok()?;
        // The handler begins with the initial state (`fpu__clear_user_states` in `handle_signal`). Its calls, and
        // threads that are switched to there, rely on empty x87 registers.
        self.m.move_extended_state(t, Transfer::Initial).ok()?;
        Some(plan.entry(delivery, interrupted))
    }

    /// `rt_sigreturn(2)`: the thread continues as the frame says. SIGSEGV if the frame is invalid.
    pub(crate) fn return_from_handler(&self, cpu: CpuId, t: ThreadIdx) {
        let now = self.m.registers(t);
        let at = frame::address_at_sigreturn(now.rsp);
        let mut bytes = [0; abi::frame::SIZE];
        let returned = self.m.read(at, &mut bytes).ok().and_then(|()| frame::read(&bytes, now.eflags).ok());
        // `signal_fault` sends no address.
        let bad_frame = SigInfo::kernel(Signal::SEGV);
        let Some(returned) = returned else { return self.fault(t, bad_frame) };
        self.join_pending(t);
        self.m.set_resume(t, Resume::Registers(&returned.registers));
        let thread = self.thread(t);
        // A call that was to continue ends (`do_no_restart_syscall`).
        thread.wait.continues.store(false, Relaxed);
        let left = {
            let mut process = self.process.signals.lock();
            let mut signals = thread.signals.0.lock();
            let left = process.sigreturn(&mut signals, returned.mask, returned.stack, returned.registers.rsp);
            if !process.deliverable(&signals).is_empty() {
                thread.hint.fetch_or(hint::SIGNAL, AcqRel);
            }
            left
        };
        self.retarget(cpu, t, left);
        // The extended state comes last, so that the signal finds the frame's registers and mask.
        let failed = self.restore_xstate(t, returned.fpstate).err().map(|_| bad_frame);
        if let Some(info) = failed.or_else(|| returned.fault(USER_END)) {
            self.fault(t, info);
        }
        M::Personality::wanted(self, t, || !self.blocked(t));
    }

    fn restore_xstate(&self, t: ThreadIdx, at: u64) -> Result<(), crate::Fault> {
        if at == 0 {
            return self.m.move_extended_state(t, Transfer::Initial);
        }
        let mut sw = [0; 48];
        self.m.read(at + abi::frame::SW_RESERVED as u64, &mut sw)?;
        let sw = abi::frame::FpSwBytes::from_bytes(&sw);
        let form = (self.config.extended_state)();
        let state = frame::restorable(form, at, &sw, |addr| self.load_u32(addr).ok()).map_err(|_| crate::Fault)?;
        self.m.move_extended_state(t, Transfer::FromFrame(at, state))
    }

    /// A new thread starts with its creator's mask.
    pub(crate) fn inherit_signals(&self, parent: ThreadIdx, child: ThreadIdx) {
        let flags = abi::clone_flags::VM | abi::clone_flags::THREAD;
        let inherited = self.thread(parent).signals.0.lock().for_child(flags);
        *self.thread(child).signals.0.lock() = inherited;
    }

    /// Gives the first thread of a process its state. It has been in the index since it was adopted.
    pub(crate) fn enter_signals(&self, process: &mut ProcessSignals, t: ThreadIdx, signals: signal::ThreadSignals) {
        let mut mine = self.thread(t).signals.0.lock();
        process.leave(&mut mine);
        *mine = signals;
        process.enter(&mut mine, t).expect("room for the first thread's signals");
    }

    /// A thread begins to receive signals of the process.
    pub(crate) fn join_signals(&self, t: ThreadIdx) -> Result<(), Errno> {
        let mut process = self.process.signals.lock();
        process.enter(&mut self.thread(t).signals.0.lock(), t).map_err(|_| Errno::EAGAIN)
    }

    /// An exiting thread no longer takes signals; others are found for those it would have taken.
    pub(crate) fn drop_signals(&self, cpu: CpuId, t: ThreadIdx) {
        let (left, stops_changed) = {
            let mut process = self.process.signals.lock();
            let stops = process.simple_stops();
            let left = process.exit_thread(&mut self.thread(t).signals.0.lock());
            self.discard_timers(&mut process);
            (left, stops != process.simple_stops())
        };
        self.retarget(cpu, t, left);
        if stops_changed {
            self.m.observe(Event::Signals(SignalChange::SimpleStops));
        }
    }
}

/// One past the highest address of user space.
pub const USER_END: u64 = 1 << 47;
