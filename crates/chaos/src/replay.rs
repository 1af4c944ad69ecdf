//! The choices of another run.

use crate::log::Switch;
use crate::strategy::{Moment, Strategy};
use alloc::vec::Vec;

/// Makes the choices that were written down, and plain ones elsewhere.
#[derive(Debug)]
pub struct Replay {
    /// In the order of (last thread, its count).
    switches: Vec<Switch>,
}

impl Replay {
    /// Of these switches.
    #[must_use]
    pub fn new(mut switches: Vec<Switch>) -> Replay {
        switches.sort_unstable_by_key(Switch::key);
        Replay { switches }
    }
}

impl Strategy for Replay {
    fn choose(&mut self, moment: &Moment<'_>) -> u32 {
        let found = self.switches.binary_search_by_key(&(moment.last, moment.nth), Switch::key);
        // A run that has taken another course may not have the thread to offer.
        let to = found.ok().map(|at| self.switches[at].to);
        to.filter(|to| moment.runnable.binary_search(to).is_ok()).unwrap_or_else(|| moment.plain())
    }
}
