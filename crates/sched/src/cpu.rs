//! One CPU: what everybody may read without its lock, and the run queue under the lock.

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
    /// It looks for work by itself (`need_resched`, `idle_pull`).
    Spinning,
    /// It sleeps in the host until it is kicked.
    Parked,
}

/// What a CPU publishes. Written under its lock only, except `need_resched`'s readers.
#[derive(Debug)]
pub(crate) struct Published {
    pub current: AtomicU32,
    pub need_resched: AtomicBool,
    /// [`Rank`] of the running thread.
    pub running: FieldU64,
    /// [`Rank`] of the most urgent thread, running or about to; not kept up among fair and idle.
    pub best: FieldU64,
    /// 1 if the running thread may not run elsewhere.
    pub running_pinned: FieldU8,
    /// [`Rank`] of the best pushable thread, or `Rank::IDLE`.
    pub pushable: FieldU64,
    /// 1 if time passing changes something here.
    pub tick: FieldU8,
    /// Runnable threads that wait.
    pub queued: FieldU32,
    /// Fair ones of them.
    pub fair_waiting: FieldU32,
    /// Since when some fair thread waits.
    pub waiting_since: FieldU64,
    /// Sum of the weights of the fair threads.
    pub load: FieldU64,
    /// Usual run length of the running thread, nanoseconds.
    pub usual_run: FieldU32,
}

/// How soon real-time threads ran that were woken: those of the highest priority that there was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RtLatency {
    /// The priority, 1 to 99; 0 if there were none.
    pub priority: u8,
    /// How many wake-ups.
    pub wakeups: u64,
    /// The longest time from a wake-up to its thread's running.
    pub worst: Nanos,
}

impl RtLatency {
    /// Takes in what was seen elsewhere.
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
    /// Of them, those in which the thread that stopped could have gone on and did not offer the CPU.
    pub preemptions: u64,
    /// Threads that became runnable here.
    pub wakeups: u64,
    /// Threads that came from another CPU's queue.
    pub migrations_in: u64,
    /// Of them, those that this CPU fetched.
    pub pulls: u64,
    /// Threads that this CPU gave to another.
    pub pushes: u64,
    /// Parked CPUs that this CPU woke to help.
    pub nudges: u64,
    /// Wake-ups of real-time threads.
    pub rt: RtLatency,
}

/// The run queue of one CPU. What every switch needs is in front.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RunQueue {
    /// The running thread; `NONE` is idle.
    pub current: ThreadIdx,
    /// The running thread's mask has lost this CPU.
    pub exile: bool,
    /// The priority vector that has this CPU.
    pub vector: u8,
    /// Whether the overload mask has this CPU.
    pub overloaded: bool,
    pub absent: bool,
    /// Which of the idle masks has this CPU.
    pub idle: Option<Idle>,
    /// The most urgent rank the running thread has had since it was chosen.
    pub chosen: Rank,
    /// Until when the running thread's time is accounted.
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
    /// Not before this time.
    pub not_before: FieldU64,
    /// How long the last pause was.
    pub pause: FieldU64,
    /// 1 when the last one helped: then there is no pause.
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
    /// What has passed of the running thread's time since it was accounted; from now on it is.
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
        let ready = self.deadline.first().map(|t| Rank::of(table.get(t)));
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

    /// Ranks of what runs, of the most urgent thread, and of the most urgent one that may go elsewhere.
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

    /// Rank of what runs: the server's while it is the reason.
    pub(crate) fn running_rank(&self, current: Option<&Entity>) -> Rank {
        match current {
            None => Rank::IDLE,
            Some(e) if e.is_fair() && self.server.active() => Rank::deadline(self.server.deadline()),
            Some(e) => Rank::of(e),
        }
    }

    /// The most urgent waiting thread that may go elsewhere.
    pub(crate) fn first_pushable(&self, table: &Table) -> Option<ThreadIdx> {
        self.deadline.first_movable(table).or_else(|| self.rt.pushable.first())
    }
}
