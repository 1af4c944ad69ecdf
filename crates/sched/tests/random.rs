//! Random lives of threads on virtual CPUs, checked after every event. A seed reproduces
//! its run exactly; one that found a bug becomes a named test below.

mod support;

use entresol_sched::Config;
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

#[test]
fn more_cpus_than_a_word_has_bits() {
    many(1000..1004, &[65, 130], 400);
}
