//! Measures the simulator: events a second on one core, and the trace hashes, which say whether two versions run alike.
//!
//! `speed swarm FROM..TO [LENGTH] [--no-check] [--hashes]`, `speed SCENARIO [CPUS [THREADS [ROUNDS]]] [--no-check]`.

use entresol_sim::swarm::Swarm;
use entresol_sim::{Options, Report, scenario};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|a| a == flag);
    let words: Vec<&str> = args.iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    let number = |i: usize| words.get(i).map(|w| w.parse::<u64>().expect("a number"));
    let check = !has("--no-check");
    let begin = cpu_seconds();
    let (events, hash) = match words.first() {
        Some(&"swarm") => {
            let (from, to) = words.get(1).unwrap_or(&"0..300").split_once("..").expect("FROM..TO");
            let seeds = from.parse().expect("a number")..to.parse().expect("a number");
            swarm(seeds, number(2).unwrap_or(1), check, has("--hashes"))
        }
        Some(name) => {
            let cpus = number(1).unwrap_or(4) as usize;
            let (threads, rounds) = (number(2).map(|n| n as usize), number(3).map(|n| n as u32));
            let run = scenario(name).expect("a scenario's name").run;
            let report: Report = run(1, cpus, &Options { threads, rounds, check, ..Options::default() });
            assert_eq!(report.failure, None);
            (report.events, report.hash)
        }
        None => panic!("speed swarm|SCENARIO"),
    };
    let took = cpu_seconds() - begin;
    println!("{events} events in {took:.3} s: {:.3} M/s, hash {hash}", events as f64 / took / 1e6);
}

/// All of these seeds: their events, and one hash of all hashes.
fn swarm(seeds: std::ops::Range<u64>, length: u64, check: bool, hashes: bool) -> (u64, String) {
    let (mut events, mut all) = (0, 0u64);
    for seed in seeds {
        let mut world = Swarm { seed, length, plant: None, hardware: None }.world();
        world.set_checked(check);
        let out = world.run();
        assert!(out.violation.is_none(), "seed {seed}: {:?}", out.violation);
        if hashes {
            println!("{seed} {:016x} {}", out.hash, out.events);
        }
        events += out.events;
        all = all.rotate_left(5) ^ out.hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (events, format!("{all:016x}"))
}

/// The CPU time of this process: what others do on the machine does not matter.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("/proc is there");
    let nanoseconds = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    nanoseconds.expect("its first number") / 1e9
}
