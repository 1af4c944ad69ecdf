//! Which carrier serves which CPU: when a thread waits in the host, when the host keeps a carrier or allows too few,
//! and when threads have different rights.

pub(crate) mod away;
pub(crate) mod delegate;
pub(crate) mod identity;
pub(crate) mod lookout;
pub(crate) mod scarce;
pub(crate) mod takeover;
pub(crate) mod timed;
