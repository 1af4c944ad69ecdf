//! Checks the scheduler's whole state for consistency, for tests and simulators.

use crate::Scheduler;
use crate::cpu::Idle;
use crate::entity::{Class, Entity, ON_RQ};
use crate::queue::Held;
use crate::rank::Rank;
use ids::{CpuId, ThreadIdx};
use sync::atomic::Ordering;

/// Where the audit met a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The thread has the CPU.
    Running,
    /// The thread waits in the real-time queue at this level (100 − priority; 0 is the stop class).
    Level(u8),
    /// The thread waits in the fair queue.
    Fair,
    /// The thread waits in the deadline queue.
    Deadline,
    /// The thread waits for a new budget.
    Throttled,
}

/// An inconsistency that an audit found, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The CPU whose queue is damaged.
    pub cpu: CpuId,
    /// The invariant that does not hold.
    pub what: &'static str,
}

impl Scheduler {
    /// Checks the structure of every run queue, and reports each running or queued thread to `meet`, each queue in its
    /// order. Takes one lock at a time: complete only while nothing else schedules.
    pub fn audit(&self, mut meet: impl FnMut(CpuId, ThreadIdx, Place)) -> Result<(), Damage> {
        for cpu in (0..self.cpus.len()).map(|c| CpuId(c as u16)) {
            self.audit_cpu(cpu, |t, place| meet(cpu, t, place))?;
            self.audit_sets(cpu).map_err(|what| Damage { cpu, what })?;
        }
        Ok(())
    }

    /// Whether `cpu` is in those sets of all CPUs that it says, and in no other.
    fn audit_sets(&self, cpu: CpuId) -> Result<(), &'static str> {
        let (h, d) = (self.at(cpu).lock_to_read(), &self.domains);
        check(d.of(cpu).is_in_vector(cpu, h.rq.vector), "the priority vectors' sets")?;
        let expected = [Idle::Spinning, Idle::Parked].map(|idle| h.rq.idle == Some(idle));
        check([d.spinning.shows(cpu), d.parked.shows(cpu)] == expected, "the sets of idle CPUs")
    }

    /// [`Scheduler::audit`] of one CPU. What no CPU is said to have is not looked for in the priority vectors.
    pub fn audit_cpu(&self, cpu: CpuId, mut meet: impl FnMut(ThreadIdx, Place)) -> Result<(), Damage> {
        let h = self.at(cpu).lock_to_read();
        h.audit(&mut meet).map_err(|what| Damage { cpu, what })
    }
}

impl Held<'_> {
    fn audit(&self, meet: &mut impl FnMut(ThreadIdx, Place)) -> Result<(), &'static str> {
        let table = &self.s.table;
        let current = self.current();
        if let Some(e) = current {
            self.audit_thread(self.rq.current, e)?;
            meet(self.rq.current, Place::Running);
        }
        let mut load = current.filter(|e| e.is_fair()).map_or((0, 0), |e| self.rq.fair.audit_share(e));
        let mut counts = [0u32; 3];
        let mut broken = Ok(());
        let mut note = |t: ThreadIdx, e: &Entity, place: Place, count: &mut u32| {
            *count += 1;
            broken = broken.and(self.audit_thread(t, e));
            meet(t, place);
        };
        // Searches correct the bounds of what they pass: what is audited must stay as it is.
        self.rq.fair.visit(table, &mut |t| {
            let e = table.get(t);
            let (sum, weight) = self.rq.fair.audit_share(e);
            load = (load.0 + sum, load.1 + weight);
            note(t, e, Place::Fair, &mut counts[0]);
        });
        let _ = self.rq.rt.active.find(table, u32::MAX, |t, e| {
            if t != self.rq.current {
                note(t, e, Place::Level(e.level.get()), &mut counts[1]);
            }
            false
        });
        self.rq.deadline.for_each(table, |t, e| {
            let throttled = e.dl.throttled.get() != 0;
            let place = if throttled { Place::Throttled } else { Place::Deadline };
            let mut out = 0;
            note(t, e, place, if throttled { &mut out } else { &mut counts[2] });
        });
        broken?;
        let sound = self.rq.fair.audit_tree(table) && self.rq.deadline.audit(table);
        check(sound, "a tree's order or what is kept per subtree")?;
        check(load == self.rq.fair.audit_sums(), "the sums of the fair queue")?;
        check(counts[0] == self.rq.fair.waiting(), "the number of waiting fair threads")?;
        check(self.is_listed(counts[0]), "the list of queues with waiting threads")?;
        check(counts.iter().sum::<u32>() == self.cpu.seen.queued.get(), "the published number of waiting threads")?;
        self.audit_published(current)
    }

    /// Whether idle CPUs find this queue if they need to.
    fn is_listed(&self, fair_waiting: u32) -> bool {
        let d = &self.s.domains;
        !d.is_large() || fair_waiting == 0 || d.waiting.shows(self.id)
    }

    fn audit_thread(&self, t: ThreadIdx, e: &Entity) -> Result<(), &'static str> {
        check(e.home.load(Ordering::Relaxed) == u32::from(self.id.0) | ON_RQ, "a member's home")?;
        check(e.life.fits_member(t == self.rq.current), "a member's life")?;
        check(self.s.table.allows(t, e, self.id) || (t == self.rq.current && self.rq.exile), "a member's mask")
    }

    fn audit_published(&self, current: Option<&Entity>) -> Result<(), &'static str> {
        let (rq, seen, table) = (&self.rq, &self.cpu.seen, &self.s.table);
        check(seen.current.load(Ordering::Relaxed) == rq.current.0, "the published running thread")?;
        let mut pushable = 0;
        let _ = rq.rt.pushable.find(table, u32::MAX, |_, _| {
            pushable += 1;
            false
        });
        let mut movable = 0;
        let _ = rq.rt.active.find(table, u32::MAX, |t, e| {
            movable += u32::from(t != rq.current && e.movable.get() != 0 && e.class() == Class::Rt);
            false
        });
        check(pushable == movable, "the pushable list")?;
        let first = rq.first_pushable(table).map_or(Rank::IDLE, |t| Rank::of(table.get(t)));
        check(seen.pushable.get() == first.0, "the published best pushable thread")?;
        check(rq.overloaded == (first < Rank::IDLE), "the overload flag")?;
        let best = rq.running_rank(current).min(rq.best_rank(table, current));
        check(rq.vector == best.vector(), "the priority vector")?;
        check(self.s.domains.of(self.id).is_counted_in_vector(self.id, rq.vector), "the priority vectors' sets")?;
        check(rq.overloaded == self.s.domains.of(self.id).is_overloaded(self.id), "the overload mask")
    }
}

fn check(holds: bool, what: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(what) }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::{Attr, Config, DeadlineParams, NoKick, Prev};
    use ids::{CpuMask, Nanos};
    use std::vec::Vec;

    const CPU: CpuId = CpuId(1);

    /// On CPU 1 thread 0 runs (FIFO 50); threads 1 (FIFO 30, movable), 2 (FIFO 30), 3, 4, 5 (fair) and 6 (out of budget)
    /// wait. On CPU 0 thread 9 (FIFO 60) runs, so that nobody goes there.
    fn scene() -> Scheduler {
        let s = Scheduler::new(&Config { cpus: 2, ..Config::default() }).unwrap();
        let all = CpuMask::first(2);
        let begin = |t: u32, attr, mask, cpu| {
            s.attach(ThreadIdx(t), &attr, mask).unwrap();
            s.wake_new(ThreadIdx(t), cpu, Nanos(1), &mut NoKick);
        };
        begin(9, Attr::fifo(60), CpuMask::only(CpuId(0)), CpuId(0));
        let _ = s.schedule(CpuId(0), Nanos(2), Prev::Preempted, &mut NoKick);
        begin(6, Attr::DEFAULT, all.clone(), CPU);
        let params = DeadlineParams { runtime: Nanos(2_000), deadline: Nanos(200_000), period: Nanos(0) };
        s.set_attr(ThreadIdx(6), &Attr::deadline(params), Nanos(3), &mut NoKick).unwrap();
        assert_eq!(s.schedule(CPU, Nanos(4), Prev::Preempted, &mut NoKick), Some(ThreadIdx(6)));
        assert_eq!(s.schedule(CPU, Nanos(5), Prev::Yield, &mut NoKick), None);
        begin(0, Attr::fifo(50), CpuMask::only(CPU), CPU);
        assert_eq!(s.schedule(CPU, Nanos(6), Prev::Preempted, &mut NoKick), Some(ThreadIdx(0)));
        begin(1, Attr::fifo(30), all, CPU);
        begin(2, Attr::fifo(30), CpuMask::only(CPU), CPU);
        (3..6).for_each(|t| begin(t, Attr::DEFAULT, CpuMask::only(CPU), CPU));
        s
    }

    #[test]
    fn everybody_is_met_in_order() {
        let s = scene();
        let mut met = Vec::new();
        s.audit(|cpu, t, place| met.push((cpu.0, t.0, place))).unwrap();
        let fair = [3, 4, 5].map(|t| (1, t, Place::Fair));
        let expected = [(0, 9, Place::Running), (1, 0, Place::Running)].into_iter().chain(fair).chain([
            (1, 1, Place::Level(70)),
            (1, 2, Place::Level(70)),
            (1, 6, Place::Throttled),
        ]);
        assert_eq!(met, expected.collect::<Vec<_>>());
    }

    /// One fault each, and what the audit says of it.
    #[test]
    fn every_damage_is_named() {
        type Fault = fn(&mut Held<'_>);
        fn e<'a>(h: &Held<'a>, t: u32) -> &'a Entity {
            h.s.table.get(ThreadIdx(t))
        }
        let faults: [(&str, Fault); 22] = [
            ("a member's home", |h| e(h, 0).set_home(CPU, false)),
            ("a member's home", |h| e(h, 3).set_home(CpuId(0), true)),
            ("a member's home", |h| e(h, 1).set_home(CpuId(0), true)),
            ("a member's home", |h| e(h, 6).set_home(CpuId(0), true)),
            ("a member's life", |h| e(h, 2).life.prepare()),
            ("a member's life", |h| e(h, 0).life.block()),
            ("a member's mask", |h| e(h, 4).mask.set(1)),
            ("a member's mask", |h| e(h, 0).mask.set(1)),
            ("a tree's order or what is kept per subtree", |h| e(h, 4).key.set(i64::MAX)),
            ("a tree's order or what is kept per subtree", |h| e(h, 6).vruntime.set(-1)),
            ("a tree's order or what is kept per subtree", |h| e(h, 4).mask.set(3)),
            ("the sums of the fair queue", |h| e(h, 5).weight.set(1)),
            ("the published number of waiting threads", |h| h.cpu.seen.queued.set(4)),
            ("the published running thread", |h| h.cpu.seen.current.store(9, Ordering::Relaxed)),
            ("the pushable list", |h| h.rq.rt.take_from_pushable(&h.s.table, ThreadIdx(1))),
            ("the pushable list", |h| e(h, 2).movable.set(1)),
            ("the published best pushable thread", |h| h.cpu.seen.pushable.set(7)),
            ("the overload flag", |h| h.rq.overloaded = false),
            ("the priority vector", |h| h.rq.vector = 30),
            ("the priority vectors' sets", |h| h.s.domains.of(CPU).set_priority(CPU, 0, 20)),
            ("the priority vectors' sets", |h| h.s.domains.of(CPU).set_priority(CPU, 50, 20)),
            ("the overload mask", |h| h.s.domains.of(CPU).clear_overload(CPU)),
        ];
        for (what, fault) in faults {
            let s = scene();
            fault(&mut s.lock(CPU));
            assert_eq!(s.audit(|_, _, _| ()), Err(Damage { cpu: CPU, what }));
        }
    }

    #[test]
    fn a_large_machine_s_queue_is_listed_while_fair_threads_wait() {
        let s = Scheduler::new(&Config { cpus: 130, ..Config::default() }).unwrap();
        s.attach(ThreadIdx(0), &Attr::DEFAULT, CpuMask::only(CPU)).unwrap();
        s.wake_new(ThreadIdx(0), CPU, Nanos(1), &mut NoKick);
        assert_eq!(s.audit(|_, _, _| ()), Ok(()));
        s.domains.waiting.remove(CPU);
        let damage = Damage { cpu: CPU, what: "the list of queues with waiting threads" };
        assert_eq!(s.audit(|_, _, _| ()), Err(damage));
    }

    /// The set of idle CPUs that a CPU says it is in.
    #[test]
    fn an_idle_cpu_is_in_one_set() {
        let damaged = |change: fn(&Scheduler)| {
            let s = Scheduler::new(&Config { cpus: 130, ..Config::default() }).unwrap();
            change(&s);
            s.audit(|_, _, _| ()).map_err(|d| (d.cpu.0, d.what))
        };
        assert_eq!(damaged(|_| ()), Ok(()));
        let wrong = Err((1, "the sets of idle CPUs"));
        assert_eq!(damaged(|s| s.domains.spinning.remove(CPU)), wrong);
        assert_eq!(damaged(|s| s.domains.parked.insert(CPU)), wrong);
        assert_eq!(damaged(|s| s.lock(CPU).rq.idle = None), wrong);
    }

    /// A thread that runs outside its mask has been asked to go, and one that runs may be about to wait.
    #[test]
    fn what_is_on_its_way_is_whole() {
        let s = scene();
        s.set_affinity(ThreadIdx(0), CpuMask::only(CpuId(0)), Nanos(7), &mut NoKick).unwrap();
        s.prepare_block(ThreadIdx(0));
        assert_eq!(s.audit(|_, _, _| ()), Ok(()));
    }
}
