//! The kernel's view of the personality.

use crate::machine::Arg::{In, Out as Filled, Word};
use crate::machine::ask;
use crate::{Host, Linux, State, facts, host_times};
use abi::args::RLIMIT_SIGPENDING;
use abi::checkpoint::{ProcessRecord, VERSION};
use abi::{Errno, SIG_IGN, SaFlags, SigAction, SigInfo, SigSet, Signal, clone_flags, nr};
use ids::{CpuId, ThreadIdx};
use kernel::machine::{NEVER_LEFT, Times};
use kernel::wait::Wait;
use kernel::{Call, Grants, HostTimer, Kernel, Next, Out, Personality, Process};

impl<M: Host> Personality<M> for State {
    fn call(k: &Kernel<M>, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        Linux(k).call(cpu, t, call)
    }

    fn resumes(k: &Kernel<M>, t: ThreadIdx, wait: Wait) -> bool {
        match wait {
            Wait::Terminal => k.ends_wait(t, || Linux(k).terminal_finished(t)),
            _ if k.thread(t).parked.is_parked() => Linux(k).is_unparked(t),
            _ => k.ends_wait(t, || Linux(k).host_finished(t)),
        }
    }

    fn look_for_events(k: &Kernel<M>, cpu: CpuId) {
        Linux(k).look_for_events(cpu);
    }

    fn unwanted(k: &Kernel<M>, t: ThreadIdx, info: &SigInfo) {
        Linux(k).unwanted(t, info);
    }

    #[inline]
    fn wanted(k: &Kernel<M>, t: ThreadIdx, takes: impl FnOnce() -> SigSet) {
        Linux(k).follow_mask(t, takes);
    }

    fn host_timer(m: &M, what: HostTimer<'_>) -> Result<i32, Errno> {
        match what {
            HostTimer::Create(clock, event) => {
                let mut id = [0; 4];
                let event = event.to_bytes();
                let made = ask(m, nr::TIMER_CREATE, &mut [Word(clock as i64 as u64), In(&event), Filled(&mut id)]);
                Errno::from_ret(made).map(|_| i32::from_le_bytes(id))
            }
            HostTimer::Delete(id) => Errno::from_ret(ask(m, nr::TIMER_DELETE, &mut [Word(id as u64)])).map(|_| id),
        }
    }

    fn grants(m: &M) -> Grants {
        facts::grants(m)
    }
}

impl<M: Host> Linux<'_, M> {
    /// Passes a signal to the process that the host received for it.
    ///
    /// # Errors
    /// EAGAIN if the process has reached its limit of pending signals. The signal must be offered again, because its
    /// sender was told that it arrived.
    pub fn signal_from_host(&self, cpu: CpuId, info: SigInfo) -> Result<(), Errno> {
        match info.code() {
            abi::si_code::TIMER => self.timer_signal_from_host(cpu, info),
            _ => match self.owner_for(&info).map(|owner| self.send_to_id(cpu, owner, info)) {
                // The thread has ended.
                None | Some(Err(Errno::ESRCH)) => self.send_to_process(cpu, None, info),
                Some(sent) => sent,
            },
        }
    }

    /// The program's action for a signal has changed: tells the host whether it is ignored and, for SIGCHLD, whether
    /// stops are reported and whether zombies stay.
    pub fn tell_action(&self, signal: Signal) {
        if NEVER_LEFT.contains(signal) {
            return;
        }
        let action = self.process().signals.lock().actions().get(signal);
        let handler = if action.handler == SIG_IGN { SIG_IGN } else { SigAction::DEFAULT.handler };
        let flags = SaFlags(self.flags_of_children(signal));
        let action = SigAction { handler, flags, ..SigAction::DEFAULT }.to_bytes();
        self.ask(nr::RT_SIGACTION, &mut [Word(signal.raw() as u64), In(&action), Word(0), Word(SigSet::SIZE as u64)]);
    }

    /// The flags of a signal's action that the host must know: for SIGCHLD, those about children.
    pub fn flags_of_children(&self, signal: Signal) -> u64 {
        const OF_CHILDREN: u64 = SaFlags::NOCLDSTOP.0 | SaFlags::NOCLDWAIT.0;
        match signal {
            Signal::CHLD => self.process().signals.lock().actions().get(signal).flags.0 & OF_CHILDREN,
            _ => 0,
        }
    }

    /// The process's part of a checkpoint.
    pub fn process_record(&self) -> ProcessRecord {
        let mut record = self.0.process_record(self.process_usage());
        record.itimers[0] = host_times::real_itimer(&self.m);
        record.sigpending = facts::soft_limit(&self.m, RLIMIT_SIGPENDING);
        record
    }

    /// The private call that asks for the process's part of a checkpoint.
    pub(crate) fn sys_process_time(&self, call: &Call) -> Out {
        match self.put(call.args[0], self.process_record()) {
            Ok(()) => Out::Done(VERSION as isize),
            Err(_) => Errno::EFAULT.into(),
        }
    }

    /// Called before the machine carries out `what` for the current thread.
    pub fn prepare(&self, cpu: CpuId, what: &Process) {
        match what {
            Process::Clone(args) => {
                self.hand_on_io_priority(cpu);
                if args.flags & clone_flags::FILES != 0 {
                    self.state().files.let_others_close();
                }
                self.state().ready.share();
                self.back_files_for_child();
            }
            Process::Exec(_) => {
                self.hand_on_io_priority(cpu);
                self.back_files();
            }
            Process::Exit(_) | Process::Leave(_) | Process::Rights(_) => {}
        }
    }

    /// A call of [`kernel::Next::Inline`] has returned, and this carrier still has the CPU ([`Kernel::inline_done`]).
    pub fn inline_done(&self, cpu: CpuId, t: ThreadIdx, call: Call, result: isize) -> Next {
        if result == Errno::EINTR.to_ret() {
            self.doubt_nonblocking(&call);
        }
        if let Some(rest) = self.rest_of_disturbed(&call, result) {
            return self.0.inline_goes_on(cpu, t, rest, result);
        }
        self.0.inline_done(cpu, t, call, result).unwrap_or_else(|| {
            // It then starts over, so that no signal ends a call that cannot be interrupted: `close(2)` would seem
            // done.
            let not_begun = result == Errno::ERESTARTNOINTR.to_ret();
            let cut = result == Errno::EINTR.to_ret();
            if !not_begun {
                self.note_accepted(call.nr, result);
                self.note_closed(&call);
            }
            if not_begun || cut {
                // A result that says how to restart is for signal delivery only.
                self.restart_at_exit(t);
            }
            self.process_done(cpu, if cut { self.cut_short(t, call.nr).to_ret() } else { result })
        })
    }

    /// Ends a call of [`Process::Rights`]; the current thread gets the result.
    pub fn rights_done(&self, cpu: CpuId, result: isize) -> Next {
        self.state().proc.rights_change();
        self.process_done(cpu, result)
    }

    /// The process takes over what the host has counted and armed for it. `t` is its only thread.
    pub fn take_over_times(&self, cpu: CpuId, t: ThreadIdx) {
        self.0.take_over_times(cpu, t, host_times::take_over(&self.m));
    }

    /// Before exec: gives the host the timers and limits that the new program inherits. The caller may be a child that has `borrowed` its
    /// memory.
    pub fn hand_on_times(&self, times: &Times, borrowed: bool) {
        host_times::hand_on(&self.m, times, borrowed);
    }

    /// After a failed exec: takes timers and limit over again, as they were.
    pub fn keep_times(&self) {
        let _ = host_times::take_over(&self.m);
    }
}
