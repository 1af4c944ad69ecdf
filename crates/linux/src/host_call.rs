//! Calls that the host answers and that may wait.
//!
//! Each is first tried in a form that cannot wait, where the host has one. If it must
//! wait, its thread leaves the CPU as for any other wait, and the machine makes the call
//! on a carrier that the CPU can spare ([`crate::Next::Host`]).

use crate::terminal::changes_terminal;
use crate::vectors::Sent;
use crate::{Host, Linux, facts};
use abi::{Errno, SigInfo, Signal, nr};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::futex::mixed_nodes;
use kernel::machine::Call;
use kernel::trap::Out;
use kernel::{FOR_EVER, Here};
use sync::atomic::{AtomicBool, Ordering::*};

const RWF_NOWAIT: u64 = 8;
const MSG_DONTWAIT: u64 = 0x40;
const MSG_ERRQUEUE: u64 = 0x2000;
const WNOHANG: u64 = 1;
const LOCK_NB: u64 = 4;
const IPC_NOWAIT: u64 = 0o4000;
const SEEK_CUR: u64 = 1;
/// The offset that means "the file's own position" to `preadv2(2)`.
const CURRENT: u64 = u64::MAX;

/// The result of a host call that was given up because its CPU was wanted and the host had no other thread for us
/// (RLIMIT_NPROC, memory): it is made again (`put_off`).
pub const TRY_AGAIN: isize = Errno::ERESTARTNOINTR.to_ret();

/// Whether the host answers this call from what it knows of the process: it neither waits nor lasts, sends no
/// signal, and nothing of ours depends on it.
#[inline(always)]
pub(crate) fn is_answered_at_once(nr: usize) -> bool {
    /// A bit for each call below 128.
    const SET: u128 = {
        let all = [
            nr::GETPID,
            nr::GETPPID,
            nr::GETUID,
            nr::GETGID,
            nr::GETEUID,
            nr::GETEGID,
            nr::GETRESUID,
            nr::GETRESGID,
            nr::GETPGRP,
            nr::UNAME,
            nr::UMASK,
        ];
        let (mut set, mut i) = (0, 0);
        while i < all.len() {
            set |= 1 << all[i];
            i += 1;
        }
        set
    };
    nr < 128 && SET >> nr & 1 != 0
}

/// Makes a call of the current thread if it is one that the host answers at once, whatever its arguments are and
/// whatever state the process is in: the result.
///
/// It is as if the thread had made the call itself in user code: nothing here has changed by it, and who wants
/// something of this CPU meanwhile kicks it, which the machine notices on the way out.
#[inline(always)]
pub fn call_at_once<M: Host>(here: Here<'_, M>, call: &Call) -> Option<isize> {
    if !is_answered_at_once(call.nr) {
        return None;
    }
    here.count_passed();
    Some(here.machine().host(*call))
}

/// Whether the host may let this call wait for something that is not a disk.
pub(crate) fn may_wait(nr: usize) -> bool {
    matches!(
        nr,
        nr::READ
            | nr::WRITE
            | nr::READV
            | nr::WRITEV
            | nr::PREADV
            | nr::PWRITEV
            | nr::PREADV2
            | nr::PWRITEV2
            | nr::OPEN
            | nr::OPENAT
            | nr::OPENAT2
            | nr::CREAT
            | nr::POLL
            | nr::PPOLL
            | nr::SELECT
            | nr::PSELECT6
            | nr::EPOLL_WAIT
            | nr::EPOLL_PWAIT
            | nr::EPOLL_PWAIT2
            | nr::ACCEPT
            | nr::ACCEPT4
            | nr::CONNECT
            | nr::RECVFROM
            | nr::SENDTO
            | nr::RECVMSG
            | nr::SENDMSG
            | nr::RECVMMSG
            | nr::SENDMMSG
            | nr::WAIT4
            | nr::WAITID
            | nr::FLOCK
            | nr::FCNTL
            | nr::IOCTL
            | nr::SEMOP
            | nr::SEMTIMEDOP
            | nr::MSGSND
            | nr::MSGRCV
            | nr::MQ_TIMEDSEND
            | nr::MQ_TIMEDRECEIVE
            | nr::FSYNC
            | nr::FDATASYNC
            | nr::SYNC
            | nr::SYNCFS
            | nr::MSYNC
            | nr::SENDFILE
            | nr::SPLICE
            | nr::TEE
            | nr::VMSPLICE
            | nr::COPY_FILE_RANGE
            | nr::IO_GETEVENTS
            | nr::IO_PGETEVENTS
            | nr::IO_URING_ENTER
            | nr::GETRANDOM
            | nr::CLOCK_NANOSLEEP
            | nr::RT_SIGTIMEDWAIT
            | nr::CLOSE
            | nr::SHUTDOWN
            | nr::FUTEX
    )
}

/// Whether the host may take its time for this call, for a disk, another machine or much memory,
/// though it waits for nobody. While it lasts, the thread keeps its CPU unless others want it.
pub(crate) fn may_last(nr: usize) -> bool {
    matches!(
        nr,
        nr::STAT
            | nr::LSTAT
            | nr::FSTAT
            | nr::NEWFSTATAT
            | nr::STATX
            | nr::STATFS
            | nr::FSTATFS
            | nr::ACCESS
            | nr::FACCESSAT
            | nr::FACCESSAT2
            | nr::READLINK
            | nr::READLINKAT
            | nr::GETDENTS
            | nr::GETDENTS64
            | nr::PREAD64
            | nr::PWRITE64
            | nr::TRUNCATE
            | nr::FTRUNCATE
            | nr::FALLOCATE
            | nr::RENAME
            | nr::RENAMEAT
            | nr::RENAMEAT2
            | nr::MKDIR
            | nr::MKDIRAT
            | nr::RMDIR
            | nr::LINK
            | nr::LINKAT
            | nr::SYMLINK
            | nr::SYMLINKAT
            | nr::UNLINK
            | nr::UNLINKAT
            | nr::MKNOD
            | nr::MKNODAT
            | nr::CHMOD
            | nr::FCHMOD
            | nr::FCHMODAT
            | nr::CHOWN
            | nr::FCHOWN
            | nr::LCHOWN
            | nr::FCHOWNAT
            | nr::UTIMENSAT
            | nr::CHDIR
            | nr::FCHDIR
            | nr::SYNC_FILE_RANGE
            | nr::FADVISE64
            | nr::READAHEAD
            | nr::MADVISE
            | nr::MLOCK
            | nr::MLOCK2
            | nr::MLOCKALL
            | nr::MIGRATE_PAGES
            | nr::MOVE_PAGES
            | nr::MBIND
            | nr::PROCESS_VM_READV
            | nr::PROCESS_VM_WRITEV
            | nr::MOUNT
            | nr::UMOUNT2
    )
}

/// Sockets of the program that wait until there is enough to receive (SO_RCVLOWAT): asked in a form that does not wait,
/// the host gives less.
#[derive(Debug, Default)]
pub(crate) struct Enough(AtomicBool);

impl Enough {
    /// The program sets an option of a socket; a forked child has its parent's sockets.
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
enum Tried {
    Done(isize),
    /// It does not wait, but it may last.
    Inline,
    MustWait,
    /// It would wait for descriptors.
    WouldWait,
    /// So much is done already; this call is owed.
    Rest(isize, Call),
    /// It may concern a terminal; the signal is for threads that may not make it now. Otherwise it waits or lasts, as
    /// given.
    AtTerminal(Signal, Out),
}

/// The outcome of a call that a parked thread has made again.
pub(crate) enum Attempt {
    /// Its result.
    Done(isize),
    /// So much of what was left is done.
    Part(isize),
    /// It would wait.
    Wait,
}

/// Whether it sends pieces of memory.
pub(crate) fn is_of_pieces(nr: usize) -> bool {
    matches!(nr, nr::WRITEV | nr::SENDMSG)
}

/// Whether a thread that makes this call can be parked for it.
fn is_parkable(nr: usize) -> bool {
    matches!(
        nr,
        nr::READ
            | nr::READV
            | nr::WRITE
            | nr::WRITEV
            | nr::RECVFROM
            | nr::RECVMSG
            | nr::SENDTO
            | nr::SENDMSG
            | nr::POLL
            | nr::EPOLL_WAIT
    )
}

impl<M: Host> Linux<'_, M> {
    /// Makes the call without waiting if there is a way; else it has to wait.
    pub(crate) fn try_host(&self, cpu: CpuId, call: &Call) -> Out {
        let t = self.current(cpu);
        self.note_generations(t, call);
        match self.try_without_waiting(call) {
            Tried::Done(result) if result == Errno::EINTR.to_ret() && is_parkable(call.nr) => self.try_host(cpu, call),
            Tried::Done(result) => answered(call, result),
            Tried::Inline => Out::Inline(*call),
            Tried::MustWait => Out::Host(*call, 0),
            Tried::WouldWait => self.descriptor_wait(cpu, t, *call, 0),
            Tried::Rest(done, rest) => self.descriptor_wait(cpu, t, rest, done),
            Tried::AtTerminal(signal, out) => self.stop_at_terminal(cpu, t, call, signal).unwrap_or(out),
        }
    }

    /// Makes a call that neither waits nor lasts.
    pub(crate) fn host_at_once(&self, call: &Call) -> Out {
        answered(call, self.m.host(*call))
    }

    fn try_without_waiting(&self, call: &Call) -> Tried {
        let a = &call.args;
        match call.nr {
            nr::READ | nr::READV | nr::RECVFROM | nr::RECVMSG if self.state().enough.is_asked(&self.m, a[0]) => {
                Tried::MustWait
            }
            nr::READ => self.try_transfer(call, nr::PREADV2),
            nr::WRITE => self.try_transfer(call, nr::PWRITEV2),
            nr::READV => self.try_as(
                call,
                Call { nr: nr::PREADV2, args: [a[0], a[1], a[2], CURRENT, CURRENT, RWF_NOWAIT] },
                a[0],
            ),
            nr::WRITEV | nr::SENDMSG => self.try_pieces(call),
            // It would answer a part.
            nr::RECVFROM if waits_for_all(a[3]) => Tried::MustWait,
            nr::RECVMSG if waits_for_all(a[2]) => Tried::MustWait,
            nr::RECVFROM => self.try_receive(call, 3),
            nr::RECVMSG => self.try_receive(call, 2),
            nr::SENDTO => self.try_send(call),
            nr::ACCEPT | nr::ACCEPT4 if facts::is_ready(&self.m, a[0], false) => Tried::Inline,
            nr::ACCEPT | nr::ACCEPT4 => self.nonblocking_or_wait(call, a[0]),
            nr::POLL if a[2] as i32 == 0 => Tried::Done(self.m.host(*call)),
            nr::POLL => self.or_park(Call { nr: call.nr, args: with(a, 2, 0) }),
            nr::EPOLL_WAIT if a[3] as i32 == 0 => Tried::Done(self.m.host(*call)),
            nr::EPOLL_WAIT => self.or_park(Call { nr: call.nr, args: with(a, 3, 0) }),
            nr::WAIT4 if a[2] & WNOHANG == 0 => {
                self.or_wait_zero(Call { nr: call.nr, args: with(a, 2, a[2] | WNOHANG) })
            }
            nr::WAIT4 => Tried::Done(self.m.host(*call)),
            nr::FLOCK if a[1] & LOCK_NB == 0 => self.or_wait(Call { nr: call.nr, args: with(a, 1, a[1] | LOCK_NB) }),
            nr::MSGRCV => self.try_nomsg(call),
            nr::MSGSND => self.or_wait(Call { nr: call.nr, args: with(a, 3, a[3] | IPC_NOWAIT) }),
            nr::FCNTL if !fcntl_waits(a[1]) => Tried::Done(self.m.host(*call)),
            nr::IOCTL if changes_terminal(a[1]) => {
                let out = if ioctl_waits(a[1]) { Out::Host(*call, 0) } else { Out::Inline(*call) };
                Tried::AtTerminal(Signal::TTOU, out)
            }
            nr::IOCTL => Tried::Inline,
            nr::CLOSE | nr::SHUTDOWN => Tried::Inline,
            nr::OPEN | nr::OPENAT => self.try_open(call),
            nr::GETRANDOM => self.or_wait(Call { nr: call.nr, args: with(a, 2, a[2] | 1) }),
            _ => Tried::MustWait,
        }
    }

    /// EAGAIN means "must wait".
    fn or_wait(&self, call: Call) -> Tried {
        match self.m.host(call) {
            r if r == Errno::EAGAIN.to_ret() => Tried::MustWait,
            r => Tried::Done(r),
        }
    }

    /// 0 means "would wait for descriptors".
    fn or_park(&self, call: Call) -> Tried {
        match self.m.host(call) {
            0 => Tried::WouldWait,
            r => Tried::Done(r),
        }
    }

    /// `recvfrom(2)`, `recvmsg(2)`: `flags` is the argument with the flags.
    fn try_receive(&self, call: &Call, flags: usize) -> Tried {
        let a = &call.args;
        match self.m.host(Call { nr: call.nr, args: with(a, flags, a[flags] | MSG_DONTWAIT) }) {
            r if r != Errno::EAGAIN.to_ret() || a[flags] & (MSG_DONTWAIT | MSG_ERRQUEUE) != 0 => Tried::Done(r),
            _ => self.nonblocking_or_wait(call, a[0]),
        }
    }

    /// `sendto(2)`: of a stream a part may be sent.
    fn try_send(&self, call: &Call) -> Tried {
        let a = &call.args;
        match self.m.host(Call { nr: call.nr, args: with(a, 3, a[3] | MSG_DONTWAIT) }) {
            r if a[3] & MSG_DONTWAIT != 0 => Tried::Done(r),
            r if r == Errno::EAGAIN.to_ret() => self.nonblocking_or_wait(call, a[0]),
            r if r >= 0 && (r as u64) < a[2] => self.rest_of(call, r),
            r => Tried::Done(r),
        }
    }

    /// `writev(2)`, `sendmsg(2)`.
    fn try_pieces(&self, call: &Call) -> Tried {
        let fd = call.args[0];
        match self.send_pieces(call, 0) {
            // The host has no such form for this file.
            Sent::Done(r) if r == Errno::EOPNOTSUPP.to_ret() && call.nr == nr::WRITEV => Tried::MustWait,
            Sent::Done(r) => Tried::Done(r),
            Sent::Nothing if call.nr == nr::SENDMSG && call.args[2] & MSG_DONTWAIT != 0 => {
                Tried::Done(Errno::EAGAIN.to_ret())
            }
            Sent::Nothing => self.nonblocking_or_wait(call, fd),
            Sent::Part(r) if call.nr == nr::SENDMSG && call.args[2] & MSG_DONTWAIT != 0 || self.is_nonblocking(fd) => {
                Tried::Done(r)
            }
            Sent::Part(r) => Tried::Rest(r, *call),
        }
    }

    /// A part has been written; a blocking descriptor owes the rest.
    fn rest_of(&self, call: &Call, done: isize) -> Tried {
        let a = &call.args;
        if self.is_nonblocking(a[0]) {
            return Tried::Done(done);
        }
        let mut rest = *call;
        (rest.args[1], rest.args[2]) = (a[1] + done as u64, a[2] - done as u64);
        Tried::Rest(done, rest)
    }

    /// 0 means "must wait".
    fn or_wait_zero(&self, call: Call) -> Tried {
        match self.m.host(call) {
            0 => Tried::MustWait,
            r => Tried::Done(r),
        }
    }

    fn try_nomsg(&self, call: &Call) -> Tried {
        if call.args[4] & IPC_NOWAIT != 0 {
            return Tried::Done(self.m.host(*call));
        }
        match self.m.host(Call { nr: call.nr, args: with(&call.args, 4, call.args[4] | IPC_NOWAIT) }) {
            r if r == Errno::ENOMSG.to_ret() => Tried::MustWait,
            r => Tried::Done(r),
        }
    }

    /// Opening waits for the other end of a FIFO and little else: only that waits. Asking for
    /// O_NONBLOCK would stick to the descriptor, so only a look tells.
    fn try_open(&self, call: &Call) -> Tried {
        if facts::opens_fifo(&self.m, call) { Tried::MustWait } else { Tried::Inline }
    }

    /// `read(2)` and `write(2)` as vector calls with RWF_NOWAIT.
    fn try_transfer(&self, call: &Call, vector: usize) -> Tried {
        let [fd, addr, len, ..] = call.args;
        // The vector calls refuse the one length, and have another error for the other.
        if len == 0 || len > i64::MAX as u64 {
            return Tried::Done(self.m.host(*call));
        }
        let done = facts::transfer_at_once(&self.m, vector, fd, addr, len);
        match done {
            r if r == Errno::EAGAIN.to_ret() => self.nonblocking_or_wait(call, fd),
            r if r == Errno::EOPNOTSUPP.to_ret() => self.wait_if_stream(call, fd),
            r if vector == nr::PWRITEV2 && r >= 0 && (r as u64) < len => self.rest_of(call, r),
            r => Tried::Done(r),
        }
    }

    fn try_as(&self, call: &Call, attempt: Call, fd: u64) -> Tried {
        match self.m.host(attempt) {
            r if r == Errno::EAGAIN.to_ret() => self.nonblocking_or_wait(call, fd),
            r if r == Errno::EOPNOTSUPP.to_ret() => Tried::AtTerminal(Signal::TTIN, Out::Host(*call, 0)),
            r => Tried::Done(r),
        }
    }

    fn nonblocking_or_wait(&self, call: &Call, fd: u64) -> Tried {
        if self.is_nonblocking(fd) { Tried::Done(self.m.host(*call)) } else { Tried::WouldWait }
    }

    fn is_nonblocking(&self, fd: u64) -> bool {
        const F_GETFL: u64 = 3;
        const O_NONBLOCK: isize = 0o4000;
        let flags = self.m.host(Call { nr: nr::FCNTL, args: [fd, F_GETFL, 0, 0, 0, 0] });
        flags >= 0 && flags & O_NONBLOCK != 0
    }

    /// The host has no such form for this file: files with a position do not wait, streams do.
    fn wait_if_stream(&self, call: &Call, fd: u64) -> Tried {
        let position = self.m.host(Call { nr: nr::LSEEK, args: [fd, 0, SEEK_CUR, 0, 0, 0] });
        if position >= 0 {
            return Tried::Inline;
        }
        let out = if self.is_nonblocking(fd) { Out::Inline(*call) } else { Out::Host(*call, 0) };
        Tried::AtTerminal(if call.nr == nr::WRITE { Signal::TTOU } else { Signal::TTIN }, out)
    }

    /// The thread waits for descriptors: here, or in the host.
    pub(crate) fn descriptor_wait(&self, cpu: CpuId, t: ThreadIdx, call: Call, done: isize) -> Out {
        self.thread(t).wait.call.store(call.nr as u32, Relaxed);
        if self.park(cpu, t, &call, done) {
            return Out::Blocked;
        }
        // The host cannot be asked for the rest of its pieces, and a part is an answer.
        if done > 0 && is_of_pieces(call.nr) { Out::Done(done) } else { Out::Host(call, done) }
    }

    /// Makes a call that is about descriptors without waiting: for a parked thread `t`.
    pub(crate) fn attempt(&self, t: ThreadIdx, call: &Call) -> Attempt {
        match call.nr {
            nr::PPOLL | nr::PSELECT6 | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => match self.try_ready(call, false, false) {
                Some(0) | None => Attempt::Wait,
                Some(result) => Attempt::Done(result),
            },
            nr::ACCEPT | nr::ACCEPT4 => {
                if !facts::is_ready(&self.m, call.args[0], false) {
                    return Attempt::Wait;
                }
                // Another process may be faster, and then the call waits.
                self.interrupt_soon(self.sched.cpu_of(t));
                Attempt::Done(self.m.host(*call))
            }
            nr::WRITEV | nr::SENDMSG => match self.send_pieces(call, self.thread(t).wait.a.load(Relaxed)) {
                Sent::Done(result) => Attempt::Done(result),
                Sent::Part(more) => Attempt::Part(more),
                Sent::Nothing => Attempt::Wait,
            },
            _ => match self.try_without_waiting(call) {
                Tried::Done(result) => Attempt::Done(result),
                Tried::Rest(done, _) => Attempt::Part(done),
                _ => Attempt::Wait,
            },
        }
    }

    /// The host's result; after a part that was done at once, the sum, or the part alone if
    /// the rest failed, as a write that was cut short says.
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
                result => result,
            }
        };
        Some(self.outcome(t, call, result))
    }

    /// What the program is told of a call that has waited.
    pub(crate) fn outcome(&self, t: ThreadIdx, call: usize, result: isize) -> isize {
        let part = if call == nr::POLL { 0 } else { self.thread(t).wait.a.load(Relaxed) as isize };
        if let Some(first) = mixed_nodes(part) {
            return self.mixed_ended(first, result);
        }
        match result {
            r if crate::masked::is_masked(call) => self.masked_result(t, call, r),
            r if part < 0 => crate::shared_futex::shared_wait_ended(part, r),
            r if part > 0 && r < 0 => part,
            r if r == Errno::EINTR.to_ret() => match self.child_after_all(t, call) {
                Some(result) => result,
                None => self.cut_short(t, call).to_ret(),
            },
            r => part + r,
        }
    }
}

impl<M: Host> Linux<'_, M> {
    /// The result of a call that a signal has ended before it did anything (`signal(7)`).
    pub(crate) fn cut_short(&self, t: ThreadIdx, call: usize) -> Errno {
        match restarts(call) {
            // A call on a socket with a timeout is not restarted (`sock_intr_errno`).
            Errno::ERESTARTSYS if self.has_time_limit(t, call) => Errno::EINTR,
            error => error,
        }
    }

    /// A wait for children was interrupted: a child that has something to tell comes first, because `do_wait` looks at the
    /// children before it looks at the signals. Its own SIGCHLD may have interrupted the call just before it was made.
    #[cold]
    fn child_after_all(&self, t: ThreadIdx, call: usize) -> Option<isize> {
        let r = self.m.registers(t);
        let args = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, 0];
        match call {
            nr::WAIT4 => {
                let result = self.m.host(Call { nr: call, args: with(&args, 2, r.rdx | WNOHANG) });
                (result != 0).then_some(result)
            }
            nr::WAITID => self.child_for_waitid(&args),
            _ => None,
        }
    }

    /// `waitid(2)` says whether there is a child in what it writes, and an interrupted one writes nothing.
    fn child_for_waitid(&self, args: &[u64; 6]) -> Option<isize> {
        let infop = args[2];
        let mut before = [0; 128];
        self.m.read(infop, &mut before).ok()?;
        let result = self.m.host(Call { nr: nr::WAITID, args: with(args, 3, args[3] | WNOHANG) });
        let mut now = [0; 128];
        self.m.read(infop, &mut now).ok()?;
        let found = SigInfo::from_bytes(&now).is_ok_and(|info| info.pid() != 0);
        if result != 0 || found {
            return Some(result);
        }
        let _ = self.m.write(infop, &before);
        None
    }

    /// Whether the call is on a socket that gives up after a time.
    pub(crate) fn has_time_limit(&self, t: ThreadIdx, call: usize) -> bool {
        let r = self.m.registers(t);
        let limited = |fd, sending| facts::socket_time_limit(&self.m, fd, sending).is_some();
        match call {
            nr::READ | nr::READV | nr::PREADV | nr::PREADV2 => limited(r.rdi, false),
            nr::RECVFROM | nr::RECVMSG | nr::RECVMMSG | nr::ACCEPT | nr::ACCEPT4 => limited(r.rdi, false),
            nr::WRITE | nr::WRITEV | nr::PWRITEV | nr::PWRITEV2 | nr::SENDFILE => limited(r.rdi, true),
            nr::SENDTO | nr::SENDMSG | nr::SENDMMSG | nr::CONNECT => limited(r.rdi, true),
            nr::SPLICE => limited(r.rdi, false) || limited(r.rdx, true),
            _ => false,
        }
    }

    /// Continues a `poll(2)` that a signal without a handler interrupted (`do_restart_poll`).
    pub(crate) fn poll_again(&self, t: ThreadIdx) -> Out {
        let (r, end) = (self.m.registers(t), self.thread(t).wait.a.load(Relaxed));
        let call = |ms: i32| Call { nr: nr::POLL, args: [r.rdi, r.rsi, ms as u32 as u64, 0, 0, 0] };
        if end == FOR_EVER {
            return Out::Host(call(-1), end as isize);
        }
        // This clock may be ahead of the host's by a few parts in a million: never early.
        let left = Nanos(end).since(self.m.now());
        let left = left.0 + (Nanos::from_millis(r.rdx).since(left).0 >> 10);
        match left.div_ceil(1_000_000) {
            0 => self.host_at_once(&call(0)),
            ms => Out::Host(call(ms.min(i32::MAX as u64) as i32), end as isize),
        }
    }
}

/// The host's answer to a call that was made with tick and kick open.
///
/// No signal of the program reaches a carrier, so EINTR tells of a tick or a kick, which the program
/// must not see: the call is made again as one that waits, and nothing disturbs it there. It had no
/// effect so far. Even a call that does not wait may say so: `poll(2)` with a timeout of zero looks
/// at the pending signals before it looks at the time (`do_poll` in fs/select.c).
fn answered(call: &Call, result: isize) -> Out {
    if result == Errno::EINTR.to_ret() { Out::Host(*call, 0) } else { Out::Done(result) }
}

/// Whether and how a call starts over that a signal has ended before it did anything (`signal(7)`).
pub fn restarts(call: usize) -> Errno {
    match call {
        // Its timeout keeps running if there is no handler.
        nr::POLL => Errno::ERESTART_RESTARTBLOCK,
        // The host calls of a borrower; our threads wait for time and signals themselves.
        nr::NANOSLEEP => Errno::ERESTART_RESTARTBLOCK,
        nr::PAUSE | nr::RT_SIGSUSPEND => Errno::ERESTARTNOHAND,
        // If there is no handler. The host has written how much of its time is left.
        nr::SELECT | nr::PPOLL | nr::PSELECT6 | nr::IO_PGETEVENTS | nr::MSGSND | nr::MSGRCV => Errno::ERESTARTNOHAND,
        // Not even then; of the first, the descriptor is gone after the first time.
        nr::CLOSE
        | nr::EPOLL_WAIT
        | nr::EPOLL_PWAIT
        | nr::EPOLL_PWAIT2
        | nr::SEMOP
        | nr::SEMTIMEDOP
        | nr::IO_GETEVENTS
        | nr::IO_URING_ENTER
        | nr::RT_SIGTIMEDWAIT
        | nr::CLOCK_NANOSLEEP => Errno::EINTR,
        _ => Errno::ERESTARTSYS,
    }
}

fn with(a: &[u64; 6], i: usize, v: u64) -> [u64; 6] {
    let mut b = *a;
    b[i] = v;
    b
}

fn waits_for_all(flags: u64) -> bool {
    const MSG_WAITALL: u64 = 0x100;
    flags & (MSG_WAITALL | MSG_DONTWAIT) == MSG_WAITALL
}

fn fcntl_waits(cmd: u64) -> bool {
    const F_SETLKW: u64 = 7;
    const F_OFD_SETLKW: u64 = 38;
    cmd == F_SETLKW || cmd == F_OFD_SETLKW
}

/// Terminal controls that wait for output to drain; all else is taken to be quick.
fn ioctl_waits(request: u64) -> bool {
    const TCSBRK: u64 = 0x5409;
    const TCSETSW: u64 = 0x5403;
    const TCSETSF: u64 = 0x5404;
    const TCSBRKP: u64 = 0x5425;
    matches!(request, TCSBRK | TCSETSW | TCSETSF | TCSBRKP)
}
