//! Models of real machines: what CPUs share, how fast they are, and what a hypervisor takes from them.
//!
//! A machine without a model is *flat*: every CPU is as far from every other one, runs at full speed and is never taken
//! away. The committed file `machine.toml` says what a model has, and has some with names.
//!
//! | model | what it changes | after |
//! |---|---|---|
//! | distance | the costs of migrations, cache lines and kicks | core-to-core latencies |
//! | capacity | the time for which a thread computes | Linux's `sched-capacity.rst` |
//! | ramp | the same, by how busy the CPU has been | `schedutil` |
//! | stolen time | threads and kernel stand still; what arrives waits | *steal* in `/proc/stat` |
//!
//! The scheduler knows none of it: a run shows what that costs. A thread's CPU time is the time for which it has a CPU,
//! at whatever speed and stolen time included. What the kernel itself does costs the same on every CPU.
//!
//! **Start reading at** [`Hardware`], which is the description; `file` reads it, `state` is the machine while it runs,
//! `pace` its speed.

mod calm;
mod file;
mod pace;
mod random;
mod state;
mod stolen;
#[cfg(test)]
mod tests;

use ids::{CPUS_MAX, Nanos};
use serde::{Deserialize, Serialize};

pub(crate) use calm::Calm;
pub use file::BadMachine;
pub use state::Figures;
pub(crate) use state::State;

/// A machine's description, as a file has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// In one sentence.
    #[serde(default)]
    pub about: String,
    /// Per cent of the cost of a migration.
    #[serde(default = "ByDistance::migration")]
    pub migration: ByDistance,
    /// Per cent of the cost of a cache line.
    #[serde(default = "ByDistance::line")]
    pub line: ByDistance,
    /// Per cent of the time for which a kick is under way.
    #[serde(default = "ByDistance::kick")]
    pub kick: ByDistance,
    /// Time that a hypervisor takes.
    pub stolen: Option<Stolen>,
    /// How frequency follows the load.
    pub ramp: Option<Ramp>,
    /// Equal cores, in the order of their CPUs' numbers.
    pub cores: Vec<Cores>,
}

/// Something in per cent for each distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByDistance {
    /// Between hardware threads of one core.
    pub sibling: u64,
    /// Between cores that share their last-level cache.
    pub cache: u64,
    /// Between cores of one socket.
    pub socket: u64,
    /// Between sockets.
    pub across: u64,
}

/// How far two different CPUs are apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Distance {
    /// They are hardware threads of one core.
    Sibling,
    /// Their cores share their last-level cache.
    Cache,
    /// Their cores are in one socket.
    Socket,
    /// Their cores are in two sockets.
    Across,
}

/// Time that a hypervisor takes from each CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stolen {
    /// How much of the time, 1 to 50.
    pub percent: u64,
    /// Nanoseconds at a time.
    pub length: u64,
}

/// How frequency follows the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    /// The speed after a long idle time, per cent.
    pub from: u64,
    /// Nanoseconds of work until full speed.
    pub length: u64,
}

/// Equal cores with one cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cores {
    /// How many.
    pub count: u32,
    /// Hardware threads of each.
    #[serde(default = "one")]
    pub siblings: u32,
    /// Speed, per cent.
    #[serde(default = "full")]
    pub capacity: u64,
    /// The socket.
    #[serde(default)]
    pub socket: u32,
    /// The last-level cache of the socket.
    #[serde(default)]
    pub cache: u32,
}

/// The place of a CPU, and its capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    socket: u32,
    cache: u32,
    core: u32,
    /// Per cent.
    capacity: u64,
}

fn one() -> u32 {
    1
}

fn full() -> u64 {
    100
}

impl ByDistance {
    const fn migration() -> ByDistance {
        ByDistance { sibling: 10, cache: 100, socket: 200, across: 400 }
    }

    const fn line() -> ByDistance {
        ByDistance { sibling: 25, cache: 100, socket: 200, across: 350 }
    }

    const fn kick() -> ByDistance {
        ByDistance { sibling: 100, cache: 100, socket: 100, across: 130 }
    }

    /// That part of a cost.
    pub fn of(self, distance: Distance, cost: u64) -> u64 {
        let percent = match distance {
            Distance::Sibling => self.sibling,
            Distance::Cache => self.cache,
            Distance::Socket => self.socket,
            Distance::Across => self.across,
        };
        cost.saturating_mul(percent) / 100
    }

    /// The greatest part of a cost, at least all of it.
    pub(crate) fn most(self, cost: u64) -> u64 {
        let percent = self.sibling.max(self.cache).max(self.socket).max(self.across).max(100);
        cost.saturating_mul(percent) / 100
    }

    fn all(self) -> [u64; 4] {
        [self.sibling, self.cache, self.socket, self.across]
    }
}

impl Hardware {
    /// Sockets of equal cores, each with its own cache.
    pub fn sockets(sockets: u32, cores: u32, siblings: u32) -> Hardware {
        let one = |socket| Cores { count: cores, siblings, capacity: full(), socket, cache: 0 };
        Hardware {
            about: String::new(),
            migration: ByDistance::migration(),
            line: ByDistance::line(),
            kick: ByDistance::kick(),
            stolen: None,
            ramp: None,
            cores: (0..sockets).map(one).collect(),
        }
    }

    /// How many CPUs it has.
    pub fn cpus(&self) -> usize {
        let each = self.cores.iter().map(|cores| cores.count as usize * cores.siblings as usize);
        each.fold(0, usize::saturating_add)
    }

    /// By CPU: where it is.
    pub(crate) fn places(&self) -> Vec<Place> {
        let mut places = Vec::with_capacity(self.cpus());
        let mut core = 0;
        for &Cores { count, siblings, capacity, socket, cache } in &self.cores {
            for _ in 0..count {
                places.extend((0..siblings).map(|_| Place { socket, cache, core, capacity }));
                core += 1;
            }
        }
        places
    }

    /// The longest time after which a CPU has worked for `work`.
    pub(crate) fn longest(&self, work: Nanos) -> Nanos {
        let Some(stolen) = self.stolen else { return work };
        Nanos(work.0 + stolen.most_pieces(work.0) * stolen.length)
    }

    /// A value that makes no sense, if there is one.
    pub fn fault(&self) -> Option<String> {
        let outside = |what: &str, value: u64, from: u64, to: u64| {
            (!(from..=to).contains(&value)).then(|| format!("{what} = {value}: expected {from} to {to}"))
        };
        let cores = self.cores.iter().find_map(|cores| {
            outside("count", u64::from(cores.count), 1, CPUS_MAX as u64)
                .or_else(|| outside("siblings", u64::from(cores.siblings), 1, 8))
                .or_else(|| outside("capacity", cores.capacity, 1, 100))
        });
        let costs = [("migration", self.migration), ("line", self.line), ("kick", self.kick)];
        let second = 1_000_000_000;
        cores
            .or_else(|| {
                let cpus = self.cpus();
                (!(1..=CPUS_MAX).contains(&cpus)).then(|| format!("cores: {cpus} CPUs: expected 1 to {CPUS_MAX}"))
            })
            .or_else(|| costs.iter().find_map(|(of, cost)| cost.all().iter().find_map(|&n| outside(of, n, 0, 10_000))))
            .or_else(|| self.stolen.and_then(|s| outside("stolen: percent", s.percent, 1, 50)))
            .or_else(|| self.stolen.and_then(|s| outside("stolen: length", s.length, 1_000, second)))
            .or_else(|| self.ramp.and_then(|r| outside("ramp: from", r.from, 1, 100)))
            .or_else(|| self.ramp.and_then(|r| outside("ramp: length", r.length, 1_000, second)))
    }
}

impl Place {
    /// How far another CPU is away.
    pub(crate) fn distance(&self, other: &Place) -> Distance {
        if self.core == other.core {
            Distance::Sibling
        } else if self.socket != other.socket {
            Distance::Across
        } else if self.cache != other.cache {
            Distance::Socket
        } else {
            Distance::Cache
        }
    }
}
