//! The figures of the page on look-ups in `/proc`.

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lab::cost::Machine;
use lab::procfs::{Design, Walks, modelled};

use super::args::ProcfsArguments;
use super::sheet::{Figures, Row, Sheet, Verdict};
use crate::{machine, style};

/// Threads of the process that live readers look up.
const THREADS: usize = 1_000;
/// One live measurement.
const SPAN: Duration = Duration::from_millis(150);
/// The seed's test, on the machine of its figures.
const SEED_CPUS: usize = modelled::CPUS;

/// Takes everything that was asked for.
pub(super) fn page(request: &ProcfsArguments) -> Sheet {
    let sizes: Vec<usize> = request.cpus.iter().map(|&n| n as usize).collect();
    let seed = Machine::of_cpus(SEED_CPUS);
    let gain = Design::Before.nanoseconds(&seed) / Design::Patched.nanoseconds(&seed);
    let ours = Design::Before.nanoseconds(&seed) / Design::Ours.nanoseconds(&seed);
    let mut tables = vec![
        table("In the cost model: files per second, against one scan alone", "×", &sizes, true, |design, machine| {
            design.scans(machine)
        }),
        table("In the cost model: share of system time", "%", &sizes, false, |design, machine| {
            design.system_share(machine) * 100.0
        }),
    ];
    let mut verdicts = vec![
        Verdict {
            says: format!("the patch gains {gain:.1} times at {SEED_CPUS} CPUs; the message: 3 to 4"),
            holds: (1.5..8.0).contains(&gain),
        },
        Verdict { says: format!("ours gains {ours:.1} times there"), holds: ours > gain },
    ];
    if !request.no_live {
        let live = live();
        verdicts.push(Verdict {
            says: "live, every look-up of every design found its thread".to_owned(),
            holds: live.rows.iter().all(|row| row.values.iter().all(Option::is_some)),
        });
        tables.push(live);
    }
    Sheet {
        title: "Looking a name up in /proc: the message of 4 October 2021".to_owned(),
        notes: vec![
            "128 × \"ps -fe\" on 128 CPUs: 97 % system time before the patch and 85 % after it, and 3 to 4 times as many \
             ps per second. Each look-up of a process took a reference on /proc itself, because whether a process lives \
             could not be asked in RCU mode."
                .to_owned(),
            "4.14-mutex: all sleep on the directory's mutex, which is as slow and costs no system time. references: no RCU \
             mode at all. entresol: not even the last reference is taken."
                .to_owned(),
        ],
        tables,
        verdicts,
    }
}

fn about(design: Design) -> &'static str {
    match design {
        Design::Sleeping => "asleep on one mutex",
        Design::References => "references throughout",
        Design::Before => "before the patch",
        Design::Patched => "the patch",
        Design::Ours => "Entresol: nothing shared is written",
    }
}

fn table(
    title: &str,
    unit: &'static str,
    sizes: &[usize],
    bars: bool,
    figure: impl Fn(Design, &Machine) -> f64,
) -> Figures {
    let row = |design: Design| Row {
        name: design.name().to_owned(),
        about: about(design).to_owned(),
        values: sizes.iter().map(|&cpus| Some(figure(design, &Machine::of_cpus(cpus)))).collect(),
    };
    let list: Vec<String> = sizes.iter().map(usize::to_string).collect();
    Figures {
        title: title.to_owned(),
        unit,
        columns: sizes.iter().map(|n| format!("{n} CPUs")).collect(),
        rows: Design::ALL.into_iter().map(row).collect(),
        command: format!("entresol lab procfs --no-live --cpus {}", list.join(",")),
        bars,
    }
}

/// The same walks on real CPUs with native threads: the code that the kernel runs, without its system calls.
fn live() -> Figures {
    let cpus = machine::host_cpus();
    let mut readers: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < cpus).collect();
    readers.extend([cpus, 2 * cpus]);
    readers.dedup();
    let row = |design: Design| Row {
        name: design.name().to_owned(),
        about: about(design).to_owned(),
        values: readers.iter().map(|&n| race(design, n)).collect(),
    };
    let rows = Design::ALL.into_iter().map(row).collect();
    style::progress("");
    Figures {
        title: format!("On this machine's {cpus} CPUs: look-ups of self/task/TID/stat, native threads"),
        unit: "million/s",
        columns: readers.iter().map(|n| format!("{n} readers")).collect(),
        rows,
        command: "entresol lab procfs".to_owned(),
        bars: true,
    }
}

/// Millions a second of so many readers; `None` if one was not found.
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
        // The clock is looked at once in a hundred times.
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
