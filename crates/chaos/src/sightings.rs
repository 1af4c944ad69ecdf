//! The accesses that a run has made at its places: a table in the [`Log`](crate::Log), so that later runs can have those
//! places at which threads meet ([`Learned`](crate::Learned)).

use crate::races::Access;
use alloc::vec::Vec;
use sync::atomic::{AtomicU64, Ordering::*};

/// The words of an entry.
const WORDS: usize = 3;
/// The number of entries.
const ENTRIES: usize = 4096;
/// The words of the table.
pub(crate) const LEN: usize = WORDS * ENTRIES;
/// An entry is at most so far behind where its hash says. What finds no room there is forgotten.
const PROBES: usize = 8;
/// Threads are told apart by their number modulo this.
const THREADS: u32 = 63;
const WRITES: u64 = 1 << 63;

/// An address that was accessed at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// The place, by a number that does not depend on where the code is mapped; not 0.
    pub place: u64,
    /// The address of the first byte.
    pub address: u64,
    /// A bit for each thread.
    pub threads: u64,
    /// Whether it is written there.
    pub writes: bool,
}

impl Sighting {
    /// The access of one thread.
    #[must_use]
    pub fn new(place: u64, thread: u32, access: &Access) -> Sighting {
        Sighting { place, address: access.address, threads: 1 << (thread % THREADS), writes: access.writes }
    }

    fn hash(&self) -> usize {
        let mixed = (self.place ^ self.address.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize
    }
}

/// Adds a sighting to the table, if there is room.
pub(crate) fn add(table: &[AtomicU64], sighting: &Sighting) {
    for probe in 0..PROBES {
        let at = WORDS * ((sighting.hash() + probe) % ENTRIES);
        let [place, address, rest] = &table[at..at + WORDS] else { return };
        if place.load(Relaxed) == 0 {
            place.store(sighting.place, Relaxed);
            address.store(sighting.address, Relaxed);
        }
        if (place.load(Relaxed), address.load(Relaxed)) == (sighting.place, sighting.address) {
            let writes = if sighting.writes { WRITES } else { 0 };
            return rest.store(rest.load(Relaxed) | sighting.threads | writes, Relaxed);
        }
    }
}

/// All that are in the table.
pub(crate) fn all(table: &[AtomicU64]) -> Vec<Sighting> {
    let entries = table.chunks_exact(WORDS).map(|entry| [0, 1, 2].map(|i: usize| entry[i].load(Relaxed)));
    let there = entries.filter(|[place, ..]| *place != 0);
    there
        .map(|[place, address, rest]| Sighting { place, address, threads: rest & !WRITES, writes: rest & WRITES != 0 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_of_one_address_at_one_place_are_one_entry() {
        let table: Vec<AtomicU64> = (0..LEN).map(|_| AtomicU64::new(0)).collect();
        let access = |address, writes| Access { address, writes, ..Access::default() };
        add(&table, &Sighting::new(5, 1, &access(0x1000, false)));
        add(&table, &Sighting::new(5, 2, &access(0x1000, true)));
        add(&table, &Sighting::new(5, 64, &access(0x1008, false)));
        let mut found = all(&table);
        found.sort_by_key(|sighting| sighting.address);
        let sighting = |address, threads, writes| Sighting { place: 5, address, threads, writes };
        assert_eq!(found, [sighting(0x1000, 0b110, true), sighting(0x1008, 0b10, false)]);
        // A full table forgets.
        (0..10_000).for_each(|address| add(&table, &Sighting::new(7, 0, &access(address, false))));
        assert!((ENTRIES / 2..=ENTRIES).contains(&all(&table).len()));
    }
}
