//! Delivers signals that a call causes, or reports the cause of, before the call returns.
//!
//! Linux queues such a signal before it answers the call, so a thread that does not block it runs the handler on its
//! way back to user code: SIGCHLD of the child that `waitpid(2)` reports, `kill(0, …)`, SIGIO of a descriptor that the
//! thread's own write makes ready. Here the machine receives signals a little later. So the thread asks it for what has
//! arrived ([`kernel::Machine::receive`]) before such a call returns, if [`kernel::hint::ARRIVALS`] is set.
//!
//! | call | signal |
//! |---|---|
//! | `wait4`, `waitid` | the child's, and what the child sent before |
//! | `vfork` | what the child sent before it left our memory |
//! | `kill` of a group, `pidfd_send_signal` | its own |
//! | `alarm`, `setitimer`, if a timer may be armed | SIGALRM, which arrives before the timer is off or not at all |
//! | sending with MSG_OOB, once the process or a group owns a descriptor (F_SETOWN) | SIGURG |
//! | `mq_timedsend`, once `mq_notify` was called | the notification |
//! | some controls of terminals | SIGHUP, SIGCONT, SIGWINCH, SIGINT and similar ones |
//! | `rt_sigpending`, `rt_sigtimedwait` that does not wait | any |
//! | all others, once a descriptor sends signals (O_ASYNC, F_NOTIFY, leases) and the process or a group owns one |
//! SIGIO |
//!
//! For a process that does none of this, each call passed to the host costs one load of a word that never changes. A
//! forked child inherits descriptors that send signals. What its parent owns sends nothing to the child, so it pays
//! only if a group is an owner, or when it becomes one itself.

use crate::machine::Arg::{In, Out as Filled, Word};
use crate::owners::F_OWNER_PGRP;
use crate::{Host, Linux};
use abi::args::{
    F_GETOWN, F_NOTIFY, F_SETFL, F_SETLEASE, F_SETOWN, F_SETOWN_EX, FIOASYNC, FIOSETOWN, MSG_OOB, O_ASYNC, SIOCSPGRP,
    TCGETS, TIOCNOTTY, TIOCSIG, TIOCSTI, TIOCSWINSZ, TIOCVHANGUP,
};
use abi::{Errno, Itimerval, Signal, nr, si_code};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::hint;
use kernel::machine::{Call, Received};
use kernel::trap::Out;
use sync::atomic::{AtomicU32, Ordering::*};

/// Descriptors send signals to their owners: any call may cause one.
const DESCRIPTORS: u32 = 1;
/// A message queue sends a signal.
const QUEUES: u32 = 2;

/// How much of `siginfo_t` the host reads (`copy_siginfo_from_user`).
const INFO_SIZE: usize = 48;

/// The process may own a descriptor.
const OWNED: u32 = 4;
/// A group, which may be the process's own, may own a descriptor.
const GROUP: u32 = 16;
/// The timer of `alarm(2)` and ITIMER_REAL may be armed.
const ALARM: u32 = 8;

/// The kinds of signal that the process has requested. Bits are only set, except the timer's.
#[derive(Debug)]
pub(crate) struct Sources(AtomicU32);

impl Default for Sources {
    /// Exec may have passed a timer on.
    fn default() -> Sources {
        Sources(AtomicU32::new(ALARM))
    }
}

impl Sources {
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// A forked child inherits descriptors, and may receive their signals as a member of a group. Its parent's timer,
    /// what the parent owns, and the queues that notify the parent send nothing to it.
    pub fn inherit(&self, bits: u32) {
        self.0.store(bits & (DESCRIPTORS | GROUP), Relaxed);
    }

    fn add(&self, bits: u32) {
        self.0.fetch_or(bits, Relaxed);
    }
}

impl<M: Host> Linux<'_, M> {
    /// Called before a call is passed to the host.
    #[inline(always)]
    pub(crate) fn expect_of_descriptors(&self, cpu: CpuId) {
        let sources = self.state().sources.get();
        if sources & DESCRIPTORS != 0 && is_owned(sources) {
            self.expect_signals(self.current(cpu));
        }
    }

    /// Makes `t` receive signals that have arrived before it returns to user code.
    #[cold]
    fn expect_signals(&self, t: ThreadIdx) {
        self.thread(t).hint.fetch_or(hint::ARRIVALS, AcqRel);
    }

    /// Calls that may cause a signal regardless of what the process has requested.
    pub(crate) fn sys_signalling(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let expected = match call.nr {
            nr::MQ_TIMEDSEND => self.state().sources.get() & QUEUES != 0,
            nr::SENDTO | nr::SENDMSG => is_owned(self.state().sources.get()),
            nr::IOCTL => sends_from_terminal(call.args[1]),
            _ => true,
        };
        if expected {
            self.expect_signals(t);
        }
        self.pass(cpu, &self.with_children_of_all(t, call))
    }

    /// `alarm(2)`, and `setitimer(2)` with ITIMER_REAL. If no timer was armed before, there is no signal to wait for.
    ///
    /// The bit is set after the host's timer is armed, and cleared before it is disarmed, so it is set while the timer
    /// is armed and no call is under way.
    pub(crate) fn sys_alarm(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let arms = self.arms(call);
        let bits = &self.state().sources.0;
        let before = if arms { bits.fetch_or(ALARM, SeqCst) } else { bits.fetch_and(!ALARM, SeqCst) };
        if before & ALARM != 0 {
            self.expect_signals(t);
        }
        let out = self.pass(cpu, call);
        if arms {
            bits.fetch_or(ALARM, SeqCst);
        }
        out
    }

    /// Whether the call may arm the timer. If its argument cannot be read, the host leaves the timer unchanged.
    fn arms(&self, call: &Call) -> bool {
        if call.nr == nr::ALARM {
            return call.args[0] as u32 != 0;
        }
        let new = call.args[1];
        self.get::<Itimerval>(new).map_or(new != 0, |timer| timer.value.to_nanos() != Ok(Nanos::ZERO))
    }

    /// Notes calls by which a program requests signals.
    pub(crate) fn note_sources(&self, call: &Call) {
        let [fd, command, argument, ..] = call.args;
        let sources = match call.nr {
            nr::MQ_NOTIFY => QUEUES,
            nr::FCNTL if makes_descriptor_send(&call.args) => DESCRIPTORS | self.owner_of(fd),
            nr::IOCTL if command == FIOASYNC => DESCRIPTORS | self.owner_of(fd),
            nr::FCNTL if command == F_SETOWN => named(argument as i32),
            nr::FCNTL if command == F_SETOWN_EX => match self.load_u32(argument) {
                Ok(F_OWNER_PGRP) => GROUP,
                _ => OWNED,
            },
            nr::IOCTL if matches!(command, FIOSETOWN | SIOCSPGRP) => {
                self.load_u32(argument).map_or(0, |id| named(id as i32))
            }
            _ => return,
        };
        self.state().sources.add(sources);
    }

    /// The owner of a descriptor that the program makes send signals. That may give an owner to one without: a terminal
    /// gets its foreground group (`__tty_fasync`); a lease, a watched folder and some devices get the process.
    fn owner_of(&self, fd: u64) -> u32 {
        let own = self.config().pid.0 as isize;
        match self.ask(nr::FCNTL, &mut [Word(fd), Word(F_GETOWN)]) {
            0 if self.ask(nr::IOCTL, &mut [Word(fd), Word(TCGETS), Filled(&mut [0; 36])]) == 0 => GROUP | OWNED,
            0 => OWNED,
            owner if owner == own => OWNED,
            // Negative numbers are groups.
            ..0 => GROUP,
            _ => 0,
        }
    }

    /// `pidfd_send_signal(2)`. In a signal to the process itself, only the first thread may claim that the kernel or
    /// `tgkill(2)` sent it. The host judges that by the carrier, so for other threads it is only asked for other
    /// errors.
    pub(crate) fn sys_pidfd_send_signal(&self, t: ThreadIdx, call: &Call) -> Out {
        let [fd, signal, from, flags, ..] = call.args;
        let mut bytes = [0; 128];
        if from == 0 || self.tid(t).0 == self.config().pid.0 || self.m.read(from, &mut bytes[..INFO_SIZE]).is_err() {
            return self.send_by_host(call, signal);
        }
        let word = |at: usize| i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (named, code) = (word(0), word(8));
        if code < 0 && code != si_code::TKILL {
            return self.send_by_host(call, signal);
        }
        bytes[..4].fill(0);
        let result = self.ask(call.nr, &mut [Word(fd), Word(0), In(&bytes), Word(flags)]);
        Out::Done(match Errno::from_ret(result) {
            Err(error) if !matches!(error, Errno::EPERM | Errno::ESRCH) => result,
            _ if named != signal as i32 => Errno::EINVAL.to_ret(),
            _ => Errno::EPERM.to_ret(),
        })
    }

    /// A call that sends `signal` to more than one process, or to one that only the host knows.
    pub(crate) fn send_by_host(&self, call: &Call, signal: u64) -> Out {
        let result = self.host(call);
        if result == 0
            && let Some(signal) = Signal::from_raw(signal as i32)
        {
            self.m.receive(Received::One(signal));
        }
        Out::Done(result)
    }
}

/// Whether a descriptor may be owned by the process or by a group.
fn is_owned(sources: u32) -> bool {
    sources & (OWNED | GROUP) != 0
}

/// The owner that F_SETOWN names.
fn named(id: i32) -> u32 {
    match id {
        0 => 0,
        ..0 => GROUP,
        _ => OWNED,
    }
}

/// Whether the call sends out of band.
pub(crate) fn is_urgent(call: &Call) -> bool {
    let flags = if call.nr == nr::SENDTO { call.args[3] } else { call.args[2] };
    flags & MSG_OOB != 0
}

fn makes_descriptor_send([_, command, argument, ..]: &[u64; 6]) -> bool {
    match *command {
        F_SETFL => argument & O_ASYNC != 0,
        F_SETLEASE | F_NOTIFY => true,
        _ => false,
    }
}

/// Controls that make a terminal send signals to the caller's own group: releasing it, hanging up, typing, changing its
/// size.
fn sends_from_terminal(request: u64) -> bool {
    matches!(request, TIOCSTI | TIOCSWINSZ | TIOCNOTTY | TIOCSIG | TIOCVHANGUP)
}
