//! The half of invariant 4 about fair threads: none waits for long while a CPU is idle on which it may run.
//!
//! Most threads may run everywhere: those wait unjustly while any CPU is idle, so that nothing needs to be done for them
//! when one becomes idle or busy. Only the others are judged then.

use super::picture::{Met, Picture, Queue};
use super::{Bounds, CpuBits, Look, bits};
use ids::{CpuId, Nanos, ThreadIdx};
use sched::Place;

/// A fair thread that waits.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    thread: ThreadIdx,
    /// The CPU time it has used: if that changes, it has made progress.
    used: Nanos,
    /// It may run on every CPU.
    anywhere: bool,
    /// Whether a CPU is idle on which it may run, if that is not every one.
    beside_idle: bool,
    /// Since when it waits here; if it may not run on every CPU, since when it does beside an idle one.
    since: Nanos,
}

#[derive(Debug)]
pub(super) struct Idle {
    /// CPUs that run nothing, and since when there are any.
    cpus: CpuBits,
    since: Option<Nanos>,
    has_changed: bool,
    all: CpuBits,
    /// By CPU.
    waiters: Vec<Vec<Waiter>>,
    /// CPUs on which threads wait that may not run everywhere.
    choosy: CpuBits,
    /// No limit is exceeded before.
    due: Nanos,
    old: Vec<Waiter>,
}

impl Idle {
    pub(super) fn new(cpus: usize) -> Idle {
        Idle {
            cpus: CpuBits::all(cpus),
            since: Some(Nanos::ZERO),
            has_changed: false,
            all: CpuBits::all(cpus),
            waiters: vec![Vec::new(); cpus],
            choosy: CpuBits::new(cpus),
            due: Nanos(u64::MAX),
            old: Vec::new(),
        }
    }

    /// Whether this CPU is idle now.
    pub(super) fn set(&mut self, cpu: CpuId, idle: bool) {
        self.has_changed |= self.cpus.contains(cpu) != idle;
        self.cpus.set(cpu, idle);
    }

    /// Finds who waits beside idle CPUs, after all of these are known.
    pub(super) fn judge(&mut self, w: &Look<'_>, picture: &Picture, changed: &CpuBits, bounds: &Bounds) {
        let has_changed = std::mem::take(&mut self.has_changed);
        if has_changed {
            if self.cpus.is_empty() {
                self.since = None;
            } else if self.since.is_none() {
                self.since = Some(w.now);
                self.due = self.due.min(w.now + bounds.idle);
            }
            for i in 0..self.waiters.len() {
                let cpu = CpuId(i as u16);
                if self.choosy.contains(cpu) && !changed.contains(cpu) {
                    self.judge_choosy(w, cpu, bounds);
                }
            }
        }
        for cpu in changed.iter() {
            self.judge_queue(w, &picture.queues[cpu.index()], cpu, bounds);
        }
    }

    fn judge_queue(&mut self, w: &Look<'_>, queue: &Queue, cpu: CpuId, bounds: &Bounds) {
        let mut waiters = std::mem::take(&mut self.waiters[cpu.index()]);
        let mut old = std::mem::take(&mut self.old);
        std::mem::swap(&mut waiters, &mut old);
        waiters.clear();
        let mut is_choosy = false;
        for (i, m) in queue.met.iter().filter(|m| m.place == Place::Fair).enumerate() {
            let used = w.kernel.sched.runtime(m.thread, w.now);
            let is_known = |o: &&Waiter| o.thread == m.thread && o.used == used;
            // Mostly it is where it was.
            let known = old.get(i).filter(is_known).or_else(|| old.iter().find(is_known));
            let waiter = self.waiter(w, m, used, known);
            is_choosy |= !waiter.anywhere;
            if waiter.anywhere || waiter.beside_idle {
                self.due = self.due.min(waiter.since + bounds.idle);
            }
            waiters.push(waiter);
        }
        self.choosy.set(cpu, is_choosy);
        self.waiters[cpu.index()] = waiters;
        self.old = old;
    }

    fn waiter(&self, w: &Look<'_>, m: &Met, used: Nanos, known: Option<&Waiter>) -> Waiter {
        let words = || w.kernel.sched.affinity_words(m.thread);
        let anywhere = words().eq(self.all.words());
        let beside_idle = !anywhere && words().zip(self.cpus.words()).any(|(a, b)| a & b != 0);
        let since = match known {
            Some(k) if k.anywhere && anywhere => Some(k.since),
            // It goes on if there was an idle CPU for it before the mask was changed, too.
            Some(k) => self.unjustly_since(k),
            None => None,
        };
        Waiter { thread: m.thread, used, anywhere, beside_idle, since: since.unwrap_or(w.now) }
    }

    fn judge_choosy(&mut self, w: &Look<'_>, cpu: CpuId, bounds: &Bounds) {
        for waiter in self.waiters[cpu.index()].iter_mut().filter(|waiter| !waiter.anywhere) {
            let mut words = w.kernel.sched.affinity_words(waiter.thread).zip(self.cpus.words());
            let is = words.any(|(a, b)| a & b != 0);
            if is && !waiter.beside_idle {
                waiter.since = w.now;
                self.due = self.due.min(w.now + bounds.idle);
            }
            waiter.beside_idle = is;
        }
    }

    /// Since when it has been waiting while there was an idle CPU for it.
    fn unjustly_since(&self, waiter: &Waiter) -> Option<Nanos> {
        if waiter.anywhere {
            self.since.map(|idle| idle.max(waiter.since))
        } else {
            waiter.beside_idle.then_some(waiter.since)
        }
    }

    /// The limit has become shorter.
    pub(super) fn tighten(&mut self) {
        self.due = Nanos::ZERO;
    }

    pub(super) fn check(&mut self, w: &Look<'_>, bounds: &Bounds) -> Result<(), String> {
        if w.now <= self.due {
            return Ok(());
        }
        self.due = Nanos(u64::MAX);
        for (i, waiters) in self.waiters.iter().enumerate() {
            for waiter in waiters {
                let Some(since) = self.unjustly_since(waiter) else { continue };
                if w.now.since(since) > bounds.idle {
                    let (t, cpu) = (waiter.thread, CpuId(i as u16));
                    let idle = bits::cpus_of(w.kernel.sched.affinity_words(t)).find(|c| self.cpus.contains(*c));
                    return Err(format!("{t:?} waits on {cpu:?} since {since:?}, while {idle:?} is idle"));
                }
                self.due = self.due.min(since + bounds.idle);
            }
        }
        Ok(())
    }

    /// Whether judging everything anew finds what is known.
    pub(super) fn compare(&self, w: &Look<'_>, picture: &Picture) -> Result<(), String> {
        let mut idle = CpuBits::new(picture.queues.len());
        for (i, (queue, known)) in picture.queues.iter().zip(&self.waiters).enumerate() {
            let cpu = CpuId(i as u16);
            idle.set(cpu, Queue::running(&queue.met).is_none());
            let fair = queue.met.iter().filter(|m| m.place == Place::Fair);
            let is_same = |(m, known): (&Met, &Waiter)| {
                let fresh = self.waiter(w, m, w.kernel.sched.runtime(m.thread, w.now), None);
                let facts = |of: &Waiter| (of.thread, of.used, of.anywhere, of.beside_idle);
                facts(&fresh) == facts(known)
            };
            if fair.clone().count() != known.len() || !fair.zip(known).all(is_same) {
                return Err(format!("what waits on {cpu:?} has changed unnoticed: {:?}, was {known:?}", queue.met));
            }
        }
        if idle != self.cpus || self.since.is_some() == idle.is_empty() {
            return Err(format!("the idle CPUs have changed unnoticed: {idle:?}, were {:?}", self.cpus));
        }
        Ok(())
    }
}
