//! Descriptors that stand for something of ours.
//!
//! The number is the host's, so that it is the lowest that is free and closes as others do. What it names at the
//! host is one of two things:
//!
//! | | the host has | read, seek, attributes |
//! |---|---|---|
//! | *bare* | a duplicate of one empty file (the *blank*) | answered here |
//! | *backed* | an anonymous file with the text in it, or a directory of its own | the host's, but for what must be ours |
//!
//! Most files are opened, read and closed and nothing else; they stay bare, and their numbers are kept for the next
//! ([`super::vacant`]), so that they cost no host call at all: two threads that make some fight for the host's table of
//! descriptors, which takes microseconds. Before any
//! call that could show the host's side to somebody (`poll`, `dup`, `sendmsg`, `fork`, `execve`, opening by
//! `/dev/fd`, …) all bare files are backed ([`back_files`](crate::Kernel::back_files)), so nobody ever sees the blank. At most
//! [`BARE_MAX`] are bare at a time, which bounds that.
//!
//! A forked child has the descriptors and not the table: it reads what was there (CAVEATS).

use super::frees::Frees;
use super::table::Table;
use super::vacant::{Taken, Vacant};
use alloc::vec::Vec;
use procfs::Node;
use sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::*, fence};
use sync::{Guard, Lock};

/// The most bare files, and numbers kept: more are backed from the beginning.
pub(super) const BARE_MAX: u32 = 64;
const NO_BLANK: i32 = -1;

/// What a descriptor stands for.
#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    pub node: Node,
    /// Whether it was opened for reading, and for writing: the host's file is for both.
    pub reads: bool,
    pub writes: bool,
    /// Backed: nothing has been read of it yet, and the text is that of the opening.
    pub fresh: bool,
    /// Where a listing goes on, or a bare file.
    pub cursor: u64,
    /// Reading goes on in the host's file, not here.
    pub backed: bool,
    /// Bare: whether the number ends with `execve`. The host's always does.
    pub close_on_exec: bool,
    /// Bare: every number below has been taken since this one was given out.
    pub lowest: bool,
    /// Bare: somebody reads it or backs it; who else wants to waits. Neither waits for anything meanwhile.
    pub held: bool,
    /// Bare: what is left over of a text that was read in part.
    pub text: Option<Vec<u8>>,
    /// Bare: where the text ended that was read to its end.
    pub end: Option<u64>,
}

impl OpenFile {
    /// Opened just now.
    pub(super) fn new(node: Node, reads: bool, writes: bool, backed: bool) -> OpenFile {
        let (close_on_exec, lowest, held) = (false, false, false);
        let (fresh, cursor, text, end) = (true, 0, None, None);
        OpenFile { node, reads, writes, fresh, cursor, backed, close_on_exec, lowest, held, text, end }
    }
}

/// What there is to do for a number that the program closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Closed {
    /// Nothing: it is kept.
    Kept,
    /// The host closes it, and has nothing to do that could wait.
    Bare,
    /// The host closes it.
    Other,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    open: Lock<Table>,
    /// How many there are, how many of them are directories, and how many are bare, numbers that are kept included.
    /// Most programs never have any, and look no further.
    count: AtomicU32,
    folders: AtomicU32,
    bare: AtomicU32,
    vacant: Vacant,
    /// Numbers freed, once there was a blank.
    frees: Frees,
    /// A number may have been freed that nobody has told of.
    doubt: AtomicBool,
    /// The empty file.
    blank: AtomicI32,
}

impl Default for OpenFiles {
    fn default() -> OpenFiles {
        OpenFiles {
            open: Lock::default(),
            count: AtomicU32::new(0),
            folders: AtomicU32::new(0),
            bare: AtomicU32::new(0),
            vacant: Vacant::default(),
            frees: Frees::default(),
            doubt: AtomicBool::new(false),
            blank: AtomicI32::new(NO_BLANK),
        }
    }
}

impl OpenFiles {
    /// Whether there is any.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Acquire) == 0
    }

    #[inline(always)]
    pub(super) fn has_folders(&self) -> bool {
        self.folders.load(Acquire) != 0
    }

    /// Whether something must be done before the host's side of descriptors shows.
    #[inline(always)]
    pub(crate) fn has_bare(&self) -> bool {
        self.bare.load(Acquire) != 0
    }

    pub(super) fn may_be_bare(&self) -> bool {
        self.bare.load(Acquire) < BARE_MAX
    }

    pub(super) fn blank(&self) -> Option<i32> {
        Some(self.blank.load(Acquire)).filter(|&fd| fd != NO_BLANK)
    }

    /// Another blank; what there was before.
    pub(super) fn set_blank(&self, fd: Option<i32>) -> Option<i32> {
        self.frees.begin();
        Some(self.blank.swap(fd.unwrap_or(NO_BLANK), AcqRel)).filter(|&fd| fd != NO_BLANK)
    }

    /// These descriptors are the program's from now on: the blank is no longer ours if it is among them.
    #[inline]
    pub(super) fn spare(&self, first: u32, last: u32) {
        if self.blank().is_some_and(|blank| (first..=last).contains(&(blank as u32))) {
            self.set_blank(None);
        }
    }

    /// Whether the program has closed this number and the host has not.
    #[inline]
    pub(super) fn is_vacant(&self, fd: u64) -> bool {
        self.vacant.has(fd as i32)
    }

    /// This moment, for [`OpenFiles::insert_new`].
    pub(super) fn moment(&self) -> Option<u64> {
        self.frees.moment()
    }

    /// Whether any file was ever bare.
    #[inline]
    pub(super) fn was_used(&self) -> bool {
        self.frees.are_counted()
    }

    /// What is kept is to be asked about before it is used ([`OpenFiles::doubted`]).
    pub(super) fn doubt(&self) {
        self.doubt.store(true, Release);
    }

    /// Whether what is kept must be given back first.
    #[inline]
    pub(super) fn doubted(&self) -> bool {
        self.doubt.load(Acquire) && self.doubt.swap(false, AcqRel)
    }

    /// Opens a bare file by the lowest number, if one is kept.
    pub(super) fn reuse(&self, file: &OpenFile) -> Option<i32> {
        let mut open = self.open.lock();
        let fd = self.vacant.reuse()?;
        self.add(&self.bare, u32::MAX);
        self.count_one(file, 1);
        open.insert(fd, OpenFile { lowest: true, ..file.clone() });
        Some(fd)
    }

    /// A bare file with a number that the host has given after `since`: the lowest, if none below was freed meanwhile.
    pub(super) fn insert_new(&self, fd: i32, file: OpenFile, since: Option<u64>) {
        let mut open = self.open.lock();
        self.count_one(&file, 1);
        // Either we see what is freed, or whoever frees it sees that there is a bare file (`freed`).
        fence(SeqCst);
        let lowest = since.is_some_and(|since| !self.frees.below(fd, since));
        if let Some(old) = open.insert(fd, OpenFile { lowest, ..file }) {
            self.count_one(&old, u32::MAX);
        }
    }

    /// The table when nobody holds one of these. It is held for a few host calls that do not wait at most.
    fn settled(&self, first: i32, last: i32) -> Guard<'_, Table> {
        let mut round = 0;
        loop {
            let open = self.open.lock();
            let is_held = match first == last {
                true => open.get(first).is_some_and(|file| file.held),
                false => open.range(first, last).any(|(_, file)| file.held),
            };
            if !is_held {
                return open;
            }
            drop(open);
            sync::relax(round);
            round += 1;
        }
    }

    /// A bare file to be read, backed or moved in: nobody else does until it is given back by [`OpenFiles::put`].
    pub(super) fn hold(&self, fd: i32) -> Option<OpenFile> {
        let mut open = self.settled(fd, fd);
        let file = open.get_mut(fd).filter(|file| !file.backed)?;
        file.held = true;
        let text = file.text.take();
        Some(OpenFile { text, ..file.clone() })
    }

    /// Gives back what [`OpenFiles::hold`] gave.
    pub(super) fn put(&self, fd: i32, file: OpenFile) {
        let mut open = self.open.lock();
        if let Some(place) = open.get_mut(fd) {
            if file.backed {
                self.add(&self.bare, u32::MAX);
            }
            // It may have ceased to be the lowest meanwhile.
            let lowest = place.lowest;
            *place = OpenFile { held: false, lowest, ..file };
        }
    }

    /// The program closes a number.
    pub(super) fn close(&self, fd: i32) -> Closed {
        if fd < 0 {
            return Closed::Other;
        }
        let mut open = self.settled(fd, fd);
        let Some(file) = open.remove(fd) else { return Closed::Other };
        self.count_one(&file, u32::MAX);
        if file.backed {
            Closed::Other
        } else if file.lowest && self.vacant.keep(fd) {
            self.add(&self.bare, 1);
            Closed::Kept
        } else {
            Closed::Bare
        }
    }

    /// The numbers kept from `first` to `last`, which are kept no longer.
    pub(super) fn take_vacant(&self, first: i32, last: i32) -> Taken {
        let _open = self.open.lock();
        let taken = self.vacant.take(first, last);
        self.add(&self.bare, taken.len().wrapping_neg());
        taken
    }

    /// The host has closed a number: those above it are not the lowest. Those of them that were kept, to be closed.
    pub(super) fn freed(&self, number: i32) -> Option<Taken> {
        self.frees.add(number);
        if !self.has_bare() {
            return None;
        }
        let mut open = self.open.lock();
        open.each_from(number, |file| file.lowest = false);
        let taken = self.vacant.take(number, i32::MAX);
        self.add(&self.bare, taken.len().wrapping_neg());
        Some(taken)
    }

    pub(super) fn insert(&self, fd: i32, file: OpenFile) {
        let mut open = self.open.lock();
        self.count_one(&file, 1);
        if let Some(old) = open.insert(fd, file) {
            self.count_one(&old, u32::MAX);
        }
    }

    pub(super) fn find(&self, fd: i32) -> Option<OpenFile> {
        if self.is_empty() || fd < 0 { None } else { self.open.lock().get(fd).cloned() }
    }

    /// The directory of ours that a descriptor stands for.
    pub(super) fn folder(&self, fd: i32) -> Option<Node> {
        if !self.has_folders() {
            return None;
        }
        self.find(fd).map(|file| file.node).filter(|node| node.dir().is_some())
    }

    /// The lowest descriptor above this one that is bare.
    pub(super) fn next_bare(&self, after: i32) -> Option<i32> {
        let open = self.open.lock();
        let mut above = open.range(after.saturating_add(1), i32::MAX);
        above.find(|(_, file)| !file.backed).map(|(fd, _)| fd)
    }

    /// Changes what is known of one.
    pub(super) fn change(&self, fd: i32, change: impl FnOnce(&mut OpenFile)) {
        if let Some(file) = self.open.lock().get_mut(fd) {
            self.count_one(file, u32::MAX);
            change(file);
            self.count_one(file, 1);
        }
    }

    /// These descriptors are something else from now on.
    pub(super) fn forget(&self, first: u32, last: u32) {
        let most = i32::MAX as u32;
        let (first, last) = (first.min(most) as i32, last.min(most) as i32);
        let mut open = self.settled(first, last);
        loop {
            let next = open.range(first, last).next().map(|(fd, _)| fd);
            let Some(file) = next.and_then(|fd| open.remove(fd)) else { return };
            self.count_one(&file, u32::MAX);
        }
    }

    /// Adds one to the counts that a file is part of, or takes it away. Their lock is held.
    fn count_one(&self, file: &OpenFile, by: u32) {
        self.add(&self.count, by);
        if file.node.dir().is_some() {
            self.add(&self.folders, by);
        }
        if !file.backed {
            self.add(&self.bare, by);
        }
    }

    fn add(&self, to: &AtomicU32, by: u32) {
        to.store(to.load(Relaxed).wrapping_add(by), Release);
    }
}
