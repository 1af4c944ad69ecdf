//! A sweep over random machines and programs with all invariants on. ENTRESOL_SIM_SEEDS
//! (`FROM..TO`, or a count) asks for other seeds than the first 300, ENTRESOL_SIM_LENGTH for
//! programs so many times as long (some 1,500 events each).

mod seeds;

use entresol_sim::Outcome;
use entresol_sim::swarm::Swarm;
use seeds::seeds;

fn run(seed: u64, checked: bool) -> Outcome {
    let length =
        std::env::var("ENTRESOL_SIM_LENGTH").map_or(1, |n| n.parse().expect("ENTRESOL_SIM_LENGTH is a number"));
    let mut world = Swarm { seed, length, plant: None, hardware: None }.world();
    world.set_checked(checked);
    world.run()
}

#[test]
fn no_seed_breaks_an_invariant() {
    let (mut events, mut failed) = (0, Vec::new());
    for seed in seeds(300) {
        let out = run(seed, true);
        events += out.events;
        if let Some(v) = out.violation {
            failed.push(format!("seed {seed}, {:?}: {}", v.at, v.what));
        } else if seed % 10 == 0 {
            assert_eq!(run(seed, false).hash, out.hash, "seed {seed} runs differently when nobody looks");
        }
    }
    println!("{} seeds, {events} events, {} failed", seeds(300).count(), failed.len());
    assert!(failed.is_empty(), "{} seeds failed:\n{}", failed.len(), failed.join("\n"));
}
