//! Locks in memory that other processes share.
//!
//! Their words are waited for in the host's queues, but the host does not know our thread ids: it can neither boost an
//! owner nor notice its death. So
//! - **PI locks** are taken and released here, by a simple protocol on the same word (owner, FUTEX_WAITERS), and only
//!   the wait is the host's. There is no inheritance across processes;
//! - **dead owners** are detected by waiters: once a second each asks the machine whether the owner's process is gone,
//!   and then does what the host does for its own threads (`handle_futex_death`). A word that only looks like a lock is
//!   the program's own business: a thread that waits for a robust lock has announced it as the pending operation of its
//!   robust list (Documentation/locking/robust-futex-ABI.rst), and other waits are left alone.
//!
//! FUTEX_WAITERS stays set while anybody may wait: releasing such a word keeps the bit and wakes one waiter, and clears
//! the bit only if there was none.

use crate::{Host, Linux};
use abi::futex::*;
use abi::{Errno, nr};
use ids::{Nanos, ThreadIdx, Tid};
use kernel::futex::wake_op::CAS_TRIES_MAX;
use kernel::machine::Call;
use kernel::trap::Out;

// Values of [`Out::Host`] in place of a completed part.
// The wait for a PI lock: when it ends, the lock is tried again.
const TRY_AGAIN: isize = -1;
/// A plain wait with our own timeout, to check the owner.
const LOOK_AGAIN: isize = -2;

/// The result at the end of such a wait.
pub(crate) fn shared_wait_ended(kind: isize, result: isize) -> isize {
    let is = |e: Errno| result == e.to_ret();
    let again = match kind {
        TRY_AGAIN => result == 0 || is(Errno::EAGAIN) || is(Errno::EINTR) || is(Errno::ETIMEDOUT),
        _ => is(Errno::ETIMEDOUT),
    };
    match again {
        true => Errno::ERESTARTNOINTR.to_ret(),
        false if is(Errno::EINTR) => Errno::ERESTARTSYS.to_ret(),
        false => result,
    }
}

/// How long a waiter waits before it checks whether the owner is alive.
const LOOK: Nanos = Nanos::from_secs(1);
/// [`LOOK_AGAIN`]'s timeout as the host reads it.
static PATIENCE: [u64; 2] = [1, 0];

impl<M: Host> Linux<'_, M> {
    /// A call about a word that the host keeps.
    pub(crate) fn shared_futex(&self, t: ThreadIdx, call: &Call) -> Out {
        match call.args[1] as u32 & FUTEX_CMD_MASK {
            FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => self.shared_pi_lock(t, call, false).unwrap_or_else(Out::from),
            FUTEX_TRYLOCK_PI => self.shared_pi_lock(t, call, true).unwrap_or_else(Out::from),
            FUTEX_UNLOCK_PI => self.shared_pi_unlock(t, call.args[0]).unwrap_or_else(Out::from),
            FUTEX_WAIT | FUTEX_WAIT_BITSET => self.shared_wait(t, call),
            FUTEX_WAIT_REQUEUE_PI => Out::Host(*call, 0),
            _ => Out::Done(self.host(call)),
        }
    }

    /// A wait: for a robust lock, it checks the owner, unless it has a relative time limit, which would restart each
    /// time.
    fn shared_wait(&self, t: ThreadIdx, call: &Call) -> Out {
        let [addr, op, value, timeout, _, bitset] = call.args;
        let (op, value) = (op as u32, value as u32);
        let plain = match op & FUTEX_CMD_MASK {
            FUTEX_WAIT => timeout == 0,
            _ => bitset as u32 == FUTEX_BITSET_MATCH_ANY,
        };
        let owned = value & FUTEX_WAITERS != 0 && Tid((value & FUTEX_TID_MASK) as i32).is_ours();
        if !plain || !owned || self.pending_robust(t) != Some(addr) {
            return Out::Host(*call, 0);
        }
        let deadline = match self.futex_deadline(op & FUTEX_CMD_MASK, op, timeout) {
            Ok(deadline) => deadline,
            Err(error) => return error.into(),
        };
        if self.bury_owner(addr, value) {
            return Errno::EAGAIN.into();
        }
        let left = deadline.map(|deadline| deadline.at.since(self.clock(deadline.clock)));
        match left {
            // Like the host, which checks the word first.
            Some(Nanos::ZERO) => Out::Host(*call, 0),
            // At its own deadline, the owner is checked once more.
            Some(left) if left <= LOOK => Out::Host(*call, LOOK_AGAIN),
            _ => Out::Host(wait_a_while(addr, value), LOOK_AGAIN),
        }
    }

    fn shared_pi_lock(&self, t: ThreadIdx, call: &Call, only_try: bool) -> Result<Out, Errno> {
        let [addr, op, _, timeout, ..] = call.args;
        let op = op as u32;
        let cmd = op & FUTEX_CMD_MASK;
        let deadline = self.futex_deadline(cmd, op, timeout)?;
        if !addr.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        let me = self.tid(t).0 as u32;
        for _ in 0..CAS_TRIES_MAX {
            let word = self.load_u32(addr)?;
            let owner = word & FUTEX_TID_MASK;
            if owner == me {
                return Err(Errno::EDEADLK);
            }
            if owner == 0 {
                if self.cas_u32(addr, word, word | me)? == word {
                    return Ok(Out::Done(0));
                }
                continue;
            }
            if self.m.is_gone(owner) {
                // The host marks a word only for an owner whose robust list has it, and refuses others
                // (`handle_exit_race`).
                if self.pending_robust(t) != Some(addr) {
                    return Err(Errno::ESRCH);
                }
                let _ = self.cas_u32(addr, word, word & FUTEX_WAITERS | FUTEX_OWNER_DIED)?;
                continue;
            }
            if only_try {
                return Err(Errno::EAGAIN);
            }
            let marked = word | FUTEX_WAITERS;
            if self.cas_u32(addr, word, marked)? != word {
                continue;
            }
            return match deadline.map(|deadline| deadline.at.since(self.clock(deadline.clock))) {
                Some(Nanos::ZERO) => Err(Errno::ETIMEDOUT),
                // At its own deadline, the owner is checked once more.
                Some(left) if left <= LOOK => Ok(Out::Host(wait_until(call, marked), TRY_AGAIN)),
                _ => Ok(Out::Host(wait_a_while(addr, marked), TRY_AGAIN)),
            };
        }
        // Others keep writing to the word: the thread tries again.
        Ok(self.start_over(t))
    }

    fn shared_pi_unlock(&self, t: ThreadIdx, addr: u64) -> Result<Out, Errno> {
        let me = self.tid(t).0 as u32;
        loop {
            // The word is read and compared before its address is judged.
            let word = self.load_u32(addr)?;
            if word & FUTEX_TID_MASK != me {
                return Err(Errno::EPERM);
            }
            if !addr.is_multiple_of(4) {
                return Err(Errno::EINVAL);
            }
            let free = word & FUTEX_WAITERS;
            if self.cas_u32(addr, word, free)? != word {
                continue;
            }
            if free != 0 && self.wake_shared(addr) == 0 {
                // No waiters: a newcomer can take it.
                let _ = self.cas_u32(addr, free, 0);
            }
            return Ok(Out::Done(0));
        }
    }

    /// Wakes one thread that waits in the host; returns how many there were.
    pub(super) fn wake_shared(&self, addr: u64) -> isize {
        self.host(&Call { nr: nr::FUTEX, args: [addr, u64::from(FUTEX_WAKE), 1, 0, 0, 0] })
    }

    /// If the process of the owner in `word` has ended, marks the lock at `addr` as ownerless.
    fn bury_owner(&self, addr: u64, word: u32) -> bool {
        let dead = word & FUTEX_WAITERS | FUTEX_OWNER_DIED;
        self.m.is_gone(word & FUTEX_TID_MASK) && self.cas_u32(addr, word, dead) == Ok(word)
    }
}

/// The wait for a PI lock whose word is `marked`, until the deadline of its call.
fn wait_until(call: &Call, marked: u32) -> Call {
    let [addr, op, _, timeout, ..] = call.args;
    let op = op as u32;
    let realtime = op & FUTEX_CMD_MASK == FUTEX_LOCK_PI || op & FUTEX_CLOCK_REALTIME != 0;
    let op = FUTEX_WAIT_BITSET | if realtime { FUTEX_CLOCK_REALTIME } else { 0 };
    let args = [addr, u64::from(op), u64::from(marked), timeout, 0, u64::from(FUTEX_BITSET_MATCH_ANY)];
    Call { nr: nr::FUTEX, args }
}

fn wait_a_while(addr: u64, value: u32) -> Call {
    let patience = core::ptr::from_ref(&PATIENCE) as u64;
    Call { nr: nr::FUTEX, args: [addr, u64::from(FUTEX_WAIT), u64::from(value), patience, 0, 0] }
}
