//! From 4 to 4,096 CPUs: the direct pull and the roaming push against each other, simulated; and what the scheduler's
//! decisions take on this machine about this many CPUs.

use std::hint::black_box;

use anyhow::Context;
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};
use sched::{Attr, Config, Kick, Prev, Scheduler};
use sim::{Cost, Options, Policy};

use super::args::RtMigrateArguments;
use super::page::{Cell, Curve, Part, Plot, Point, Row, Table};
use bench::probe::clock::{now_ns, percentile};
use bench::table::number;
use tool::style;

const SIZES: [usize; 6] = [4, 16, 64, 256, 1024, 4096];
/// Those that pull, that push around, and ours, which pulls.
const RIVALS: [Policy; 3] = [Policy::Active, Policy::Roaming, Policy::Entresol];
const PROFILES: [&str; 2] = ["host", "smp2007"];
const ROUNDS: u32 = 5;

/// The scenario `rt-storm` on the sizes that were asked for, and behind the largest of the usual ones on the largest.
pub(super) fn storms(request: &RtMigrateArguments) -> anyhow::Result<Vec<Part>> {
    let mut sizes: Vec<usize> = request.cpus.iter().map(|&n| n as usize).collect();
    if sizes.last() == Some(&1024) {
        sizes.push(ids::CPUS_MAX);
    }
    let mut parts = Vec::new();
    for costs in PROFILES {
        let mut table = Table {
            title: format!(
                "Pull or roaming push, costs of {costs}: all CPUs wake and wait again together; wake-up p50 / p99, µs \
                 (of it waiting for run queues' locks, mean)"
            ),
            labels: vec![String::new()],
            heads: sizes.iter().map(|n| format!("{n} CPUs")).collect(),
            ..Table::default()
        };
        let mut curves = Vec::new();
        for policy in RIVALS {
            let cells = sizes.iter().map(|&n| storm(policy, costs, n, request.seed)).collect::<Result<Vec<_>, _>>()?;
            let point = |c: &Cell| Point { x: c.figures["cpus"], y: c.figures["wakeup_p99_us"], verdict: c.verdict };
            let (name, ours) = (policy.name().to_owned(), policy == Policy::Entresol);
            curves.push(Curve { name, ours, points: cells.iter().map(point).collect() });
            table.rows.push(Row::of(policy.name(), cells));
        }
        let title = format!("Wake-ups of a storm, p99, costs of {costs}");
        parts.extend([Part::Table(table), Part::Plot(Plot { title, across: "CPUs", up: "p99", unit: "µs", curves })]);
    }
    style::progress("");
    Ok(parts)
}

fn storm(policy: Policy, costs: &str, cpus: usize, seed: u64) -> anyhow::Result<Cell> {
    let name = policy.name();
    style::progress(&format!("simulating a storm on {cpus} CPUs, {name}, costs of {costs}"));
    let cost = Cost::profile(costs).map_err(|why| anyhow::anyhow!(why.0))?;
    let options = Options { cost, policy, rounds: Some(ROUNDS), check: false, ..Options::default() };
    let scenario = sim::scenario("rt-storm").context("the simulator has this scenario")?;
    let report = (scenario.run)(seed, cpus, &options);
    let value = |name| report.get(name).with_context(|| format!("the scenario measures {name}"));
    let (half, p99) = (value("wake-up p50")?, value("wake-up p99")?);
    let waits = report.get("waiting for locks, a wake-up");
    let in_words = waits.map_or(String::new(), |waits| format!(" ({})", number(waits)));
    let command = format!(
        "entresol sim run rt-storm --cpus {cpus} --rounds {ROUNDS} --costs {costs} --policy {name} --seed {seed} --no-check"
    );
    let cell = Cell::figure("wakeup_p99_us", p99).with("wakeup_p50_us", half).with("cpus", cpus as f64);
    let cell = waits.into_iter().fold(cell, |cell, waits| cell.with("lock_wait_us", waits));
    Ok(cell.shown(format!("{} / {}{in_words}", number(half), number(p99))).repeated_by(command))
}

/// The duration of one decision, timed here.
pub(super) fn decisions() -> Part {
    let rows = ACTS.map(|(name, act)| {
        let cells = SIZES.iter().map(|&cpus| {
            style::progress(&format!("timing: {name}, {cpus} CPUs"));
            Cell::figure("ns", timed(cpus, act)).with("cpus", cpus as f64)
        });
        Row::of(name, cells.collect())
    });
    style::progress("");
    Part::Table(Table {
        title:
            "The scheduler's decisions about so many CPUs, each with a real-time thread: timed here by one thread, ns"
                .to_owned(),
        labels: vec![String::new()],
        heads: SIZES.map(|n| format!("{n} CPUs")).to_vec(),
        rows: rows.into(),
        notes: vec!["Nobody else is at work on these run queues: no line has to come from another CPU.".to_owned()],
    })
}

/// A timed step: runs once, returns its duration, and restores the state so that it can run again.
type Act = fn(&mut Machine) -> u64;

const ACTS: [(&str, Act); 4] = [
    ("wake-up, where it was last", wake_here),
    ("wake-up, its CPU taken: the least urgent one is found", wake_there),
    ("preempted, and pushed to the least urgent CPU", push),
    ("a CPU becomes less urgent, and pulls", pull),
];

/// Times an act is done; the median counts.
const TIMES: usize = 2_001;

fn timed(cpus: usize, act: Act) -> f64 {
    let mut machine = Machine::new(cpus);
    let mut empty: Vec<f64> = (0..TIMES).map(|_| time(|| ()) as f64).collect();
    let mut all: Vec<f64> = (0..TIMES).map(|_| act(&mut machine) as f64).collect();
    percentile(&mut all, 50) - percentile(&mut empty, 50)
}

fn time(what: impl FnOnce()) -> u64 {
    let start = now_ns();
    what();
    black_box(now_ns()) - start
}

struct NoKick;

impl Kick for NoKick {
    fn kick(&mut self, _: CpuId) {}
}

/// CPUs that each run a FIFO thread of priority 50, which stays there. On two of them a thread of priority 20 waits,
/// which stays there, too: while its FIFO thread waits, that CPU is the least urgent. A thread of priority 60 belongs
/// to the first CPU and waits, and one of priority 40, the wanderer, may run everywhere.
struct Machine {
    s: Scheduler,
    now: u64,
    /// The two CPUs that can become less urgent; the wanderer is on the first of them, or was.
    low: [CpuId; 2],
}

const FIRST: CpuId = CpuId(0);
const WANDERER: ThreadIdx = ThreadIdx(ids::CPUS_MAX as u32);
const OWNER: ThreadIdx = ThreadIdx(ids::CPUS_MAX as u32 + 1);

/// The thread of priority 50 of a CPU.
fn base(cpu: CpuId) -> ThreadIdx {
    ThreadIdx(u32::from(cpu.0))
}

impl Machine {
    fn new(cpus: usize) -> Machine {
        let config = Config { cpus, rt_throttle: false, ..Config::default() };
        let s = Scheduler::new(&config).expect("there is memory for some thousand CPUs");
        let low = [cpus / 2, cpus - 1].map(|c| CpuId(c as u16));
        let mut m = Machine { s, now: 1_000_000, low };
        for c in (0..cpus as u16).map(CpuId) {
            m.add(base(c), 50, CpuMask::only(c));
        }
        for (c, t) in low.into_iter().zip(OWNER.0 + 1..) {
            m.add(ThreadIdx(t), 20, CpuMask::only(c));
        }
        m.add(OWNER, 60, CpuMask::only(FIRST));
        m.block(FIRST);
        m.lower(low[0]);
        m.add(WANDERER, 40, CpuMask::first(cpus));
        m
    }

    /// A new thread, which runs at once if it can.
    fn add(&mut self, t: ThreadIdx, priority: u8, mask: CpuMask) {
        self.s.attach(t, &Attr::fifo(priority), mask).expect("there is memory for a thread");
        self.now += 100;
        self.s.wake_new(t, FIRST, Nanos(self.now), &mut NoKick);
        self.schedule(self.s.cpu_of(t), Prev::Preempted);
    }

    fn schedule(&mut self, cpu: CpuId, prev: Prev) {
        self.now += 100;
        let _ = self.s.schedule(cpu, Nanos(self.now), prev, &mut NoKick);
    }

    fn wake(&mut self, t: ThreadIdx) {
        self.now += 100;
        self.s.wake(t, FIRST, Nanos(self.now), &mut NoKick);
    }

    /// The thread running there begins to wait.
    fn block(&mut self, cpu: CpuId) {
        self.s.prepare_block(self.s.current(cpu).expect("somebody runs there"));
        self.schedule(cpu, Prev::Block);
    }

    /// One of the two becomes less urgent, or as urgent as the others again.
    fn lower(&mut self, cpu: CpuId) {
        assert_eq!(self.s.current(cpu), Some(base(cpu)));
        self.block(cpu);
    }

    fn raise(&mut self, cpu: CpuId) {
        self.wake(base(cpu));
        self.schedule(cpu, Prev::Preempted);
        assert_eq!(self.s.current(cpu), Some(base(cpu)));
    }

    /// Notes that the wandering thread is on the other of the two CPUs.
    fn has_moved(&mut self) {
        self.low.swap(0, 1);
        assert_eq!(self.s.current(self.low[0]), Some(WANDERER), "on {:?}", self.s.cpu_of(WANDERER));
    }
}

fn wake_here(m: &mut Machine) -> u64 {
    let ns = time(|| m.wake(OWNER));
    m.schedule(FIRST, Prev::Preempted);
    assert_eq!(m.s.current(FIRST), Some(OWNER));
    m.block(FIRST);
    ns
}

/// The wandering thread runs before and after. While it waits, another thread takes its CPU.
fn wake_there(m: &mut Machine) -> u64 {
    let [here, there] = m.low;
    m.block(here);
    m.raise(here);
    m.lower(there);
    let ns = time(|| m.wake(WANDERER));
    m.schedule(there, Prev::Preempted);
    m.has_moved();
    ns
}

fn push(m: &mut Machine) -> u64 {
    let [here, there] = m.low;
    m.lower(there);
    m.wake(base(here));
    let ns = time(|| m.schedule(here, Prev::Preempted));
    m.schedule(there, Prev::Preempted);
    m.has_moved();
    ns
}

fn pull(m: &mut Machine) -> u64 {
    let [here, there] = m.low;
    m.raise(here);
    let ns = time(|| m.lower(there));
    m.has_moved();
    ns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each act does what it is called: its assertions hold on small and on large machines.
    #[test]
    fn every_act_can_be_done_again_and_again() {
        for cpus in [4, 5, 130] {
            for (name, act) in ACTS {
                let mut m = Machine::new(cpus);
                let before = [m.low[0], m.low[1], FIRST].map(|c| m.s.stats(c));
                for _ in 0..10 {
                    let _ = act(&mut m);
                }
                let after = [m.low[0], m.low[1], FIRST].map(|c| m.s.stats(c));
                let sum = |of: fn(&sched::CpuStats) -> u64| {
                    after.iter().map(of).sum::<u64>() - before.iter().map(of).sum::<u64>()
                };
                let expected = match name.split([' ', ',']).next() {
                    Some("preempted") => (10, 0),
                    Some("a") => (0, 10),
                    _ => (0, 0),
                };
                assert_eq!((sum(|s| s.pushes), sum(|s| s.pulls)), expected, "{name}, {cpus} CPUs");
            }
        }
    }
}
