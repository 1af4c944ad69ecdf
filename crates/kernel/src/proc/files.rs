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
//! Most files are opened, read and closed and nothing else; they stay bare and cost two cheap host calls. Before any
//! call that could show the host's side to somebody (`poll`, `dup`, `sendmsg`, `fork`, `execve`, opening by
//! `/dev/fd`, …) all bare files are backed ([`back_files`](crate::Kernel::back_files)), so nobody ever sees the blank. At most
//! [`BARE_MAX`] are bare at a time, which bounds that.
//!
//! A forked child has the descriptors and not the table: it reads what was there (CAVEATS).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use procfs::Node;
use sync::Lock;
use sync::atomic::{AtomicI32, AtomicU32, Ordering::*};

/// The most bare files: more are backed from the beginning.
pub(super) const BARE_MAX: u32 = 16;
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
    /// Bare: what is left over of a text that was read in part.
    pub text: Option<Vec<u8>>,
    /// Bare: where the text ended that was read to its end.
    pub end: Option<u64>,
}

impl OpenFile {
    /// Opened just now.
    pub(super) fn new(node: Node, reads: bool, writes: bool, backed: bool) -> OpenFile {
        OpenFile { node, reads, writes, fresh: true, cursor: 0, backed, text: None, end: None }
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    open: Lock<BTreeMap<i32, OpenFile>>,
    /// How many there are, how many of them are directories, and how many are bare. Most programs never have any, and
    /// look no further.
    count: AtomicU32,
    folders: AtomicU32,
    bare: AtomicU32,
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
        Some(self.blank.swap(fd.unwrap_or(NO_BLANK), AcqRel)).filter(|&fd| fd != NO_BLANK)
    }

    /// These descriptors are the program's from now on: the blank is no longer ours if it is among them.
    #[inline]
    pub(super) fn spare(&self, first: u32, last: u32) {
        if self.blank().is_some_and(|blank| (first..=last).contains(&(blank as u32))) {
            self.set_blank(None);
        }
    }

    pub(super) fn insert(&self, fd: i32, file: OpenFile) {
        let mut open = self.open.lock();
        self.count_one(&file, 1);
        if let Some(old) = open.insert(fd, file) {
            self.count_one(&old, u32::MAX);
        }
    }

    pub(super) fn find(&self, fd: i32) -> Option<OpenFile> {
        if self.is_empty() { None } else { self.open.lock().get(&fd).cloned() }
    }

    /// The directory of ours that a descriptor stands for.
    pub(super) fn folder(&self, fd: i32) -> Option<Node> {
        if !self.has_folders() {
            return None;
        }
        self.find(fd).map(|file| file.node).filter(|node| node.dir().is_some())
    }

    /// The lowest descriptor above this one that is bare.
    pub(super) fn next_bare(&self, after: i32) -> Option<(i32, OpenFile)> {
        let open = self.open.lock();
        let mut above = open.range(after.saturating_add(1)..);
        above.find(|(_, file)| !file.backed).map(|(&fd, file)| (fd, file.clone()))
    }

    /// Changes what is known of one.
    pub(super) fn change(&self, fd: i32, change: impl FnOnce(&mut OpenFile)) {
        if let Some(file) = self.open.lock().get_mut(&fd) {
            self.count_one(file, u32::MAX);
            change(file);
            self.count_one(file, 1);
        }
    }

    /// These descriptors are something else from now on. Whether the only one was bare, so that the host has nothing
    /// to do for it that could wait.
    pub(super) fn forget(&self, first: u32, last: u32) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut open = self.open.lock();
        if first == last {
            let gone = open.remove(&(first as i32));
            gone.iter().for_each(|file| self.count_one(file, u32::MAX));
            return gone.is_some_and(|file| !file.backed);
        }
        open.retain(|&fd, file| {
            let stays = !(first..=last).contains(&(fd as u32));
            if !stays {
                self.count_one(file, u32::MAX);
            }
            stays
        });
        false
    }

    /// Adds one to the counts that a file is part of, or takes it away. Their lock is held.
    fn count_one(&self, file: &OpenFile, by: u32) {
        self.count.store(self.count.load(Relaxed).wrapping_add(by), Release);
        if file.node.dir().is_some() {
            self.folders.store(self.folders.load(Relaxed).wrapping_add(by), Release);
        }
        if !file.backed {
            self.bare.store(self.bare.load(Relaxed).wrapping_add(by), Release);
        }
    }
}
