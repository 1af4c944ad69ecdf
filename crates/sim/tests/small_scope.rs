//! Everything that three threads can do in two acts each, on two CPUs: small enough to try
//! all of it.

use entresol_sim::user::{Mutex, Program, Step, Who, after, script, with};
use entresol_sim::{Config, Setup};
use ids::Nanos;
use sched::Attr;

const ACTS: usize = 4;

fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

fn act(which: usize, m: Mutex) -> Vec<Step> {
    match which {
        0 => vec![Step::Compute(us(40))],
        1 => vec![Step::Sleep(us(30))],
        2 => vec![Step::Lock(m), Step::Compute(us(20)), Step::Unlock(m)],
        _ => vec![Step::SetPolicy(Who::Me, Attr::fifo(3)), Step::Yield, Step::SetPolicy(Who::Me, Attr::DEFAULT)],
    }
}

#[test]
fn every_program_of_six_acts_ends_soundly() {
    let attrs = [Attr::fifo(2), Attr::fifo(1), Attr::DEFAULT];
    let programs = ACTS.pow(6);
    for n in 0..programs {
        let mut setup = Setup::new(Config::new(n as u64, 2));
        let m = setup.mutex();
        let digit = |i: u32| n / ACTS.pow(i) % ACTS;
        let thread = |t: u32| -> Box<dyn Program> {
            let first = act(digit(2 * t), m);
            with(attrs[t as usize], None, after(first, script(act(digit(2 * t + 1), m))))
        };
        let threads = (0..3).map(thread).collect();
        setup.threads(threads).run().expect_sound(n as u64);
    }
}
