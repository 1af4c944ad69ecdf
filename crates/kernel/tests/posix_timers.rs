//! POSIX timers by system calls, on a machine that is driven by hand.

mod common;

use abi::{Errno, nr};
use common::{World, err, word};
use ids::ThreadIdx;

const MONOTONIC: u64 = 1;

/// A timer with SIGALRM: its id, or the error.
fn create(w: &mut World, by: ThreadIdx) -> Result<u32, isize> {
    match w.call(by, nr::TIMER_CREATE, [MONOTONIC, 0, word(20), 0, 0, 0]) {
        Some(0) => Ok(w.peek(word(20))),
        other => Err(other.unwrap()),
    }
}

fn delete(w: &mut World, by: ThreadIdx, id: u32) {
    assert_eq!(w.call(by, nr::TIMER_DELETE, [u64::from(id), 0, 0, 0, 0, 0]), Some(0));
}

#[test]
fn the_limit_on_pending_signals_is_exact_whichever_cpu_charges() {
    for limit in [1, 2, 31, 32, 33, 64, 100] {
        let (mut w, t) = World::with_threads(2);
        w.kernel.m.state().soft_limit = Some(limit);
        // What the first CPU has charged ahead is not lost to the second.
        let first = create(&mut w, t[0]).unwrap();
        delete(&mut w, t[0], first);
        let made: Vec<u32> = std::iter::from_fn(|| create(&mut w, t[1]).ok()).take(1000).collect();
        assert_eq!(made.len() as u64, limit);
        assert_eq!(create(&mut w, t[0]), Err(Errno::EAGAIN.to_ret()));
        // Nor to signals.
        delete(&mut w, t[1], made[0]);
        let (pid, tid) = (500, u64::from(w.tid(t[0])));
        let send = |w: &mut World| {
            w.poke(word(30), 34);
            w.poke(word(30) + 8, -1i32 as u32);
            w.call(t[0], nr::RT_TGSIGQUEUEINFO, [pid, tid, 34, word(30), 0, 0])
        };
        w.poke_u64(word(31), 1 << 33);
        assert_eq!(w.call(t[0], nr::RT_SIGPROCMASK, [0, word(31), 0, 8, 0, 0]), Some(0));
        assert_eq!((send(&mut w), send(&mut w)), (Some(0), err(Errno::EAGAIN)));
    }
}
