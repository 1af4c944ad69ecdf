//! The protocols of waiting, waking and moving, with every interleaving of their atomic
//! steps possible (`RUSTFLAGS="--cfg shuttle" cargo test --test shuttle --release`).
//!
//! Each model CPU is a thread that behaves as a carrier does: it runs what `schedule` gave it, and
//! schedules again when it is asked to.

#![cfg(shuttle)]

use entresol_sched::{Attr, Config, Kick, Prev, Scheduler};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;

const ITERATIONS: usize = 3_000;
const C0: CpuId = CpuId(0);
const C1: CpuId = CpuId(1);

struct NoKick;

impl Kick for NoKick {
    fn kick(&mut self, _: CpuId) {}
}

/// What every model shares: the scheduler, and who runs where according to the CPUs themselves.
struct World {
    s: Scheduler,
    running: Vec<AtomicBool>,
    wakes: AtomicUsize,
}

impl World {
    fn new(cpus: usize, threads: &[(Attr, CpuMask)]) -> Arc<World> {
        let s =
            Scheduler::new(&Config { cpus, rt_throttle: false, pull_after: Nanos(0), ..Config::default() }).unwrap();
        for (i, (attr, mask)) in threads.iter().enumerate() {
            s.attach(ThreadIdx(i as u32), attr, mask.clone()).unwrap();
        }
        let running = threads.iter().map(|_| AtomicBool::new(false)).collect();
        Arc::new(World { s, running, wakes: AtomicUsize::new(0) })
    }

    /// The CPU takes what it was given; nobody else may have it.
    fn take(&self, cpu: CpuId, next: Option<ThreadIdx>) -> Option<ThreadIdx> {
        if let Some(t) = next {
            assert!(!self.running[t.index()].swap(true, Ordering::SeqCst), "{t:?} runs on two CPUs");
            assert!(self.s.affinity(t).contains(cpu), "{t:?} runs outside its mask");
        }
        next
    }

    /// The CPU's thread stops running, then the scheduler decides. The thread's registers are saved by then.
    fn schedule(&self, cpu: CpuId, current: Option<ThreadIdx>, prev: Prev) -> Option<ThreadIdx> {
        if let Some(t) = current {
            self.running[t.index()].store(false, Ordering::SeqCst);
        }
        let next = self.s.schedule(cpu, Nanos(1), prev, &mut NoKick);
        self.take(cpu, next)
    }

    fn wake(&self, t: ThreadIdx, from: CpuId) {
        if self.s.wake(t, from, Nanos(1), &mut NoKick) {
            self.wakes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A CPU handles requests until `done`.
    fn serve(&self, cpu: CpuId, mut current: Option<ThreadIdx>, done: &AtomicBool) -> Option<ThreadIdx> {
        while !done.load(Ordering::SeqCst) {
            if self.s.need_resched(cpu) {
                current = self.schedule(cpu, current, Prev::Preempted);
            }
            thread::yield_now();
        }
        current
    }

    /// When all is quiet: everything the scheduler has is whole, and met once.
    fn audit(&self, expected: usize) {
        let mut met = Vec::new();
        self.s.audit(|cpu, t, place| met.push((cpu, t, place))).unwrap();
        let mut threads: Vec<_> = met.iter().map(|m| m.1).collect();
        threads.sort();
        threads.dedup();
        assert_eq!((threads.len(), met.len()), (expected, expected), "{met:?}");
    }
}

fn both(model: impl Fn() + Send + Sync + Copy + 'static) {
    both_of(ITERATIONS, model);
}

fn both_of(iterations: usize, model: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(model, iterations);
    shuttle::check_pct(model, iterations, 3);
}

/// A thread waits for a flag while another CPU sets it and wakes: the wake-up is never lost.
#[test]
fn no_wake_up_is_lost() {
    both(|| {
        let w = World::new(1, &[(Attr::fifo(5), CpuMask::first(1))]);
        let t = ThreadIdx(0);
        w.s.wake_new(t, C0, Nanos(1), &mut NoKick);
        let current = w.schedule(C0, None, Prev::Preempted);
        let flag = Arc::new(AtomicBool::new(false));
        let waker = {
            let (w, flag) = (w.clone(), flag.clone());
            thread::spawn(move || {
                flag.store(true, Ordering::SeqCst);
                w.wake(t, C1);
            })
        };
        w.s.prepare_block(t);
        let next = if flag.load(Ordering::SeqCst) {
            w.s.cancel_block(t);
            current
        } else {
            w.schedule(C0, current, Prev::Block)
        };
        waker.join().unwrap();
        // It either never waited, or was woken: it runs, or is queued here.
        let now = if next.is_none() { w.schedule(C0, None, Prev::Preempted) } else { next };
        assert_eq!(now, Some(t));
        w.audit(1);
    });
}

/// Two wakers, one waiter, and a CPU that may run it elsewhere: one waker wins, one CPU runs it.
#[test]
fn one_waker_wins_and_one_cpu_runs() {
    both(|| {
        let w = World::new(2, &[(Attr::fifo(5), CpuMask::first(2))]);
        let t = ThreadIdx(0);
        w.s.wake_new(t, C0, Nanos(1), &mut NoKick);
        let on = w.s.cpu_of(t);
        let other = if on == C0 { C1 } else { C0 };
        let current = w.schedule(on, None, Prev::Preempted);
        w.s.prepare_block(t);
        let done = Arc::new(AtomicBool::new(false));
        let wakers: Vec<_> = [C0, C1]
            .map(|c| {
                let w = w.clone();
                thread::spawn(move || w.wake(t, c))
            })
            .into();
        let server = {
            let (w, done) = (w.clone(), done.clone());
            thread::spawn(move || w.serve(other, None, &done))
        };
        let mine = w.schedule(on, current, Prev::Block);
        wakers.into_iter().for_each(|h| h.join().unwrap());
        let mine = if w.s.need_resched(on) { w.schedule(on, mine, Prev::Preempted) } else { mine };
        done.store(true, Ordering::SeqCst);
        let theirs = server.join().unwrap();
        let theirs = if w.s.need_resched(other) { w.schedule(other, theirs, Prev::Preempted) } else { theirs };
        assert_eq!(w.wakes.load(Ordering::SeqCst), 1);
        assert_eq!([mine, theirs].into_iter().flatten().collect::<Vec<_>>(), [t]);
        w.audit(1);
    });
}

/// A CPU pushes a waiting real-time thread while its target is waking a more urgent one and a third call
/// changes the mask: whatever comes of it is whole, and the most urgent ones run.
#[test]
fn push_races_with_wake_up_and_affinity() {
    both(|| {
        let all = CpuMask::first(2);
        let w = World::new(
            2,
            &[
                (Attr::fifo(50), CpuMask::only(C0)),
                (Attr::fifo(10), all.clone()),
                (Attr::fifo(30), CpuMask::only(C1)),
                (Attr::DEFAULT, CpuMask::only(C1)),
            ],
        );
        let [a, b, c, d] = [0, 1, 2, 3].map(ThreadIdx);
        w.s.wake_new(b, C0, Nanos(1), &mut NoKick);
        w.s.set_affinity(b, CpuMask::only(C0), Nanos(1), &mut NoKick).unwrap();
        let on0 = w.schedule(C0, None, Prev::Preempted);
        w.s.wake_new(d, C1, Nanos(1), &mut NoKick);
        let on1 = w.schedule(C1, None, Prev::Preempted);
        w.s.set_affinity(b, all, Nanos(1), &mut NoKick).unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let carriers: Vec<_> = [(C0, on0), (C1, on1)]
            .map(|(cpu, current)| {
                let (w, done) = (w.clone(), done.clone());
                thread::spawn(move || w.serve(cpu, current, &done))
            })
            .into();
        let changer = {
            let w = w.clone();
            thread::spawn(move || {
                w.s.set_affinity(b, CpuMask::only(C0), Nanos(1), &mut NoKick).unwrap();
                w.s.set_affinity(b, CpuMask::first(2), Nanos(1), &mut NoKick).unwrap();
            })
        };
        // A preempts B on its CPU, which then pushes B to the other, where C is just coming.
        w.wake_started(a, C0);
        w.wake_started(c, C1);
        changer.join().unwrap();
        done.store(true, Ordering::SeqCst);
        let mut now: Vec<_> = carriers.into_iter().map(|h| h.join().unwrap()).collect();
        for _ in 0..4 {
            for cpu in [C0, C1] {
                if w.s.need_resched(cpu) {
                    now[cpu.index()] = w.schedule(cpu, now[cpu.index()], Prev::Preempted);
                }
            }
        }
        assert_eq!(now, [Some(a), Some(c)]);
        w.audit(4);
    });
}

impl World {
    fn wake_started(&self, t: ThreadIdx, from: CpuId) {
        self.s.wake_new(t, from, Nanos(1), &mut NoKick);
    }
}

/// Two idle CPUs and a wake-up want the same fair thread; meanwhile its attributes change.
#[test]
fn steals_races_with_changes() {
    both(|| {
        let all = CpuMask::first(2);
        let w = World::new(2, &[(Attr::DEFAULT, CpuMask::only(C0)), (Attr::DEFAULT, all)]);
        let [a, b] = [0, 1].map(ThreadIdx);
        w.s.wake_new(b, C0, Nanos(1), &mut NoKick);
        let its_first = w.s.cpu_of(b);
        let current = w.schedule(its_first, None, Prev::Preempted);
        w.s.prepare_block(b);
        assert_eq!(w.schedule(its_first, current, Prev::Block), None);
        w.s.wake_new(a, C0, Nanos(1), &mut NoKick);
        let on0 = w.schedule(C0, None, Prev::Preempted);
        let done = Arc::new(AtomicBool::new(false));
        let thief = {
            let (w, done) = (w.clone(), done.clone());
            thread::spawn(move || {
                let mut current = None;
                while !done.load(Ordering::SeqCst) && current.is_none() {
                    let found = w.s.idle_pull(C1, Nanos(1), &mut NoKick);
                    current = w.take(C1, found);
                    thread::yield_now();
                }
                current
            })
        };
        let changer = {
            let w = w.clone();
            thread::spawn(move || {
                w.s.set_attr(b, &Attr::fair(ids::Policy::Other, 5), Nanos(1), &mut NoKick).unwrap();
                w.s.set_boost(b, Some(entresol_sched::Urgency::Rt(ids::RtPriority(3))), Nanos(1), &mut NoKick);
                w.s.set_boost(b, None, Nanos(1), &mut NoKick);
            })
        };
        w.wake(b, C0);
        let mut mine = on0;
        if w.s.need_resched(C0) {
            mine = w.schedule(C0, mine, Prev::Preempted);
        }
        changer.join().unwrap();
        done.store(true, Ordering::SeqCst);
        let theirs = thief.join().unwrap();
        assert!(mine != theirs || mine.is_none());
        w.audit(2);
    });
}

/// On a large machine a listed queue has become empty. An idle CPU unlists it just as a thread comes: it is found there.
#[test]
fn a_queue_that_is_unlisted_as_a_thread_comes_is_listed_again() {
    // A machine of 65 CPUs takes long to build, so there are fewer runs.
    both_of(ITERATIONS / 10, || {
        let far = CpuId(64);
        let mut either = CpuMask::only(far);
        either.insert(C1);
        let w = World::new(65, &[(Attr::DEFAULT, CpuMask::only(far)), (Attr::DEFAULT, either)]);
        let [stays, comes] = [0, 1].map(ThreadIdx);
        w.wake_started(comes, far);
        assert_eq!(w.schedule(far, None, Prev::Preempted), Some(comes));
        w.wake_started(stays, far);
        w.s.prepare_block(comes);
        assert_eq!(w.schedule(far, Some(comes), Prev::Block), Some(stays));
        let searcher = {
            let w = w.clone();
            thread::spawn(move || w.s.idle_pull(C1, Nanos(1), &mut NoKick))
        };
        assert!(w.s.wake(comes, far, Nanos(1), &mut NoKick));
        let placed = w.s.cpu_of(comes);
        let early = searcher.join().unwrap();
        // Otherwise the wake-up met the searcher's CPU idle.
        if placed == far || early.is_some() {
            let found = early.or_else(|| w.s.idle_pull(C1, Nanos(1), &mut NoKick));
            assert_eq!(found, Some(comes));
        }
        w.audit(2);
    });
}
