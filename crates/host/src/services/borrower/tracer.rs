//! Our threads as a borrower sees them through `ptrace(2)`.
//!
//! A tracer that shares its tracees' memory is a leak checker (LeakSanitizer): it attaches to each thread that it finds
//! in `/proc/PID/task`, reads their registers, scans the memory and lets them go. The host knows carriers, not threads.
//! So the directory lists our threads, and **the first attach stops all host threads** of the process, by requests of
//! the tracer's own. Then every thread stands still, its registers are those of its carrier, if it has one, or in its
//! context. The host threads are released with the last thread.
//!
//! While they are stopped, any of them may hold any lock of the image: nothing here takes one or allocates.

use crate::base::dispositions::in_image;
use crate::base::os::{self, nr};
use crate::base::report::Text;
use crate::base::sites;
use crate::carriers::carrier::Carrier;
use crate::carriers::table::{CARRIERS_MAX, Carriers};
use crate::process::Process;
use crate::process::states;
use abi::Errno;
use abi::args::{
    AT_FDCWD, O_DIRECTORY, PTRACE_ATTACH, PTRACE_CONT, PTRACE_DETACH, PTRACE_GETREGS, PTRACE_GETREGSET,
    PTRACE_GETSIGMASK, PTRACE_PEEKDATA, PTRACE_PEEKTEXT, PTRACE_SETREGS, PTRACE_SETSIGMASK, PTRACE_SINGLESTEP,
    SEEK_CUR, SEEK_SET, WALL, WNOHANG,
};
use abi::frame::Registers;
use arch::context::flag;
use arch::{Context, Kind, entry, syscall, user, xstate};
use core::fmt::Write;
use ids::{THREADS_MAX, ThreadIdx, Tid};
use kernel::Call;
use sync::atomic::{AtomicU8, Ordering::*};

const NT_PRSTATUS: u64 = 1;
const NT_X86_XSTATE: u64 = 0x202;
const SIGTRAP: i32 = 5;
const SIGSTOP: i32 = 19;
/// "Stopped by SIGSTOP", as `wait4(2)` reports it.
const STOPPED: u32 = 0x137f;
/// The most host threads: carriers, the service thread.
const TASKS_MAX: usize = CARRIERS_MAX;

const FREE: u8 = 0;
/// Attached; its stop has not been reported.
const STOPS: u8 = 1;
const TOLD: u8 = 2;

/// Threads that a borrower has stopped. Both tables are mapped at its first stop.
#[derive(Debug)]
pub(super) struct Tracer {
    /// Host threads.
    tasks: *mut i32,
    tasks_len: usize,
    /// The state of each of our threads.
    threads: *mut AtomicU8,
    attached: usize,
    untold: usize,
}

impl Default for Tracer {
    fn default() -> Tracer {
        Tracer { tasks: core::ptr::null_mut(), tasks_len: 0, threads: core::ptr::null_mut(), attached: 0, untold: 0 }
    }
}

impl Tracer {
    /// Whether our threads are stopped by it.
    pub(super) fn holds_them(&self) -> bool {
        self.attached != 0
    }

    fn thread(&self, t: ThreadIdx) -> &AtomicU8 {
        // SAFETY: as many as there can be threads; zeroed memory.
        unsafe { &*self.threads.add(t.index() % THREADS_MAX) }
    }

    fn state(&self, t: ThreadIdx) -> u8 {
        if self.threads.is_null() { FREE } else { self.thread(t).load(Relaxed) }
    }

    fn set(&mut self, t: ThreadIdx, state: u8) {
        let before = self.thread(t).swap(state, Relaxed);
        self.attached = self.attached + usize::from(state != FREE) - usize::from(before != FREE);
        self.untold = self.untold + usize::from(state == STOPS) - usize::from(before == STOPS);
    }

    fn tasks(&self) -> &[i32] {
        // SAFETY: that many have been written.
        if self.tasks.is_null() { &[] } else { unsafe { core::slice::from_raw_parts(self.tasks, self.tasks_len) } }
    }

    fn prepare(&mut self) -> Result<(), Errno> {
        if self.tasks.is_null() {
            self.tasks = os::map(TASKS_MAX * size_of::<i32>()).ok_or(Errno::ENOMEM)?.cast();
            self.threads = os::map(THREADS_MAX).ok_or(Errno::ENOMEM)?.cast();
        }
        Ok(())
    }

    /// Stops all host threads. New ones may begin meanwhile, so it repeats until it finds no new one.
    fn stop_all(&mut self, k: &Process) -> Result<(), Errno> {
        self.prepare()?;
        loop {
            let before = self.tasks_len;
            let mut failed = None;
            each_task(k.m.pid, |task| {
                if self.tasks().contains(&task) || self.tasks_len == TASKS_MAX || failed.is_some() {
                    return;
                }
                match stop(&k.m.carriers, task) {
                    // SAFETY: within the table.
                    Ok(true) => unsafe {
                        self.tasks.add(self.tasks_len).write(task);
                        self.tasks_len += 1;
                    },
                    Ok(false) => {}
                    Err(e) => failed = Some(e),
                }
            });
            if let Some(e) = failed {
                self.let_go();
                return Err(e);
            }
            if self.tasks_len == before {
                return Ok(());
            }
        }
    }

    fn let_go(&mut self) {
        for &task in self.tasks() {
            trace(PTRACE_DETACH, task, 0, 0);
        }
        self.tasks_len = 0;
    }
}

fn trace(request: u64, task: i32, addr: u64, data: u64) -> isize {
    // SAFETY: a request about a host thread that the caller traces; what it writes to is the caller's.
    unsafe { syscall!(nr::PTRACE, request, task, addr, data) }
}

/// Attaches to a host thread and waits until it stops at a point where its thread's registers are known. False if it
/// has ended.
fn stop(all: &Carriers, task: i32) -> Result<bool, Errno> {
    match trace(PTRACE_ATTACH, task, 0, 0) {
        0 => {}
        r if r == Errno::ESRCH.to_ret() => return Ok(false),
        r => return Errno::from_ret(r).map(|_| false),
    }
    let Some(mut signal) = stopped_by(task) else { return Ok(false) };
    // Pass on other signals that come first.
    while signal != SIGSTOP {
        trace(PTRACE_CONT, task, 0, signal as u64);
        match stopped_by(task) {
            Some(next) => signal = next,
            None => return Ok(false),
        }
    }
    let stepped_by_itself = registers_of(task).is_some_and(|r| r.flags() & flag::TF != 0);
    // Bounded: each of these paths takes fewer than a few thousand instructions.
    let mut signal = 0;
    for _ in 0..20_000 {
        let Some(r) = registers_of(task).filter(|r| signal != 0 || is_between(all, task, r)) else { break };
        match step(task, signal) {
            None => return Ok(false),
            Some(SIGTRAP) => signal = 0,
            // A tick or a kick: its handler runs first.
            Some(other) => signal = other,
        }
        hide_trap_flag(task, &r);
    }
    if !stepped_by_itself {
        clear_trap_flag(task);
    }
    Ok(true)
}

/// A single step, with this signal if it is not 0. `None` if the host thread has ended.
///
/// The image's handlers have SIGTRAP blocked. The trap of a step there would remove our handler from the whole process
/// (`force_sig_info_to_task`).
fn step(task: i32, signal: i32) -> Option<i32> {
    const TRAP: u64 = 1 << (SIGTRAP - 1);
    let blocks = mask_of(task).filter(|mask| mask & TRAP != 0);
    if let Some(mask) = blocks {
        set_mask(task, mask & !TRAP);
    }
    trace(PTRACE_SINGLESTEP, task, 0, signal as u64);
    let stopped = stopped_by(task)?;
    // The step may have returned from the handler, which changes the mask.
    if let Some(mask) = blocks.filter(|mask| mask_of(task) == Some(mask & !TRAP)) {
        set_mask(task, mask);
    }
    Some(stopped)
}

fn mask_of(task: i32) -> Option<u64> {
    let mut mask = 0u64;
    (trace(PTRACE_GETSIGMASK, task, size_of::<u64>() as u64, &raw mut mask as u64) == 0).then_some(mask)
}

fn set_mask(task: i32, mask: u64) {
    trace(PTRACE_SETSIGMASK, task, size_of::<u64>() as u64, &raw const mask as u64);
}

/// After a step over `popfq`, Linux takes the trap flag of all later steps for the thread's own and leaves it set on
/// detach (`enable_single_step` in arch/x86/kernel/step.c).
fn clear_trap_flag(task: i32) {
    if let Some(mut r) = registers_of(task).filter(|r| r.flags() & flag::TF != 0) {
        r.0[HostRegisters::FLAGS] &= !flag::TF;
        trace(PTRACE_SETREGS, task, 0, r.0.as_ptr() as u64);
    }
}

/// A single step over `pushfq` stores flags that include the tracer's trap flag. Restored from there, it would become
/// the thread's own and stay after the detach.
fn hide_trap_flag(task: i32, before: &HostRegisters) {
    const PUSHF: u32 = 0x9c;
    let is_pushf = user::load_u32(before.rip()).is_ok_and(|word| word & 0xff == PUSHF);
    if let Some(now) = registers_of(task).filter(|now| is_pushf && now.rip() == before.rip() + 1)
        && let Ok(flags) = user::load_u64(now.rsp())
    {
        // Cannot fault: the step has just written this word.
        let _ = user::store_u64(now.rsp(), flags & !flag::TF);
    }
}

/// The signal that has stopped the host thread; `None` if it has ended.
fn stopped_by(task: i32) -> Option<i32> {
    let mut status = 0u32;
    loop {
        // SAFETY: the host fills the word.
        let r = unsafe { syscall!(nr::WAIT4, task, &raw mut status, WALL, 0) };
        if r != Errno::EINTR.to_ret() {
            return (r == task as isize && status & 0xff == 0x7f).then_some((status >> 8 & 0xff) as i32);
        }
    }
}

/// Whether a carrier is on its way into the kernel: in an entry, or in the handler of a host signal. Its thread's
/// registers are then partly in the context and partly in the processor.
fn is_between(all: &Carriers, task: i32, r: &HostRegisters) -> bool {
    let in_entry = entry::entry_start() < r.rip() && r.rip() < entry::entry_end();
    in_entry || carrier_of(all, task).is_some_and(|c| c.is_on_signal_stack(r.rsp()))
}

fn carrier_of(all: &Carriers, task: i32) -> Option<&'static Carrier> {
    (0..all.count()).map(|i| all.get(i)).find(|c| c.tid.load(Relaxed) == task as u32)
}

/// `struct user_regs_struct`, as words.
#[derive(Clone, Copy)]
struct HostRegisters([u64; 27]);

impl HostRegisters {
    const RCX: usize = 11;
    const RIP: usize = 16;
    const FLAGS: usize = 18;
    const RSP: usize = 19;

    fn rip(&self) -> u64 {
        self.0[Self::RIP]
    }

    fn flags(&self) -> u64 {
        self.0[Self::FLAGS]
    }

    fn rsp(&self) -> u64 {
        self.0[Self::RSP]
    }

    fn of(r: &Registers, fs_base: u64) -> HostRegisters {
        let (cs, ss) = (u64::from(abi::frame::USER_CS), u64::from(abi::frame::USER_SS));
        HostRegisters([
            r.r15,
            r.r14,
            r.r13,
            r.r12,
            r.rbp,
            r.rbx,
            r.r11,
            r.r10,
            r.r9,
            r.r8,
            r.rax,
            r.rcx,
            r.rdx,
            r.rsi,
            r.rdi,
            u64::MAX,
            r.rip,
            cs,
            r.eflags,
            r.rsp,
            ss,
            fs_base,
            0,
            0,
            0,
            0,
            0,
        ])
    }

    fn bytes(&self) -> [u8; 216] {
        let mut bytes = [0; 216];
        bytes.chunks_exact_mut(8).zip(self.0).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes
    }
}

fn registers_of(task: i32) -> Option<HostRegisters> {
    let mut words = [0u64; 27];
    (trace(PTRACE_GETREGS, task, 0, words.as_mut_ptr() as u64) == 0).then_some(HostRegisters(words))
}

/// The registers of a stopped thread, and the host thread that has its extended state, if that is in registers.
fn registers(k: &Process, t: ThreadIdx) -> (HostRegisters, Option<i32>) {
    let m = &k.m;
    // SAFETY: contexts live for ever, and nobody changes this one while all stand.
    let c: &Context = unsafe { &*m.contexts.get(t) };
    let saved = HostRegisters::of(&states::registers(c), c.fs_base);
    let Some(number) = c.claim.load(Relaxed).checked_sub(1) else { return (saved, None) };
    let task = m.carriers.get(number).tid.load(Relaxed) as i32;
    match registers_of(task) {
        Some(mut live) if !in_image(live.rip()) || entry::is_entry(live.rip()) => {
            live.0[HostRegisters::RIP] = sites::seen(live.rip(), live.0[HostRegisters::RCX]);
            (live, Some(task))
        }
        _ => (saved, None),
    }
}

/// `ptrace(2)` of a borrower.
pub(super) fn ptrace(k: &Process, tracer: &mut Tracer, call: &Call) -> isize {
    let [request, tid, addr, data, ..] = call.args;
    let Some(t) = k.threads().find(Tid(tid as i32)) else { return os::interruptible(call) };
    let attached = tracer.state(t) != FREE;
    let result = match request {
        PTRACE_ATTACH if attached => Err(Errno::EPERM),
        PTRACE_ATTACH => tracer.attach(k, t),
        _ if !attached => Err(Errno::ESRCH),
        PTRACE_DETACH => {
            tracer.set(t, FREE);
            if tracer.attached == 0 {
                tracer.let_go();
            }
            Ok(())
        }
        PTRACE_GETREGS => user::write(data, &registers(k, t).0.bytes()).map_err(|_| Errno::EFAULT),
        PTRACE_GETREGSET => register_set(k, t, addr, data),
        PTRACE_PEEKTEXT | PTRACE_PEEKDATA => {
            let word = user::load_u64(addr).map_err(|_| Errno::EIO);
            word.and_then(|word| user::store_u64(data, word).map_err(|_| Errno::EFAULT))
        }
        _ => Err(Errno::EIO),
    };
    result.map_or_else(Errno::to_ret, |()| 0)
}

impl Tracer {
    fn attach(&mut self, k: &Process, t: ThreadIdx) -> Result<(), Errno> {
        if self.attached == 0 {
            self.stop_all(k)?;
        }
        self.set(t, STOPS);
        Ok(())
    }
}

/// PTRACE_GETREGSET: writes as much as fits, and how much that was.
fn register_set(k: &Process, t: ThreadIdx, which: u64, iov: u64) -> Result<(), Errno> {
    let efault = |_| Errno::EFAULT;
    let (at, len) = (user::load_u64(iov).map_err(efault)?, user::load_u64(iov + 8).map_err(efault)? as usize);
    let (general, task) = registers(k, t);
    // SAFETY: as in `registers`.
    let c: &Context = unsafe { &*k.m.contexts.get(t) };
    match (which, task) {
        (NT_PRSTATUS, _) => {
            let bytes = general.bytes();
            let n = len.min(bytes.len());
            user::write(at, &bytes[..n]).map_err(efault)?;
            user::store_u64(iov + 8, n as u64).map_err(efault)
        }
        (NT_X86_XSTATE, Some(task)) => Errno::from_ret(trace(PTRACE_GETREGSET, task, which, iov)).map(|_| ()),
        (NT_X86_XSTATE, None) if c.kind == Kind::Full as u32 && !c.xbuf.is_null() => {
            let n = len.min(xstate::size());
            // SAFETY: the buffer has that size.
            user::write(at, unsafe { core::slice::from_raw_parts(c.xbuf, n) }).map_err(efault)?;
            user::store_u64(iov + 8, n as u64).map_err(efault)
        }
        // In a plain call no vector register is live.
        _ => Err(Errno::EIO),
    }
}

/// `wait4(2)` of a borrower: the stops of our threads.
pub(super) fn wait(k: &Process, tracer: &mut Tracer, call: &Call) -> isize {
    let [tid, status, options, ..] = call.args;
    let found = match tid as i32 {
        -1 if tracer.untold != 0 => k.threads().iter().find(|&t| tracer.state(t) == STOPS),
        tid => k.threads().find(Tid(tid)),
    };
    match found.map(|t| (t, tracer.state(t))) {
        Some((t, STOPS)) => {
            if status != 0 && user::store_u32(status, STOPPED).is_err() {
                return Errno::EFAULT.to_ret();
            }
            tracer.set(t, TOLD);
            k.tid(t).0 as isize
        }
        // The tracee stays stopped until it is continued.
        Some((_, TOLD)) if options & WNOHANG != 0 => 0,
        Some((_, TOLD)) => Errno::ECHILD.to_ret(),
        _ => os::interruptible(call),
    }
}

const BUFFER: usize = 2048;

/// Calls `f` with each host thread of a process.
fn each_task(pid: i32, mut f: impl FnMut(i32)) {
    let mut path = Text::<64>::default();
    let _ = write!(path, "/proc/{pid}/task\0");
    let Ok(fd) = os::open(path.as_bytes(), O_DIRECTORY, 0) else { return };
    let mut buffer = [0u64; BUFFER / 8];
    loop {
        // SAFETY: the host fills the buffer.
        let n = unsafe { syscall!(nr::GETDENTS64, fd, buffer.as_mut_ptr(), BUFFER) };
        let Ok(n @ 1..) = usize::try_from(n) else { break };
        // SAFETY: so many bytes have been written.
        let bytes = unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), n) };
        let mut at = 0;
        while at < n {
            let name = bytes[at + 19..].split(|&b| b == 0).next().unwrap_or_default();
            if let Some(task) = core::str::from_utf8(name).ok().and_then(|name| name.parse().ok()) {
                f(task);
            }
            at += usize::from(u16::from_le_bytes([bytes[at + 16], bytes[at + 17]]));
        }
    }
    os::close(fd);
}

/// `getdents(2)` and `getdents64(2)` of a borrower: the directory of our tasks lists our threads, in the order of their
/// ids. The file position is the last id reported.
pub(super) fn list(k: &Process, call: &Call) -> isize {
    let [fd, to, room, ..] = call.args;
    if !is_our_directory(k, fd as i32) {
        return os::interruptible(call);
    }
    // SAFETY: changes the position only.
    let mut last = unsafe { syscall!(nr::LSEEK, fd, 0, SEEK_CUR) } as i32;
    let mut used = 0;
    let pid = k.m.pid;
    loop {
        let next = if last < pid { Some(pid) } else { k.threads().next_id(Tid(last)).map(|(tid, _)| tid.0) };
        let Some(tid) = next else { break };
        let mut entry = [0; 40];
        let len = write_entry(call.nr, tid, &mut entry);
        if used + len > room as usize {
            if used == 0 {
                return Errno::EINVAL.to_ret();
            }
            break;
        }
        if user::write(to + used as u64, &entry[..len]).is_err() {
            return Errno::EFAULT.to_ret();
        }
        (used, last) = (used + len, tid);
    }
    // SAFETY: as above.
    unsafe { syscall!(nr::LSEEK, fd, last, SEEK_SET) };
    used as isize
}

/// Writes a `struct linux_dirent64`, or a `struct linux_dirent`, whose type is at its end. Returns its length.
fn write_entry(nr: usize, tid: i32, to: &mut [u8; 40]) -> usize {
    const DT_DIR: u8 = 4;
    let mut name = Text::<16>::default();
    let _ = write!(name, "{tid}");
    let name = name.as_bytes();
    let at = if nr == nr::GETDENTS64 { 19 } else { 18 };
    let len = (at + name.len() + 2).next_multiple_of(8);
    to[..8].copy_from_slice(&(tid as u64).to_le_bytes());
    to[8..16].copy_from_slice(&(tid as u64).to_le_bytes());
    to[16..18].copy_from_slice(&(len as u16).to_le_bytes());
    to[if nr == nr::GETDENTS64 { 18 } else { len - 1 }] = DT_DIR;
    to[at..at + name.len()].copy_from_slice(name);
    len
}

fn is_our_directory(k: &Process, fd: i32) -> bool {
    let mut path = Text::<64>::default();
    let _ = write!(path, "/proc/{}/task\0", k.m.pid);
    let mut stat = [0u64; 18];
    // SAFETY: `struct stat` has 144 bytes; the path is a string.
    let r = unsafe { syscall!(nr::NEWFSTATAT, AT_FDCWD, path.as_bytes().as_ptr(), stat.as_mut_ptr(), 0) };
    r == 0 && os::file_of(fd) == Some([stat[0], stat[1]])
}
