//! Kinds of host calls: which may wait, take long, be parked or start over.

use abi::args::{
    F_OFD_SETLKW, F_SETLKW, MSG_DONTWAIT, MSG_FASTOPEN, MSG_WAITALL, MSG_ZEROCOPY, TCSBRK, TCSBRKP, TCSETSF, TCSETSW,
};
use abi::{Errno, nr};
use kernel::Call;

/// Whether the host answers this call from what it knows of the process: the call neither waits nor takes long, sends
/// no signal, and nothing of ours depends on it.
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

/// Whether the host may let this call wait for something other than a disk.
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

/// Whether the call may take long in the host, for a disk, another machine or much memory, though it waits for nobody.
/// Meanwhile the thread keeps its CPU unless others want it.
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

/// Whether the program could notice that a call in which it waits was interrupted and repeated:
/// - by its time limit, if the host does not write the remaining time;
/// - by its place in a queue that others see: `FUTEX_WAKE` counts the waiters it wakes and misses an absent one;
/// - by a part that it has moved, if its carrier is recalled before the rest is moved;
/// - by what it has submitted: `io_uring_enter(2)` then says how much, and has not waited for it.
pub fn shows_interrupts(call: &Call) -> bool {
    const IORING_ENTER_GETEVENTS: u64 = 1;
    const IORING_ENTER_EXT_ARG: u64 = 1 << 3;
    let a = &call.args;
    match call.nr {
        nr::EPOLL_PWAIT2 => a[3] != 0,
        nr::IO_GETEVENTS | nr::IO_PGETEVENTS => a[4] != 0,
        nr::IO_URING_ENTER if a[3] & IORING_ENTER_GETEVENTS == 0 => false,
        nr::IO_URING_ENTER => a[3] & IORING_ENTER_EXT_ARG != 0 || a[1] as u32 != 0,
        nr::FUTEX | nr::FUTEX_WAIT | nr::FUTEX_WAITV => true,
        nr::SEMOP | nr::SEMTIMEDOP | nr::MSGRCV | nr::MSGSND | nr::FLOCK => true,
        nr::WRITEV | nr::PWRITEV | nr::PWRITEV2 | nr::SENDMSG | nr::SENDMMSG | nr::RECVMMSG => true,
        nr::SENDFILE | nr::SPLICE | nr::VMSPLICE | nr::COPY_FILE_RANGE => true,
        nr::SENDTO => a[3] & MSG_ZEROCOPY != 0,
        nr::RECVMSG => a[2] & MSG_WAITALL != 0,
        _ => false,
    }
}

/// Whether the call polls with a time limit, so that it can be repeated for the remaining time.
pub fn polls_for_a_time(call: &Call) -> bool {
    match call.nr {
        nr::POLL => call.args[2] as i32 > 0,
        nr::EPOLL_WAIT | nr::EPOLL_PWAIT => call.args[3] as i32 > 0,
        _ => false,
    }
}

/// Whether a sending call may wait and must not be tried without waiting: it connects first (`tcp_sendmsg_fastopen`),
/// or each call has a number by which the program learns of its end (MSG_ZEROCOPY).
pub(crate) fn goes_as_a_whole(flags: u64) -> bool {
    flags & MSG_DONTWAIT == 0 && flags & (MSG_FASTOPEN | MSG_ZEROCOPY) != 0
}

/// Whether the call sends several pieces of memory.
pub(crate) fn is_of_pieces(nr: usize) -> bool {
    matches!(nr, nr::WRITEV | nr::SENDMSG)
}

/// Whether a thread can be parked in this call.
pub(crate) fn is_parkable(nr: usize) -> bool {
    matches!(
        nr,
        nr::READ
            | nr::READV
            | nr::WRITE
            | nr::WRITEV
            | nr::RECVFROM
            | nr::RECVMSG
            | nr::RECVMMSG
            | nr::SENDTO
            | nr::SENDMSG
            | nr::POLL
            | nr::EPOLL_WAIT
            | nr::MQ_TIMEDRECEIVE
            | nr::MQ_TIMEDSEND
    )
}

/// Whether and how a call starts over that a signal ended before it had any effect (`signal(7)`).
pub fn restarts(call: usize) -> Errno {
    match call {
        // Without a handler the timeout keeps running.
        nr::POLL => Errno::ERESTART_RESTARTBLOCK,
        // These are host calls of a borrower; our threads wait for time and signals themselves.
        nr::NANOSLEEP => Errno::ERESTART_RESTARTBLOCK,
        nr::PAUSE | nr::RT_SIGSUSPEND => Errno::ERESTARTNOHAND,
        // Only without a handler. The host has written the remaining time.
        nr::SELECT | nr::PPOLL | nr::PSELECT6 | nr::IO_PGETEVENTS | nr::MSGSND | nr::MSGRCV => Errno::ERESTARTNOHAND,
        // Not even without a handler. After `close`, the descriptor is gone.
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

/// Whether a command of `fcntl(2)` waits for a lock.
pub(crate) fn fcntl_waits(cmd: u64) -> bool {
    cmd == F_SETLKW || cmd == F_OFD_SETLKW
}

/// Terminal controls that wait for output to drain; all others are assumed to be quick.
pub(crate) fn ioctl_waits(request: u64) -> bool {
    matches!(request, TCSBRK | TCSETSW | TCSETSF | TCSBRKP)
}
