//! The figures of the page on real-time balancing.

use anyhow::Context;
use sim::workload::Class;
use sim::{Cost, Options, Policy, Report};

use super::args::RtMigrateArguments;
use super::page::{Cell, Curve, Lines, Page, Part, Plot, Point, Row, Table, quoted};
use super::{rt_live, rt_scale};
use bench::table::number;
use tool::style;

/// The machine of the message's own figures.
const CPUS_THEN: usize = 4;
/// Up to this size ours must keep the test's rule on every cost profile. On larger machines waking one thread after
/// the other may itself take longer than the rule allows.
const CPUS_JUDGED: usize = 16;
/// The cost profiles: the machine of the message, and the one at hand.
const PROFILES: [&str; 2] = ["smp2007", "host"];

/// The output in the message of 22 October 2007: a round before the patch, two after it.
const SEED_BEFORE: [&str; 3] = [
    "   1:       36      33   20041      39      33",
    " len:    20036   20033   40041   20039   20033",
    " loops: 167789  167693  227167  167829  167814",
];
const SEED_AFTER: [&str; 6] = [
    "   1:    20060      61      55      56      61",
    " len:    40060   20061   20055   20056   20061",
    " loops: 227255  146050  168104  145965  168144",
    "   2:       40      46      31      35      42",
    " len:    20040   20046   20031   20035   20042",
    " loops:     28  167769  167781  167668  167804",
];

/// How many threads there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// As the message asks for.
    OneMore,
    FourTimes,
}

impl Load {
    fn words(self) -> &'static str {
        match self {
            Load::OneMore => "CPUs + 1",
            Load::FourTimes => "4 × CPUs",
        }
    }

    fn threads(self, cpus: usize) -> usize {
        match self {
            Load::OneMore => cpus + 1,
            Load::FourTimes => 4 * cpus,
        }
    }
}

/// Takes all figures.
pub(super) fn page(request: &RtMigrateArguments) -> anyhow::Result<Page> {
    let mut parts = vec![
        quoted(
            "The message, before the patch (4 CPUs): the third thread waits 20 ms for less urgent ones",
            &SEED_BEFORE,
        ),
        quoted("The message, after it: 31 to 61 µs", &SEED_AFTER),
    ];
    // Ours is the last.
    for policy in Policy::of(Class::RealTime).skip(1).chain([Policy::Entresol]) {
        parts.push(example(policy, request)?);
    }
    let mut faults = Vec::new();
    let loads = if request.full { &[Load::OneMore, Load::FourTimes][..] } else { &[Load::OneMore] };
    for &load in loads {
        for costs in PROFILES {
            let (table, plot) = simulate(costs, load, request)?;
            faults.extend(faults_of(&table));
            parts.extend([Part::Table(table), Part::Plot(plot)]);
        }
    }
    parts.extend(rt_scale::storms(request)?);
    if !request.no_live {
        parts.push(rt_scale::decisions());
        parts.extend(rt_live::both(request.rounds)?);
    }
    Ok(Page {
        title: "Real-time balancing: rt-migrate-test",
        notes: vec![
            "One thread more than CPUs, FIFO priorities ascending from left to right. All are woken together, and each \
             computes for 20 ms. Times are µs from the parent's time stamp: when a thread began, when it was through \
             (len), and its own CPU time (ran; the original counts loops)."
                .to_owned(),
            "A round fails when a thread begins more than 1 ms after a less urgent one that went on computing."
                .to_owned(),
            "The parent wakes one thread after the other: of n threads the last is woken n kicks after the first, however \
             they are balanced. On the slow machine of 2007 with 1,024 CPUs that alone takes milliseconds."
                .to_owned(),
            "The patch read every run queue to find the least urgent CPU: with very many CPUs and threads that takes \
             longer than the waiting that it ends. The index that Entresol has, too, came a year later (cpupri)."
                .to_owned(),
            "RT_PUSH_IPI, which Linux has where CPUs are many, leaves the pull to the overloaded CPUs, which push one after \
             the other. On machines of their own size both are simulated with the time for which a lock is held; Entresol's \
             kernel takes one lock fewer, because it looks at what a queue publishes first, but its simulated machine does \
             not make others wait for it."
                .to_owned(),
            format!("Simulated from seed {}; equal seeds give equal figures.", request.seed),
        ],
        parts,
        faults,
    })
}

/// Whether Entresol, simulated, broke the test's rule where it must hold.
fn faults_of(table: &Table) -> Vec<String> {
    let ours = table.rows.iter().filter(|row| row.labels[0] == Policy::Entresol.name());
    let cells = ours.flat_map(|row| &row.cells);
    let broken = cells.filter(|cell| {
        let figure = |name| cell.figures.get(name).copied().unwrap_or_default();
        figure("cpus") <= CPUS_JUDGED as f64 && figure("rounds_failed") > 0.0
    });
    let told = broken.map(|cell| cell.command.clone().unwrap_or_default());
    told.map(|command| format!("Entresol let a thread wait for a less urgent one: {command}")).collect()
}

fn run(
    policy: Policy,
    costs: &str,
    load: Load,
    cpus: usize,
    rounds: u32,
    seed: u64,
) -> anyhow::Result<(Report, String)> {
    let cost = Cost::profile(costs).map_err(|why| anyhow::anyhow!(why.0))?;
    // Checks look at every CPU and thread: they are the sweeps' business.
    let check = cpus <= CPUS_JUDGED;
    let threads = Some(load.threads(cpus));
    let options = Options { cost, policy, threads, rounds: Some(rounds), check, ..Options::default() };
    let scenario = sim::scenario("rt-migrate").context("the simulator has this scenario")?;
    let mut command = format!(
        "entresol sim run rt-migrate --cpus {cpus} --rounds {rounds} --costs {costs} --policy {} --seed {seed}",
        policy.name()
    );
    if load != Load::OneMore {
        command.push_str(&format!(" --threads {}", load.threads(cpus)));
    }
    if !check {
        command.push_str(" --no-check");
    }
    Ok(((scenario.run)(seed, cpus, &options), command))
}

/// Two rounds on the machine of the message: of those that failed the first, if any did.
fn example(policy: Policy, request: &RtMigrateArguments) -> anyhow::Result<Part> {
    let (report, command) = run(policy, PROFILES[0], Load::OneMore, CPUS_THEN, request.rounds, request.seed)?;
    let table = report.tables.first().context("the scenario prints its rounds")?;
    let from = report.get("first failed round").map_or(1, |round| round as usize);
    let rows = table.rows.iter().skip(3 * from.min(request.rounds as usize - 2)).take(6);
    let line = |row: &Vec<String>| {
        let cells: String = row[1..].iter().map(|cell| format!("{cell:>8}")).collect();
        format!("{:>5}{cells}", row[0])
    };
    let failed = report.get("rounds failed").unwrap_or_default();
    Ok(Part::Lines(Lines {
        title: format!("Simulated, {}: {failed:.0} of {} rounds failed", policy.about(), request.rounds),
        command: Some(command),
        lines: rows.map(line).collect(),
        ..Lines::default()
    }))
}

fn simulate(costs: &'static str, load: Load, request: &RtMigrateArguments) -> anyhow::Result<(Table, Plot)> {
    let mut table = Table {
        title: format!(
            "Simulated, {} threads, costs of {costs}: when the top threads began, mean and worst, µs (rounds failed)",
            load.words()
        ),
        labels: vec![String::new(); 2],
        heads: request.cpus.iter().map(|n| format!("{n} CPUs")).collect(),
        ..Table::default()
    };
    let mut curves = Vec::new();
    for policy in Policy::of(Class::RealTime) {
        let mut cells = Vec::new();
        for &cpus in &request.cpus {
            cells.push(cell(costs, load, policy, cpus as usize, request)?);
        }
        let point = |cell: &Cell| Point { x: cell.figures["cpus"], y: cell.figures["worst_us"], verdict: cell.verdict };
        let (name, ours) = (policy.name().to_owned(), policy == Policy::Entresol);
        curves.push(Curve { name, ours, points: cells.iter().map(point).collect() });
        table.rows.push(Row { labels: vec![policy.name().to_owned(), policy.about().to_owned()], cells });
    }
    style::progress("");
    let title = format!("Worst start of a top thread, {} threads, costs of {costs}", load.words());
    Ok((table, Plot { title, across: "CPUs", up: "worst start", unit: "µs", curves }))
}

fn cell(
    costs: &'static str,
    load: Load,
    policy: Policy,
    cpus: usize,
    request: &RtMigrateArguments,
) -> anyhow::Result<Cell> {
    let rounds = rounds_on(cpus, request.rounds);
    let (name, words) = (policy.name(), load.words());
    style::progress(&format!("simulating {name} on {cpus} CPUs, {words} threads, costs of {costs}"));
    let (report, command) = run(policy, costs, load, cpus, rounds, request.seed)?;
    let value = |name| report.get(name).with_context(|| format!("the scenario measures {name}"));
    let (mean, worst) = (value("top threads' start mean")?, value("top threads' start max")?);
    let failed = value("rounds failed")?;
    let in_words = if failed > 0.0 { format!(" ({failed:.0})") } else { String::new() };
    Ok(Cell::figure("worst_us", worst)
        .with("mean_us", mean)
        .with("rounds_failed", failed)
        .with("cpus", cpus as f64)
        .with("threads", load.threads(cpus) as f64)
        .with("rounds", f64::from(rounds))
        .shown(format!("{} / {}{in_words}", number(mean), number(worst)))
        .judged(failed == 0.0)
        .repeated_by(command))
}

/// Large machines make many events a round.
fn rounds_on(cpus: usize, rounds: u32) -> u32 {
    match cpus {
        0..=16 => rounds,
        17..=256 => rounds.min(10),
        _ => rounds.min(3),
    }
}
