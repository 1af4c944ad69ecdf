//! Opening, reading and writing files of ours, and what happens to their descriptors.

use super::files::OpenFile;
use super::view::View;
use super::{O_CLOEXEC, SEEK_CUR};
use crate::facts;
use crate::machine::Arg::{In, Word};
use crate::planted::Fault;
use crate::{Host, Linux};
use abi::args::{
    CLOSE_RANGE_UNSHARE, F_DUPFD, F_DUPFD_CLOEXEC, O_ACCMODE, O_CREAT, O_DIRECT, O_EXCL, O_PATH, O_WRONLY, RLIMIT_FSIZE,
};
use abi::{Errno, nr};
use core::num::IntErrorKind;
use ids::{CpuId, ThreadIdx};
use kernel::machine::Call;
use kernel::trap::Out;
use procfs::entries::{File, Is};
use procfs::node::{Dir, Place};
use procfs::permission::{MAY_READ, MAY_WRITE};
use procfs::{Caller, Node};

impl<M: Host> Linux<'_, M> {
    pub(super) fn proc_open(&self, view: &View<'_, M>, caller: &Caller<'_>, node: &Node, flags: u64) -> isize {
        if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL {
            return Errno::EEXIST.to_ret();
        }
        let access = flags & O_ACCMODE;
        let Some(entry) = node.entry() else {
            if (access != 0 || flags & O_CREAT != 0) && flags & O_PATH == 0 {
                return Errno::EISDIR.to_ret();
            }
            return self.open_folder(node, flags);
        };
        let Is::Ours(file) = entry.is else { return self.open_link(entry.is, flags) };
        if flags & O_PATH != 0 {
            return self.open_path(node, flags);
        }
        let want = [MAY_READ, MAY_WRITE, MAY_READ | MAY_WRITE, MAY_READ | MAY_WRITE][access as usize];
        if let Err(e) = caller.may_access(view, node, want) {
            return e.to_ret();
        }
        if flags & O_DIRECT != 0 {
            return Errno::EINVAL.to_ret();
        }
        let (reads, writes) = (access != O_WRONLY, access != 0);
        let close_on_exec = flags & O_CLOEXEC != 0;
        let bare = OpenFile { close_on_exec, ..OpenFile::new(*node, reads, writes, false) };
        if let Some(fd) = self.open_bare(bare) {
            return fd;
        }
        let fd = self.host_memory_file(close_on_exec);
        if fd < 0 {
            return fd;
        }
        if let Err(e) = self.proc_fill(fd as u64, node, file) {
            facts::close(&self.m, fd as u64);
            return if e == Errno::EFBIG { self.open_hosts(node, flags & O_CLOEXEC) } else { e.to_ret() };
        }
        self.state().proc.files.insert(fd as i32, OpenFile::new(*node, reads, writes, true));
        fd
    }

    /// A link itself can only be named (O_PATH): opens the host's equal one.
    fn open_link(&self, is: Is, flags: u64) -> isize {
        if flags & O_PATH == 0 {
            return Errno::ELOOP.to_ret();
        }
        let path = if is == Is::SelfLink { c"/proc/self" } else { c"/proc/thread-self" };
        self.ask(nr::OPEN, &mut [In(path.to_bytes_with_nul()), Word(flags)])
    }

    /// A directory: opens the host's of the same kind, so that `fchdir`, `openat` and `fstat` work on it.
    fn open_folder(&self, node: &Node, flags: u64) -> isize {
        use core::fmt::Write;
        let pid = self.config().pid.0;
        let mut path = [0; 64];
        let mut room = procfs::text::Room::new(&mut path);
        // Two numbers and two words fit.
        let _ = match node.dir() {
            Some(Dir::Process) => write!(room, "/proc/{pid}\0"),
            Some(Dir::Tasks) => write!(room, "/proc/{pid}/task\0"),
            _ => write!(room, "/proc/{pid}/task/{pid}\0"),
        };
        let fd = self.ask(nr::OPEN, &mut [In(room.text()), Word(flags & !O_CREAT)]);
        if fd >= 0 {
            self.state().proc.files.insert(fd as i32, OpenFile::new(*node, flags & O_PATH == 0, false, true));
        }
        fd
    }

    /// O_PATH allows neither reading nor writing: opens the host's file of that name, so that the host refuses both.
    fn open_path(&self, node: &Node, flags: u64) -> isize {
        let fd = self.open_hosts(node, flags);
        if fd >= 0 {
            self.state().proc.files.insert(fd as i32, OpenFile::new(*node, false, false, true));
        }
        fd
    }

    /// Opens the host's own file of that name, if ours is not available.
    pub(super) fn open_hosts(&self, node: &Node, flags: u64) -> isize {
        let Place::Entry(dir, _) = node.place else { return Errno::ENOENT.to_ret() };
        let Ok(path) = self.hosts_path(dir, node, &[]) else { return Errno::ENOMEM.to_ret() };
        self.ask(nr::OPEN, &mut [In(&path), Word(flags)])
    }

    /// Writes the present text to the host's file.
    pub(super) fn proc_fill(&self, fd: u64, node: &Node, file: File) -> Result<(), Errno> {
        self.proc_text(node, file, |text| self.write_host(fd, text))?
    }

    /// Replaces the content of a host file. EFBIG if the program may not write files of that length: then nothing is
    /// written, because the program would get the signal that comes with it.
    pub(super) fn write_host(&self, fd: u64, text: &[u8]) -> Result<(), Errno> {
        if text.len() as u64 > facts::soft_limit(&self.m, RLIMIT_FSIZE) {
            return Err(Errno::EFBIG);
        }
        let (mut done, len) = (0, text.len());
        while done < len {
            let rest = &text[done..];
            match self.ask(nr::PWRITE64, &mut [Word(fd), In(rest), Word(rest.len() as u64), Word(done as u64)]) {
                n if n > 0 => done += n as usize,
                n if n < 0 => return Err(Errno(-n as i32)),
                _ => return Err(Errno::EIO),
            }
        }
        self.ask(nr::FTRUNCATE, &mut [Word(fd), Word(len as u64)]);
        Ok(())
    }

    /// `read(2)`, `pread64(2)`: a read from the beginning returns the present text, as for a sequence file; a dead
    /// thread's text is empty.
    pub(crate) fn sys_read(&self, cpu: CpuId, call: &Call) -> Out {
        if self.state().proc.files.is_empty() {
            return self.pass(cpu, call);
        }
        if let Some(out) = self.read_bare(call) {
            return out;
        }
        if let Some(file) = self.state().proc.files.find(call.args[0] as i32) {
            let fd = call.args[0];
            if !file.reads {
                return Errno::EBADF.into();
            }
            if !self.proc_lives(&file.node) {
                return Errno::ESRCH.into();
            }
            let ours = file.node.entry().map(|entry| entry.is);
            let at = match call.nr {
                nr::PREAD64 => call.args[3] as isize,
                _ if file.fresh => 1,
                _ => self.host(&Call { nr: nr::LSEEK, args: [fd, 0, SEEK_CUR, 0, 0, 0] }),
            };
            if let Some(Is::Ours(text)) = ours {
                // If the new content cannot be written, the old one stays.
                if at == 0
                    && let Err(e) = self.proc_fill(fd, &file.node, text)
                    && e != Errno::EFBIG
                {
                    return e.into();
                }
                if file.fresh {
                    self.state().proc.files.change(fd as i32, |file| file.fresh = false);
                }
            }
        }
        self.pass(cpu, call)
    }

    /// `ftruncate(2)`: a writable file ignores it (`proc_setattr`), another one refuses.
    pub(crate) fn sys_ftruncate(&self, cpu: CpuId, call: &Call) -> Out {
        match self.state().proc.files.find(call.args[0] as i32) {
            Some(file) if (call.args[1] as i64) < 0 || !file.writes && file.reads => Errno::EINVAL.into(),
            Some(file) if file.writes => Out::Done(0),
            _ => self.pass(cpu, call),
        }
    }

    /// `write(2)`: names can be set; writes to the scheduler's counters are accepted without effect.
    pub(crate) fn sys_write(&self, cpu: CpuId, call: &Call) -> Out {
        if self.state().proc.files.is_empty() {
            return self.pass(cpu, call);
        }
        let [fd, from, len, ..] = call.args;
        let Some(file) = self.state().proc.files.find(fd as i32) else { return self.pass(cpu, call) };
        match file.node.entry().map(|entry| entry.is) {
            Some(_) if !file.writes => Errno::EBADF.into(),
            Some(Is::Ours(File::Comm)) => self.write_comm(&file.node, from, len),
            Some(Is::Ours(File::TimerSlack)) => self.write_slack(&file.node, from, len),
            Some(Is::Ours(File::Sched)) => Out::Done(len as isize),
            Some(_) => Errno::EINVAL.into(),
            None => self.pass(cpu, call),
        }
    }

    /// Other calls that write. The host has our files open for writing in any case.
    pub(crate) fn sys_write_otherwise(&self, cpu: CpuId, call: &Call) -> Out {
        let files = &self.state().proc.files;
        let is_read_only = || {
            let file = files.find(call.args[0] as i32);
            file.is_some_and(|file| file.node.entry().is_some() && !file.writes)
        };
        if !files.is_empty() && is_read_only() {
            return Errno::EBADF.into();
        }
        self.back_files();
        self.pass(cpu, call)
    }

    /// The first 15 bytes are used, and all are accepted (`comm_write`).
    fn write_comm(&self, node: &Node, from: u64, len: u64) -> Out {
        let mut name = [0; 16];
        if self.m.read(from, &mut name[..len.min(15) as usize]).is_err() {
            return Errno::EFAULT.into();
        }
        let Some(target) = self.slot_of(node.thread) else { return Errno::ESRCH.into() };
        self.thread(target).set_name(&name);
        self.named(target);
        if target == ThreadIdx(0) && node.thread.id == self.config().pid.0 {
            // Other processes see the process's name by its first host thread.
            self.name_first_carrier(&name);
        }
        Out::Done(len as isize)
    }

    fn name_first_carrier(&self, name: &[u8; 16]) {
        let fd = facts::open(&self.m, c"/proc/self/comm", O_WRONLY);
        if fd >= 0 {
            let len = name.iter().position(|&byte| byte == 0).unwrap_or(15).max(1);
            self.ask(nr::WRITE, &mut [Word(fd as u64), In(name), Word(len as u64)]);
            facts::close(&self.m, fd as u64);
        }
    }

    /// Parses a number like `kstrtoull_from_user`.
    fn write_slack(&self, node: &Node, from: u64, len: u64) -> Out {
        let mut digits = [0; 66];
        let len_read = len.min(digits.len() as u64) as usize;
        if self.m.read(from, &mut digits[..len_read]).is_err() {
            return Errno::EFAULT.into();
        }
        let end = digits[..len_read].iter().position(|&byte| byte == 0).unwrap_or(len_read);
        let text = core::str::from_utf8(&digits[..end]).unwrap_or_default();
        let slack = match text.strip_suffix('\n').unwrap_or(text).parse::<u64>() {
            Ok(slack) => slack,
            Err(why) if *why.kind() == IntErrorKind::PosOverflow => return Errno::ERANGE.into(),
            Err(_) => return Errno::EINVAL.into(),
        };
        let Some(target) = self.slot_of(node.thread) else { return Errno::ESRCH.into() };
        self.thread(target).set_slack(slack);
        Out::Done(len as isize)
    }

    /// `close(2)`, `close_range(2)`, and calls that replace an open descriptor.
    pub(crate) fn sys_close(&self, cpu: CpuId, call: &Call) -> Out {
        let mut call = *call;
        if call.nr == nr::CLOSE_RANGE && call.args[2] & CLOSE_RANGE_UNSHARE != 0 {
            if let Some(first) = self.stop_sharing(abi::clone_flags::FILES) {
                return first;
            }
            call.args[2] &= !CLOSE_RANGE_UNSHARE;
        }
        let call = &call;
        if call.nr == nr::CLOSE_RANGE {
            self.back_files();
        }
        // With another flag, nothing is closed.
        if call.nr == nr::CLOSE_RANGE && call.args[2] != 0 {
            return self.pass(cpu, call);
        }
        let (first, last) = match call.nr {
            nr::CLOSE => (call.args[0], call.args[0]),
            nr::CLOSE_RANGE => (call.args[0], call.args[1]),
            _ => (call.args[1], call.args[1]),
        };
        if let Some(own) =
            self.state().ready.poller.descriptor().filter(|&own| (first as u32..=last as u32).contains(&own))
        {
            match call.nr {
                nr::CLOSE => return Errno::EBADF.into(),
                nr::CLOSE_RANGE => return self.close_around(cpu, call, own),
                _ => self.state().ready.poller.move_away(&self.m, own),
            }
        }
        if self.strikes(Fault::KeepOpen) {
            return Out::Done(0);
        }
        let is_kept = call.nr == nr::DUP2 && call.args[0] as u32 == first as u32;
        if !is_kept {
            let number = |arg: u64| (arg as u32).min(i32::MAX as u32) as i32;
            self.state().owners.forget(number(first), number(last));
        }
        self.descriptors_close(cpu, first as u32, last as u32);
        self.state().proc.files.spare(first as u32, last as u32);
        if self.state().proc.files.is_empty() {
            return self.close_passed(cpu, call);
        }
        if call.nr != nr::CLOSE {
            self.state().proc.files.forget(first as u32, last as u32);
            return self.close_passed(cpu, call);
        }
        match self.state().proc.files.remove(first as i32) {
            // Closing a duplicate of the blank never waits.
            Some(file) if !file.backed => Out::Done(self.host(call)),
            _ => self.close_passed(cpu, call),
        }
    }

    fn close_passed(&self, cpu: CpuId, call: &Call) -> Out {
        let out = self.pass(cpu, call);
        if matches!(out, Out::Done(_)) {
            self.note_closed(call);
        }
        out
    }

    /// `close_range(2)` across the poller's descriptor, which stays open.
    fn close_around(&self, cpu: CpuId, call: &Call, own: u32) -> Out {
        let (first, last) = (call.args[0] as u32, call.args[1] as u32);
        let below = (first < own).then(|| (first, own - 1));
        let above = (own < last).then(|| (own + 1, last));
        let mut out = Out::Done(0);
        for (first, last) in below.into_iter().chain(above) {
            let mut part = *call;
            (part.args[0], part.args[1]) = (first.into(), last.into());
            out = self.sys_close(cpu, &part);
        }
        out
    }

    /// `dup(2)` and similar calls: the new descriptor refers to the same file.
    pub(crate) fn sys_dup(&self, cpu: CpuId, call: &Call) -> Out {
        self.back_files();
        let known = match call.nr {
            _ if self.state().proc.files.is_empty() => None,
            nr::FCNTL if !matches!(call.args[1], F_DUPFD | F_DUPFD_CLOEXEC) => None,
            _ => self.state().proc.files.find(call.args[0] as i32),
        };
        let Some(file) = known else {
            return match call.nr {
                nr::DUP2 | nr::DUP3 => self.sys_close(cpu, call),
                _ => self.pass(cpu, call),
            };
        };
        if matches!(call.nr, nr::DUP2 | nr::DUP3) {
            self.state().proc.files.spare(call.args[1] as u32, call.args[1] as u32);
        }
        let fd = self.host(call);
        if fd >= 0 && fd as u64 != call.args[0] {
            // Either of the two may be read first: neither is fresh.
            let file = OpenFile { fresh: false, ..file };
            self.state().proc.files.change(call.args[0] as i32, |old| old.fresh = false);
            self.state().proc.files.insert(fd as i32, file);
        }
        Out::Done(fd)
    }
}
