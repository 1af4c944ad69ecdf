//! What happens to a process apart from running its threads: it begins, forks, executes, lends its memory, receives
//! signals, watches its CPUs and stops.

pub(crate) mod alone;
pub(crate) mod borrower;
pub(crate) mod caught;
pub(crate) mod entrance;
pub mod exec;
pub(crate) mod fork;
pub(crate) mod lent_scheduling;
pub(crate) mod service;
pub mod start;
pub(crate) mod stops;
pub(crate) mod unborn;
pub(crate) mod watch;
