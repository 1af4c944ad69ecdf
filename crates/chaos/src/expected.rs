//! Expectations of a run.

use crate::census::Census;

/// Expectations of a run, from earlier ones.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Expected {
    /// About how many choices among several threads there will be.
    pub steps: u64,
    /// About how many events each thread will have.
    pub census: Census,
    /// Whether it has places of which it is known that threads meet there.
    pub meets: bool,
}
