//! Invariant 5, first half: a futex wait returns 0 only if it was woken.
//!
//! Every wake-up that the kernel reports (or makes, when a thread exits) is a credit on its
//! word; every wait that ends with 0 uses one up. While a wake is in progress (one of many threads
//! is done in pieces), all that it may wake are credited; its result takes back the rest.

use crate::machine::SimMachine;
use crate::memory::Map;
use abi::futex::{FUTEX_CMD_MASK, FUTEX_WAIT, FUTEX_WAKE};
use ids::ThreadIdx;
use kernel::{Call, Kernel};
use sync::atomic::Ordering::Relaxed;

/// A futex call under way.
#[derive(Clone, Copy, Debug)]
enum UnderWay {
    Wait(u64),
    Wake(u64, i64),
}

#[derive(Debug, Default)]
pub(super) struct Wakes {
    credit: Map<u64, i64>,
    calls: Map<u32, UnderWay>,
}

impl Wakes {
    pub(super) fn note_call(&mut self, k: &Kernel<SimMachine>, t: ThreadIdx, call: &Call) {
        let (word, op) = (call.args[0], call.args[1] as u32 & FUTEX_CMD_MASK);
        match call.nr {
            abi::nr::EXIT => {
                *self.credit.entry(k.thread(t).clear_child_tid.load(Relaxed)).or_default() += 1;
            }
            abi::nr::FUTEX if op == FUTEX_WAIT => {
                self.calls.insert(t.0, UnderWay::Wait(word));
            }
            abi::nr::FUTEX if op == FUTEX_WAKE => {
                let most = i64::from(call.args[2] as i32);
                *self.credit.entry(word).or_default() += most;
                self.calls.insert(t.0, UnderWay::Wake(word, most));
            }
            _ => {}
        }
    }

    /// A thread is back in user mode with the result of its call.
    pub(super) fn note_end(&mut self, t: ThreadIdx, call: &Call, result: isize) -> Result<(), String> {
        if call.nr != abi::nr::FUTEX {
            return Ok(());
        }
        let word = match self.calls.remove(&t.0) {
            Some(UnderWay::Wake(word, most)) => {
                *self.credit.entry(word).or_default() -= most - result.max(0) as i64;
                word
            }
            Some(UnderWay::Wait(word)) if result == 0 => {
                *self.credit.entry(word).or_default() -= 1;
                word
            }
            _ => return Ok(()),
        };
        if self.credit[&word] < 0 {
            return Err(format!("{t:?} returns from a call on {word:#x}: more have gone on than were woken"));
        }
        Ok(())
    }
}
