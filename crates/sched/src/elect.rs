//! A controlled run's choice of the next thread (crate `chaos`).

use crate::queue::Held;
use crate::{At, Clock, Idle, Kick, Prev};
use ids::{Nanos, ThreadIdx};
use sync::atomic::Ordering;

/// Chooses among the threads that a CPU could run.
pub trait Electorate {
    /// This thread could run.
    fn offer(&mut self, t: ThreadIdx);

    /// Chooses the thread to run: one of those offered, of which there is at least one.
    fn choose(&mut self) -> ThreadIdx;
}

impl At<'_> {
    /// Makes every further trap of this CPU call [`At::elect`].
    pub fn begin_to_elect(self) {
        self.cpu.seen.need_resched.store(true, Ordering::Release);
    }

    /// [`Scheduler::schedule`](crate::Scheduler::schedule) for a scheduler of one CPU, with a choice among all runnable
    /// fair threads. Threads of other classes come first, by their own rules. `need_resched` stays set, so that the
    /// chosen thread's next trap comes here again.
    #[must_use]
    pub fn elect(
        self,
        clock: impl Clock,
        prev: Prev,
        mut k: impl Kick,
        electorate: &mut impl Electorate,
    ) -> (Option<ThreadIdx>, Nanos) {
        let mut h = self.lock();
        let now = clock.read();
        h.account(now);
        let last = h.rq.current;
        let (_, exiled) = h.put_prev(now, prev);
        let next = h.elect(now, electorate);
        match next {
            Some(t) => {
                h.set_idle(None);
                h.begin(t, h.s.table.get(t), now);
                h.rq.stats.switches += u64::from(t != last);
            }
            None => h.set_idle(Some(Idle::Spinning)),
        }
        h.publish();
        h.cpu.seen.need_resched.store(next.is_some(), Ordering::Release);
        drop(h);
        if let Some(t) = exiled {
            self.s.activate(t, self.id, now, crate::fair::Placement::Moved, &mut k);
        }
        (next, now)
    }
}

impl Held<'_> {
    fn elect(&mut self, now: Nanos, electorate: &mut impl Electorate) -> Option<ThreadIdx> {
        let table = &self.s.table;
        if !self.rq.rt.is_empty() || !self.rq.deadline.is_empty() || self.rq.fair.waiting() == 0 {
            return self.pick(now);
        }
        self.rq.fair.visit(table, &mut |t| electorate.offer(t));
        let t = electorate.choose();
        self.rq.fair.remove(table, t);
        Some(t)
    }
}
