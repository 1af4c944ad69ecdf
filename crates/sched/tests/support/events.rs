//! What may happen on the virtual machine, drawn at random.

use super::{Checked, Life, Machine, Violation, t};
use entresol_sched::{Attr, AttrError, DeadlineParams, Prev, Urgency};
use ids::{CpuId, CpuMask, Nanos, Policy, RtPriority, ThreadIdx};

/// How often what happens: each run draws its own mix, so that rare combinations are common in some runs.
#[derive(Clone, Debug)]
pub struct Mix {
    weights: [usize; 12],
    /// Percent of threads that are real-time, and of those pinned to one CPU.
    pub rt: u32,
    pub pinned: u32,
    /// Percent of events after which kicks are handled at once.
    pub prompt: u32,
    /// Percent of changes of attributes that make a thread a deadline thread.
    pub deadline: u32,
    pub threads: usize,
    pub absences: bool,
}

impl Mix {
    pub fn draw(m: &mut Machine) -> Mix {
        let mut weights = [0; 12];
        weights.iter_mut().for_each(|w| *w = if m.rng.chance(25) { 0 } else { 1 + m.rng.below(8) });
        // Without wake-ups and waits nothing happens.
        weights[0] += 4;
        weights[1] += 3;
        Mix {
            weights,
            rt: [0, 30, 70, 100][m.rng.below(4)],
            pinned: [0, 10, 50][m.rng.below(3)],
            prompt: [100, 100, 50, 10][m.rng.below(4)],
            deadline: [0, 0, 20, 60][m.rng.below(4)],
            threads: 2 + m.rng.below(3 * m.cpus.len() + 4),
            absences: m.rng.chance(25),
        }
    }
}

impl Machine {
    pub fn some_cpu(&mut self) -> CpuId {
        CpuId(self.rng.below(self.cpus.len()) as u16)
    }

    pub fn some_mask(&mut self, mix: &Mix) -> CpuMask {
        if self.rng.chance(mix.pinned) {
            return CpuMask::only(self.some_cpu());
        }
        let mut m = CpuMask::empty();
        for c in self.ids() {
            if self.rng.chance(70) {
                m.insert(c);
            }
        }
        if self.domains.is_empty() {
            return if m.is_empty() { CpuMask::first(self.cpus.len()) } else { m };
        }
        // Deadline threads need all of a domain.
        let domain = self.domains[self.rng.below(self.domains.len())].clone();
        let m = m.and(&domain);
        if m.is_empty() || self.rng.chance(mix.deadline / 2) { domain } else { m }
    }

    pub fn some_attr(&mut self, mix: &Mix) -> Attr {
        if self.rng.chance(mix.rt) {
            let p = 1 + self.rng.below(5) as u8 * 20;
            return if self.rng.chance(60) { Attr::fifo(p) } else { Attr::round_robin(p) };
        }
        let nice = self.rng.below(40) as i8 - 20;
        Attr::fair([Policy::Other, Policy::Other, Policy::Batch, Policy::Idle][self.rng.below(4)], nice)
    }

    fn some_thread(&mut self, wanted: impl Fn(Life) -> bool) -> Option<ThreadIdx> {
        let n = self.threads.len();
        let start = self.rng.below(n);
        (0..n).map(|i| (start + i) % n).find(|&i| wanted(self.threads[i].life)).map(t)
    }

    /// One random event.
    pub fn event(&mut self, mix: &Mix) -> Checked {
        let most = if self.rng.chance(10) { 400_000 } else { 5_000 };
        self.now += 1 + self.rng.below(most) as u64;
        let total: usize = mix.weights.iter().sum();
        let mut draw = self.rng.below(total);
        let which = mix.weights.iter().position(|&w| {
            let hit = draw < w;
            draw = draw.wrapping_sub(w);
            hit
        });
        let cpu = self.some_cpu();
        match which.unwrap_or(0) {
            0 => return self.event_wake(cpu),
            1 => self.event_block(cpu)?,
            2 => self.event_tick(cpu),
            3 => self.event_leave(cpu, Prev::Yield),
            4 => self.event_affinity(mix),
            5 => self.event_attr(mix),
            6 => self.event_boost()?,
            7 => self.event_start(mix, cpu),
            8 => self.event_leave(cpu, Prev::Exit),
            9 => self.event_idle(cpu),
            10 => self.event_cancel(cpu),
            _ => self.event_presence(mix, cpu),
        }
        Ok(())
    }

    fn event_wake(&mut self, from: CpuId) -> Checked {
        let Some(w) = self.some_thread(|l| l == Life::Blocked) else { return Ok(()) };
        self.tell(format!("wake {w:?} from {from:?}"));
        self.wake(w, from)
    }

    /// The running thread of a CPU waits; sometimes it is woken before it has gone.
    fn event_block(&mut self, cpu: CpuId) -> Checked {
        let Some(c) = self.cpus[cpu.index()].current else { return Ok(()) };
        self.s.prepare_block(c);
        if self.rng.chance(15) {
            self.tell(format!("{c:?} on {cpu:?} is woken before it waits"));
            self.threads[c.index()].life = Life::Blocked;
            self.wake(c, cpu)?;
            self.wake_again(c, cpu)?;
            self.schedule(cpu, Prev::Block);
            self.after_early_wake(c);
            return Ok(());
        }
        self.tell(format!("{c:?} on {cpu:?} waits"));
        self.schedule(cpu, Prev::Block);
        Ok(())
    }

    /// A second waker comes too late.
    fn wake_again(&mut self, c: ThreadIdx, cpu: CpuId) -> Checked {
        self.wake(c, cpu)
    }

    /// The books after a wait that did not happen.
    fn after_early_wake(&mut self, c: ThreadIdx) {
        if self.threads[c.index()].life == Life::Blocked {
            self.threads[c.index()].life = Life::Ready;
        }
    }

    fn event_cancel(&mut self, cpu: CpuId) {
        if let Some(c) = self.cpus[cpu.index()].current {
            self.tell(format!("{c:?} on {cpu:?} changes its mind"));
            self.s.prepare_block(c);
            self.s.cancel_block(c);
            self.schedule(cpu, Prev::Block);
            self.after_early_wake(c);
        }
    }

    fn event_tick(&mut self, cpu: CpuId) {
        self.tell(format!("tick on {cpu:?}"));
        self.tick(cpu);
    }

    fn event_leave(&mut self, cpu: CpuId, prev: Prev) {
        if let Some(c) = self.cpus[cpu.index()].current {
            self.tell(format!("{c:?} on {cpu:?}: {prev:?}"));
            self.schedule(cpu, prev);
            if prev == Prev::Exit {
                self.s.detach(c);
            }
        }
    }

    fn event_affinity(&mut self, mix: &Mix) {
        let mask = self.some_mask(mix);
        if let Some(x) = self.some_thread(|l| l != Life::Dead) {
            self.tell(format!("mask of {x:?} := {mask:?}"));
            match self.s.set_affinity(x, mask.clone(), Nanos(self.now), &mut self.kicks) {
                Ok(()) => {
                    let old = core::mem::replace(&mut self.threads[x.index()].mask, mask);
                    if old.count() == 1 {
                        self.came_pinned.insert(x);
                    }
                }
                Err(e) => assert_eq!((e, self.s.attr(x).policy), (AttrError::Busy, Policy::Deadline)),
            }
        }
    }

    fn some_reservation(&mut self) -> Attr {
        let period = 200 + self.rng.below(2_000) as u64;
        let deadline = period / (1 + self.rng.below(2) as u64);
        Attr::deadline(DeadlineParams {
            runtime: Nanos::from_micros(2 + self.rng.below(deadline as usize / 2) as u64),
            deadline: Nanos::from_micros(deadline),
            period: Nanos::from_micros(period),
        })
    }

    fn event_attr(&mut self, mix: &Mix) {
        let attr = if self.rng.chance(mix.deadline) { self.some_reservation() } else { self.some_attr(mix) };
        if let Some(x) = self.some_thread(|l| l != Life::Dead) {
            self.tell(format!("{x:?} := {:?} {} {}", attr.policy, attr.rt.0, attr.nice.0));
            let result = self.s.set_attr(x, &attr, Nanos(self.now), &mut self.kicks);
            assert!(result.is_ok() || attr.policy == Policy::Deadline, "{result:?}");
            self.reordered.insert(x);
        }
    }

    fn event_boost(&mut self) -> Checked {
        let boost = match self.rng.below(4) {
            0 => Some(Urgency::Rt(RtPriority(1 + self.rng.below(99) as u8))),
            1 => Some(Urgency::Deadline(core::cmp::Reverse(Nanos(self.now + self.rng.below(1_000_000) as u64)))),
            _ => None,
        };
        if let Some(x) = self.some_thread(|l| l != Life::Dead) {
            self.tell(format!("boost of {x:?} := {boost:?}"));
            self.s.set_boost(x, boost, Nanos(self.now), &mut self.kicks);
            self.reordered.insert(x);
            let attr = self.s.attr(x);
            let own = if attr.policy.is_rt() { Urgency::Rt(attr.rt) } else { Urgency::Fair };
            let due = own.max(boost.unwrap_or(Urgency::Fair));
            if attr.policy != Policy::Deadline && self.s.urgency(x) != due {
                return Err(Violation(format!("{x:?} has urgency {:?}, not {due:?}", self.s.urgency(x))));
            }
        }
        Ok(())
    }

    fn event_start(&mut self, mix: &Mix, from: CpuId) {
        if self.threads.iter().filter(|v| v.life != Life::Dead).count() < mix.threads {
            let (attr, mask) = (self.some_attr(mix), self.some_mask(mix));
            let x = self.start(attr, mask, from);
            self.tell(format!("{x:?} starts: {:?} {}", attr.policy, attr.rt.0));
        }
    }

    fn event_idle(&mut self, cpu: CpuId) {
        if self.rng.chance(50) {
            self.tell(format!("{cpu:?} looks for work"));
            self.look(cpu);
        } else {
            self.tell(format!("{cpu:?} parks"));
            self.park(cpu);
        }
    }

    /// A CPU loses its carrier, which can happen only while it is idle, or gets one again. One is always served.
    fn event_presence(&mut self, mix: &Mix, cpu: CpuId) {
        let others = self.cpus.iter().filter(|c| !c.absent).count() > 1;
        let c = &self.cpus[cpu.index()];
        if !mix.absences || c.current.is_some() || !(c.absent || others) {
            return;
        }
        let absent = !c.absent;
        self.tell(format!("{cpu:?} absent: {absent}"));
        self.cpus[cpu.index()].absent = absent;
        self.s.set_absent(cpu, absent, Nanos(self.now), &mut self.kicks);
        if !absent {
            self.look(cpu);
        }
    }
}
