//! One CPU: its published words, readable without its lock, and the run queue under the lock.

use crate::deadline::DeadlineQueue;
use crate::entity::{Class, Entity};
use crate::fair::FairQueue;
use crate::field::{FieldU8, FieldU32, FieldU64};
use crate::rank::Rank;
use crate::rt::{NO_LEVEL, RtQueue};
use crate::server::FairServer;
use crate::table::Table;
use ids::{Nanos, ThreadIdx};
use sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sync::{CachePadded, Lock};

/// How an idle CPU spends its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// The CPU polls for work (`need_resched`, `idle_pull`).
    Spinning,
    /// The CPU sleeps in the host until it is kicked.
    Parked,
}

/// The state that a CPU publishes. Written under its lock only; `need_resched` is also cleared by its readers.
#[derive(Debug)]
pub(crate) struct Published {
    pub current: AtomicU32,
    pub need_resched: AtomicBool,
    /// [`Rank`] of the running thread.
    pub running: FieldU64,
    /// [`Rank`] of the most urgent thread, running or about to; not maintained between fair and idle.
    pub best: FieldU64,
    /// 1 if the running thread may not run on another CPU.
    pub running_pinned: FieldU8,
    /// [`Rank`] of the best pushable thread, or `Rank::IDLE`.
    pub pushable: FieldU64,
    /// 1 if the passage of time changes something here.
    pub tick: FieldU8,
    /// Runnable threads that wait.
    pub queued: FieldU32,
    /// Fair threads among them.
    pub fair_waiting: FieldU32,
    /// Since when some fair thread waits.
    pub waiting_since: FieldU64,
    /// Sum of the weights of the fair threads.
    pub load: FieldU64,
    /// Usual run length of the running thread, in nanoseconds.
    pub usual_run: FieldU32,
    /// 1 if the last thread before this CPU was idle was a real-time or deadline thread.
    pub was_urgent: FieldU8,
    /// The core to which the carrier of this CPU must be bound, plus one (`few_cores`).
    pub bound: FieldU32,
}

/// Wake-up latency of real-time threads; only of the highest priority that occurred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RtLatency {
    /// The priority, 1 to 99; 0 if there were none.
    pub priority: u8,
    /// How many wake-ups.
    pub wakeups: u64,
    /// The longest time from a wake-up until the thread ran.
    pub worst: Nanos,
}

impl RtLatency {
    /// Merges the values of another CPU.
    pub fn merge(&mut self, other: RtLatency) {
        if other.priority > self.priority {
            *self = other;
        } else if other.priority == self.priority {
            self.wakeups += other.wakeups;
            self.worst = self.worst.max(other.worst);
        }
    }
}

/// Counters of one CPU since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuStats {
    /// Changes of the running thread.
    pub switches: u64,
    /// Switches away from a thread that was runnable and had not yielded.
    pub preemptions: u64,
    /// Threads that became runnable here.
    pub wakeups: u64,
    /// Threads that came from another CPU's queue.
    pub migrations_in: u64,
    /// Migrations that this CPU pulled.
    pub pulls: u64,
    /// Threads that this CPU gave to another.
    pub pushes: u64,
    /// Parked CPUs that this CPU woke to help.
    pub nudges: u64,
    /// Wake-ups of real-time threads.
    pub rt: RtLatency,
}

/// The run queue of one CPU. Fields that every switch needs come first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RunQueue {
    /// The running thread; `NONE` is idle.
    pub current: ThreadIdx,
    /// The running thread's mask has lost this CPU.
    pub exile: bool,
    /// The priority vector that contains this CPU.
    pub vector: u8,
    /// Whether the overload mask contains this CPU.
    pub overloaded: bool,
    pub absent: bool,
    /// The CPU is bound to its core.
    pub has_core: bool,
    /// The idle mask that contains this CPU.
    pub idle: Option<Idle>,
    /// The most urgent rank the running thread has had since it was chosen.
    pub chosen: Rank,
    /// The time up to which the running thread is accounted.
    pub accounted: u64,
    pub fair: FairQueue,
    pub server: FairServer,
    pub stats: CpuStats,
    /// When this CPU balances next.
    pub balance_at: u64,
    pub deadline: DeadlineQueue,
    pub rt: RtQueue,
}

/// One CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    pub queue: CachePadded<Lock<RunQueue>>,
    pub seen: CachePadded<Published>,
    pub nudges: CachePadded<Pace>,
}

/// How often this CPU may wake a parked one to help.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The earliest time of the next one.
    pub not_before: FieldU64,
    /// The length of the last pause.
    pub pause: FieldU64,
    /// 1 if the last one helped: the next needs no pause.
    pub useful: FieldU8,
    /// How many there were.
    pub count: FieldU64,
}

impl Cpu {
    pub(crate) fn new(server: FairServer) -> Cpu {
        Cpu {
            queue: CachePadded(Lock::new(RunQueue {
                current: ThreadIdx::NONE,
                chosen: Rank::IDLE,
                accounted: 0,
                fair: FairQueue::new(),
                rt: RtQueue::new(),
                deadline: DeadlineQueue::new(),
                server,
                exile: false,
                idle: Some(Idle::Spinning),
                absent: false,
                has_core: false,
                vector: 0,
                overloaded: false,
                balance_at: 0,
                stats: CpuStats::default(),
            })),
            seen: CachePadded(Published {
                current: AtomicU32::new(ThreadIdx::NONE.0),
                need_resched: AtomicBool::new(false),
                running: FieldU64::from(Rank::IDLE.0),
                best: FieldU64::from(Rank::IDLE.0),
                running_pinned: FieldU8::default(),
                pushable: FieldU64::from(Rank::IDLE.0),
                tick: FieldU8::default(),
                queued: FieldU32::default(),
                fair_waiting: FieldU32::default(),
                waiting_since: FieldU64::default(),
                load: FieldU64::default(),
                usual_run: FieldU32::default(),
                was_urgent: FieldU8::default(),
                bound: FieldU32::default(),
            }),
            nudges: CachePadded(Pace::default()),
        }
    }

    #[inline(always)]
    pub(crate) fn current(&self) -> Option<ThreadIdx> {
        let t = ThreadIdx(self.seen.current.load(Ordering::Acquire));
        t.is_some().then_some(t)
    }

    #[inline(always)]
    pub(crate) fn need_resched(&self) -> bool {
        self.seen.need_resched.load(Ordering::Acquire)
    }
}

impl RunQueue {
    /// Time that the running thread has used since it was last accounted; the call accounts it.
    #[inline(always)]
    pub(crate) fn elapsed(&mut self, now: Nanos) -> u64 {
        let delta = now.0.saturating_sub(self.accounted);
        if delta != 0 {
            self.accounted = now.0;
        }
        delta
    }

    /// Runnable threads that wait.
    pub(crate) fn waiting(&self, current: Option<&Entity>) -> u32 {
        let rt_runs = current.is_some_and(|e| e.in_rt_queue());
        self.fair.waiting() + self.rt.len - u32::from(rt_runs) + self.deadline.waiting()
    }

    /// Rank of the most urgent runnable thread, `current` included.
    pub(crate) fn best_rank(&self, table: &Table, current: Option<&Entity>) -> Rank {
        let level = self.rt.active.best();
        if level == 0 {
            return Rank::STOP;
        }
        let usual = self.deadline.waiting() == 0 && !self.server.active();
        if usual && level < NO_LEVEL && current.is_none_or(|e| e.class() != Class::Deadline) {
            return Rank::rt(level);
        }
        let fair = self.fair.waiting() > 0 || current.is_some_and(|e| e.is_fair());
        let ready = self.deadline.first(table).map(|t| Rank::of(table.get(t)));
        let running = current.filter(|e| e.class() == Class::Deadline).map(Rank::of);
        let server = (fair && self.server.active()).then(|| Rank::deadline(self.server.deadline()));
        let urgent = [ready, running, server].into_iter().flatten().min();
        urgent.unwrap_or(if level < NO_LEVEL {
            Rank::rt(level)
        } else if fair {
            Rank::FAIR
        } else {
            Rank::IDLE
        })
    }

    /// Ranks of the running thread, of the most urgent one, and of the most urgent one that may run elsewhere.
    #[inline]
    pub(crate) fn ranks(&self, table: &Table, current: Option<&Entity>) -> (Rank, Rank, Rank) {
        let running = self.running_rank(current);
        if !self.deadline.is_empty() || self.server.active() {
            let pushable = self.first_pushable(table).map_or(Rank::IDLE, |t| Rank::of(table.get(t)));
            return (running, running.min(self.best_rank(table, current)), pushable);
        }
        let level = |l: u8| match l {
            0 => Rank::STOP,
            NO_LEVEL => Rank::IDLE,
            l => Rank::rt(l),
        };
        let fair = if self.fair.waiting() > 0 { Rank::FAIR } else { Rank::IDLE };
        let best = running.min(fair).min(level(self.rt.active.best()));
        (running, best, level(self.rt.pushable.best()))
    }

    /// Rank of the running thread; the server's while the server is the reason that it runs.
    pub(crate) fn running_rank(&self, current: Option<&Entity>) -> Rank {
        match current {
            None => Rank::IDLE,
            Some(e) if e.is_fair() && self.server.active() => Rank::deadline(self.server.deadline()),
            Some(e) => Rank::of(e),
        }
    }

    /// The most urgent waiting thread that may run elsewhere.
    pub(crate) fn first_pushable(&self, table: &Table) -> Option<ThreadIdx> {
        self.deadline.first_movable(table).or_else(|| self.rt.pushable.first())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{Attr, DeadlineParams, Urgency};
    use crate::config::Config;
    use crate::fair::Placement;
    use core::cmp::Reverse;
    use ids::{CpuId, CpuMask};

    /// The waiting threads: deadline threads by absolute deadline, real-time threads by priority (100: stop), fair
    /// threads.
    struct Waiting<'a> {
        deadlines: &'a [u64],
        priorities: &'a [u8],
        fair: u32,
    }

    const NOTHING: Waiting<'_> = Waiting { deadlines: &[], priorities: &[], fair: 0 };

    const SERVER: u64 = 4_500;

    /// A CPU and its threads, which are counted from 0 on; the server is active if `serves`.
    fn cpu(waiting: &Waiting<'_>, serves: bool) -> (Cpu, Table) {
        let config = Config { server_runtime: Nanos(10), server_period: Nanos(SERVER), ..Config::default() };
        let (cpu, table) = (Cpu::new(FairServer::new(&config)), Table::new(2).unwrap());
        let mut rq = cpu.queue.lock();
        let mut indices = 0..;
        let mut entity = |attr: Attr| {
            let t = ThreadIdx(indices.next().unwrap());
            table.reserve(t).unwrap();
            table.set_mask(t, &CpuMask::first(2));
            table.get(t).set_attr(&attr, 700_000, Nanos(1));
            t
        };
        for &absolute in waiting.deadlines {
            let t = entity(deadline_attr());
            table.get(t).dl.absolute.set(absolute);
            table.get(t).dl.budget.set(1);
            rq.deadline.insert(&table, t, Nanos(1));
        }
        for &p in waiting.priorities {
            let t = entity(Attr::fifo(p.min(99)));
            if p == 100 {
                table.get(t).set_boost(Some(Urgency::Stop));
            }
            rq.rt.enqueue(&table, t, false);
        }
        for _ in 0..waiting.fair {
            let t = entity(Attr::DEFAULT);
            rq.fair.join(table.get(t), CpuId(0), Placement::Initial);
            rq.fair.insert(&table, t, table.get(t));
        }
        if serves {
            rq.server.update(Nanos(0), true, true);
            rq.server.update(Nanos(SERVER), true, true);
        }
        assert_eq!(rq.server.active(), serves);
        drop(rq);
        (cpu, table)
    }

    fn deadline_attr() -> Attr {
        Attr::deadline(DeadlineParams { runtime: Nanos(1_024), deadline: Nanos(100_000), period: Nanos(0) })
    }

    fn runs(attr: Attr, absolute: u64) -> Entity {
        let e = Entity::new();
        e.set_attr(&attr, 700_000, Nanos(1));
        e.dl.absolute.set(absolute);
        e
    }

    /// The most urgent rank, computed both ways, and the most urgent pushable one.
    fn ranks(waiting: &Waiting<'_>, serves: bool, current: Option<&Entity>) -> (Rank, Rank) {
        let (cpu, table) = cpu(waiting, serves);
        let rq = cpu.queue.lock();
        let (running, best, pushable) = rq.ranks(&table, current);
        assert_eq!(running, rq.running_rank(current));
        assert_eq!(best, running.min(rq.best_rank(&table, current)));
        (best, pushable)
    }

    #[test]
    fn the_most_urgent_thread_is_found_over_all_classes() {
        let all = Waiting { deadlines: &[6_000, 5_000], priorities: &[10, 30], fair: 2 };
        let rt = |p: u8| Rank::rt(100 - p);
        for (waiting, expected) in [
            (NOTHING, (Rank::IDLE, Rank::IDLE)),
            (Waiting { fair: 1, ..NOTHING }, (Rank::FAIR, Rank::IDLE)),
            (Waiting { fair: 3, priorities: &[1], ..NOTHING }, (rt(1), rt(1))),
            (Waiting { priorities: &[10, 99, 30], ..NOTHING }, (rt(99), rt(99))),
            (Waiting { deadlines: &[5_000], ..NOTHING }, (Rank::deadline(5_000), Rank::deadline(5_000))),
            (Waiting { priorities: &[99], ..all }, (Rank::deadline(5_000), Rank::deadline(5_000))),
            (Waiting { priorities: &[100, 99], ..all }, (Rank::STOP, Rank::deadline(5_000))),
            (Waiting { priorities: &[100], ..NOTHING }, (Rank::STOP, Rank::IDLE)),
        ] {
            assert_eq!(ranks(&waiting, false, None), expected);
        }
    }

    #[test]
    fn the_running_thread_counts_among_the_most_urgent() {
        let (fair, fifo, by) = (runs(Attr::DEFAULT, 0), runs(Attr::fifo(40), 0), runs(deadline_attr(), 5_000));
        let rt = |p: u8| Rank::rt(100 - p);
        assert_eq!(ranks(&NOTHING, false, Some(&fair)).0, Rank::FAIR);
        assert_eq!(ranks(&Waiting { priorities: &[10], ..NOTHING }, false, Some(&fifo)).0, rt(40));
        assert_eq!(ranks(&Waiting { priorities: &[50], ..NOTHING }, false, Some(&fifo)).0, rt(50));
        assert_eq!(ranks(&Waiting { priorities: &[50], ..NOTHING }, false, Some(&by)).0, Rank::deadline(5_000));
        assert_eq!(ranks(&Waiting { deadlines: &[4_000], ..NOTHING }, false, Some(&by)).0, Rank::deadline(4_000));
        assert_eq!(ranks(&Waiting { deadlines: &[6_000], ..NOTHING }, false, Some(&by)).0, Rank::deadline(5_000));
        let (cpu, table) = cpu(&Waiting { priorities: &[50], ..NOTHING }, false);
        let best = cpu.queue.lock().best_rank(&table, Some(&by));
        assert_eq!(best, Rank::deadline(5_000), "a running deadline thread is not forgotten for a waiting priority");
    }

    #[test]
    fn an_active_server_gives_fair_threads_its_deadline() {
        let (fair, fifo) = (runs(Attr::DEFAULT, 0), runs(Attr::fifo(40), 0));
        let serves = Rank::deadline(SERVER);
        let waits = |fair, deadlines| Waiting { deadlines, priorities: &[50], fair };
        assert_eq!(ranks(&waits(1, &[]), true, None).0, serves);
        assert_eq!(ranks(&waits(1, &[]), true, Some(&fifo)).0, serves);
        assert_eq!(ranks(&waits(0, &[]), true, Some(&fair)).0, serves, "it runs by the server");
        assert_eq!(ranks(&waits(0, &[]), true, None).0, Rank::rt(50), "there is nobody to serve");
        assert_eq!(ranks(&waits(1, &[SERVER - 1]), true, None).0, Rank::deadline(SERVER - 1));
        assert_eq!(ranks(&waits(1, &[SERVER + 1]), true, None).0, serves);
        assert_eq!(ranks(&Waiting { priorities: &[100], ..waits(1, &[]) }, true, None).0, Rank::STOP);
        assert_eq!(ranks(&Waiting { fair: 1, ..NOTHING }, true, None).0, serves);
        assert_eq!(ranks(&NOTHING, true, None).0, Rank::IDLE);
    }

    #[test]
    fn those_that_wait_are_counted_without_the_one_that_runs() {
        let (cpu, _) = cpu(&Waiting { deadlines: &[1, 2], priorities: &[3, 4, 5, 6], fair: 3 }, false);
        let rq = cpu.queue.lock();
        assert_eq!(rq.waiting(None), 9);
        assert_eq!(rq.waiting(Some(&runs(Attr::fifo(1), 0))), 8, "a real-time thread stays in its list while it runs");
        assert_eq!(rq.waiting(Some(&runs(Attr::DEFAULT, 0))), 9);
        assert_eq!(rq.waiting(Some(&runs(deadline_attr(), 7))), 9);
    }

    #[test]
    fn deadline_threads_are_pushed_before_real_time_ones() {
        let first = |waiting: &Waiting<'_>| {
            let (cpu, table) = cpu(waiting, false);
            let first = cpu.queue.lock().first_pushable(&table);
            first.map(|t| t.0)
        };
        assert_eq!(first(&Waiting { deadlines: &[6_000, 5_000], priorities: &[9], fair: 1 }), Some(1));
        assert_eq!(first(&Waiting { priorities: &[9, 10], ..NOTHING }), Some(1));
        assert_eq!(first(&Waiting { fair: 1, ..NOTHING }), None);
    }

    #[test]
    fn time_is_accounted_once_and_never_backwards() {
        let (cpu, _) = cpu(&NOTHING, false);
        let mut rq = cpu.queue.lock();
        let passed = [100, 100, 90, 130].map(|now| (rq.elapsed(Nanos(now)), rq.accounted));
        assert_eq!(passed, [(100, 100), (0, 100), (0, 100), (30, 130)]);
    }

    #[test]
    fn latencies_of_equal_priorities_are_joined_and_lower_ones_left_out() {
        let seen = |priority, wakeups, worst| RtLatency { priority, wakeups, worst: Nanos(worst) };
        let merged = |a: RtLatency, b| {
            let mut a = a;
            a.merge(b);
            a
        };
        assert_eq!(merged(seen(5, 2, 70), seen(5, 3, 60)), seen(5, 5, 70));
        assert_eq!(merged(seen(5, 2, 70), seen(5, 3, 80)), seen(5, 5, 80));
        assert_eq!(merged(seen(5, 2, 70), seen(4, 3, 80)), seen(5, 2, 70));
        assert_eq!(merged(seen(5, 2, 70), seen(6, 3, 60)), seen(6, 3, 60));
        let inherits = Entity::new();
        inherits.set_boost(Some(Urgency::Deadline(Reverse(Nanos(700)))));
        assert_eq!(Rank::of(&inherits), Rank::deadline(700));
    }
}
