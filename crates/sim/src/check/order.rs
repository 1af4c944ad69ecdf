//! Invariants 2 and 4: urgency over all CPUs, and no idling beside waiting threads.
//!
//! The rule for real-time and deadline threads, as push and pull promise it:
//! * the most urgent thread that waits on a CPU does not wait for a less urgent one there;
//! * the *pushable head* of a CPU (its most urgent waiting thread that may run elsewhere) does not
//!   wait while some allowed CPU runs, and has waiting, only less urgent ones. Threads behind
//!   that head may wait (the head-only rule).
//!
//! A CPU with work of any class does not sleep. All may be violated briefly, while kicks are in flight.
//!
//! A CPU is judged anew when its queue changes, and when what runs elsewhere changes in a way that can matter for it.
//! Between two judgements only time passes: everybody who waits unjustly is kept with the time since when, and no limit
//! is exceeded before [`Order::due`].

use super::picture::{Met, Picture, Queue};
use super::{Bounds, CpuBits, Look, bits, idle};
use crate::world::Mode;
use idle::Idle;
use ids::{CpuId, Nanos, ThreadIdx};
use sched::{Place, Urgency};

/// How long fair threads may have the CPU although a real-time thread waits: the fair
/// server's share, which it takes at the end of its period.
const SERVER_SHARE: Nanos = Nanos::from_millis(52);
const SERVER_FIRST: Nanos = Nanos::from_millis(900);

/// A thread that waits unjustly, in one place and without a break.
#[derive(Clone, Copy, Debug)]
struct Pending {
    thread: ThreadIdx,
    since: Nanos,
    /// The CPU time it has used: if that changes, it has made progress.
    used: Nanos,
}

/// The state of one CPU, as judged last.
#[derive(Clone, Debug, Default)]
struct State {
    /// How urgent what runs there is.
    runs: Option<Urgency>,
    /// How urgent the most urgent waiting thread is that may run elsewhere.
    head: Option<Urgency>,
    /// The thread that waits behind a less urgent one.
    here: Option<Pending>,
    /// The thread that could run on another CPU, which has nothing as urgent.
    elsewhere: Option<Pending>,
    /// It has threads but no carrier: since when, and how often it had been served before.
    unserved: Option<(Nanos, u32)>,
}

#[derive(Debug)]
pub(super) struct Order {
    states: Vec<State>,
    /// By CPU: how urgent the best that runs or waits is.
    best: Vec<Option<Urgency>>,
    /// How urgent at least every CPU's best is; up to date while there are pushable heads.
    least: Option<Urgency>,
    is_least_old: bool,
    /// CPUs that have a pushable head.
    heads: CpuBits,
    idle: Idle,
    /// No limit is exceeded before.
    due: Nanos,
}

impl Order {
    pub(super) fn new(cpus: usize) -> Order {
        Order {
            states: vec![State::default(); cpus],
            best: vec![None; cpus],
            least: None,
            is_least_old: false,
            heads: CpuBits::new(cpus),
            idle: Idle::new(cpus),
            due: Nanos(u64::MAX),
        }
    }

    /// Limits have become shorter: some may be exceeded earlier than was known.
    pub(super) fn tighten(&mut self) {
        self.due = Nanos::ZERO;
        self.idle.tighten();
    }

    pub(super) fn check(
        &mut self,
        w: &Look<'_>,
        picture: &Picture,
        touched: &CpuBits,
        changed: &CpuBits,
        bounds: &Bounds,
    ) -> Result<(), String> {
        let mut shifted = false;
        for cpu in changed.iter() {
            let (state, best) = survey(&picture.queues[cpu.index()]);
            shifted |= best != std::mem::replace(&mut self.best[cpu.index()], best);
            self.heads.set(cpu, state.head.is_some());
            let old = &mut self.states[cpu.index()];
            (old.runs, old.head) = (state.runs, state.head);
            self.idle.set(cpu, state.runs.is_none());
        }
        self.is_least_old |= shifted;
        if self.is_least_old && !self.heads.is_empty() {
            self.least = self.best.iter().copied().min().flatten();
            self.is_least_old = false;
        }
        touched.iter().for_each(|cpu| self.judge_service(w, cpu, bounds));
        changed.iter().for_each(|cpu| self.judge(w, &picture.queues[cpu.index()], cpu, bounds));
        if shifted && !self.heads.is_empty() {
            let heads = std::mem::replace(&mut self.heads, CpuBits::new(0));
            let others = heads.iter().filter(|cpu| !changed.contains(*cpu));
            others.for_each(|cpu| self.judge(w, &picture.queues[cpu.index()], cpu, bounds));
            self.heads = heads;
        }
        self.idle.judge(w, picture, changed, bounds);
        if w.now > self.due {
            self.check_due(w, picture, bounds)?;
        }
        self.idle.check(w, bounds)
    }

    /// A CPU that has work does not sleep for longer than a kick takes.
    fn judge_service(&mut self, w: &Look<'_>, cpu: CpuId, bounds: &Bounds) {
        let served = is_unserved(w, cpu).filter(|_| self.best[cpu.index()].is_some());
        let state = &mut self.states[cpu.index()];
        let before = state.unserved;
        state.unserved = served.map(|served| before.filter(|b| b.1 == served).unwrap_or((w.now, served)));
        if let Some((since, _)) = state.unserved {
            self.due = self.due.min(since + bounds.settle);
        }
    }

    fn judge(&mut self, w: &Look<'_>, queue: &Queue, cpu: CpuId, bounds: &Bounds) {
        let here = self.blocked_here(queue, cpu);
        let elsewhere = self.blocked_elsewhere(w, queue, cpu).map(|(m, _)| m);
        let state = &mut self.states[cpu.index()];
        if here.is_none() && elsewhere.is_none() {
            (state.here, state.elsewhere) = (None, None);
            return;
        }
        let old = [state.here, state.elsewhere];
        let pend = |m: &Met| {
            let used = w.kernel.sched.runtime(m.thread, w.now);
            let known = old.iter().flatten().find(|p| p.thread == m.thread && p.used == used);
            Pending { thread: m.thread, since: known.map_or(w.now, |p| p.since), used }
        };
        (state.here, state.elsewhere) = (here.map(pend), elsewhere.map(pend));
        for p in [state.here, state.elsewhere].into_iter().flatten() {
            self.due = self.due.min(p.since + bounds.settle);
        }
    }

    /// The most urgent waiting thread, if something less urgent runs.
    fn blocked_here<'a>(&self, queue: &'a Queue, cpu: CpuId) -> Option<&'a Met> {
        let runs = self.states[cpu.index()].runs;
        let mut first: Option<&Met> = None;
        for m in waiting(queue) {
            if first.is_none_or(|f| f.urgency < m.urgency) {
                first = Some(m);
            }
        }
        first.filter(|f| runs < Some(f.urgency))
    }

    /// A pushable head that could run on another CPU, and that CPU. Of equals any one may be the head: only if all of
    /// them could is anything wrong.
    fn blocked_elsewhere<'a>(&self, w: &Look<'_>, queue: &'a Queue, cpu: CpuId) -> Option<(&'a Met, CpuId)> {
        let head = self.states[cpu.index()].head.filter(|head| self.least < Some(*head))?;
        let mut found = None;
        for m in waiting(queue).filter(|m| m.urgency == head && m.is_movable) {
            let allowed = bits::cpus_of(w.kernel.sched.affinity_words(m.thread));
            let mut lower = allowed.filter(|c| *c != cpu && self.best[c.index()] < Some(head));
            let to = lower.next()?;
            found = found.or(Some((m, to)));
        }
        found
    }

    /// Says who has waited for too long, and when the next one will have.
    fn check_due(&mut self, w: &Look<'_>, picture: &Picture, bounds: &Bounds) -> Result<(), String> {
        let by_server = w.now > SERVER_FIRST;
        let bound = if by_server { bounds.settle + SERVER_SHARE } else { bounds.settle };
        self.due = Nanos(u64::MAX);
        for (i, state) in self.states.iter().enumerate() {
            if let Some((since, _)) = state.unserved {
                if w.now.since(since) > bounds.settle {
                    return Err(format!("cpu{i} has work since {since:?}, but nobody serves it"));
                }
                self.due = self.due.min(since + bounds.settle);
            }
            for (p, is_here) in [(state.here, true), (state.elsewhere, false)] {
                let Some(Pending { thread, since, .. }) = p else { continue };
                if w.now.since(since) > bound {
                    let (cpu, u) = (CpuId(i as u16), w.kernel.sched.urgency(thread));
                    let why = if is_here { None } else { self.blocked_elsewhere(w, &picture.queues[i], cpu) };
                    let why = match why {
                        Some((_, c)) => format!("{c:?} has nothing above {:?}", self.best[c.index()]),
                        None => format!("{:?} runs there", state.runs),
                    };
                    return Err(format!("{thread:?} ({u:?}) waits on {cpu:?} since {since:?}, while {why}"));
                }
                self.due = self.due.min(since + bound);
            }
        }
        Ok(())
    }

    /// Whether judging everything anew finds what is known.
    pub(super) fn compare(&self, w: &Look<'_>, picture: &Picture) -> Result<(), String> {
        for (i, (queue, state)) in picture.queues.iter().zip(&self.states).enumerate() {
            let cpu = CpuId(i as u16);
            let (fresh, best) = survey(queue);
            let threads = |p: [Option<Pending>; 2]| p.map(|p| p.map(|p| p.thread));
            let blocked = [self.blocked_here(queue, cpu), self.blocked_elsewhere(w, queue, cpu).map(|(m, _)| m)];
            let is_same = (fresh.runs, fresh.head, best) == (state.runs, state.head, self.best[i])
                && blocked.map(|m| m.map(|m| m.thread)) == threads([state.here, state.elsewhere])
                && is_unserved(w, cpu).filter(|_| best.is_some()) == state.unserved.map(|u| u.1);
            if !is_same {
                return Err(format!("{cpu:?} has changed unnoticed: {fresh:?}, best {best:?}, was {state:?}"));
            }
        }
        self.idle.compare(w, picture)
    }
}

/// Real-time and deadline threads that wait.
fn waiting(queue: &Queue) -> impl Iterator<Item = &Met> {
    queue.met.iter().filter(|m| matches!(m.place, Place::Level(_) | Place::Deadline))
}

/// The state of the queue's CPU, and the urgency of the best that runs or waits.
fn survey(queue: &Queue) -> (State, Option<Urgency>) {
    let mut best = None;
    let mut state = State::default();
    for m in queue.met.iter().filter(|m| m.place != Place::Throttled) {
        let u = Some(m.urgency);
        best = best.max(u);
        if m.place == Place::Running {
            state.runs = u;
        } else if m.place != Place::Fair && state.head < u && m.is_movable {
            state.head = u;
        }
    }
    (state, best)
}

/// If the carrier of the CPU sleeps or is away in the host: how often it was there so far.
fn is_unserved(w: &Look<'_>, cpu: CpuId) -> Option<u32> {
    let c = &w.cpus[cpu.index()];
    matches!(c.mode, Mode::Parked | Mode::Host(_)).then_some(c.generation)
}
