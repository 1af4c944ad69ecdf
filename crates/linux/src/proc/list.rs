//! Listing the threads: `getdents64(2)` of a task directory. All other directories have the host's names.

use super::view::View;
use super::{SEEK_CUR, SEEK_SET};
use crate::{Host, Linux};
use abi::Errno;
use ids::{CpuId, ThreadIdx};
use kernel::WAKES_MAX;
use kernel::machine::Call;
use kernel::trap::Out;
use procfs::node::Dir;

/// The size of a `struct linux_dirent64` without the name.
const HEAD: usize = 19;

impl<M: Host> Linux<'_, M> {
    /// `getdents64(2)`: at most 64 names at a time, as if the buffer were full.
    pub(crate) fn sys_getdents(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [fd, to, size, ..] = call.args;
        let Some(file) = self.state().proc.files.find(fd as i32) else {
            // The directory may be a list of descriptors.
            self.back_files();
            return self.pass(cpu, call);
        };
        if file.reads && !self.proc_lives(&file.node) {
            return Errno::ENOENT.into();
        }
        if file.node.dir() != Some(Dir::Tasks) || !file.reads {
            return self.pass(cpu, call);
        }
        let owner = self.proc_owner();
        let view = View { k: *self, owner };
        let caller = self.proc_caller(t, &owner, false);
        let (mut used, mut fault, mut full) = (0_u64, false, false);
        let options = *self.proc_tree().options();
        let told = procfs::list::list(&view, &caller, &options, &file.node, file.cursor, WAKES_MAX, |listed| {
            let mut entry = [0; 64];
            let len = (HEAD + listed.name.len() + 1).next_multiple_of(8);
            full = used + len as u64 > size;
            if full || fault {
                return false;
            }
            entry[..8].copy_from_slice(&listed.inode.to_le_bytes());
            entry[8..16].copy_from_slice(&listed.next.to_le_bytes());
            entry[16..18].copy_from_slice(&(len as u16).to_le_bytes());
            entry[18] = listed.kind;
            entry[HEAD..HEAD + listed.name.len()].copy_from_slice(listed.name);
            fault = self.m.write(to + used, &entry[..len]).is_err();
            used += if fault { 0 } else { len as u64 };
            !fault
        });
        let cursor = match told {
            Ok(cursor) => cursor,
            Err(e) => return e.into(),
        };
        if used == 0 && fault {
            return Errno::EFAULT.into();
        }
        if used == 0 && full {
            return Errno::EINVAL.into();
        }
        self.state().proc.files.change(fd as i32, |file| file.cursor = cursor);
        Out::Done(used as isize)
    }

    /// `lseek(2)` of such a directory: to a cursor it returned, or to the beginning.
    pub(crate) fn sys_lseek(&self, cpu: CpuId, call: &Call) -> Out {
        let [fd, offset, whence, ..] = call.args;
        let Some(file) = self.state().proc.files.find(fd as i32) else { return self.pass(cpu, call) };
        if !file.backed
            && let Some(out) = self.seek_bare(fd as i32, offset, whence)
        {
            return out;
        }
        if file.node.dir() != Some(Dir::Tasks) || !file.reads {
            return self.pass(cpu, call);
        }
        let to = match whence {
            SEEK_SET => offset,
            SEEK_CUR => file.cursor.wrapping_add(offset),
            _ => return Errno::EINVAL.into(),
        };
        if to as i64 <= -1 {
            return Errno::EINVAL.into();
        }
        self.state().proc.files.change(fd as i32, |file| file.cursor = to);
        Out::Done(to as isize)
    }
}
