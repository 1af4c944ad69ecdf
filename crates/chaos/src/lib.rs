//! Controlled schedules: which thread runs next, and how the choices are written down.
//!
//! In a controlled run one thread runs at a time. When it reaches a *scheduling point* (a system call, a function
//! of the C library's threads, a chosen memory access), waits or ends, [`Control`] chooses the next thread: it asks a
//! [`Strategy`] and writes down every choice that differs from the *plain* one ([`Moment::plain`]). These differences,
//! the [`Switch`]es, are all that it takes to repeat a schedule, and [`reduce()`] reduces their number.
//!
//! [`Races`] watches the accesses of threads that are not chosen, and finds those that nothing orders.
//!
//! Threads are named by number in the order in which they first were runnable, so a name means the same thread in
//! every run.
//!
//! **May touch:** words of a [`Log`] that it is given.
//!
//! **Start reading at** [`strategy`], then [`control`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod census;
pub mod control;
mod expected;
mod learned;
pub mod log;
pub mod pauses;
pub mod pct;
pub mod races;
pub mod random;
pub mod reduce;
pub mod replay;
mod rng;
pub mod search;
pub mod sightings;
mod spec;
pub mod strategy;
pub mod surw;
mod torn;
pub mod turn;

pub use census::Census;
pub use control::Control;
pub use expected::Expected;
pub use learned::Learned;
pub use log::{Log, Switch};
pub use pauses::Pauses;
pub use races::{Access, Race, Races};
pub use reduce::reduce;
pub use rng::Rng;
pub use search::Search;
pub use sightings::Sighting;
pub use spec::Spec;
pub use strategy::{Moment, Strategy, Why};
pub use torn::Torn;
pub use turn::{Left, Turn};
