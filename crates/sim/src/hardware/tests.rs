//! Threads on machines with a model, against what a hand computes.

use super::*;
use crate::config::Config;
use crate::cost::Cost;
use crate::user::{Step, View, Who, script};
use crate::world::{Outcome, Setup};
use ids::{CpuId, CpuMask};
use std::cell::Cell;
use std::rc::Rc;

/// The same distance everywhere.
const NEAR: ByDistance = ByDistance { sibling: 100, cache: 100, socket: 100, across: 100 };

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// Runs one thread on this machine; also answers the CPU time that it saw.
fn run(seed: u64, hardware: Option<Hardware>, cpus: usize, steps: Vec<Step>) -> (Outcome, Nanos) {
    let cost = Cost { timer: [0, 0], kick: [1_000, 1_000], kick_parked: [1_000, 1_000], ..Cost::host() };
    let setup = Setup::new(Config { cost, hardware, ..Config::new(seed, cpus) });
    let used = Rc::new(Cell::new(Nanos::ZERO));
    let (seen, mut steps) = (used.clone(), script(steps));
    let out = setup.main(Box::new(move |v: &mut View<'_>| {
        seen.set(v.run_time());
        steps.next(v)
    }));
    let out = { out }.run();
    out.expect_sound(seed);
    (out, used.get())
}

/// A machine of these cores that differs from a flat one by nothing else.
fn plain(cores: Vec<Cores>) -> Hardware {
    Hardware { migration: NEAR, line: NEAR, kick: NEAR, cores, ..Hardware::sockets(1, 1, 1) }
}

fn cores(count: u32, siblings: u32, capacity: u64, socket: u32, cache: u32) -> Cores {
    Cores { count, siblings, capacity, socket, cache }
}

/// CPUs 0 and 1 are siblings; 2 shares their cache, 3 their socket, 4 nothing.
fn four_distances() -> Hardware {
    plain(vec![cores(1, 2, 100, 0, 0), cores(1, 1, 100, 0, 0), cores(1, 1, 100, 0, 1), cores(1, 1, 100, 1, 0)])
}

#[test]
fn a_migration_costs_what_the_file_says() {
    let go = |hardware, to| {
        let on = |cpu| Step::SetAffinity(Who::Me, CpuMask::only(CpuId(cpu)));
        run(1, hardware, 5, vec![on(0), Step::Compute(ms(1)), on(to), Step::Compute(ms(1))]).0
    };
    let percent = ByDistance { sibling: 0, cache: 50, socket: 200, across: 1_000 };
    for (to, percent_of_it) in [(1u16, 0), (2, 50), (3, 200), (4, 1_000)] {
        let near = go(Some(four_distances()), to);
        let far = go(Some(Hardware { migration: percent, ..four_distances() }), to);
        let cost = Cost::host().migration;
        assert_eq!(near.time.0 - cost + cost * percent_of_it / 100, far.time.0, "to cpu{to}");
        let mut once = [0; 4];
        once[usize::from(to) - 1] = 1;
        assert_eq!(far.hardware.unwrap().migrations, once);
    }
}

#[test]
fn a_model_without_differences_is_a_flat_machine() {
    let go = |hardware| run(3, hardware, 5, vec![Step::Compute(ms(30)), Step::Sleep(ms(5)), Step::Compute(ms(1))]).0;
    assert_eq!(go(None).hash, go(Some(four_distances())).hash);
}

#[test]
fn a_cache_line_comes_from_far_away() {
    let state = |line| {
        let hardware = Hardware { line, ..four_distances() };
        State::new(Some(&hardware), &crate::rng::Rng::new(1), ms(1))
    };
    let far = state(ByDistance { sibling: 25, cache: 100, socket: 200, across: 350 });
    let from = |cpu| far.line(CpuId(cpu), CpuId(0), 60);
    assert_eq!([from(1), from(2), from(3), from(4)], [15, 60, 120, 210]);
    assert_eq!(State::default().line(CpuId(4), CpuId(0), 60), 60);
}

#[test]
fn half_a_cpu_takes_twice_the_time() {
    let (out, used) = run(1, Some(plain(vec![cores(1, 1, 50, 0, 0)])), 1, vec![Step::Compute(ms(10))]);
    assert!((ms(20)..ms(20) + Nanos(100_000)).contains(&out.time), "{:?}", out.time);
    // What a step costs itself takes twice the time, too.
    assert!((ms(20)..ms(20) + Nanos(1_000)).contains(&used), "{used:?}");
    let figures = out.hardware.unwrap();
    assert!((10_000_000..10_000_500).contains(&figures.work), "{figures:?}");
    assert_eq!((figures.small, figures.stolen), (0, 0), "there is no faster CPU");
    assert!((10_000_000..10_000_500).contains(&figures.slow), "{figures:?}");
}

#[test]
fn small_cores_have_their_share_of_the_work() {
    let machine = plain(vec![cores(1, 1, 100, 0, 0), cores(1, 1, 25, 0, 0)]);
    let on = |cpu| Step::SetAffinity(Who::Me, CpuMask::only(CpuId(cpu)));
    let (out, _) = run(1, Some(machine), 2, vec![on(0), Step::Compute(ms(3)), on(1), Step::Compute(ms(1))]);
    let figures = out.hardware.unwrap();
    assert!((ms(7)..ms(7) + Nanos(100_000)).contains(&out.time), "{:?}", out.time);
    assert_eq!(figures.small / 100_000, 10, "{figures:?}");
    assert_eq!(figures.work / 100_000, 40, "{figures:?}");
}

#[test]
fn a_cpu_that_was_idle_is_slow_at_first() {
    let ramp = Some(Ramp { from: 20, length: 8_000_000 });
    let machine = Hardware { ramp, ..plain(vec![cores(1, 1, 100, 0, 0)]) };
    // Up the ramp 4.4 ms of work take 8 ms, the rest as long as it is.
    let (out, _) = run(1, Some(machine), 1, vec![Step::Compute(Nanos::from_micros(14_400))]);
    // Ticks make the CPU busy without any work of the thread.
    assert!((ms(18) - Nanos(100_000)..ms(18) + Nanos(100_000)).contains(&out.time), "{:?}", out.time);
}

#[test]
fn stolen_time_is_the_fraction_that_was_said_and_no_progress() {
    for (percent, length) in [(5, 2_000_000), (20, 1_000_000), (50, 500_000)] {
        let stolen = Some(Stolen { percent, length });
        let machine = Hardware { stolen, ..plain(vec![cores(1, 1, 100, 0, 0)]) };
        let (out, used) = run(9, Some(machine), 1, vec![Step::Compute(ms(2_000))]);
        let figures = out.hardware.unwrap();
        let share = 100.0 * figures.stolen as f64 / out.time.0 as f64;
        // Fifty pieces or more: the gaps' sum deviates by some 4 %.
        assert!((share / percent as f64 - 1.0).abs() < 0.12, "{share} of {percent}");
        // Its clock ran, and it did all of its work beside.
        assert!((2_000_000_000..2_000_000_500).contains(&figures.work), "{figures:?}");
        let in_user = used.0 - figures.work;
        assert!(in_user <= figures.stolen && in_user > figures.stolen * 9 / 10, "{in_user} of {figures:?}");
    }
}

#[test]
fn every_nanosecond_is_worked_stolen_or_slow() {
    let machine = Hardware::profiles().remove("hybrid").unwrap();
    let (out, used) =
        run(4, Some(Hardware { cores: vec![cores(1, 1, 45, 0, 0)], ..machine }), 1, vec![Step::Compute(ms(500))]);
    let figures = out.hardware.unwrap();
    let sum = figures.work + figures.slow;
    assert!(sum < used.0 && used.0 <= sum + figures.stolen, "{figures:?}, {used:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let go = |seed| {
        let machine = Hardware::profiles().remove("hybrid").unwrap();
        let cpus = machine.cpus();
        run(seed, Some(machine), cpus, vec![Step::Compute(ms(300))]).0.hash
    };
    assert_eq!(go(1), go(1));
    assert_ne!(go(1), go(2));
}
