//! Swarms on machines that are not flat: no invariant breaks because CPUs are slow, far apart or away, and the checks see
//! as much there.
//!
//! ENTRESOL_SIM_SEEDS asks for other seeds than the first 250 (500 runs), as for `swarm`.

mod seeds;

use entresol_sim::swarm::Swarm;
use entresol_sim::{Bug, Hardware, Outcome, Plant};
use seeds::seeds;

const PLANT_SEEDS: u64 = 600;

fn hybrid() -> Hardware {
    Hardware::named("hybrid").unwrap().unwrap()
}

fn run(seed: u64, hardware: Hardware, plant: Option<Plant>) -> Outcome {
    Swarm { seed, length: 1, plant, hardware: Some(hardware) }.world().run()
}

#[track_caller]
fn sound(machine: fn(u64) -> Hardware) {
    let mut failed = Vec::new();
    for seed in seeds(250) {
        let out = run(seed, machine(seed), None);
        if let Some(v) = out.violation {
            failed.push(format!("seed {seed}, {:?}: {}", v.at, v.what));
        } else if seed % 50 == 0 {
            assert_eq!(run(seed, machine(seed), None).hash, out.hash, "seed {seed} runs differently the second time");
        }
    }
    assert!(failed.is_empty(), "{} seeds failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn no_seed_breaks_an_invariant_on_a_hybrid_machine_with_stolen_time() {
    sound(|_| hybrid());
}

#[test]
fn no_seed_breaks_an_invariant_on_its_own_machine() {
    sound(Hardware::random);
}

#[test]
fn every_planted_bug_is_caught_where_time_is_stolen() {
    let caught = |bug: Bug, seed: u64| {
        let plant = Some(Plant { bug, after: [0, 5, 50][seed as usize % 3] });
        let out = run(seed, hybrid(), plant);
        out.planted && out.violation.is_some()
    };
    let missed: Vec<_> = Bug::ALL.into_iter().filter(|&bug| !(0..PLANT_SEEDS).any(|seed| caught(bug, seed))).collect();
    assert!(missed.is_empty(), "never caught in {PLANT_SEEDS} seeds: {missed:?}");
}
