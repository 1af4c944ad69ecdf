use abi::Signal;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::ThreadIdx;

/// The number of threads or groups in a group of the next level.
const GROUP: usize = 64;
/// Threads whose part of the index is allocated together: a group of groups.
const ROOM: usize = GROUP * GROUP;
/// Bit planes of a count from 0 to [`GROUP`], and the word that says which counts are not 0.
const NODE: usize = 8;
/// Where that word is.
const OPEN: usize = NODE - 1;

/// Which threads unblock which signals: an index by slot, so that a receiver is found without asking every thread.
///
/// ```text
/// threads     t0 t1 … t63 │ t64 …             a word each: the signals that the thread does not block
/// groups      [ counts ]  │ [ counts ]        of 64 threads: for each signal, how many unblock it
/// rooms       [ counts of groups that … ]     of 64 groups
/// halls       [ counts of rooms that … ]      of 64 rooms
/// ```
/// A group keeps its 64 counts bit-sliced: bit `s` of plane `p` is bit `p` of signal `s`'s count. Adding a mask takes
/// as many steps as the longest carry, and the level above is updated only when a count changes between none and
/// some. A search reads at most 64 words on each level on its way up and as many on its way down, however many
/// threads there are.
pub(crate) struct Takers {
    rooms: Vec<Room>,
    halls: Vec<[u64; NODE]>,
}

/// The index of [`ROOM`] threads.
struct Room {
    /// For each group the words of its threads and then its counts: few threads use few pages.
    words: Box<[u64]>,
    all: [u64; NODE],
}

/// Words of a group in [`Room::words`].
const WORDS: usize = GROUP + NODE;

impl Room {
    fn thread(&self, i: usize) -> u64 {
        self.words[i / GROUP * WORDS + i % GROUP]
    }

    fn thread_mut(&mut self, i: usize) -> &mut u64 {
        &mut self.words[i / GROUP * WORDS + i % GROUP]
    }

    fn counts_mut(&mut self, group: usize) -> &mut [u64] {
        &mut self.words[group * WORDS + GROUP..][..NODE]
    }
}

/// No memory for another part of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

impl Takers {
    pub const fn new() -> Takers {
        Takers { rooms: Vec::new(), halls: Vec::new() }
    }

    /// Reserves memory for a slot.
    pub fn reserve(&mut self, t: ThreadIdx) -> Result<(), NoRoom> {
        while self.rooms.len() <= t.index() / ROOM {
            self.rooms.try_reserve(1).map_err(|_| NoRoom)?;
            self.halls.try_reserve(1).map_err(|_| NoRoom)?;
            let words = sync::zeroed_slice(GROUP * WORDS).ok_or(NoRoom)?;
            self.rooms.push(Room { words, all: [0; NODE] });
            if self.halls.len() * GROUP < self.rooms.len() {
                self.halls.push([0; NODE]);
            }
        }
        Ok(())
    }

    /// Sets the signals that the thread does not block. Its slot has been reserved.
    pub fn set(&mut self, t: ThreadIdx, open: u64) {
        let i = t.index();
        let Some(room) = self.rooms.get_mut(i / ROOM) else { return };
        let before = core::mem::replace(room.thread_mut(i % ROOM), open);
        let (opened, closed) = change(room.counts_mut(i % ROOM / GROUP), open & !before, before & !open);
        let (opened, closed) = change(&mut room.all, opened, closed);
        change(&mut self.halls[i / ROOM / GROUP], opened, closed);
    }

    /// Whether any thread lets the signal through.
    pub fn any(&self, signal: Signal) -> bool {
        self.halls.iter().any(|hall| hall[OPEN] & bit(signal) != 0)
    }

    /// The first thread from this slot on, going round, that lets the signal through.
    pub fn find(&self, signal: Signal, from: ThreadIdx) -> Option<ThreadIdx> {
        let mut steps = 0;
        self.find_counted(signal, from, &mut steps)
    }

    /// Finds a taker, and adds the number of words of the index that were read to `steps`.
    fn find_counted(&self, signal: Signal, from: ThreadIdx, steps: &mut usize) -> Option<ThreadIdx> {
        // A signal that all threads block, because one waits for it, would be searched for on all levels.
        if !self.any(signal) {
            return None;
        }
        let from = if from.is_some() { from.index() } else { 0 };
        let found = self.from(bit(signal), from, steps);
        let found = if found.is_none() && from != 0 { self.from(bit(signal), 0, steps) } else { found };
        found.map(|i| ThreadIdx(i as u32))
    }

    /// The rest of the group of each level, and then down into what was found.
    fn from(&self, bit: u64, from: usize, steps: &mut usize) -> Option<usize> {
        let mut at = from;
        for level in 0..LEVELS {
            let end = (at / GROUP + 1) * GROUP;
            if let Some(found) = self.first(level, at..end, bit, steps) {
                return self.down(level, found, bit, steps);
            }
            at = end / GROUP;
        }
        None
    }

    fn down(&self, level: usize, found: usize, bit: u64, steps: &mut usize) -> Option<usize> {
        let mut found = found;
        for below in (0..level).rev() {
            found = self.first(below, found * GROUP..(found + 1) * GROUP, bit, steps)?;
        }
        Some(found)
    }

    fn first(&self, level: usize, range: core::ops::Range<usize>, bit: u64, steps: &mut usize) -> Option<usize> {
        range.into_iter().find(|&i| {
            *steps += 1;
            self.open(level, i) & bit != 0
        })
    }

    /// The signals that a thread, or any thread of a group, unblocks; none if it does not exist.
    fn open(&self, level: usize, i: usize) -> u64 {
        let room = |i: usize| self.rooms.get(i);
        let open = match level {
            0 => room(i / ROOM).map(|r| r.thread(i % ROOM)),
            1 => room(i / GROUP).map(|r| r.words[i % GROUP * WORDS + GROUP + OPEN]),
            2 => room(i).map(|r| r.all[OPEN]),
            _ => self.halls.get(i).map(|hall| hall[OPEN]),
        };
        open.unwrap_or(0)
    }
}

/// Threads, groups, rooms, halls. There are at most [`GROUP`] halls.
const LEVELS: usize = 4;

fn bit(signal: Signal) -> u64 {
    1 << signal.index()
}

/// Counts one more of each signal in `opened` and one less of each in `closed`: which counts left 0, which came to it.
fn change(node: &mut [u64], opened: u64, closed: u64) -> (u64, u64) {
    if opened | closed == 0 {
        return (0, 0);
    }
    let before = node[OPEN];
    let (planes, open) = node.split_at_mut(OPEN);
    let (mut carry, mut borrow) = (opened, closed);
    let mut some = 0;
    for plane in planes {
        // A signal is in one of the two at most, so neither disturbs the other.
        let (carried, borrowed) = (*plane & carry, !*plane & borrow);
        *plane ^= carry | borrow;
        (carry, borrow) = (carried, borrowed);
        some |= *plane;
    }
    open[0] = some;
    (some & !before, before & !some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signal(s: usize) -> Signal {
        Signal::from_raw(s as i32 + 1).unwrap()
    }

    /// One thread among very many: as many words are read as there are on a way up, round, and down.
    #[test]
    fn a_search_is_short_however_many_threads_there_are() {
        let n = 1 << 20;
        let mut takers = Takers::new();
        takers.reserve(ThreadIdx(n - 1)).unwrap();
        for t in 0..n {
            takers.set(ThreadIdx(t), 1);
        }
        let most = 2 * GROUP * (2 * LEVELS - 1);
        for there in [0, 1, 63, 64, 4095, 4096, 70_000, 777_777, n - 1] {
            takers.set(ThreadIdx(there), 0b101);
            for from in [0, 1, 63, 64, 4096, 70_001, 777_777, n - 1] {
                let mut steps = 0;
                let found = takers.find_counted(signal(2), ThreadIdx(from), &mut steps);
                assert_eq!(found, Some(ThreadIdx(there)), "from {from}");
                assert!(steps <= most, "{steps} words for {there} from {from}");
            }
            takers.set(ThreadIdx(there), 1);
            let mut steps = 0;
            assert_eq!(takers.find_counted(signal(2), ThreadIdx(there), &mut steps), None);
            assert!(steps <= most, "{steps} words to find that there is none");
            assert!(!takers.any(signal(2)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_finds_what_asking_all_finds(
            steps in prop::collection::vec((0usize..300, any::<u64>(), any::<u64>(), 0usize..64, 0usize..300), 1..200)
        ) {
            // Slots on both sides of a room's end.
            let slot = |t: usize| ThreadIdx((ROOM - 150 + t) as u32);
            let mut takers = Takers::new();
            takers.reserve(slot(299)).unwrap();
            let mut masks = [0u64; 300];
            for (t, a, b, s, from) in steps {
                masks[t] = a & b;
                takers.set(slot(t), a & b);
                let round = (from..300).chain(0..from);
                let expected = round.into_iter().find(|&t| masks[t] >> s & 1 != 0).map(slot);
                prop_assert_eq!(takers.find(signal(s), slot(from)), expected);
                prop_assert_eq!(takers.any(signal(s)), expected.is_some());
            }
        }
    }
}
