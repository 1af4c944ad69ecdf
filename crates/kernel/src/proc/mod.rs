//! `/proc` as the program itself sees it: paths that begin with `/proc/self`, `/proc/thread-self`, `/proc/PID` or
//! `/proc/TID` of this process are ours, all else is the host's, which has carriers where the program has threads.
//!
//! * [`path`]: which paths are ours. What does not begin with `/proc/` costs a look at its first bytes.
//! * [`calls`]: `stat`, `access`, `readlink` and their kin are answered in the trap, by a walk of `procfs::Tree` that
//!   writes nothing shared.
//! * [`open`]: an open file of ours is an anonymous file of the host with the text in it, so that reading, seeking,
//!   polling and passing it on are what they are natively; [`files`] remembers which these are, for what
//!   must not be the host's: reading of the dead, writing a name, listing threads.
//! * [`contents`]: the texts, made from the host's own and what we know better.
//! * [`view`]: the thread table as the tree asks for it.
//!
//! What all threads share (`maps`, `exe`, `fd/`, …) the host answers, under the process's own id when it is asked for
//! below a thread.

mod calls;
mod contents;
mod files;
mod list;
mod open;
mod path;
mod view;

use crate::machine::{Call, Machine};
use crate::{Kernel, ThreadIdx};
use abi::nr;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::Nanos;
use once_cell::race::OnceBox;
use procfs::{Caller, Options, Owner, Policy, Tree};
use sync::Lock;
use sync::atomic::{AtomicU64, Ordering::*};

pub(crate) use files::OpenFiles;

/// Names remembered: 128 bytes each, in memory that is taken as they come.
const NAMES: usize = 1 << 15;
/// What the host says of the process is asked again after so long: a tick of Linux.
const FACTS_LAST: Nanos = Nanos::from_millis(4);
const AT_FDCWD: u64 = -100_i64 as u64;
const PR_GET_DUMPABLE: u64 = 3;
/// Size of `struct statx`.
const STATX_SIZE: usize = 256;

/// The process's part of `/proc`.
#[derive(Debug, Default)]
pub(crate) struct ProcRoom {
    tree: OnceBox<Tree>,
    pub(crate) files: OpenFiles,
    facts: Lock<Facts>,
    /// Raised when what a thread may do changes: facts of before do not count.
    changes: AtomicU64,
}

/// What the host has said of the process.
#[derive(Debug, Clone, Copy)]
struct Facts {
    /// When, and how many changes there had been.
    asked: Option<(Nanos, u64)>,
    owner: Owner,
    /// `statx(2)` of `/proc/self/task`: device, block size and the like are those of all its files.
    statx: [u8; STATX_SIZE],
}

impl Default for Facts {
    fn default() -> Facts {
        Facts { asked: None, owner: Owner::default(), statx: [0; STATX_SIZE] }
    }
}

impl ProcRoom {
    /// Credentials, or what comes with them, are about to change.
    pub(crate) fn rights_change(&self) {
        self.changes.fetch_add(1, Relaxed);
    }
}

impl<M: Machine> Kernel<M> {
    fn proc_tree(&self) -> &Tree {
        self.proc
            .tree
            .get_or_init(|| Box::new(Tree::new(self.config.cpus, NAMES, Options::default(), Policy::ENTRESOL)))
    }

    /// Whose the process is, and what the host's own files there look like: at most [`FACTS_LAST`] old.
    fn proc_facts(&self) -> Facts {
        let (now, changes) = (self.m.now(), self.proc.changes.load(Relaxed));
        let known = *self.proc.facts.lock();
        match known.asked {
            Some((then, with)) if with == changes && now.since(then) < FACTS_LAST => known,
            _ => {
                let facts = Facts { asked: Some((now, changes)), ..self.ask_host() };
                *self.proc.facts.lock() = facts;
                facts
            }
        }
    }

    #[cold]
    fn ask_host(&self) -> Facts {
        let mut ids = [[0_u32; 3]; 2];
        for (nr, ids) in [nr::GETRESUID, nr::GETRESGID].into_iter().zip(&mut ids) {
            let at = ids.as_mut_ptr() as u64;
            self.m.host(Call { nr, args: [at, at + 4, at + 8, 0, 0, 0] });
        }
        let dumpable = self.m.host(Call { nr: nr::PRCTL, args: [PR_GET_DUMPABLE, 0, 0, 0, 0, 0] }) == 1;
        let mut statx = [0; STATX_SIZE];
        let path = c"/proc/self/task".as_ptr() as u64;
        let all = 0xfff;
        self.m.host(Call { nr: nr::STATX, args: [AT_FDCWD, path, 0, all, statx.as_mut_ptr() as u64, 0] });
        Facts { asked: None, owner: Owner { uids: ids[0], gids: ids[1], dumpable }, statx }
    }

    /// Thread `t` as one who asks, by its effective ids, or for `access(2)` by its real ones.
    fn proc_caller(&self, t: ThreadIdx, owner: &Owner, real: bool) -> Caller<'static> {
        let which = if real { 0 } else { 1 };
        Caller {
            process: self.config.pid.0,
            thread: self.tid(t).0,
            fsuid: owner.uids[which],
            fsgid: owner.gids[which],
            groups: &[],
            traces: owner.uids[which] == 0,
            overrides: owner.uids[which] == 0,
        }
    }

    /// The text of a file of the host's; empty if it cannot be read.
    fn read_host_file(&self, path: &core::ffi::CStr) -> Vec<u8> {
        const SIZE: usize = 8192;
        let mut text = Vec::new();
        if text.try_reserve_exact(SIZE).is_err() {
            return text;
        }
        text.resize(SIZE, 0_u8);
        let fd = self.m.host(Call { nr: nr::OPENAT, args: [AT_FDCWD, path.as_ptr() as u64, O_CLOEXEC, 0, 0, 0] });
        let mut len = 0;
        if fd >= 0 {
            let at = text.as_mut_ptr() as u64;
            let got = self.m.host(Call { nr: nr::PREAD64, args: [fd as u64, at, SIZE as u64, 0, 0, 0] });
            len = got.clamp(0, SIZE as isize) as usize;
            self.m.host(Call { nr: nr::CLOSE, args: [fd as u64, 0, 0, 0, 0, 0] });
        }
        text.truncate(len);
        text
    }
}

const O_CLOEXEC: u64 = 0o2000000;
