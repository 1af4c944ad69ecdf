//! The page on POSIX timer ids (2025): the message's seven tests in its own figures, in the cost model, raced here,
//! and live.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ids::CpuId;
use lab::cost::Machine;
use lab::posix_timers::modelled::{CPUS, Design, Test};
use lab::posix_timers::{Hash, Ours, TimerIds, Xarray};

use super::args::PosixTimersArguments;
use super::page::{Cell, Curve, Page, Part, Plot, Point, Row, Table, Verdict, quoted};
use super::text::whole;
use super::{live, race};
use bench::child::Side;
use bench::probe::Probe;
use bench::table::number;
use tool::{machine, style};

/// The figures of the message of 24 February 2025.
const SEED: [&str; 8] = [
    "\"Eric submitted a series a few days ago, which tries to lower the overhead of the global hash table and the hash",
    "lock contention … Unfortunately the approach does not solve the underlying problem.\"",
    "\"There are actually two real solutions to the hashing problem: 1) Provide a per process (signal struct) xarray",
    "storage 2) Implement a smarter hash like the one in the futex code\"",
    "\"2048 timers with a ID offset of 512 consume more than one megabyte of memory for the xarray storage.\"",
    "\"The extra lookup just creates enough interleaving to let the other CPUs make progress, but it does not mitigate",
    "the underlying problem of long list walks\"",
    "\"the scaled hash with per bucket locks seems to be the better overall option\"",
];
/// How many threads or processes the message's tests 4 and 5 have.
const OWNERS: usize = 63;
/// The message's own columns and ours, with their names.
const DESIGNS: [(Design, &str); 5] = [
    (Design::Global, "mainline: one hash, one lock"),
    (Design::DoubleWalk, "eric: the double walk"),
    (Design::Scaled, "newhash: the scaled hash"),
    (Design::Xarray, "xarray: a tree per process"),
    (Design::Ours, "ours"),
];
/// The same as rows that documents cite.
pub(super) const ROWS: [&str; 5] = ["mainline", "eric", "newhash", "xarray", "ours"];

/// One line of the message.
struct Line {
    test: &'static str,
    what: &'static str,
    modelled: Test,
    /// Milliseconds: mainline, Eric, newhash, xarray.
    told: [f64; 4],
}

const fn line(test: &'static str, what: &'static str, modelled: Test, told: [f64; 4]) -> Line {
    Line { test, what, modelled, told }
}

/// Tests 4 and 5 are twice in the message under the same numbers.
const LINES: [Line; 12] = [
    line("1: 20,000 timers", "create", Test::Create(20_000), [23.0, 23.0, 9.0, 8.0]),
    line("1: 20,000 timers", "getoverrun", Test::LookUp(20_000), [14.0, 14.0, 5.0, 4.0]),
    line("2: 50,000 timers", "create", Test::Create(50_000), [98.0, 219.0, 20.0, 18.0]),
    line("2: 50,000 timers", "getoverrun", Test::LookUp(50_000), [62.0, 62.0, 10.0, 9.0]),
    line("3: 100,000 timers", "create", Test::Create(100_000), [313.0, 750.0, 48.0, 33.0]),
    line("3: 100,000 timers", "getoverrun", Test::LookUp(100_000), [261.0, 260.0, 20.0, 14.0]),
    line(
        "4: 63 threads × 20,000",
        "create",
        Test::CreateMany { one_process: true },
        [180_239.0, 38_599.0, 579.0, 813.0],
    ),
    line("4: 63 threads × 20,000", "getoverrun", Test::LookUpMany, [2_645.0, 2_642.0, 32.0, 7.0]),
    line(
        "5: 63 processes × 20,000",
        "create",
        Test::CreateMany { one_process: false },
        [157_253.0, 40_008.0, 83.0, 60.0],
    ),
    line("5: 63 processes × 20,000", "getoverrun", Test::LookUpMany, [2_611.0, 2_614.0, 40.0, 4.0]),
    line(
        "4: 63 threads, 100,000 pairs",
        "create + delete",
        Test::Pairs { one_process: true },
        [5_917.0, 5_897.0, 5_473.0, 7_846.0],
    ),
    line(
        "5: 63 processes, 100,000 pairs",
        "create + delete",
        Test::Pairs { one_process: false },
        [5_137.0, 7_828.0, 891.0, 872.0],
    ),
];

/// Takes all figures.
pub(super) fn page(request: &PosixTimersArguments) -> anyhow::Result<Page> {
    let mut faults = Vec::new();
    let mut parts = vec![quoted("The message", &SEED), Part::Table(modelled(&mut faults))];
    let (table, plot) = here(request)?;
    parts.extend([Part::Table(table), Part::Plot(plot), Part::Table(memory(&mut faults)?)]);
    Ok(Page {
        title: "POSIX timers: the hash table, and ids on request",
        notes: vec![
            "A program knows a timer by an id that is its own process's. Linux kept all timers of all processes in one \
             hash table of 512 buckets, under one lock for creations. All of the message's designs are rebuilt behind \
             one trait (crates/lab/src/posix_timers)."
                .to_owned(),
            "ours: per process sixteen tries that skip what is alone, looked up without a lock; the id from a counter. \
             Every timer keeps room for its signal and counts for it, as on Linux: the model counts under the process's \
             signal lock each time, the kernel once in 32 times."
                .to_owned(),
        ],
        parts,
        faults,
    })
}

/// The message's table, each figure next to that of the cost model.
fn modelled(faults: &mut Vec<String>) -> Table {
    let machine = Machine::of_cpus(CPUS);
    let row = |line: &Line| {
        let cell = |(at, (design, name)): (usize, (Design, &str))| {
            let got = line.modelled.milliseconds(design, &machine);
            let Some(&told) = line.told.get(at) else {
                return Cell::figure("modelled_ms", got).shown(number(got));
            };
            let holds = got < 2.0 * told && got > told / 2.0;
            if !holds {
                faults.push(format!("{}, {}, {name}: {got} ms modelled for {told}", line.test, line.what));
            }
            let shown = format!("{} / {}", whole(told), number(got));
            Cell::figure("told_ms", told).with("modelled_ms", got).shown(shown).judged(holds)
        };
        let cells = DESIGNS.into_iter().enumerate().map(cell).collect();
        Row { labels: vec![line.test.to_owned(), line.what.to_owned()], cells }
    };
    Table {
        title: format!("ms for each thread or process: the message / the cost model at {CPUS} CPUs"),
        labels: vec!["test".to_owned(), String::new()],
        heads: DESIGNS.map(|(_, name)| name.to_owned()).into(),
        rows: LINES.iter().map(row).collect(),
        notes: vec![
            "The model knows how long chains are, what a node of one costs (25 ns, or 107 from memory: both are read off \
             the message), and how locks and shared lines are handed from CPU to CPU; what else a system call does is the \
             same for all five. Judge orders and ratios by it."
                .to_owned(),
        ],
    }
}

/// The steps measured here, and how many of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// One thread creates this many and asks for each.
    Alone(usize),
    /// 63 owners do, this many each.
    Many { each: usize, one_process: bool },
    /// 63 owners make this many pairs each.
    Pairs { each: usize, one_process: bool },
}

impl Work {
    fn all(full: bool) -> [Work; 7] {
        let (each, pairs) = if full { (20_000, 100_000) } else { (1_000, 2_000) };
        [
            Work::Alone(20_000),
            Work::Alone(50_000),
            Work::Alone(100_000),
            Work::Many { each, one_process: true },
            Work::Many { each, one_process: false },
            Work::Pairs { each: pairs, one_process: true },
            Work::Pairs { each: pairs, one_process: false },
        ]
    }

    /// The message's number and what is done.
    fn title(self) -> String {
        let owners = |one_process| if one_process { (4, "threads") } else { (5, "processes") };
        match self {
            Work::Alone(n) => format!("{}: {} timers", 1 + n / 50_000, whole(n as f64)),
            Work::Many { each, one_process } => {
                let (number, who) = owners(one_process);
                format!("{number}: {OWNERS} {who} × {}", whole(each as f64))
            }
            Work::Pairs { each, one_process } => {
                let (number, who) = owners(one_process);
                format!("{number}: {OWNERS} {who}, {} pairs", whole(each as f64))
            }
        }
    }

    /// Names of the probe's figures, each with what the row says.
    fn figures(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Work::Pairs { .. } => &[("loop", "create + delete")],
            _ => &[("create", "create"), ("getoverrun", "getoverrun")],
        }
    }

    /// The probe's parameters; on Linux as many timers as its limit allows.
    fn parameters(self, side: Side, allowed: usize) -> Vec<String> {
        let most = |owners: usize, each: usize| match side {
            Side::Native => each.min(allowed / owners),
            Side::Entresol { .. } => each,
        };
        let who = |one_process| format!("{}={OWNERS}", if one_process { "threads" } else { "processes" });
        match self {
            Work::Alone(n) => vec!["threads=1".to_owned(), format!("each={}", most(1, n))],
            Work::Many { each, one_process } => vec![who(one_process), format!("each={}", most(OWNERS, each))],
            Work::Pairs { each, one_process } => vec![who(one_process), format!("pairs={each}")],
        }
    }

    /// How much of it each owner does.
    fn each(self) -> usize {
        match self {
            Work::Alone(each) | Work::Many { each, .. } | Work::Pairs { each, .. } => each,
        }
    }

    /// Runs the work on a fresh instance of the design, for at most `most`. Returns how long each step took, in the order of
    /// [`Work::figures`].
    fn race(self, design: Design, cpus: usize, most: Duration) -> anyhow::Result<Vec<Step>> {
        let (owners, one_process) = match self {
            Work::Alone(_) => (1, true),
            Work::Many { one_process, .. } | Work::Pairs { one_process, .. } => (OWNERS, one_process),
        };
        let cpus = cpus.min(owners);
        let processes = if one_process { 1 } else { owners };
        let timers = match self {
            Work::Alone(each) | Work::Many { each, .. } => owners * each,
            Work::Pairs { .. } => owners,
        };
        let ids = rebuilt(design, processes, timers, cpus)?;
        // CPUs take owners in turn, each doing all of one owner's work, or what it has time for.
        let turn = |one: &(dyn Fn(usize, CpuId, Instant) -> usize + Sync)| {
            let until = Instant::now() + most;
            let took = race::together(cpus, |cpu| {
                let start = race::consumed();
                let done: usize = (cpu.index()..owners).step_by(cpus).map(|owner| one(owner, cpu, until)).sum();
                (race::consumed() - start, done)
            });
            let ms = took.iter().map(|(took, _)| took.as_secs_f64()).sum::<f64>() * 1e3 / owners as f64;
            Step { ms, each: took.iter().map(|(_, done)| done).sum::<usize>() / owners }
        };
        let process = |owner| if one_process { 0 } else { owner };
        Ok(match self {
            Work::Pairs { each, .. } => vec![turn(&|owner, cpu, until| {
                repeat(each, until, |_| {
                    let id = ids.create(process(owner), cpu).expect("there is room for one timer each");
                    std::hint::black_box(ids.delete(process(owner), id));
                })
            })],
            Work::Alone(each) | Work::Many { each, .. } => {
                let made: Vec<AtomicUsize> = (0..owners).map(|_| AtomicUsize::new(0)).collect();
                let create = turn(&|owner, cpu, until| {
                    let done = repeat(each, until, |_| _ = ids.create(process(owner), cpu));
                    made[owner].store(done, Relaxed);
                    done
                });
                // All ids below the number of creations exist, and each owner asks for as many as it made.
                let ask = turn(&|owner, cpu, until| {
                    let first = if one_process { cpu.index() * create.each } else { 0 };
                    repeat(made[owner].load(Relaxed), until, |id| {
                        std::hint::black_box(ids.look_up(process(owner), (first + id) as u32));
                    })
                });
                vec![create, ask]
            }
        })
    }
}

/// The cost of one step of a race, in milliseconds of a CPU for each owner, and how often each did it.
#[derive(Clone, Copy, Debug)]
struct Step {
    ms: f64,
    each: usize,
}

/// The time limit of a step: chains of 2,500 timers, as the message's tests 4 and 5 make them in 512 buckets, take minutes
/// on a current processor.
const STEP_MAX: Duration = Duration::from_secs(10);

/// Repeats `step` up to `times` times or until a deadline, and returns the number of repetitions.
fn repeat(times: usize, until: Instant, mut step: impl FnMut(usize)) -> usize {
    for at in 0..times {
        if at % 32 == 0 && Instant::now() >= until {
            return at;
        }
        step(at);
    }
    times
}

/// Where less was done than asked for, it says for how many.
fn for_fewer(cell: Cell, each: usize) -> Cell {
    Cell { text: format!("{} (for {})", cell.text, whole(each as f64)), ..cell }.with("each", each as f64)
}

fn rebuilt(design: Design, processes: usize, timers: usize, cpus: usize) -> anyhow::Result<Box<dyn TimerIds>> {
    Ok(match design {
        Design::Global => Box::new(Hash::global(processes, timers)),
        Design::DoubleWalk => Box::new(Hash::double_walk(processes, timers)),
        // Linux sizes the hash by the number of CPUs; the message's machine has this many.
        Design::Scaled => Box::new(Hash::scaled(processes, timers, CPUS)),
        Design::Xarray => Box::new(Xarray::new(processes, timers)),
        Design::Ours => Box::new(Ours::new(processes, cpus).map_err(|_| anyhow::anyhow!("out of memory"))?),
    })
}

/// The message's tests on this machine: the rebuilt designs as bare structures, Linux and ours as systems.
fn here(request: &PosixTimersArguments) -> anyhow::Result<(Table, Plot)> {
    let cpus = machine::host_cpus().min(OWNERS);
    let obstacle = if request.no_live { Some("not asked for".to_owned()) } else { live::obstacle() };
    let (allowed, mut notes) = (allowed_timers(), Vec::new());
    notes.extend(obstacle.iter().map(|why| format!("Live runs: {why}.")));
    notes.push(format!(
        "The rebuilt designs are raced as bare structures on {cpus} CPUs, without system calls: ms of a CPU for each \
         owner; the scaled hash is as large as on {CPUS} CPUs; after {} s a step ends as far as it has come (\u{201c}for\u{201d}: \
         so many each). Linux and Entresol are asked by system calls: CPU time \
         by the host's count, for each owner.",
        STEP_MAX.as_secs()
    ));
    let mut rows = Vec::new();
    let mut curves: Vec<Curve> = Vec::new();
    for work in Work::all(request.full) {
        let mut columns: Vec<Vec<Cell>> = Vec::new();
        for (design, name) in DESIGNS {
            style::progress(&format!("{}: {name}", work.title()));
            let cell = |step: Step| {
                let cell = Cell::figure("ms", step.ms);
                if step.each < work.each() { for_fewer(cell, step.each) } else { cell }
            };
            columns.push(work.race(design, cpus, STEP_MAX)?.into_iter().map(cell).collect());
        }
        let live = if obstacle.is_none() { live_columns(work, allowed)? } else { Vec::new() };
        columns.extend(live);
        if let Work::Alone(n) = work {
            note_points(&mut curves, &columns, n);
        }
        for (at, (_, what)) in work.figures().iter().enumerate() {
            let labels = vec![work.title(), (*what).to_owned()];
            rows.push(Row { labels, cells: columns.iter().map(|column| column[at].clone()).collect() });
        }
    }
    style::progress("");
    let mut heads: Vec<String> = DESIGNS.iter().map(|(_, name)| (*name).to_owned()).collect();
    heads.extend(live::SIDES.into_iter().filter(|_| obstacle.is_none()).map(live::name));
    let labels = vec!["test".to_owned(), String::new()];
    let table = Table { title: "ms for each thread or process, here".to_owned(), labels, heads, rows, notes };
    let plot = Plot {
        title: "Creating a timer, when there are so many".to_owned(),
        across: "timers",
        up: "a creation",
        unit: "ns",
        curves,
    };
    Ok((table, plot))
}

/// Linux and ours, one column each.
fn live_columns(work: Work, allowed: usize) -> anyhow::Result<Vec<Vec<Cell>>> {
    const RUNS: usize = 3;
    let parameters = live::SIDES.map(|side| work.parameters(side, allowed));
    let whole_work = work.parameters(Side::Entresol { cpus: None }, allowed);
    let outcomes = live::probe(Probe::TimerIds, &parameters, RUNS)?;
    let column = |((side, parameters), outcome): ((Side, &Vec<String>), _)| {
        let cell = |(name, _): &(&'static str, &str)| {
            let cell = live::cell(outcome, name, side, Probe::TimerIds, parameters);
            let less = parameters.iter().find(|words| !whole_work.contains(words));
            match less.and_then(|words| words.split_once('=')).and_then(|(_, each)| each.parse().ok()) {
                Some(each) => for_fewer(cell, each),
                None => cell,
            }
        };
        work.figures().iter().map(cell).collect()
    };
    Ok(live::SIDES.into_iter().zip(&parameters).zip(&outcomes).map(column).collect())
}

/// The columns of the first row of a test for one thread, for a plot.
fn note_points(curves: &mut Vec<Curve>, columns: &[Vec<Cell>], timers: usize) {
    let names = DESIGNS.map(|(_, name)| (name.to_owned(), false)).into_iter();
    let live = live::SIDES.map(|side| (live::name(side), matches!(side, Side::Entresol { .. })));
    for (at, (name, ours)) in names.chain(live).take(columns.len()).enumerate() {
        if curves.len() == at {
            // The bare structure stays grey where the whole system is on the page.
            let ours = ours || (name == "ours" && columns.len() == DESIGNS.len());
            curves.push(Curve { name, ours, points: Vec::new() });
        }
        let figures = &columns[at][0].figures;
        let Some(ms) = figures.get("ms").or(figures.get("create")) else { continue };
        let timers = figures.get("each").copied().unwrap_or(timers as f64);
        curves[at].points.push(Point { x: timers, y: ms * 1e6 / timers, verdict: Verdict::None });
    }
}

/// How many timers this user may still have.
fn allowed_timers() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigQ:")).unwrap_or_default();
    let (used, limit) = line.trim().split_once('/').unwrap_or_default();
    let number = |text: &str| text.parse::<usize>().unwrap_or(0);
    // Some room for the signals of others.
    number(limit).saturating_sub(number(used) + 256)
}

/// The memory for sparse ids, which a restored process may have.
fn memory(faults: &mut Vec<String>) -> anyhow::Result<Table> {
    const TIMERS: u32 = 2_048;
    const STRIDE: u32 = 512;
    let mut rows = Vec::new();
    for (design, name) in DESIGNS {
        let ids = rebuilt(design, 1, TIMERS as usize, CPUS)?;
        let all = (0..TIMERS).all(|at| ids.create_exact(0, at * STRIDE).is_some());
        let bytes = ids.index_bytes() as f64;
        if !all || (design == Design::Xarray && bytes < 1e6) || (design == Design::Ours && bytes > 1e5) {
            faults.push(format!("{name}: {bytes} bytes for sparse ids"));
        }
        let (told, whose) = match design {
            Design::Xarray => ("more than one megabyte", "the process's own"),
            Design::Ours => ("", "the process's own"),
            _ => ("", "once for all processes, on 64 CPUs"),
        };
        let cells = vec![Cell::figure("bytes", bytes).shown(whole(bytes))];
        rows.push(Row { labels: vec![name.to_owned(), whose.to_owned(), told.to_owned()], cells });
    }
    Ok(Table {
        title: format!("Bytes to find {} timers whose ids are {STRIDE} apart", whole(TIMERS.into())),
        labels: vec!["design".to_owned(), String::new(), "the message".to_owned()],
        heads: vec!["bytes".to_owned()],
        rows,
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_figures_and_its_megabyte_come_out() {
        let mut faults = Vec::new();
        let table = modelled(&mut faults);
        memory(&mut faults).unwrap();
        assert_eq!(faults, Vec::<String>::new());
        let judged = table.rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.verdict == Verdict::Good).count();
        assert_eq!(judged, 48, "twelve lines of four columns");
    }

    #[test]
    fn the_probe_is_told_what_the_message_says_and_linux_what_it_allows() {
        let full = Work::all(true);
        let ours = Side::Entresol { cpus: None };
        assert_eq!(full[3].parameters(ours, 96_000), ["threads=63", "each=20000"]);
        assert_eq!(full[3].parameters(Side::Native, 96_000), ["threads=63", "each=1523"]);
        assert_eq!(full[6].parameters(Side::Native, 96_000), ["processes=63", "pairs=100000"]);
        let titles = full.map(Work::title);
        assert_eq!(titles[..3], ["1: 20,000 timers", "2: 50,000 timers", "3: 100,000 timers"]);
        assert_eq!(titles[4], "5: 63 processes × 20,000");
    }

    #[test]
    fn what_documents_cite_are_the_columns() {
        assert!(ROWS.iter().zip(DESIGNS).all(|(row, (_, name))| name.split(':').next() == Some(row)));
    }

    #[test]
    fn every_design_can_be_raced() {
        for (design, name) in DESIGNS {
            for work in [Work::Alone(100), Work::Many { each: 10, one_process: false }] {
                let steps = work.race(design, 2, STEP_MAX).unwrap();
                assert_eq!(steps.len(), work.figures().len(), "{name}");
                assert!(steps.iter().all(|step| step.each == work.each()), "{name}: {steps:?}");
            }
            let pairs = Work::Pairs { each: 10, one_process: true };
            assert!(pairs.race(design, 2, STEP_MAX).unwrap()[0].ms > 0.0, "{name}");
        }
    }

    #[test]
    fn a_race_ends_when_its_time_is_up_and_says_how_far_it_came() {
        let many = Work::Many { each: 100, one_process: true };
        let steps = many.race(Design::DoubleWalk, 2, Duration::ZERO).unwrap();
        assert!(steps.iter().all(|step| step.each < 100), "{steps:?}");
        assert!(steps[1].each <= steps[0].each, "asked for what was made only: {steps:?}");
        let hour = Instant::now() + Duration::from_secs(3_600);
        let mut done = Vec::new();
        assert_eq!((repeat(100, hour, |at| done.push(at)), done.len()), (100, 100));
        let cell = for_fewer(Cell::figure("ms", 1.0), 1_523);
        assert!(cell.text.ends_with(" (for 1,523)") && cell.figures["each"] == 1_523.0, "{cell:?}");
    }
}
