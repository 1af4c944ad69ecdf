//! `/proc` as the program itself sees it: paths that begin with `/proc/self`, `/proc/thread-self`, `/proc/PID` or
//! `/proc/TID` of this process are ours, all else is the host's, which has carriers where the program has threads.
//!
//! * [`path`]: which paths are ours. What does not begin with `/proc/` costs a look at its first bytes.
//! * [`calls`]: `stat`, `access`, `readlink` and their kin are answered in the trap, by a walk of `procfs::Tree` that
//!   writes nothing shared.
//! * [`open`], [`files`], [`bare`]: an open file of ours has a number of the host's. As long as it is only read, the host
//!   has an empty file behind it; before anyone can see that, it becomes an anonymous file with the text in it, so that
//!   polling, duplicating and passing it on work as they do natively.
//! * [`contents`]: the texts, made from the host's own ([`stat`], [`status`]) and what we know better.
//! * [`view`]: the thread table as the tree asks for it.
//!
//! The host answers for files that all threads share (`maps`, `exe`, `fd/`, …), under the process's own id when asked for
//! below a thread.

mod bare;
mod calls;
mod contents;
mod files;
mod how;
mod list;
mod open;
mod path;
mod stat;
mod status;
mod view;

use crate::facts;
use crate::machine::Arg::{In, Out, Word};
use crate::{Host, Linux};
use abi::args::{O_CLOEXEC, PR_GET_DUMPABLE, SEEK_CUR, SEEK_SET};
use abi::nr;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::CStr;
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::cpu::bump;
use once_cell::race::OnceBox;
use procfs::{Caller, Options, Owner, Policy, Tree};
use sync::atomic::{AtomicU64, Ordering::*};
use sync::{Lock, SeqCount};

pub(crate) use files::OpenFiles;
use stat::KnownStat;
use status::KnownStatus;

/// Names remembered: 128 bytes each, in memory that is taken as they come.
const NAMES: usize = 1 << 13;
/// How long the host's answers about the process are used: a tick of Linux.
const FACTS_LAST: Nanos = Nanos::from_millis(4);
/// Every so many look-ups of a CPU the clock is asked whether that is so.
const LOOKS_WITHOUT_CLOCK: u64 = 32;
const AT_FDCWD: u64 = -100_i64 as u64;
/// Size of `struct statx`.
const STATX_SIZE: usize = 256;

/// The process's part of `/proc`.
#[derive(Debug, Default)]
pub(crate) struct ProcRoom {
    tree: OnceBox<Tree>,
    pub(crate) files: OpenFiles,
    facts: KnownFacts,
    /// The host's last answer about the process.
    stat: KnownStat,
    status: KnownStatus,
    /// Raised when what a thread may do changes: facts of before do not count.
    changes: AtomicU64,
}

/// The host's answers about the process, readable without a write, as look-ups require.
#[derive(Debug)]
struct KnownFacts {
    /// Around `words`.
    seq: SeqCount,
    /// When they were asked for, the changes by then, and the owner.
    words: [AtomicU64; FACT_WORDS],
    /// `struct statx` of `/proc/self/task`: device, block size and times, as all its files have them. They hardly ever
    /// change, and nothing depends on their changing together.
    statx: [AtomicU64; STATX_WORDS],
    writer: Lock<()>,
}

const FACT_WORDS: usize = 6;
const STATX_WORDS: usize = STATX_SIZE / 8;

impl Default for KnownFacts {
    fn default() -> KnownFacts {
        let (words, statx) = Default::default();
        KnownFacts { seq: SeqCount::default(), words, statx, writer: Lock::new(()) }
    }
}

impl KnownFacts {
    /// The owner, if it was asked after `since` and with as many changes.
    #[inline(always)]
    fn owner(&self, since: Nanos, changes: u64) -> Option<Owner> {
        let begun = self.seq.begin();
        let word = |i: usize| self.words[i].load(Relaxed);
        let halves = |i: usize| (word(i) as u32, (word(i) >> 32) as u32);
        let ((ruid, euid), (suid, rgid), (egid, sgid)) = (halves(2), halves(3), halves(4));
        let is_new = word(0) > since.0 && word(1) == changes;
        let dumpable = word(5) != 0;
        (is_new && self.seq.holds(begun)).then_some(Owner {
            uids: [ruid, euid, suid],
            gids: [rgid, egid, sgid],
            dumpable,
        })
    }

    fn set(&self, at: Nanos, changes: u64, owner: &Owner, statx: &[u64; STATX_WORDS]) {
        let _one_writer = self.writer.lock();
        let _writing = self.seq.write();
        let ([ruid, euid, suid], [rgid, egid, sgid]) = (owner.uids, owner.gids);
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let all = [at.0, changes, word(ruid, euid), word(suid, rgid), word(egid, sgid), owner.dumpable.into()];
        for (to, word) in self.words.iter().chain(&self.statx).zip(all.iter().chain(statx)) {
            to.store(*word, Relaxed);
        }
    }
}

impl ProcRoom {
    /// Credentials, or what comes with them, are about to change, or have.
    pub(crate) fn rights_change(&self) {
        self.changes.fetch_add(1, AcqRel);
    }
}

impl<M: Host> Linux<'_, M> {
    fn proc_tree(&self) -> &Tree {
        self.state().proc.tree.get_or_init(|| {
            let tree = Tree::new(self.config().cpus, NAMES, Options::default(), Policy::ENTRESOL);
            Box::new(tree.with_barrier(self.m.barrier()))
        })
    }

    /// The process's owner. Changes by the program are noticed at once; changes by others (the maps of a user
    /// namespace) after
    /// [`FACTS_LAST`], or after some number of look-ups on this CPU: reading the clock takes a quarter of one.
    #[inline(always)]
    fn proc_owner(&self, cpu: CpuId) -> Owner {
        let looks = &self.cpu(cpu).looks;
        bump(looks);
        let changes = self.state().proc.changes.load(Acquire);
        if !looks.load(Relaxed).is_multiple_of(LOOKS_WITHOUT_CLOCK)
            && let Some(owner) = self.state().proc.facts.owner(Nanos::ZERO, changes)
        {
            return owner;
        }
        self.proc_owner_by_clock(changes)
    }

    #[cold]
    #[inline(never)]
    fn proc_owner_by_clock(&self, changes: u64) -> Owner {
        let now = self.m.now();
        let since = Nanos(now.0.saturating_sub(FACTS_LAST.0));
        match self.state().proc.facts.owner(since, changes) {
            Some(owner) => owner,
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
            self.m.ask(nr, &mut [Out(real), Out(effective), Out(saved)]);
            *ids = answers.map(u32::from_le_bytes);
        }
        let dumpable = self.m.ask(nr::PRCTL, &mut [Word(PR_GET_DUMPABLE)]) == 1;
        const ALL: u64 = 0xfff;
        let statx = self.statx(AT_FDCWD, c"/proc/self/task", 0, ALL).unwrap_or([0; STATX_WORDS]);
        let owner = Owner { uids: ids[0], gids: ids[1], dumpable };
        self.state().proc.facts.set(now, changes, &owner, &statx);
        owner
    }

    /// Thread `t` as one who asks, by its effective ids, or for `access(2)` by its real ones.
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

    /// The text of a file of the host's; empty if it cannot be read.
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

    /// An anonymous file of the host's: its descriptor, or the host's refusal.
    fn host_memory_file(&self, close_on_exec: bool) -> isize {
        // MFD_CLOEXEC
        let flags = u64::from(close_on_exec);
        self.m.ask(nr::MEMFD_CREATE, &mut [In(c"proc".to_bytes_with_nul()), Word(flags)])
    }

    /// `statx(2)` in words.
    fn statx(&self, dirfd: u64, path: &CStr, flags: u64, mask: u64) -> Option<[u64; STATX_WORDS]> {
        let mut known = [[0; 8]; STATX_WORDS];
        let to = Out(known.as_flattened_mut());
        let path = In(path.to_bytes_with_nul());
        let result = self.m.ask(nr::STATX, &mut [Word(dirfd), path, Word(flags), Word(mask), to]);
        (result == 0).then(|| known.map(u64::from_le_bytes))
    }
}
