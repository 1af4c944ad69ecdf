//! Random histories of a process's timers beside a ledger that knows nothing but when each was set: nothing is early,
//! nothing is lost, every expiry is a delivery or an overrun, and ids are unique, with blocked and ignored phases.

use super::*;
use crate::planted;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::collections::VecDeque;
use std::vec::Vec;

const MS: u64 = 1_000_000;
const CPUS: u16 = 2;

#[derive(Clone, Debug)]
enum Op {
    /// With the next id, or with this one.
    Create(Option<u32>),
    /// Which of the living, value, interval, absolute.
    Set(usize, u64, u64, bool),
    Delete(usize),
    Pass(u64),
    /// The program blocks the signal, or lets it through.
    Block(bool),
    /// It ignores the signal, or handles it.
    Ignore(bool),
    /// `timer_gettime` and `timer_getoverrun`.
    Ask(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let which = 0..64usize;
    prop_oneof![
        2 => prop::option::of(0..12u32).prop_map(Op::Create),
        4 => (which.clone(), 0..20 * MS, prop_oneof![Just(0), 1..5 * MS], any::<bool>())
            .prop_map(|(i, v, p, a)| Op::Set(i, v, p, a)),
        1 => which.clone().prop_map(Op::Delete),
        6 => (0..12 * MS).prop_map(Op::Pass),
        1 => any::<bool>().prop_map(Op::Block),
        1 => any::<bool>().prop_map(Op::Ignore),
        2 => which.prop_map(Op::Ask),
    ]
}

fn histories() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..150)
}

/// The expected state of a live timer.
#[derive(Debug)]
struct Known {
    id: u32,
    /// Its first expiry since it was set, 0 if it was not.
    first: u64,
    interval: u64,
    /// Expiries that were delivered, overruns among them.
    told: u64,
    overrun: i32,
}

impl Known {
    /// How often it has expired since it was set.
    fn expiries(&self, now: u64) -> u64 {
        match (self.first, self.interval) {
            (0, _) => 0,
            (first, _) if now < first => 0,
            (_, 0) => 1,
            (first, interval) => (now - first) / interval + 1,
        }
    }

    fn left(&self, now: u64) -> u64 {
        match self.expiries(now) {
            0 => self.first.saturating_sub(now),
            _ if self.interval == 0 => 0,
            expiries => self.first + expiries * self.interval - now,
        }
    }
}

struct World {
    timers: PosixTimers,
    ignored: IgnoredTimers,
    pending: VecDeque<TimerSignal>,
    known: Vec<Known>,
    blocks: bool,
    ignores: bool,
    now: u64,
    /// Deliveries and their overruns.
    expiries: u64,
    /// Deliveries.
    signals: u64,
}

impl World {
    fn new() -> World {
        World {
            timers: PosixTimers::new(CPUS.into()).unwrap(),
            ignored: IgnoredTimers::new(),
            pending: VecDeque::new(),
            known: Vec::new(),
            blocks: false,
            ignores: false,
            now: 5 * MS,
            expiries: 0,
            signals: 0,
        }
    }

    fn clocks(&self) -> WallClocks {
        WallClocks { monotonic: Nanos(self.now), ..WallClocks::default() }
    }

    fn which(&self, at: usize) -> Option<usize> {
        (!self.known.is_empty()).then(|| at % self.known.len())
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Create(wanted) => return self.create(wanted),
            Op::Set(at, value, interval, absolute) => {
                let Some(at) = self.which(at) else { return Ok(()) };
                let new = ItimerValue { value: Nanos(value), interval: Nanos(interval) };
                let id = self.known[at].id as i32;
                self.timers.settime(id, new, true, absolute, &self.clocks(), None).unwrap();
                let known = &mut self.known[at];
                known.first = if value == 0 || absolute { value } else { self.now + value };
                (known.interval, known.told, known.overrun) = (if value == 0 { 0 } else { interval }, 0, 0);
            }
            Op::Delete(at) => {
                let Some(at) = self.which(at) else { return Ok(()) };
                let gone = self.known.swap_remove(at);
                let process: (&mut dyn CpuClocks, _) = (&mut NoCpuClocks, &mut self.ignored);
                self.timers.delete(gone.id as i32, Some(process)).unwrap();
            }
            Op::Pass(span) => self.now += span,
            Op::Block(blocks) => self.blocks = blocks,
            Op::Ignore(true) => self.ignore(),
            Op::Ignore(false) => {
                self.ignores = false;
                let signo = Notify::DEFAULT.signo().unwrap();
                while let Some(signal) = self.timers.unignore(signo, &mut self.ignored, |_| true) {
                    self.pending.extend(signal);
                }
            }
            Op::Ask(at) => return self.ask(at),
        }
        Ok(())
    }

    fn create(&mut self, wanted: Option<u32>) -> Result<(), TestCaseError> {
        let timer = Timer::new(Base::Monotonic, Notify::DEFAULT, 0, 1);
        let home = CpuId(self.known.len() as u16 % CPUS);
        let made = self.timers.create(wanted, timer, home, Nanos(self.now));
        let taken = |id: u32| self.known.iter().any(|known| known.id == id);
        match (made, wanted) {
            (Ok(id), _) => {
                prop_assert!(!taken(id), "id {id} is given twice");
                prop_assert!(wanted.is_none_or(|wanted| wanted == id));
                self.known.push(Known { id, first: 0, interval: 0, told: 0, overrun: 0 });
            }
            (Err(NotReserved::Refused(Error::Busy)), Some(id)) => prop_assert!(taken(id), "id {id} is free"),
            (Err(why), _) => prop_assert!(false, "{why:?}"),
        }
        Ok(())
    }

    /// `sigaction` to SIG_IGN: what is pending is flushed, and what is not periodic is gone.
    fn ignore(&mut self) {
        self.ignores = true;
        for signal in std::mem::take(&mut self.pending) {
            self.timers.flush(signal.key, &mut self.ignored);
        }
        self.forget_ignored();
    }

    /// Expiries of timers without a period that the program ignored.
    fn forget_ignored(&mut self) {
        let now = self.now;
        for known in self.known.iter_mut().filter(|known| known.interval == 0) {
            known.told = known.expiries(now);
        }
    }

    /// Does what ticks and the return to user mode do: everything due expires, and unblocked signals are delivered.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        let clocks = self.clocks();
        for cpu in 0..CPUS {
            while let Some(key) = self.timers.pop_due(CpuId(cpu), &clocks) {
                let ignores = self.ignores && !self.blocks;
                let Some(signal) = self.timers.fire(key, &mut self.ignored, |_| true, |_| ignores) else { continue };
                prop_assert!(self.pending.iter().all(|other| other.key != key), "one signal a timer");
                let known = self.known.iter().find(|known| known.id == signal.id);
                let expired = known.is_some_and(|known| known.expiries(self.now) > known.told);
                prop_assert!(expired, "early: {known:?} at {}", self.now);
                self.pending.push_back(signal);
            }
        }
        if self.ignores && !self.blocks {
            self.forget_ignored_once();
        }
        while !self.blocks && !self.pending.is_empty() {
            self.deliver(&clocks)?;
        }
        if !self.blocks && !self.ignores {
            for known in &self.known {
                prop_assert_eq!(known.told, known.expiries(self.now), "lost: {:?} at {}", known, self.now);
            }
        }
        Ok(())
    }

    /// As [`Self::forget_ignored`], for those whose signal did not come to be pending while it was blocked.
    fn forget_ignored_once(&mut self) {
        let pending: Vec<u32> = self.pending.iter().map(|signal| signal.id).collect();
        let now = self.now;
        let gone = |known: &&mut Known| known.interval == 0 && !pending.contains(&known.id);
        for known in self.known.iter_mut().filter(gone) {
            known.told = known.expiries(now);
        }
    }

    fn deliver(&mut self, clocks: &WallClocks) -> Result<(), TestCaseError> {
        let Some(signal) = self.pending.pop_front() else { return Ok(()) };
        let Delivery::Signal { overrun, .. } = self.timers.deliver(signal.key, clocks, &mut NoCpuClocks) else {
            return Ok(());
        };
        let Some(known) = self.known.iter_mut().find(|known| known.id == signal.id) else {
            return Err(TestCaseError::fail("a deleted timer delivers"));
        };
        known.told += 1 + overrun as u64;
        self.expiries += 1 + overrun as u64;
        self.signals += 1;
        known.overrun = overrun;
        prop_assert_eq!(known.told, known.expiries(self.now), "deliveries and overruns: {:?}", known);
        Ok(())
    }

    fn ask(&mut self, at: usize) -> Result<(), TestCaseError> {
        let Some(at) = self.which(at) else { return Ok(()) };
        let known = &self.known[at];
        let (id, clocks) = (known.id as i32, self.clocks());
        let read = self.timers.gettime(id, &clocks, None).unwrap();
        prop_assert_eq!(read.value, Nanos(known.left(self.now)), "{:?} at {}", known, self.now);
        let interval = if known.first == 0 || (known.interval == 0) { 0 } else { known.interval };
        prop_assert_eq!(read.interval, Nanos(interval));
        prop_assert_eq!(self.timers.table.overrun(id), Ok(known.overrun));
        Ok(())
    }
}

fn check_history(ops: Vec<Op>) -> Result<(), TestCaseError> {
    counted(ops).map(drop)
}

/// How many expiries were told, by how many signals.
fn counted(ops: Vec<Op>) -> Result<[u64; 2], TestCaseError> {
    let mut world = World::new();
    for op in ops {
        world.apply(op)?;
        world.settle()?;
    }
    // At the end all is handled again, and nothing is owed.
    world.apply(Op::Block(false))?;
    world.settle()?;
    world.apply(Op::Ignore(false))?;
    world.settle()?;
    Ok([world.expiries, world.signals])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_early_lost_or_told_twice(ops in histories()) {
        check_history(ops)?;
    }
}

/// The same until this many signals were delivered, each of which is judged; with overruns there are some more expiries.
/// `ENTRESOL_EXPIRIES=10000000` asks for ten million.
#[test]
fn every_expiry_is_a_delivery_or_an_overrun() {
    let asked = std::env::var("ENTRESOL_EXPIRIES").ok().and_then(|text| text.parse().ok());
    let wanted = asked.unwrap_or(100_000);
    let told = core::cell::Cell::new([0, 0]);
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() };
    while told.get()[1] < wanted {
        // One that has had its cases runs no more.
        let mut runner = TestRunner::new(config.clone());
        let add = |[expiries, signals]: [u64; 2]| told.set([told.get()[0] + expiries, told.get()[1] + signals]);
        let run = runner.run(&histories(), |ops| counted(ops).map(add));
        run.unwrap_or_else(|why| panic!("{why}"));
    }
    let [expiries, signals] = told.get();
    std::println!("{expiries} expiries by {signals} signals: none early, none lost, none told twice");
}

/// The ledger sees what it is for.
#[test]
fn every_planted_fault_is_seen() {
    let config = ProptestConfig { cases: 400, failure_persistence: None, max_shrink_iters: 0, ..Default::default() };
    for fault in [
        Fault::EarlyByATick,
        Fault::LoseRearm,
        Fault::DeliverStale,
        Fault::DuplicateId,
        Fault::ForgetParked,
        Fault::LoseOverrun,
    ] {
        let mut runner = TestRunner::new(config.clone());
        let checked = planted::with(fault, || runner.run(&histories(), check_history));
        assert!(checked.is_err(), "{fault:?} is never seen");
    }
}
