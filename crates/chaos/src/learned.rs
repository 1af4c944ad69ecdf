//! The places at which threads meet, learned from earlier runs.
//!
//! A run has few places, and most accesses of a program are to memory of one thread, or to what nobody changes. A switch
//! there is lost. So this keeps which addresses several threads have accessed, one of them to write, and where. The
//! addresses of a program are the same in each run, so it does not matter that the accesses were seen in different
//! ones. Memory that is used again for something else looks shared; that costs a place, and no more.

use crate::Rng;
use crate::sightings::Sighting;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The number of addresses that are kept.
const ADDRESSES_MAX: usize = 1 << 16;
/// The number of places that are kept for an address, and of addresses for a place.
const EACH_MAX: usize = 32;

/// The accesses to one address, from all runs.
#[derive(Debug, Default)]
struct Accessed {
    threads: u64,
    writes: bool,
    places: Vec<u64>,
}

impl Accessed {
    fn is_shared(&self) -> bool {
        self.writes && self.threads.count_ones() > 1
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Learned {
    addresses: BTreeMap<u64, Accessed>,
    /// The places at which something shared is accessed, each with some of these addresses.
    meeting: BTreeMap<u64, Vec<u64>>,
}

impl Learned {
    /// A run has made these accesses.
    pub fn add(&mut self, sightings: &[Sighting]) {
        for sighting in sightings {
            let is_full = self.addresses.len() >= ADDRESSES_MAX;
            if is_full && !self.addresses.contains_key(&sighting.address) {
                continue;
            }
            let accessed = self.addresses.entry(sighting.address).or_default();
            let (was_shared, new) = (accessed.is_shared(), !accessed.places.contains(&sighting.place));
            accessed.threads |= sighting.threads;
            accessed.writes |= sighting.writes;
            if new && accessed.places.len() < EACH_MAX {
                accessed.places.push(sighting.place);
            }
            if accessed.is_shared() && (new || !was_shared) {
                for &place in &accessed.places {
                    let addresses = self.meeting.entry(place).or_default();
                    if addresses.len() < EACH_MAX && !addresses.contains(&sighting.address) {
                        addresses.push(sighting.address);
                    }
                }
            }
        }
    }

    /// Up to `wanted` different places at which threads meet: a few addresses, and for each of them the places at which it is
    /// accessed, because a switch at one is often of no use without one at the other.
    #[must_use]
    pub fn draw(&self, rng: &mut Rng, wanted: usize) -> Vec<u64> {
        let all: Vec<&Vec<u64>> = self.meeting.values().collect();
        let mut chosen = Vec::new();
        for _ in 0..2 * wanted {
            if all.is_empty() || chosen.len() >= wanted {
                break;
            }
            let addresses = all[rng.below(all.len() as u64) as usize];
            let address = addresses[rng.below(addresses.len() as u64) as usize];
            let Some(accessed) = self.addresses.get(&address) else { continue };
            let from = rng.below(accessed.places.len() as u64) as usize;
            let places = accessed.places[from..].iter().chain(&accessed.places[..from]);
            for &place in places.take(wanted.div_ceil(2)) {
                if chosen.len() < wanted && !chosen.contains(&place) {
                    chosen.push(place);
                }
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_at_which_threads_meet_are_drawn() {
        let mut learned = Learned::default();
        let sighting = |place, address, thread: u32, writes| Sighting { place, address, threads: 1 << thread, writes };
        // One thread's own, and what two threads only read.
        learned.add(&[sighting(1, 100, 0, true), sighting(2, 200, 0, false), sighting(2, 200, 1, false)]);
        assert!(learned.draw(&mut Rng::new(1), 9).is_empty());
        // Written by a third one, in another run.
        learned.add(&[sighting(3, 200, 2, true), sighting(4, 300, 1, true)]);
        let mut drawn = learned.draw(&mut Rng::new(1), 9);
        drawn.sort_unstable();
        assert_eq!(drawn, [2, 3]);
        learned.add(&[sighting(5, 300, 2, false)]);
        let mut drawn = learned.draw(&mut Rng::new(1), 9);
        drawn.sort_unstable();
        assert_eq!(drawn, [2, 3, 4, 5]);
        // The two places of one address come together.
        for seed in 0..20 {
            let mut drawn = learned.draw(&mut Rng::new(seed), 3);
            drawn.sort_unstable();
            assert!(drawn.starts_with(&[2, 3]) || drawn.ends_with(&[4, 5]), "{drawn:?}");
        }
    }
}
