//! Activity of processes and threads between two snapshots.

use ids::Nanos;
use state::Thread;
use std::collections::HashMap;
use watch::Watched;

/// A thread's activity per second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Speed {
    /// CPU time in percent of a CPU.
    pub cpu: f64,
    /// Time in queues in percent of the time.
    pub queued: f64,
    /// Switches.
    pub switches: f64,
    /// Changes of CPU.
    pub migrations: f64,
}

impl std::ops::AddAssign for Speed {
    fn add_assign(&mut self, other: Speed) {
        self.cpu += other.cpu;
        self.queued += other.queued;
        self.switches += other.switches;
        self.migrations += other.migrations;
    }
}

/// A process as of now, and its speed.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The process's snapshot.
    pub watched: Watched,
    /// Its name.
    pub name: String,
    /// How busy each of its CPUs was, in percent.
    pub busy: Vec<f64>,
    /// The speed of each thread of the snapshot.
    pub speeds: Vec<Speed>,
}

/// The last two looks.
#[derive(Debug, Default)]
pub struct Rates {
    /// The processes, by id.
    pub processes: Vec<Measured>,
    looks: u32,
}

impl Rates {
    /// Takes in what there is now.
    pub fn look(&mut self, found: Vec<Watched>) {
        let before: HashMap<i32, Measured> =
            std::mem::take(&mut self.processes).into_iter().map(|p| (p.watched.pid, p)).collect();
        self.processes = found.into_iter().map(|now| measure(before.get(&now.pid), now)).collect();
        self.looks += 1;
    }

    /// Whether there are two snapshots to compare.
    #[must_use]
    pub fn has_speed(&self) -> bool {
        self.looks > 1
    }
}

fn measure(before: Option<&Measured>, now: Watched) -> Measured {
    let name = now.name();
    // A process that does not answer shows the same snapshot twice: no time has passed for it.
    let span = before.map_or(Nanos::ZERO, |b| now.snapshot.process.taken.since(b.watched.snapshot.process.taken));
    let Some(before) = before.filter(|_| span != Nanos::ZERO) else {
        let (cpus, threads) = (now.snapshot.cpus.len(), now.snapshot.threads.len());
        return Measured { watched: now, name, busy: vec![0.0; cpus], speeds: vec![Speed::default(); threads] };
    };
    let old: HashMap<i32, &Thread> = before.watched.snapshot.threads.iter().map(|t| (t.tid, t)).collect();
    let share = |now: Nanos, old: Nanos| now.since(old).0 as f64 * 100.0 / span.0 as f64;
    let often = |now: u64, old: u64| now.saturating_sub(old) as f64 * 1e9 / span.0 as f64;
    let new = Thread::default();
    let speed = |t: &Thread| {
        let o = old.get(&t.tid).copied().unwrap_or(&new);
        let switches = |t: &Thread| t.voluntary.saturating_add(t.involuntary);
        Speed {
            cpu: share(t.cpu_time(), o.cpu_time()),
            queued: share(t.queued, o.queued),
            switches: often(switches(t), switches(o)),
            migrations: often(t.migrations, o.migrations),
        }
    };
    let cpus = now.snapshot.cpus.iter().zip(&before.watched.snapshot.cpus);
    let busy = cpus.map(|(now, old)| share(now.busy, old.busy).min(100.0)).collect();
    let speeds = now.snapshot.threads.iter().map(speed).collect();
    Measured { watched: now, name, busy, speeds }
}
