//! What must hold.

use super::{Checked, Life, Machine, Violation};
use entresol_sched::{Place, Urgency};
use ids::{CpuId, ThreadIdx};
use std::collections::BTreeMap;

type Order = Vec<(CpuId, ThreadIdx, Place)>;

impl Machine {
    /// What holds after every single event.
    pub fn check_always(&mut self) -> Checked {
        let mut met: Order = Vec::new();
        self.s.audit(|cpu, t, place| met.push((cpu, t, place)))?;
        self.check_places(&met)?;
        self.check_order(&met)?;
        self.order = met;
        // One that was moved while it ran shows it only when it waits.
        let threads = &self.threads;
        self.reordered.retain(|t| matches!(threads[t.index()].life, Life::Running(_)));
        Ok(())
    }

    /// Every thread is running, queued or blocked, once, and as the model says.
    fn check_places(&self, met: &Order) -> Checked {
        for (i, v) in self.threads.iter().enumerate() {
            let places: Vec<_> = met.iter().filter(|(_, t, _)| t.index() == i).collect();
            let fits = match (v.life, places.as_slice()) {
                (Life::Running(cpu), [(c, _, Place::Running)]) => cpu == *c,
                (Life::Ready, [(_, _, place)]) => *place != Place::Running,
                (Life::Blocked | Life::Dead, []) => true,
                _ => false,
            };
            if !fits {
                return Err(Violation(format!("t{i} is {:?} but was met at {places:?}", v.life)));
            }
        }
        for (i, c) in self.cpus.iter().enumerate() {
            let cpu = CpuId(i as u16);
            if self.s.current(cpu) != c.current {
                return Err(Violation(format!("{cpu:?} runs {:?}, not {:?}", self.s.current(cpu), c.current)));
            }
            let outside = c.current.filter(|t| !self.threads[t.index()].mask.contains(cpu));
            if let Some(t) = outside.filter(|_| !self.s.need_resched(cpu)) {
                return Err(Violation(format!("{t:?} runs on {cpu:?} outside its mask")));
            }
        }
        Ok(())
    }

    /// Real-time threads of one level on one CPU keep their order; who comes goes behind them, unless it was
    /// moved on purpose.
    fn check_order(&self, met: &Order) -> Checked {
        let levels = |order: &Order| {
            let mut by_level = BTreeMap::<(CpuId, u8), Vec<ThreadIdx>>::new();
            for (cpu, t, place) in order {
                if let Place::Level(l) = place {
                    by_level.entry((*cpu, *l)).or_default().push(*t);
                }
            }
            by_level
        };
        let (before, after) = (levels(&self.order), levels(met));
        for (&(cpu, l), new) in &after {
            if let Some(old) = before.get(&(cpu, l)) {
                let kept = |t: &&ThreadIdx| !self.reordered.contains(t);
                let old_kept: Vec<_> = old.iter().filter(kept).filter(|t| new.contains(t)).collect();
                let new_kept: Vec<_> = new.iter().filter(kept).filter(|t| old.contains(t)).collect();
                if old_kept != new_kept {
                    return Err(Violation(format!("{cpu:?} level {l}: {old_kept:?} became {new_kept:?}")));
                }
                let ran = |t: &ThreadIdx| self.order.contains(&(cpu, *t, Place::Running));
                // One that ran here comes back to the head, everybody else to the tail, but a pinned one goes before a
                // running equal that could go elsewhere (`check_preempt_equal_prio`).
                let pinned = |t: &ThreadIdx| self.threads[t.index()].mask.count() == 1 || self.came_pinned.contains(t);
                let first_new =
                    new.iter().position(|t| !old.contains(t) && !self.reordered.contains(t) && !ran(t) && !pinned(t));
                let last_old = new.iter().rposition(|t| new_kept.contains(&t));
                if first_new.zip(last_old).is_some_and(|(n, o)| n < o) {
                    return Err(Violation(format!("{cpu:?} level {l}: a newcomer is not last in {new:?}")));
                }
                let back = new.iter().position(|t| !old.contains(t) && !self.reordered.contains(t) && ran(t));
                let ahead = new.iter().position(|t| new_kept.contains(&t) && !pinned(t));
                if back.zip(ahead).is_some_and(|(b, a)| a < b) {
                    return Err(Violation(format!(
                        "{cpu:?} level {l}: the preempted thread lost its place in {new:?}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// What holds when all kicks have been handled: no waiting head could preempt anywhere.
    pub fn check_settled(&mut self) -> Checked {
        let mut met: Order = Vec::new();
        self.s.audit(|cpu, t, place| met.push((cpu, t, place)))?;
        for cpu in self.ids() {
            let waiting = met.iter().filter(|(c, _, p)| *c == cpu && !matches!(p, Place::Running | Place::Throttled));
            let mut urgent: Vec<ThreadIdx> = waiting.map(|(_, t, _)| *t).collect();
            // Stable: threads of equal urgency stay in queue order.
            urgent.sort_by_key(|t| std::cmp::Reverse(self.s.urgency(*t)));
            self.check_local(cpu, urgent.first().copied())?;
            self.check_heads(&urgent)?;
        }
        Ok(())
    }

    fn running_urgency(&self, cpu: CpuId) -> Option<Urgency> {
        self.cpus[cpu.index()].current.map(|t| self.s.urgency(t))
    }

    fn check_local(&self, cpu: CpuId, best: Option<ThreadIdx>) -> Checked {
        let Some(t) = best.filter(|_| !self.cpus[cpu.index()].absent) else { return Ok(()) };
        if self.running_urgency(cpu).is_none_or(|r| r < self.s.urgency(t)) {
            let running = self.cpus[cpu.index()].current;
            return Err(Violation(format!("{t:?} waits on {cpu:?}, which runs {running:?}")));
        }
        Ok(())
    }

    /// The head of the pushable threads is one of the most urgent movable ones; which of several equals is not
    /// visible from outside, so it is wrong if all of them could run elsewhere.
    fn check_heads(&self, urgent: &[ThreadIdx]) -> Checked {
        let mut movable = urgent.iter().copied().filter(|t| self.threads[t.index()].mask.count() > 1);
        let Some(first) = movable.next().filter(|&t| self.s.urgency(t) > Urgency::Fair) else { return Ok(()) };
        let Some(lower) = self.lower_cpu(first) else { return Ok(()) };
        let mut equals = movable.take_while(|&t| self.s.urgency(t) == self.s.urgency(first));
        if equals.all(|t| self.lower_cpu(t).is_some()) {
            let (at, running) = (self.s.cpu_of(first), self.cpus[lower.index()].current);
            return Err(Violation(format!("{first:?} waits on {at:?} though {lower:?} runs {running:?}")));
        }
        Ok(())
    }

    /// A present CPU that runs something less urgent than `t`, and where `t` may run: while as many CPUs as run at the same
    /// time have urgent threads, one of those.
    fn lower_cpu(&self, t: ThreadIdx) -> Option<CpuId> {
        let is_urgent = |c: &CpuId| self.running_urgency(*c).is_some_and(|r| r > Urgency::Fair);
        let crowded = self.at_once != 0 && self.ids().filter(is_urgent).count() >= self.at_once;
        let less = |c: &CpuId| self.running_urgency(*c).is_none_or(|r| r < self.s.urgency(t));
        let present = self.threads[t.index()].mask.iter().filter(|c| !self.cpus[c.index()].absent);
        present.filter(|c| !crowded || is_urgent(c)).find(less)
    }

    /// With every idle CPU looking for work, nobody waits longer than the delay who could run there.
    pub fn check_idle(&mut self, delay: u64) -> Checked {
        let met = {
            let mut met: Order = Vec::new();
            self.s.audit(|cpu, t, place| met.push((cpu, t, place)))?;
            met
        };
        let late = met.iter().filter(|(_, t, p)| *p == Place::Fair && self.now - self.threads[t.index()].since > delay);
        for (at, t, _) in late {
            let mask = &self.threads[t.index()].mask;
            let idle = mask.iter().find(|c| {
                let c = &self.cpus[c.index()];
                c.current.is_none() && !c.absent
            });
            if let Some(idle) = idle {
                return Err(Violation(format!("{t:?} waits on {at:?} though {idle:?} is idle")));
            }
        }
        Ok(())
    }

    /// Everything that can run does, in the end: runs until each thread that was ready has had a CPU.
    pub fn check_progress(&mut self) -> Checked {
        let ready = |m: &Machine| -> Vec<usize> {
            (0..m.threads.len()).filter(|&i| m.threads[i].life == Life::Ready).collect()
        };
        for i in 0..40_000 {
            if ready(self).is_empty() {
                return Ok(());
            }
            self.now += 50_000;
            for cpu in self.ids() {
                if self.cpus[cpu.index()].absent {
                    continue;
                }
                self.tick(cpu);
                self.look(cpu);
                // A thread that has run for a while waits, so that the next one gets its turn.
                if let Some(c) = self.cpus[cpu.index()].current.filter(|_| i % 4 == 3) {
                    self.s.prepare_block(c);
                    self.schedule(cpu, entresol_sched::Prev::Block);
                }
            }
            if !self.settle() {
                return Err(Violation("requests without end".into()));
            }
        }
        let left: Vec<_> = ready(self).into_iter().filter(|&i| !self.on_absent(i)).collect();
        if left.is_empty() { Ok(()) } else { Err(Violation(format!("threads {left:?} never ran"))) }
    }

    fn on_absent(&self, i: usize) -> bool {
        self.threads[i].mask.iter().all(|c| self.cpus[c.index()].absent)
    }
}
