//! The names of our threads under `/proc`: `pthread_setname_np` and `pthread_getname_np` of
//! another thread open `/proc/self/task/TID/comm`, and the host has no such thread.
//!
//! What is opened is an anonymous file that holds the name. Writes to it would be lost, so
//! the descriptors that may write are remembered until they are closed, and a write is taken as
//! the new name.

use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::{Kernel, ThreadIdx};
use abi::{Errno, nr};
use alloc::collections::BTreeMap;
use ids::{CpuId, Tid};
use sync::Lock;
use sync::atomic::{AtomicBool, Ordering::*};

const O_ACCMODE: u64 = 3;
const O_CLOEXEC: u64 = 0o2000000;
const MFD_CLOEXEC: u64 = 1;
/// The longest path of interest: two numbers of ten digits.
const PATH_MAX: usize = 48;

/// Open descriptors whose writes name a thread.
#[derive(Debug, Default)]
pub(crate) struct NameFiles {
    open: Lock<BTreeMap<i32, Tid>>,
    /// Most programs never have any.
    any: AtomicBool,
}

impl NameFiles {
    fn insert(&self, fd: i32, tid: Tid) {
        self.open.lock().insert(fd, tid);
        self.any.store(true, Release);
    }

    fn find(&self, fd: i32) -> Option<Tid> {
        if self.any.load(Acquire) { self.open.lock().get(&fd).copied() } else { None }
    }

    /// These descriptors are something else from now on.
    fn forget(&self, first: u32, last: u32) {
        if self.any.load(Acquire) {
            let mut open = self.open.lock();
            open.retain(|&fd, _| !(first..=last).contains(&(fd as u32)));
            self.any.store(!open.is_empty(), Release);
        }
    }
}

impl<M: Machine> Kernel<M> {
    pub(crate) fn sys_open(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let (path, flags) =
            if call.nr == nr::OPEN { (call.args[0], call.args[1]) } else { (call.args[1], call.args[2]) };
        match self.thread_of_comm(t, path) {
            Some(target) => self.open_comm(target, flags),
            None => self.pass(cpu, call),
        }
    }

    pub(crate) fn sys_write(&self, cpu: CpuId, call: &Call) -> Out {
        let [fd, from, len, ..] = call.args;
        match self.process.name_files.find(fd as i32) {
            Some(tid) => self.write_comm(tid, from, len),
            None => self.pass(cpu, call),
        }
    }

    /// `close(2)`, `close_range(2)`, and what opens over an old descriptor.
    pub(crate) fn sys_close(&self, cpu: CpuId, call: &Call) -> Out {
        let (first, last) = match call.nr {
            nr::CLOSE => (call.args[0], call.args[0]),
            nr::CLOSE_RANGE => (call.args[0], call.args[1]),
            _ => (call.args[1], call.args[1]),
        };
        self.process.name_files.forget(first as u32, last as u32);
        self.pass(cpu, call)
    }

    /// The thread whose name a path stands for.
    fn thread_of_comm(&self, t: ThreadIdx, path: u64) -> Option<ThreadIdx> {
        let mut bytes = [0; PATH_MAX];
        let path = self.read_proc_path(path, &mut bytes)?;
        if path == "thread-self/comm" {
            return Some(t);
        }
        let (process, rest) = path.split_once("/task/")?;
        if process != "self" && process.parse() != Ok(self.config.pid.0) {
            return None;
        }
        self.threads().find(Tid(rest.strip_suffix("/comm")?.parse().ok()?))
    }

    /// What follows `/proc/` in a path of the program's, if it begins so and is short. Not a byte is
    /// read behind its end.
    fn read_proc_path<'a>(&self, at: u64, bytes: &'a mut [u8; PATH_MAX]) -> Option<&'a str> {
        const PREFIX: &[u8] = b"/proc/";
        for i in 0..PATH_MAX {
            self.m.read(at.wrapping_add(i as u64), &mut bytes[i..=i]).ok()?;
            if i < PREFIX.len() && bytes[i] != PREFIX[i] {
                return None;
            }
            if bytes[i] == 0 {
                return core::str::from_utf8(&bytes[PREFIX.len()..i]).ok();
            }
        }
        None
    }

    fn open_comm(&self, target: ThreadIdx, flags: u64) -> Out {
        let close = if flags & O_CLOEXEC != 0 { MFD_CLOEXEC } else { 0 };
        let fd = self.m.host(Call { nr: nr::MEMFD_CREATE, args: [c"comm".as_ptr() as u64, close, 0, 0, 0, 0] });
        if fd < 0 {
            return Out::Done(fd);
        }
        let name = self.thread(target).name_bytes();
        let len = name.iter().position(|&b| b == 0).unwrap_or(15);
        let mut line = [b'\n'; 16];
        line[..len].copy_from_slice(&name[..len]);
        self.m.host(Call { nr: nr::PWRITE64, args: [fd as u64, line.as_ptr() as u64, len as u64 + 1, 0, 0, 0] });
        if flags & O_ACCMODE != 0 {
            self.process.name_files.insert(fd as i32, self.tid(target));
        }
        Out::Done(fd)
    }

    /// The first 15 bytes count, and all are taken (`comm_write`).
    fn write_comm(&self, tid: Tid, from: u64, len: u64) -> Out {
        let mut name = [0; 16];
        if self.m.read(from, &mut name[..len.min(15) as usize]).is_err() {
            return Errno::EFAULT.into();
        }
        let Some(target) = self.threads().find(tid) else { return Errno::ESRCH.into() };
        self.thread(target).set_name(&name);
        self.named(target);
        Out::Done(len as isize)
    }
}
