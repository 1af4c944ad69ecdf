//! Carriers and seats: their blocks, words, timers and host CPUs, and the words that they share with the service
//! thread. This layer takes what it touches as arguments and does not know the process's type.

pub(crate) mod ahead;
pub(crate) mod alarms;
pub mod carrier;
pub(crate) mod credentials;
pub(crate) mod identities;
pub(crate) mod inline;
pub(crate) mod leave;
pub(crate) mod lent;
pub(crate) mod mailbox;
pub(crate) mod outside;
pub(crate) mod place;
#[cfg(feature = "planted")]
pub mod planted;
pub(crate) mod poller;
pub(crate) mod polling;
pub(crate) mod preempt;
pub(crate) mod receive;
pub mod seat;
pub(crate) mod service_state;
pub mod table;
mod thread;
mod wake;
