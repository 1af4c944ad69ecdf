//! Invariants 2 and 4: urgency over all CPUs, and no idling beside waiting threads.
//!
//! The rule for real-time and deadline threads, as push and pull promise it:
//! * the most urgent thread that waits on a CPU does not wait for a less urgent one there;
//! * the *pushable head* of a CPU (its most urgent waiting thread that may run elsewhere) does not
//!   wait while some allowed CPU runs, and has waiting, only less urgent ones. Threads behind
//!   that head may wait (the head-only rule).
//!
//! A CPU with work of any class does not sleep. All may be violated briefly, while kicks are in flight.

use super::{Bounds, Look, Met};
use ids::{CpuId, Nanos, ThreadIdx};
use sched::{Place, Urgency};

/// How long fair threads may have the CPU although a real-time thread waits: the fair
/// server's share, which it takes at the end of its period.
const SERVER_SHARE: Nanos = Nanos::from_millis(52);
const SERVER_FIRST: Nanos = Nanos::from_millis(900);

/// A thread that waits unjustly.
#[derive(Clone, Copy, Debug)]
struct Pending {
    since: Nanos,
    /// Where it waits, and the CPU time it has used: if either changes, it has made progress.
    at: CpuId,
    used: Nanos,
    round: u64,
}

#[derive(Debug, Default)]
pub(super) struct Order {
    /// By thread: waiting behind less urgent threads, and waiting while CPUs are idle.
    urgent: Vec<Option<Pending>>,
    idle: Vec<Option<Pending>>,
    /// For each CPU that has threads but no carrier: since when, and how often it had been served before.
    unserved: Vec<Option<(Nanos, u32)>>,
    round: u64,
    /// By CPU: how urgent what runs there is; how urgent the best that runs or waits is.
    runs: Vec<Option<Urgency>>,
    best: Vec<Option<Urgency>>,
}

impl Order {
    pub(super) fn check(&mut self, w: &Look<'_>, met: &[Met], bounds: &Bounds) -> Result<(), String> {
        self.round += 1;
        self.survey(w, met);
        self.check_served(w, bounds)?;
        for queue in met.chunk_by(|a, b| a.cpu == b.cpu) {
            self.check_urgent(w, queue, bounds)?;
            self.check_idle(w, queue, bounds)?;
        }
        Ok(())
    }

    fn survey(&mut self, w: &Look<'_>, met: &[Met]) {
        let n = w.running.len();
        self.runs.clear();
        self.runs.resize(n, None);
        self.best.clear();
        self.best.resize(n, None);
        for m in met {
            if m.place == Place::Throttled {
                continue;
            }
            let u = Some(w.kernel.sched.urgency(m.thread));
            if m.place == Place::Running {
                self.runs[m.cpu.index()] = u;
            }
            let best = &mut self.best[m.cpu.index()];
            *best = (*best).max(u);
        }
    }

    /// A CPU that has work does not sleep for longer than a kick takes.
    fn check_served(&mut self, w: &Look<'_>, bounds: &Bounds) -> Result<(), String> {
        self.unserved.resize(w.away.len(), None);
        for (i, &served) in w.away.iter().enumerate() {
            let slot = &mut self.unserved[i];
            let Some(served) = served.filter(|_| self.best[i].is_some()) else {
                *slot = None;
                continue;
            };
            let (since, _) = *slot.insert(slot.filter(|s| s.1 == served).unwrap_or((w.now, served)));
            if w.now.since(since) > bounds.settle {
                return Err(format!("cpu{i} has work since {since:?}, but nobody serves it"));
            }
        }
        Ok(())
    }

    fn check_urgent(&mut self, w: &Look<'_>, queue: &[Met], bounds: &Bounds) -> Result<(), String> {
        let waits = |m: &&Met| matches!(m.place, Place::Level(_) | Place::Deadline);
        let urgency = |m: &&Met| w.kernel.sched.urgency(m.thread);
        let first_of_best = |a: &&Met, b: &&Met| urgency(a).cmp(&urgency(b)).then(std::cmp::Ordering::Greater);
        let Some(first) = queue.iter().filter(waits).max_by(first_of_best) else { return Ok(()) };
        let u = Some(urgency(&first));
        let here = self.runs[first.cpu.index()];
        let unjust_here = here < u;
        let elsewhere = self.blocked_elsewhere(w, queue.iter().filter(waits));
        if unjust_here {
            self.pend(w, first, format!("while {here:?} runs there"), bounds)?;
        }
        if let Some((h, c)) = elsewhere {
            self.pend(w, &h, format!("while {c:?} has nothing above {:?}", self.best[c.index()]), bounds)?;
        }
        Ok(())
    }

    /// A pushable head that could run on another CPU. Of equals any one may be the head: only if all
    /// of them could is anything wrong.
    fn blocked_elsewhere<'a>(
        &self,
        w: &Look<'_>,
        waiting: impl Iterator<Item = &'a Met> + Clone,
    ) -> Option<(Met, CpuId)> {
        let s = &w.kernel.sched;
        let movable = waiting.filter(|m| s.affinity(m.thread).count() > 1);
        let best = movable.clone().map(|m| s.urgency(m.thread)).max()?;
        let mut found = None;
        for m in movable.filter(|m| s.urgency(m.thread) == best) {
            let mask = s.affinity(m.thread);
            let cpu = mask.iter().find(|c| *c != m.cpu && self.best[c.index()] < Some(best))?;
            found = found.or(Some((*m, cpu)));
        }
        found
    }

    fn pend(&mut self, w: &Look<'_>, m: &Met, what: String, bounds: &Bounds) -> Result<(), String> {
        let since = note(&mut self.urgent, w, m, self.round);
        let by_server = w.now > SERVER_FIRST;
        let bound = if by_server { bounds.settle + SERVER_SHARE } else { bounds.settle };
        if w.now.since(since) > bound {
            let u = w.kernel.sched.urgency(m.thread);
            return Err(format!("{:?} ({u:?}) waits on {:?} since {since:?}, {what}", m.thread, m.cpu));
        }
        Ok(())
    }

    fn check_idle(&mut self, w: &Look<'_>, queue: &[Met], bounds: &Bounds) -> Result<(), String> {
        if self.runs.iter().all(Option::is_some) {
            return Ok(());
        }
        for m in queue.iter().filter(|m| m.place == Place::Fair) {
            let mask = w.kernel.sched.affinity(m.thread);
            let Some(idle) = mask.iter().find(|c| self.runs[c.index()].is_none()) else { continue };
            let since = note(&mut self.idle, w, m, self.round);
            if w.now.since(since) > bounds.idle {
                return Err(format!("{:?} waits on {:?} since {since:?}, while {idle:?} is idle", m.thread, m.cpu));
            }
        }
        Ok(())
    }
}

/// Since when this has been going on, without a break and in one place.
fn note(list: &mut Vec<Option<Pending>>, w: &Look<'_>, m: &Met, round: u64) -> Nanos {
    let used = w.kernel.sched.runtime(m.thread, w.now);
    let ThreadIdx(i) = m.thread;
    if list.len() <= i as usize {
        list.resize(i as usize + 1, None);
    }
    let slot = &mut list[i as usize];
    let since = match slot {
        Some(p) if p.at == m.cpu && p.used == used && p.round + 1 >= round => p.since,
        _ => w.now,
    };
    *slot = Some(Pending { since, at: m.cpu, used, round });
    since
}
