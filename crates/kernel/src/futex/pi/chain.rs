//! Urgency along chains: a waiter boosts the owner, and the owner, if it waits itself, the next owner.

use super::later::LaterKicks;
use super::turnstile::{Key, PiState};
use crate::Kernel;
use crate::machine::Machine;
use ids::{CpuId, ThreadIdx};
use sync::atomic::{Ordering::*, fence};

/// The longest chain that is followed (`max_lock_depth`).
const CHAIN_MAX: usize = 1024;

impl<M: Machine> Kernel<M> {
    /// Whether `t` would wait for itself if it waited for a lock of `owner`. A chain that is too long to follow counts
    /// as one that does (`rt_mutex_adjust_prio_chain`: EDEADLK for both).
    pub(super) fn would_deadlock(&self, _pi: &PiState, owner: ThreadIdx, t: ThreadIdx) -> bool {
        let mut at = owner;
        for _ in 0..CHAIN_MAX {
            if at == t {
                return true;
            }
            match self.turnstile_of(at) {
                Some(ts) => at = self.owner_of(ts),
                None => return false,
            }
        }
        true
    }

    /// The waiters of `owner` have changed: updates its urgency, and that of the owners behind it, as far as anything
    /// changes.
    pub(super) fn follow_chain(&self, pi: &mut PiState, owner: ThreadIdx, kicks: &mut LaterKicks<'_, M>) {
        let now = self.now();
        let mut at = owner;
        for _ in 0..CHAIN_MAX {
            let Some(boost) = self.update_boost(pi, at) else { return };
            self.sched.set_boost(at, boost.boost(), now, kicks);
            match self.change_place(pi, at) {
                Some(next) => at = next,
                None => return,
            }
        }
    }

    /// Moves `t`, if it waits, to the place of its present urgency. Returns the owner of its lock, the next in the
    /// chain, if that changed anything.
    fn change_place(&self, pi: &mut PiState, t: ThreadIdx) -> Option<ThreadIdx> {
        let ts = self.turnstile_of(t)?;
        let key = Key::of(self.sched.urgency(t));
        if key == self.place_key(pi, t) {
            return None;
        }
        self.leave_place(pi, ts, t);
        self.take_place(pi, ts, t, key);
        Some(self.owner_of(ts))
    }

    /// The attributes of `t` have been changed (`rt_mutex_adjust_pi`). If it begins to wait at the same time, either
    /// its wait is seen here or it has seen its new urgency.
    pub(crate) fn pi_urgency_changed(&self, cpu: CpuId, t: ThreadIdx) {
        fence(SeqCst);
        if !self.thread(t).pi.waits() {
            return;
        }
        let mut later = self.later(cpu);
        {
            let mut pi = self.futexes.pi.lock();
            if let Some(owner) = self.change_place(&mut pi, t) {
                self.follow_chain(&mut pi, owner, &mut later.kicks);
            }
        }
        self.settle(cpu, later);
    }
}
