//! Who runs and waits where: the run queues as the audit met them, kept up to date queue by queue.
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

    /// Looks again at the queues that have changed.
    pub(super) fn refresh(&mut self, w: &Look<'_>, changed: &CpuBits) -> Result<(), String> {
        for cpu in changed.iter() {
            let queue = &mut self.queues[cpu.index()];
            queue.met.iter().for_each(|m| self.at[m.thread.index()] = CpuId::NONE);
            std::mem::swap(&mut queue.met, &mut queue.before);
            audit(w, cpu, &mut queue.met)?;
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
        changed.iter().try_for_each(|cpu| self.check_places(w, cpu))
    }

    /// Invariant 1 as far as the audit does not know it: the machine and the scheduler agree.
    fn check_places(&self, w: &Look<'_>, cpu: CpuId) -> Result<(), String> {
        let (chosen, on) = (w.kernel.sched.current(cpu), w.cpus[cpu.index()].thread);
        if chosen != on {
            return Err(format!("{cpu:?} runs {on:?}, but the scheduler has {chosen:?} there"));
        }
        for m in &self.queues[cpu.index()].met {
            if m.place != Place::Running && !may_run(w, m.thread, cpu) {
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
    s.audit_cpu(cpu, |thread, place| met.push(Met { cpu, thread, place, urgency: s.urgency(thread) })).map_err(damaged)
}

fn damaged(d: Damage) -> String {
    format!("the scheduler's state on {:?}: {}", d.cpu, d.what)
}

/// Whether its mask has this CPU.
pub(super) fn may_run(w: &Look<'_>, t: ThreadIdx, cpu: CpuId) -> bool {
    let word = w.kernel.sched.affinity_words(t).nth(cpu.index() / 64);
    word.is_some_and(|word| word >> (cpu.index() % 64) & 1 != 0)
}

/// Whether it may run on more than one CPU.
pub(super) fn is_movable(w: &Look<'_>, t: ThreadIdx) -> bool {
    w.kernel.sched.affinity_words(t).map(u64::count_ones).sum::<u32>() > 1
}
