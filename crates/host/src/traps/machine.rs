//! `trait Machine` on Linux.

use crate::base::{os, report, task};
use crate::carriers::carrier::Carrier;
use crate::carriers::seat::Seat;
use crate::process::{Host, Process};
use crate::process::{end, states, survey};
use crate::services::{alone, service, stops};
use crate::serving::{identity, takeover};
use crate::traps::controlled;
use abi::args::{CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_TAI, CLOCK_THREAD_CPUTIME_ID};
use abi::frame::Registers;
use abi::{Errno, SigInfo, SigSet, Signal};
use arch::context::{NO_CALL, UNKNOWN_WORDS, reg};
use arch::{Kind, base, user, xstate};
use core::sync::atomic::compiler_fence;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::machine::{Received, SignalChange};
use kernel::{Access, Call, Clock, Event, Fault, Machine, NoMemory, Raise, Resume, Transfer};
use linux::{Arg, Ends};
use record::write::Place;
use signal::frame::Restorable;
use sync::atomic::Ordering::*;

impl linux::Host for Host {
    const BARRIER: Option<sync::rcu::Barrier> = Some(takeover::barrier);

    #[inline(always)]
    fn host_call(&self, nr: usize, args: &mut [Arg<'_>], ends: Ends) -> isize {
        let call = Call { nr, args: Arg::words(args) };
        let result = match ends {
            // SAFETY: the program's own call on its behalf, or one of the personality's about memory that it has
            // provided.
            Ends::ByItself => unsafe { arch::raw::syscall(nr, call.args.map(|a| a as usize)) },
            Ends::ByAnything => call_unless_pending(&call),
            Ends::Within(limit) => call_within(self, &call, limit),
        };
        accompanied(self, result)
    }

    fn is_gone(&self, tid: u32) -> bool {
        self.ids.is_gone(tid, Carrier::my_process().process().uid())
    }

    fn sleeps_in_host(&self, t: ThreadIdx) -> bool {
        let Some(number) = self.host_carrier(t).load(SeqCst).checked_sub(1) else { return false };
        let mut bytes = [0; 512];
        let stat = task::read(self.carriers.get(number).tid.load(Relaxed), "stat", &mut bytes);
        // Without `/proc` this cannot be known.
        task::after_name(stat).is_none_or(|rest| !rest.starts_with('R'))
    }
}

impl Machine for Host {
    type Personality = linux::State;

    /// The kernel names the clock where it reads it, so that nothing is left of the choice there.
    #[inline(always)]
    fn clock(&self, clock: Clock) -> Nanos {
        match clock {
            Clock::Scheduling => self.clock.now(),
            Clock::MonotonicFloor => self.monotonic_bounds().0,
            Clock::MonotonicCeiling => self.monotonic_bounds().1,
            Clock::Realtime => self.ask_clock(CLOCK_REALTIME),
            Clock::Monotonic => self.ask_clock(CLOCK_MONOTONIC),
            Clock::Boottime => self.ask_clock(CLOCK_BOOTTIME),
            Clock::Tai => self.ask_clock(CLOCK_TAI),
            Clock::Carrier => self.ask_clock(CLOCK_THREAD_CPUTIME_ID),
        }
    }

    fn kick(&self, cpu: CpuId) {
        let k = Carrier::my_process();
        // A second carrier may receive signals that the first would not learn of, so the service thread must exist.
        if self.service.is_alone() && cpu != Carrier::my_cpu() {
            alone::end(k);
        }
        if k.sched.is_limited()
            && let Some(core) = k.sched.core(cpu)
            && let (Seat::Parked, carrier) = self.seats.look(cpu)
        {
            self.places.prepare(self.carriers.get(carrier), core);
        }
        if !self.seats.kick(cpu, &self.carriers) && Carrier::is_borrowers() {
            self.service.kick_unserved(cpu);
        }
        self.want_watch(cpu);
    }

    fn arm(&self, cpu: CpuId, at: Nanos, then: Option<Nanos>) {
        self.want_watch(cpu);
        self.clock.keep();
        let me = Carrier::me();
        // Virtual time advances at scheduling points, where the kernel checks it, or leaps while the CPU is idle.
        let (at, then) = if self.clock.stands().is_some() { (controlled::look_at(), None) } else { (at, then) };
        me.alarms.set(&self.service, me.tid.load(Relaxed), at, then);
    }

    fn claim_ids(&self, n: i32) -> Option<i32> {
        self.ids.claim(n, Carrier::my_process().process().uid())
    }

    #[inline(always)]
    fn word(&self, addr: u64, access: Access) -> Result<u32, Fault> {
        let found = match access {
            Access::Load => user::load_u32(addr),
            Access::Store(value) => user::store_u32(addr, value).map(|()| value),
            Access::CompareExchange { old, new } => user::cas_u32(addr, old, new),
        };
        found.map_err(|_| Fault)
    }
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        user::read(addr, to).map_err(|_| Fault)
    }
    fn write(&self, addr: u64, from: &[u8]) -> Result<(), Fault> {
        user::write(addr, from).map_err(|_| Fault)
    }

    fn observe(&self, event: Event<'_>) {
        let k = Carrier::my_process;
        let must_call = match event {
            Event::Sample(cpu, t, value) => {
                let r = self.registers(t);
                self.records.sample(k(), cpu, t, value, Place { rip: r.rip, rsp: r.rsp, rbp: r.rbp })
            }
            Event::Unsampled(cpu, t, value) => {
                self.records.unsampled(cpu, k().tid(t), value);
                false
            }
            Event::Switched { cpu, to, left, at } => self.records.switched(k(), cpu, to, left, at),
            Event::Serves(_, core) => {
                self.places.share(Carrier::me(), core);
                false
            }
            Event::Nice(nice) => {
                self.carriers.set_nice(&self.service, nice);
                false
            }
            Event::Signals(change) => {
                signals_changed(k(), change);
                false
            }
            Event::Gone(identity) => {
                identity::gone(k(), identity);
                false
            }
            Event::Message(message) => {
                report::say(message);
                false
            }
            Event::Point(step) => {
                self.pass_point(step);
                false
            }
            Event::Pause(until) => {
                self.pass_to(until);
                false
            }
            Event::Objects => {
                (self.settings.hooks.objects_changed)();
                false
            }
            Event::Held(state) => {
                controlled::hold(k(), state);
                false
            }
        };
        if must_call {
            self.service.call();
        }
    }

    fn clone_context(&self, parent: ThreadIdx, child: ThreadIdx, stack: u64, tls: Option<u64>) -> Result<(), NoMemory> {
        let k = Carrier::my_process();
        alone::end(k);
        if self.service.is_missing() && !service::start_again(k) {
            return Err(NoMemory);
        }
        self.contexts.reserve(child, &self.buffers).ok_or(NoMemory)?;
        self.with_context(parent, |parent| {
            self.with_context(child, |child| self.copy_state(parent, child, stack, tls));
        });
        // SAFETY: the parent is the caller's current thread.
        self.contexts.set_trapped(child, unsafe { *self.contexts.trapped(parent) });
        identity::inherit(k, parent, child);
        self.with_context(child, |child| child.free());
        Ok(())
    }

    #[inline(always)]
    fn save(&self, t: ThreadIdx) {
        self.with_context(t, |c| {
            // Compare with what the kernel says, not with what is loaded: if they differed, the claim would show it.
            // SAFETY: this carrier's own block.
            if unsafe { (*base::gs()).fs_base_due } == 0 {
                c.fs_base = base::fs_base();
            }
            // SAFETY: this carrier's own block.
            let words = unsafe { &mut (*base::gs()).control_words };
            if c.kind == Kind::Call as u32 {
                *words = xstate::store_control_words(&mut c.mxcsr, &mut c.fcw);
            } else {
                *words = UNKNOWN_WORDS;
                if c.kind == Kind::CallVectors as u32 {
                    self.make_full(c);
                }
            }
            let me = Carrier::me();
            if let Err(owner) = c.release(me.number) {
                survey::resumed_elsewhere(me, t, owner);
            }
        });
    }

    fn keep(&self, _cpu: CpuId, t: ThreadIdx) {
        let me = Carrier::me();
        if !self.with_context(t, |c| c.claim(me.number)) {
            survey::resumed_elsewhere(me, t, self.claim(t).load(Relaxed));
        }
    }

    #[inline(always)]
    fn set_resume(&self, t: ThreadIdx, how: Resume<'_>) {
        #[cfg(feature = "planted")]
        let how = match how {
            Resume::Call(_) if crate::carriers::planted::never_restarts() => Resume::Result(Errno::EINTR.to_ret()),
            how => how,
        };
        match how {
            // One store, so that `how` does not pass through memory.
            Resume::Result(value) => self.with_context(t, |c| c.r[reg::RAX] = value as u64),
            Resume::Call(instead) => self.set_call(t, instead),
            Resume::Registers(r) => self.set_registers(t, r),
        }
    }

    fn registers(&self, t: ThreadIdx) -> Registers {
        // SAFETY: as for the context.
        let trapped = unsafe { *self.contexts.trapped(t) };
        Registers {
            trapno: trapped.number,
            err: trapped.error,
            cr2: trapped.address,
            ..self.with_context(t, |c| states::registers(c))
        }
    }

    fn call_arguments(&self, t: ThreadIdx) -> Option<[u64; 6]> {
        self.with_context(t, |c| (c.call != NO_CALL).then(|| reg::ARGUMENTS.map(|register| c.r[register])))
    }

    fn move_extended_state(&self, t: ThreadIdx, how: Transfer<'_>) -> Result<(), Fault> {
        self.with_context(t, |c| {
            let bytes = self.extended(c);
            if let Transfer::ToFrame(place) = how {
                let form = states::form_for_frame(bytes);
                return self.write(place(form).ok_or(Fault)?, &bytes[..form.state_len()]);
            }
            xstate::init(bytes);
            let copied = match how {
                Transfer::FromFrame(at, Restorable::Fxsave) => {
                    self.read(at, &mut bytes[..512]).is_ok() && {
                        xstate::claim_components(bytes, 3);
                        xstate::admit(bytes, 3)
                    }
                }
                Transfer::FromFrame(at, Restorable::Xsave { size, features }) => {
                    let n = (size as usize).min(bytes.len());
                    self.read(at, &mut bytes[..n]).is_ok() && xstate::admit(bytes, features)
                }
                _ => {
                    xstate::init_for_handler(bytes);
                    true
                }
            };
            // A partial copy of what the program wrote, which XRSTOR may reject.
            if !copied {
                xstate::init(bytes);
            }
            #[cfg(feature = "planted")]
            if crate::carriers::planted::loses_vectors() {
                xstate::init(bytes);
            }
            copied.then_some(()).ok_or(Fault)
        })
    }

    fn interrupt(&self, t: ThreadIdx) {
        let carrier = self.host_carrier(t).load(SeqCst);
        if carrier == 0 {
            return;
        }
        let carrier = self.carriers.get(carrier - 1);
        carrier.gs.interrupt.store(1, SeqCst);
        os::signal_thread(self.pid, carrier.tid.load(Relaxed) as i32, os::SIGNAL_INTERRUPT);
    }

    fn raise(&self, t: ThreadIdx, info: &SigInfo, why: Raise) -> bool {
        let signal = info.signo();
        if why == Raise::Show {
            return stops::show(info);
        }
        let noted = self.faulting.swap(0, Relaxed) == u64::from(t.0 + 1) << 32 | signal as u64;
        // The note may be of an earlier fault, which a handler took.
        let fault = noted && info.code() > 0 && self.faulting_at.load(Relaxed) == self.registers(t).rip;
        if why == Raise::Terminate && self.clock.stands().is_some() {
            controlled::hold(Carrier::my_process(), chaos::log::State::Dying);
        }
        if why == Raise::Terminate && !fault && stops::may_survive(self.pid) {
            return stops::survive(Carrier::my_process(), info);
        }
        let k = Carrier::my_process();
        if let Raise::Stop { continued } = why {
            stops::ask(k, signal, continued);
            return true;
        }
        end::sum_up(k);
        end::fall(k, t, info)
    }

    fn identity(&self, t: ThreadIdx) -> u32 {
        self.identity_of(t)
    }

    fn receive(&self, what: Received) {
        let awaited = match what {
            Received::All => None,
            Received::One(signal) => Some(signal),
            Received::Blocked if self.service.is_alone() => None,
            // The service thread receives them as they come.
            Received::Blocked => return,
        };
        let k = Carrier::my_process();
        service::settle(k, awaited);
        if matches!(what, Received::All) {
            linux::Linux(k).hand_on_left(Carrier::me().cpu());
        }
    }
}

/// The process treats signals differently.
fn signals_changed(k: &Process, change: SignalChange) {
    match change {
        SignalChange::LeftToHost(set) => return service::leave(k, set.0),
        SignalChange::Action(signal) => {
            if !alone::catch(k, signal) {
                linux::Linux(k).tell_action(signal);
            }
            if signal != Signal::CHLD && !SigSet::STOP.contains(signal) {
                return;
            }
        }
        SignalChange::SimpleStops => {}
    }
    // The new action at the host replaces our own handler, so install that again.
    alone::reinstall(k, 1 << (Signal::CHLD.raw() - 1));
    stops::changed(k);
}

/// Makes a call that the carrier's timer ends after `limit`.
fn call_within(m: &Host, call: &Call, limit: Nanos) -> isize {
    let me = Carrier::me();
    me.brief.store(true, Relaxed);
    let result = loop {
        // A tick from here on is noticed: it keeps the call from beginning, or interrupts it.
        me.gs.interrupt.store(0, SeqCst);
        let at = os::clock_gettime(CLOCK_MONOTONIC) + limit;
        me.alarms.set(&m.service, me.tid.load(Relaxed), at, None);
        let result = os::interruptible(call);
        if result != Errno::ERESTARTNOINTR.to_ret() {
            break result;
        }
    };
    me.brief.store(false, Relaxed);
    me.gs.interrupt.store(0, SeqCst);
    result
}

/// Makes a call that a tick or a kick ends, or keeps from beginning.
#[inline(always)]
fn call_unless_pending(call: &Call) -> isize {
    let me = Carrier::me();
    // From here on the handlers end the call. One that ran before has left its mark.
    me.brief.store(true, Relaxed);
    compiler_fence(SeqCst);
    let is_pending = me.gs.pending.load(Relaxed) != 0;
    let result = if is_pending { Errno::ERESTARTNOINTR.to_ret() } else { os::interruptible(call) };
    compiler_fence(SeqCst);
    me.brief.store(false, Relaxed);
    me.gs.interrupt.store(0, Relaxed);
    result
}

/// Delivers the signal that accompanies some results of the program's calls, as SIGPIPE does EPIPE.
#[inline(always)]
fn accompanied(m: &Host, result: isize) -> isize {
    if (result == Errno::EPIPE.to_ret() || result == Errno::EFBIG.to_ret())
        && let Some(t) = Carrier::my_process().sched.current(Carrier::my_cpu())
    {
        m.accompany_slow(t);
    }
    result
}

impl Host {
    /// CLOCK_MONOTONIC is no less than the first and no more than the second.
    #[inline]
    fn monotonic_bounds(&self) -> (Nanos, Nanos) {
        self.bounds.read(|ticks| self.clock.span(ticks))
    }

    /// The host's clock with this number, or what it would be where time stands.
    fn ask_clock(&self, number: i32) -> Nanos {
        let Some(offset) = self.clock.stands() else { return os::clock_gettime(number) };
        match number {
            CLOCK_REALTIME | CLOCK_TAI => self.clock.now() + offset,
            CLOCK_THREAD_CPUTIME_ID => Nanos::ZERO,
            _ => self.clock.now(),
        }
    }

    /// Turns the watcher on if threads are queued on `cpu`. This path ensures that they get their turn.
    #[inline]
    fn want_watch(&self, cpu: CpuId) {
        if !self.service.watches.load(Relaxed) && Carrier::my_process().sched.queued(cpu) > 0 {
            self.service.watch();
        }
    }

    /// Sends the thread to the common entry once more, as if its site had jumped there.
    #[inline(never)]
    fn set_call(&self, t: ThreadIdx, instead: Option<usize>) {
        self.with_context(t, |c| self.restart(c, instead));
    }

    #[inline(never)]
    fn set_registers(&self, t: ThreadIdx, registers: &Registers) {
        self.with_context(t, |c| self.replace_registers(c, registers));
    }

    /// Saves what is still in this carrier's registers of the thread's state, so that another carrier can continue it.
    pub(crate) fn leave_behind(&self, t: ThreadIdx) {
        if self.claim(t).load(Relaxed) == Carrier::me().number + 1 {
            self.save(t);
        }
    }
}
