//! A cost model of many CPUs that meet at shared cache lines, for machines larger than the one at hand.
//!
//! It rests on three facts. A line moves from CPU to CPU one transfer at a time. A contended lock is handed on only
//! after the waiters have fetched its line again, one socket after the other (Boyd-Wickizer and others, "Non-scalable
//! locks are dangerous", 2012). The ticks of a machine come at about the same moment. It models neither cache sizes
//! nor bandwidth: judge the orders and ratios it gives, not the nanoseconds.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A machine, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// How many sockets.
    pub sockets: usize,
    /// How many CPUs on each.
    pub cores: usize,
    /// Fetching a line from another socket.
    pub far: u64,
    /// Fetching a line from another CPU of the socket.
    pub near: u64,
    /// Using a line one has.
    pub local: u64,
    /// The span over which the CPUs' ticks are spread, in nanoseconds.
    pub tick_skew: u64,
}

/// The constants of a machine, beside its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Constant {
    /// [`Machine::far`].
    Far,
    /// [`Machine::near`].
    Near,
    /// [`Machine::local`].
    Local,
    /// [`Machine::tick_skew`].
    TickSkew,
}

impl Constant {
    /// All four.
    pub const ALL: [Constant; 4] = [Constant::Far, Constant::Near, Constant::Local, Constant::TickSkew];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Constant::Far => "another socket's line",
            Constant::Near => "a neighbour's line",
            Constant::Local => "an own line",
            Constant::TickSkew => "spread of ticks",
        }
    }
}

impl Machine {
    /// The machine of the 2015 patch: 16 sockets of 18 cores.
    pub const SIXTEEN_SOCKETS: Machine =
        Machine { sockets: 16, cores: 18, far: 130, near: 40, local: 2, tick_skew: 20_000 };

    /// A machine of `cpus` CPUs, 16 to a socket, otherwise the same.
    pub const fn of_cpus(cpus: usize) -> Machine {
        let cores = if cpus < 16 { cpus } else { 16 };
        Machine { sockets: cpus.div_ceil(cores), cores, ..Machine::SIXTEEN_SOCKETS }
    }

    /// The same machine with memory latencies scaled to a percentage.
    pub const fn with_memory(self, percent: u64) -> Machine {
        Machine { far: self.far * percent / 100, near: self.near * percent / 100, ..self }
    }

    /// The same machine with one constant scaled to a percentage.
    pub const fn with(mut self, constant: Constant, percent: u64) -> Machine {
        let value = match constant {
            Constant::Far => &mut self.far,
            Constant::Near => &mut self.near,
            Constant::Local => &mut self.local,
            Constant::TickSkew => &mut self.tick_skew,
        };
        *value = *value * percent / 100;
        self
    }

    /// How many CPUs it has.
    pub const fn cpus(&self) -> usize {
        self.sockets * self.cores
    }

    fn transfer(&self, from: Option<usize>, to: usize) -> u64 {
        match from {
            Some(from) if from == to => self.local,
            Some(from) if from / self.cores == to / self.cores => self.near,
            _ => self.far,
        }
    }
}

/// One thing a CPU does at a tick. Lines are numbered by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Takes the lock in this line, works for this many nanoseconds, releases it.
    Lock(usize, u64),
    /// As [`Step::Lock`] with one of several lines, another for each CPU and step.
    LockOneOf {
        /// The first of them.
        first: usize,
        /// How many.
        lines: usize,
        /// For how long.
        ns: u64,
    },
    /// An atomic addition to this line.
    Add(usize),
    /// Reads this many lines that other CPUs write.
    ReadOthers(usize),
    /// Works on lines of its own for this many nanoseconds.
    Work(u64),
}

#[derive(Clone, Debug, Default)]
struct Line {
    owner: Option<usize>,
    free_at: u64,
    held: bool,
    waiting: VecDeque<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// The CPU begins its step.
    Begin { cpu: usize, step: usize },
    /// The CPU's critical section is over.
    Release { cpu: usize, step: usize, line: usize },
}

/// One tick on every CPU of the machine: how long each was busy with `steps` on average,
/// in nanoseconds.
pub fn tick(machine: &Machine, steps: &[Step]) -> f64 {
    Run::new(machine, steps).run()
}

/// The share of all time that goes into a tick's steps, with a tick each `period` ns.
/// Work that does not fit into the period fills it.
pub fn share(machine: &Machine, steps: &[Step], period: u64) -> f64 {
    (tick(machine, steps) / period as f64).min(1.0)
}

struct Run<'a> {
    machine: &'a Machine,
    steps: &'a [Step],
    lines: Vec<Line>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    ends: Vec<u64>,
}

impl<'a> Run<'a> {
    fn new(machine: &'a Machine, steps: &'a [Step]) -> Run<'a> {
        let lines = steps.iter().map(|step| match step {
            Step::Lock(line, _) | Step::Add(line) => line + 1,
            Step::LockOneOf { first, lines, .. } => first + lines,
            Step::ReadOthers(_) | Step::Work(_) => 0,
        });
        Run {
            machine,
            steps,
            lines: vec![Line::default(); lines.max().unwrap_or(0)],
            events: BinaryHeap::new(),
            ends: vec![0; machine.cpus()],
        }
    }

    fn start_of(&self, cpu: usize) -> u64 {
        // CPUs of one socket do not follow each other: 7919 is prime.
        (cpu * 7919 % self.machine.cpus()) as u64 * self.machine.tick_skew / self.machine.cpus() as u64
    }

    fn run(mut self) -> f64 {
        for cpu in 0..self.machine.cpus() {
            self.at(self.start_of(cpu), Event::Begin { cpu, step: 0 });
        }
        while let Some(Reverse((now, event))) = self.events.pop() {
            match event {
                Event::Begin { cpu, step } => self.begin(now, cpu, step),
                Event::Release { cpu, step, line } => self.release(now, cpu, step, line),
            }
        }
        let busy: u64 = (0..self.machine.cpus()).map(|cpu| self.ends[cpu] - self.start_of(cpu)).sum();
        busy as f64 / self.machine.cpus() as f64
    }

    fn at(&mut self, when: u64, event: Event) {
        self.events.push(Reverse((when, event)));
    }

    fn begin(&mut self, now: u64, cpu: usize, step: usize) {
        let next = Event::Begin { cpu, step: step + 1 };
        match self.steps.get(step) {
            None => self.ends[cpu] = now,
            Some(Step::Work(ns)) => self.at(now + ns, next),
            Some(Step::ReadOthers(lines)) => self.at(now + *lines as u64 * self.machine.far, next),
            Some(&Step::Add(line)) => {
                let start = now.max(self.lines[line].free_at);
                let end = start + self.machine.transfer(self.lines[line].owner, cpu);
                self.lines[line].owner = Some(cpu);
                self.lines[line].free_at = end;
                self.at(end, next);
            }
            Some(&Step::Lock(line, _)) => self.lock(now, cpu, step, line),
            Some(&Step::LockOneOf { first, lines, .. }) => {
                self.lock(now, cpu, step, first + (cpu * 31 + step * 7) % lines);
            }
        }
    }

    fn lock(&mut self, now: u64, cpu: usize, step: usize, line: usize) {
        if self.lines[line].held {
            self.lines[line].waiting.push_back((cpu, step));
        } else {
            self.enter(now, cpu, step, line, 0);
        }
    }

    /// The CPU gets the lock, after `sockets` of waiters have fetched the line.
    fn enter(&mut self, now: u64, cpu: usize, step: usize, line: usize, sockets: u64) {
        let transfer = self.machine.transfer(self.lines[line].owner, cpu);
        let handed_on = now + transfer + self.machine.far * sockets / 2;
        self.lines[line].held = true;
        self.lines[line].owner = Some(cpu);
        let work = match self.steps[step] {
            Step::Lock(_, ns) | Step::LockOneOf { ns, .. } => ns,
            _ => 0,
        };
        self.at(handed_on + work, Event::Release { cpu, step, line });
    }

    fn release(&mut self, now: u64, cpu: usize, step: usize, line: usize) {
        self.lines[line].held = false;
        if let Some((heir, heirs_step)) = self.lines[line].waiting.pop_front() {
            let mut sockets: Vec<usize> = self.lines[line].waiting.iter().map(|w| w.0 / self.machine.cores).collect();
            sockets.sort_unstable();
            sockets.dedup();
            self.enter(now, heir, heirs_step, line, sockets.len() as u64);
        }
        self.at(now, Event::Begin { cpu, step: step + 1 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: Machine = Machine { sockets: 2, cores: 2, far: 100, near: 40, local: 2, tick_skew: 0 };

    #[test]
    fn own_work_does_not_meet_anyone() {
        assert_eq!(tick(&M, &[Step::Work(7), Step::ReadOthers(2)]), 207.0);
    }

    #[test]
    fn additions_to_one_line_queue_up() {
        let one = Machine { sockets: 1, cores: 1, ..M };
        assert_eq!(tick(&one, &[Step::Add(0), Step::Add(0)]), 102.0, "the second finds the line at home");
        // CPUs 0, 1, 2, 3: far, near, far, near.
        assert_eq!(tick(&M, &[Step::Add(0)]), (100 + 140 + 240 + 280) as f64 / 4.0);
    }

    #[test]
    fn a_lock_is_handed_on_more_slowly_the_more_sockets_wait() {
        let few = tick(&Machine::of_cpus(32), &[Step::Lock(0, 8)]) / 32.0;
        let many = tick(&Machine::of_cpus(1024), &[Step::Lock(0, 8)]) / 1024.0;
        assert!(many > 5.0 * few, "{few} {many}");
    }
}
