//! Real-time and deadline threads go where they can run: pushed by the CPU where they
//! wait, pulled by a CPU whose priority drops (Rostedt 2007; `kernel/sched/rt.c`).
//!
//! Only the head of a CPU's pushable threads is ever pushed. If it fails, the less urgent ones
//! behind it are not tried, though their masks may be wider: the CPUs that could take
//! them will pull.

use crate::entity::{Class, Entity};
use crate::fair::Placement;
use crate::planted::Fault;
use crate::queue::Held;
use crate::rank::Rank;
use crate::{Kick, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};

/// No trap moves or looks at more threads than this.
const MOST: u32 = 64;
/// How often a push looks for another target when the first turned out taken.
const TRIES: u32 = 3;

/// What came of one attempt to push.
enum Push {
    /// It is there; whether that CPU must be kicked.
    Moved(bool),
    /// The world changed meanwhile: look again.
    Again,
    /// There is nothing to push, or it should run here.
    Stop,
}

impl Scheduler {
    /// Where a waking real-time or deadline thread goes: it stays on its last CPU unless what runs there
    /// cannot be preempted by it or, being urgent itself, should not be (`select_task_rq_rt`).
    ///
    /// Beyond Linux: where either of two fair threads could make way, the waker does. Its CPU needs no
    /// kick, and it is the one CPU of which we know that the host runs its carrier right now.
    pub(crate) fn select_urgent(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> Option<CpuId> {
        let last = e.cpu();
        let runs = |c: CpuId| Rank(self.cpus[c.index()].seen.running.get());
        let suits = self.suits(t, e, last);
        let mine = Rank::of(e);
        let running = runs(last);
        if suits && running == Rank::FAIR && self.suits(t, e, from) && runs(from) == Rank::FAIR {
            return Some(from);
        }
        let pinned = || self.cpus[last.index()].seen.running_pinned.get() != 0;
        if suits && (running >= Rank::FAIR || (running > mine && !pinned())) {
            return Some(last);
        }
        let found = self.find_lower(t, e, from).filter(|&c| runs(c) > mine);
        found.or(suits.then_some(last))
    }

    /// The CPU of lowest priority on which `t` could run, if that is lower than its own
    /// (`find_lowest_rq`): its last CPU, else this one, else any in turn. For a deadline thread, failing a CPU
    /// without any, the one with the latest deadline (`find_later_rq`).
    pub(crate) fn find_lower(&self, t: ThreadIdx, e: &Entity, this: CpuId) -> Option<CpuId> {
        if e.movable.get() == 0 || e.class() == Class::Stop {
            return None;
        }
        let last = e.cpu();
        let lowest = self.domain.find_lower(
            Rank::of(e).vector(),
            |i| if self.table.plants(Fault::PushAnywhere) { u64::MAX } else { self.table.mask_word(t, e, i) },
            |word| {
                let has = |c: CpuId| word(c.index() / 64) >> (c.index() % 64) & 1 != 0;
                let any = || self.domain.first(self.domain.turn(), word);
                // A waker without a CPU (a signal from outside) has none to offer.
                let mut near = [last, this].into_iter().filter(|c| c.index() < self.cpus.len());
                near.find(|&c| has(c)).or_else(any).unwrap_or(last)
            },
        );
        if lowest.is_some() || e.class() != Class::Deadline { lowest } else { self.find_later(t, e) }
    }

    fn find_later(&self, t: ThreadIdx, e: &Entity) -> Option<CpuId> {
        let start = self.domain.turn().index();
        let n = self.cpus.len();
        let best = |c: CpuId| Rank(self.cpus[c.index()].seen.best.get());
        let cpus = (0..n.min(MOST as usize)).map(|i| CpuId(((start + i) % n) as u16));
        cpus.filter(|&c| best(c) > Rank::of(e) && self.suits(t, e, c)).max_by_key(|&c| best(c))
    }

    /// Gives waiting threads of `cpu` to CPUs that run something less urgent.
    pub(crate) fn push(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let mut tries = 0;
        for _ in 0..MOST {
            if self.table.plants(Fault::SkipPush) {
                return;
            }
            let Some(target) = self.push_target(cpu, k) else { return };
            match self.push_to(cpu, target, now) {
                Push::Moved(kick) => {
                    tries = 0;
                    if kick {
                        k.kick(target);
                    }
                }
                Push::Again if tries < TRIES => tries += 1,
                Push::Again | Push::Stop => return,
            }
        }
    }

    /// Where the head of the pushable threads might go. If it should run here, sees to that instead.
    fn push_target(&self, cpu: CpuId, k: &mut impl Kick) -> Option<CpuId> {
        let h = self.lock(cpu);
        let t = h.rq.first_pushable(&self.table)?;
        let e = self.table.get(t);
        if !runs_here(&h, e) {
            return self.find_lower(t, e, cpu).filter(|&c| c != cpu);
        }
        let kick = h.request();
        drop(h);
        if kick {
            k.kick(cpu);
        }
        None
    }

    /// Moves the head of the pushable threads of `cpu` to `target`, if that is still right under both locks.
    fn push_to(&self, cpu: CpuId, target: CpuId, now: Nanos) -> Push {
        let (mut src, mut dst) = self.lock_two(cpu, target);
        let Some(t) = src.rq.first_pushable(&self.table) else { return Push::Stop };
        let e = self.table.get(t);
        if runs_here(&src, e) {
            return Push::Stop;
        }
        let better = Rank::of(e) < best_rank(&dst) && !dst.rq.absent;
        let allowed = self.table.allows(t, e, target) || self.table.plants(Fault::PushAnywhere);
        if !better || !allowed {
            return Push::Again;
        }
        src.rq.stats.pushes += 1;
        Push::Moved(move_urgent(&mut src, &mut dst, t, e, now))
    }

    /// Fetches the threads that should run here rather than wait elsewhere. Of several the best is what
    /// remains to be run, the others wait here.
    pub(crate) fn pull(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let n = self.cpus.len();
        let mut at = 1; // distance from `cpu`, going round
        while at < n {
            let Some(src) = self.domain.overloaded_from(CpuId(((cpu.index() + at) % n) as u16)) else { return };
            let distance = (src.index() + n - cpu.index()) % n;
            if distance < at {
                return;
            }
            if self.pull_from(cpu, src, now) {
                // What was behind the head may be pushed now.
                self.push(src, now, k);
            }
            at = distance + 1;
        }
    }

    /// Whether `src` may have a thread for `cpu`, by what both publish: hundreds of idle CPUs look at one overloaded
    /// queue at the same time, and its lock is what they would all wait for.
    fn may_have(&self, src: CpuId, cpu: CpuId) -> bool {
        let seen = &self.cpus[src.index()].seen;
        let head = Rank(seen.pushable.get());
        let better = head < Rank(self.cpus[cpu.index()].seen.best.get());
        // The only one that waits there beats what runs there: it is about to run there, as for `runs_here`.
        let lone = seen.queued.get() == 1 && !self.domain.absent.contains(src);
        head != Rank::IDLE && better && !(lone && head < Rank(seen.running.get()))
    }

    /// Fetches the best waiting thread of `src` that may run here; says whether others are left there.
    fn pull_from(&self, cpu: CpuId, src: CpuId, now: Nanos) -> bool {
        if !self.may_have(src, cpu) {
            return false;
        }
        let (mut dst, mut src) = self.lock_two(cpu, src);
        let table = &self.table;
        let allowed = |t, e: &Entity| table.allows(t, e, cpu);
        let found = src.rq.deadline.find(table, allowed).or_else(|| src.rq.rt.pushable.find(table, MOST, allowed));
        let Some(t) = found else { return false };
        let e = table.get(t);
        // One that beats what runs there is about to run there.
        if Rank::of(e) >= best_rank(&dst) || runs_here(&src, e) {
            return false;
        }
        dst.rq.stats.pulls += 1;
        // The caller is about to choose: nobody needs to be told.
        let _ = move_urgent(&mut src, &mut dst, t, e, now);
        src.rq.overloaded
    }
}

/// The rank of the most urgent thread of a CPU.
fn best_rank(h: &Held<'_>) -> Rank {
    let c = h.current();
    h.rq.running_rank(c).min(h.rq.best_rank(&h.s.table, c))
}

/// Whether a waiting thread should run where it is.
fn runs_here(h: &Held<'_>, e: &Entity) -> bool {
    Rank::of(e) < h.rq.running_rank(h.current()) && !h.rq.absent
}

/// Moves a waiting thread; says whether the destination must be kicked.
fn move_urgent(src: &mut Held<'_>, dst: &mut Held<'_>, t: ThreadIdx, e: &Entity, now: Nanos) -> bool {
    src.dequeue(t, e);
    dst.enqueue(t, e, now, Placement::Moved, false);
    dst.rq.stats.migrations_in += 1;
    e.migrations.count();
    src.publish();
    let ticks = dst.publish();
    dst.request() || ticks
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::{Attr, Config, Prev};
    use ids::CpuMask;
    use std::time::Duration;

    const SRC: CpuId = CpuId(0);
    const CPU: CpuId = CpuId(1);

    struct NoKick;

    impl Kick for NoKick {
        fn kick(&mut self, _: CpuId) {}
    }

    /// Two CPUs; CPU 0 runs the first of these, the others wait there; CPU 1 says that it is about to choose anew.
    fn scene(priorities: &[u8]) -> Scheduler {
        let s = Scheduler::new(&Config { cpus: 2, ..Config::default() }).unwrap();
        let begin = |t: u32, attr, mask, from| {
            s.attach(ThreadIdx(t), &attr, mask).unwrap();
            s.wake_new(ThreadIdx(t), from, Nanos(1), &mut NoKick);
        };
        // Nobody is pushed to CPU 1 meanwhile.
        begin(0, Attr::fifo(99), CpuMask::only(CPU), CPU);
        let _ = s.schedule(CPU, Nanos(2), Prev::Preempted, &mut NoKick);
        for (&p, t) in priorities.iter().zip(1..) {
            begin(t, Attr::fifo(p), CpuMask::first(2), SRC);
            if t == 1 {
                let _ = s.schedule(SRC, Nanos(2), Prev::Preempted, &mut NoKick);
            }
        }
        assert_eq!(s.queued(SRC) as usize, priorities.len() - 1);
        s.cpus[CPU.index()].seen.best.set(Rank::IDLE.0);
        s
    }

    /// Looks while somebody else holds the lock of CPU 0; `None`: it waited for that.
    fn look_past_the_lock(s: &Scheduler) -> Option<bool> {
        let held = s.lock(SRC);
        std::thread::scope(|scope| {
            let (done, answer) = std::sync::mpsc::channel();
            scope.spawn(move || done.send(s.pull_from(CPU, SRC, Nanos(9))));
            let answer = answer.recv_timeout(Duration::from_millis(500)).ok();
            drop(held);
            answer
        })
    }

    #[test]
    fn a_lone_thread_that_is_about_to_run_where_it_is_is_left_without_its_lock() {
        assert_eq!(look_past_the_lock(&scene(&[2])), Some(false), "nothing waits");
        let s = scene(&[2, 9]);
        assert_eq!(Rank(s.cpus[0].seen.pushable.get()), Rank::of(s.table.get(ThreadIdx(2))), "it could be pushed");
        assert_eq!(look_past_the_lock(&s), Some(false));
    }

    #[test]
    fn what_cannot_run_where_it_is_is_looked_at_under_the_lock() {
        assert_eq!(look_past_the_lock(&scene(&[9, 2])), None);
        assert_eq!(look_past_the_lock(&scene(&[2, 9, 4])), None, "the second is not about to run there");
    }
}
