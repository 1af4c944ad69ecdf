//! Data races without instrumentation, in the manner of DataCollider (Erickson and others, OSDI 2010).
//!
//! A thread that arrives at a chosen memory access and is not chosen to go on has a *pending* access. Nothing orders it
//! and what other threads do until the thread runs again. So it is a race if
//! - another thread arrives at an access that overlaps, and one of the two writes; or
//! - the value there changes meanwhile.
//!
//! To make that likely, such a thread is often *held back* for a few choices. A repeated run holds nobody back: that is
//! among the switches.
//!
//! A plain `mov` loads or stores an atomic variable as well. If the other access is an atomic instruction on the same
//! bytes, the variable is taken to be one, and no race is reported.

use crate::Rng;
use alloc::vec::Vec;

/// Of two threads that arrive, one is held back.
const HELD_ONE_IN: u64 = 2;
/// For at most 2 to the power of this many choices.
const HOLD_MAX_LOG2: u64 = 7;
/// The number of races of one run that are remembered. Later ones are reported each time that they are seen.
const REMEMBERED_MAX: usize = 1024;
/// Bytes below the stack pointer that belong to the thread (the red zone of the System V ABI).
const RED_ZONE: u64 = 128;
/// The C library puts a thread's own block of data at the upper end of its stack: so far up at most.
const STACK_MAX: u64 = 64 << 20;
/// The length of that block behind the thread pointer.
const BLOCK: u64 = 4096;
/// A stack whose end is unknown, as the first thread's, is taken to be this long.
const STACK_LEN: u64 = 8 << 20;

/// An access that a thread is about to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The address of the instruction.
    pub place: u64,
    /// The address of the first byte.
    pub address: u64,
    /// How many bytes: 1 to 8.
    pub size: u8,
    /// It reads.
    pub reads: bool,
    /// It writes.
    pub writes: bool,
    /// It does both in one step, as `lock` and `xchg` do.
    pub atomic: bool,
}

/// The deed of another thread while an access is pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Other {
    /// It is about to make this access.
    Arrives(Access),
    /// It has changed the bytes, on the way to this place.
    Wrote {
        /// Where it is now.
        place: u64,
        /// The bytes before, as a number.
        before: u64,
        /// And now.
        after: u64,
    },
}

/// Two accesses that nothing orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Race {
    /// The thread whose access is pending.
    pub holder: u32,
    /// Its access.
    pub pending: Access,
    /// The other thread.
    pub thread: u32,
    /// Its deed.
    pub other: Other,
}

/// The identity of a report: both places in ascending order, or 0 and that of the pending access.
pub type Pair = [u64; 2];

impl Race {
    /// See [`Pair`].
    #[must_use]
    pub fn pair(&self) -> Pair {
        let mut pair = match self.other {
            Other::Arrives(access) => [self.pending.place, access.place],
            Other::Wrote { .. } => [self.pending.place, 0],
        };
        pair.sort_unstable();
        pair
    }

    /// Whether it says more than the races `known`. Who has changed a value is not known exactly, so such a report is
    /// worth nothing if the access is in a known one.
    #[must_use]
    pub fn is_news(&self, known: &[Pair]) -> bool {
        match self.other {
            Other::Arrives(_) => !known.contains(&self.pair()),
            Other::Wrote { .. } => !known.iter().any(|pair| pair.contains(&self.pending.place)),
        }
    }
}

/// The words in which the log keeps a race.
pub(crate) const WORDS: usize = 8;

impl Race {
    pub(crate) fn words(&self) -> [u64; WORDS] {
        let threads = u64::from(self.holder) | u64::from(self.thread) << 32;
        let [a, b, c] = self.pending.words();
        let [kind, d, e, f] = match self.other {
            Other::Arrives(access) => {
                let [place, address, effect] = access.words();
                [0, place, address, effect]
            }
            Other::Wrote { place, before, after } => [1, place, before, after],
        };
        [threads, kind, a, b, c, d, e, f]
    }

    pub(crate) fn read([threads, kind, a, b, c, d, e, f]: [u64; WORDS]) -> Race {
        let other = match kind {
            0 => Other::Arrives(Access::read([d, e, f])),
            _ => Other::Wrote { place: d, before: e, after: f },
        };
        Race { holder: threads as u32, pending: Access::read([a, b, c]), thread: (threads >> 32) as u32, other }
    }
}

impl Access {
    /// Place, address, and the rest: the length in the lowest byte, a bit for each effect above it.
    fn words(&self) -> [u64; 3] {
        let [reads, writes, atomic] = [self.reads, self.writes, self.atomic].map(u64::from);
        [self.place, self.address, u64::from(self.size) | reads << 8 | writes << 9 | atomic << 10]
    }

    fn read([place, address, rest]: [u64; 3]) -> Access {
        let is = |bit: u32| rest >> bit & 1 == 1;
        Access { place, address, size: rest as u8, reads: is(8), writes: is(9), atomic: is(10) }
    }

    /// Whether some bytes are those of the other access, too.
    #[must_use]
    pub fn overlaps(&self, other: &Access) -> bool {
        let starts_in = |a: &Access, b: &Access| a.address.wrapping_sub(b.address) < u64::from(b.size);
        starts_in(self, other) || starts_in(other, self)
    }

    /// Whether the two race if nothing orders them.
    #[must_use]
    pub fn conflicts(&self, other: &Access) -> bool {
        self.overlaps(other) && (self.writes || other.writes) && !self.may_be_atomic_with(other)
    }

    /// Whether both are steps of atomic operations, for all that the instructions show.
    fn may_be_atomic_with(&self, other: &Access) -> bool {
        let is_one_step = |access: &Access| access.atomic || access.reads != access.writes;
        let same = (self.address, self.size) == (other.address, other.size);
        self.atomic && other.atomic || (self.atomic || other.atomic) && same && is_one_step(self) && is_one_step(other)
    }
}

/// Whether an address lies on the stack of a thread with this stack pointer and thread pointer, or in its thread-local
/// storage.
#[must_use]
pub fn is_own(address: u64, stack: u64, thread_pointer: u64) -> bool {
    let to_block = thread_pointer.wrapping_sub(stack);
    let len = if to_block < STACK_MAX { to_block + BLOCK } else { STACK_LEN };
    address.wrapping_sub(stack.wrapping_sub(RED_ZONE)) < len + RED_ZONE
}

/// An access whose thread was not chosen to go on.
#[derive(Clone, Copy, Debug)]
struct Pending {
    thread: u32,
    access: Access,
    value: u64,
    /// A change of the value says nothing new: of it, or of somebody who writes, is known already.
    is_explained: bool,
    /// Until this choice among several the thread is held back.
    until: u64,
}

/// The pending accesses of a run, and the races found.
#[derive(Debug)]
pub struct Races {
    rng: Rng,
    pending: Vec<Pending>,
    known: Vec<Pair>,
}

impl Races {
    /// For a run that draws from these numbers, and need not report these races.
    #[must_use]
    pub fn new(rng: Rng, known: Vec<Pair>) -> Races {
        Races { rng, pending: Vec::new(), known }
    }

    /// `thread` has run up to `place`: the races that show in values that it has changed. `read` is the memory.
    pub fn look(&mut self, (thread, place): (u32, u64), mut read: impl FnMut(&Access) -> Option<u64>) -> Vec<Race> {
        let mut found = Vec::new();
        // Memory that is gone cannot be watched.
        self.pending.retain_mut(|pending| {
            let Some(after) = read(&pending.access) else { return false };
            let before = core::mem::replace(&mut pending.value, after);
            // An atomic access, and another one whose instruction is not known, may be right.
            if after != before && !pending.is_explained && !pending.access.atomic {
                pending.is_explained = true;
                let other = Other::Wrote { place, before, after };
                found.push(Race { holder: pending.thread, pending: pending.access, thread, other });
            }
            true
        });
        self.only_news(found)
    }

    /// `thread` has arrived at an access: its races with those that are pending.
    pub fn meet(&mut self, thread: u32, access: &Access) -> Vec<Race> {
        let mut found = Vec::new();
        for pending in self.pending.iter_mut().filter(|pending| pending.access.overlaps(access)) {
            // It says more than the change that follows, or this thread's instruction says that there is no race.
            pending.is_explained |= access.writes;
            if pending.access.conflicts(access) {
                let other = Other::Arrives(*access);
                found.push(Race { holder: pending.thread, pending: pending.access, thread, other });
            }
        }
        self.only_news(found)
    }

    /// From now on the access is pending, at this value, `step` choices among several threads having been made.
    pub fn add(&mut self, thread: u32, access: Access, value: u64, step: u64) {
        let held = self.rng.below(HELD_ONE_IN) == 0;
        let choices = 1 << self.rng.below(HOLD_MAX_LOG2 + 1);
        let until = if held { step + choices } else { step };
        // A write that was pending before changes the value; `meet` has judged it against this access already.
        let is_explained = self.pending.iter().any(|first| first.access.writes && first.access.overlaps(&access));
        self.pending.push(Pending { thread, access, value, is_explained, until });
    }

    /// The thread goes on: its access is no longer pending.
    pub fn goes_on(&mut self, thread: u32) {
        self.pending.retain(|pending| pending.thread != thread);
    }

    /// Whether the thread is held back at this choice.
    #[must_use]
    pub fn holds_back(&self, thread: u32, step: u64) -> bool {
        self.pending.iter().any(|pending| pending.thread == thread && step < pending.until)
    }

    fn only_news(&mut self, mut races: Vec<Race>) -> Vec<Race> {
        races.retain(|race| {
            let is_news = race.is_news(&self.known);
            if is_news && self.known.len() < REMEMBERED_MAX {
                self.known.push(race.pair());
            }
            is_news
        });
        races
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Access = Access { place: 1, address: 100, size: 4, reads: true, writes: false, atomic: false };
    const WRITE: Access = Access { place: 2, reads: false, writes: true, ..READ };
    const BOTH: Access = Access { place: 3, reads: true, writes: true, ..READ };
    const LOCKED: Access = Access { place: 4, atomic: true, ..BOTH };

    /// The races of thread 1, which arrives there, with thread 0, whose access is pending.
    fn met(pending: Access, arrives: Access) -> Vec<Race> {
        let mut races = Races::new(Rng::new(1), Vec::new());
        races.add(0, pending, 0, 0);
        races.meet(1, &arrives)
    }

    #[test]
    fn one_of_two_accesses_must_write_the_same_bytes() {
        assert!(met(READ, READ).is_empty());
        for (a, b) in [(READ, WRITE), (WRITE, WRITE), (READ, BOTH), (BOTH, BOTH)] {
            for (pending, arrives) in [(a, b), (b, a)] {
                let race = Race { holder: 0, pending, thread: 1, other: Other::Arrives(arrives) };
                assert_eq!(met(pending, arrives), [race]);
            }
        }
        let at = |address, size| Access { address, size, ..WRITE };
        for (address, size, races) in [(96, 4, false), (97, 4, true), (103, 1, true), (104, 1, false), (96, 8, true)] {
            assert_eq!(!met(READ, at(address, size)).is_empty(), races, "{address} {size}");
            assert_eq!(!met(at(address, size), READ).is_empty(), races, "{address} {size}");
        }
    }

    #[test]
    fn atomic_operations_do_not_race() {
        for other in [READ, WRITE, LOCKED] {
            assert!(met(LOCKED, other).is_empty() && met(other, LOCKED).is_empty(), "{other:?}");
        }
        // A plain update, and an access to other bytes, are no operations of an atomic variable.
        for other in [BOTH, Access { size: 1, ..READ }, Access { address: 102, ..WRITE }] {
            assert!(met(LOCKED, other).len() == 1 && met(other, LOCKED).len() == 1, "{other:?}");
        }
    }

    /// The races of a pending access at value 5 after others have left these values, `None`: memory that is gone.
    fn seen(races: &mut Races, values: &[Option<u64>]) -> Vec<Race> {
        values.iter().flat_map(|&value| races.look((1, 77), |_| value)).collect()
    }

    #[test]
    fn a_change_is_reported_once_with_who_ran() {
        let pending = |access| {
            let mut races = Races::new(Rng::new(1), Vec::new());
            races.add(0, access, 5, 0);
            races
        };
        let other = Other::Wrote { place: 77, before: 5, after: 6 };
        let race = Race { holder: 0, pending: READ, thread: 1, other };
        assert_eq!(seen(&mut pending(READ), &[Some(5), Some(6), Some(7)]), [race]);
        assert!(seen(&mut pending(READ), &[Some(5)]).is_empty());
        assert!(seen(&mut pending(READ), &[None, Some(6)]).is_empty(), "mapped anew");
        assert!(seen(&mut pending(LOCKED), &[Some(6)]).is_empty());
        // Its thread has gone on.
        let mut races = pending(READ);
        races.goes_on(0);
        assert!(seen(&mut races, &[Some(6)]).is_empty());
        // The writer was seen when it arrived, and is either reported or right.
        for writer in [WRITE, LOCKED] {
            let mut races = pending(READ);
            let _ = races.meet(1, &writer);
            assert!(seen(&mut races, &[Some(6)]).is_empty());
            // The same if it was there first.
            let mut races = pending(writer);
            races.add(2, READ, 5, 0);
            races.goes_on(0);
            assert!(seen(&mut races, &[Some(6)]).is_empty());
        }
    }

    #[test]
    fn the_same_pair_of_places_is_reported_once() {
        let mut races = Races::new(Rng::new(1), Vec::new());
        races.add(0, READ, 0, 0);
        assert_eq!(races.meet(1, &WRITE).len(), 1);
        races.goes_on(0);
        races.add(1, WRITE, 0, 0);
        assert!(races.look((0, 77), |_| Some(1)).is_empty(), "less is known of a change");
        assert!(races.meet(0, &READ).is_empty(), "the same in the other order");
        assert_eq!(races.meet(0, &BOTH).len(), 1);
    }

    #[test]
    fn what_other_runs_have_shown_is_known() {
        let mut races = Races::new(Rng::new(1), Vec::from([[READ.place, WRITE.place]]));
        races.add(0, READ, 5, 0);
        assert!(races.meet(1, &WRITE).is_empty() && seen(&mut races, &[Some(6)]).is_empty());
        assert_eq!(races.meet(1, &BOTH).len(), 1);
    }

    #[test]
    fn a_thread_is_held_back_for_a_while() {
        let mut held = [0; 2];
        for seed in 0..1000 {
            let mut races = Races::new(Rng::new(seed), Vec::new());
            races.add(3, READ, 0, 50);
            held[0] += u32::from(races.holds_back(3, 50));
            held[1] += u32::from(races.holds_back(3, 50 + 127));
            assert!(!races.holds_back(2, 50) && !races.holds_back(3, 50 + 128));
        }
        assert!((400..600).contains(&held[0]) && (30..100).contains(&held[1]), "{held:?}");
    }

    #[test]
    fn stacks_and_what_lies_above_them() {
        let (stack, block) = (0x7000_0000, 0x7000_2000);
        for (address, own) in [
            (stack - 128, true),
            (stack - 129, false),
            (block - 1, true),
            (block + 4095, true),
            (block + 4096, false),
            (0, false),
        ] {
            assert_eq!(is_own(address, stack, block), own, "{address:#x}");
        }
        // The first thread's block lies elsewhere.
        assert!(is_own(stack + STACK_LEN - 1, stack, 0x1000) && !is_own(stack + STACK_LEN, stack, 0x1000));
    }
}
