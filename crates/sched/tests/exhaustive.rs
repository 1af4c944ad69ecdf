//! Every sequence of a few events on two CPUs and three threads: small scope, nothing left out.

mod support;

use entresol_sched::{Attr, Config, Prev};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};
use support::{Checked, Life, Machine, Violation};

const C0: CpuId = CpuId(0);
const C1: CpuId = CpuId(1);
const DEPTH: u32 = 5;

type Event = fn(&mut Machine) -> Checked;

/// What may happen next.
const EVENTS: &[Event] = &[
    |m| wake(m, 0),
    |m| wake(m, 1),
    |m| wake(m, 2),
    |m| leave(m, C0, Prev::Block),
    |m| leave(m, C1, Prev::Block),
    |m| leave(m, C0, Prev::Yield),
    |m| pin(m, 1, CpuMask::only(C0)),
    |m| pin(m, 1, CpuMask::first(2)),
    |m| pin(m, 2, CpuMask::only(C1)),
    |m| priority(m, 0, Attr::fifo(5)),
    |m| priority(m, 2, Attr::DEFAULT),
    tick_both,
];

fn wake(m: &mut Machine, n: u32) -> Checked {
    m.wake(ThreadIdx(n), C0)
}

fn leave(m: &mut Machine, cpu: CpuId, prev: Prev) -> Checked {
    if let Some(c) = m.cpus[cpu.index()].current {
        if prev == Prev::Block {
            m.s.prepare_block(c);
        }
        m.schedule(cpu, prev);
    }
    Ok(())
}

fn pin(m: &mut Machine, n: u32, mask: CpuMask) -> Checked {
    let now = Nanos(m.now);
    m.s.set_affinity(ThreadIdx(n), mask.clone(), now, &mut m.kicks).map_err(|e| Violation(format!("{e:?}")))?;
    m.threads[n as usize].mask = mask;
    Ok(())
}

fn priority(m: &mut Machine, n: u32, attr: Attr) -> Checked {
    let now = Nanos(m.now);
    m.reordered.insert(ThreadIdx(n));
    m.s.set_attr(ThreadIdx(n), &attr, now, &mut m.kicks).map_err(|e| Violation(format!("{e:?}")))
}

fn tick_both(m: &mut Machine) -> Checked {
    m.now += 2_000_000;
    m.tick(C0);
    m.tick(C1);
    Ok(())
}

/// Plays the events whose numbers are the digits of `code`; kicks are handled at once or only after all.
fn play(code: usize, prompt: bool) -> Checked {
    let config = Config { cpus: 2, rt_throttle: false, ..Config::default() };
    let mut m = Machine::new(&config, code as u64);
    for attr in [Attr::fifo(30), Attr::fifo(20), Attr::fifo(20)] {
        m.start(attr, CpuMask::first(2), C0);
    }
    m.settle();
    let mut left = code;
    for _ in 0..DEPTH {
        m.now += 1_000;
        EVENTS[left % EVENTS.len()](&mut m)?;
        left /= EVENTS.len();
        m.check_always()?;
        if prompt {
            m.settle();
            m.check_settled()?;
        }
    }
    m.settle();
    m.check_always()?;
    m.check_settled()?;
    let running = m.threads.iter().filter(|v| matches!(v.life, Life::Running(_))).count();
    let runnable = m.threads.iter().filter(|v| v.life != Life::Blocked).count();
    if running == 0 && runnable > 0 { Err(Violation("nobody runs".into())) } else { Ok(()) }
}

#[test]
fn every_short_story_ends_well() {
    let parts = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for part in 0..parts {
            scope.spawn(move || (part..EVENTS.len().pow(DEPTH)).step_by(parts).for_each(tell));
        }
    });
}

/// Each story once; whether kicks are prompt alternates along the digits.
fn tell(code: usize) {
    let prompt = code.count_ones().is_multiple_of(2);
    if let Err(Violation(what)) = play(code, prompt) {
        panic!("story {code} (prompt: {prompt}): {what}");
    }
}
