//! `/proc` as the program itself sees it. Paths below `/proc/self`, `/proc/thread-self`, and `/proc/PID` or `/proc/TID`
//! of this process are ours. All others are left to the host, which has carriers where the program has threads.
//!
//! * [`path`]: which paths are ours. For a path that does not begin with `/proc/`, only its first bytes are read.
//! * [`calls`]: `stat`, `access`, `readlink` and similar calls are answered in the trap, by a walk of `procfs::Tree`
//!   that writes nothing shared.
//! * [`open`], [`files`], [`bare`]: an open file of ours has a number of the host's. As long as it is only read, the
//!   host has an empty file behind it; before anyone can see that, it becomes an anonymous file with the text in it, so
//!   that polling, duplicating and passing it on work as natively.
//! * [`contents`]: the texts, made from the host's own ([`stat`], [`status`]) and what we know better.
//! * [`view`]: the thread table as the tree asks for it.
//! * [`online`]: a file of `/sys` that is ours, too.
//!
//! The host answers for files that all threads share (`maps`, `exe`, `fd/`, …). For one below a thread, it gets the
//! process's own id.

mod bare;
mod calls;
mod contents;
mod files;
mod how;
mod known;
mod list;
mod online;
mod open;
mod path;
mod stat;
mod status;
mod view;

use crate::facts;
use crate::machine::Arg::{In, Out, Word};
use crate::{Host, Linux};
use abi::args::{AT_FDCWD, O_CLOEXEC, O_RDWR, O_TMPFILE, PR_GET_DUMPABLE, SEEK_CUR, SEEK_SET};
use abi::{Errno, nr};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::CStr;
use ids::{Nanos, ThreadIdx};
use once_cell::race::OnceBox;
use procfs::{Caller, Options, Owner, Policy, Tree};
use sync::atomic::{AtomicU64, Ordering::*};

pub(crate) use files::OpenFiles;
use known::Known;
use stat::KnownStat;
use status::KnownStatus;

/// The number of cached names: 128 bytes each, allocated when used.
const NAMES: usize = 1 << 13;
/// How long the host's answers about the process are cached: a tick of Linux.
const FACTS_LAST: Nanos = Nanos::from_millis(4);
/// Size of `struct statx`.
const STATX_SIZE: usize = 256;

/// The process's state of `/proc`.
#[derive(Debug, Default)]
pub(crate) struct ProcRoom {
    tree: OnceBox<Tree>,
    pub(crate) files: OpenFiles,
    /// The owner of the process, according to the host.
    owner: Known<OWNER_WORDS>,
    /// `struct statx` of `/proc/self/task`: device, block size and times, as for all its files. They hardly ever
    /// change, and need not change together.
    statx: [AtomicU64; STATX_WORDS],
    stat: KnownStat,
    status: KnownStatus,
    /// Incremented when the credentials of threads change, which invalidates cached answers.
    changes: AtomicU64,
}

const OWNER_WORDS: usize = 4;
const STATX_WORDS: usize = STATX_SIZE / 8;

/// In the form that [`Linux::ask_host`] caches.
fn owner_of([first, second, third, dumpable]: [u64; OWNER_WORDS]) -> Owner {
    let halves = |word: u64| (word as u32, (word >> 32) as u32);
    let ((ruid, euid), (suid, rgid), (egid, sgid)) = (halves(first), halves(second), halves(third));
    Owner { uids: [ruid, euid, suid], gids: [rgid, egid, sgid], dumpable: dumpable != 0 }
}

impl ProcRoom {
    /// Called before and after credentials, or what depends on them, change.
    pub(crate) fn rights_change(&self) {
        self.changes.fetch_add(1, AcqRel);
    }
}

impl<M: Host> Linux<'_, M> {
    fn proc_tree(&self) -> &Tree {
        self.state().proc.tree.get_or_init(|| {
            let tree = Tree::new(self.config().cpus, NAMES, Options::default(), Policy::ENTRESOL);
            Box::new(tree.with_barrier(M::BARRIER))
        })
    }

    /// The process's owner. Changes by the program are seen at once, changes by others (the maps of a user namespace)
    /// after [`FACTS_LAST`].
    #[inline]
    fn proc_owner(&self) -> Owner {
        let (now, changes) = (self.now(), self.state().proc.changes.load(Acquire));
        let since = Nanos(now.0.saturating_sub(FACTS_LAST.0));
        match self.state().proc.owner.get(since, changes) {
            Some(words) => owner_of(words),
            None => self.ask_host(now, changes),
        }
    }

    #[cold]
    #[inline(never)]
    fn ask_host(&self, now: Nanos, changes: u64) -> Owner {
        let mut ids = [[0_u32; 3]; 2];
        for (nr, ids) in [nr::GETRESUID, nr::GETRESGID].into_iter().zip(&mut ids) {
            let mut answers = [[0; 4]; 3];
            let [real, effective, saved] = &mut answers;
            self.ask(nr, &mut [Out(real), Out(effective), Out(saved)]);
            *ids = answers.map(u32::from_le_bytes);
        }
        let dumpable = self.ask(nr::PRCTL, &mut [Word(PR_GET_DUMPABLE)]) == 1;
        const ALL: u64 = 0xfff;
        let statx = self.statx(AT_FDCWD, c"/proc/self/task", 0, ALL).unwrap_or([0; STATX_WORDS]);
        for (to, word) in self.state().proc.statx.iter().zip(statx) {
            to.store(word, Relaxed);
        }
        let [[ruid, euid, suid], [rgid, egid, sgid]] = ids;
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let words = [word(ruid, euid), word(suid, rgid), word(egid, sgid), dumpable.into()];
        self.state().proc.owner.set(now, changes, &words);
        owner_of(words)
    }

    /// The caller `t`, by its effective ids, or for `access(2)` by its real ones.
    fn proc_caller(&self, t: ThreadIdx, owner: &Owner, real: bool) -> Caller<'static> {
        let which = if real { 0 } else { 1 };
        Caller {
            process: self.config().pid.0,
            thread: self.tid(t).0,
            fsuid: owner.uids[which],
            fsgid: owner.gids[which],
            groups: &[],
            traces: owner.uids[which] == 0,
            overrides: owner.uids[which] == 0,
        }
    }

    /// The text of a host file; empty if it cannot be read.
    fn read_host_file(&self, path: &CStr) -> Vec<u8> {
        const SIZE: usize = 8192;
        let mut text = Vec::new();
        if text.try_reserve_exact(SIZE).is_err() {
            return text;
        }
        text.resize(SIZE, 0_u8);
        let len = facts::read_file(&self.m, path, &mut text).len();
        text.truncate(len);
        text
    }

    /// Creates an anonymous host file: its descriptor, or the host's error.
    fn host_memory_file(&self, close_on_exec: bool) -> isize {
        // MFD_CLOEXEC
        let flags = u64::from(close_on_exec);
        let made = self.ask(nr::MEMFD_CREATE, &mut [In(c"proc".to_bytes_with_nul()), Word(flags)]);
        // Some sandboxes forbid it, because such a file may be executed (systemd.exec(5), MemoryDenyWriteExecute).
        if made == Errno::EPERM.to_ret() || made == Errno::ENOSYS.to_ret() {
            // Lazily: the second folder is only for a host without the first one.
            let mut unnamed = [c"/dev/shm", c"/tmp"].iter().map(|folder| self.unnamed_file(folder, close_on_exec));
            return unnamed.find(|&file| file >= 0).unwrap_or(made);
        }
        made
    }

    /// Creates a host file without a name in a folder.
    fn unnamed_file(&self, folder: &CStr, close_on_exec: bool) -> isize {
        let flags = O_TMPFILE | O_RDWR | if close_on_exec { O_CLOEXEC } else { 0 };
        let folder = In(folder.to_bytes_with_nul());
        self.ask(nr::OPENAT, &mut [Word(AT_FDCWD), folder, Word(flags), Word(0o600)])
    }

    /// `statx(2)` in words.
    fn statx(&self, dirfd: u64, path: &CStr, flags: u64, mask: u64) -> Option<[u64; STATX_WORDS]> {
        let mut known = [[0; 8]; STATX_WORDS];
        let to = Out(known.as_flattened_mut());
        let path = In(path.to_bytes_with_nul());
        let result = self.ask(nr::STATX, &mut [Word(dirfd), path, Word(flags), Word(mask), to]);
        (result == 0).then(|| known.map(u64::from_le_bytes))
    }
}
