//! Promises about time, as scenes that run on any configuration, so that they can be played
//! with a fault planted as well.

use super::clockwork::{CPU0, ensure, near};
use super::{Checked, Life, Machine, Violation};
use entresol_sched::{Attr, AttrError, Config, DeadlineParams, Idle};
use ids::{CpuId, CpuMask, Nanos, Policy};

/// A scene: a name and what is played.
pub type Scene = (&'static str, fn(&Config) -> Checked);

pub const SCENES: &[Scene] = &[
    ("shares follow the weights", shares),
    ("a slice lasts as long as it should", slices),
    ("a short slice does not take more than its share", short_slice),
    ("sleeping does not pay a debt", sleeper),
    ("an idle-policy thread gives way at once", idle_policy),
    ("round robin divides evenly", round_robin),
    ("a yield lets equals run", fifo_yield),
    ("a reservation is kept and not exceeded", reservation),
    ("a job that waits does not save its budget up", sporadic),
    ("the earliest deadline runs", earliest),
    ("reservations must fit", admission),
    ("the fair server feeds the starving", starving),
    ("real-time threads alone have all", not_starving),
    ("a parked CPU is woken to help", parked),
    ("threads spread over the CPUs", spread),
    ("fair threads leave a CPU that real time has", taken),
    ("parked CPUs are woken one by the other", helpers),
    ("the CPUs of a large machine, too", many_helpers),
];

const MS: u64 = 1_000_000;

fn machine(config: &Config, cpus: usize) -> Machine {
    Machine::new(&Config { cpus, ..config.clone() }, 1)
}

fn dl(runtime_us: u64, deadline_us: u64, period_us: u64) -> Attr {
    let params = DeadlineParams {
        runtime: Nanos::from_micros(runtime_us),
        deadline: Nanos::from_micros(deadline_us),
        period: Nanos::from_micros(period_us),
    };
    Attr::deadline(params)
}

fn shares(config: &Config) -> Checked {
    let mut m = machine(config, 1);
    let nice = [0i8, 0, 5, -5, 10];
    let weights = [1024u64, 1024, 335, 3121, 110];
    let all = nice.map(|n| m.go(Attr::fair(Policy::Other, n)));
    m.pass(2_000 * MS)?;
    let sum: u64 = weights.iter().sum();
    for (x, w) in all.into_iter().zip(weights) {
        near("share in microseconds", m.used_micros(x), 2_000_000 * w / sum, 4_000)?;
    }
    Ok(())
}

fn slices(config: &Config) -> Checked {
    let mut m = machine(config, 1);
    let (a, b) = (m.go(Attr::DEFAULT), m.go(Attr::DEFAULT));
    m.pass(10 * MS)?;
    let before = m.s.stats(CPU0).switches;
    m.pass(70 * MS)?;
    // 0.7 ms each, rounded up to the tick: 0.7 or 0.8 ms.
    let switches = m.s.stats(CPU0).switches - before;
    ensure((85..=101).contains(&switches), || format!("{switches} switches in 70 ms"))?;
    near("halves", m.used_micros(a), m.used_micros(b), 1_600)
}

fn short_slice(config: &Config) -> Checked {
    let mut m = machine(config, 1);
    let short = m.go(Attr { slice: Nanos::from_micros(100), ..Attr::DEFAULT });
    let long = [0; 3].map(|_| m.go(Attr { slice: Nanos::from_millis(50), ..Attr::DEFAULT }));
    m.pass(40 * MS)?;
    near("the short one", m.used_micros(short), 10_000, 1_000)?;
    long.into_iter().try_for_each(|x| near("a long one", m.used_micros(x), 10_000, 1_000))
}

fn sleeper(config: &Config) -> Checked {
    let mut m = machine(config, 1);
    let (a, b) = (m.go(Attr::DEFAULT), m.go(Attr::DEFAULT));
    for _ in 0..2_000 {
        m.pass(300_000)?;
        // Whoever is `a` sleeps for a moment whenever it runs, hoping for a fresh start.
        if matches!(m.threads[a.index()].life, Life::Running(_)) {
            m.sleep(a);
            m.now += 1_000;
            m.wake(a, CPU0)?;
            m.settle();
        }
    }
    ensure(m.used_micros(a) <= m.used_micros(b) + 2_000, || {
        format!("the sleeper used {} µs, the other {}", m.used_micros(a), m.used_micros(b))
    })
}

fn idle_policy(config: &Config) -> Checked {
    let mut m = machine(config, 1);
    let idle = m.go(Attr::fair(Policy::Idle, 0));
    let other = m.go(Attr::DEFAULT);
    m.pass(200 * MS)?;
    near("the idle one", m.used_micros(idle), 200_000 * 3 / 1027, 900)?;
    m.sleep(other);
    m.pass(MS)?;
    m.wake(other, CPU0)?;
    m.settle();
    ensure(m.cpus[0].current == Some(other), || "the idle-policy thread went on".into())
}

fn round_robin(config: &Config) -> Checked {
    let mut m = machine(&Config { rt_throttle: false, ..config.clone() }, 1);
    let all = [0; 3].map(|_| m.go(Attr::round_robin(7)));
    m.pass(100 * MS)?;
    near("the first slice", m.used_micros(all[0]), 100_000, 0)?;
    m.pass(200 * MS)?;
    all.into_iter().try_for_each(|x| near("a slice", m.used_micros(x), 100_000, 0))
}

fn fifo_yield(config: &Config) -> Checked {
    let mut m = machine(config, 1);
    let all = [0; 3].map(|_| m.go(Attr::fifo(7)));
    for i in 0..7 {
        ensure(m.cpus[0].current == Some(all[i % 3]), || format!("{:?} runs after {i} yields", m.cpus[0].current))?;
        m.schedule(CPU0, entresol_sched::Prev::Yield);
    }
    Ok(())
}

fn reservation(config: &Config) -> Checked {
    let mut m = machine(config, 1);
    let reserved = m.go(dl(10_000, 100_000, 100_000));
    let constrained = m.go(dl(5_000, 20_000, 50_000));
    let rest = m.go(Attr::fifo(99));
    m.pass(1_000 * MS)?;
    near("reserved time", m.used_micros(reserved), 100_000, 0)?;
    near("constrained time", m.used_micros(constrained), 100_000, 0)?;
    near("the rest", m.used_micros(rest), 800_000, 0)
}

fn sporadic(config: &Config) -> Checked {
    let mut m = machine(config, 1);
    let x = m.go(dl(10_000, 100_000, 100_000));
    let _rest = m.go(Attr::DEFAULT);
    for pause in [3, 50, 120, 7, 99, 250, 1] {
        let before = m.used_micros(x);
        m.pass(4 * MS)?;
        m.sleep(x);
        m.pass(pause * MS)?;
        if m.threads[x.index()].life == Life::Blocked {
            m.wake(x, CPU0)?;
            m.settle();
        }
        let start = m.now;
        m.pass(60 * MS)?;
        let used = m.used_micros(x) - before;
        let window = (m.now - start) / 1000 + 4_000 + pause * 1000;
        ensure(used <= 10_000 * (window / 100_000 + 2), || format!("{used} µs in a window of {window} µs"))?;
    }
    Ok(())
}

fn earliest(config: &Config) -> Checked {
    let mut m = machine(config, 2);
    let far = m.go(dl(10_000, 400_000, 400_000));
    let near_one = m.go(dl(10_000, 100_000, 100_000));
    let middle = m.go(dl(10_000, 200_000, 200_000));
    let running: Vec<_> = m.cpus.iter().map(|c| c.current).collect();
    ensure(!running.contains(&Some(far)), || format!("{running:?} run, not {near_one:?} and {middle:?}"))?;
    m.pass(11 * MS)?;
    ensure(m.cpus.iter().any(|c| c.current == Some(far)), || "the third did not follow".into())
}

fn admission(config: &Config) -> Checked {
    let mut m = machine(config, 2);
    let all = [0; 4].map(|_| m.go(Attr::DEFAULT));
    let mut set = |x, attr: &Attr| m.s.set_attr(x, attr, Nanos(2 * MS), &mut m.kicks);
    let is = |what: &str, got: Result<(), AttrError>, due: Result<(), AttrError>| {
        ensure(got == due, || format!("{what}: {got:?}"))
    };
    is("90 % of one CPU", set(all[0], &dl(90_000, 100_000, 100_000)), Ok(()))?;
    is("another 90 %", set(all[1], &dl(90_000, 100_000, 100_000)), Ok(()))?;
    is("20 % too much", set(all[2], &dl(20_000, 100_000, 100_000)), Err(AttrError::Busy))?;
    is("less for the first", set(all[0], &dl(70_000, 100_000, 100_000)), Ok(()))?;
    is("20 % now", set(all[2], &dl(20_000, 100_000, 100_000)), Ok(()))?;
    is("runtime above deadline", set(all[3], &dl(20_000, 10_000, 100_000)), Err(AttrError::Invalid))?;
    is("a priority too", set(all[3], &Attr { rt: ids::RtPriority(1), ..dl(200, 400, 400) }), Err(AttrError::Invalid))?;
    let now = Nanos(3 * MS);
    is("fewer CPUs", m.s.set_affinity(all[0], CpuMask::only(CPU0), now, &mut m.kicks), Err(AttrError::Busy))?;
    m.s.set_affinity(all[3], CpuMask::only(CPU0), now, &mut m.kicks).map_err(|e| Violation(format!("{e:?}")))?;
    let pinned = m.s.set_attr(all[3], &dl(100, 100_000, 100_000), now, &mut m.kicks);
    is("pinned", pinned, Err(AttrError::NotPermitted))
}

fn starving(config: &Config) -> Checked {
    let mut m = machine(&Config { rt_throttle: true, ..config.clone() }, 1);
    let fair = m.go(Attr::DEFAULT);
    let rt = m.go(Attr::fifo(10));
    m.pass(4_000 * MS)?;
    near("fair time", m.used_micros(fair), 200_000, 1_000)?;
    near("real time", m.used_micros(rt), 3_800_000, 1_000)
}

fn not_starving(config: &Config) -> Checked {
    let mut m = machine(&Config { rt_throttle: true, ..config.clone() }, 1);
    let rt = m.go(Attr::fifo(10));
    m.pass(3_000 * MS)?;
    near("real time", m.used_micros(rt), 3_000_000, 0)?;
    let off = machine(&Config { rt_throttle: false, ..config.clone() }, 1);
    let mut m = off;
    let (fair, _rt) = (m.go(Attr::DEFAULT), m.go(Attr::fifo(10)));
    m.pass(3_000 * MS)?;
    near("fair time without the server", m.used_micros(fair), 0, 0)
}

fn parked(config: &Config) -> Checked {
    let mut m = machine(config, 2);
    let here = CpuMask::only(CPU0);
    let _pinned = m.go_on(Attr::DEFAULT, here.clone());
    m.park(CpuId(1));
    ensure(m.cpus[1].idle == Idle::Parked, || "it did not park".into())?;
    let free = m.go_on(Attr::DEFAULT, here);
    m.s.set_affinity(free, CpuMask::first(2), Nanos(m.now), &mut m.kicks).map_err(|e| Violation(format!("{e:?}")))?;
    m.threads[free.index()].mask = CpuMask::first(2);
    // `pass` would let the idle CPU look by itself: here it sleeps until it is kicked.
    for _ in 0..50 {
        m.now += super::clockwork::TICK;
        if m.s.tick_needed(CPU0) {
            m.tick(CPU0);
        }
        m.settle();
        m.check_always()?;
    }
    ensure(m.cpus[1].current.is_some(), || "nobody woke it in 5 ms".into())
}

fn spread(config: &Config) -> Checked {
    let mut m = machine(config, 4);
    let all: Vec<_> = (0..8).map(|_| m.go(Attr::DEFAULT)).collect();
    m.pass(1_000 * MS)?;
    for x in all {
        near("a share of four CPUs for eight", m.used_micros(x), 500_000, 30_000)?;
    }
    Ok(())
}

/// A real-time thread that never waits has one of two CPUs: the fair threads share the other, wherever they began.
fn taken(config: &Config) -> Checked {
    for fair in [2, 3] {
        let mut m = machine(&Config { rt_throttle: true, ..config.clone() }, 2);
        let all: Vec<_> = (0..fair).map(|_| m.go(Attr::DEFAULT)).collect();
        m.pass(20 * MS)?;
        let hog = m.go(Attr::fifo(10));
        m.pass(20 * MS)?;
        let before: Vec<u64> = all.iter().map(|&x| m.used_micros(x)).collect();
        m.pass(600 * MS)?;
        near("the real-time thread", m.used_micros(hog), 620_000, 1_000)?;
        for (x, before) in all.into_iter().zip(before) {
            near("a share of the other CPU", m.used_micros(x) - before, 600_000 / fair, 30_000)?;
        }
    }
    Ok(())
}

/// Seven CPUs are asleep, and eight threads appear on the eighth: within two ticks, not seven, all run.
fn helpers(config: &Config) -> Checked {
    all_help(config, 8)
}

/// As many ticks do for as many CPUs as no search visits one by one.
fn many_helpers(config: &Config) -> Checked {
    all_help(config, 200)
}

fn all_help(config: &Config, cpus: usize) -> Checked {
    let mut m = machine(config, cpus);
    let (here, all) = (CpuMask::only(CPU0), CpuMask::first(cpus));
    let threads: Vec<_> = (0..cpus).map(|_| m.go_on(Attr::DEFAULT, here.clone())).collect();
    for c in 1..cpus {
        m.park(CpuId(c as u16));
    }
    for &t in &threads {
        m.s.set_affinity(t, all.clone(), Nanos(m.now), &mut m.kicks).map_err(|e| Violation(format!("{e:?}")))?;
        m.threads[t.index()].mask = all.clone();
    }
    // As in `parked`: an idle CPU sleeps until it is kicked.
    for _ in 0..2 {
        m.now += super::clockwork::TICK;
        m.tick(CPU0);
        m.settle();
        m.check_always()?;
    }
    let running = m.cpus.iter().filter(|c| c.current.is_some()).count();
    ensure(running == cpus, || format!("{running} of {cpus} CPUs run after two ticks"))
}
