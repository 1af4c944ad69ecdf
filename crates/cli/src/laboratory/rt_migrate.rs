//! The figures of the page on real-time balancing.

use anyhow::Context;
use serde::Serialize;
use sim::{Cost, Options, Policy, Report};

use super::args::RtMigrateArguments;
use super::live::{self, Live};
use crate::style;

/// The machine of the message's own figures.
const CPUS_THEN: usize = 4;
/// Up to this size ours must keep the test's rule on every cost profile. On larger machines waking one thread after
/// the other may itself take longer than the rule allows.
const CPUS_JUDGED: usize = 16;
/// The cost profiles: the machine of the message, and the one at hand.
const PROFILES: [&str; 2] = ["smp2007", "host"];

/// What the message of 22 October 2007 prints: a round before the patch, two after it.
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

/// The page.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    /// What it is about.
    pub title: &'static str,
    /// How to read it.
    pub notes: Vec<String>,
    /// Rounds in the layout of rt-migrate-test.
    pub rounds: Vec<Rounds>,
    /// One for each cost profile and load.
    pub tables: Vec<Simulated>,
    pub live: Vec<Live>,
}

/// Some rounds.
#[derive(Debug, Serialize)]
pub(super) struct Rounds {
    pub title: String,
    /// What repeats them; `None`: they are quoted.
    pub command: Option<String>,
    pub lines: Vec<String>,
}

/// All policies on machines of all sizes.
#[derive(Debug, Serialize)]
pub(super) struct Simulated {
    pub costs: &'static str,
    /// How many threads, in words.
    pub threads: &'static str,
    pub sizes: Vec<usize>,
    pub rows: Vec<Row>,
}

/// One policy on machines of all sizes.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub policy: &'static str,
    pub about: &'static str,
    pub cells: Vec<Cell>,
}

/// When the top threads began, from the parent's time.
#[derive(Debug, Serialize)]
pub(super) struct Cell {
    pub cpus: usize,
    pub threads: usize,
    pub rounds: u32,
    pub mean_us: f64,
    pub worst_us: f64,
    pub rounds_failed: u32,
    /// What repeats it.
    pub command: String,
}

impl Page {
    /// Whether nothing simulated under Entresol broke the test's rule where it must hold. Live latencies are not
    /// judged: the host takes its part of them.
    pub fn holds(&self) -> bool {
        let ours = self.tables.iter().flat_map(|t| &t.rows).filter(|row| row.policy == Policy::Entresol.name());
        ours.flat_map(|row| &row.cells).all(|c| c.cpus > CPUS_JUDGED || c.rounds_failed == 0)
    }
}

/// Takes all figures.
pub(super) fn page(request: &RtMigrateArguments) -> anyhow::Result<Page> {
    let mut rounds = vec![
        quoted(
            "The message, before the patch (4 CPUs): the third thread waits 20 ms for less urgent ones",
            &SEED_BEFORE,
        ),
        quoted("The message, after it: 31 to 61 µs", &SEED_AFTER),
    ];
    for policy in Policy::ALL.into_iter().cycle().skip(1).take(Policy::ALL.len()) {
        rounds.push(example(policy, request)?);
    }
    let mut tables = Vec::new();
    let loads = if request.full { &[Load::OneMore, Load::FourTimes][..] } else { &[Load::OneMore] };
    for &load in loads {
        for costs in PROFILES {
            tables.push(simulate(costs, load, request)?);
        }
    }
    let live = if request.no_live { Vec::new() } else { live::both(request.rounds)? };
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
            format!("Simulated from seed {}; equal seeds give equal figures.", request.seed),
        ],
        rounds,
        tables,
        live,
    })
}

fn quoted(title: &str, lines: &[&str]) -> Rounds {
    Rounds { title: title.to_owned(), command: None, lines: lines.iter().map(|&l| l.to_owned()).collect() }
}

fn about(policy: Policy) -> &'static str {
    match policy {
        Policy::Entresol => "Entresol: its own kernel on simulated CPUs",
        Policy::Passive => "before the patch, rebuilt",
        Policy::Active => "the patch, rebuilt",
        Policy::Both => "the patch with the old balance left on, rebuilt",
    }
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
fn example(policy: Policy, request: &RtMigrateArguments) -> anyhow::Result<Rounds> {
    let (report, command) = run(policy, PROFILES[0], Load::OneMore, CPUS_THEN, request.rounds, request.seed)?;
    let table = report.tables.first().context("the scenario prints its rounds")?;
    let from = report.get("first failed round").map_or(1, |round| round as usize);
    let rows = table.rows.iter().skip(3 * from.min(request.rounds as usize - 2)).take(6);
    let line = |row: &Vec<String>| {
        let cells: String = row[1..].iter().map(|cell| format!("{cell:>8}")).collect();
        format!("{:>5}{cells}", row[0])
    };
    let failed = report.get("rounds failed").unwrap_or_default();
    Ok(Rounds {
        title: format!("Simulated, {}: {failed:.0} of {} rounds failed", about(policy), request.rounds),
        command: Some(command),
        lines: rows.map(line).collect(),
    })
}

fn simulate(costs: &'static str, load: Load, request: &RtMigrateArguments) -> anyhow::Result<Simulated> {
    let sizes: Vec<usize> = request.cpus.iter().map(|&n| n as usize).collect();
    let mut rows = Vec::new();
    for policy in Policy::ALL {
        let mut cells = Vec::new();
        for &cpus in &sizes {
            let rounds = rounds_on(cpus, request.rounds);
            style::progress(&format!(
                "simulating {} on {cpus} CPUs, {} threads, costs of {costs}",
                policy.name(),
                load.words()
            ));
            let (report, command) = run(policy, costs, load, cpus, rounds, request.seed)?;
            let value = |name| report.get(name).with_context(|| format!("the scenario measures {name}"));
            cells.push(Cell {
                cpus,
                threads: load.threads(cpus),
                rounds,
                mean_us: value("top threads' start mean")?,
                worst_us: value("top threads' start max")?,
                rounds_failed: value("rounds failed")? as u32,
                command,
            });
        }
        rows.push(Row { policy: policy.name(), about: about(policy), cells });
    }
    style::progress("");
    Ok(Simulated { costs, threads: load.words(), sizes, rows })
}

/// Large machines make many events a round.
fn rounds_on(cpus: usize, rounds: u32) -> u32 {
    match cpus {
        0..=16 => rounds,
        17..=256 => rounds.min(10),
        _ => rounds.min(3),
    }
}
