//! A set of CPUs whose members are found without reading the words that have none.
//!
//! | word | bits | writer |
//! |---|---|---|
//! | member word i | b: CPU 64 i + b is a member | the holder of that CPU's run-queue lock, for its own bit |
//! | summary | i: member word i may have members | whoever takes word i from none to some sets it; whoever takes it from some to none clears it, and looks again |
//!
//! 1. *While no change is in progress, a word that has members has its summary bit.* All changes are read-modify-writes,
//!    so the summary's changes have an order. Consider the last change of word i from none to some; its author then sets
//!    the summary bit. Whoever clears the bit later in that order has read, by acquire, what the author released. It
//!    looks at word i again, finds the member, and sets the bit.
//! 2. *A summary bit without members is possible* and costs a search one load.
//!
//! A word that goes from some members to other ones changes no summary. With one word there is no summary.

use crate::OutOfMemory;
use crate::cpuset::first_from;
use alloc::boxed::Box;
use ids::CpuId;
use sync::atomic::{AtomicU64, Ordering};
use sync::boxed_slice;

/// One summary word is enough.
const _: () = assert!(ids::CPUS_MAX <= 64 * 64);

/// One bit per CPU, and one per 64 CPUs.
#[derive(Debug)]
pub(crate) struct CpuIndex {
    /// The member words, and the summary behind them. It is there so that the line of the pointer is never written.
    words: Box<[AtomicU64]>,
}

impl CpuIndex {
    pub(crate) fn new(cpus: usize) -> Result<CpuIndex, OutOfMemory> {
        Ok(CpuIndex { words: boxed_slice(cpus.div_ceil(64) + 1, |_| AtomicU64::new(0))? })
    }

    /// The number of member words.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.words.len() - 1
    }

    #[inline(always)]
    pub(crate) fn word(&self, i: usize) -> u64 {
        self.words[i].load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.word(cpu.index() / 64) >> (cpu.index() % 64) & 1 != 0
    }

    /// Adds `cpu`, whose run-queue lock the caller holds.
    pub(crate) fn insert(&self, cpu: CpuId) {
        let i = cpu.index() / 64;
        if self.words[i].fetch_or(1 << (cpu.index() % 64), Ordering::AcqRel) == 0 && self.len() > 1 {
            self.summary().fetch_or(1 << i, Ordering::AcqRel);
        }
    }

    /// Removes `cpu`, whose run-queue lock the caller holds.
    pub(crate) fn remove(&self, cpu: CpuId) {
        let (i, bit) = (cpu.index() / 64, 1 << (cpu.index() % 64));
        if self.words[i].fetch_and(!bit, Ordering::AcqRel) != bit || self.len() == 1 {
            return;
        }
        self.summary().fetch_and(!(1 << i), Ordering::AcqRel);
        if self.word(i) != 0 {
            self.summary().fetch_or(1 << i, Ordering::AcqRel);
        }
    }

    /// The first member in `allowed`, given a word's index, from `start` on and going round.
    #[inline(always)]
    pub(crate) fn first(&self, start: CpuId, allowed: impl Fn(usize) -> u64) -> Option<CpuId> {
        if self.len() == 1 {
            return first_from(1, start, |_| self.word(0) & allowed(0));
        }
        self.open_words(start).find_map(|(i, part)| bits(i, self.word(i) & part & allowed(i)).next())
    }

    /// Whether any member is in `allowed`, given a word's index.
    #[inline(always)]
    pub(crate) fn meets(&self, allowed: impl Fn(usize) -> u64) -> bool {
        if self.len() == 1 {
            return self.word(0) & allowed(0) != 0;
        }
        bits(0, self.summary().load(Ordering::Acquire)).any(|i| self.word(i.index()) & allowed(i.index()) != 0)
    }

    /// The members from `start` on, going round.
    pub(crate) fn members(&self, start: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        self.open_words(start).flat_map(|(i, part)| bits(i, self.word(i) & part))
    }

    /// The words that may have members, in the order of a search from `start`, and which of their bits are to be looked
    /// at: the first word is searched in two parts.
    fn open_words(&self, start: CpuId) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (first, high) = (start.index() / 64, u64::MAX << (start.index() % 64));
        let open = if self.len() == 1 { 1 } else { self.summary().load(Ordering::Acquire) };
        let from = u64::MAX << first;
        let (later, earlier) = (open & from & !(1 << first), open & !from);
        let part = move |part| (open >> first & 1 != 0).then_some((first, part));
        let others = bits(0, later).chain(bits(0, earlier)).map(|i| (i.index(), u64::MAX));
        part(high).into_iter().chain(others).chain(part(!high))
    }

    #[inline(always)]
    fn summary(&self) -> &AtomicU64 {
        &self.words[self.len()]
    }

    /// Whether `cpu` is a member and searches find it. Certain only while nothing changes.
    pub(crate) fn shows(&self, cpu: CpuId) -> bool {
        let summary = self.len() == 1 || self.summary().load(Ordering::Acquire) >> (cpu.index() / 64) & 1 != 0;
        summary && self.contains(cpu)
    }
}

/// The CPUs of word `i` of a set.
fn bits(i: usize, mut word: u64) -> impl Iterator<Item = CpuId> {
    core::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        word &= word.wrapping_sub(1);
        (bit < 64).then(|| CpuId((i * 64 + bit) as u16))
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn index(cpus: usize, of: &[u16]) -> CpuIndex {
        let index = CpuIndex::new(cpus).unwrap();
        of.iter().for_each(|&c| index.insert(CpuId(c)));
        index
    }

    /// Against the definition: the members at or after `start`, then the others.
    #[test]
    fn members_come_in_order_from_anywhere_and_go_round() {
        for of in [&[][..], &[0], &[63], &[64], &[5, 70], &[63, 64, 128], &[1, 65, 129], &[127, 191, 192, 255]] {
            let index = index(256, of);
            for start in [0, 1, 5, 6, 62, 63, 64, 65, 70, 71, 127, 128, 130, 191, 255] {
                let (after, before): (Vec<u16>, Vec<u16>) = of.iter().partition(|&&c| c >= start);
                let expected = [after, before].concat();
                let found: Vec<u16> = index.members(CpuId(start)).map(|c| c.0).collect();
                assert_eq!(found, expected, "{of:?} from {start}");
                let first = |allowed: u64| index.first(CpuId(start), |_| allowed).map(|c| c.0);
                assert_eq!(first(u64::MAX), expected.first().copied());
                let odd = |c: &&u16| *c % 2 == 1;
                assert_eq!(first(0xaaaa_aaaa_aaaa_aaaa), expected.iter().find(odd).copied());
                assert_eq!(index.meets(|_| 0xaaaa_aaaa_aaaa_aaaa), expected.iter().any(|c| odd(&c)));
            }
        }
    }

    #[test]
    fn one_word_has_no_summary() {
        let index = index(64, &[3, 63]);
        assert_eq!((index.len(), index.summary().load(Ordering::Relaxed)), (1, 0));
        assert_eq!(index.first(CpuId(4), |_| u64::MAX), Some(CpuId(63)));
        assert_eq!(index.members(CpuId(4)).map(|c| c.0).collect::<Vec<_>>(), [63, 3]);
        assert!(index.meets(|_| 8) && !index.meets(|_| 4) && index.shows(CpuId(3)));
        index.remove(CpuId(3));
        assert!(!index.shows(CpuId(3)));
    }

    proptest::proptest! {
        #[test]
        fn it_is_a_set(changes in proptest::collection::vec((0u16..200, proptest::bool::ANY), 0..300), start in 0u16..200) {
            let (index, mut model) = (index(200, &[]), BTreeSet::new());
            for (c, is_in) in changes {
                if is_in {
                    index.insert(CpuId(c));
                    model.insert(c);
                } else {
                    index.remove(CpuId(c));
                    model.remove(&c);
                }
                assert!((0..200).all(|c| index.shows(CpuId(c)) == model.contains(&c)));
                let open = index.summary().load(Ordering::Relaxed);
                assert!((0..4).all(|i| (open >> i & 1 != 0) == (index.word(i) != 0)), "no word is searched in vain");
            }
            let expected = model.range(start..).chain(model.range(..start)).copied();
            assert!(index.members(CpuId(start)).map(|c| c.0).eq(expected));
        }
    }
}

/// All interleavings of a few CPUs that come and go in one word of two.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Each CPU makes its changes under its own lock, here by one thread; then nothing that is there is hidden.
    fn all_show(members: &[u16], lives: &[(u16, &'static [bool])]) {
        let (members, lives) = (members.to_vec(), lives.to_vec());
        loom::model(move || {
            let index = Arc::new(CpuIndex::new(128).unwrap());
            members.iter().for_each(|&c| index.insert(CpuId(c)));
            let live = |&(c, changes): &(u16, &'static [bool])| {
                let index = index.clone();
                thread::spawn(move || {
                    for &is_in in changes {
                        if is_in { index.insert(CpuId(c)) } else { index.remove(CpuId(c)) }
                    }
                })
            };
            let threads: alloc::vec::Vec<_> = lives.iter().map(live).collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
            for &(c, changes) in &lives {
                assert_eq!(index.contains(CpuId(c)), changes.last() == Some(&true));
                assert_eq!(index.shows(CpuId(c)), changes.last() == Some(&true), "the summary hides {c}");
            }
        });
    }

    #[test]
    fn one_that_comes_as_the_last_one_goes_is_found() {
        all_show(&[64], &[(64, &[false]), (65, &[true])]);
    }

    #[test]
    fn one_that_comes_back_as_another_goes_is_found() {
        all_show(&[64], &[(64, &[false, true]), (65, &[true, false])]);
    }
}
