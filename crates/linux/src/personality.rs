//! The personality as the kernel sees it.

use crate::machine::Arg::{In, Out as Filled, Word};
use crate::{Host, Linux, State, facts, host_times, left};
use abi::{Errno, SaFlags, SigAction, SigEvent, SigInfo, SigSet, Signal, nr};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::machine::NEVER_LEFT;
use kernel::wait::Wait;
use kernel::{Call, Capability, Kernel, Out, Personality, Process};
use time::cpu::Usage;

impl<M: Host> Personality<M> for State {
    fn call(k: &Kernel<M>, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        Linux(k).call(cpu, t, call)
    }

    fn before(k: &Kernel<M>, what: &Process) {
        match what {
            Process::Clone(_) => {
                Linux(k).state().ready.share();
                Linux(k).back_files_for_child();
            }
            Process::Exec(_) => Linux(k).back_files(),
            Process::Exit(_) | Process::Rights(_) => {}
        }
    }

    fn finished(k: &Kernel<M>, t: ThreadIdx, wait: Wait) -> Option<isize> {
        match wait {
            Wait::Terminal => Linux(k).terminal_finished(t),
            _ => Linux(k).host_finished(t),
        }
    }

    fn answered(k: &Kernel<M>, call: &Call, result: isize) {
        Linux(k).note_accepted(call.nr, result);
        Linux(k).note_closed(call);
    }

    fn resumes(k: &Kernel<M>, t: ThreadIdx) -> bool {
        Linux(k).is_unparked(t)
    }

    fn look_for_events(k: &Kernel<M>, cpu: CpuId) {
        Linux(k).look_for_events(cpu);
    }

    fn take_arrivals(k: &Kernel<M>, cpu: CpuId, t: ThreadIdx) {
        Linux(k).take_arrivals(cpu, t);
    }

    fn unwanted(k: &Kernel<M>, t: ThreadIdx, info: &SigInfo) {
        Linux(k).unwanted(t, info);
    }

    #[inline]
    fn wanted(k: &Kernel<M>, t: ThreadIdx, takes: impl FnOnce() -> SigSet) {
        Linux(k).reclaim_signals(t, takes);
    }

    fn pending(k: &Kernel<M>) -> SigSet {
        let left = k.personality.descriptors.left();
        if left.is_empty() { left } else { left::pending(&k.m) & left }
    }

    fn take_pending(k: &Kernel<M>, wanted: SigSet) -> Option<SigInfo> {
        let wanted = k.personality.descriptors.left() & wanted;
        if wanted.is_empty() { None } else { left::take(&k.m, wanted) }
    }

    fn ignore(m: &M, signal: Signal, ignored: bool, flags: SaFlags) {
        if NEVER_LEFT.contains(signal) {
            return;
        }
        let action = SigAction { handler: u64::from(ignored), flags, ..SigAction::DEFAULT }.to_bytes();
        m.ask(nr::RT_SIGACTION, &mut [Word(signal.raw() as u64), In(&action), Word(0), Word(SigSet::SIZE as u64)]);
    }

    fn create_timer(m: &M, clock: i32, event: &SigEvent) -> Result<i32, Errno> {
        let mut id = [0; 4];
        let made = m.ask(nr::TIMER_CREATE, &mut [Word(clock as i64 as u64), In(&event.to_bytes()), Filled(&mut id)]);
        Errno::from_ret(made).map(|_| i32::from_le_bytes(id))
    }

    fn delete_timer(m: &M, id: i32) {
        m.ask(nr::TIMER_DELETE, &mut [Word(id as u64)]);
    }

    fn real_itimer(m: &M) -> [Nanos; 2] {
        host_times::real_itimer(m)
    }

    fn usage(m: &M) -> Usage {
        host_times::usage(m)
    }

    fn soft_limit(m: &M, resource: u64) -> u64 {
        facts::soft_limit(m, resource)
    }

    fn may(m: &M, what: Capability) -> bool {
        facts::has_capability(m, what)
    }
}

impl<M: Host> Linux<'_, M> {
    /// The process gets a signal that the host received for it.
    ///
    /// # Errors
    /// EAGAIN if the process has reached its limit of pending signals. The signal must be offered again, because its
    /// sender was told that it arrived.
    pub fn signal_from_host(&self, cpu: CpuId, info: SigInfo) -> Result<(), Errno> {
        match info.code() {
            abi::si_code::TIMER => self.timer_signal_from_host(cpu, info),
            _ => match self.owner_for(&info) {
                Some(owner) => self.send_to_thread(cpu, owner, info),
                None => self.send_to_process(cpu, None, info),
            },
        }
    }

    /// A call of [`Process::Rights`] is done; the current thread gets the result.
    pub fn rights_done(&self, cpu: CpuId, result: isize) -> kernel::Next {
        self.state().proc.rights_change();
        self.process_done(cpu, result)
    }

    /// The process takes over what the host has counted and armed for it. `t` is its only thread.
    pub fn take_over_times(&self, cpu: CpuId, t: ThreadIdx) {
        self.0.take_over_times(cpu, t, host_times::take_over(&self.m));
    }

    /// Before exec: the host gets back what the new program shall find. In a vfork child (`borrowed`), which has the limit
    /// of its parent but no timers, it is the host's part of the child that gets it.
    pub fn hand_on_times(&self, borrowed: bool) {
        host_times::hand_on(&self.m, &self.times_to_hand_on(borrowed));
    }

    /// Exec has failed: timers and limit are ours again, as they were.
    pub fn keep_times(&self) {
        let _ = host_times::take_over(&self.m);
    }
}
