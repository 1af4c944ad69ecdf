//! Claiming a lock: what its word and its turnstile say (`futex_lock_pi_atomic`).

use super::later::Later;
use super::turnstile::TurnstileId;
use crate::Kernel;
use crate::futex::queue::{Bucket, Role};
use crate::futex::wake_op::CAS_TRIES_MAX;
use crate::machine::Machine;
use abi::Errno;
use abi::futex::{FUTEX_OWNER_DIED, FUTEX_TID_MASK, FUTEX_WAITERS};
use ids::{ThreadIdx, Tid};

/// A lock that cannot be taken at once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Contended {
    /// Others wait already.
    At(TurnstileId),
    /// The claimer would be the first to wait for a lock whose word names this owner.
    By(ThreadIdx, Tid),
}

/// The result of a claim.
#[derive(Clone, Copy, Debug)]
pub(super) enum Claim {
    /// The lock belongs to the claimer; its word says so.
    Taken,
    /// The word has FUTEX_WAITERS.
    Contended(Contended),
}

/// Why a claim has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// With this error.
    With(Errno),
    /// Others kept changing the word, or its owner is exiting: try again without the locks.
    TryAgain,
}

impl<E: Into<Errno>> From<E> for Refused {
    fn from(e: E) -> Refused {
        Refused::With(e.into())
    }
}

impl<M: Machine> Kernel<M> {
    /// Claims the lock at `addr` for `who`, under the lock of its bucket. With `set_waiters`, FUTEX_WAITERS is set even
    /// if the lock was free.
    pub(super) fn claim(
        &self,
        bucket: &Bucket<'_>,
        addr: u64,
        who: ThreadIdx,
        set_waiters: bool,
    ) -> Result<Claim, Refused> {
        let me = self.tid(who).0 as u32;
        for _ in 0..CAS_TRIES_MAX {
            let word = self.load_u32(addr)?;
            if word & FUTEX_TID_MASK == me {
                return Err(Errno::EDEADLK.into());
            }
            if let Some(first) = self.waiters(bucket, addr).next() {
                if self.node(first).role() != Role::Pi {
                    return Err(Errno::EINVAL.into());
                }
                let ts = self.turnstile_of(self.thread_of(first)).ok_or(Errno::EINVAL)?;
                self.check_turnstile(ts, word)?;
                return Ok(Claim::Contended(Contended::At(ts)));
            }
            let owner = word & FUTEX_TID_MASK;
            let new = match owner {
                0 => word & FUTEX_OWNER_DIED | me | if set_waiters { FUTEX_WAITERS } else { 0 },
                _ => word | FUTEX_WAITERS,
            };
            if new != word && self.cas_u32(addr, word, new)? != word {
                continue;
            }
            if owner == 0 {
                return Ok(Claim::Taken);
            }
            let tid = Tid(owner as i32);
            return match self.threads.find(tid) {
                Some(thread) => Ok(Claim::Contended(Contended::By(thread, tid))),
                None => Err(self.owner_gone(addr, owner)),
            };
        }
        Err(Refused::TryAgain)
    }

    /// The word must agree with the turnstile; otherwise the program has tampered with it (`attach_to_pi_state`, states
    /// 6, 9 and 10). A dying owner removes its id from the word before it hands the turnstile over.
    fn check_turnstile(&self, ts: TurnstileId, word: u32) -> Result<(), Errno> {
        let owner = word & FUTEX_TID_MASK;
        let dying = word & FUTEX_OWNER_DIED != 0 && owner == 0;
        if dying || owner == self.tid(self.owner_of(ts)).0 as u32 { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The word names no thread of this process, or one that has released everything: ESRCH, unless the word names
    /// another by now (`handle_exit_race`).
    fn owner_gone(&self, addr: u64, owner: u32) -> Refused {
        match self.load_u32(addr) {
            Err(_) => Refused::With(Errno::EFAULT),
            Ok(word) if word & FUTEX_TID_MASK == owner => Refused::With(Errno::ESRCH),
            Ok(_) => Refused::TryAgain,
        }
    }

    /// `t` joins the waiters of the lock, and its urgency spreads. The caller holds the bucket's lock and puts the node
    /// into the bucket before releasing it. EDEADLK if `t` would wait for itself.
    pub(super) fn join_lock(
        &self,
        addr: u64,
        t: ThreadIdx,
        at: Contended,
        later: &mut Later<'_, M>,
    ) -> Result<(), Refused> {
        let mut pi = self.futexes.pi.lock();
        let owner = match at {
            Contended::At(ts) => self.owner_of(ts),
            Contended::By(owner, _) => owner,
        };
        if self.would_deadlock(&pi, owner, t) {
            return Err(Errno::EDEADLK.into());
        }
        self.lend_turnstile(&mut pi, t);
        let ts = match at {
            Contended::At(ts) => ts,
            Contended::By(_, tid) => match self.new_turnstile(&mut pi, addr, owner, tid.0) {
                Some(ts) => ts,
                None => {
                    drop(pi);
                    return Err(self.owner_gone(addr, tid.0 as u32));
                }
            },
        };
        self.join(&mut pi, ts, t);
        self.follow_chain(&mut pi, owner, &mut later.kicks);
        later.owner = Some(owner);
        Ok(())
    }
}
