//! Random lives of threads on virtual CPUs, checked after every event. A seed reproduces
//! its run exactly; one that found a bug becomes a named test below.

mod support;

use entresol_sched::{Config, Idle};
use support::{Checked, Life, Machine, Mix, Violation};

/// One run. The error tells what broke, and the last events before.
fn run(seed: u64, cpus: usize, events: usize) -> Result<(), String> {
    let config = Config { cpus, rt_throttle: false, ..Config::default() };
    let mut m = Machine::new(&config, seed);
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
    if !m.settle() {
        return Err(Violation("requests without end".into()));
    }
    m.check_always()?;
    m.check_settled()?;
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

fn many(seeds: std::ops::Range<u64>, cpus: &[usize], events: usize) {
    for seed in seeds {
        let n = cpus[seed as usize % cpus.len()];
        if let Err(story) = run(seed, n, events) {
            panic!("{story}");
        }
    }
}

#[test]
fn small_machines() {
    many(0..1500, &[1, 2, 3, 4], 300);
}

#[test]
fn more_cpus_than_a_word_has_bits() {
    many(1000..1004, &[65, 130], 400);
}
