//! Samples for a profile: at which ticks, and that they add up.

use crate::common::World;
use abi::nr;
use entresol_kernel::Sampling;
use ids::{Nanos, ThreadIdx};

const MS: u64 = 1_000_000;

fn sampled(w: &World, t: ThreadIdx) -> u64 {
    w.kernel.m.state().samples.iter().filter(|(who, _)| *who == t).map(|(_, value)| value.0).sum()
}

/// Two threads on one CPU, sampled so often.
fn world(every: Nanos, wall: bool) -> (World, ThreadIdx, ThreadIdx) {
    let mut w = World::with(1, |config| config.sampling = Some(Sampling { every, wall }));
    let main = ThreadIdx(0);
    let other = w.spawn(main);
    (w, main, other)
}

#[test]
fn every_tick_is_a_sample_and_they_add_up_to_what_was_consumed() {
    let (mut w, main, other) = world(Nanos(MS), false);
    w.advance(40 * MS);
    let ticks = w.kernel.stats().ticks;
    assert_eq!(w.kernel.m.state().samples.len() as u64, ticks);
    assert!((39..=41).contains(&ticks), "{ticks}");
    // What has been consumed since a thread's last sample is less than its turns without a tick.
    let sum = sampled(&w, main) + sampled(&w, other);
    assert!((38 * MS..=40 * MS).contains(&sum), "{sum}");
    assert!(sampled(&w, main) > 15 * MS && sampled(&w, other) > 15 * MS);
}

#[test]
fn a_thread_alone_is_sampled_and_one_that_ends_leaves_a_rest() {
    let mut w = World::with(1, |config| config.sampling = Some(Sampling { every: Nanos(4 * MS), wall: false }));
    // It looks at its timer on the way out of the kernel.
    w.call(ThreadIdx(0), nr::GETTID, [0; 6]);
    w.advance(40 * MS);
    let samples = w.kernel.m.state().samples.clone();
    assert_eq!(samples.len(), 10);
    assert!(samples[1..].iter().all(|(t, value)| (*t, value.0) == (ThreadIdx(0), 4 * MS)), "{samples:?}");
    let main = ThreadIdx(0);
    let other = w.spawn(main);
    w.advance(2 * MS + MS / 2);
    w.later(other, nr::EXIT, [0; 6]);
    w.settle();
    w.advance(MS / 4);
    assert!(w.is_gone(other));
    // Nothing is in two samples, nor missing.
    w.advance(8 * MS);
    let all = sampled(&w, main) + sampled(&w, other) + w.kernel.m.state().unsampled.0;
    assert!((w.now() - 1000 * MS).abs_diff(all) <= 4 * MS, "{all} of {}", w.now() - 1000 * MS);
}

#[test]
fn nothing_ticks_for_it_without_a_profile_or_by_the_wall_clock() {
    for sampling in [None, Some(Sampling { every: Nanos(MS), wall: true })] {
        let mut w = World::with(1, |config| config.sampling = sampling);
        w.advance(40 * MS);
        assert_eq!((w.kernel.stats().ticks, w.kernel.m.state().samples.len()), (0, 0));
    }
}

#[test]
fn a_cpu_that_is_asked_samples_whom_it_runs() {
    let (mut w, main, other) = world(Nanos(MS), true);
    for _ in 0..3 {
        w.advance(5 * MS);
        w.kernel.ask_for_sample(ids::CpuId(0));
        w.settle();
    }
    assert_eq!(w.kernel.m.state().samples.len(), 3);
    let rest = w.kernel.take_unsampled(main).0 + w.kernel.take_unsampled(other).0;
    assert_eq!(sampled(&w, main) + sampled(&w, other) + rest, w.now() - 1000 * MS);
    assert_eq!(w.kernel.take_unsampled(main), Nanos(0), "once");
}
