//! Open files by their numbers. The low numbers, which nearly all programs use, are *near*: each has a lock and cache
//! lines of its own, so that threads which open, read and close at the same time meet only where the lowest number is chosen.
//! The others are *far*, under one lock.
//!
//! | word | who writes it |
//! |---|---|
//! | a near number's lock, and what it stands for | whoever opens, reads or closes that number |
//! | the near numbers that are kept ([`vacant::Near`]) | whoever opens or closes a bare file, once each |
//! | `used` | whoever is the first to use a near number, once for good |
//! | the far ones' lock, all that is under it, and `far_kept` | whoever has to do with a far number |
//! | `returns` | whoever takes kept numbers out to give them back to the host, before and after |
//!
//! All these locks are leaves: none is taken under another.

use super::files::OpenFile;
use super::vacant::{self, Taken};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use once_cell::race::OnceBox;
use sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use sync::{CachePadded, Guard, Lock};

/// Numbers below this are near: a bit each in a word. Few for the model checker, so that it comes to far ones.
const NEAR: usize = if cfg!(shuttle) { 2 } else { 64 };

type Slot = CachePadded<Lock<Option<OpenFile>>>;

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Near numbers that have stood for something at some time: walks look at these.
    used: AtomicU64,
    /// Made when the first is needed.
    near: OnceBox<Vec<Slot>>,
    /// Near numbers that are kept.
    near_kept: CachePadded<vacant::Near>,
    far: Lock<Far>,
    /// Whether a far number is kept.
    far_kept: AtomicBool,
    /// | bits | | who changes them |
    /// |---|---|---|
    /// | 0–15 | how many take kept numbers out, or give them back | each of them, before and after |
    /// | 16–63 | how often somebody began to | the same, before |
    returns: AtomicU64,
}

const UNDER_WAY: u64 = 1;
const BEGUN: u64 = 1 << 16;

fn is_under_way(returns: u64) -> bool {
    returns & (BEGUN - 1) != 0
}

fn begun(returns: u64) -> u64 {
    returns / BEGUN
}

/// Numbers that are kept no longer, to be closed at the host; dropped when they are, and when that was told
/// ([`super::files::OpenFiles::freed`]).
#[must_use]
#[derive(Debug)]
pub(super) struct Returned<'a> {
    pub numbers: Taken,
    _under_way: GivingBack<'a>,
}

#[derive(Debug)]
struct GivingBack<'a>(&'a AtomicU64);

impl Drop for GivingBack<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(UNDER_WAY, SeqCst);
    }
}

#[derive(Debug, Default)]
pub(super) struct Far {
    open: BTreeMap<i32, OpenFile>,
    kept: vacant::Far,
}

/// What a number stands for, under its lock.
pub(super) enum Place<'a> {
    Near { fd: i32, kept: &'a vacant::Near, open: Guard<'a, Option<OpenFile>> },
    Far { fd: i32, any_kept: &'a AtomicBool, far: Guard<'a, Far> },
}

fn near(fd: i32) -> Option<usize> {
    usize::try_from(fd).ok().filter(|&fd| fd < NEAR)
}

/// The near numbers among these.
fn mask(of: &RangeInclusive<i32>) -> u64 {
    (0..NEAR).filter(|&fd| of.contains(&(fd as i32))).fold(0, |mask, fd| mask | 1 << fd)
}

/// The numbers of the bits.
fn bits(mut bits: u64) -> impl Iterator<Item = i32> {
    core::iter::from_fn(move || {
        let number = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (number < u64::BITS).then_some(number as i32)
    })
}

impl Place<'_> {
    pub(super) fn file(&self) -> Option<&OpenFile> {
        match self {
            Place::Near { open, .. } => open.as_ref(),
            Place::Far { fd, far, .. } => far.open.get(fd),
        }
    }

    pub(super) fn file_mut(&mut self) -> Option<&mut OpenFile> {
        match self {
            Place::Near { open, .. } => open.as_mut(),
            Place::Far { fd, far, .. } => far.open.get_mut(fd),
        }
    }

    /// What the number stood for before.
    pub(super) fn replace(&mut self, file: OpenFile) -> Option<OpenFile> {
        match self {
            Place::Near { open, .. } => open.replace(file),
            Place::Far { fd, far, .. } => far.open.insert(*fd, file),
        }
    }

    pub(super) fn remove(&mut self) -> Option<OpenFile> {
        match self {
            Place::Near { open, .. } => open.take(),
            Place::Far { fd, far, .. } => far.open.remove(fd),
        }
    }

    /// Keeps the number, if there is room for it.
    pub(super) fn keep(&mut self) -> bool {
        match self {
            Place::Near { fd, kept, .. } => {
                kept.keep(*fd);
                true
            }
            Place::Far { fd, any_kept, far } => {
                let is_kept = far.kept.keep(*fd);
                any_kept.store(!far.kept.is_empty(), SeqCst);
                is_kept
            }
        }
    }

    /// Keeps it no longer: whether it was kept.
    pub(super) fn take_kept(&mut self) -> bool {
        match self {
            Place::Near { fd, kept, .. } => kept.take(*fd),
            Place::Far { fd, any_kept, far } => {
                let (_, bits) = far.kept.take(*fd..=*fd);
                any_kept.store(!far.kept.is_empty(), SeqCst);
                bits != 0
            }
        }
    }
}

impl Table {
    /// The lock of a number. `None`: it is near, and none of these was ever used; or it is none.
    #[inline]
    pub(super) fn place(&self, fd: i32) -> Option<Place<'_>> {
        match near(fd) {
            Some(at) => {
                let open = self.near.get()?.get(at)?.lock();
                Some(Place::Near { fd, kept: &self.near_kept, open })
            }
            None if fd < 0 => None,
            None => Some(Place::Far { fd, any_kept: &self.far_kept, far: self.far.lock() }),
        }
    }

    /// The lock of a number that will stand for something: from here on, walks look at it.
    pub(super) fn new_place(&self, fd: i32) -> Place<'_> {
        if let Some(at) = near(fd) {
            self.near.get_or_init(|| Box::new((0..NEAR).map(|_| Slot::default()).collect()));
            if self.used.load(SeqCst) >> at & 1 == 0 {
                self.used.fetch_or(1 << at, SeqCst);
            }
        }
        match self.place(fd) {
            Some(place) => place,
            None => unreachable!("the host gives no number below 0"),
        }
    }

    /// Opens by the lowest number that is kept, if there is one. Not while somebody gives numbers back: they are
    /// free to the program, and to nobody else yet.
    #[inline]
    pub(super) fn reuse(&self, file: impl Fn(bool) -> OpenFile) -> Option<i32> {
        let mut round = 0;
        loop {
            // In this order: what was taken out before we looked is seen to be given back.
            let (kept, any_far) = (self.near_kept.look(), self.far_kept.load(SeqCst));
            let returns = self.returns.load(SeqCst);
            if is_under_way(returns) {
                sync::relax(round);
                round += 1;
                continue;
            }
            if !kept.is_empty() {
                // Somebody may take it first, or keep another one.
                if let Some(fd) = self.near_kept.take_lowest(kept)
                    && let Some(Place::Near { mut open, .. }) = self.place(fd)
                {
                    // It was in our hands, where nobody who passed over it has seen it.
                    *open = Some(file(begun(self.returns.load(SeqCst)) == begun(returns)));
                    return Some(fd);
                }
            } else if any_far {
                let mut far = self.far.lock();
                // At this moment no near number is kept, and the lowest of the far ones stays that under their lock.
                if !is_under_way(self.returns.load(SeqCst))
                    && self.near_kept.look().is_empty()
                    && let Some(fd) = far.kept.reuse()
                {
                    self.far_kept.store(!far.kept.is_empty(), SeqCst);
                    far.open.insert(fd, file(true));
                    return Some(fd);
                }
            } else {
                return None;
            }
        }
    }

    /// Waits until all that was taken out before is closed at the host.
    pub(super) fn await_given_back(&self) {
        let mut round = 0;
        while is_under_way(self.returns.load(SeqCst)) {
            sync::relax(round);
            round += 1;
        }
    }

    /// Before numbers are taken out.
    fn give_back(&self) -> GivingBack<'_> {
        self.returns.fetch_add(BEGUN | UNDER_WAY, SeqCst);
        GivingBack(&self.returns)
    }

    /// Whether a number is kept.
    #[inline]
    pub(super) fn is_kept(&self, fd: i32) -> bool {
        self.near_kept.has(fd) || self.far_kept.load(Acquire) && self.far.lock().kept.has(fd)
    }

    /// Changes all files of a range, and takes the numbers that are kept out of it.
    pub(super) fn sweep(&self, range: RangeInclusive<i32>, change: impl Fn(&mut OpenFile)) -> Returned<'_> {
        let (under_way, mut numbers) = (self.give_back(), Taken::default());
        for fd in bits(self.used.load(SeqCst) & mask(&range)) {
            let Some(mut place) = self.place(fd) else { continue };
            place.file_mut().into_iter().for_each(&change);
            numbers.near |= u64::from(place.take_kept()) << fd;
        }
        if !range.is_empty() {
            let mut far = self.far.lock();
            far.open.range_mut(range.clone()).for_each(|(_, file)| change(file));
            numbers.far = far.kept.take(range);
            self.far_kept.store(!far.kept.is_empty(), SeqCst);
        }
        Returned { numbers, _under_way: under_way }
    }

    /// The kept numbers of a range, kept no longer.
    pub(super) fn take_kept(&self, range: RangeInclusive<i32>) -> Returned<'_> {
        let (under_way, mut numbers) = (self.give_back(), Taken::default());
        for fd in bits(mask(&range)).filter(|&fd| self.near_kept.has(fd)) {
            let is_taken = self.place(fd).is_some_and(|mut place| place.take_kept());
            numbers.near |= u64::from(is_taken) << fd;
        }
        if self.far_kept.load(SeqCst) {
            let mut far = self.far.lock();
            numbers.far = far.kept.take(range);
            self.far_kept.store(!far.kept.is_empty(), SeqCst);
        }
        Returned { numbers, _under_way: under_way }
    }

    /// The lowest number of a range whose file is like this.
    pub(super) fn find(&self, range: RangeInclusive<i32>, is: impl Fn(&OpenFile) -> bool) -> Option<i32> {
        let mut near = bits(self.used.load(SeqCst) & mask(&range));
        let found = near.find(|&fd| self.place(fd).is_some_and(|place| place.file().is_some_and(&is)));
        let far = || self.far.lock().open.range(range.clone()).find(|(_, file)| is(file)).map(|(&fd, _)| fd);
        found.or_else(|| if range.is_empty() { None } else { far() })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use procfs::Node;

    #[test]
    fn it_does_what_a_map_does() {
        let (table, mut map, mut state) = (Table::default(), BTreeMap::new(), 0x2545_f491_4f6c_dd1d_u64);
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (fd, other) = ((state >> 8 & 0x7f) as i32, (state >> 16 & 0x7f) as i32);
            let file = OpenFile { cursor: state, ..OpenFile::new(Node::ROOT, true, false, false) };
            let cursor = |file: OpenFile| file.cursor;
            match state % 5 {
                0 | 1 => assert_eq!(table.new_place(fd).replace(file).map(cursor), map.insert(fd, state)),
                2 => assert_eq!(table.place(fd).and_then(|mut it| it.remove()).map(cursor), map.remove(&fd)),
                3 => {
                    assert_eq!(table.sweep(fd..=i32::MAX, |file| file.cursor ^= 1).numbers.len(), 0);
                    map.range_mut(fd..).for_each(|(_, cursor)| *cursor ^= 1);
                }
                _ => {
                    let found = table.place(fd).and_then(|mut it| {
                        assert_eq!(it.file().map(|file| file.cursor), it.file_mut().map(|file| file.cursor));
                        it.file().map(|file| file.cursor)
                    });
                    assert_eq!(found, map.get(&fd).copied());
                    let is_odd = |cursor: u64| cursor & 1 != 0;
                    let mut odd = map.iter().filter(|(at, cursor)| (fd..=other).contains(*at) && is_odd(**cursor));
                    let found = table.find(fd..=other, |file| is_odd(file.cursor));
                    assert_eq!(found, odd.next().map(|(&fd, _)| fd), "{fd} to {other}");
                }
            }
        }
        assert!(table.place(-1).is_none() && table.place(i32::MIN).is_none());
        assert_eq!(table.find(-5..=i32::MAX, |_| true), map.keys().next().copied());
    }

    #[test]
    fn the_lowest_that_is_kept_is_used_again() {
        let table = Table::default();
        let file = |_| OpenFile::new(Node::ROOT, true, false, false);
        assert!(table.reuse(file).is_none());
        for fd in [70, 63, 5, 100] {
            let mut place = table.new_place(fd);
            assert!(!place.take_kept() && place.keep());
        }
        assert!([5, 63, 70, 100].iter().all(|&fd| table.is_kept(fd)) && !table.is_kept(6) && !table.is_kept(71));
        assert!(!table.new_place(200).keep(), "another block");
        assert_eq!(table.reuse(file), Some(5));
        assert_eq!(table.take_kept(63..=70).numbers.collect::<Vec<i32>>(), [63, 70]);
        assert_eq!(table.reuse(file), Some(100));
        assert!(table.reuse(file).is_none() && !table.is_kept(100));
        assert!(table.new_place(80).keep() && table.new_place(5).keep());
        assert_eq!(table.sweep(6..=i32::MAX, |_| ()).numbers.collect::<Vec<i32>>(), [80]);
        assert!(table.place(5).unwrap().take_kept() && !table.place(5).unwrap().take_kept());
    }
}
