//! Every bug that can be planted in the machine or the personality is caught by a sweep of 600 seeds: the checks
//! see what they are for.

use entresol_sim::swarm::Swarm;
use entresol_sim::{Bug, Plant};

const SEEDS: u64 = 600;
/// More catches than this say nothing new.
const ENOUGH: u64 = 3;

/// How many seeds gave the bug its opportunity, and how many of those were caught.
fn sweep(bug: Bug) -> (u64, u64) {
    let (mut struck, mut caught) = (0, 0);
    for seed in 0..SEEDS {
        let plant = Some(Plant { bug, after: [0, 5, 50][seed as usize % 3] });
        let out = Swarm { seed, length: 1, plant, hardware: None }.world().run();
        struck += u64::from(out.planted);
        caught += u64::from(out.planted && out.violation.is_some());
        if caught == ENOUGH {
            break;
        }
    }
    (struck, caught)
}

#[test]
fn every_planted_bug_is_caught() {
    let results: Vec<_> = Bug::ALL.iter().map(|&bug| (bug, sweep(bug))).collect();
    for (bug, (struck, caught)) in &results {
        println!("{bug:?}: {caught} of {struck}");
    }
    let missed: Vec<_> = results.iter().filter(|(_, (_, caught))| *caught == 0).map(|r| r.0).collect();
    assert!(missed.is_empty(), "never caught in {SEEDS} seeds: {missed:?}");
}
