//! The page on the CPU time of a process (2015): how the clocks of a thread group are kept, and what it costs when
//! many CPUs keep them together.

use anyhow::ensure;
use ids::Nanos;
use lab::cost::{Constant, Machine, share, tick};
use lab::cputime::modelled::Design;
use lab::cputime::{Accounting, Atomic, Kind, Locked, Ours, PerCpu, Today, Walk};
use time::cpu::CpuClock;

use super::args::CputimerArguments;
use super::page::{Cell, Curve, Page, Part, Plot, Point, Row, Table, Verdict, quoted};
use super::{live, race};
use bench::child::Outcome;
use bench::probe::Probe;
use tool::{machine, style};

/// The figures of the message of 28 April 2015.
const SEED: [&str; 4] = [
    "\"On larger systems (such as a 16 socket machine), this caused more than 30% of total time",
    "spent trying to obtain this kernel lock to update these group timer stats.\"",
    "\"With this patch, the percent of total time spent updating thread group cputimer timers was",
    "reduced from 30% down to less than 1%.\"",
];
/// The generations, as documents cite them.
pub(super) const ROWS: [&str; 6] = ["walk", "per-cpu", "spinlock", "atomics", "today", "ours"];
/// Threads of the process that is raced: generation 0 walks them.
const THREADS: usize = 1_000;
/// The most CPUs that generation 1 is built for.
pub(super) const CPUS_MAX: usize = 64;
/// The cost model's machines, among them the message's.
const MODELLED: [usize; 6] = [4, 16, 64, 128, 288, 1_024];
/// How much slower memory is than the cost model says, in percent: the order must not hang on a guess.
const MEMORY: [u64; 3] = [50, 100, 200];
/// 250 ticks a second, as distributions had them.
const TICK_NS: u64 = 4_000_000;

/// Takes all figures.
pub(super) fn page(request: &CputimerArguments) -> anyhow::Result<Page> {
    let here = machine::host_cpus().min(CPUS_MAX);
    let cpus: Vec<usize> = match &request.cpus[..] {
        [] => [1, 2, 4, 8, 16, 32, 64].into_iter().filter(|n| *n <= here).collect(),
        asked => asked.iter().map(|n| *n as usize).collect(),
    };
    ensure!(
        cpus.iter().all(|n| *n <= here),
        "there are {here} CPUs to race on; the cost model shows machines up to {}",
        MODELLED[MODELLED.len() - 1]
    );
    let mut faults = Vec::new();
    let mut parts = vec![quoted("The message, about a database on 16 sockets", &SEED), Part::Table(raced(&cpus)?)];
    let (table, plot) = modelled();
    parts.extend([Part::Table(table), Part::Plot(plot), Part::Table(shares(&mut faults))]);
    parts.push(Part::Table(constants(&mut faults)));
    if !request.no_live {
        parts.push(Part::Table(live_clocks()?));
    }
    Ok(Page {
        title: "CPU time of a process: thread_group_cputimer",
        notes: vec![
            "A process's timers on CPU time compare what all its threads have consumed together with the moment they \
             are set to. Who keeps that sum, and how, has changed five times; all of it is rebuilt here behind one \
             trait (crates/lab/src/cputime)."
                .to_owned(),
            "walk: until 2008, the threads are added up. per-cpu: 2008, a slot per CPU, kept always. spinlock: 2009, \
             one structure and its lock, kept while a timer is armed. atomics: 2015, the message. today: the same, \
             started under the process's lock, one thread expiring at a time. ours: a word per CPU, written when \
             the CPU turns idle or busy."
                .to_owned(),
        ],
        parts,
        faults,
    })
}

fn about(name: &str) -> &'static str {
    match name {
        "walk" => "until 2008",
        "per-cpu" => "2008",
        "spinlock" => "2009, before the message",
        "atomics" => "2015, the message",
        "today" => "Linux today",
        _ => "Entresol",
    }
}

fn generations(cpus: usize) -> anyhow::Result<Vec<Box<dyn Accounting>>> {
    let all: Vec<Box<dyn Accounting>> = vec![
        Box::new(Walk::new(THREADS)),
        Box::new(PerCpu::new(THREADS, cpus)),
        Box::new(Locked::new(THREADS)),
        Box::new(Atomic::new(THREADS)),
        Box::new(Today::new(THREADS)),
        Box::new(Ours::new(THREADS, cpus).map_err(|_| anyhow::anyhow!("out of memory"))?),
    ];
    for one in &all {
        for thread in 0..THREADS {
            one.spawn(thread).map_err(|_| anyhow::anyhow!("out of memory"))?;
        }
        // A timer that is far away: everything is kept, and nothing expires.
        one.start();
        one.arm(CpuClock::Prof, Nanos(u64::MAX / 2));
    }
    Ok(all)
}

/// The work of a tick, and reading the sum alone, on real CPUs.
fn raced(cpus: &[usize]) -> anyhow::Result<Table> {
    const PARTS: [(&str, &str); 3] = [("account", "account_ns"), ("snapshot", "snapshot_ns"), ("tick", "tick_ns")];
    let mut rows: Vec<Row> = Vec::new();
    let mut heads = Vec::new();
    for (part, figure) in PARTS {
        for &n in cpus {
            heads.push(format!("{part}, {n} CPU{}", if n == 1 { "" } else { "s" }));
            for (at, design) in generations(n)?.iter().enumerate() {
                style::progress(&format!("racing {} on {n} CPUs: {part}", design.name()));
                if rows.len() == at {
                    // On one CPU generation 1 is its uniprocessor variant.
                    let name = design.name().split(' ').next().unwrap_or_default();
                    let labels = vec![name.to_owned(), about(name).to_owned()];
                    rows.push(Row { labels, cells: Vec::new() });
                }
                rows[at].cells.push(Cell::figure(figure, ns(&**design, part, n)).with("cpus", n as f64));
            }
        }
    }
    style::progress("");
    Ok(Table {
        title: format!("Raced here: ns a call, in a process of {THREADS} threads with a timer armed"),
        labels: vec!["generation".to_owned(), String::new()],
        heads,
        rows,
        notes: vec![
            "account: run time and user time of one tick. snapshot: the sum that is compared. tick: the look whether \
             a timer is due; with the walk, as long as a thread has not used up its share. Timed in CPU \
             time: on a busy machine two CPUs meet less often than they would."
                .to_owned(),
        ],
    })
}

fn ns(design: &dyn Accounting, part: &str, cpus: usize) -> f64 {
    race::ns_per_call(cpus, |cpu| match part {
        "account" => {
            design.account(cpu, cpu.index(), Kind::Exec, Nanos(1_000));
            design.account(cpu, cpu.index(), Kind::User, Nanos(1_000));
        }
        "snapshot" => _ = std::hint::black_box(design.snapshot()),
        _ => _ = std::hint::black_box(design.tick(cpu, cpu.index())),
    })
}

/// One tick of every CPU in the cost model, on machines of all sizes.
fn modelled() -> (Table, Plot) {
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    for design in Design::all(THREADS as u64) {
        let ns = MODELLED.map(|cpus| (cpus, tick(&Machine::of_cpus(cpus), &design.tick(cpus))));
        let cells = ns.map(|(cpus, ns)| Cell::figure("tick_ns", ns).with("cpus", cpus as f64));
        let points = ns.map(|(cpus, ns)| Point { x: cpus as f64, y: ns, verdict: Verdict::None });
        let name = design.name().to_owned();
        curves.push(Curve { name: name.clone(), ours: design == Design::Ours, points: points.into() });
        rows.push(Row { labels: vec![name, about(design.name()).to_owned()], cells: cells.into() });
    }
    let table = Table {
        title:
            "Cost model: ns that each CPU spends in a tick while a timer is armed and all run threads of the process"
                .to_owned(),
        labels: vec!["generation".to_owned(), String::new()],
        heads: MODELLED.map(|n| format!("{n} CPUs")).into(),
        rows,
        notes: vec![
            "The model knows that a cache line moves from CPU to CPU one transfer at a time, that a contended lock is \
             handed on only after the waiters have fetched its line anew, and that ticks of one machine come at about \
             the same moment. Judge orders and ratios by it. Today's Linux is as the atomics; the walk is of 1,000 \
             threads."
                .to_owned(),
            "Ours adds the CPUs' words up, too, but only when a hint says that something may be due: some times for each \
             expiry, and not at every tick. It is not counted here, nor is the expiry itself for any of the five."
                .to_owned(),
        ],
    };
    let plot = Plot {
        title: "A tick in the cost model".to_owned(),
        across: "CPUs",
        up: "a tick on each CPU",
        unit: "ns",
        curves,
    };
    (table, plot)
}

/// The message's two figures: the share of all time that goes into accounting, on its machine.
fn shares(faults: &mut Vec<String>) -> Table {
    let of = |design: Design, memory| {
        let machine = Machine::SIXTEEN_SOCKETS.with_memory(memory);
        share(&machine, &design.tick(machine.cpus()), TICK_NS)
    };
    let mut rows = Vec::new();
    for design in Design::all(THREADS as u64) {
        let told = match design {
            Design::Spinlock => "more than 30 %",
            Design::Atomics => "less than 1 %",
            _ => "",
        };
        let cell = |memory| {
            let share = of(design, memory);
            let cell = Cell::figure("share", share).with("memory_percent", memory as f64).shown(percent(share));
            // Within a factor of two of what the message says, where nothing is scaled.
            match design {
                Design::Spinlock if memory == 100 => cell.judged((0.15..0.6).contains(&share)),
                Design::Atomics if memory == 100 => cell.judged(share < 0.02),
                _ => cell,
            }
        };
        let cells: Vec<Cell> = MEMORY.into_iter().map(cell).collect();
        if cells.iter().any(|cell| cell.verdict == Verdict::Bad) {
            faults.push(format!("{} in the cost model is not what the message says", design.name()));
        }
        let labels = vec![design.name().to_owned(), about(design.name()).to_owned(), told.to_owned()];
        rows.push(Row { labels, cells });
    }
    for memory in MEMORY {
        if !is_ordered(|design| of(design, memory)) {
            faults.push(format!("the order changes with memory at {memory} %"));
        }
    }
    Table {
        title: "Cost model: share of all time spent in accounting, 16 sockets of 18 CPUs, 250 ticks a second"
            .to_owned(),
        labels: vec!["generation".to_owned(), String::new(), "the message".to_owned()],
        heads: vec!["memory twice as fast".to_owned(), "as modelled".to_owned(), "twice as slow".to_owned()],
        rows,
        notes: Vec::new(),
    }
}

/// Whether the lock has by far the greatest share and we have by far the smallest.
fn is_ordered(share: impl Fn(Design) -> f64) -> bool {
    let [spinlock, atomics, ours] = [Design::Spinlock, Design::Atomics, Design::Ours].map(share);
    spinlock > 8.0 * atomics && atomics > 4.0 * ours
}

/// The same with each constant of the model halved and doubled: the order must not hang on any of them.
fn constants(faults: &mut Vec<String>) -> Table {
    let scaled = Constant::ALL.into_iter().flat_map(|constant| [(constant, 50), (constant, 200)]);
    let scaled: Vec<(Constant, u64)> = scaled.collect();
    let of = |design: Design, (constant, percent): (Constant, u64)| {
        let machine = Machine::SIXTEEN_SOCKETS.with(constant, percent);
        share(&machine, &design.tick(machine.cpus()), TICK_NS)
    };
    for &at in &scaled {
        if !is_ordered(|design| of(design, at)) {
            faults.push(format!("the order changes with {} at {} %", at.0.name(), at.1));
        }
    }
    let row = |design: Design| {
        let cell = |at: &(Constant, u64)| {
            let share = of(design, *at);
            Cell::figure("share", share).with("constant_percent", at.1 as f64).shown(percent(share))
        };
        let labels = vec![design.name().to_owned(), about(design.name()).to_owned()];
        Row { labels, cells: scaled.iter().map(cell).collect() }
    };
    let head = |(constant, percent): &(Constant, u64)| {
        format!("{}, {}", constant.name(), if *percent == 50 { "½" } else { "2" })
    };
    Table {
        title: "Cost model: the same share with one constant halved or doubled".to_owned(),
        labels: vec!["generation".to_owned(), String::new()],
        heads: scaled.iter().map(head).collect(),
        rows: Design::all(THREADS as u64).map(row).into(),
        notes: Vec::new(),
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 1.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.4} %"),
    }
}

/// Reading the clocks, which today's Linux does by walking all threads unless a timer is armed.
fn live_clocks() -> anyhow::Result<Table> {
    const RUNS: usize = 3;
    let mut table = Table {
        title: "Live: ns a reading of CLOCK_THREAD_CPUTIME_ID, and of CLOCK_PROCESS_CPUTIME_ID".to_owned(),
        labels: vec![String::new()],
        heads: ["thread", "process, 1 thread", "process, 1,000"].map(str::to_owned).into(),
        ..Table::default()
    };
    if let Some(why) = live::obstacle() {
        table.notes.push(format!("not measured: {why}"));
        return Ok(table);
    }
    let outcomes: [Outcome; 2] = live::probe(Probe::CpuClock, &Default::default(), RUNS)?;
    for (side, outcome) in live::SIDES.into_iter().zip(&outcomes) {
        let cells = ["thread_clock", "process_clock_1", "process_clock_1k"];
        let cells = cells.map(|name| live::cell(outcome, name, side, Probe::CpuClock, &[]));
        table.rows.push(Row::of(live::name(side), cells.into()));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_message_says_comes_out_of_the_model() {
        let mut faults = Vec::new();
        let table = shares(&mut faults);
        assert_eq!(faults, Vec::<String>::new());
        let judged = table.rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.verdict == Verdict::Good);
        assert_eq!(judged.count(), 2, "the message has two figures");
    }

    #[test]
    fn no_constant_carries_the_order_alone() {
        let mut faults = Vec::new();
        let table = constants(&mut faults);
        assert_eq!(faults, Vec::<String>::new());
        assert_eq!((table.rows.len(), table.heads.len()), (5, 8));
    }

    #[test]
    fn what_documents_cite_are_the_rows() {
        let table = raced(&[1]).unwrap();
        assert!(table.rows.iter().map(|row| row.labels[0].as_str()).eq(ROWS));
    }

    #[test]
    fn ours_costs_the_same_on_all_machines() {
        let (table, plot) = modelled();
        let row = table.rows.iter().find(|row| row.labels[0] == "ours").unwrap();
        assert!(row.cells.iter().all(|cell| cell.figures["tick_ns"] == row.cells[0].figures["tick_ns"]));
        assert_eq!(plot.curves.len(), 5);
    }
}
