//! The machine itself: scripts run, time passes, the same seed gives the same run.

use entresol_sim::user::{Step, View, script};
use entresol_sim::{Config, End, Setup, World};
use ids::Nanos;
use std::cell::RefCell;
use std::rc::Rc;

fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

#[test]
fn a_lone_thread_computes_and_exits() {
    let out = Setup::new(Config::new(1, 1)).main(script([Step::Compute(us(100)), Step::Sleep(us(500))])).run();
    out.expect_sound(1);
    assert_eq!(out.end, End::Exited(0));
    assert!((us(600)..us(620)).contains(&out.time), "{:?}", out.time);
}

fn ping_pong(seed: u64, cpus: usize, rounds: u32) -> (World, Rc<RefCell<u32>>) {
    let mut setup = Setup::new(Config::new(seed, cpus));
    let ball = setup.words(1);
    let hits = Rc::new(RefCell::new(0));
    let player = |me: u32| {
        let hits = hits.clone();
        let mut left = rounds;
        let mut wake = false;
        Box::new(move |v: &mut View<'_>| {
            if std::mem::take(&mut wake) {
                return Step::FutexWake { addr: ball, count: 1 };
            }
            if left == 0 {
                return Step::Exit;
            }
            if v.load(ball) != me {
                return Step::FutexWait { addr: ball, value: 1 - me, timeout: None };
            }
            *hits.borrow_mut() += 1;
            left -= 1;
            wake = true;
            v.store(ball, 1 - me);
            Step::Compute(us(2))
        })
    };
    let (a, b) = (player(0), player(1));
    (setup.threads(vec![a, b]), hits)
}

#[test]
fn ping_pong_returns_every_ball() {
    for cpus in [1, 2, 4] {
        let (mut world, hits) = ping_pong(3, cpus, 100);
        world.run().expect_sound(3);
        assert_eq!(*hits.borrow(), 200);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let hash = |seed| ping_pong(seed, 3, 50).0.run().hash;
    assert_eq!(hash(5), hash(5));
    assert_ne!(hash(5), hash(6));
}
