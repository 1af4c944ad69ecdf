//! The page on look-ups in `/proc` (2021): the designs in the cost model, and raced here.

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lab::cost::Machine;
use lab::procfs::{Design, Walks, modelled};

use super::args::ProcfsArguments;
use super::page::{Cell, Curve, Page, Part, Plot, Point, Row, Table, Verdict, quoted};
use tool::{machine, style};

/// The figures of the message of 4 October 2021.
const SEED: [&str; 5] = [
    "\"When running running ~128 parallel instances of \"TZ=/etc/localtime ps -fe >/dev/null\" on a 128CPU machine, the %sys",
    "utilization reaches 97%\"",
    "\"All concurrent path lookups thus try to grab a reference to the dentry for /proc/\"",
    "\"By applying this patch, %sys utilization falls to around 85% under the same workload, and the number of ps processes",
    "executed per unit time increases by 3x-4x.\"",
];
/// Threads of the process that live readers look up.
const THREADS: usize = 1_000;
/// One live measurement.
const SPAN: Duration = Duration::from_millis(150);
/// The seed's test, on the machine of its figures.
const SEED_CPUS: usize = modelled::CPUS;

/// Takes everything that was asked for.
pub(super) fn page(request: &ProcfsArguments) -> Page {
    let sizes: Vec<usize> = request.cpus.iter().map(|&n| n as usize).collect();
    let mut faults = Vec::new();
    let scans = |design: Design, machine: &Machine| design.scans(machine);
    let mut parts = vec![
        quoted("The message", &SEED),
        Part::Table(gains(&mut faults)),
        Part::Table(table("In the cost model: files per second, against one scan alone", "scans", &sizes, scans)),
        Part::Plot(plot(&sizes)),
        Part::Table(table("In the cost model: share of system time, %", "percent", &sizes, |design, machine| {
            design.system_share(machine) * 100.0
        })),
    ];
    if !request.no_live {
        parts.push(Part::Table(live(&mut faults)));
    }
    Page {
        title: "Looking a name up in /proc: nothing shared is written",
        notes: vec![
            "4.14-mutex: all sleep on the directory's mutex, which is as slow and costs no system time. references: no RCU \
             mode at all. entresol: not even the last reference is taken."
                .to_owned(),
        ],
        parts,
        faults,
    }
}

/// The message's own figure, and ours.
fn gains(faults: &mut Vec<String>) -> Table {
    let seed = Machine::of_cpus(SEED_CPUS);
    let gain = |design: Design| Design::Before.nanoseconds(&seed) / design.nanoseconds(&seed);
    let (patch, ours) = (gain(Design::Patched), gain(Design::Ours));
    if !(1.5..8.0).contains(&patch) {
        faults.push(format!("the patch gains {patch:.1} times at {SEED_CPUS} CPUs; the message: 3 to 4"));
    }
    if ours <= patch {
        faults.push(format!("ours gains {ours:.1} times at {SEED_CPUS} CPUs, the patch {patch:.1}"));
    }
    let row = |name: &str, told: &str, gain: f64, holds: bool| {
        Row::of(name, vec![Cell::words(told), Cell::figure("gain", gain).judged(holds)])
    };
    Table {
        title: format!("Times as fast as before the patch, {SEED_CPUS} CPUs"),
        labels: vec![String::new()],
        heads: vec!["the message".to_owned(), "the cost model".to_owned()],
        rows: vec![
            row("the patch", "3 to 4", patch, (1.5..8.0).contains(&patch)),
            row("Entresol", "–", ours, ours > patch),
        ],
        notes: Vec::new(),
    }
}

fn about(design: Design) -> &'static str {
    match design {
        Design::Sleeping => "asleep on one mutex",
        Design::References => "references throughout",
        Design::Before => "before the patch",
        Design::Patched => "the patch",
        Design::Ours => "nothing shared is written",
    }
}

fn labels(design: Design) -> Vec<String> {
    vec![design.name().to_owned(), about(design).to_owned()]
}

fn table(title: &str, name: &'static str, sizes: &[usize], figure: impl Fn(Design, &Machine) -> f64) -> Table {
    let cell = |design, cpus: usize| {
        let command = format!("entresol lab procfs --no-live --cpus {cpus}");
        Cell::figure(name, figure(design, &Machine::of_cpus(cpus))).repeated_by(command)
    };
    let row =
        |design: Design| Row { labels: labels(design), cells: sizes.iter().map(|&cpus| cell(design, cpus)).collect() };
    Table {
        title: title.to_owned(),
        labels: vec!["design".to_owned(), String::new()],
        heads: sizes.iter().map(|n| format!("{n} CPUs")).collect(),
        rows: Design::ALL.into_iter().map(row).collect(),
        notes: Vec::new(),
    }
}

fn plot(sizes: &[usize]) -> Plot {
    let point = |design: Design, cpus: usize| {
        let y = design.scans(&Machine::of_cpus(cpus));
        Point { x: cpus as f64, y, verdict: Verdict::None }
    };
    let curve = |design: Design| Curve {
        name: design.name().to_owned(),
        ours: design == Design::Ours,
        points: sizes.iter().map(|&cpus| point(design, cpus)).collect(),
    };
    let curves = Design::ALL.into_iter().map(curve).collect();
    Plot { title: "Files per second".to_owned(), across: "CPUs", up: "against one scan alone", unit: "×", curves }
}

/// The same walks on real CPUs with native threads: the code that the kernel runs, without its system calls.
fn live(faults: &mut Vec<String>) -> Table {
    let cpus = machine::host_cpus();
    let mut readers: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < cpus).collect();
    readers.extend([cpus, 2 * cpus]);
    readers.dedup();
    let mut cell = |design: Design, n: usize| match race(design, n) {
        Some(rate) => Cell::figure("million_per_s", rate),
        None => {
            faults.push(format!("{}, {n} readers: a thread that lives was not found", design.name()));
            Cell::words("not found").judged(false)
        }
    };
    let mut row =
        |design: Design| Row { labels: labels(design), cells: readers.iter().map(|&n| cell(design, n)).collect() };
    let rows = Design::ALL.into_iter().map(&mut row).collect();
    style::progress("");
    Table {
        title: format!("On this machine's {cpus} CPUs: million look-ups of self/task/TID/stat a second"),
        labels: vec!["design".to_owned(), String::new()],
        heads: readers.iter().map(|n| format!("{n} readers")).collect(),
        rows,
        notes: Vec::new(),
    }
}

/// Look-ups by this many readers, in millions a second; `None` if one failed.
fn race(design: Design, readers: usize) -> Option<f64> {
    style::progress(&format!("{}, {readers} readers", design.name()));
    let walks = Walks::new(design, readers, THREADS);
    if !(0..THREADS).all(|n| walks.look_up(0, n)) {
        return None;
    }
    let (mutex, barrier) = (Mutex::new(()), Barrier::new(readers));
    let one = |reader: usize| {
        barrier.wait();
        let (start, mut done) = (Instant::now(), 0_usize);
        // The clock is read once in a hundred rounds.
        while start.elapsed() < SPAN {
            for _ in 0..100 {
                let _held = design.sleeps().then(|| mutex.lock().unwrap_or_else(PoisonError::into_inner));
                if !walks.look_up(reader, (done * 7 + reader * 131) % THREADS) {
                    return None;
                }
                done += 1;
            }
        }
        Some(done as f64 / start.elapsed().as_secs_f64())
    };
    let rates: Option<Vec<f64>> = std::thread::scope(|scope| {
        let hands: Vec<_> = (0..readers).map(|reader| scope.spawn(move || one(reader))).collect();
        hands.into_iter().map(|hand| hand.join().ok().flatten()).collect()
    });
    rates.map(|rates| rates.iter().sum::<f64>() / 1e6)
}
