//! Descriptors of our own files.
//!
//! The number is the host's, so that it is the lowest free one and closes like others. The host's side is one of two
//! things:
//!
//! | | the host has | read, seek, attributes |
//! |---|---|---|
//! | *bare* | a duplicate of one empty file (the *blank*) | answered here |
//! | *backed* | an anonymous file with the text in it, or a directory of its own | the host's, except what must be ours |
//!
//! Most files are opened, read, closed and nothing else. They stay bare: opening duplicates the blank, closing closes
//! the duplicate, and both host calls are short. Before a call that can reveal the host's side (`poll`, `dup`,
//! `sendmsg`, `fork`, `execve`, opening `/dev/fd`, …) all bare files are backed
//! ([`back_files`](crate::Kernel::back_files)), so nobody sees the blank. At most [`BARE_MAX`] are bare at a time,
//! which bounds that work.
//!
//! A forked child has the descriptors but not the table: it reads the text as of the fork (CAVEATS).
//!
//! The table is divided by the low bits of the number, and each part has its own lock, so that threads which open, read
//! and close at the same time rarely contend. These locks are leaves: no host call is made and no other lock is taken
//! under one.

use alloc::vec::Vec;
use procfs::Node;
use sync::atomic::{AtomicI32, AtomicU64, Ordering::*};
use sync::{CachePadded, Guard, Lock};

/// The most bare files; more are backed from the beginning.
const BARE_MAX: u64 = 64;
const NO_BLANK: i32 = -1;
/// Parts of the table: about the number of threads that can open files at once without contention.
const PARTS: usize = 16;

/// One open file of ours.
#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    pub node: Node,
    /// Whether it was opened for reading and for writing; the host's file allows both.
    pub reads: bool,
    pub writes: bool,
    /// Backed: nothing has been read yet, and the text is that of the opening.
    pub fresh: bool,
    /// Where a listing or a bare file continues.
    pub cursor: u64,
    /// Reading continues in the host's file, not here.
    pub backed: bool,
    /// Bare: whether `execve` closes the number. It always closes the blank's duplicate.
    pub close_on_exec: bool,
    /// Bare: someone reads or backs it, and everyone else waits. The holder itself never waits for a thread.
    pub held: bool,
    /// Bare: the rest of a partly read text.
    pub text: Option<Vec<u8>>,
    /// Bare: where the text ended when it was read completely.
    pub end: Option<u64>,
}

impl OpenFile {
    /// A file that was just opened.
    pub(super) fn new(node: Node, reads: bool, writes: bool, backed: bool) -> OpenFile {
        let (close_on_exec, held, fresh) = (false, false, true);
        OpenFile { node, reads, writes, fresh, cursor: 0, backed, close_on_exec, held, text: None, end: None }
    }

    /// What the file adds to [`OpenFiles::counts`].
    fn counts(&self) -> u64 {
        ONE + if self.node.dir().is_some() { FOLDER } else { 0 } + if self.backed { 0 } else { BARE }
    }
}

/// Files of one part, by ascending number.
type Part = Vec<(i32, OpenFile)>;

/// All open files of ours.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    parts: [CachePadded<Lock<Part>>; PARTS],
    /// How many there are, how many of them are directories, and how many are bare. Incremented before a file is
    /// inserted and decremented after it is removed, so 0 can be trusted without a lock. Most programs never open any
    /// and only read this word.
    counts: AtomicU64,
    /// The empty file.
    blank: AtomicI32,
}

const ONE: u64 = 1;
const FOLDER: u64 = 1 << 21;
const BARE: u64 = 1 << 42;

impl Default for OpenFiles {
    fn default() -> OpenFiles {
        OpenFiles { parts: Default::default(), counts: AtomicU64::new(0), blank: AtomicI32::new(NO_BLANK) }
    }
}

impl OpenFiles {
    /// Whether there is none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.load(Acquire) == 0
    }

    #[inline(always)]
    pub(super) fn has_folders(&self) -> bool {
        !(self.counts.load(Acquire) / FOLDER).is_multiple_of(BARE / FOLDER)
    }

    /// Whether files must be backed before a call reveals the host's side of descriptors.
    #[inline(always)]
    pub(crate) fn has_bare(&self) -> bool {
        self.counts.load(Acquire) >= BARE
    }

    pub(super) fn may_be_bare(&self) -> bool {
        self.counts.load(Acquire) / BARE < BARE_MAX
    }

    pub(super) fn blank(&self) -> Option<i32> {
        Some(self.blank.load(Acquire)).filter(|&fd| fd != NO_BLANK)
    }

    /// Sets another blank and returns the old one.
    pub(super) fn set_blank(&self, fd: Option<i32>) -> Option<i32> {
        Some(self.blank.swap(fd.unwrap_or(NO_BLANK), AcqRel)).filter(|&fd| fd != NO_BLANK)
    }

    /// The program has taken these numbers. If the blank is among them, it is no longer ours.
    #[inline]
    pub(super) fn spare(&self, first: u32, last: u32) {
        if self.blank().is_some_and(|blank| (first..=last).contains(&(blank as u32))) {
            self.set_blank(None);
        }
    }

    fn part(&self, fd: i32) -> Guard<'_, Part> {
        self.parts[fd as usize % PARTS].lock()
    }

    /// Waits until nobody holds the file of a number; returns the number's part and its position there. A file is held
    /// for a few host calls at most, none of which waits.
    fn settled(&self, fd: i32) -> (Guard<'_, Part>, Result<usize, usize>) {
        let mut round = 0;
        loop {
            let part = self.part(fd);
            let at = place(&part, fd);
            if !at.is_ok_and(|at| part[at].1.held) {
                return (part, at);
            }
            drop(part);
            sync::relax(round);
            round += 1;
        }
    }

    /// Inserts a file under a number from the host.
    pub(super) fn insert(&self, fd: i32, file: OpenFile) {
        self.counts.fetch_add(file.counts(), AcqRel);
        let (mut part, at) = self.settled(fd);
        let old = match at {
            Ok(at) => Some(core::mem::replace(&mut part[at].1, file)),
            Err(at) => {
                part.insert(at, (fd, file));
                None
            }
        };
        drop(part);
        if let Some(old) = old {
            self.counts.fetch_sub(old.counts(), AcqRel);
        }
    }

    /// Locks a bare file for reading, backing or seeking, until [`OpenFiles::put`].
    pub(super) fn hold(&self, fd: i32) -> Option<OpenFile> {
        let (mut part, at) = self.settled(fd);
        let file = Some(&mut part[at.ok()?].1).filter(|file| !file.backed)?;
        file.held = true;
        let text = file.text.take();
        Some(OpenFile { text, ..file.clone() })
    }

    /// Gives back the file of [`OpenFiles::hold`].
    pub(super) fn put(&self, fd: i32, file: OpenFile) {
        let is_backed = file.backed;
        let mut part = self.part(fd);
        // Whatever replaces or removes a file waits for its holder.
        if let Ok(at) = place(&part, fd) {
            part[at].1 = OpenFile { held: false, ..file };
        }
        drop(part);
        if is_backed {
            self.counts.fetch_sub(BARE, AcqRel);
        }
    }

    /// Removes and returns the file of a number that the program closes.
    pub(super) fn remove(&self, fd: i32) -> Option<OpenFile> {
        let (mut part, at) = self.settled(fd);
        let (_, file) = part.remove(at.ok()?);
        drop(part);
        self.counts.fetch_sub(file.counts(), AcqRel);
        Some(file)
    }

    /// The file of a number.
    pub(super) fn find(&self, fd: i32) -> Option<OpenFile> {
        if self.is_empty() {
            return None;
        }
        let part = self.part(fd);
        place(&part, fd).ok().map(|at| part[at].1.clone())
    }

    /// The directory of ours that a descriptor refers to.
    pub(super) fn folder(&self, fd: i32) -> Option<Node> {
        if !self.has_folders() {
            return None;
        }
        self.find(fd).map(|file| file.node).filter(|node| node.dir().is_some())
    }

    /// The lowest descriptor above this one that is bare.
    pub(super) fn next_bare(&self, after: i32) -> Option<i32> {
        self.next(after.saturating_add(1), i32::MAX, |file| !file.backed)
    }

    /// The lowest descriptor in a range whose file satisfies `is`.
    fn next(&self, first: i32, last: i32, is: impl Fn(&OpenFile) -> bool) -> Option<i32> {
        let in_part = |part: &Lock<Part>| {
            let part = part.lock();
            let from = part.partition_point(|&(fd, _)| fd < first);
            part[from..].iter().take_while(|&&(fd, _)| fd <= last).find(|(_, file)| is(file)).map(|&(fd, _)| fd)
        };
        self.parts.iter().filter_map(|part| in_part(part)).min()
    }

    /// Changes what is recorded of a file.
    pub(super) fn change(&self, fd: i32, change: impl FnOnce(&mut OpenFile)) {
        let mut part = self.part(fd);
        if let Ok(at) = place(&part, fd) {
            change(&mut part[at].1);
        }
    }

    /// Forgets descriptors that refer to other files from now on.
    pub(super) fn forget(&self, first: u32, last: u32) {
        let [first, last] = [first, last].map(|fd| i32::try_from(fd).unwrap_or(i32::MAX));
        while let Some(fd) = self.next(first, last, |_| true) {
            self.remove(fd);
        }
    }
}

/// The position of a number in its part, or where it would be inserted.
fn place(part: &[(i32, OpenFile)], fd: i32) -> Result<usize, usize> {
    part.binary_search_by_key(&fd, |&(fd, _)| fd)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    fn file(cursor: u64, backed: bool) -> OpenFile {
        OpenFile { cursor, ..OpenFile::new(Node::ROOT, true, false, backed) }
    }

    #[test]
    fn it_does_what_a_map_does() {
        let (files, mut map, mut state) = (OpenFiles::default(), BTreeMap::new(), 0x2545_f491_4f6c_dd1d_u64);
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (fd, backed) = ((state >> 8 & 0x7f) as i32, state >> 20 & 1 != 0);
            match state % 8 {
                0..=2 => {
                    files.insert(fd, file(state, backed));
                    map.insert(fd, (state, backed));
                }
                3 | 4 => {
                    assert_eq!(files.remove(fd).map(|file| (file.cursor, file.backed)), map.remove(&fd));
                }
                5 => {
                    files.forget(fd as u32, fd as u32 + 2);
                    map.retain(|&other, _| !(fd..=fd + 2).contains(&other));
                }
                6 => {
                    let bare = map.range(fd + 1..).find(|(_, (_, backed))| !backed).map(|(&fd, _)| fd);
                    assert_eq!(files.next_bare(fd), bare);
                }
                _ => assert_eq!(files.find(fd).map(|file| file.cursor), map.get(&fd).map(|&(cursor, _)| cursor)),
            }
            assert_eq!(files.is_empty(), map.is_empty());
            assert_eq!(files.has_bare(), map.values().any(|(_, backed)| !backed));
            assert_eq!(files.has_folders(), !map.is_empty(), "the root is a directory");
        }
        assert!(files.find(-1).is_none() && files.remove(i32::MIN).is_none());
    }

    #[test]
    fn a_file_that_was_backed_is_bare_no_longer() {
        let files = OpenFiles::default();
        files.insert(3, file(0, false));
        let held = files.hold(3).expect("it is bare");
        files.put(3, OpenFile { backed: true, ..held });
        assert!(!files.has_bare() && files.hold(3).is_none() && files.next_bare(-1).is_none());
    }
}
