//! Invariant 5, first half: nobody returns from a futex wait with 0 who was not woken.
//!
//! Every wake-up that the kernel reports (or makes, when a thread exits) is a credit on its
//! word; every wait that ends with 0 uses one up.

use crate::machine::{HANDLER_RIP, SimMachine};
use crate::memory::Map;
use abi::futex::{FUTEX_CMD_MASK, FUTEX_WAIT, FUTEX_WAKE};
use ids::ThreadIdx;
use kernel::{Call, Kernel, Machine};
use sync::atomic::Ordering::Relaxed;

#[derive(Debug, Default)]
pub(super) struct Wakes {
    credit: Map<u64, i64>,
    /// By thread: the word it waits on.
    waits: Map<u32, u64>,
}

impl Wakes {
    pub(super) fn note_call(&mut self, k: &Kernel<SimMachine>, t: ThreadIdx, call: &Call) {
        self.waits.remove(&t.0);
        match call.nr {
            abi::nr::EXIT => {
                *self.credit.entry(k.thread(t).clear_child_tid.load(Relaxed)).or_default() += 1;
            }
            abi::nr::FUTEX if call.args[1] as u32 & FUTEX_CMD_MASK == FUTEX_WAIT => {
                self.waits.insert(t.0, call.args[0]);
            }
            _ => {}
        }
    }

    pub(super) fn note_return(&mut self, k: &Kernel<SimMachine>, t: ThreadIdx, call: &Call) {
        if call.nr == abi::nr::FUTEX && call.args[1] as u32 & FUTEX_CMD_MASK == FUTEX_WAKE {
            // A handler that begins at once hides the result: then as many as were asked for.
            let hidden = k.m.with(t, |c| c.regs.rip == HANDLER_RIP);
            let woken = if hidden { i64::from(call.args[2] as i32) } else { k.m.result(t) as i64 }.max(0);
            *self.credit.entry(call.args[0]).or_default() += woken;
        }
    }

    /// A wait is over: says what is wrong about that.
    pub(super) fn note_end(&mut self, t: ThreadIdx, result: isize) -> Result<(), String> {
        let Some(word) = self.waits.remove(&t.0) else { return Ok(()) };
        if result != 0 {
            return Ok(());
        }
        let credit = self.credit.entry(word).or_default();
        *credit -= 1;
        if *credit < 0 {
            return Err(format!("{t:?} returns from waiting on {word:#x}, but nobody woke it"));
        }
        Ok(())
    }
}
