//! One CPU: what everybody may read without its lock, and the run queue under the lock.

use crate::deadline::DeadlineQueue;
use crate::entity::{Class, Entity};
use crate::fair::FairQueue;
use crate::field::{FieldU8, FieldU32, FieldU64};
use crate::rt::{NO_LEVEL, RtQueue};
use crate::server::FairServer;
use ids::ThreadIdx;
use sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sync::{CachePadded, Lock};

/// How urgent what a CPU runs is; smaller is more urgent.
pub(crate) mod rank {
    use crate::entity::{Class, Entity};
    pub(crate) const STOP: u8 = 0;
    pub(crate) const DEADLINE: u8 = 1;
    /// Real-time level `l` has rank `RT + l`.
    pub(crate) const RT: u8 = 1;
    pub(crate) const FAIR: u8 = 101;
    pub(crate) const IDLE: u8 = 102;

    #[inline]
    pub(crate) fn of(e: &Entity) -> u8 {
        match e.class() {
            Class::Stop => STOP,
            Class::Deadline => DEADLINE,
            Class::Rt => RT + e.level.get(),
            Class::Fair => FAIR,
        }
    }
}

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
    /// Rank of the running thread: see [`rank`].
    pub running: FieldU8,
    /// 1 if the running thread may not run elsewhere.
    pub running_pinned: FieldU8,
    /// Level of the best pushable real-time thread.
    pub pushable: FieldU8,
    /// 1 if time passing changes something here.
    pub tick: FieldU8,
    /// Runnable threads that wait.
    pub queued: FieldU32,
    /// Fair ones of them.
    pub fair_waiting: FieldU32,
    /// Deadline ones of them that may be moved.
    pub deadline_waiting: FieldU32,
    /// Sum of the weights of the fair threads.
    pub load: FieldU64,
    /// Usual run length of the running thread, nanoseconds.
    pub usual_run: FieldU32,
}

/// Counters of one CPU since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuStats {
    /// Changes of the running thread.
    pub switches: u64,
    /// Of them, those in which the thread that stopped could have gone on.
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
}

/// The run queue of one CPU.
#[derive(Debug)]
pub(crate) struct RunQueue {
    /// The running thread; `NONE` is idle.
    pub current: ThreadIdx,
    /// Until when the running thread's time is accounted.
    pub accounted: u64,
    pub fair: FairQueue,
    pub rt: RtQueue,
    pub deadline: DeadlineQueue,
    pub server: FairServer,
    /// The running thread's mask has lost this CPU.
    pub exile: bool,
    /// Whether the idle masks have this CPU.
    pub idle: Option<Idle>,
    pub absent: bool,
    /// What is published in the domain: priority vector and overload.
    pub vector: u8,
    pub overloaded: bool,
    /// When this CPU balances next.
    pub balance_at: u64,
    pub stats: CpuStats,
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
                running: FieldU8::new(rank::IDLE),
                running_pinned: FieldU8::default(),
                pushable: FieldU8::new(NO_LEVEL),
                tick: FieldU8::default(),
                queued: FieldU32::default(),
                fair_waiting: FieldU32::default(),
                deadline_waiting: FieldU32::default(),
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
    /// Runnable threads that wait.
    pub(crate) fn waiting(&self, current: Option<&Entity>) -> u32 {
        let rt_runs = current.is_some_and(|e| e.in_rt_queue());
        self.fair.waiting() + self.rt.len - u32::from(rt_runs) + self.deadline.waiting()
    }

    /// Rank of the most urgent runnable thread, `current` included.
    pub(crate) fn best_rank(&self, current: Option<&Entity>) -> u8 {
        let level = self.rt.active.best();
        let fair = self.fair.waiting() > 0 || current.is_some_and(|e| e.is_fair());
        if level == 0 {
            rank::STOP
        } else if self.deadline.waiting() > 0 || current.is_some_and(|e| e.class() == Class::Deadline) {
            rank::DEADLINE
        } else if level < NO_LEVEL {
            rank::RT + level
        } else if fair {
            rank::FAIR
        } else {
            rank::IDLE
        }
    }
}

/// The priority vector of a CPU whose most urgent thread has rank `r`.
pub(crate) fn vector_of(r: u8) -> u8 {
    match r {
        rank::STOP | rank::DEADLINE => crate::domain::HIGHER,
        rank::FAIR | rank::IDLE => 0,
        rt => 100 - (rt - rank::RT),
    }
}
