//! A 4-ary heap of expiries in one array: the core of every queue of this crate.
//!
//! The four children of an entry share one cache line (16 bytes an entry), and the owner of an item remembers the
//! item's place (see [`Places`]), so removal needs no search. Structures with cheaper insertion, such as pairing
//! heaps and timer wheels, occasionally move *all* entries within one operation, but a trap's work is bounded. Here
//! the common cases, inserting late expiries and removing young ones, touch one or two lines; the worst case is one
//! path through the heap, 10 lines with a million items.
//!
//! Items of equal time come out in order of insertion, as on Linux (`timerqueue_add` goes right on equality).

use crate::OutOfMemory;
use crate::chunked::Chunked;
use ids::Nanos;

/// Where each item is in a heap: kept by the items' owner.
pub trait Places {
    /// The item stands at `place` now; [`Heap::ABSENT`] means nowhere.
    fn set_place(&mut self, item: u32, place: u32);
}

/// One item and its expiry: two words, so that entries travel in registers.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    at: Nanos,
    /// The upper half: when it went in, counted in insertions and compared with
    /// wrap-around: right as long as two equal expiries went in within 2^31 insertions of
    /// each other. The lower half: the item.
    order_item: u64,
}

impl Entry {
    #[inline(always)]
    fn item(&self) -> u32 {
        self.order_item as u32
    }

    #[inline(always)]
    fn before(&self, other: &Entry) -> bool {
        if self.at == other.at {
            (self.order_item.wrapping_sub(other.order_item) as i64) < 0
        } else {
            self.at < other.at
        }
    }
}

/// Four entries on a cache line of their own.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([Entry; 4]);

/// The root's place. Starting at 3 puts each group of four children on one line:
/// those of place `i` are `4 * (i - 2) ..`, and leaves place 0 for "not in the heap".
const ROOT: usize = 3;

/// Lines that are allocated together: a kibibyte. Each CPU has several heaps from the start, most of which stay nearly
/// empty.
const CHUNK: usize = 16;

/// A queue of items (numbers of the owner's choice) ordered by expiry, then by insertion.
#[derive(Debug, Default)]
pub struct Heap {
    lines: Chunked<Line, CHUNK>,
    len: usize,
    inserts: u32,
}

impl Heap {
    /// The place of an item that is in no heap.
    pub const ABSENT: u32 = 0;

    /// An empty heap without memory.
    pub const fn new() -> Heap {
        Heap { lines: Chunked::new(), len: 0, inserts: 0 }
    }

    /// Reserves memory for `items` in all, so that inserting never allocates. Growing moves nothing. On failure the
    /// capacity is at least what it was.
    pub fn reserve(&mut self, items: usize) -> Result<(), OutOfMemory> {
        self.lines.grow((items + ROOT).div_ceil(4))
    }

    /// The number of items there is memory for.
    pub fn capacity(&self) -> usize {
        (4 * self.lines.len()).saturating_sub(ROOT)
    }

    /// Inserts `item`, to expire at `at`.
    ///
    /// # Panics
    /// If no memory was reserved.
    #[inline]
    pub fn insert(&mut self, item: u32, at: Nanos, places: &mut impl Places) {
        let entry = self.entry(item, at);
        let end = ROOT + self.len;
        self.len += 1;
        self.rise(end, entry, places);
    }

    /// Moves the item at `place` to another time, behind those that are there already.
    #[inline]
    pub fn change(&mut self, place: u32, at: Nanos, places: &mut impl Places) {
        let item = self.at(place as usize).item();
        let entry = self.entry(item, at);
        self.settle(place as usize, entry, places);
    }

    /// Takes the item at `place` out.
    #[inline]
    pub fn remove(&mut self, place: u32, places: &mut impl Places) {
        let gap = place as usize;
        places.set_place(self.at(gap).item(), Heap::ABSENT);
        self.len -= 1;
        let end = ROOT + self.len;
        if gap != end {
            let last = *self.at(end);
            self.settle(gap, last, places);
        }
    }

    /// The first item and its expiry.
    #[inline(always)]
    pub fn first(&self) -> Option<(u32, Nanos)> {
        (self.len != 0).then(|| (self.at(ROOT).item(), self.at(ROOT).at))
    }

    /// Takes the first item out if it is due at `now` (`at <= now`).
    #[inline]
    pub fn pop_due(&mut self, now: Nanos, places: &mut impl Places) -> Option<(u32, Nanos)> {
        self.pop_if(places, |_, at| at <= now)
    }

    /// Takes the first item out if it is due according to item and expiry.
    #[inline]
    pub fn pop_if(
        &mut self,
        places: &mut impl Places,
        is_due: impl FnOnce(u32, Nanos) -> bool,
    ) -> Option<(u32, Nanos)> {
        let first = self.first().filter(|&(item, at)| is_due(item, at))?;
        self.remove(ROOT as u32, places);
        Some(first)
    }

    /// The expiry of the item at `place`.
    #[inline]
    pub fn expiry(&self, place: u32) -> Nanos {
        self.at(place as usize).at
    }

    /// How many items are in.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is in.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn entry(&mut self, item: u32, at: Nanos) -> Entry {
        self.inserts = self.inserts.wrapping_add(1);
        Entry { at, order_item: (self.inserts as u64) << 32 | item as u64 }
    }

    #[inline(always)]
    fn at(&self, place: usize) -> &Entry {
        &self.lines[place / 4].0[place % 4]
    }

    #[inline(always)]
    fn put(&mut self, place: usize, entry: Entry, places: &mut impl Places) {
        self.lines[place / 4].0[place % 4] = entry;
        places.set_place(entry.item(), place as u32);
    }

    /// Puts `entry` where it belongs, starting from the gap at `gap`.
    #[inline]
    fn settle(&mut self, gap: usize, entry: Entry, places: &mut impl Places) {
        if gap != ROOT && entry.before(self.at(parent(gap))) {
            self.rise(gap, entry, places);
        } else {
            self.sink(gap, entry, places);
        }
    }

    #[inline]
    fn rise(&mut self, mut gap: usize, entry: Entry, places: &mut impl Places) {
        while gap != ROOT {
            let up = *self.at(parent(gap));
            if !entry.before(&up) {
                break;
            }
            self.put(gap, up, places);
            gap = parent(gap);
        }
        self.put(gap, entry, places);
    }

    #[inline]
    fn sink(&mut self, mut gap: usize, entry: Entry, places: &mut impl Places) {
        let end = ROOT + self.len;
        loop {
            let child = 4 * (gap - 2);
            if child >= end {
                break;
            }
            let line = &self.lines[child / 4].0;
            let mut first = 0;
            for i in 1..4.min(end - child) {
                if line[i].before(&line[first]) {
                    first = i;
                }
            }
            let down = line[first];
            if !down.before(&entry) {
                break;
            }
            self.put(gap, down, places);
            gap = child + first;
        }
        self.put(gap, entry, places);
    }
}

#[inline(always)]
fn parent(place: usize) -> usize {
    place / 4 + 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    impl Places for Vec<u32> {
        fn set_place(&mut self, item: u32, place: u32) {
            self[item as usize] = place;
        }
    }

    #[test]
    fn equal_times_come_out_in_the_order_they_went_in_even_over_the_wrap() {
        let (mut h, mut p) = (Heap::new(), vec![0u32; 40]);
        h.reserve(40).unwrap();
        h.inserts = u32::MAX - 20;
        for item in (0..40).rev() {
            h.insert(item, Nanos(5), &mut p);
        }
        h.change(p[39], Nanos(5), &mut p);
        let got: Vec<u32> = core::iter::from_fn(|| h.pop_due(Nanos(5), &mut p)).map(|(item, _)| item).collect();
        let want: Vec<u32> = (0..39).rev().chain([39]).collect();
        assert_eq!(got, want);
        assert!(p.iter().all(|place| *place == Heap::ABSENT));
    }

    #[test]
    fn an_item_costs_16_bytes_and_children_share_a_line() {
        assert_eq!(size_of::<Line>(), 64);
        for place in ROOT..1000 {
            let child = 4 * (place - 2);
            assert_eq!(child % 4, 0);
            assert!((child..child + 4).all(|c| parent(c) == place));
        }
    }

    #[test]
    fn there_is_room_for_as_many_as_it_says() {
        let (mut h, mut p) = (Heap::new(), vec![0u32; 2000]);
        assert!(h.capacity() == 0 && h.is_empty());
        for asked in [1, 200, 700] {
            h.reserve(asked).unwrap();
            assert!((asked..=asked + 256).contains(&h.capacity()), "{} for {asked}", h.capacity());
            (h.len()..h.capacity()).for_each(|i| h.insert(i as u32, Nanos(1), &mut p));
            assert!(!h.is_empty());
        }
    }

    #[test]
    #[should_panic]
    fn inserting_without_room_is_a_bug_of_the_caller() {
        let (mut h, mut p) = (Heap::new(), vec![0u32; 2000]);
        h.reserve(1).unwrap();
        (0..2000).for_each(|i| h.insert(i, Nanos(1), &mut p));
    }
}
