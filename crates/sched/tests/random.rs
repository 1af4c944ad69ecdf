//! Random lives of threads on virtual CPUs, checked after every event. A seed reproduces
//! its run exactly; one that found a bug becomes a named test below.

mod support;

use entresol_sched::Config;
use ids::{CpuId, CpuMask};
use support::lives::run;

fn many(seeds: std::ops::Range<u64>, cpus: &[usize], events: usize) {
    for seed in seeds {
        let n = cpus[seed as usize % cpus.len()];
        if let Err(story) = run(&Config::default(), seed, n, events) {
            panic!("{story}");
        }
    }
}

#[test]
fn small_machines() {
    many(0..1500, &[1, 2, 3, 4], 300);
}

/// What they found: a budget that ran out while a later deadline was inherited; a pinned newcomer before its
/// equals, wrongly reported; a deadline push that aimed at a CPU about to run something more urgent; a wait that
/// began anew at every move.
#[test]
fn seeds_that_found_something() {
    for seed in [3028, 4641, 4864, 14_813, 17_790, 51_135] {
        many(seed..seed + 1, &[1, 2, 3, 4], 300);
    }
    // A new budget and a postponed deadline, both seen by a tick only and told to nobody.
    [63_885, 155_740].into_iter().for_each(|seed| many(seed..seed + 1, &[4], 300));
}

/// CPUs dealt out by turns: nobody waits in one root domain for what another does.
#[test]
fn root_domains() {
    for seed in 20_000..20_300 {
        let (cpus, of) = [(3, 2), (4, 2), (6, 3), (130, 4)][if seed % 100 == 0 { 3 } else { seed as usize % 3 }];
        let mut domains = vec![CpuMask::empty(); of];
        (0..cpus).for_each(|c| domains[c % of].insert(CpuId(c as u16)));
        let config = Config { domains, ..Config::default() };
        if let Err(story) = run(&config, seed, cpus, 300) {
            panic!("{story}");
        }
    }
}

#[test]
fn more_cpus_than_a_word_has_bits() {
    many(1000..1004, &[65, 130], 400);
}
