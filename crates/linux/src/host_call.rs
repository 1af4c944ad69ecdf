//! Calls that the host answers and that may wait.
//!
//! Each is first tried in a form that cannot wait, if the host has one. If it must wait, its thread leaves the CPU as
//! for any other wait, and the machine makes the call on a carrier that the CPU can spare ([`crate::Next::Host`]).

use crate::facts::CURRENT;
use crate::kinds::{fcntl_waits, goes_as_a_whole, ioctl_waits, is_answered_at_once, is_of_pieces, is_parkable};
use crate::machine::Arg::{In, Word};
use crate::machine::Ends;
use crate::masked::is_masked;
use crate::planted::Fault;
use crate::short::File;
use crate::terminal::changes_terminal;
use crate::vectors::Sent;
use crate::{Host, Linux, facts};
use abi::args::{
    GRND_NONBLOCK, IPC_NOWAIT, LOCK_NB, MSG_COPY, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_NOSIGNAL, MSG_OOB, MSG_WAITALL,
    RWF_NOWAIT, SEEK_CUR, SOCK_CLOEXEC, SOCK_NONBLOCK, WNOHANG,
};
use abi::{Errno, Signal, Timespec, nr};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::Here;
use kernel::machine::Call;
use kernel::trap::Out;
use sync::atomic::{AtomicBool, Ordering::*};

/// When poll(2) reports a pipe writable, at least this many bytes fit.
const PIPE_BUF: u64 = 4096;
/// The most messages that `sendmmsg(2)` sends (`UIO_MAXIOV`).
const MESSAGES_MAX: u64 = 1024;
/// The size of `struct mmsghdr`.
const MESSAGE_SIZE: u64 = 64;

/// Makes a call of the current thread if the host answers it at once, whatever its arguments and the state of the
/// process; returns the result.
///
/// This is equivalent to a call from user code: it changes nothing here, and if another CPU wants something of this one
/// meanwhile, it sends a kick, which the machine notices on the way out.
#[inline(always)]
pub fn call_at_once<M: Host>(here: Here<'_, M>, call: &Call) -> Option<isize> {
    if !is_answered_at_once(call.nr) {
        return None;
    }
    here.count_passed();
    Some(crate::machine::host(here.machine(), call))
}

/// Sockets of the program that wait for a minimum to receive (SO_RCVLOWAT). In the form that does not wait, the host
/// returns less.
#[derive(Debug, Default)]
pub(crate) struct Enough(AtomicBool);

impl Enough {
    /// Notes a socket option that the program sets; a forked child inherits its parent's sockets.
    pub(crate) fn note(&self, call: &Call) {
        if facts::sets_enough(call) {
            self.set(true);
        }
    }

    pub(crate) fn set(&self, is_used: bool) {
        self.0.store(is_used, Relaxed);
    }

    pub(crate) fn is_used(&self) -> bool {
        self.0.load(Relaxed)
    }

    #[inline]
    fn is_asked(&self, m: &impl Host, fd: u64) -> bool {
        self.is_used() && facts::waits_for_enough(m, fd)
    }
}

/// The result of a first, non-blocking try.
pub(crate) enum Tried {
    Done(isize),
    /// The call does not wait, but may take long.
    Inline,
    MustWait,
    /// The call would wait for descriptors.
    WouldWait,
    /// EAGAIN. On a blocking descriptor the call would wait.
    Refused,
    /// Like `Refused` in the form that does not wait, but the call itself may return something else.
    Unready,
    /// This part is done; the call is for the rest.
    Rest(isize, Call),
    /// This part is done; the host makes the call for the rest.
    RestInHost(isize, Call),
    /// The host has no form that does not wait: the call is made when poll(2) reports readiness, for writing if true.
    Look(bool),
    /// The call may concern a terminal. The signal is for threads that may not make it now; for others, the call waits
    /// or takes long as given.
    AtTerminal(Signal, Out),
}

/// The result of a call that a parked thread has repeated.
pub(crate) enum Attempt {
    Done(isize),
    /// This much of the rest is done.
    Part(isize),
    /// The call would wait.
    Wait,
}

impl<M: Host> Linux<'_, M> {
    /// Makes the call without waiting if possible; otherwise it has to wait.
    pub(crate) fn try_host(&self, cpu: CpuId, call: &Call) -> Out {
        let t = self.current(cpu);
        if self.is_known_nonblocking(call)
            && let Some(out) = self.call_nonblocking(cpu, t, call)
        {
            return out;
        }
        if let Some(result) = self.owed_to_writer(call) {
            return Out::Done(result);
        }
        if self.is_known_to_wait(t, call) {
            return self.descriptor_wait(cpu, t, *call, 0);
        }
        if self.is_expected_to_wait(cpu, t, call) {
            return self.wait_in_host(t, *call);
        }
        self.note_generations(t, call);
        let changes = self.state().files.changes();
        let tried = if call.nr == nr::CONNECT { self.try_connect(cpu, call) } else { self.try_without_waiting(call) };
        if matches!(tried, Tried::Refused | Tried::Unready) && self.may_begin_in_host(cpu, call) {
            self.thread(t).parked.habit.would_wait(call);
            return self.wait_in_host(t, *call);
        }
        match self.unless_nonblocking(call, tried) {
            Tried::Done(result) if result == Errno::EINTR.to_ret() && is_parkable(call.nr) => self.try_host(cpu, call),
            Tried::Done(result) => {
                self.note_short(t, call, result);
                self.thread(t).parked.habit.did_not_wait(call);
                answered(call, self.owed_at_end(call.nr, || call.args[0], result))
            }
            Tried::Inline => self.lasting(t, call),
            Tried::MustWait => Out::Host(*call, 0),
            Tried::WouldWait => self.descriptor_wait(cpu, t, *call, 0),
            Tried::Refused | Tried::Unready => {
                self.state().files.note_wait(call.args[0] as u32, changes);
                self.descriptor_wait(cpu, t, *call, 0)
            }
            Tried::Rest(done, rest) => self.descriptor_wait(cpu, t, rest, done),
            Tried::RestInHost(done, rest) => Out::Host(rest, done),
            Tried::Look(out) if facts::is_ready(&self.m, call.args[0], out) => Out::Host(*call, 0),
            Tried::Look(_) => match self.read_without_writer(call) {
                Some(result) => Out::Done(result),
                None => self.descriptor_wait(cpu, t, *call, 0),
            },
            Tried::AtTerminal(signal, out) => self.stop_at_terminal(cpu, t, call, signal).unwrap_or(out),
        }
    }

    /// On a descriptor with O_NONBLOCK a call ends instead of waiting. Sockets check the flag only here, when a call
    /// begins.
    pub(crate) fn unless_nonblocking(&self, call: &Call, tried: Tried) -> Tried {
        match tried {
            Tried::Refused | Tried::Unready if self.finds_nonblocking(call) => match tried {
                Tried::Refused => Tried::Done(Errno::EAGAIN.to_ret()),
                _ => Tried::Done(self.host(call)),
            },
            Tried::Rest(..) | Tried::Look(_) if !self.is_nonblocking(call.args[0]) => tried,
            Tried::Rest(done, _) => Tried::Done(done),
            Tried::Look(_) => Tried::Inline,
            tried => tried,
        }
    }

    /// Makes a call that should not wait but might; EINTR if it did.
    pub(crate) fn host_briefly(&self, cpu: CpuId, call: &Call) -> isize {
        const LIMIT: Nanos = Nanos::from_millis(1);
        self.lend_timer(cpu);
        self.m.host_call(call.nr, &mut call.args.map(Word), Ends::Within(LIMIT))
    }

    /// Makes a call that neither waits nor takes long.
    pub(crate) fn host_at_once(&self, call: &Call) -> Out {
        answered(call, self.host(call))
    }

    fn try_without_waiting(&self, call: &Call) -> Tried {
        let a = &call.args;
        match call.nr {
            nr::READ | nr::READV | nr::RECVFROM | nr::RECVMSG | nr::RECVMMSG
                if self.state().enough.is_asked(&self.m, a[0]) =>
            {
                Tried::MustWait
            }
            nr::READ => self.try_transfer(call, nr::PREADV2),
            nr::WRITE => self.try_transfer(call, nr::PWRITEV2),
            nr::READV => match self.file_of(a[0]) {
                File::Stream => {
                    let attempt = Call { nr: nr::PREADV2, args: [a[0], a[1], a[2], CURRENT, CURRENT, RWF_NOWAIT] };
                    self.try_as(call, attempt, a[0])
                }
                File::OnDisk | File::Empty => Tried::Inline,
                File::Endless => Tried::MustWait,
            },
            nr::PREADV | nr::PWRITEV | nr::PREADV2 | nr::PWRITEV2 if self.file_of(a[0]).is_on_disk() => Tried::Inline,
            nr::WRITEV | nr::SENDMSG => self.try_pieces(call),
            // Urgent data that has not arrived yet is EAGAIN even for a call that may wait (`tcp_recv_urg`).
            nr::RECVFROM if a[3] & MSG_OOB != 0 => Tried::MustWait,
            nr::RECVMSG if a[2] & MSG_OOB != 0 => Tried::MustWait,
            nr::RECVMMSG if a[3] & (MSG_OOB | MSG_DONTWAIT) == MSG_OOB => Tried::MustWait,
            nr::RECVFROM if waits_for_all(a[3]) => self.try_receive_all(call),
            // A non-blocking try could return a part.
            nr::RECVMSG if waits_for_all(a[2]) => Tried::MustWait,
            nr::RECVFROM => self.try_receive(call, 3),
            nr::RECVMSG => self.try_receive(call, 2),
            nr::RECVMMSG if waits_for_one(a) => self.try_receive(call, 3),
            nr::RECVMMSG | nr::SENDMMSG if a[3] & MSG_DONTWAIT != 0 || self.is_nonblocking(a[0]) => {
                Tried::Done(self.host(&Call { nr: call.nr, args: with(a, 3, a[3] | MSG_DONTWAIT) }))
            }
            nr::SENDMMSG => self.try_send_several(call),
            nr::SENDTO => self.try_send(call),
            nr::ACCEPT | nr::ACCEPT4 if facts::is_ready(&self.m, a[0], false) => Tried::Inline,
            // A call that can only fail never becomes ready.
            nr::ACCEPT4 if a[3] & !(SOCK_CLOEXEC | SOCK_NONBLOCK) != 0 => Tried::MustWait,
            nr::ACCEPT | nr::ACCEPT4 if !facts::is_listener(&self.m, a[0]) => Tried::MustWait,
            nr::ACCEPT | nr::ACCEPT4 => Tried::Unready,
            nr::MQ_TIMEDRECEIVE | nr::MQ_TIMEDSEND => self.try_queue(call),
            nr::POLL if a[2] as i32 == 0 => Tried::Done(self.host(call)),
            nr::POLL => match self.host(&Call { nr: call.nr, args: with(a, 2, 0) }) {
                r if r == 0 || is_told_late(call, r) => Tried::WouldWait,
                r => Tried::Done(r),
            },
            nr::EPOLL_WAIT if a[3] as i32 == 0 => Tried::Done(self.host(call)),
            nr::EPOLL_WAIT => self.or_park(Call { nr: call.nr, args: with(a, 3, 0) }),
            nr::WAIT4 if a[2] & WNOHANG == 0 => {
                self.or_wait_zero(Call { nr: call.nr, args: with(a, 2, a[2] | WNOHANG) })
            }
            nr::WAIT4 => Tried::Done(self.host(call)),
            nr::FLOCK if a[1] & LOCK_NB == 0 => self.or_wait(Call { nr: call.nr, args: with(a, 1, a[1] | LOCK_NB) }),
            nr::MSGRCV => self.try_nomsg(call),
            nr::MSGSND => self.or_wait(Call { nr: call.nr, args: with(a, 3, a[3] | IPC_NOWAIT) }),
            nr::FCNTL if !fcntl_waits(a[1]) => Tried::Done(self.host(call)),
            nr::IOCTL if changes_terminal(a[1]) => {
                let out = if ioctl_waits(a[1]) { Out::Host(*call, 0) } else { Out::Inline(*call) };
                Tried::AtTerminal(Signal::TTOU, out)
            }
            nr::IOCTL => Tried::Inline,
            nr::CLOSE | nr::SHUTDOWN | nr::FSYNC | nr::FDATASYNC | nr::SYNC | nr::SYNCFS | nr::MSYNC => Tried::Inline,
            nr::COPY_FILE_RANGE | nr::SENDFILE | nr::SPLICE if self.moves_without_waiting(call) => Tried::Inline,
            nr::OPEN | nr::OPENAT => self.try_open(call),
            nr::GETRANDOM => match self.or_wait(Call { nr: call.nr, args: with(a, 2, a[2] | GRND_NONBLOCK) }) {
                Tried::Done(got @ 1..) => self.random_in_part(call, got),
                tried => tried,
            },
            _ => Tried::MustWait,
        }
    }

    /// EAGAIN means "must wait".
    fn or_wait(&self, call: Call) -> Tried {
        match self.host(&call) {
            r if r == Errno::EAGAIN.to_ret() => Tried::MustWait,
            r => Tried::Done(r),
        }
    }

    /// 0 means "would wait for descriptors".
    fn or_park(&self, call: Call) -> Tried {
        match self.host(&call) {
            0 => Tried::WouldWait,
            r => Tried::Done(r),
        }
    }

    /// `recvfrom(2)`, `recvmsg(2)`: `flags` is the argument with the flags.
    fn try_receive(&self, call: &Call, flags: usize) -> Tried {
        let a = &call.args;
        match self.host(&Call { nr: call.nr, args: with(a, flags, a[flags] | MSG_DONTWAIT) }) {
            r if r != Errno::EAGAIN.to_ret() || a[flags] & MSG_DONTWAIT != 0 => Tried::Done(r),
            // A read of the error queue never waits, but sockets without one ignore the flag.
            r if a[flags] & MSG_ERRQUEUE != 0 && self.is_nonblocking(a[0]) => Tried::Done(r),
            _ if a[flags] & MSG_ERRQUEUE != 0 => Tried::MustWait,
            _ => Tried::Refused,
        }
    }

    /// `recvfrom(2)` with MSG_WAITALL. On a TCP connection it takes what there is and continues. Other sockets have
    /// packets, or pass rights, at which a call ends.
    fn try_receive_all(&self, call: &Call) -> Tried {
        let a = &call.args;
        if a[3] & !(MSG_WAITALL | MSG_NOSIGNAL) != 0 || !facts::is_tcp(&self.m, a[0]) {
            return Tried::MustWait;
        }
        match self.host(&Call { nr: call.nr, args: with(a, 3, a[3] | MSG_DONTWAIT) }) {
            r if r == Errno::EAGAIN.to_ret() => Tried::Refused,
            r if r > 0 && (r as u64) < a[2] => self.rest_of(call, r),
            r => Tried::Done(r),
        }
    }

    /// `sendto(2)`: a stream may take a part.
    fn try_send(&self, call: &Call) -> Tried {
        let a = &call.args;
        if goes_as_a_whole(a[3]) {
            return Tried::MustWait;
        }
        match self.host(&Call { nr: call.nr, args: with(a, 3, a[3] | MSG_DONTWAIT) }) {
            r if a[3] & MSG_DONTWAIT != 0 => Tried::Done(r),
            r if r == Errno::EAGAIN.to_ret() => Tried::Refused,
            r if r >= 0 && (r as u64) < a[2] => self.rest_of(call, r),
            r => Tried::Done(r),
        }
    }

    /// `sendmmsg(2)`. After a part, the host sends the rest and reports no error there, as within one call. A stream
    /// may take a part of the last message.
    fn try_send_several(&self, call: &Call) -> Tried {
        let a = &call.args;
        let count = u64::from(a[2] as u32).min(MESSAGES_MAX);
        if goes_as_a_whole(a[3]) || !facts::is_datagram(&self.m, a[0]) {
            return Tried::MustWait;
        }
        match self.host(&Call { nr: call.nr, args: with(a, 3, a[3] | MSG_DONTWAIT) }) {
            r if r == Errno::EAGAIN.to_ret() => Tried::MustWait,
            r if r > 0 && (r as u64) < count => {
                let args = [a[0], a[1] + r as u64 * MESSAGE_SIZE, count - r as u64, a[3], a[4], a[5]];
                Tried::Rest(r, Call { nr: call.nr, args })
            }
            r => Tried::Done(r),
        }
    }

    /// `writev(2)`, `sendmsg(2)`.
    fn try_pieces(&self, call: &Call) -> Tried {
        let may_wait = call.nr != nr::SENDMSG || call.args[2] & MSG_DONTWAIT == 0;
        if call.nr == nr::SENDMSG && goes_as_a_whole(call.args[2]) {
            return Tried::MustWait;
        }
        if call.nr == nr::WRITEV && self.file_of(call.args[0]).is_on_disk() {
            return Tried::Inline;
        }
        match self.send_pieces(call, 0) {
            // The host has no such form for this file.
            Sent::Done(r) if r == Errno::EOPNOTSUPP.to_ret() && call.nr == nr::WRITEV => Tried::MustWait,
            Sent::Done(r) => Tried::Done(r),
            Sent::Nothing if may_wait => Tried::Unready,
            Sent::Nothing => Tried::Done(Errno::EAGAIN.to_ret()),
            Sent::Part(r) if may_wait => Tried::Rest(r, *call),
            Sent::Part(r) => Tried::Done(r),
        }
    }

    /// A part has been moved; on a blocking descriptor the rest must follow.
    pub(crate) fn rest_of(&self, call: &Call, done: isize) -> Tried {
        let a = &call.args;
        let mut rest = *call;
        let from = if self.strikes(Fault::RepeatPart) { a[1] } else { a[1] + done as u64 };
        (rest.args[1], rest.args[2]) = (from, a[2] - done as u64);
        Tried::Rest(done, rest)
    }

    /// 0 means "must wait".
    fn or_wait_zero(&self, call: Call) -> Tried {
        match self.host(&call) {
            0 if !self.strikes(Fault::ForgetToWait) => Tried::MustWait,
            r => Tried::Done(r),
        }
    }

    fn try_nomsg(&self, call: &Call) -> Tried {
        // A copy is made at once or not at all (`do_msgrcv`).
        if call.args[4] & (IPC_NOWAIT | MSG_COPY) != 0 {
            return Tried::Done(self.host(call));
        }
        match self.host(&Call { nr: call.nr, args: with(&call.args, 4, call.args[4] | IPC_NOWAIT) }) {
            r if r == Errno::ENOMSG.to_ret() => Tried::MustWait,
            r => Tried::Done(r),
        }
    }

    /// Opening waits for the other end of a FIFO and little else, so only that case waits. O_NONBLOCK would stay set on
    /// the descriptor, so the file is inspected instead.
    fn try_open(&self, call: &Call) -> Tried {
        if facts::opens_fifo(&self.m, call) { Tried::MustWait } else { Tried::Inline }
    }

    /// `read(2)` and `write(2)` as vector calls with RWF_NOWAIT.
    fn try_transfer(&self, call: &Call, vector: usize) -> Tried {
        let [fd, addr, len, ..] = call.args;
        // The vector calls refuse one of these lengths, and return another error for the other.
        if len == 0 || len > i64::MAX as u64 {
            // For some files even an empty read waits (`inotify_read`).
            let waits =
                call.nr == nr::READ && len == 0 && !facts::is_socket(&self.m, fd) && !facts::is_pipe(&self.m, fd);
            return if waits { self.wait_if_stream(call, fd) } else { Tried::Done(self.host(call)) };
        }
        let plain = self.state().ready.is_plain(fd as u32);
        // Of a write that must not wait, some file systems do a part, some do all and report that they did nothing, and
        // others refuse it; a read stops where the page cache ends, which looks like the end of the file.
        if !plain && self.moves_at_once(call) {
            return Tried::Inline;
        }
        let done = if plain {
            // Saves the host building a vector.
            let nr = if vector == nr::PWRITEV2 { nr::SENDTO } else { nr::RECVFROM };
            self.host(&Call { nr, args: [fd, addr, len, MSG_DONTWAIT, 0, 0] })
        } else {
            facts::transfer_at_once(&self.m, vector, fd, addr, len)
        };
        match done {
            r if r == Errno::EAGAIN.to_ret() => Tried::Unready,
            r if r == Errno::EOPNOTSUPP.to_ret() => self.wait_if_stream(call, fd),
            r if vector == nr::PWRITEV2 && r >= 0 && (r as u64) < len => self.rest_of(call, r),
            r if vector == nr::PREADV2 && r > 0 && !plain => self.read_in_part(call, r),
            r => Tried::Done(r),
        }
    }

    /// Whether the call may last, but waits for nobody.
    fn moves_at_once(&self, call: &Call) -> bool {
        match self.file_of(call.args[0]) {
            File::OnDisk => true,
            File::Empty => call.nr == nr::WRITE || facts::is_ready(&self.m, call.args[0], false),
            File::Stream | File::Endless => false,
        }
    }

    fn try_as(&self, call: &Call, attempt: Call, fd: u64) -> Tried {
        match self.host(&attempt) {
            r if r == Errno::EAGAIN.to_ret() => Tried::Unready,
            r if r == Errno::EOPNOTSUPP.to_ret() => self.wait_if_stream(call, fd),
            r => Tried::Done(r),
        }
    }

    /// POSIX message queues: a call whose deadline has passed does not wait.
    fn try_queue(&self, call: &Call) -> Tried {
        let [fd, at, len, priority, time, _] = call.args;
        if time != 0 && kernel::machine::read_timespec(&self.m, time).is_err() {
            // The host refuses the call.
            return Tried::Done(self.host(call));
        }
        let over = In(&[0; Timespec::SIZE]);
        match self.ask(call.nr, &mut [Word(fd), Word(at), Word(len), Word(priority), over]) {
            r if r == Errno::ETIMEDOUT.to_ret() => Tried::WouldWait,
            r => Tried::Done(r),
        }
    }

    /// Whether a read from the descriptor would not wait, although its non-waiting form says that it would.
    pub(crate) fn is_denied(&self, fd: u32) -> bool {
        self.state().ready.may_deny(fd) && facts::is_ready(&self.m, fd.into(), false)
    }

    pub(crate) fn is_nonblocking(&self, fd: u64) -> bool {
        facts::is_nonblocking(&self.m, fd) || self.strikes(Fault::SeemNonblocking)
    }

    /// The host has no such form for this file: files with a position do not wait, streams do.
    fn wait_if_stream(&self, call: &Call, fd: u64) -> Tried {
        let writes = call.nr == nr::WRITE;
        let position = self.host(&Call { nr: nr::LSEEK, args: [fd, 0, SEEK_CUR, 0, 0, 0] });
        // Some streams pretend to have a position (`noop_llseek`).
        if position >= 0 && facts::is_ready(&self.m, fd, writes) {
            return Tried::Inline;
        }
        // Only the first PIPE_BUF bytes of a longer write are known to fit.
        if !(writes && call.args[2] > PIPE_BUF)
            && facts::counts_bytes(&self.m, fd)
            && !self.is_terminal(fd)
            // A message queue can be read, but does not report when.
            && matches!(self.file_of(fd), File::Stream)
        {
            return Tried::Look(writes);
        }
        let out = if self.is_nonblocking(fd) { Out::Inline(*call) } else { Out::Host(*call, 0) };
        Tried::AtTerminal(if writes { Signal::TTOU } else { Signal::TTIN }, out)
    }

    /// The thread waits for descriptors: here, or in the host.
    pub(crate) fn descriptor_wait(&self, cpu: CpuId, t: ThreadIdx, call: Call, done: isize) -> Out {
        self.thread(t).wait.note_call(&call);
        self.thread(t).parked.habit.would_wait(&call);
        if self.park(cpu, t, &call, done) {
            return Out::Blocked;
        }
        match done {
            0 => Out::Host(call, 0),
            // The host cannot be given the rest of the pieces, and a part is a valid result.
            _ if is_of_pieces(call.nr) => Out::Done(done),
            _ => Out::Host(self.without_signal(call), done),
        }
    }

    /// Makes a call about descriptors without waiting, for a parked thread `t`.
    pub(crate) fn attempt(&self, t: ThreadIdx, call: &Call) -> Attempt {
        match call.nr {
            nr if is_masked(nr) => match self.try_ready(call, false, false) {
                Some(0) | None => Attempt::Wait,
                Some(result) if result == Errno::EBADF.to_ret() && matches!(nr, nr::SELECT | nr::PSELECT6) => {
                    Attempt::Done(self.select_without_closed(call))
                }
                Some(result) => Attempt::Done(result),
            },
            nr::ACCEPT | nr::ACCEPT4 => {
                if !facts::is_ready(&self.m, call.args[0], false) {
                    return Attempt::Wait;
                }
                // Another process may be faster; the call then waits, though the descriptor may be non-blocking by now.
                match self.host_briefly(self.sched.cpu_of(t), call) {
                    r if r == Errno::EAGAIN.to_ret() => Attempt::Wait,
                    r => Attempt::Done(r),
                }
            }
            nr::WRITEV | nr::SENDMSG => match self.send_pieces(call, self.thread(t).wait.a.load(Relaxed)) {
                Sent::Done(result) => Attempt::Done(result),
                Sent::Part(more) => Attempt::Part(more),
                Sent::Nothing => Attempt::Wait,
            },
            nr::CONNECT => self.connect_again(self.sched.cpu_of(t), call),
            // O_NONBLOCK has been set meanwhile.
            nr::MQ_TIMEDRECEIVE | nr::MQ_TIMEDSEND => match self.try_queue(call) {
                Tried::Done(r) if r != Errno::EAGAIN.to_ret() => Attempt::Done(r),
                _ => Attempt::Wait,
            },
            _ => match self.try_without_waiting(call) {
                Tried::Done(result) => Attempt::Done(result),
                Tried::Rest(done, _) | Tried::RestInHost(done, _) => Attempt::Part(done),
                Tried::Look(out) if !facts::is_ready(&self.m, call.args[0], out) => Attempt::Wait,
                Tried::Look(_) | Tried::Inline => {
                    // Another process may be faster, and then the call waits.
                    match self.host_briefly(self.sched.cpu_of(t), call) {
                        r if call.nr == nr::WRITE && r > 0 && (r as u64) < call.args[2] => Attempt::Part(r),
                        r => Attempt::Done(r),
                    }
                }
                // SO_RCVLOWAT has been set meanwhile.
                Tried::MustWait if receives(call.nr) && facts::is_ready(&self.m, call.args[0], false) => {
                    Attempt::Done(self.host_briefly(self.sched.cpu_of(t), call))
                }
                Tried::Refused | Tried::Unready if receives(call.nr) && self.is_denied(call.args[0] as u32) => {
                    Attempt::Done(self.host_briefly(self.sched.cpu_of(t), call))
                }
                _ => Attempt::Wait,
            },
        }
    }
}

/// Handles the host's answer to a call that was made with tick and kick unblocked.
///
/// No signal of the program reaches a carrier, so EINTR means a tick or a kick, which the program must not see. The
/// call had no effect so far, and is repeated in the waiting form, which neither can interrupt. Even a call that does
/// not wait may return EINTR: `poll(2)` with a timeout of zero checks pending signals before the time (`do_poll` in
/// fs/select.c).
fn answered(call: &Call, result: isize) -> Out {
    if result == Errno::EINTR.to_ret() { Out::Host(*call, 0) } else { Out::Done(result) }
}

fn receives(nr: usize) -> bool {
    matches!(nr, nr::READ | nr::READV | nr::RECVFROM | nr::RECVMSG | nr::RECVMMSG)
}

/// The arguments with argument `i` replaced by `v`.
pub(crate) fn with(a: &[u64; 6], i: usize, v: u64) -> [u64; 6] {
    let mut b = *a;
    b[i] = v;
    b
}

/// Whether this result of a `poll(2)` that did not wait is only returned after the wait: the address for no descriptors
/// is checked then (`do_sys_poll`).
pub(crate) fn is_told_late(call: &Call, result: isize) -> bool {
    matches!(call.nr, nr::POLL | nr::PPOLL) && call.args[1] as u32 == 0 && result == Errno::EFAULT.to_ret()
}

pub(crate) fn waits_for_all(flags: u64) -> bool {
    flags & (MSG_WAITALL | MSG_DONTWAIT) == MSG_WAITALL
}

/// Whether `recvmmsg(2)` waits for a single message, and without a time limit of its own.
fn waits_for_one(a: &[u64; 6]) -> bool {
    const MSG_WAITFORONE: u64 = 0x10000;
    a[4] == 0 && (a[2] as u32 == 1 || a[3] & MSG_WAITFORONE != 0) && !waits_for_all(a[3])
}
