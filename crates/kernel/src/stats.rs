//! The summary of `--stats`.

use crate::Kernel;
use crate::cpu::CALLS;
use crate::machine::Machine;
use ids::CpuId;
use sync::atomic::Ordering::*;

/// Counts of the process, summed over its CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Threads started.
    pub threads_started: u64,
    /// The most threads that lived at once.
    pub threads_peak: u64,
    /// Changes of the running thread.
    pub switches: u64,
    /// Switches that the running thread did not request.
    pub preemptions: u64,
    /// Threads that came to a CPU from another.
    pub migrations: u64,
    /// Wake-ups of the real-time threads of the highest priority.
    pub rt: sched::RtLatency,
    /// Wake-ups.
    pub wakeups: u64,
    /// Ticks.
    pub ticks: u64,
    /// Kicks received.
    pub kicks: u64,
    /// System calls passed on to the host.
    pub passed: u64,
    /// Host calls that had to wait.
    pub waited: u64,
    /// Waits for descriptors that needed no host thread.
    pub parked: u64,
    /// Events that the machine's poller has reported.
    pub events: u64,
    /// How often CPUs with running threads polled for such events.
    pub looks: u64,
}

/// Calls by number, each with how often it waited in the host.
pub type Waiters = [(usize, u64); 4];

impl<M: Machine> Kernel<M> {
    /// Adds up the counters of all CPUs; exact when nothing runs.
    pub fn stats(&self) -> Stats {
        let (peak, started) = self.threads.totals();
        let mut all = Stats { threads_peak: u64::from(peak), threads_started: started, ..Stats::default() };
        for i in 0..self.config.cpus {
            let cpu = CpuId(i as u16);
            let (s, c) = (self.sched.stats(cpu), &self.cpu(cpu).count);
            all.switches += s.switches;
            all.preemptions += s.preemptions;
            all.migrations += s.migrations_in;
            all.rt.merge(s.rt);
            all.wakeups += s.wakeups;
            all.ticks += c.ticks.load(Relaxed);
            all.kicks += c.kicks.load(Relaxed);
            all.passed += c.passed.load(Relaxed);
            all.waited += c.waited.load(Relaxed);
            all.parked += c.parked.load(Relaxed);
            all.events += c.events.load(Relaxed);
            all.looks += c.looks.load(Relaxed);
        }
        all
    }

    /// The calls that waited most often on a host thread, in descending order.
    pub fn calls_waited(&self) -> Waiters {
        let mut most = Waiters::default();
        for nr in 0..CALLS {
            let times = (0..self.config.cpus).map(|i| self.cpu(CpuId(i as u16)).count.waited_by_call.get(nr)).sum();
            let place = most.partition_point(|&(_, others)| others >= times);
            if let Some(behind) = most.get_mut(place..).filter(|behind| !behind.is_empty()) {
                behind.rotate_right(1);
                behind.first_mut().into_iter().for_each(|first| *first = (nr, times));
            }
        }
        most
    }
}
