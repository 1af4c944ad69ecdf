//! Real-time threads go where they can run: pushed by the CPU where they wait, pulled by
//! a CPU whose priority drops (Rostedt 2007; `kernel/sched/rt.c`).
//!
//! Only the head of a CPU's pushable list is ever pushed. If it fails, the less urgent ones
//! behind it are not tried, though their masks may be wider: the CPUs that could take
//! them will pull.

use crate::cpu::{rank, vector_of};
use crate::entity::{Class, Entity};
use crate::fair::Placement;
use crate::queue::Held;
use crate::rt::NO_LEVEL;
use crate::{Kick, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};

/// No trap moves more threads than this.
const MOST_MOVES: usize = 64;
/// How often a push looks for another target when the first turned out taken.
const TRIES: usize = 3;

/// What came of one attempt to push.
enum Push {
    Moved {
        kick: bool,
    },
    /// The world changed meanwhile: look again.
    Again,
    /// The head has nowhere to go.
    Stop,
    /// The head should run here, now.
    RunsHere {
        kick: bool,
    },
}

impl Scheduler {
    /// Where a waking real-time thread goes: it stays on its last CPU unless that runs a
    /// real-time thread it cannot preempt (`select_task_rq_rt`).
    pub(crate) fn select_rt(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> Option<CpuId> {
        let last = e.cpu();
        let seen = &self.cpus[last.index()].seen;
        let suits = self.suits(t, e, last);
        let mine = rank::of(e);
        let running = seen.running.get();
        if suits && (running >= rank::FAIR || (running > mine && seen.running_pinned.get() == 0)) {
            return Some(last);
        }
        let found = self.find_lowest(t, e, from).filter(|c| self.cpus[c.index()].seen.running.get() > mine);
        found.or(suits.then_some(last))
    }

    /// The CPU of lowest priority on which `t` could run, if that is lower than its own
    /// (`find_lowest_rq`): its last CPU, else this one, else any in turn.
    pub(crate) fn find_lowest(&self, t: ThreadIdx, e: &Entity, this: CpuId) -> Option<CpuId> {
        if e.movable.get() == 0 || e.class() != Class::Rt {
            return None;
        }
        let last = e.cpu();
        self.domain.find_lower(
            vector_of(rank::of(e)),
            |i| self.table.mask_word(t, e, i),
            |word| {
                let has = |c: CpuId| word(c.index() / 64) >> (c.index() % 64) & 1 != 0;
                let any = || crate::cpuset::first_from(self.domain.absent.len(), self.domain.turn(), word);
                [last, this].into_iter().find(|&c| has(c)).or_else(any).unwrap_or(last)
            },
        )
    }

    /// Gives waiting real-time threads of `cpu` to CPUs that run something less urgent.
    pub(crate) fn push_rt(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let mut tries = 0;
        for _ in 0..MOST_MOVES {
            let Some(target) = self.push_target(cpu, k) else { return };
            match self.push_to(cpu, target, now) {
                Push::Moved { kick } => {
                    tries = 0;
                    if kick {
                        k.kick(target);
                    }
                }
                Push::Again if tries < TRIES => tries += 1,
                Push::RunsHere { kick } => {
                    if kick {
                        k.kick(cpu);
                    }
                    return;
                }
                Push::Again | Push::Stop => return,
            }
        }
    }

    /// Where the head of the pushable list might go.
    fn push_target(&self, cpu: CpuId, k: &mut impl Kick) -> Option<CpuId> {
        let h = self.lock(cpu);
        let t = h.rq.rt.pushable.first()?;
        let e = self.table.get(t);
        if runs_here(&h, e) {
            let kick = h.request();
            drop(h);
            if kick {
                k.kick(cpu);
            }
            return None;
        }
        self.find_lowest(t, e, cpu).filter(|&c| c != cpu)
    }

    fn push_to(&self, cpu: CpuId, target: CpuId, now: Nanos) -> Push {
        let (mut src, mut dst) = self.lock_two(cpu, target);
        let Some(t) = src.rq.rt.pushable.first() else { return Push::Stop };
        let e = self.table.get(t);
        if runs_here(&src, e) {
            return Push::RunsHere { kick: src.request() };
        }
        let better = rank::of(e) < best_rank(&dst) && !dst.rq.absent;
        if !better || !self.table.allows(t, e, target) {
            return Push::Again;
        }
        src.rq.stats.pushes += 1;
        Push::Moved { kick: move_rt(&mut src, &mut dst, t, e, now) }
    }

    /// Fetches the real-time threads that should run here rather than wait elsewhere.
    pub(crate) fn pull_rt(&self, cpu: CpuId, now: Nanos) {
        let n = self.cpus.len();
        let mut at = 1; // distance from `cpu`, going round
        while at < n {
            let Some(src) = self.domain.overloaded_from(CpuId(((cpu.index() + at) % n) as u16)) else { return };
            let distance = (src.index() + n - cpu.index()) % n;
            if distance < at {
                return;
            }
            self.pull_from(cpu, src, now);
            at = distance + 1;
        }
    }

    fn pull_from(&self, cpu: CpuId, src: CpuId, now: Nanos) {
        if self.cpus[src.index()].seen.pushable.get() == NO_LEVEL {
            return;
        }
        let (mut dst, mut src) = self.lock_two(cpu, src);
        let best = best_rank(&dst);
        let running = src.current().map_or(rank::IDLE, rank::of);
        let table = &self.table;
        let found = src.rq.rt.pushable.find(table, MOST_MOVES as u32, |t, e| table.allows(t, e, cpu));
        let Some(t) = found else { return };
        let e = table.get(t);
        // One that beats what runs there is about to run there.
        if rank::of(e) >= best || (rank::of(e) < running && !src.rq.absent) {
            return;
        }
        dst.rq.stats.pulls += 1;
        // The caller is about to choose: nobody needs to be told.
        let _ = move_rt(&mut src, &mut dst, t, e, now);
    }
}

/// The rank of the most urgent thread of a CPU, the server counted.
fn best_rank(h: &Held<'_>) -> u8 {
    h.cpu.seen.running.get().min(h.rq.best_rank(h.current()))
}

fn runs_here(h: &Held<'_>, e: &Entity) -> bool {
    rank::of(e) < h.cpu.seen.running.get() && !h.rq.absent
}

/// Moves a waiting real-time thread; says whether the destination must be kicked.
fn move_rt(src: &mut Held<'_>, dst: &mut Held<'_>, t: ThreadIdx, e: &Entity, now: Nanos) -> bool {
    src.dequeue(t, e);
    dst.enqueue(t, e, now, Placement::Moved, false);
    dst.rq.stats.migrations_in += 1;
    src.publish();
    dst.publish();
    dst.request()
}
