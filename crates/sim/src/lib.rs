//! The simulated machine: the kernel that runs on the host, in virtual time, from one seed, on 1 to 4,096 CPUs.
//!
//! **May touch:** virtual time and one seed. It builds `kernel` unchanged and is its second [`machine`].
//!
//! **Start reading at** [`World`] (the event loop), then [`user`] (programs as lists of steps, or closures that name the
//! next step), `linux` (the host that the personality asks), [`hardware`] (machines that are not flat) and `check` (the
//! invariants, checked after every event). The same seed gives the same run, to the last bit of [`Outcome::hash`].
//!
//! ```
//! use entresol_sim::{Config, Setup, user::{Step, script}};
//! use ids::Nanos;
//! let world = |seed| {
//!     let mut setup = Setup::new(Config::new(seed, 2));
//!     let m = setup.mutex();
//!     let one = || script([Step::Lock(m), Step::Compute(Nanos::from_micros(50)), Step::Unlock(m)]);
//!     setup.threads(vec![one(), one(), one()])
//! };
//! let outcome = world(7).run();
//! outcome.expect_sound(7);
//! assert!(outcome.time > Nanos::from_micros(150));
//! assert_eq!(outcome.hash, world(7).run().hash);
//! ```
#![forbid(unsafe_code)]

pub(crate) mod check;
pub mod config;
pub mod cost;
mod event;
pub mod export;
pub mod hardware;
mod history;
mod linux;
pub mod machine;
mod memory;
#[cfg(all(test, shuttle))]
mod models;
pub mod report;
pub mod rng;
pub mod swarm;
pub mod trace;
pub mod user;
pub mod workload;
pub mod world;

pub use config::{Bug, Config, Faults, Plant};
pub use cost::Cost;
pub use hardware::Hardware;
pub use report::Report;
pub use workload::{Options, Policy, Scenario, scenario, scenarios};
pub use world::{End, Outcome, Setup, Violation, World};
