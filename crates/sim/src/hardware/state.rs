//! The machine while it runs.

use super::pace::{Pace, Worker};
use super::{Distance, Hardware, Place};
use crate::rng::Rng;
use ids::{CpuId, Nanos};

/// The model of a machine that is not flat, and a run's figures of it.
#[derive(Debug, Default)]
pub(crate) struct State(Option<Box<Model>>);

#[derive(Debug)]
struct Model {
    hardware: Hardware,
    places: Vec<Place>,
    paces: Vec<Pace>,
    /// Of the fastest CPU.
    capacity: u64,
    figures: Figures,
}

/// A run's figures of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// How often a thread ran on another CPU than before, by [`Distance`].
    pub migrations: [u64; 4],
    /// Nanoseconds that were taken from CPUs while they had something to do.
    pub stolen: u64,
    /// Nanoseconds of work that threads did, as the fastest CPU at its highest frequency does it.
    pub work: u64,
    /// How much of it on slower CPUs than the fastest ones.
    pub small: u64,
    /// How many nanoseconds longer it took because of low capacity and frequency.
    pub slow: u64,
}

impl State {
    /// Everything random comes from `seed`.
    pub(crate) fn new(hardware: Option<&Hardware>, seed: &Rng, limit: Nanos) -> State {
        let Some(hardware) = hardware else { return State(None) };
        let places = hardware.places();
        let pace = |(i, place)| Pace::new(hardware, place, &seed.fork(i as u64), limit.0);
        let paces = places.iter().enumerate().map(pace).collect();
        let capacity = places.iter().map(|place| place.capacity).max().unwrap_or(100);
        State(Some(Box::new(Model {
            hardware: hardware.clone(),
            places,
            paces,
            capacity,
            figures: Figures::default(),
        })))
    }

    /// The cost of a migration, which counts.
    pub(crate) fn migrate(&mut self, from: CpuId, to: CpuId, cost: u64) -> u64 {
        let Some(model) = &mut self.0 else { return cost };
        let distance = model.distance(from, to);
        model.figures.migrations[distance as usize] += 1;
        model.hardware.migration.of(distance, cost)
    }

    /// The cost of a cache line that comes from another CPU.
    pub(crate) fn line(&self, from: CpuId, to: CpuId, cost: u64) -> u64 {
        self.0.as_ref().map_or(cost, |model| model.hardware.line.of(model.distance(from, to), cost))
    }

    /// How long a kick is under way; it may come from no CPU.
    pub(crate) fn kick(&self, from: CpuId, to: CpuId, delay: u64) -> u64 {
        let model = self.0.as_ref().filter(|_| from != CpuId::NONE && from != to);
        model.map_or(delay, |model| model.hardware.kick.of(model.distance(from, to), delay))
    }

    /// If a CPU is taken away now: until when.
    pub(crate) fn stolen_until(&mut self, cpu: CpuId, now: Nanos) -> Option<Nanos> {
        self.0.as_mut()?.paces[cpu.index()].stolen_until(now.0).map(Nanos)
    }

    /// Whether a CPU can be taken away.
    pub(crate) fn steals(&self) -> bool {
        self.0.as_ref().is_some_and(|model| model.hardware.stolen.is_some())
    }

    /// When a thread's work that begins now on `cpu` is done.
    pub(crate) fn finish(&mut self, cpu: CpuId, now: Nanos, work: Nanos) -> Nanos {
        let Some(model) = &mut self.0 else { return now + work };
        Nanos(model.paces[cpu.index()].finish(Worker::Thread, now.0, work.0))
    }

    /// The work that a thread has done on `cpu` in that time.
    pub(crate) fn work(&mut self, cpu: CpuId, from: Nanos, to: Nanos) -> Nanos {
        let Some(model) = &mut self.0 else { return to.since(from) };
        let done = model.paces[cpu.index()].pass(Worker::Thread, from.0, to.0);
        let figures = &mut model.figures;
        figures.stolen += done.stolen;
        figures.work += done.work;
        figures.slow += to.since(from).0 - done.stolen - done.work;
        if model.places[cpu.index()].capacity < model.capacity {
            figures.small += done.work;
        }
        Nanos(done.work)
    }

    /// When the kernel is done that is busy for `spent` on `cpu`, from now.
    pub(crate) fn kernel(&mut self, cpu: CpuId, now: Nanos, spent: Nanos) -> Nanos {
        let Some(model) = &mut self.0 else { return now + spent };
        let pace = &mut model.paces[cpu.index()];
        let end = pace.finish(Worker::Kernel, now.0, spent.0);
        model.figures.stolen += pace.pass(Worker::Kernel, now.0, end).stolen;
        Nanos(end)
    }

    /// What the run says of the machine, if it is not flat.
    pub(crate) fn figures(&self) -> Option<Figures> {
        self.0.as_ref().map(|model| model.figures)
    }
}

impl Model {
    fn distance(&self, from: CpuId, to: CpuId) -> Distance {
        self.places[from.index()].distance(&self.places[to.index()])
    }
}
