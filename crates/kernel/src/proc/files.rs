//! Descriptors that stand for something of ours.
//!
//! The host's descriptor does the most; this says what it is. A forked child has the descriptors and not the table:
//! it reads what was there (CAVEATS).

use alloc::collections::BTreeMap;
use procfs::Node;
use sync::Lock;
use sync::atomic::{AtomicU32, Ordering::*};

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    pub node: Node,
    /// Whether it was opened for reading, and for writing: the host's file is for both.
    pub reads: bool,
    pub writes: bool,
    /// Nothing has been read of it yet: the text is that of the opening.
    pub fresh: bool,
    /// Where a listing goes on.
    pub cursor: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    open: Lock<BTreeMap<i32, OpenFile>>,
    /// How many there are, and how many of them are directories. Most programs never have any, and look no further.
    count: AtomicU32,
    folders: AtomicU32,
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

    pub(super) fn insert(&self, fd: i32, file: OpenFile) {
        let mut open = self.open.lock();
        open.insert(fd, file);
        self.recount(&open);
    }

    pub(super) fn find(&self, fd: i32) -> Option<OpenFile> {
        if self.is_empty() { None } else { self.open.lock().get(&fd).copied() }
    }

    /// The directory of ours that a descriptor stands for.
    pub(super) fn folder(&self, fd: i32) -> Option<Node> {
        if !self.has_folders() {
            return None;
        }
        self.find(fd).map(|file| file.node).filter(|node| node.dir().is_some())
    }

    /// Changes what is known of one.
    pub(super) fn change(&self, fd: i32, change: impl FnOnce(&mut OpenFile)) {
        if let Some(file) = self.open.lock().get_mut(&fd) {
            change(file);
        }
    }

    /// These descriptors are something else from now on.
    pub(super) fn forget(&self, first: u32, last: u32) {
        if !self.is_empty() {
            let mut open = self.open.lock();
            open.retain(|&fd, _| !(first..=last).contains(&(fd as u32)));
            self.recount(&open);
        }
    }

    fn recount(&self, open: &BTreeMap<i32, OpenFile>) {
        self.count.store(open.len() as u32, Release);
        let folders = open.values().filter(|file| file.node.dir().is_some()).count();
        self.folders.store(folders as u32, Release);
    }
}
