//! `/proc` as the program itself sees it: paths that begin with `/proc/self`, `/proc/thread-self`, `/proc/PID` or
//! `/proc/TID` of this process are ours, all else is the host's, which has carriers where the program has threads.
//!
//! * [`path`]: which paths are ours. What does not begin with `/proc/` costs a look at its first bytes.
//! * [`calls`]: `stat`, `access`, `readlink` and their kin are answered in the trap, by a walk of `procfs::Tree` that
//!   writes nothing shared.
//! * [`open`], [`files`], [`bare`]: an open file of ours has a number of the host's. While it is only read it is
//!   nothing else; before it can be shown to anybody it becomes an anonymous file with the text in it, so that polling,
//!   duplicating and passing it on are what they are natively.
//! * [`contents`]: the texts, made from the host's own and what we know better.
//! * [`view`]: the thread table as the tree asks for it.
//!
//! What all threads share (`maps`, `exe`, `fd/`, …) the host answers, under the process's own id when it is asked for
//! below a thread.

mod bare;
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
use procfs::text::stat::Stat;
use procfs::{Caller, Options, Owner, Policy, Tree};
use sync::atomic::{AtomicU64, Ordering::*};
use sync::{Lock, SeqCount};

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
    facts: KnownFacts,
    /// The host's `stat` of the process, and when it was read.
    stat: Lock<Option<(Nanos, Stat)>>,
    /// Raised when what a thread may do changes: facts of before do not count.
    changes: AtomicU64,
}

/// What the host has said of the process.
#[derive(Debug, Clone, Copy)]
struct Facts {
    owner: Owner,
    /// The words of `struct statx` of `/proc/self/task` that all its files share.
    statx: StatxWords,
}

type StatxWords = [u64; STATX_SIZE / 8];
/// Facts as words: when they were asked for, the changes by then, owner, `statx`.
const FACT_WORDS: usize = 2 + 4 + STATX_SIZE / 8;

/// Facts that are read without a write, as look-ups must.
#[derive(Debug)]
struct KnownFacts {
    seq: SeqCount,
    words: [AtomicU64; FACT_WORDS],
    writer: Lock<()>,
}

impl Default for KnownFacts {
    fn default() -> KnownFacts {
        let words = core::array::from_fn(|_| AtomicU64::new(0));
        KnownFacts { seq: SeqCount::default(), words, writer: Lock::new(()) }
    }
}

impl KnownFacts {
    /// The facts, if they were asked for after `since` and with as many changes.
    fn get(&self, since: Nanos, changes: u64) -> Option<Facts> {
        let begun = self.seq.begin();
        let words: [u64; FACT_WORDS] = core::array::from_fn(|i| self.words[i].load(Relaxed));
        if !self.seq.holds(begun) || words[0] <= since.0 || words[1] != changes {
            return None;
        }
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let ([ruid, euid], [suid, rgid], [egid, sgid]) = (halves(words[2]), halves(words[3]), halves(words[4]));
        let owner = Owner { uids: [ruid, euid, suid], gids: [rgid, egid, sgid], dumpable: words[5] != 0 };
        Some(Facts { owner, statx: core::array::from_fn(|i| words[6 + i]) })
    }

    fn set(&self, at: Nanos, changes: u64, facts: &Facts) {
        let _one_writer = self.writer.lock();
        let _writing = self.seq.write();
        let ([ruid, euid, suid], [rgid, egid, sgid]) = (facts.owner.uids, facts.owner.gids);
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let head = [at.0, changes, word(ruid, euid), word(suid, rgid), word(egid, sgid), facts.owner.dumpable.into()];
        for (to, word) in self.words.iter().zip(head.into_iter().chain(facts.statx)) {
            to.store(word, Relaxed);
        }
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
        let since = Nanos(now.0.saturating_sub(FACTS_LAST.0));
        self.proc.facts.get(since, changes).unwrap_or_else(|| {
            let facts = self.ask_host();
            self.proc.facts.set(now, changes, &facts);
            facts
        })
    }

    #[cold]
    fn ask_host(&self) -> Facts {
        let mut ids = [[0_u32; 3]; 2];
        for (nr, ids) in [nr::GETRESUID, nr::GETRESGID].into_iter().zip(&mut ids) {
            let at = ids.as_mut_ptr() as u64;
            self.m.host(Call { nr, args: [at, at + 4, at + 8, 0, 0, 0] });
        }
        let dumpable = self.m.host(Call { nr: nr::PRCTL, args: [PR_GET_DUMPABLE, 0, 0, 0, 0, 0] }) == 1;
        let mut statx = [0; STATX_SIZE / 8];
        let path = c"/proc/self/task".as_ptr() as u64;
        let all = 0xfff;
        self.m.host(Call { nr: nr::STATX, args: [AT_FDCWD, path, 0, all, statx.as_mut_ptr() as u64, 0] });
        Facts { owner: Owner { uids: ids[0], gids: ids[1], dumpable }, statx }
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
