//! The page on sharing a CPU fairly: lag, latency, and what sleeping earns, under four designs.

use ids::{Nanos, Nice};
use lab::fair::{Burst, Load, Outcome, Served, Share, all, run};

use sim::workload::Class;
use sim::{Options, Policy, Report};

use super::args::FairArguments;
use super::page::{Cell, Page, Part, Row, Table};
use bench::table::number;

/// Simulated time of each cell.
const TIME: Nanos = Nanos::from_secs(4);
/// The sizes of simulated machines, in CPUs.
const MACHINES: [usize; 3] = [2, 8, 32];
/// Rows of the tables, by the order of `lab::fair::all`.
const CFS: usize = 0;
const PAPER: usize = 1;

/// Threads that run together.
struct Scene {
    head: &'static str,
    loads: Vec<Load>,
}

fn hog(nice: i8, micros: u64) -> Load {
    let share = Share { nice: Nice(nice), slice: Nanos::from_micros(micros), ..Share::DEFAULT };
    Load { share, begins: Nanos::ZERO, bursts: vec![] }
}

fn sleeper(slice_micros: u64, run_micros: u64, sleep_micros: u64) -> Load {
    let burst = Burst { run: Nanos::from_micros(run_micros), sleep: Nanos::from_micros(sleep_micros) };
    Load { bursts: vec![burst], ..hog(0, slice_micros) }
}

/// Takes all figures.
pub(super) fn page(request: &FairArguments) -> Page {
    let tick = Nanos::from_micros(request.tick);
    let lags = lags(tick);
    let bad =
        lags.rows.iter().flat_map(|row| row.cells.iter().zip(&lags.heads).map(move |(cell, head)| (row, cell, head)));
    let bad = bad.filter(|(_, cell, _)| cell.verdict == super::page::Verdict::Bad);
    let faults =
        bad.map(|(row, cell, head)| format!("{}, {head}: {} breaks the bound", row.labels[0], cell.text)).collect();
    Page {
        title: "Sharing a CPU fairly",
        notes: vec![
            format!(
                "One CPU with a tick of {} ms, which is the paper's quantum too, simulated for 4 s; a switch costs nothing. An \
                 ideal machine serves all threads that want to run at the same time, each by its weight: lag is how much \
                 more it would have given a thread than the thread received. CFS ignores slices; it has the period of one CPU, \
                 6 ms.",
                number(tick.0 as f64 / 1e6)
            ),
            "The paper's theorem 1: -r < lag < max(r, q), where r is the thread's request (its slice) and q the quantum. While \
             nobody wakes, Linux runs a slice to the first tick after its end, Entresol for at least the shortest slice of those \
             present: they are held against the longest slice and a tick for each thread owed, and the thread's slice and a tick \
             ahead, where no slice is shorter than a tick. CFS has no such bound."
                .to_owned(),
        ],
        parts: vec![Part::Table(lags), Part::Table(sleepers(tick)), Part::Table(several_cpus())],
        faults,
    }
}

/// The most that any thread was owed and had too early.
fn lags(tick: Nanos) -> Table {
    let scenes = [
        Scene { head: "8 threads, slice 3 ms", loads: vec![hog(0, 3_000); 8] },
        Scene { head: "nice -5, 0, 5 and 10", loads: [-5, 0, 5, 10].map(|nice| hog(nice, 3_000)).to_vec() },
        Scene {
            head: "slices 0.5, 1, 2 and 4 ms",
            loads: [500, 1_000, 2_000, 4_000].map(|micros| hog(0, micros)).to_vec(),
        },
        Scene { head: "one of 10 ms, 7 of 1 ms", loads: [&[hog(0, 10_000)][..], &vec![hog(0, 1_000); 7]].concat() },
    ];
    let row = |(at, name): (usize, &'static str)| {
        let cells = scenes.iter().map(|scene| {
            let mut design = all(tick).swap_remove(at);
            lag(at, &scene.loads, tick, &run(&mut *design, &scene.loads, tick, TIME))
        });
        Row::of(name, cells.collect())
    };
    Table {
        title: "Threads that always compute: most owed / most ahead, ms (switches a second)".to_owned(),
        labels: vec![String::new()],
        heads: scenes.iter().map(|scene| scene.head.to_owned()).collect(),
        rows: names(tick).map(row).collect(),
        notes: vec![],
    }
}

fn names(tick: Nanos) -> impl Iterator<Item = (usize, &'static str)> {
    all(tick).into_iter().map(|design| design.name()).enumerate().collect::<Vec<_>>().into_iter()
}

fn lag(design: usize, loads: &[Load], tick: Nanos, outcome: &Outcome) -> Cell {
    let most = |of: fn(&Served) -> i64| outcome.threads.iter().map(of).max().unwrap_or(0) as f64 / 1e6;
    let (owed, ahead) = (most(|served| served.owed), most(|served| served.ahead));
    let switches = outcome.switches as f64 / (TIME.0 as f64 / 1e9);
    let cell = Cell::figure("owed_ms", owed).with("ahead_ms", ahead).with("switches_per_s", switches);
    let cell = cell.shown(format!("{} / {} ({})", number(owed), number(ahead), number(switches)));
    match keeps_bounds(design, loads, tick, outcome) {
        Some(keeps) => cell.judged(keeps),
        None => cell,
    }
}

/// `None`: nothing is known that it would have to keep.
fn keeps_bounds(design: usize, loads: &[Load], tick: Nanos, outcome: &Outcome) -> Option<bool> {
    let slices = || loads.iter().map(|load| load.share.slice.0);
    let (shortest, longest) = (slices().min()?, slices().max()?);
    if design == CFS || design != PAPER && tick.0 > shortest {
        return None;
    }
    let keeps = |(load, served): (&Load, &Served)| {
        let slice = load.share.slice.0;
        let (owed, ahead) = if design == PAPER {
            (slice.max(tick.0), slice)
        } else {
            (longest + loads.len() as u64 * tick.0, slice + tick.0)
        };
        // A nanosecond is for rounding.
        served.owed <= owed as i64 + 1 && served.ahead <= ahead as i64 + 1
    };
    Some(loads.iter().zip(&outcome.threads).all(keeps))
}

/// How long a thread waits that sleeps between its runs, what one gains that sleeps to shed its debt, and one that sleeps half of
/// the time.
fn sleepers(tick: Nanos) -> Table {
    let hogs = |n| vec![hog(0, 3_000); n];
    let with = |load, n| [hogs(n), vec![load]].concat();
    let latency = [
        Scene {
            head: "waits for 0.4 ms after each 2.617 ms of sleep, slice 3 ms",
            loads: with(sleeper(3_000, 400, 2_617), 3),
        },
        Scene { head: "the same, slice 0.5 ms", loads: with(sleeper(500, 400, 2_617), 3) },
    ];
    let theft = Scene { head: "sleeps 1 µs after each 2.99 ms, gets", loads: with(sleeper(3_000, 2_990, 1), 2) };
    let half =
        Scene { head: "sleeps 2 ms after each 2 ms, beside one, gets", loads: with(sleeper(3_000, 2_000, 2_000), 1) };
    let row = |(at, name): (usize, &'static str)| {
        let serve = |scene: &Scene| {
            let mut design = all(tick).swap_remove(at);
            run(&mut *design, &scene.loads, tick, TIME).threads.pop().expect("the sleeper is the last")
        };
        let waits = latency.iter().map(|scene| wait(&serve(scene)));
        Row::of(name, waits.chain([due(&serve(&theft)), part(&serve(&half))]).collect())
    };
    let heads = latency.iter().chain([&theft, &half]).map(|scene| scene.head.to_owned());
    Table {
        title: "A thread that sleeps, beside three, two and one that compute".to_owned(),
        labels: vec![String::new()],
        heads: heads.collect(),
        rows: names(tick).map(row).collect(),
        notes: vec![
            "Waits: mean / p99, ms. Gets: per cent of what is due to it while it wants to run; in the last column of the CPU, \
             of which the ideal machine gives it a third."
                .to_owned(),
        ],
    }
}

/// Whole machines, simulated: how long woken threads wait, and how fast messages go.
fn several_cpus() -> Table {
    let heads = MACHINES.iter().flat_map(|cpus| [format!("schbench, {cpus} CPUs"), format!("hackbench, {cpus} CPUs")]);
    let row = |policy: Policy| {
        let cells = MACHINES.iter().flat_map(|&cpus| {
            let woken = simulate("schbench", policy, cpus);
            let [p50, p99] = ["wake-up p50", "wake-up p99"].map(|name| woken.get(name).unwrap_or_default() / 1e3);
            let sent = simulate("hackbench", policy, cpus).get("time a message").unwrap_or_default();
            let wait = Cell::figure("wait_p50_ms", p50).with("wait_p99_ms", p99);
            let message = Cell::figure("message_us", sent).shown(number(sent));
            [wait.shown(format!("{} / {}", number(p50), number(p99))), message]
        });
        Row::of(policy.name(), cells.collect())
    };
    Table {
        title: "Several CPUs, simulated with the costs of this machine".to_owned(),
        labels: vec![String::new()],
        heads: heads.collect(),
        rows: Policy::of(Class::Fair).map(row).collect(),
        notes: vec![
            "schbench: how long a woken worker waits, p50 / p99, ms, with twice as many workers as CPUs for each of two that \
             wake them. hackbench: µs a message. The same programs, seed and costs; `entresol sim run schbench --policy \
             eevdf-6.12` makes one run. The machine of Linux's schedulers places and balances threads as \
             Linux does, and has no caches. Entresol's kernel also pays for its own calls."
                .to_owned(),
        ],
    }
}

fn simulate(scenario: &str, policy: Policy, cpus: usize) -> Report {
    let run = sim::scenario(scenario).expect("the simulator has it").run;
    run(1, cpus, &Options { policy, check: false, ..Options::default() })
}

fn wait(served: &Served) -> Cell {
    let mut waits: Vec<f64> = served.waits.iter().map(|wait| wait.0 as f64 / 1e6).collect();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    let p99 = bench::probe::clock::percentile(&mut waits, 99);
    Cell::figure("wait_mean_ms", mean).with("wait_p99_ms", p99).shown(format!("{} / {}", number(mean), number(p99)))
}

fn due(served: &Served) -> Cell {
    let percent = served.received.0 as f64 * 100.0 / served.ideal.0 as f64;
    Cell::figure("of_its_due_percent", percent).shown(format!("{} %", number(percent)))
}

fn part(served: &Served) -> Cell {
    let percent = served.received.0 as f64 * 100.0 / TIME.0 as f64;
    Cell::figure("of_the_cpu_percent", percent).shown(format!("{} %", number(percent)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Output;

    #[test]
    fn every_bound_holds_with_short_and_long_ticks() {
        for tick in [50, 250, 1_000, 4_000, 10_000] {
            let page = page(&FairArguments { tick, no_live: true, output: Output { html: None, json: false } });
            assert_eq!(page.faults, Vec::<String>::new(), "{tick} µs");
            assert_eq!(page.parts.len(), 3);
        }
    }
}
