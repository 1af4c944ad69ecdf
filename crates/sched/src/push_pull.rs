//! Moves real-time and deadline threads to where they can run: pushed by the CPU where they wait, pulled by a CPU whose
//! priority drops (Rostedt 2007; `kernel/sched/rt.c`).
//!
//! Only the head of a CPU's pushable threads is pushed. If that fails, less urgent ones behind it are not tried, though
//! their masks may be wider: the CPUs that could take them will pull.

use crate::entity::{Class, Entity};
use crate::fair::Placement;
use crate::planted::Fault;
use crate::queue::Held;
use crate::rank::Rank;
use crate::{Kick, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};

/// The most threads that one trap moves or examines.
const MOST: u32 = 64;
/// How often a push tries another target after the first turned out to be taken.
const TRIES: u32 = 3;

/// The result of one attempt to push.
enum Push {
    /// The thread was moved; true if its new CPU must be kicked.
    Moved(bool),
    /// The state changed meanwhile: try again.
    Again,
    /// There is no thread to push, or it should run here.
    Stop,
}

impl Scheduler {
    /// The CPU for a waking real-time or deadline thread: its last CPU, unless what runs there cannot be preempted by
    /// it or, being urgent itself, should not be (`select_task_rq_rt`).
    ///
    /// Beyond Linux: if either of two fair threads could make way, the waker does. Its CPU needs no kick, and is the
    /// only one whose carrier is known to be running on the host.
    pub(crate) fn select_urgent(&self, t: ThreadIdx, e: &Entity, from: CpuId) -> Option<CpuId> {
        if self.domains.is_limited() {
            return self.select_among_few(t, e, from);
        }
        let last = e.cpu();
        let suits = self.suits(t, e, last);
        let mine = Rank::of(e);
        let running = self.runs(last);
        if suits && running == Rank::FAIR && self.suits(t, e, from) && self.runs(from) == Rank::FAIR {
            return Some(from);
        }
        if suits && (running >= Rank::FAIR || self.makes_way(last, mine)) {
            return Some(last);
        }
        let found = self.find_lower(t, e, from).filter(|&c| self.runs(c) > mine);
        found.or(suits.then_some(last))
    }

    pub(crate) fn runs(&self, cpu: CpuId) -> Rank {
        Rank(self.cpus[cpu.index()].seen.running.get())
    }

    /// Whether the current thread of `cpu` is less urgent than `mine` and could run elsewhere.
    pub(crate) fn makes_way(&self, cpu: CpuId, mine: Rank) -> bool {
        self.runs(cpu) > mine && self.cpus[cpu.index()].seen.running_pinned.get() == 0
    }

    /// The CPU of lowest priority on which `t` could run, if that is lower than its own (`find_lowest_rq`): its last
    /// CPU, then this one, then any in turn. For a deadline thread, if every CPU has one, the CPU with the latest
    /// deadline (`find_later_rq`).
    pub(crate) fn find_lower(&self, t: ThreadIdx, e: &Entity, this: CpuId) -> Option<CpuId> {
        if e.movable.get() == 0 || e.class() == Class::Stop {
            return None;
        }
        let last = e.cpu();
        let anywhere = self.table.plants(Fault::PushAnywhere);
        let allowed = |i| if anywhere { u64::MAX } else { self.table.mask_word(t, e, i) };
        let open = if self.domains.is_limited() { self.open_cpu(t, e, this) } else { None };
        if open.is_some() {
            return open;
        }
        let lowest = self.domains.all()[self.domain_of(t, e)].find_lower(
            u8::from(self.domains.is_limited())..Rank::of(e).vector(),
            |i| allowed(i) & !self.domains.absent.word(i),
            |word| {
                let has = |c: CpuId| word(c.index() / 64) >> (c.index() % 64) & 1 != 0;
                let any = || self.domains.first(self.domains.turn(), word);
                // A waker without a CPU (a signal from outside) has none to offer.
                let mut near = [last, this].into_iter().filter(|c| c.index() < self.cpus.len());
                near.find(|&c| has(c)).or_else(any).unwrap_or(last)
            },
        );
        if lowest.is_some() || e.class() != Class::Deadline { lowest } else { self.find_later(t, e) }
    }

    /// The number of the domain where `t` is balanced: its last one, unless it may no longer run there.
    pub(crate) fn domain_of(&self, t: ThreadIdx, e: &Entity) -> usize {
        let last = e.cpu();
        if self.domains.all().len() == 1 {
            return 0;
        }
        let allowed = |i| self.table.mask_word(t, e, i);
        let at = if self.table.allows(t, e, last) { last } else { self.domains.first(last, allowed).unwrap_or(last) };
        self.domains.number(at)
    }

    fn find_later(&self, t: ThreadIdx, e: &Entity) -> Option<CpuId> {
        let start = self.domains.turn().index();
        let n = self.cpus.len();
        let best = |c: CpuId| Rank(self.cpus[c.index()].seen.best.get());
        let cpus = (0..n.min(MOST as usize)).map(|i| CpuId(((start + i) % n) as u16));
        cpus.filter(|&c| best(c) > Rank::of(e) && self.suits(t, e, c)).max_by_key(|&c| best(c))
    }

    /// Gives waiting threads of `cpu` to CPUs that run something less urgent.
    pub(crate) fn push(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        if self.push_from(cpu, now, k) && self.domains.is_limited() {
            self.offer(cpu, now, k);
        }
    }

    /// Pushes one thread; returns whether there was one.
    pub(crate) fn push_from(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) -> bool {
        let (mut tries, mut moved) = (0, false);
        for _ in 0..MOST {
            if self.table.plants(Fault::SkipPush) {
                break;
            }
            let Some(target) = self.push_target(cpu, k) else { break };
            match self.push_to(cpu, target, now) {
                Push::Moved(kick) => {
                    (tries, moved) = (0, true);
                    if kick {
                        k.kick(target);
                    }
                }
                Push::Again if tries < TRIES => tries += 1,
                Push::Again | Push::Stop => break,
            }
        }
        moved
    }

    /// A target for the head of the pushable threads. If the head should run here, asks for a reschedule instead.
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

    /// Moves the head of the pushable threads of `cpu` to `target`, if that is still correct under both locks.
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

    /// Pulls threads that should run here instead of waiting elsewhere. The most urgent of several is the one to run;
    /// the others wait here.
    pub(crate) fn pull(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let place = if self.domains.is_limited() && !self.domains.is_urgent(cpu) {
            let Some(place) = self.domains.find_place() else { return };
            Some(place)
        } else {
            None
        };
        self.pull_urgent(cpu, now, k);
        drop(place);
    }

    /// Pulls for a CPU that counts against the limit of CPUs with urgent threads.
    pub(crate) fn pull_urgent(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        let (n, domain) = (self.cpus.len(), self.domains.of(cpu));
        let mut at = 1; // distance from `cpu`, going round
        while at < n {
            let Some(src) = domain.overloaded_from(CpuId(((cpu.index() + at) % n) as u16)) else { return };
            let distance = (src.index() + n - cpu.index()) % n;
            if distance < at {
                return;
            }
            if self.pull_from(cpu, src, now) {
                // The thread behind the head may be pushable now.
                self.push(src, now, k);
            }
            at = distance + 1;
        }
    }

    /// Whether `src` may have a thread for `cpu`, judged by their published words: hundreds of idle CPUs may check an
    /// overloaded queue at the same time and would contend for its lock.
    fn may_have(&self, src: CpuId, cpu: CpuId) -> bool {
        let seen = &self.cpus[src.index()].seen;
        let head = Rank(seen.pushable.get());
        let better = head < Rank(self.cpus[cpu.index()].seen.best.get());
        // A single waiting thread that beats the running one is about to run there, as in `runs_here`.
        let lone = seen.queued.get() == 1 && !self.domains.absent.contains(src);
        head != Rank::IDLE && better && !(lone && head < Rank(seen.running.get()))
    }

    /// Pulls the best waiting thread of `src` that may run here; returns whether others are left there.
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
        // A thread that beats the one running there is about to run there.
        if Rank::of(e) >= best_rank(&dst) || runs_here(&src, e) {
            return false;
        }
        dst.rq.stats.pulls += 1;
        // The caller is about to choose, so no kick is needed.
        let _ = move_urgent(&mut src, &mut dst, t, e, now);
        src.rq.overloaded
    }
}

/// The rank of the most urgent thread of a CPU.
fn best_rank(h: &Held<'_>) -> Rank {
    let c = h.current();
    h.rq.running_rank(c).min(h.rq.best_rank(&h.s.table, c))
}

/// Whether a waiting thread should run where it waits.
fn runs_here(h: &Held<'_>, e: &Entity) -> bool {
    Rank::of(e) < h.rq.running_rank(h.current()) && !h.rq.absent
}

/// Moves a waiting thread; returns whether the destination must be kicked.
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
    use crate::{Attr, Config, NoKick, Prev};
    use ids::CpuMask;
    use std::time::Duration;

    const SRC: CpuId = CpuId(0);
    const CPU: CpuId = CpuId(1);

    /// Two CPUs. CPU 0 runs the first of these and the others wait there; CPU 1 is about to reschedule.
    fn scene(priorities: &[u8]) -> Scheduler {
        scene_on(2, priorities)
    }

    /// The same with more CPUs, where nobody may run.
    fn scene_on(cpus: usize, priorities: &[u8]) -> Scheduler {
        let s = Scheduler::new(&Config { cpus, ..Config::default() }).unwrap();
        let begin = |t: u32, attr, mask, from| {
            s.attach(ThreadIdx(t), &attr, mask).unwrap();
            s.wake_new(ThreadIdx(t), from, Nanos(1), &mut NoKick);
        };
        // Keeps threads from being pushed to CPU 1.
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

    /// Looks while another thread holds the lock of CPU 0; `None` if it waited for that lock.
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

    /// CPU 0 publishes its own state, CPU 1 its most urgent rank.
    #[test]
    fn a_look_at_what_is_published_spares_the_lock() {
        let s = scene(&[2]);
        let rt = |p: u8| Rank::rt(100 - p);
        for (head, best, queued, runs, absent, may) in [
            (Rank::IDLE, Rank::IDLE, 5, rt(50), false, false),
            (rt(20), Rank::IDLE, 5, rt(50), false, true),
            (rt(20), rt(19), 5, rt(50), false, true),
            (rt(20), rt(20), 5, rt(50), false, false),
            (rt(20), rt(21), 5, rt(50), false, false),
            (rt(20), rt(19), 1, rt(50), false, true),
            (rt(20), rt(19), 1, rt(20), false, true),
            (rt(20), rt(19), 1, rt(19), false, false),
            (rt(20), rt(19), 2, rt(19), false, true),
            (rt(20), rt(19), 1, rt(19), true, true),
        ] {
            let (src, dst) = (&s.cpus[SRC.index()].seen, &s.cpus[CPU.index()].seen);
            src.pushable.set(head.0);
            src.queued.set(queued);
            src.running.set(runs.0);
            dst.best.set(best.0);
            if absent {
                s.domains.absent.insert(SRC);
            }
            assert_eq!(s.may_have(SRC, CPU), may, "{head:?} of {queued} behind {runs:?}, {best:?}; {absent}");
        }
    }

    #[test]
    fn what_is_about_to_run_is_not_pulled_and_hides_what_is_behind_it() {
        let s = scene(&[2, 9, 4]);
        s.leaves(CPU);
        assert!(!s.pull_from(CPU, SRC, Nanos(9)));
        assert_eq!((s.queued(SRC), s.queued(CPU)), (2, 0));
        let s = scene(&[2, 9, 4]);
        let _ = s.schedule(SRC, Nanos(9), Prev::Preempted, &mut NoKick);
        s.leaves(CPU);
        assert!(s.pull_from(CPU, SRC, Nanos(10)), "4 waits behind 9, and another is left");
        assert!(!s.pull_from(CPU, SRC, Nanos(10)), "2 is less urgent than what it has");
        assert_eq!((s.queued(SRC), s.queued(CPU), s.stats(CPU).pulls), (1, 1, 1));
        assert_eq!(s.cpu_of(ThreadIdx(3)), CPU);
    }

    /// The results of pushing the head of CPU 0 to CPU 1: moved, with or without a kick; try again; stop.
    #[test]
    fn a_push_is_decided_under_both_locks() {
        let told = |push: Push| match push {
            Push::Moved(kick) => Some(Some(kick)),
            Push::Again => Some(None),
            Push::Stop => None,
        };
        let push = |priorities: &[u8], change: &dyn Fn(&Scheduler)| {
            let s = scene(priorities);
            change(&s);
            let came = told(s.push_to(SRC, CPU, Nanos(9)));
            assert_eq!(s.stats(SRC).pushes, u64::from(matches!(came, Some(Some(_)))));
            assert_eq!(s.stats(CPU).migrations_in, s.stats(SRC).pushes);
            assert_eq!(u64::from(s.counts(ThreadIdx(2), Nanos(9)).migrations), s.stats(SRC).pushes);
            came
        };
        let free = |s: &Scheduler| s.leaves(CPU);
        assert_eq!(push(&[9, 2], &free), Some(Some(true)));
        assert_eq!(push(&[9], &free), None, "nothing waits");
        assert_eq!(push(&[2, 9], &free), None, "it should run where it is");
        assert_eq!(push(&[9, 2], &|_| ()), Some(None), "something more urgent runs there");
        let runs =
            |p: u8| move |s: &Scheduler| s.set_attr(ThreadIdx(0), &Attr::fifo(p), Nanos(8), &mut NoKick).unwrap();
        assert_eq!(push(&[9, 5], &runs(5)), Some(None), "an equal runs there");
        let absent = |s: &Scheduler| {
            free(s);
            s.lock(CPU).rq.absent = true;
        };
        assert_eq!(push(&[9, 2], &absent), Some(None), "nobody serves it");
        let pinned = |s: &Scheduler| {
            free(s);
            s.table.get(ThreadIdx(2)).mask.set(1);
        };
        assert_eq!(push(&[9, 2], &pinned), Some(None), "it may not go there");
        let asked = |s: &Scheduler| {
            free(s);
            assert!(s.lock(CPU).request());
        };
        assert_eq!(push(&[9, 2], &asked), Some(Some(true)), "it needs ticks from now on");
        let ticks = |s: &Scheduler| {
            free(s);
            s.cpus[CPU.index()].seen.tick.set(1);
        };
        assert_eq!(push(&[9, 2], &ticks), Some(Some(true)), "it must choose again");
        let both = |s: &Scheduler| {
            asked(s);
            s.cpus[CPU.index()].seen.tick.set(1);
        };
        assert_eq!(push(&[9, 2], &both), Some(Some(false)), "it knows all that");
    }

    #[test]
    fn what_should_run_where_it_waits_is_seen_to_instead_of_pushed() {
        for asked in [false, true] {
            let s = scene(&[2, 9]);
            s.cpus[SRC.index()].seen.need_resched.store(asked, sync::atomic::Ordering::Release);
            let mut kicked = Kicked::default();
            s.push(SRC, Nanos(9), &mut kicked);
            assert!(s.need_resched(SRC) && s.queued(SRC) == 1);
            assert_eq!(kicked.0, if asked { None } else { Some(SRC) });
        }
    }

    /// Each look for a target takes a turn where neither CPU that it knows will do: one, and three more.
    #[test]
    fn a_push_gives_up_when_its_targets_are_taken_again_and_again() {
        let s = scene_on(8, &[9, 2]);
        // CPU 1 seems to run nothing urgent, and turns out to.
        s.domains.of(CPU).set_priority(CPU, crate::domain::HIGHER - 1, 0);
        let before = s.domains.turn();
        s.push(SRC, Nanos(9), &mut NoKick);
        assert_eq!((s.domains.turn().0 + 8 - before.0 - 1) % 8, 4);
        assert_eq!((s.queued(SRC), s.stats(SRC).pushes), (1, 0));
    }

    /// A CPU that waits for the first of two locks does not hold the second, whichever was requested first.
    #[test]
    fn two_locks_are_taken_in_the_order_of_their_ids() {
        let s = scene(&[2]);
        for (a, b) in [(SRC, CPU), (CPU, SRC)] {
            std::thread::scope(|scope| {
                let held = s.lock(SRC);
                let waits = scope.spawn(|| {
                    let (first, second) = s.lock_two(a, b);
                    (first.id, second.id)
                });
                std::thread::sleep(Duration::from_millis(50));
                assert!(s.at(CPU).try_lock().is_some());
                drop(held);
                assert_eq!(waits.join().unwrap(), (a, b));
            });
        }
    }

    /// The CPU that was kicked last.
    #[derive(Default)]
    struct Kicked(Option<CpuId>);

    impl Kick for Kicked {
        fn kick(&mut self, cpu: CpuId) {
            self.0 = Some(cpu);
        }
    }

    impl Scheduler {
        /// The urgent thread that has `cpu` exits.
        fn leaves(&self, cpu: CpuId) {
            let mut h = self.lock(cpu);
            let t = h.rq.current;
            h.leave_running(t, self.table.get(t), false);
            h.vacate();
            h.publish();
        }
    }
}
