//! Fair threads on several CPUs, as Linux places and moves them.
//!
//! Each CPU has an instance of [`Cfs`](super::Cfs) or [`Linux`](super::Linux). This module decides only where threads go:
//!
//! | when | to where | in `kernel/sched/fair.c` |
//! |---|---|---|
//! | it is created | an idle CPU, or the one with the fewest threads | `sched_balance_find_dst_cpu` |
//! | it wakes | its last CPU or its waker's, whichever has less to do, or an idle one | `wake_affine`, `select_idle_sibling` |
//! | a CPU has nothing to do | there, from the CPU where most threads wait | `sched_balance_newidle` |
//! | a balance, every so many ticks | to the balancing CPU, until the difference is less than two threads | `sched_balance_rq` |
//!
//! A thread that ran in the last half of a millisecond is not moved while it waits, unless balances have failed
//! (`task_hot`). A difference of one thread moves one at every other balance only, so three threads take turns on two CPUs.
//! All CPUs share one cache. Left out: groups, capacities, and what balances cost.

mod balance;

use super::{Cfs, Linux, Luggage, Roams, Share, Thread};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::{CpuId, CpuMask, Nanos};

/// The state of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Sleeps,
    Waits,
    Runs,
}

#[derive(Debug)]
struct Entity {
    share: Share,
    mask: CpuMask,
    /// The CPU whose instance knows it, and its number there.
    cpu: CpuId,
    number: Thread,
    state: State,
    /// When it stopped running.
    ran_until: Nanos,
    /// It has never been woken.
    is_new: bool,
}

struct Cpu {
    design: Box<dyn Roams>,
    /// By the design's numbers.
    threads: Vec<Option<Thread>>,
    running: Option<Thread>,
    /// How many run or wait, and the sum of their weights.
    count: usize,
    weight: u64,
    /// When it balances next, and how often it found nothing to move since it last moved something.
    balances: Nanos,
    failed: u32,
}

/// The CPU of a woken thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Woken {
    /// The CPU.
    pub cpu: CpuId,
    /// That CPU should choose again.
    pub preempts: bool,
}

/// Fair threads on several CPUs.
pub struct Many {
    cpus: Vec<Cpu>,
    threads: Vec<Entity>,
}

impl Many {
    /// EEVDF as of Linux 6.12.
    #[must_use]
    pub fn eevdf(cpus: usize, tick: Nanos) -> Many {
        Many::new(cpus, || Box::new(Linux::new(tick)))
    }

    /// CFS as of Linux 6.5.
    #[must_use]
    pub fn cfs(cpus: usize) -> Many {
        Many::new(cpus, || Box::new(Cfs::default()))
    }

    fn new(cpus: usize, design: impl Fn() -> Box<dyn Roams>) -> Many {
        let cpu = |_| Cpu {
            design: design(),
            threads: Vec::new(),
            running: None,
            count: 0,
            weight: 0,
            balances: Nanos::ZERO,
            failed: 0,
        };
        Many { cpus: (0..cpus).map(cpu).collect(), threads: Vec::new() }
    }

    /// A new thread, which sleeps. Threads are numbered from 0.
    pub fn spawn(&mut self, share: Share, now: Nanos) -> Thread {
        let thread = self.threads.len();
        let (cpu, mask) = (CpuId(0), CpuMask::first(self.cpus.len()));
        let luggage = Luggage { virtual_time: 0, weight: share.weight(), is_new: true, waits: false };
        let number = self.cpus[0].take_in(thread, share, luggage, now);
        let (state, ran_until) = (State::Sleeps, Nanos::ZERO);
        self.threads.push(Entity { share, mask, cpu, number, state, ran_until, is_new: true });
        thread
    }

    /// The thread that runs on a CPU.
    #[must_use]
    pub fn running(&self, cpu: CpuId) -> Option<Thread> {
        self.cpus[cpu.index()].running
    }

    /// How much it asks for.
    #[must_use]
    pub fn share(&self, thread: Thread) -> Share {
        self.threads[thread].share
    }

    /// Whether it may run there.
    #[must_use]
    pub fn allows(&self, thread: Thread, cpu: CpuId) -> bool {
        self.threads[thread].mask.contains(cpu)
    }

    /// A thread that sleeps or runs may use these CPUs from now on. One that runs elsewhere must be blocked and woken.
    pub fn set_mask(&mut self, thread: Thread, mask: CpuMask) {
        self.threads[thread].mask = mask;
    }

    /// A running thread asks for another share. It stops running, and waits.
    pub fn set_share(&mut self, thread: Thread, share: Share, now: Nanos) {
        let cpu = self.threads[thread].cpu;
        self.block(cpu, now);
        self.threads[thread].share = share;
        self.move_to(thread, cpu, now);
        self.enqueue(thread, now);
    }

    /// A sleeping thread competes from now on; `waker`: the CPU whose thread woke it, if it was one.
    pub fn wake(&mut self, thread: Thread, waker: Option<CpuId>, now: Nanos) -> Woken {
        let Entity { cpu, number, ref mask, .. } = self.threads[thread];
        // A thread that pays a debt is still in its queue, and goes on there (`ttwu_runnable`).
        if !mask.contains(cpu) || !self.cpus[cpu.index()].design.pays_debt(number) {
            let target = self.place(thread, waker);
            if target != self.threads[thread].cpu {
                self.move_to(thread, target, now);
            }
        }
        self.enqueue(thread, now);
        let cpu = self.threads[thread].cpu;
        Woken { cpu, preempts: self.cpus[cpu.index()].design.must_choose() }
    }

    /// The running thread of a CPU sleeps from now on.
    pub fn block(&mut self, cpu: CpuId, now: Nanos) {
        let c = &mut self.cpus[cpu.index()];
        let Some(thread) = c.running.take() else { return };
        c.design.block(now);
        self.threads[thread].ran_until = now;
        self.set_state(thread, State::Sleeps);
    }

    /// The running thread of a CPU lets others run.
    pub fn give_way(&mut self, cpu: CpuId, now: Nanos) {
        self.cpus[cpu.index()].design.give_way(now);
    }

    /// The tick of a CPU: the running thread's time may be over, and threads may come from other CPUs.
    pub fn tick(&mut self, cpu: CpuId, now: Nanos) {
        self.cpus[cpu.index()].design.tick(now);
        self.balance(cpu, now);
    }

    /// The thread that runs on a CPU from now on; a CPU without any takes one from another.
    #[must_use]
    pub fn choose(&mut self, cpu: CpuId, now: Nanos) -> Option<Thread> {
        if self.cpus[cpu.index()].count == 0 {
            self.take_one(cpu, now);
        }
        let before = self.cpus[cpu.index()].running;
        let c = &mut self.cpus[cpu.index()];
        let chosen = c.design.choose(now).and_then(|number| c.threads[number]);
        c.running = chosen;
        if chosen != before {
            if let Some(thread) = before.filter(|&thread| self.threads[thread].state == State::Runs) {
                self.threads[thread].ran_until = now;
                self.set_state(thread, State::Waits);
            }
            if let Some(thread) = chosen {
                self.set_state(thread, State::Runs);
            }
        }
        chosen
    }

    fn enqueue(&mut self, thread: Thread, now: Nanos) {
        let Entity { cpu, number, state, .. } = self.threads[thread];
        debug_assert_eq!(state, State::Sleeps, "thread {thread} is woken twice");
        self.threads[thread].is_new = false;
        self.set_state(thread, State::Waits);
        self.cpus[cpu.index()].design.wake(number, now);
    }

    fn set_state(&mut self, thread: Thread, state: State) {
        let entity = &mut self.threads[thread];
        let c = &mut self.cpus[entity.cpu.index()];
        let weight = u64::from(entity.share.weight());
        match (core::mem::replace(&mut entity.state, state), state) {
            (State::Sleeps, State::Waits | State::Runs) => (c.count, c.weight) = (c.count + 1, c.weight + weight),
            (State::Waits | State::Runs, State::Sleeps) => (c.count, c.weight) = (c.count - 1, c.weight - weight),
            _ => {}
        }
    }

    /// Moves a sleeping thread.
    fn move_to(&mut self, thread: Thread, to: CpuId, now: Nanos) {
        let Entity { cpu, number, share, .. } = self.threads[thread];
        let from = &mut self.cpus[cpu.index()];
        from.threads[number] = None;
        let luggage = from.design.depart(number, now);
        let number = self.cpus[to.index()].take_in(thread, share, luggage, now);
        let entity = &mut self.threads[thread];
        (entity.cpu, entity.number) = (to, number);
    }
}

impl Cpu {
    fn take_in(&mut self, thread: Thread, share: Share, luggage: Luggage, now: Nanos) -> Thread {
        let number = self.design.arrive(share, luggage, now);
        if self.threads.len() <= number {
            self.threads.resize(number + 1, None);
        }
        self.threads[number] = Some(thread);
        number
    }
}

#[cfg(test)]
mod tests;
