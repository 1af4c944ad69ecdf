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
//! Most files are opened, read and closed and nothing else; they stay bare, and their numbers are *kept* for the next
//! ([`super::vacant`]), so that they cost no host call at all: two threads that make some fight for the host's table of
//! descriptors, which takes microseconds. Before any
//! call that could show the host's side to somebody (`poll`, `dup`, `sendmsg`, `fork`, `execve`, opening by
//! `/dev/fd`, …) all bare files are backed ([`back_files`](crate::Kernel::back_files)), so nobody ever sees the blank. At most
//! [`BARE_MAX`] are bare at a time, which bounds that.
//!
//! A forked child has the descriptors and not the table: it reads what was there (CAVEATS).
//!
//! # Why a kept number is the lowest that is free
//! A number has, or has not, a *warrant*: "since the host gave it, the host has freed none below". The warrant of an open
//! file is [`OpenFile::lowest`], that of a closed one is that it is kept. Each number has a lock ([`super::table`]):
//!
//! | step | the number's warrant | under its lock |
//! |---|---|---|
//! | [`insert_new`](OpenFiles::insert_new) | made, if nothing below was freed since before the host was asked ([`Frees`]) | yes |
//! | [`close`](OpenFiles::close) | file → kept; without one the host closes the number | yes |
//! | [`reuse`](OpenFiles::reuse) | kept → the opener's hands, by an exchange of the word of those kept | no |
//! | | his hands → file, unless somebody has begun to end warrants since he looked at the word | yes |
//! | [`freed`](OpenFiles::freed), for each number above | ended; what was kept is to be closed | yes |
//! | [`forget`](OpenFiles::forget), [`insert`](OpenFiles::insert), [`take_vacant`](OpenFiles::take_vacant) | ended | yes |
//!
//! 1. *A warrant is true until a close below it is under way.* Whoever has the host close `f` then tells `frees` and passes
//!    over the numbers above. A warrant that is there when he comes by ends. One that is in somebody's hands is lost, because its
//!    opener takes the lock after him and so sees that he has begun (`returns`), which he had not when the opener looked: with
//!    one under way nobody opens. One that is made after he came by is made by
//!    somebody who took the lock after him and so sees what `frees` was told: it is made only if the host was asked after `f`
//!    was free, and if that gave a higher number, `f` was taken again. If he does not come by, because he saw no bare file or
//!    saw the number unused, then that was counted or marked after he told, and again `frees` shows it: all four accesses
//!    are sequentially consistent.
//! 2. *Who closes has not closed before he has passed.* So an open that overlaps may still count the number as taken: it
//!    comes first.
//! 3. *What is taken out is the lowest.* At the exchange the word is what is expected, so no lower number is kept;
//!    by 1, what is lower and not kept is taken, or its close is not over, or it was kept and somebody gives it back. While
//!    that goes on nobody opens: whoever takes kept numbers out says so in `returns` first, and until they are closed at the host
//!    and `freed`; whoever opens looks at that after he saw which numbers are kept. What was kept only after that look was
//!    closed while he opens, and he comes first.
//!
//! Nothing else is written by who opens and closes a kept number, so threads meet only at the word of those that are
//! kept, twice in a cycle: the counts include the kept ones. `models.rs` tries this on a model checker.

use super::frees::Frees;
use super::table::{Place, Returned, Table};
use alloc::vec::Vec;
use procfs::Node;
use sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::*};

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
    open: Table,
    /// How many there are, how many of them are directories, and how many are bare, numbers that are kept included in the
    /// first and the last. Raised before there is one more, lowered when there is one less: 0 is true.
    /// Most programs never have any, and look no further.
    count: AtomicU32,
    folders: AtomicU32,
    bare: AtomicU32,
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
            open: Table::default(),
            count: AtomicU32::new(0),
            folders: AtomicU32::new(0),
            bare: AtomicU32::new(0),
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
        self.bare.load(SeqCst) != 0
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
        self.open.is_kept(fd as i32)
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
    #[inline]
    pub(super) fn reuse(&self, file: &OpenFile) -> Option<i32> {
        self.open.reuse(|lowest| OpenFile { lowest, ..file.clone() })
    }

    /// A bare file with a number that the host has given after `since`: the lowest, if none below was freed meanwhile.
    pub(super) fn insert_new(&self, fd: i32, file: OpenFile, since: Option<u64>) {
        self.put_in(fd, file, |fd| since.is_some_and(|since| !self.frees.below(fd, since)));
    }

    /// A file with a number that the host has given.
    pub(super) fn insert(&self, fd: i32, file: OpenFile) {
        self.put_in(fd, file, |_| false);
    }

    fn put_in(&self, fd: i32, file: OpenFile, lowest: impl FnOnce(i32) -> bool) {
        self.count_one(&file);
        let (old, was_kept) = {
            let mut place = self.open.new_place(fd);
            // Only after it was counted and marked as used: see above.
            let lowest = lowest(fd);
            (place.replace(OpenFile { lowest, ..file }), place.take_kept())
        };
        if let Some(old) = old {
            self.discount(&old);
        }
        self.discount_kept(was_kept.into());
    }

    /// A number when nobody holds it. It is held for a few host calls that do not wait at most.
    #[inline]
    fn settled(&self, fd: i32) -> Option<Place<'_>> {
        let mut round = 0;
        loop {
            let place = self.open.place(fd)?;
            if !place.file().is_some_and(|file| file.held) {
                return Some(place);
            }
            drop(place);
            sync::relax(round);
            round += 1;
        }
    }

    /// A bare file to be read, backed or moved in: nobody else does until it is given back by [`OpenFiles::put`].
    pub(super) fn hold(&self, fd: i32) -> Option<OpenFile> {
        let mut place = self.settled(fd)?;
        let file = place.file_mut().filter(|file| !file.backed)?;
        file.held = true;
        let text = file.text.take();
        Some(OpenFile { text, ..file.clone() })
    }

    /// Gives back what [`OpenFiles::hold`] gave, unless something else has been put in its place.
    pub(super) fn put(&self, fd: i32, file: OpenFile) {
        let is_backed = file.backed;
        let Some(mut place) = self.open.place(fd) else { return };
        let Some(old) = place.file_mut().filter(|old| old.held) else { return };
        // It may have ceased to be the lowest meanwhile.
        let lowest = old.lowest;
        *old = OpenFile { held: false, lowest, ..file };
        drop(place);
        if is_backed {
            self.bare.fetch_sub(1, SeqCst);
        }
    }

    /// The program closes a number.
    pub(super) fn close(&self, fd: i32) -> Closed {
        let Some(mut place) = self.settled(fd) else { return Closed::Other };
        let Some(file) = place.remove() else { return Closed::Other };
        let is_kept = !file.backed && file.lowest && place.keep();
        drop(place);
        if is_kept {
            return Closed::Kept;
        }
        self.discount(&file);
        if file.backed { Closed::Other } else { Closed::Bare }
    }

    /// The numbers kept from `first` to `last`, which are kept no longer.
    pub(super) fn take_vacant(&self, first: i32, last: i32) -> Returned<'_> {
        let returned = self.open.take_kept(first..=last);
        self.discount_kept(returned.numbers.len());
        returned
    }

    /// Waits until what others have taken out is closed at the host.
    pub(super) fn await_given_back(&self) {
        self.open.await_given_back();
    }

    /// Closes kept numbers at the host, by `close`, and those that are not the lowest without them.
    pub(super) fn give_back(&self, first: Returned<'_>, mut close: impl FnMut(i32)) {
        let mut next = Some(first);
        while let Some(mut returned) = next {
            let mut lowest = i32::MAX;
            for fd in &mut returned.numbers {
                lowest = lowest.min(fd);
                close(fd);
            }
            next = if lowest < i32::MAX { self.freed(lowest) } else { None };
        }
    }

    /// The host has closed a number: those above it are not the lowest. Those of them that were kept, to be closed.
    /// `None`: there are none.
    pub(super) fn freed(&self, number: i32) -> Option<Returned<'_>> {
        self.frees.add(number);
        if !self.has_bare() {
            return None;
        }
        let returned = self.open.sweep(number..=i32::MAX, |file| file.lowest = false);
        self.discount_kept(returned.numbers.len());
        Some(returned).filter(|returned| returned.numbers.len() != 0)
    }

    pub(super) fn find(&self, fd: i32) -> Option<OpenFile> {
        if self.is_empty() { None } else { self.open.place(fd)?.file().cloned() }
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
        self.open.find(after.saturating_add(1)..=i32::MAX, |file| !file.backed)
    }

    /// Changes what is known of one, but for what it is.
    pub(super) fn change(&self, fd: i32, change: impl FnOnce(&mut OpenFile)) {
        if let Some(mut place) = self.open.place(fd)
            && let Some(file) = place.file_mut()
        {
            change(file);
        }
    }

    /// These descriptors are something else from now on.
    pub(super) fn forget(&self, first: u32, last: u32) {
        let most = i32::MAX as u32;
        let (first, last) = (first.min(most) as i32, last.min(most) as i32);
        self.discount_kept(self.open.take_kept(first..=last).numbers.len());
        let mut from = first;
        while let Some(fd) = self.open.find(from..=last, |_| true) {
            if let Some(file) = self.settled(fd).and_then(|mut place| place.remove()) {
                self.discount(&file);
            }
            from = fd;
        }
    }

    /// There will be one more.
    fn count_one(&self, file: &OpenFile) {
        self.count.fetch_add(1, SeqCst);
        self.folders.fetch_add(file.node.dir().is_some().into(), SeqCst);
        self.bare.fetch_add((!file.backed).into(), SeqCst);
    }

    /// There is one less.
    fn discount(&self, file: &OpenFile) {
        self.count.fetch_sub(1, SeqCst);
        self.folders.fetch_sub(file.node.dir().is_some().into(), SeqCst);
        self.bare.fetch_sub((!file.backed).into(), SeqCst);
    }

    /// So many numbers are kept no longer.
    fn discount_kept(&self, count: u32) {
        if count != 0 {
            self.count.fetch_sub(count, SeqCst);
            self.bare.fetch_sub(count, SeqCst);
        }
    }
}
