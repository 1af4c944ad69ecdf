//! The host calls that the machine makes for itself, with types.

use abi::SchedAttr;
use abi::args::{
    AT_FDCWD, F_DUPFD_CLOEXEC, FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE, MADV_GUARD_INSTALL, MADV_POPULATE_WRITE,
    MAP_NORESERVE, MAP_PRIVATE_ANONYMOUS, O_CLOEXEC, POLLIN, POLLOUT, PR_GET_TIMERSLACK, PR_SET_TIMERSLACK,
    PRIO_PROCESS, PROT_NONE, PROT_READ_EXECUTE, PROT_READ_WRITE, S_IFREG,
};
use arch::syscall;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use ids::{Nanos, Nice};
use kernel::Call;

/// The host signal of tick and kick. Programs that use glibc cannot own it: glibc reserves it for thread cancellation,
/// which we handle.
pub const SIGNAL_TICK: i32 = 32;
/// The host signal that ends a host call.
pub const SIGNAL_INTERRUPT: i32 = 33;
/// Sent to a carrier instead if there is no room to queue one of the two; blocked only while a carrier clones another.
/// If the program divides by zero while this signal is pending, its own signal is lost, but the division faults again.
/// (A system call dispatched by SIGSYS would be lost.)
pub const SIGNAL_NO_ROOM: i32 = 8;
/// The value that marks our own signals.
pub const COOKIE: u64 = 0x656e_7472_6573_6f6c;
/// The value of an interrupt that ends no call.
pub const IDENTITY_COOKIE: u64 = COOKIE + 1;
/// The value of a tick that stands for a timer (`carriers/alarms.rs`), not for a kick.
pub const RING_COOKIE: u64 = COOKIE + 2;

pub(crate) mod nr {
    pub use abi::nr::*;
}

/// Sleeps while the word holds `value`, at most `timeout`. May return early.
pub fn futex_wait(word: &AtomicU32, value: u32, timeout: Option<Nanos>) {
    let ts = timeout.map(|t| [t.0 / 1_000_000_000, t.0 % 1_000_000_000]);
    let ts_ptr = ts.as_ref().map_or(core::ptr::null(), |t| t.as_ptr());
    // SAFETY: the word and the time outlive the call.
    unsafe { syscall!(nr::FUTEX, word.as_ptr(), FUTEX_WAIT_PRIVATE, value, ts_ptr) };
}

/// Wakes one sleeper of the word.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the host only looks the address up.
    unsafe { syscall!(nr::FUTEX, word.as_ptr(), FUTEX_WAKE_PRIVATE, 1) };
}

/// Fresh zeroed pages, or `None`. In a child that is being created they may come from the room reserved for it.
pub fn map(len: usize) -> Option<*mut u8> {
    let flags = MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a new private mapping harms nobody; a hint replaces nothing.
    let p = unsafe { syscall!(nr::MMAP, hint(len), len, PROT_READ_WRITE, flags, usize::MAX, 0) };
    if p > 0 { Some(p as *mut u8) } else { take_room(len) }
}

const PAGE: usize = 4096;

/// How far below the image our own mappings lie: farther than programs map, and within the range that ThreadSanitizer
/// leaves to libraries.
const AWAY: usize = 256 << 30;

/// The preferred address of our next mapping. Without a hint, the host puts it directly below the program's last
/// mapping, and if that is MAP_GROWSDOWN, it can no longer grow (`stack_guard_gap`).
pub(crate) fn hint(len: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if NEXT.load(Relaxed) == 0 {
        let first = (&raw const NEXT as usize).saturating_sub(AWAY) & !(PAGE - 1);
        let _ = NEXT.compare_exchange(0, first, Relaxed, Relaxed);
    }
    NEXT.fetch_add(len.next_multiple_of(PAGE), Relaxed)
}

/// The memory that a forked child's kernel takes: five mebibytes, and more where extended states are large.
const ROOM: usize = 8 << 20;
/// Additional memory for the service thread, if the process has none when memory becomes short.
const MORE_ROOM: usize = 512 << 10;

/// Address space for a forked child's kernel, 0 if none is reserved. Linux forks regardless of RLIMIT_AS and
/// `vm.max_map_count`, and a child that cannot map memory could have no kernel. It uses no memory until it is needed.
static ROOM_AT: AtomicUsize = AtomicUsize::new(0);
/// The length of the room that is not used yet.
static ROOM_LEN: AtomicUsize = AtomicUsize::new(0);
/// How much of it can be taken, while it is open; 0 at all other times.
static ROOM_LEFT: AtomicUsize = AtomicUsize::new(0);

/// Reserves room for a child that is about to be forked; false without memory.
pub fn keep_room() -> bool {
    let old = ROOM_AT.load(Relaxed);
    if ROOM_LEN.load(Relaxed) >= ROOM {
        return true;
    }
    let Some(room) = map(ROOM + MORE_ROOM) else { return false };
    if ROOM_AT.compare_exchange(old, room as usize, Relaxed, Relaxed).is_ok() {
        ROOM_LEN.store(ROOM + MORE_ROOM, Relaxed);
    } else {
        // SAFETY: nobody has seen this mapping.
        unsafe { unmap(room, ROOM + MORE_ROOM) };
    }
    true
}

/// In a process with one thread: from now on, memory that the host refuses comes from the room.
pub(crate) fn open_room() {
    ROOM_LEFT.store(ROOM_LEN.load(Relaxed), Relaxed);
}

/// Closes the room. If the rest is too small for a child's kernel, it is kept only if there is no other room.
pub(crate) fn close_room() {
    ROOM_LEN.store(ROOM_LEFT.swap(0, Relaxed), Relaxed);
    keep_room();
}

/// Takes memory from the room's end downwards.
#[cold]
fn take_room(len: usize) -> Option<*mut u8> {
    let left = ROOM_LEFT.load(Relaxed).checked_sub(len.next_multiple_of(PAGE))?;
    // A remainder of 0 reads as a closed room. That is harmless, because the rest of a room never suffices for another
    // child.
    ROOM_LEFT.store(left, Relaxed);
    Some((ROOM_AT.load(Relaxed) + left) as *mut u8)
}

/// Populates pages at once, which costs less than a fault for each. Hosts before Linux 5.14 cannot and do nothing.
///
/// # Safety
/// The pages must be ours.
pub unsafe fn populate(p: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: as the caller promises.
        unsafe { syscall!(nr::MADVISE, p, len, MADV_POPULATE_WRITE) };
    }
}

/// Unmaps pages.
///
/// # Safety
/// Nothing may use them any more.
pub unsafe fn unmap(p: *mut u8, len: usize) {
    // SAFETY: as the caller promises.
    unsafe { syscall!(nr::MUNMAP, p, len) };
}

/// Makes pages inaccessible: a guard. False if the host refuses.
///
/// Where the host has guard markers (Linux 6.13), the mapping is not split: every fork would have to copy the
/// additional mappings.
///
/// # Safety
/// The pages must be ours and unused.
pub unsafe fn guard(p: *mut u8, len: usize) -> bool {
    // SAFETY: as the caller promises.
    unsafe { syscall!(nr::MADVISE, p, len, MADV_GUARD_INSTALL) == 0 || syscall!(nr::MPROTECT, p, len, PROT_NONE) == 0 }
}

/// A clock of the host, by its number.
pub fn clock_gettime(clock: i32) -> Nanos {
    let mut ts = [0u64; 2];
    // SAFETY: the host fills `ts`.
    unsafe { syscall!(nr::CLOCK_GETTIME, clock, ts.as_mut_ptr()) };
    Nanos(ts[0].wrapping_mul(1_000_000_000).wrapping_add(ts[1]))
}

/// The CPU time that the host has given to a host thread of this process.
pub fn cpu_time_of(tid: u32) -> Nanos {
    // The precise clock of one thread (`make_thread_cpuclock` in the kernel's posix-timers.h).
    const OF_THREAD: i32 = 4;
    const PRECISE: i32 = 2;
    clock_gettime(!(tid as i32) << 3 | OF_THREAD | PRECISE)
}

/// The nice value of the calling host thread.
pub fn nice() -> Nice {
    // SAFETY: no memory is touched.
    let biased = unsafe { syscall!(nr::GETPRIORITY, PRIO_PROCESS, 0) };
    // The call answers 20 - nice, so that no answer looks like an error (`getpriority(2)`).
    Nice(20 - biased as i8)
}

/// Gives a host thread of ours this nice value, if the host allows it.
pub(crate) fn set_nice(tid: u32, nice: Nice) {
    // SAFETY: no memory is touched.
    unsafe { syscall!(nr::SETPRIORITY, PRIO_PROCESS, tid, i32::from(nice.0)) };
}

/// This process's id.
pub fn getpid() -> i32 {
    // SAFETY: has no effect.
    unsafe { syscall!(nr::GETPID) as i32 }
}

/// This process's real user id.
pub fn getuid() -> u32 {
    // SAFETY: has no effect.
    unsafe { syscall!(nr::GETUID) as u32 }
}

/// The timer slack of carriers, in nanoseconds.
pub const FINEST: u64 = 1;

/// Sets the timer slack of the calling host thread; 0 resets it.
pub fn set_timer_slack(slack: u64) {
    // SAFETY: only affects how late timers are.
    unsafe { syscall!(nr::PRCTL, PR_SET_TIMERSLACK, slack, 0, 0, 0) };
}

/// The timer slack of the calling host thread.
fn timer_slack() -> u64 {
    // SAFETY: only asks.
    unsafe { syscall!(nr::PRCTL, PR_GET_TIMERSLACK, 0, 0, 0, 0) as u64 }
}

/// Resets the timer slack of the calling host thread; returns its old value and the new one.
pub fn reset_timer_slack() -> [u64; 2] {
    let before = timer_slack();
    set_timer_slack(0);
    [before, timer_slack()]
}

/// The soft limit of a resource.
///
/// # Errors
/// The host's.
pub fn soft_limit(resource: u64) -> Result<u64, isize> {
    let mut limit = [0u64; 2];
    // SAFETY: the host fills `limit`.
    match unsafe { syscall!(nr::PRLIMIT64, 0, resource, 0, limit.as_mut_ptr()) } {
        0 => Ok(limit[0]),
        error => Err(error),
    }
}

/// This host thread's id.
pub fn gettid() -> i32 {
    // SAFETY: has no effect.
    unsafe { syscall!(nr::GETTID) as i32 }
}

/// The host CPU that the caller runs on.
pub(crate) fn host_cpu() -> u32 {
    let mut here = 0;
    // SAFETY: the host fills the word.
    unsafe { syscall!(nr::GETCPU, &raw mut here, 0, 0) };
    here
}

/// Whether `poll(2)` reports `fd` ready, or in error, within `patience` milliseconds.
pub fn becomes_ready(fd: u64, for_writing: bool, patience: u32) -> bool {
    let mut ready = false;
    let mut one = (fd & 0xffff_ffff) | if for_writing { POLLOUT } else { POLLIN } << 32;
    // A tick that interrupts the call counts as a millisecond.
    (0..=patience).rev().any(|left| {
        // SAFETY: `struct pollfd` is a word: descriptor, events, and what the host answers.
        let r = unsafe { syscall!(nr::POLL, &raw mut one, 1, left) };
        ready = r > 0;
        r != abi::Errno::EINTR.to_ret()
    });
    ready
}

/// Sends one of our own signals, with the cookie, to a carrier; false if there is none.
pub fn signal_thread(pid: i32, tid: i32, signal: i32) -> bool {
    signal_carrier(pid, tid, signal, COOKIE)
}

/// Makes a carrier check its identity and whether a tracer has a request for it.
pub fn signal_for_identity(pid: i32, tid: i32) {
    signal_carrier(pid, tid, SIGNAL_INTERRUPT, IDENTITY_COOKIE);
}

/// Sends a carrier a tick that stands for its timer.
pub(crate) fn ring(pid: i32, tid: i32) {
    signal_carrier(pid, tid, SIGNAL_TICK, RING_COOKIE);
}

fn signal_carrier(pid: i32, tid: i32, signal: i32, cookie: u64) -> bool {
    match queue(pid, tid, signal, cookie) {
        0 => true,
        r if r == abi::Errno::ESRCH.to_ret() => false,
        _ => send(pid, tid, SIGNAL_NO_ROOM),
    }
}

/// Sends a signal below 32. The host never refuses one when the queue is full, but may then omit the sender
/// (`__send_signal_locked`). False if there is no such host thread.
pub(crate) fn send(pid: i32, tid: i32, signal: i32) -> bool {
    // SAFETY: a host thread of ours, which handles or takes it.
    unsafe { syscall!(nr::TGKILL, pid, tid, signal) == 0 }
}

/// Whether there is a process with this id, zombies included.
pub fn is_there(pid: i32) -> bool {
    // SAFETY: only asks.
    unsafe { syscall!(nr::KILL, pid, 0) != abi::Errno::ESRCH.to_ret() }
}

/// Ends this process, whatever it does about signals.
pub(crate) fn kill_self() {
    // SAFETY: nothing of this process goes on.
    unsafe { syscall!(nr::KILL, getpid(), abi::Signal::KILL.raw()) };
}

/// Queues a signal with a value: 0, or the host's error. EAGAIN: the user's processes have queued all that
/// RLIMIT_SIGPENDING allows.
pub(crate) fn queue(pid: i32, tid: i32, signal: i32, cookie: u64) -> isize {
    const SI_QUEUE: i32 = -1;
    let mut info = [0u8; 128];
    info[0..4].copy_from_slice(&signal.to_ne_bytes());
    info[8..12].copy_from_slice(&SI_QUEUE.to_ne_bytes());
    info[24..32].copy_from_slice(&cookie.to_ne_bytes());
    queue_info(pid, tid, &info)
}

/// Queues a signal with any siginfo for one of this process's host threads.
pub(crate) fn queue_info(pid: i32, tid: i32, info: &[u8; 128]) -> isize {
    let signal = i32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
    // SAFETY: the host copies `info`.
    unsafe { syscall!(nr::RT_TGSIGQUEUEINFO, pid, tid, signal, info.as_ptr()) }
}

/// Makes a write without the signals that a refusal causes (`SIGPIPE`, `SIGXFSZ`) or that a terminal sends to
/// background jobs: the program must not see them.
pub(crate) fn without_signals(write: impl FnOnce() -> isize) -> isize {
    let set = [abi::Signal::PIPE, abi::Signal::XFSZ, abi::Signal::TTOU]
        .iter()
        .fold(0u64, |set, signal| set | 1 << (signal.raw() - 1));
    let before = sigprocmask(0, set);
    let result = write();
    if [abi::Errno::EPIPE.to_ret(), abi::Errno::EFBIG.to_ret()].contains(&result) {
        let now = [0u64; 2];
        // SAFETY: set and time are ours.
        unsafe { syscall!(nr::RT_SIGTIMEDWAIT, &raw const set, 0, now.as_ptr(), 8) };
    }
    sigprocmask(2, before);
    result
}

/// Sets this host thread's mask; returns the old one. `how`: 0 block, 1 unblock, 2 set.
pub fn sigprocmask(how: i32, set: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: both words are ours.
    unsafe { syscall!(nr::RT_SIGPROCMASK, how, &raw const set, &raw mut old, 8) };
    old
}

/// A host disposition.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct HostAction {
    /// 0 default, 1 ignore, or the handler.
    pub handler: u64,
    /// SA_* flags.
    pub flags: u64,
    /// The return address of the handler.
    pub restorer: u64,
    /// Blocked while it runs.
    pub mask: u64,
}

/// Sets a host disposition; returns the old one, or the host's error.
pub fn try_sigaction(signal: i32, new: Option<&HostAction>) -> Result<HostAction, isize> {
    let mut old = HostAction::default();
    let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: both structures are ours; the handlers given are image code.
    let r = unsafe { syscall!(nr::RT_SIGACTION, signal, new, &raw mut old, 8) };
    if r == 0 { Ok(old) } else { Err(-r) }
}

/// Has the host perform the signal's default action on the process. Returns if that is to do nothing, or when a stopped
/// process continues; the action stays the default one. Returns the action before, if it can be changed.
pub(crate) fn suffer(signal: i32) -> Option<HostAction> {
    let before = try_sigaction(signal, Some(&HostAction::default()));
    // The signal is directed at this host thread and arrives when it is unblocked.
    send(getpid(), gettid(), signal);
    let mask = sigprocmask(1, 1 << (signal - 1));
    sigprocmask(2, mask);
    before.ok()
}

/// Ends the process.
pub(crate) fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: ends everything.
        unsafe { syscall!(nr::EXIT_GROUP, status) };
    }
}

/// A set of the host's CPUs.
pub type CpuSet = [u64; 128];

/// The host CPUs this process may use.
pub fn affinity() -> CpuSet {
    let mut mask = [0; 128];
    // SAFETY: the host fills at most the length given.
    unsafe { syscall!(nr::SCHED_GETAFFINITY, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    mask
}

/// Host threads stay where the host puts them: for the call that binds them, a filter around the process would kill.
static UNBOUND: AtomicBool = AtomicBool::new(false);

/// Has this process, and its children, bind no host thread from now on.
pub fn leave_unbound() {
    UNBOUND.store(true, Relaxed);
}

/// Restricts a host thread, 0 for the caller, to these CPUs. If the host refuses (the cpuset has changed), the old set
/// stays.
pub(crate) fn set_affinity(tid: u32, mask: &CpuSet) {
    if UNBOUND.load(Relaxed) {
        return;
    }
    // SAFETY: a host thread of ours.
    unsafe { syscall!(nr::SCHED_SETAFFINITY, tid, size_of_val(mask), mask.as_ptr()) };
}

/// The policy and priority of the calling host thread; `None` if the host does not say.
pub(crate) fn sched_attr() -> Option<SchedAttr> {
    let mut bytes = [0; SchedAttr::SIZE];
    let len = SchedAttr::SIZES[0];
    // SAFETY: the host fills at most the length given.
    let r = unsafe { syscall!(nr::SCHED_GETATTR, 0, bytes.as_mut_ptr(), len, 0) };
    (r == 0).then(|| SchedAttr::from_bytes(&bytes))
}

/// Gives the calling host thread a policy and priority, if the host allows it.
pub(crate) fn set_sched_attr(attr: &SchedAttr) {
    if UNBOUND.load(Relaxed) {
        return;
    }
    let bytes = SchedAttr { size: SchedAttr::SIZES[0] as u32, ..*attr }.to_bytes();
    // SAFETY: only affects this host thread.
    unsafe { syscall!(nr::SCHED_SETATTR, 0, bytes.as_ptr(), 0) };
}

/// How many CPUs of the host this process may use.
pub fn host_cpus() -> usize {
    affinity().iter().map(|w| w.count_ones() as usize).sum::<usize>().max(1)
}

/// Makes a call of the program's; ERESTARTNOINTR if a signal arrived before it began.
pub(crate) fn interruptible(call: &Call) -> isize {
    let [a, b, c, d, e, f] = call.args;
    // SAFETY: the program's own call, on its behalf.
    unsafe { arch::entry::host_call(&[call.nr as u64, a, b, c, d, e, f]) }
}

/// Writes what the descriptor takes.
pub fn write(fd: i32, bytes: &[u8]) {
    // SAFETY: the host reads the bytes.
    unsafe { syscall!(nr::WRITE, fd, bytes.as_ptr(), bytes.len()) };
}

/// Opens a file with close-on-exec: its descriptor, or the host's error. The path must end with a zero; a truncated one
/// gives ENAMETOOLONG.
pub fn open(path: &[u8], flags: u64, mode: usize) -> Result<i32, isize> {
    if !path.ends_with(&[0]) {
        return Err(abi::Errno::ENAMETOOLONG.to_ret());
    }
    // SAFETY: the path is a string.
    let fd = unsafe { syscall!(nr::OPENAT, AT_FDCWD, path.as_ptr(), flags | O_CLOEXEC, mode) };
    if fd < 0 { Err(fd) } else { Ok(fd as i32) }
}

/// A second descriptor for the same file, not below `at_least` and closed by exec.
pub fn duplicate(fd: i32, at_least: i32) -> Option<i32> {
    // SAFETY: a new descriptor harms nobody.
    let new = unsafe { syscall!(nr::FCNTL, fd, F_DUPFD_CLOEXEC, at_least) };
    (new >= 0).then_some(new as i32)
}

/// Reads what is available: the number of bytes, 0 on error.
pub fn read(fd: i32, to: &mut [u8]) -> usize {
    // SAFETY: the buffer is the caller's.
    let n = unsafe { syscall!(nr::READ, fd, to.as_mut_ptr(), to.len()) };
    usize::try_from(n).unwrap_or(0)
}

/// The beginning of the file `path`, which ends with a zero; empty if it cannot be read.
pub fn read_file<'a>(path: &[u8], to: &'a mut [u8]) -> &'a [u8] {
    let Ok(fd) = open(path, 0, 0) else { return &[] };
    let len = read(fd, to);
    close(fd);
    to.get(..len).unwrap_or_default()
}

/// Closes a descriptor.
pub fn close(fd: i32) {
    // SAFETY: the descriptor is the caller's.
    unsafe { syscall!(nr::CLOSE, fd) };
}

/// Writes a byte of the program's text, which no thread executes at the moment; false if the host refuses.
pub(crate) fn change_text(at: u64, byte: u8) -> bool {
    let page = at & !(PAGE as u64 - 1);
    // SAFETY: a page of text that stays what it is but for this byte.
    let protect = |protection| unsafe { syscall!(nr::MPROTECT, page, PAGE, protection) } == 0;
    if !protect(PROT_READ_WRITE) {
        return false;
    }
    // SAFETY: writable now.
    unsafe { (at as *mut u8).write(byte) };
    protect(PROT_READ_EXECUTE)
}

/// The length in bytes of the file that a descriptor refers to.
pub fn len(fd: i32) -> Option<u64> {
    status(fd).map(|stat| stat[6])
}

/// The device and inode of the file that a descriptor refers to.
pub fn file_of(fd: i32) -> Option<[u64; 2]> {
    status(fd).map(|stat| [stat[0], stat[1]])
}

/// The device and inode of a file, by arguments of `newfstatat(2)`, which may be the program's.
pub(crate) fn file_at(dir: isize, path: *const u8, flags: u64) -> Option<[u64; 2]> {
    let mut stat = [0u64; 18];
    // SAFETY: the host reads the path, and `struct stat` has 144 bytes.
    let r = unsafe { syscall!(nr::NEWFSTATAT, dir, path, stat.as_mut_ptr(), flags) };
    (r == 0).then_some([stat[0], stat[1]])
}

/// How many bytes a file has.
pub fn len_of(fd: i32) -> Option<u64> {
    status(fd).map(|stat| stat[6])
}

/// The length of a regular file with mode 0500 and this user as owner, which nobody else can change and the user not by
/// mistake.
pub fn sealed_len(fd: i32) -> Option<u64> {
    const SEALED: u32 = S_IFREG | 0o500;
    let stat = status(fd)?;
    let (mode, owner) = (stat[3] as u32, stat[3] >> 32);
    // SAFETY: has no effect.
    let user = unsafe { syscall!(nr::GETEUID) } as u64;
    (mode == SEALED && owner == user).then_some(stat[6])
}

/// The words of `struct stat`: device and inode first, `st_mode` and `st_uid` at bytes 24 and 28, `st_size` at byte 48.
pub(crate) fn status(fd: i32) -> Option<[u64; 18]> {
    let mut stat = [0u64; 18];
    // SAFETY: `struct stat` has 144 bytes.
    let r = unsafe { syscall!(nr::FSTAT, fd, stat.as_mut_ptr()) };
    (r == 0).then_some(stat)
}

/// Lets another host thread run, for longer from the eleventh round on. See [`sync::set_relax`].
///
/// The holder was probably preempted: back off exponentially up to 1 ms, fourfold every ten rounds. A thread that wakes
/// up gets the processor at once, so dozens of host threads polling every 20 µs would keep the holder from running at
/// all.
///
/// The host thread may have the program's timer slack, because a child inherits it or because it runs as a child. With a
/// long one the host would never end the sleep.
pub fn relax(round: u32) {
    match pause(round) {
        // SAFETY: has no effect on memory.
        Nanos::ZERO => unsafe { syscall!(nr::SCHED_YIELD) },
        pause => {
            let (pause, slack) = ([0u64, pause.0], timer_slack());
            set_timer_slack(FINEST);
            // SAFETY: the host reads the time.
            let result = unsafe { syscall!(nr::NANOSLEEP, pause.as_ptr(), 0) };
            set_timer_slack(slack);
            result
        }
    };
}

fn pause(round: u32) -> Nanos {
    match round / 10 {
        0 => Nanos::ZERO,
        tens => Nanos(20_000 << (2 * (tens - 1)).min(6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_long_looks_seldom() {
        assert_eq!((pause(0), pause(9)), (Nanos::ZERO, Nanos::ZERO));
        assert!((10..1000).all(|round| pause(round) > Nanos::ZERO && pause(round) <= pause(round + 1)));
        assert_eq!((pause(10), pause(40), pause(u32::MAX)), (Nanos(20_000), Nanos(1_280_000), Nanos(1_280_000)));
    }
}
