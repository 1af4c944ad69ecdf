//! POSIX timers by system calls, on a machine that is driven by hand.

use crate::common::{World, err, word};
use abi::checkpoint::{TimerRecord, call};
use abi::{Errno, nr};
use entresol_kernel::{Machine, Trap};
use ids::{CpuId, ThreadIdx};

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

const MS: u64 = 1_000_000;
const ABSTIME: u64 = 1;

fn set(w: &mut World, by: ThreadIdx, id: u32, flags: u64, value: u64, interval: u64) {
    for (i, ns) in [interval, value].into_iter().enumerate() {
        w.poke_u64(word(21) + 16 * i as u64, ns / (1000 * MS));
        w.poke_u64(word(21) + 16 * i as u64 + 8, ns % (1000 * MS));
    }
    assert_eq!(w.call(by, nr::TIMER_SETTIME, [u64::from(id), flags, word(21), 0, 0, 0]), Some(0));
}

fn block(w: &mut World, by: ThreadIdx, signal: u64) {
    w.poke_u64(word(31), 1 << (signal - 1));
    assert_eq!(w.call(by, nr::RT_SIGPROCMASK, [0, word(31), 0, 8, 0, 0]), Some(0));
}

/// The overrun of the next SIGALRM that is pending.
fn take_alarm(w: &mut World, by: ThreadIdx) -> Option<u32> {
    w.poke_u64(word(32), 1 << 13);
    let none = w.timespec(0);
    match w.call(by, nr::RT_SIGTIMEDWAIT, [word(32), word(40), none, 8, 0, 0]) {
        Some(14) => Some(w.peek(word(40) + 20)),
        _ => None,
    }
}

/// Copies all timers' records to where [`resume`] finds them; with `flags` 1 they are gone.
fn copy(w: &mut World, by: ThreadIdx, flags: u64) -> Vec<TimerRecord> {
    w.poke_u64(word(50), 0);
    let count = w.call(by, call::TIMERS_COPY, [word(60), 10, word(50), flags, 0, 0]).unwrap();
    assert!((0..10).contains(&count), "{count}");
    let record = |i: isize| {
        let mut bytes = [0; TimerRecord::SIZE];
        let at = word(60) + (i as usize * TimerRecord::SIZE) as u64;
        Machine::read(&w.kernel.m, at, &mut bytes).unwrap();
        TimerRecord::from_bytes(&bytes)
    };
    (0..count).map(record).collect()
}

fn resume(w: &mut World, by: ThreadIdx, records: &[TimerRecord]) {
    for (i, record) in records.iter().enumerate() {
        let at = word(60) + (i * TimerRecord::SIZE) as u64;
        Machine::write(&w.kernel.m, at, &record.to_bytes()).unwrap();
    }
    let count = records.len() as u64;
    for which in [call::TIMERS_MAKE, call::TIMERS_START] {
        assert_eq!(w.call(by, which, [word(60), count, 0, 0, 0, 0]), Some(count as isize));
    }
}

#[test]
fn a_cpu_timer_expires_by_what_is_consumed_and_counts_its_periods() {
    let (mut w, t) = World::with_threads(1);
    block(&mut w, t[0], 14);
    for clock in [2, 3] {
        assert_eq!(w.call(t[0], nr::TIMER_CREATE, [clock, 0, word(20), 0, 0, 0]), Some(0));
        let id = w.peek(word(20));
        set(&mut w, t[0], id, 0, 10 * MS, 10 * MS);
        w.advance(9 * MS);
        assert_eq!(take_alarm(&mut w, t[0]), None);
        let request = w.timespec(50 * MS);
        assert_eq!(w.call(t[0], nr::NANOSLEEP, [request, 0, 0, 0, 0, 0]), None);
        w.advance(50 * MS);
        assert_eq!(take_alarm(&mut w, t[0]), None, "asleep it consumes nothing");
        w.advance(26 * MS);
        assert_eq!(take_alarm(&mut w, t[0]), Some(2));
        w.advance(4 * MS);
        assert_eq!(take_alarm(&mut w, t[0]), None);
        w.advance(2 * MS);
        assert_eq!(take_alarm(&mut w, t[0]), Some(0));
        delete(&mut w, t[0], id);
    }
    w.advance(100 * MS);
    assert_eq!(take_alarm(&mut w, t[0]), None);
}

/// The tick that a burst sets comes when the burst is over.
#[test]
fn a_thread_that_runs_in_short_bursts_is_told_when_it_leaves_the_cpu() {
    let (mut w, t) = World::with_threads(1);
    block(&mut w, t[0], 14);
    assert_eq!(w.call(t[0], nr::TIMER_CREATE, [3, 0, word(20), 0, 0, 0]), Some(0));
    let id = w.peek(word(20));
    set(&mut w, t[0], id, 0, 2 * MS, 0);
    let burst = |w: &mut World| {
        w.advance(300_000);
        let request = w.timespec(3 * MS);
        assert_eq!(w.call(t[0], nr::NANOSLEEP, [request, 0, 0, 0, 0, 0]), None);
        w.advance(3 * MS);
        take_alarm(w, t[0]).is_some()
    };
    assert_eq!((0..20).take_while(|_| !burst(&mut w)).count(), 6);
}

/// As Linux's `check signal distribution`: whoever consumes the time is told of it, not the main thread that sleeps, though
/// the CPU that it has left gets a tick that was set before, and finds the expiry first.
#[test]
fn a_cpu_timer_tells_who_runs_and_not_who_sleeps() {
    let (mut w, t) = World::with_threads(2);
    w.handle(t[0], 14, 0);
    assert_eq!(w.call(t[1], nr::TIMER_CREATE, [2, 0, word(20), 0, 0, 0]), Some(0));
    let id = w.peek(word(20));
    assert_eq!(w.futex(t[0], 0, [word(30), 0, 0, 0, 0]), None);
    assert_eq!((w.on(0), w.on(1)), (None, Some(t[1])));
    set(&mut w, t[1], id, 0, MS, MS);
    let start = w.now();
    for _ in 0..10 {
        w.kernel.m.state().now += 12 * MS;
        // What it has consumed is known from here on: it has just looked at its clock.
        assert_eq!(w.call(t[1], nr::CLOCK_GETTIME, [2, word(40), 0, 0, 0, 0]), Some(0));
        assert_eq!(w.handled.len() as u64, (w.now() - start) / (12 * MS) - 1);
        let next = w.kernel.trap(CpuId(0), Trap::Interrupt { timer: true, kick: false });
        w.follow(0, next);
    }
    assert_eq!(w.handled, [t[1]; 10]);
}

#[test]
fn taken_timers_go_on_where_they_were() {
    let (mut w, t) = World::with_threads(1);
    block(&mut w, t[0], 14);
    let ids: Vec<u32> = (0..4).map(|_| create(&mut w, t[0]).unwrap()).collect();
    let start = w.now();
    set(&mut w, t[0], ids[0], ABSTIME, start + 10 * MS, 10 * MS);
    w.advance(35 * MS);
    // 0: periodic, told of three. 1: once, its signal on its way. 2: runs. 3: never set.
    assert_eq!(take_alarm(&mut w, t[0]), Some(2));
    set(&mut w, t[0], ids[1], 0, MS, 0);
    set(&mut w, t[0], ids[2], 0, 100 * MS, 0);
    w.advance(2 * MS);
    let looked = copy(&mut w, t[0], 0);
    let taken = copy(&mut w, t[0], 1);
    assert_eq!(looked.len(), 4);
    assert!(looked.iter().zip(&taken).all(|(l, t)| l.id == t.id && l.expires == t.expires && l.flags == t.flags));
    assert_eq!(take_alarm(&mut w, t[0]), None, "what is taken is not delivered");
    assert!(copy(&mut w, t[0], 0).is_empty());
    w.advance(20 * MS);
    resume(&mut w, t[0], &taken);
    // The one that was on its way, and the fourth and fifth period of the first.
    let mut alarms: Vec<u32> = std::iter::from_fn(|| take_alarm(&mut w, t[0])).collect();
    alarms.sort_unstable();
    assert_eq!(alarms, [0, 1]);
    let overrun = |w: &mut World, id: u32| w.call(t[0], nr::TIMER_GETOVERRUN, [u64::from(id), 0, 0, 0, 0, 0]);
    assert_eq!((overrun(&mut w, ids[0]), overrun(&mut w, ids[3])), (Some(1), Some(0)));
    delete(&mut w, t[0], ids[0]);
    let until = 100 * MS - 22 * MS;
    w.advance(until - MS);
    assert_eq!(take_alarm(&mut w, t[0]), None);
    w.advance(MS);
    assert_eq!(take_alarm(&mut w, t[0]), Some(0));
    ids[1..].iter().for_each(|id| delete(&mut w, t[0], *id));
}

#[test]
fn a_bad_record_is_refused_by_its_place_and_its_error() {
    let (mut w, t) = World::with_threads(1);
    create(&mut w, t[0]).unwrap();
    let good = TimerRecord { id: 7, clock: 1, signo: 14, ..TimerRecord::default() };
    let mut make = |records: &[TimerRecord]| {
        for (i, record) in records.iter().enumerate() {
            let at = word(60) + (i * TimerRecord::SIZE) as u64;
            Machine::write(&w.kernel.m, at, &record.to_bytes()).unwrap();
        }
        w.call(t[0], call::TIMERS_MAKE, [word(60), records.len() as u64, 0, 0, 0, 0])
    };
    assert_eq!(make(&[TimerRecord { id: 0, ..good }]), err(Errno::EBUSY));
    assert_eq!(make(&[TimerRecord { id: -1, ..good }]), err(Errno::EINVAL));
    assert_eq!(make(&[TimerRecord { clock: 10, ..good }]), err(Errno::EINVAL));
    assert_eq!(make(&[TimerRecord { signo: 65, ..good }]), err(Errno::EINVAL));
    assert_eq!(make(&[TimerRecord { notify: 4, tid: 77, ..good }]), err(Errno::EINVAL));
    assert_eq!(make(&[good, TimerRecord { id: 8, ..good }, good]), Some(2), "the third is the first again");
    assert_eq!(w.call(t[0], call::TIMERS_COPY, [word(60), 1, 8, 0, 0, 0]), err(Errno::EFAULT));
    assert_eq!(w.call(t[0], call::TIMERS_COPY, [8, 1, word(50), 1, 0, 0]), err(Errno::EFAULT));
    assert_eq!(copy(&mut w, t[0], 0).len(), 3, "nothing was taken");
}
