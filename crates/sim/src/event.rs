//! A queue of events by virtual time. The seed decides the order of events at the same time.

use crate::rng::Rng;
use ids::{CpuId, Nanos, ThreadIdx};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event. A number next to a CPU or thread is a generation: the event counts only while the generation is current.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The thread on the CPU has used the time it wanted to use.
    UserEnd(CpuId, u32),
    /// The CPU leaves the kernel.
    KernelExit(CpuId, u32),
    /// An idle CPU looks for work.
    Look(CpuId, u32),
    /// An idle CPU has slept as long as it wanted.
    SleptEnough(CpuId, u32),
    /// A kick arrives.
    Kick(CpuId, u32),
    /// The CPU's timer goes off.
    Timer(CpuId, u32),
    /// A host call returns.
    HostDone(ThreadIdx, u32),
    /// A CPU whose thread is in a host call has a timeout.
    CpuWanted(ThreadIdx, u32),
    /// A host call is interrupted.
    Interrupt(ThreadIdx),
    /// A child process exits.
    ChildExit(i32),
    /// Another process sends a message to a mailbox.
    Message(usize),
    /// A CPU that sleeps in the poller is woken by it.
    Polled(CpuId, u32),
}

impl Event {
    /// The CPU that handles it, or the thread in whose host call it happens.
    pub(crate) fn place(self) -> Result<CpuId, Option<ThreadIdx>> {
        match self {
            Event::UserEnd(cpu, _)
            | Event::KernelExit(cpu, _)
            | Event::Look(cpu, _)
            | Event::SleptEnough(cpu, _)
            | Event::Kick(cpu, _)
            | Event::Timer(cpu, _)
            | Event::Polled(cpu, _) => Ok(cpu),
            Event::HostDone(t, _) | Event::CpuWanted(t, _) | Event::Interrupt(t) => Err(Some(t)),
            Event::ChildExit(_) | Event::Message(_) => Err(None),
        }
    }
}

/// An event in the queue: the first one is the greatest.
#[derive(Debug)]
struct Entry {
    time: u64,
    /// Orders events at the same time; the count, those that drew the same.
    drawn: u64,
    count: u64,
    event: Event,
}

impl Entry {
    fn key(&self) -> (u64, u64, u64) {
        (self.time, self.drawn, self.count)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    // The heap asks this most of the time, and times mostly differ.
    fn le(&self, other: &Entry) -> bool {
        if self.time != other.time { self.time > other.time } else { self.key() >= other.key() }
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Events {
    heap: BinaryHeap<Entry>,
    count: u64,
    rng: Rng,
}

impl Events {
    pub(crate) fn new(rng: Rng) -> Events {
        Events { heap: BinaryHeap::new(), count: 0, rng }
    }

    pub(crate) fn at(&mut self, time: Nanos, event: Event) {
        self.count += 1;
        self.heap.push(Entry { time: time.0, drawn: self.rng.bits(), count: self.count, event });
    }

    pub(crate) fn next(&mut self) -> Option<(Nanos, Event)> {
        self.heap.pop().map(|Entry { time, event, .. }| (Nanos(time), event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_first_then_the_seed() {
        let order = |seed| {
            let mut q = Events::new(Rng::new(seed));
            q.at(Nanos(9), Event::Look(CpuId(9), 0));
            (0..6).for_each(|c| q.at(Nanos(5), Event::Look(CpuId(c), 0)));
            std::iter::from_fn(move || q.next()).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_eq!(order(3).last(), Some(&(Nanos(9), Event::Look(CpuId(9), 0))));
    }
}
