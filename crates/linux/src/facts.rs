//! Questions to the host about this process and its files.

use crate::Host;
use crate::machine::Arg::{In, Out, Word};
use crate::machine::{ask, host};
use abi::args::{
    AT_FDCWD, CAP_SYS_NICE, CAP_SYS_RESOURCE, F_DUPFD_CLOEXEC, F_GETFL, IPC_STAT, O_CLOEXEC, O_NONBLOCK, POLLIN,
    POLLOUT, RLIMIT_NICE, RLIMIT_NOFILE, RLIMIT_RTPRIO, RLIMIT_SIGPENDING, RWF_NOWAIT, S_IFIFO, S_IFMT, S_IFREG,
    SO_ACCEPTCONN, SO_DOMAIN, SO_ERROR, SO_PROTOCOL, SO_RCVLOWAT, SO_RCVTIMEO, SO_SNDTIMEO, SO_TYPE, SOCK_DGRAM,
    SOL_SOCKET,
};
use abi::{Errno, nr};
use core::ffi::CStr;
use core::fmt::Write;
use ids::Nanos;
use kernel::Call;
use kernel::Grants;

/// The offset that means "the file's own position" to `preadv2(2)` and `pwritev2(2)`, in both halves.
pub(crate) const CURRENT: u64 = u64::MAX;

/// The soft limit of a resource of this process.
pub fn soft_limit(m: &impl Host, resource: u64) -> u64 {
    crate::host_times::limit(m, resource, None).cur
}

/// Rights and limits that the host grants this process, by the calling carrier's credentials.
pub(crate) fn grants(m: &impl Host) -> Grants {
    const VERSION_3: u64 = 0x2008_0522;
    let (header, mut data) = (VERSION_3.to_le_bytes(), [[0; 4]; 6]);
    let result = ask(m, nr::CAPGET, &mut [In(&header), Out(data.as_flattened_mut())]);
    let effective = if result == 0 { u32::from_le_bytes(data[0]) } else { 0 };
    Grants {
        any_priority: effective >> CAP_SYS_NICE & 1 != 0,
        higher_limits: effective >> CAP_SYS_RESOURCE & 1 != 0,
        nice: soft_limit(m, RLIMIT_NICE),
        rt_priority: soft_limit(m, RLIMIT_RTPRIO),
        pending_signals: soft_limit(m, RLIMIT_SIGPENDING),
    }
}

/// Whether `poll(2)` reports `fd` ready for reading or writing, or in error.
pub(crate) fn is_ready(m: &impl Host, fd: u64, for_writing: bool) -> bool {
    // `struct pollfd` is a word: descriptor, events, and what the host answers.
    let mut one = (fd & 0xffff_ffff | if for_writing { POLLOUT } else { POLLIN } << 32).to_le_bytes();
    (fd as i32) < 0 || ask(m, nr::POLL, &mut [Out(&mut one), Word(1), Word(0)]) > 0
}

/// Whether the file reports how many bytes can be read (FIONREAD), as FIFOs, terminals and inotify do: if it reports
/// none, a read waits. For other files poll(2) may say something else, for example for counters (`perf_event_open(2)`).
pub(crate) fn counts_bytes(m: &impl Host, fd: u64) -> bool {
    unread(m, fd).is_some()
}

/// How many bytes can be read (FIONREAD).
pub(crate) fn unread(m: &impl Host, fd: u64) -> Option<u32> {
    const FIONREAD: u64 = 0x541b;
    let mut count = [0; 4];
    (ask(m, nr::IOCTL, &mut [Word(fd), Word(FIONREAD), Out(&mut count)]) == 0).then_some(u32::from_le_bytes(count))
}

/// Whether `fd` is a socket.
pub(crate) fn is_socket(m: &impl Host, fd: u64) -> bool {
    socket_option::<4>(m, fd, SO_TYPE).is_some()
}

/// Whether `fd` is a pipe whose writers wait until everything is written.
pub(crate) fn is_blocking_pipe(m: &impl Host, fd: u64) -> bool {
    is_pipe(m, fd) && !is_nonblocking(m, fd)
}

/// Whether `fd` is a pipe that is non-blocking by now: its calls check O_NONBLOCK again when they continue
/// (`pipe_write`).
pub(crate) fn is_nonblocking_pipe(m: &impl Host, fd: u64) -> bool {
    is_nonblocking(m, fd) && is_pipe(m, fd)
}

fn socket_option<const SIZE: usize>(m: &impl Host, fd: u64, option: u64) -> Option<[u8; SIZE]> {
    option_of(m, fd, SOL_SOCKET, option)
}

fn option_of<const SIZE: usize>(m: &impl Host, fd: u64, level: u64, option: u64) -> Option<[u8; SIZE]> {
    let (mut value, mut size) = ([0; SIZE], (SIZE as u32).to_le_bytes());
    let args = &mut [Word(fd), Word(level), Word(option), Out(&mut value), Out(&mut size)];
    (ask(m, nr::GETSOCKOPT, args) == 0).then_some(value)
}

/// Whether the poller reports all that ends a writer's wait for `fd`. A full receiver of netlink messages wakes only
/// the waiting writers (`netlink_attachskb`), and so does `shutdown(2)` of a Unix stream (`unix_shutdown`).
pub(crate) fn tells_writers(m: &impl Host, fd: u64) -> bool {
    const AF_UNIX: u32 = 1;
    const AF_NETLINK: u32 = 16;
    match socket_option(m, fd, SO_DOMAIN).map(u32::from_le_bytes) {
        Some(AF_UNIX) => is_datagram(m, fd),
        domain => domain != Some(AF_NETLINK),
    }
}

/// The time limit of a socket for sending or receiving; `None` if there is none or `fd` is not a socket.
pub(crate) fn socket_time_limit(m: &impl Host, fd: u64, sending: bool) -> Option<Nanos> {
    let time = socket_option::<16>(m, fd, if sending { SO_SNDTIMEO } else { SO_RCVTIMEO })?;
    // struct timeval.
    let [seconds, micros] = [0, 8].map(|at| abi::bytes::get_u64(&time, at));
    (time != [0; 16]).then_some(Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(micros * 1000)))
}

/// Whether `fd` is a TCP socket.
pub(crate) fn is_tcp(m: &impl Host, fd: u64) -> bool {
    const IPPROTO_TCP: u32 = 6;
    socket_option(m, fd, SO_PROTOCOL).is_some_and(|bytes| u32::from_le_bytes(bytes) == IPPROTO_TCP)
}

/// What a TCP socket does about a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TcpState {
    /// It has begun one that is not made yet.
    Connecting,
    /// It has none.
    Closed,
    Other,
}

/// The state of a TCP socket; `None` for what is none.
pub(crate) fn tcp_state(m: &impl Host, fd: u64) -> Option<TcpState> {
    const SOL_TCP: u64 = 6;
    const TCP_INFO: u64 = 11;
    const SYN_SENT: u8 = 2;
    const SYN_RECEIVED: u8 = 3;
    const CLOSE: u8 = 7;
    // The first byte of `struct tcp_info`.
    option_of(m, fd, SOL_TCP, TCP_INFO).map(|[state]| match state {
        SYN_SENT | SYN_RECEIVED => TcpState::Connecting,
        CLOSE => TcpState::Closed,
        _ => TcpState::Other,
    })
}

/// The error that a socket has to tell, which is then told.
pub(crate) fn take_socket_error(m: &impl Host, fd: u64) -> Option<Errno> {
    socket_option(m, fd, SO_ERROR).map(i32::from_le_bytes).filter(|&error| error != 0).map(Errno)
}

/// Whether `fd` is a listening socket.
pub(crate) fn is_listener(m: &impl Host, fd: u64) -> bool {
    socket_option(m, fd, SO_ACCEPTCONN).is_some_and(|bytes| u32::from_le_bytes(bytes) != 0)
}

/// Whether `fd` is a socket whose messages are sent as a whole.
pub(crate) fn is_datagram(m: &impl Host, fd: u64) -> bool {
    socket_option(m, fd, SO_TYPE).is_some_and(|bytes| u64::from(u32::from_le_bytes(bytes)) == SOCK_DGRAM)
}

/// Whether the descriptor `fd` is open.
pub(crate) fn is_open(m: &impl Host, fd: u64) -> bool {
    const F_GETFD: u64 = 1;
    host(m, &Call { nr: nr::FCNTL, args: [fd, F_GETFD, 0, 0, 0, 0] }) >= 0
}

/// Whether `fd` is non-blocking (O_NONBLOCK).
pub(crate) fn is_nonblocking(m: &impl Host, fd: u64) -> bool {
    let flags = host(m, &Call { nr: nr::FCNTL, args: [fd, F_GETFL, 0, 0, 0, 0] });
    flags >= 0 && flags as u64 & O_NONBLOCK != 0
}

/// Whether `fd` is a socket that waits for more than one byte (SO_RCVLOWAT).
pub(crate) fn waits_for_enough(m: &impl Host, fd: u64) -> bool {
    socket_option(m, fd, SO_RCVLOWAT).is_some_and(|bytes| u32::from_le_bytes(bytes) > 1)
}

/// Whether this `setsockopt(2)` makes its socket wait for more than one byte.
pub(crate) fn sets_enough(call: &Call) -> bool {
    call.args[1..3] == [SOL_SOCKET, SO_RCVLOWAT]
}

/// Whether an `open(2)` or `openat(2)` names a FIFO and may wait for its other end.
pub(crate) fn opens_fifo(m: &impl Host, call: &Call) -> bool {
    let a = &call.args;
    let (dir, path, flags) = if call.nr == nr::OPEN { (AT_FDCWD, a[0], a[1]) } else { (a[0], a[1], a[2]) };
    let mut stat = [[0; 4]; STAT_WORDS];
    let args = &mut [Word(dir), Word(path), Out(stat.as_flattened_mut()), Word(0)];
    flags & O_NONBLOCK == 0 && ask(m, nr::NEWFSTATAT, args) == 0 && kind_in(&stat) == S_IFIFO
}

pub(crate) fn is_pipe(m: &impl Host, fd: u64) -> bool {
    kind(m, fd) == Some(S_IFIFO)
}

/// The type of the file of `fd` (S_IFMT); 0 for one without a place in a file system.
fn kind(m: &impl Host, fd: u64) -> Option<u32> {
    let mut stat = [[0; 4]; STAT_WORDS];
    (ask(m, nr::FSTAT, &mut [Word(fd), Out(stat.as_flattened_mut())]) == 0).then(|| kind_in(&stat))
}

/// `struct stat` has 144 bytes; st_mode is the word at byte 24.
const STAT_WORDS: usize = 36;

/// To whom a file tells that it is ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tells {
    /// To whoever asks.
    Always,
    /// To the first who asks: a file of `/proc` that tells of mounts, swap or pressure (`mounts_poll`, `psi_trigger_poll`), or
    /// a counter (`perf_poll`).
    Once,
    /// It is a set, and asks others (`epoll_create(2)`).
    OfOthers,
}

/// To whom `fd` tells that it is ready.
pub(crate) fn tells(m: &impl Host, fd: u32) -> Tells {
    let (mut path, mut name) = ([0; PATH], [0; 24]);
    match kind(m, fd.into()) {
        // Another thread may close the number, or make it refer to another file, between two questions.
        Some(S_IFREG) if !is_queue(m, fd) && kind(m, fd.into()) == Some(S_IFREG) => Tells::Once,
        Some(0) => {
            let Some(path) = of_descriptor("fd", fd as i32, &mut path) else { return Tells::Always };
            let room = Word(name.len() as u64);
            ask(m, nr::READLINK, &mut [In(path.to_bytes_with_nul()), Out(&mut name), room]);
            match &name {
                name if name.starts_with(b"anon_inode:[perf_event]") => Tells::Once,
                name if name.starts_with(b"anon_inode:[eventpoll]") => Tells::OfOthers,
                _ => Tells::Always,
            }
        }
        _ => Tells::Always,
    }
}

/// Whether a regular file is a message queue.
fn is_queue(m: &impl Host, fd: u32) -> bool {
    const MQUEUE_MAGIC: u64 = 0x1980_0202;
    // `struct statfs` has 120 bytes and begins with the kind of the file system.
    let mut stat = [[0; 8]; 15];
    ask(m, nr::FSTATFS, &mut [Word(fd.into()), Out(stat.as_flattened_mut())]) == 0
        && u64::from_le_bytes(stat[0]) == MQUEUE_MAGIC
}

fn kind_in(stat: &[[u8; 4]; STAT_WORDS]) -> u32 {
    u32::from_le_bytes(stat[6]) & S_IFMT
}

/// The size in bytes of a System V shared memory segment.
pub(crate) fn segment_size(m: &impl Host, id: u64) -> Option<u64> {
    // `struct shmid64_ds` has 112 bytes; shm_segsz follows the permissions, which take 48 of them.
    let mut known = [[0; 8]; 14];
    let result = ask(m, nr::SHMCTL, &mut [Word(id), Word(IPC_STAT), Out(known.as_flattened_mut())]);
    (result >= 0).then_some(u64::from_le_bytes(known[6]))
}

/// `preadv2(2)` or `pwritev2(2)` at the file's own position with one buffer, without waiting.
pub(crate) fn transfer_at_once(m: &impl Host, nr: usize, fd: u64, addr: u64, len: u64) -> isize {
    let vector = [addr.to_le_bytes(), len.to_le_bytes()];
    ask(m, nr, &mut [Word(fd), In(vector.as_flattened()), Word(1), Word(CURRENT), Word(CURRENT), Word(RWF_NOWAIT)])
}

/// `select(2)` without waiting, for descriptors below `n` in three sets (0 for none).
pub(crate) fn select_at_once(m: &impl Host, n: u64, [read, write, except]: [u64; 3]) -> isize {
    let mut time = [0; 16];
    ask(m, nr::SELECT, &mut [Word(n), Word(read), Word(write), Word(except), Out(&mut time)])
}

/// The beginning of a host file; empty if it cannot be read.
pub(crate) fn read_file<'a>(m: &impl Host, path: &CStr, to: &'a mut [u8]) -> &'a [u8] {
    let fd = open(m, path, 0);
    if fd < 0 {
        return &[];
    }
    let len = Word(to.len() as u64);
    let read = ask(m, nr::READ, &mut [Word(fd as u64), Out(to), len]);
    close(m, fd as u64);
    to.get(..usize::try_from(read).unwrap_or(0)).unwrap_or_default()
}

/// The hexadecimal number on the line that begins with this label.
pub(crate) fn hexadecimal(text: &[u8], label: &[u8]) -> Option<u64> {
    let digits = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(label))?;
    u64::from_str_radix(core::str::from_utf8(digits).ok()?.trim(), 16).ok()
}

/// Opens a host file by a path of ours, with close-on-exec.
pub(crate) fn open(m: &impl Host, path: &CStr, flags: u64) -> isize {
    ask(m, nr::OPEN, &mut [In(path.to_bytes_with_nul()), Word(flags | O_CLOEXEC), Word(0)])
}

/// Opens the file of a descriptor again.
pub(crate) fn open_again(m: &impl Host, fd: u64, flags: u64) -> Option<u64> {
    let mut path = [0; PATH];
    u64::try_from(open(m, of_descriptor("fd", fd as i32, &mut path)?, flags)).ok()
}

/// The longest path that [`of_descriptor`] makes, with its final zero.
pub(crate) const PATH: usize = 40;

/// The path of a descriptor in a folder of `/proc/self`.
pub(crate) fn of_descriptor<'a>(folder: &str, fd: i32, path: &'a mut [u8; PATH]) -> Option<&'a CStr> {
    write!(procfs::text::Room::new(&mut path[..PATH - 1]), "/proc/self/{folder}/{fd}").ok()?;
    CStr::from_bytes_until_nul(path).ok()
}

/// A second descriptor for the same file, closed by exec. Programs get the lowest numbers, so it is kept away from
/// those: at least `from`, or in the upper half of the permitted range (RLIMIT_NOFILE).
pub(crate) fn duplicate_above(m: &impl Host, fd: u32, from: u64) -> Option<u32> {
    let above = |from| u32::try_from(ask(m, nr::FCNTL, &mut [Word(fd.into()), Word(F_DUPFD_CLOEXEC), Word(from)])).ok();
    above(from).or_else(|| above(from.min(soft_limit(m, RLIMIT_NOFILE) / 2)))
}

/// Closes a descriptor.
pub(crate) fn close(m: &impl Host, fd: u64) {
    ask(m, nr::CLOSE, &mut [Word(fd)]);
}
