//! The page on profiling timers and many threads (2008): the bug executed and modelled, and the message's cases live.

use lab::cputime::modelled::{Design, OF_2008, left_in_2008, walk_of_2008};

use super::args::ItimerArguments;
use super::itimer_cases;
use super::itimer_hang::{NAMES, THREADS, Watched, watch};
use super::page::{Cell, Curve, Page, Part, Plot, Point, Row, Table, Verdict, quoted};
use super::text::whole;
use tool::{machine, style};

/// The figures of the message of 14 September 2008.
const SEED: [&str; 6] = [
    "\"The problem we ran into … has to do with using a profiling timer in a process with a large number of threads.",
    "It appears that the performance of the old implementation of run_posix_cpu_timers() was at least O(n*3) … or",
    "worse. Everything is fine with an increasing number of threads until the time taken for that routine to run",
    "becomes the same as or greater than the tick time, at which point things degrade rather quickly.\"",
    "\"This rework corrects the implementation of run_posix_cpu_timers() to make it run in constant time for a",
    "particular machine.\"",
];
/// Sizes of the cost model; the message's program took 4,000 threads, \"the most an unmodified kernel can handle\".
const MODELLED: [u64; 7] = [8, 1_000, 2_000, 4_000, 5_000, 8_000, 100_000];
/// More CPUs than the message's machines had only queue up.
const CPUS_MAX: usize = 4;
/// Below this share of the time a program stands still.
const STANDSTILL: f64 = 0.01;

/// Takes all figures.
pub(super) fn page(request: &ItimerArguments) -> anyhow::Result<Page> {
    let mut faults = Vec::new();
    let (table, plot) = executed()?;
    let mut parts =
        vec![quoted("The message", &SEED), Part::Table(table), Part::Plot(plot), Part::Table(modelled(&mut faults))];
    if !request.no_live {
        parts.push(Part::Table(itimer_cases::table(request.full)?));
    }
    Ok(Page {
        title: "Profiling timers and many threads: itimer/many thread hang",
        notes: vec![
            "Before 2008 a process timer was dealt out to the threads in equal shares, and whoever used up its share \
             added all threads up and dealt anew. With many threads a share is shorter than a tick, so every tick walks \
             all threads three times; once that takes longer than a tick, nothing else is done (Linux bug 9906)."
                .to_owned(),
            "walk: until 2008. per-cpu: the message. atomics: 2015, and Linux today. ours: a word per CPU, which knows \
             nothing of threads."
                .to_owned(),
        ],
        parts,
        faults,
    })
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The program with each generation's tick, executed here.
fn executed() -> anyhow::Result<(Table, Plot)> {
    let cpus = machine::host_cpus().min(CPUS_MAX);
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    for name in NAMES {
        let (mut cells, mut points) = (Vec::new(), Vec::new());
        for threads in THREADS {
            style::progress(&format!("{} threads on {cpus} CPUs with generation {name}", whole(threads as f64)));
            let watched = watch(name, threads, cpus).map_err(|_| anyhow::anyhow!("out of memory"))?;
            let cell = cell(watched, threads);
            let lost = (1.0 - watched.left).max(1e-4) * 100.0;
            points.push(Point { x: threads as f64, y: lost, verdict: cell.verdict });
            cells.push(cell);
        }
        curves.push(Curve { name: name.to_owned(), ours: name == "ours", points });
        rows.push(Row::of(name, cells));
    }
    style::progress("");
    let title = format!("The bug, executed: a 10 ms ITIMER_PROF, {cpus} CPUs, 1,000 ticks a second");
    let table = Table {
        title: format!("{title}: share of the time left for computing primes, and CPU seconds per profiling tick"),
        labels: vec!["generation".to_owned()],
        heads: THREADS.map(|n| format!("{} threads", whole(n as f64))).into(),
        rows,
        notes: vec![
            "The threads are numbers here, because no host makes 300,000 of its own; computing, walking and the clock that \
             says when a tick comes are real. That clock is what the host threads consume, so that nothing other programs \
             take from them counts."
                .to_owned(),
        ],
    };
    let plot = Plot { title: format!("{title}: time lost to ticks"), across: "threads", up: "lost", unit: "%", curves };
    Ok((table, plot))
}

fn cell(watched: Watched, threads: usize) -> Cell {
    let per_tick = match watched.seconds_per_tick {
        seconds if seconds.is_finite() => format!("{seconds:.3} s"),
        _ => "no tick".to_owned(),
    };
    let stands = watched.left < STANDSTILL;
    let words = if stands { "stands still".to_owned() } else { percent(watched.left) };
    let cell = Cell::figure("left", watched.left).with("threads", threads as f64).shown(format!("{words}, {per_tick}"));
    let cell =
        if watched.seconds_per_tick.is_finite() { cell.with("s_per_tick", watched.seconds_per_tick) } else { cell };
    cell.judged(!stands)
}

/// The same on the machine of the message, in the cost model.
fn modelled(faults: &mut Vec<String>) -> Table {
    let mut rows = Vec::new();
    for design in Design::all(0) {
        if design == Design::Spinlock {
            continue;
        }
        let steps = |threads| match design {
            Design::Walk(_) => walk_of_2008(threads),
            other => other.tick(OF_2008.cpus()),
        };
        let cells = MODELLED.map(|threads| {
            let left = left_in_2008(&steps(threads));
            let cell = Cell::figure("left", left).with("threads", threads as f64);
            cell.shown(if left < STANDSTILL { "stands still".to_owned() } else { percent(left) })
                .judged(left >= STANDSTILL)
        });
        let stands = cells.iter().any(|cell| cell.verdict == Verdict::Bad);
        if stands != matches!(design, Design::Walk(_)) {
            faults.push(format!("{} in the cost model is not what the message says", design.name()));
        }
        rows.push(Row::of(design.name(), cells.into()));
    }
    Table {
        title: "The bug in the cost model: share of the time left for the program on four CPUs of 2008".to_owned(),
        labels: vec!["generation".to_owned()],
        heads: MODELLED.map(|n| format!("{} threads", whole(n as f64))).into(),
        rows,
        notes: vec![
            "One constant is read off the message: with 4,000 threads its program took 70 s for what takes 5.8, so eight \
             percent of each tick were left, which makes 31 ns for each thread that a walk visits."
                .to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_has_the_messages_cliff_and_ours_has_none() {
        let mut faults = Vec::new();
        let table = modelled(&mut faults);
        assert_eq!(faults, Vec::<String>::new());
        let verdicts = |name: &str| {
            let row = table.rows.iter().find(|row| row.labels[0] == name).unwrap();
            row.cells.iter().map(|cell| cell.verdict == Verdict::Good).collect::<Vec<_>>()
        };
        assert_eq!(verdicts("walk"), [true, true, true, true, false, false, false]);
        assert_eq!(verdicts("ours"), [true; 7]);
    }

    #[test]
    fn what_computes_nothing_stands_still() {
        let shown = |left, seconds_per_tick| cell(Watched { left, seconds_per_tick }, 8);
        assert_eq!(shown(0.5, 0.012).text, "50.0 %, 0.012 s");
        let still = shown(0.0, f64::INFINITY);
        assert_eq!((still.text.as_str(), still.verdict), ("stands still, no tick", Verdict::Bad));
        assert!(!still.figures.contains_key("s_per_tick"), "JSON has no infinity");
    }
}
