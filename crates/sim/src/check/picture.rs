//! A picture of all run queues, as the audit met them. It is kept up to date queue by queue.
//!
//! A queue that nobody has locked is as it was. [`Picture::compare`] makes sure of that with an audit of everything.

use super::{CpuBits, Look};
use ids::{CpuId, ThreadIdx};
use sched::{Damage, Place, Urgency};
use sync::atomic::Ordering::Relaxed;

/// A runnable thread, as the scheduler's audit met it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Met {
    pub cpu: CpuId,
    pub thread: ThreadIdx,
    pub place: Place,
    pub urgency: Urgency,
    /// It may run on more than one CPU.
    pub is_movable: bool,
    /// Tells its mask from others: the first word, and a hash of the rest.
    mask: (u64, u64),
}

impl Met {
    fn new(w: &Look<'_>, cpu: CpuId, thread: ThreadIdx, place: Place) -> Met {
        let s = &w.kernel.sched;
        let mut words = s.affinity_words(thread);
        let first = words.next().unwrap_or(0);
        let (mut count, mut rest) = (first.count_ones(), 0u64);
        for word in words {
            count += word.count_ones();
            rest = (rest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        Met { cpu, thread, place, urgency: s.urgency(thread), is_movable: count > 1, mask: (first, rest) }
    }
}

/// One CPU's running and waiting threads, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub met: Vec<Met>,
    /// Before the last change.
    pub before: Vec<Met>,
}

impl Queue {
    pub(super) fn running(met: &[Met]) -> Option<ThreadIdx> {
        met.first().filter(|m| m.place == Place::Running).map(|m| m.thread)
    }
}

#[derive(Debug)]
pub(super) struct Picture {
    pub queues: Vec<Queue>,
    /// By thread: the CPU where it is met, or none.
    at: Vec<CpuId>,
    /// Memory for an audit.
    fresh: Vec<Met>,
}

impl Picture {
    pub(super) fn new(cpus: usize) -> Picture {
        Picture { queues: (0..cpus).map(|_| Queue::default()).collect(), at: Vec::new(), fresh: Vec::new() }
    }

    /// Looks again at the queues that were locked; adds to `changed` those that are not as they were.
    pub(super) fn refresh(&mut self, w: &Look<'_>, locked: &CpuBits, changed: &mut CpuBits) -> Result<(), String> {
        for cpu in locked.iter() {
            audit(w, cpu, &mut self.fresh)?;
            let queue = &mut self.queues[cpu.index()];
            if queue.met != self.fresh {
                queue.met.iter().for_each(|m| self.at[m.thread.index()] = CpuId::NONE);
                std::mem::swap(&mut queue.before, &mut self.fresh);
                std::mem::swap(&mut queue.before, &mut queue.met);
                changed.insert(cpu);
            }
        }
        for cpu in changed.iter() {
            for m in &self.queues[cpu.index()].met {
                if self.at.len() <= m.thread.index() {
                    self.at.resize(m.thread.index() + 1, CpuId::NONE);
                }
                let at = std::mem::replace(&mut self.at[m.thread.index()], cpu);
                if at != CpuId::NONE {
                    return Err(format!("{:?} is in two places: {m:?} and on {at:?}", m.thread));
                }
            }
        }
        locked.iter().try_for_each(|cpu| self.check_places(w, cpu))
    }

    /// Invariant 1 as far as the audit does not know it: the members of a queue may be there.
    fn check_places(&self, w: &Look<'_>, cpu: CpuId) -> Result<(), String> {
        let (word, bit) = (cpu.index() / 64, cpu.index() % 64);
        for m in &self.queues[cpu.index()].met {
            let is_allowed = |word: u64| word >> bit & 1 != 0;
            if m.place != Place::Running && !w.kernel.sched.affinity_words(m.thread).nth(word).is_some_and(is_allowed) {
                return Err(format!("{m:?} is outside its mask"));
            }
            if w.kernel.thread(m.thread).tid.load(Relaxed) == 0 {
                return Err(format!("{m:?} is dead"));
            }
        }
        Ok(())
    }

    /// Whether everything is as the picture shows it.
    pub(super) fn compare(&mut self, w: &Look<'_>) -> Result<(), String> {
        w.kernel.sched.audit(|_, _, _| ()).map_err(damaged)?;
        for (i, queue) in self.queues.iter().enumerate() {
            let cpu = CpuId(i as u16);
            audit(w, cpu, &mut self.fresh)?;
            if self.fresh != queue.met {
                let (now, then) = (&self.fresh, &queue.met);
                return Err(format!("{cpu:?} has {now:?}, but nobody has changed its queue since it had {then:?}"));
            }
        }
        (0..self.queues.len()).try_for_each(|i| self.check_places(w, CpuId(i as u16)))
    }

    /// The CPU on which it runs or waits.
    pub(super) fn cpu_of(&self, t: ThreadIdx) -> Option<CpuId> {
        self.at.get(t.index()).copied().filter(|at| *at != CpuId::NONE)
    }

    pub(super) fn is_runnable(&self, t: ThreadIdx) -> bool {
        self.cpu_of(t).is_some()
    }

    pub(super) fn is_running(&self, t: ThreadIdx) -> bool {
        self.cpu_of(t).is_some_and(|cpu| Queue::running(&self.queues[cpu.index()].met) == Some(t))
    }
}

fn audit(w: &Look<'_>, cpu: CpuId, met: &mut Vec<Met>) -> Result<(), String> {
    let s = &w.kernel.sched;
    met.clear();
    s.audit_cpu(cpu, |thread, place| met.push(Met::new(w, cpu, thread, place))).map_err(damaged)
}

fn damaged(d: Damage) -> String {
    format!("the scheduler's state on {:?}: {}", d.cpu, d.what)
}
