//! The parked signals of timers whose signal the program ignores: one list per signal,
//! linked through the timers' slots. Everything here happens under the process lock.

use crate::posix::{TimerKey, TimerTable};
use sync::atomic::Ordering::Relaxed;

const SIGNALS: usize = 64;
/// Ends a list; a link is a key plus one.
const END: u32 = 0;

/// The lists of one process.
#[derive(Debug)]
pub struct IgnoredTimers {
    heads: [u32; SIGNALS],
}

impl Default for IgnoredTimers {
    fn default() -> IgnoredTimers {
        IgnoredTimers::new()
    }
}

impl IgnoredTimers {
    /// Nothing is parked.
    pub const fn new() -> IgnoredTimers {
        IgnoredTimers { heads: [END; SIGNALS] }
    }

    pub(super) fn park(&mut self, table: &TimerTable, key: TimerKey, signo: u8) {
        let head = &mut self.heads[signo as usize - 1];
        let slot = table.slot(key);
        slot.previous.store(END, Relaxed);
        slot.next.store(*head, Relaxed);
        if *head != END {
            table.slot(TimerKey(*head - 1)).previous.store(key.0 + 1, Relaxed);
        }
        *head = key.0 + 1;
    }

    pub(super) fn unpark(&mut self, table: &TimerTable, key: TimerKey, signo: u8) {
        let slot = table.slot(key);
        let (previous, next) = (slot.previous.load(Relaxed), slot.next.load(Relaxed));
        match previous {
            END => self.heads[signo as usize - 1] = next,
            _ => table.slot(TimerKey(previous - 1)).next.store(next, Relaxed),
        }
        if next != END {
            table.slot(TimerKey(next - 1)).previous.store(previous, Relaxed);
        }
    }

    /// The first parked timer of a signal.
    pub fn first(&self, signo: u8) -> Option<TimerKey> {
        self.heads[signo as usize - 1].checked_sub(1).map(TimerKey)
    }
}
