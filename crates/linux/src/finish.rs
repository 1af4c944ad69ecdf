//! The end of a host call that waited: its result, and what the program sees if a signal cut it short.

use crate::host_call::with;
use crate::kinds::restarts;
use crate::planted::Fault;
use crate::{Host, Linux, facts};
use abi::args::{POLLIN, POLLOUT, WNOHANG};
use abi::futex::{FUTEX_CMD_MASK, FUTEX_WAIT, FUTEX_WAIT_BITSET};
use abi::{Errno, SigInfo, nr};
use ids::{Nanos, ThreadIdx};
use kernel::futex::mixed_nodes;
use kernel::machine::Call;
use kernel::trap::Out;
use kernel::{FOR_EVER, USER_END};
use sync::atomic::Ordering::*;

/// The result of a host call that was given up because its CPU was wanted and the host allowed us no other thread
/// (RLIMIT_NPROC, memory): the call is made again (`put_off`).
pub const TRY_AGAIN: isize = Errno::ERESTARTNOINTR.to_ret();

/// The result of a call that a signal has kept from beginning: it starts over when the signal has been handled, as if
/// the signal had come before it. What the call waits for may be there already, and then Linux does not return EINTR.
pub const NOT_BEGUN: isize = Errno::ERESTARTNOHAND.to_ret();

impl<M: Host> Linux<'_, M> {
    /// The host's result. If a part was done before, the sum, or only that part if the rest failed, as for a write that
    /// was cut short.
    pub(crate) fn host_finished(&self, t: ThreadIdx) -> Option<isize> {
        let wait = &self.thread(t).wait;
        let call = wait.call.load(Relaxed) as usize;
        let result = if !wait.done() {
            if self.mixed_woken(t) {
                self.m.interrupt(t);
                return None;
            }
            wait.armed()?;
            self.put_off_finished(t)?
        } else {
            self.charge_host_call(t);
            match wait.value.load(Relaxed) as isize {
                TRY_AGAIN => self.put_off(t, call)?,
                NOT_BEGUN => {
                    self.restart_at_exit(t);
                    return Some(Errno::ERESTARTNOINTR.to_ret());
                }
                result => result,
            }
        };
        Some(self.outcome(t, call, result))
    }

    /// The program's result of a call that has waited.
    pub(crate) fn outcome(&self, t: ThreadIdx, call: usize, result: isize) -> isize {
        let part = if call == nr::POLL { 0 } else { self.thread(t).wait.a.load(Relaxed) as isize };
        if let Some(first) = mixed_nodes(part) {
            return self.mixed_ended(first, result);
        }
        let result = match result == Errno::EINTR.to_ret() && part == 0 && self.descriptors_changed(t) {
            true => self.read_signals_again(t, call),
            false => result,
        };
        self.note_accepted(call, result);
        if matches!(call, nr::CLOSE | nr::CLOSE_RANGE | nr::DUP2 | nr::DUP3) {
            let args = self.arguments(t);
            self.note_closed(&Call { nr: call, args: [args[0], args[1], 0, 0, 0, 0] });
        }
        match self.told_late(t, call, result) {
            r if crate::masked::is_masked(call) => self.masked_result(t, call, r),
            r if part < 0 => crate::shared_futex::shared_wait_ended(part, r),
            r if part > 0 && r < 0 && !self.strikes(Fault::TellInterrupt) => {
                self.owe_error(t, r);
                part
            }
            r if r == Errno::EINTR.to_ret() && self.writes_to_nonblocking_pipe(t, call) => Errno::EAGAIN.to_ret(),
            r if r == Errno::EINTR.to_ret() => match self.child_after_all(t, call) {
                Some(result) => result,
                None => self.cut_short(t, call).to_ret(),
            },
            r if part > 0 && self.strikes(Fault::TellLastPart) => r,
            r => self.owed_at_end(call, || self.arguments(t)[0], part + r),
        }
    }

    /// A call that reads descriptors was cut short, because they may have a signal for the thread alone: the result
    /// with that signal. If they have none, the call is made again, unless a signal with a handler arrives.
    fn read_signals_again(&self, t: ThreadIdx, nr: usize) -> isize {
        let args = self.arguments(t);
        if let Some(result) = self.with_own_signals(t, &Call { nr, args }) {
            return result;
        }
        self.restart_at_exit(t);
        match nr {
            nr::EPOLL_WAIT | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => Errno::ERESTARTNOHAND.to_ret(),
            _ => Errno::EINTR.to_ret(),
        }
    }

    /// `poll(2)` of no descriptors at an invalid address reports the address only after its wait, however that ended.
    pub(crate) fn told_late(&self, t: ThreadIdx, call: usize, result: isize) -> isize {
        if !matches!(call, nr::POLL | nr::PPOLL) {
            return result;
        }
        let args = self.arguments(t);
        if args[1] as u32 != 0 || args[0] < USER_END {
            return result;
        }
        match self.host(&Call { nr: nr::POLL, args: [args[0], 0, 0, 0, 0, 0] }) {
            fault @ ..0 => fault,
            _ => result,
        }
    }

    /// Whether the call writes to a pipe that is non-blocking by now. A writer woken by a signal checks O_NONBLOCK
    /// first (`pipe_write`).
    fn writes_to_nonblocking_pipe(&self, t: ThreadIdx, call: usize) -> bool {
        matches!(call, nr::WRITE | nr::WRITEV) && facts::is_nonblocking_pipe(&self.m, self.arguments(t)[0])
    }

    /// The result of a call that a signal ended before it had any effect (`signal(7)`).
    pub(crate) fn cut_short(&self, t: ThreadIdx, call: usize) -> Errno {
        match restarts(call) {
            // A call on a socket with a timeout is not restarted (`sock_intr_errno`).
            Errno::ERESTARTSYS if self.has_time_limit(t, call) => Errno::EINTR,
            // With a time limit (`futex_wait`).
            Errno::ERESTARTSYS if call == nr::FUTEX && self.waits_with_time(t) => Errno::ERESTARTNOHAND,
            error => error,
        }
    }

    /// Whether the call of `t`, a `futex(2)`, is a plain wait with a time limit.
    fn waits_with_time(&self, t: ThreadIdx) -> bool {
        let args = self.arguments(t);
        matches!(args[1] as u32 & FUTEX_CMD_MASK, FUTEX_WAIT | FUTEX_WAIT_BITSET) && args[3] != 0
    }

    /// A wait for children was interrupted: a child that can be reported comes first, because `do_wait` checks the
    /// children before the signals. Its own SIGCHLD may have interrupted the call just before it was made.
    #[cold]
    fn child_after_all(&self, t: ThreadIdx, call: usize) -> Option<isize> {
        let args = with(&self.arguments(t), 5, 0);
        let Call { args, .. } = self.with_children_of_all(t, &Call { nr: call, args });
        match call {
            nr::WAIT4 => {
                let result = self.host(&Call { nr: call, args: with(&args, 2, args[2] | WNOHANG) });
                (result != 0).then_some(result)
            }
            nr::WAITID => self.child_for_waitid(&args),
            _ => None,
        }
    }

    /// `waitid(2)` reports a child in what it writes, and an interrupted one writes nothing.
    fn child_for_waitid(&self, args: &[u64; 6]) -> Option<isize> {
        let infop = args[2];
        let mut before = [0; 128];
        self.m.read(infop, &mut before).ok()?;
        let result = self.host(&Call { nr: nr::WAITID, args: with(args, 3, args[3] | WNOHANG) });
        let mut now = [0; 128];
        self.m.read(infop, &mut now).ok()?;
        let found = SigInfo::read(&now).is_ok_and(|info| info.pid() != 0);
        if result != 0 || found {
            return Some(result);
        }
        let _ = self.m.write(infop, &before);
        None
    }

    /// The host returned EAGAIN for a call of `t` that has begun before and waited there. If the descriptor has become
    /// non-blocking since, returns the `struct pollfd` with which to keep waiting: Linux checks O_NONBLOCK only when a
    /// call begins.
    pub fn waits_still(&self, t: ThreadIdx, call: &Call) -> Option<[u8; 8]> {
        let fd = call.args[0];
        let events = match call.nr {
            nr::READ | nr::READV | nr::RECVFROM | nr::RECVMSG | nr::RECVMMSG | nr::ACCEPT | nr::ACCEPT4 => POLLIN,
            nr::WRITE | nr::WRITEV | nr::SENDTO | nr::SENDMSG => POLLOUT,
            _ => return None,
        };
        let waits = self.thread(t).parked.is_left_to_host()
            && facts::is_nonblocking(&self.m, fd)
            && facts::socket_time_limit(&self.m, fd, events == POLLOUT).is_none();
        waits.then(|| (fd & 0xffff_ffff | events << 32).to_le_bytes())
    }

    /// Whether the program has set time limits on sockets.
    pub fn sets_time_limits(&self) -> bool {
        self.state().ready.sets_limits()
    }

    /// Whether the call is on a socket with a time limit.
    pub fn has_time_limit(&self, t: ThreadIdx, call: usize) -> bool {
        let args = self.arguments(t);
        let limited = |fd, sending| facts::socket_time_limit(&self.m, fd, sending).is_some();
        match call {
            nr::READ | nr::READV | nr::PREADV | nr::PREADV2 => limited(args[0], false),
            nr::RECVFROM | nr::RECVMSG | nr::RECVMMSG | nr::ACCEPT | nr::ACCEPT4 => limited(args[0], false),
            nr::WRITE | nr::WRITEV | nr::PWRITEV | nr::PWRITEV2 | nr::SENDFILE => limited(args[0], true),
            nr::SENDTO | nr::SENDMSG | nr::SENDMMSG | nr::CONNECT => limited(args[0], true),
            nr::SPLICE => limited(args[0], false) || limited(args[2], true),
            _ => false,
        }
    }

    /// Continues a `poll(2)` that a signal without a handler interrupted (`do_restart_poll`).
    pub(crate) fn poll_again(&self, t: ThreadIdx) -> Out {
        let (args, end) = (self.arguments(t), self.thread(t).wait.a.load(Relaxed));
        let call = |ms: i32| Call { nr: nr::POLL, args: [args[0], args[1], ms as u32 as u64, 0, 0, 0] };
        if end == FOR_EVER {
            return Out::Host(call(-1), end as isize);
        }
        // This clock may be ahead of the host's by a few parts per million: never early.
        let left = Nanos(end).since(self.now());
        let left = left.0 + (Nanos::from_millis(u64::from(args[2] as u32)).since(left).0 >> 10);
        match left.div_ceil(1_000_000) {
            0 => self.host_at_once(&call(0)),
            ms => Out::Host(call(ms.min(i32::MAX as u64) as i32), end as isize),
        }
    }
}
