//! Whole random lives: events, and checks after each.

use super::events::Mix;
use super::{Checked, Life, Machine, Violation};
use entresol_sched::{Config, Idle};
use ids::Policy;

/// One run. The error tells what broke, and the last events before.
pub fn run(config: &Config, seed: u64, cpus: usize, events: usize) -> Result<(), String> {
    let config = Config { cpus, rt_throttle: seed % 4 == 3, ..config.clone() };
    let mut m = Machine::new(&config, seed);
    m.throttles = config.rt_throttle;
    let mix = Mix::draw(&mut m);
    let result = live(&mut m, &mix, events);
    result.map_err(|Violation(what)| {
        let tail = m.story.iter().rev().take(25).rev().cloned().collect::<Vec<_>>().join("\n");
        format!("seed {seed}, {cpus} CPUs: {what}\n{tail}\n{}\n{mix:?}", m.picture())
    })
}

fn live(m: &mut Machine, mix: &Mix, events: usize) -> Checked {
    for i in 0..events {
        m.event(mix)?;
        m.check_always()?;
        let prompt = m.rng.chance(mix.prompt);
        if prompt || i % 16 == 15 {
            settle_and_check(m)?;
        } else {
            let cpu = m.some_cpu();
            m.tell(format!("{cpu:?} handles its kick"));
            m.handle_one(cpu);
            m.check_always()?;
        }
    }
    settle_and_check(m)?;
    m.check_progress()
}

fn settle_and_check(m: &mut Machine) -> Checked {
    // The end of a budget is seen by a tick.
    for cpu in m.ids() {
        if m.cpus[cpu.index()].current.is_some_and(|x| m.s.attr(x).policy == Policy::Deadline) {
            m.tick(cpu);
        }
    }
    if !m.settle() {
        return Err(Violation("requests without end".into()));
    }
    m.check_always()?;
    if !m.throttles {
        m.check_settled()?;
    }
    // Idle CPUs that spin have looked: whoever has waited long enough has been taken.
    m.now += 3_000;
    for cpu in m.ids() {
        if m.cpus[cpu.index()].idle == Idle::Spinning {
            m.look(cpu);
            m.check_always()?;
        }
    }
    m.settle();
    m.check_always()?;
    let spinning = m.cpus.iter().all(|c| c.current.is_some() || c.absent || c.idle == Idle::Spinning);
    let few = m.threads.iter().filter(|v| v.life == Life::Ready).count() <= 8;
    if spinning && few { m.check_idle(3_000) } else { Ok(()) }
}
