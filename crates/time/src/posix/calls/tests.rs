//! Rules B3 to B5 and B8, case by case; then the calls against each other on real threads.

use super::*;
use crate::CpuClock;
use crate::cpu::{CpuTimers, ExpiryCache};
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

const C0: CpuId = CpuId(0);

fn timers() -> PosixTimers {
    PosixTimers::new(2).unwrap()
}

fn spec(base: Base) -> Timer {
    Timer::new(base, Notify::Process { signo: 10, thread: false }, 0, 1)
}

fn mono() -> Timer {
    spec(Base::Monotonic)
}

fn create(t: &PosixTimers, wanted: Option<u32>) -> Result<u32, NotReserved> {
    t.create(wanted, mono(), C0, Nanos(0))
}

fn at(ms: u64) -> WallClocks {
    let monotonic = Nanos::from_millis(ms);
    WallClocks { monotonic, realtime: monotonic + Nanos::from_secs(1_000), boottime: monotonic, tai: monotonic }
}

fn value(value: u64, interval: u64) -> ItimerValue {
    ItimerValue { value: Nanos::from_millis(value), interval: Nanos::from_millis(interval) }
}

fn set(t: &PosixTimers, id: u32, v: ItimerValue, absolute: bool, now: u64) -> (ItimerValue, TellCpu) {
    t.settime(id as i32, v, true, absolute, &at(now), None).unwrap()
}

/// The CPU is told of this expiry, on the monotonic clock.
fn first(ms: u64) -> TellCpu {
    Some(First { cpu: C0, base: Base::Monotonic, at: Nanos::from_millis(ms) })
}

/// Everything due at `now`, fired for a program that handles its signals.
fn fire_due(t: &PosixTimers, now: u64) -> Vec<TimerSignal> {
    let mut parked = IgnoredTimers::new();
    core::iter::from_fn(|| t.pop_due(C0, &at(now)))
        .filter_map(|key| t.fire(key, &mut parked, |_| true, |_| false))
        .collect()
}

fn deliver(t: &PosixTimers, signal: &TimerSignal, now: u64) -> Delivery {
    t.deliver(signal.key, &at(now), &mut NoCpuClocks)
}

const EBUSY: Result<u32, NotReserved> = Err(NotReserved::Refused(Error::Busy));
const EINVAL: Refused = Refused::Error(Error::Invalid);

#[test]
fn b3_ids_count_up_and_are_not_used_again() {
    let t = timers();
    assert_eq!((0..40).map(|_| create(&t, None).unwrap()).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    t.delete(7, None).unwrap();
    assert_eq!(create(&t, None), Ok(40));
    assert_eq!(t.table.usage().0, 40);
}

#[test]
fn b3_wanted_ids_move_the_counter_both_ways() {
    let t = timers();
    assert_eq!(create(&t, Some(5000)), Ok(5000));
    assert_eq!(create(&t, Some(100)), Ok(100));
    assert_eq!(create(&t, None), Ok(101));
    assert_eq!(create(&t, Some(5000)), EBUSY);
    assert_eq!(create(&t, None), Ok(102), "a refused one moves nothing");
    assert_eq!(create(&t, Some(i32::MAX as u32)), Ok(i32::MAX as u32));
    assert_eq!(create(&t, None), Ok(0));
}

#[test]
fn b3_a_half_built_timer_holds_its_id_and_answers_nothing() {
    let t = timers();
    let half = t.table.reserve(Some(9), C0, &mut IdSearch::default()).unwrap();
    assert_eq!(create(&t, Some(9)), EBUSY);
    assert_eq!(t.gettime(9, &at(0), None), Err(EINVAL));
    assert_eq!(t.delete(9, None), Err(EINVAL));
    t.table.abandon(half);
    assert_eq!(create(&t, Some(9)), Ok(9));
}

#[test]
fn b3_an_abandoned_creation_burns_its_id() {
    let t = timers();
    let half = t.table.reserve(None, C0, &mut IdSearch::default()).unwrap();
    assert_eq!(half.id, 0);
    t.table.abandon(half);
    assert_eq!(create(&t, None), Ok(1));
}

#[test]
fn b3_the_search_for_an_id_is_bounded_and_goes_on() {
    let t = timers();
    (0..200).for_each(|id| assert_eq!(create(&t, Some(id)), Ok(id)));
    t.table.set_next_id(0);
    let mut search = IdSearch::default();
    let steps = (0..10).take_while(|_| t.table.reserve(None, C0, &mut search) == Err(NotReserved::More)).count();
    assert_eq!(steps, 3, "64 taken ids a step");
    assert_eq!(t.table.next_id(), 201);
}

#[test]
fn b3_prctl() {
    let table = TimerTable::new().unwrap();
    let prctl = |op, rest| table.restore_ids(op, rest);
    assert_eq!(prctl(2, [0; 3]), Ok(0));
    assert_eq!(prctl(1, [0; 3]), Ok(0));
    assert_eq!(prctl(2, [0; 3]), Ok(1));
    assert_eq!(prctl(3, [0; 3]), Err(Error::Invalid));
    assert_eq!(prctl(0, [0, 0, 1]), Err(Error::Invalid));
    assert_eq!(prctl(2, [1, 0, 0]), Err(Error::Invalid));
    assert!(table.is_restoring(), "refused calls change nothing");
    assert_eq!(prctl(0, [0; 3]), Ok(0));
    assert!(!table.is_restoring());
}

#[test]
fn b5_unknown_ids() {
    let t = timers();
    create(&t, None).unwrap();
    for id in [-1, 1, 16, 17, i32::MAX, i32::MIN] {
        assert_eq!(t.gettime(id, &at(0), None), Err(EINVAL), "{id}");
        assert_eq!(t.settime(id, value(1, 0), true, false, &at(0), None).unwrap_err(), EINVAL);
        assert_eq!(t.table.overrun(id), Err(Error::Invalid));
        assert_eq!(t.delete(id, None), Err(EINVAL));
    }
    t.delete(0, None).unwrap();
    assert_eq!(t.delete(0, None), Err(EINVAL));
}

#[test]
fn b5_the_old_setting_comes_back() {
    let t = timers();
    let id = create(&t, None).unwrap();
    assert_eq!(set(&t, id, value(10, 5), false, 0), (value(0, 0), first(10)));
    assert_eq!(set(&t, id, value(20, 0), false, 4).0, value(6, 5));
    assert_eq!(set(&t, id, value(0, 9), false, 4).0, value(20, 0));
    assert_eq!(t.gettime(id as i32, &at(5), None), Ok(value(0, 0)));
    assert_eq!(t.queues.until_first(C0, &at(5)), None);
}

#[test]
fn only_the_earliest_expiry_moves_the_host_timer() {
    let t = timers();
    let ids: Vec<u32> = (0..3).map(|_| create(&t, None).unwrap()).collect();
    assert_eq!(set(&t, ids[0], value(10, 0), false, 0).1, first(10));
    assert_eq!(set(&t, ids[1], value(20, 0), false, 0).1, None);
    assert_eq!(set(&t, ids[2], value(5, 0), false, 0).1, first(5));
    assert_eq!(t.queues.until_first(C0, &at(1)), Some(Nanos::from_millis(4)));
    assert_eq!(t.queues.until_first(CpuId(1), &at(1)), None);
}

#[test]
fn fires_once_delivers_and_comes_again() {
    let t = timers();
    let id = create(&t, None).unwrap();
    set(&t, id, value(10, 10), false, 0);
    assert_eq!(fire_due(&t, 9), []);
    let signals = fire_due(&t, 10);
    assert_eq!(signals.len(), 1);
    assert_eq!((signals[0].id, signals[0].notify.signo()), (id, Some(10)));
    assert_eq!(fire_due(&t, 100), [], "nothing runs until it is delivered");
    assert_eq!(deliver(&t, &signals[0], 105), Delivery::Signal { overrun: 9, tell: first(110) });
    assert_eq!(t.table.overrun(id as i32), Ok(9));
    assert_eq!(fire_due(&t, 110).len(), 1);
}

#[test]
fn absolute_realtime_follows_the_steps_of_the_clock_and_relative_does_not() {
    let t = timers();
    let absolute = t.create(None, spec(Base::Realtime), C0, Nanos(0)).unwrap();
    let relative = t.create(None, spec(Base::Realtime), C0, Nanos(0)).unwrap();
    let noon = value(1_000_000 + 50, 0);
    set(&t, absolute, noon, true, 0);
    set(&t, relative, value(50, 0), false, 0);
    let stepped = WallClocks { realtime: Nanos::from_secs(2_000), ..at(10) };
    let key = t.pop_due(C0, &stepped).unwrap();
    assert_eq!(t.table.look(absolute as i32, |timer| timer.status()), Ok(crate::posix::Status::Armed));
    assert!(t.fire(key, &mut IgnoredTimers::new(), |_| true, |_| false).is_some());
    assert_eq!(t.pop_due(C0, &stepped), None);
    assert_eq!(fire_due(&t, 50)[0].id, relative);
}

/// Deletes a timer whose signal is queued: that needs the process lock.
fn delete_queued(t: &PosixTimers, id: u32) {
    assert_eq!(t.delete(id as i32, None), Err(Refused::NeedsProcess));
    assert_eq!(t.delete(id as i32, Some((&mut NoCpuClocks, &mut IgnoredTimers::new()))), Ok(true));
}

#[test]
fn a_deleted_timer_with_a_queued_signal_lives_until_the_signal_is_taken() {
    let t = timers();
    let id = create(&t, None).unwrap();
    set(&t, id, value(1, 1), false, 0);
    let signal = fire_due(&t, 1)[0];
    delete_queued(&t, id);
    assert_eq!(create(&t, Some(id)), Ok(id), "the id is free at once");
    assert_eq!(t.table.usage().0, 2);
    assert_eq!(deliver(&t, &signal, 2), Delivery::Dropped);
    assert_eq!(t.table.usage().0, 1);
    t.delete(id as i32, None).unwrap();
    let other = create(&t, Some(id)).unwrap();
    set(&t, other, value(1, 0), false, 0);
    let signal = fire_due(&t, 1)[0];
    delete_queued(&t, id);
    t.discard(signal.key);
    assert_eq!(t.table.usage().0, 0);
}

#[test]
fn set_anew_between_queue_and_firing_the_old_expiry_is_forgotten() {
    let t = timers();
    let id = create(&t, None).unwrap();
    set(&t, id, value(10, 0), false, 0);
    let key = t.pop_due(C0, &at(10)).unwrap();
    set(&t, id, value(10, 0), false, 10);
    let mut parked = IgnoredTimers::new();
    assert_eq!(t.fire(key, &mut parked, |_| true, |_| false), None, "early by 10 ms");
    let again = t.pop_due(C0, &at(20)).unwrap();
    assert!(t.fire(key, &mut parked, |_| true, |_| false).is_some(), "whoever comes first fires it");
    assert_eq!(t.fire(again, &mut parked, |_| true, |_| false), None, "once");
}

#[test]
fn deleted_between_queue_and_firing_nothing_fires_even_in_a_reused_slot() {
    let t = timers();
    let id = create(&t, None).unwrap();
    set(&t, id, value(10, 0), false, 0);
    let key = t.pop_due(C0, &at(10)).unwrap();
    t.delete(id as i32, None).unwrap();
    let mut parked = IgnoredTimers::new();
    assert_eq!(t.fire(key, &mut parked, |_| true, |_| false), None);
    let reused = create(&t, Some(id)).unwrap();
    assert_eq!(t.fire(key, &mut parked, |_| true, |_| false), None);
    set(&t, reused, value(10, 0), false, 10);
    assert_eq!(t.fire(key, &mut parked, |_| true, |_| false), None);
    assert_eq!(fire_due(&t, 20).len(), 1);
}

#[test]
fn ignored_timers_are_parked_and_come_back_one_by_one() {
    let t = timers();
    let mut parked = IgnoredTimers::new();
    let ids: Vec<u32> = (0..5).map(|_| create(&t, None).unwrap()).collect();
    ids.iter().for_each(|id| _ = set(&t, *id, value(10, 10), false, 0));
    while let Some(key) = t.pop_due(C0, &at(10)) {
        assert_eq!(t.fire(key, &mut parked, |_| true, |_| true), None);
    }
    assert_eq!(t.delete(ids[2] as i32, None), Err(Refused::NeedsProcess));
    t.delete(ids[2] as i32, Some((&mut NoCpuClocks, &mut parked))).unwrap();
    t.delete(ids[0] as i32, Some((&mut NoCpuClocks, &mut parked))).unwrap();
    let back: BTreeSet<u32> =
        core::iter::from_fn(|| t.unignore(10, &mut parked, |_| true)).flatten().map(|signal| signal.id).collect();
    assert_eq!(back, BTreeSet::from([ids[1], ids[3], ids[4]]));
    assert_eq!(t.unignore(10, &mut parked, |_| true), None, "at most one un-ignore per timer");
}

#[test]
fn flushing_parks_the_periodic_and_frees_the_deleted() {
    let t = timers();
    let mut parked = IgnoredTimers::new();
    let (periodic, once, gone) = (create(&t, None).unwrap(), create(&t, None).unwrap(), create(&t, None).unwrap());
    set(&t, periodic, value(10, 10), false, 0);
    set(&t, once, value(10, 0), false, 0);
    set(&t, gone, value(10, 10), false, 0);
    let signals = fire_due(&t, 10);
    delete_queued(&t, gone);
    signals.iter().for_each(|signal| t.flush(signal.key, &mut parked));
    assert_eq!(t.table.usage().0, 2);
    let back = t.unignore(10, &mut parked, |_| true).flatten().unwrap();
    assert_eq!(back.id, periodic);
    assert_eq!(deliver(&t, &back, 305), Delivery::Signal { overrun: 29, tell: first(310) });
    assert_eq!(t.unignore(10, &mut parked, |_| true), None);
}

#[test]
fn a_thread_that_is_gone_gets_nothing_back_from_the_list() {
    let t = timers();
    let mut parked = IgnoredTimers::new();
    let timer = Timer::new(Base::Monotonic, Notify::Thread { signo: 10, tid: 5 }, 0, 1);
    let id = t.create(None, timer, C0, Nanos(0)).unwrap();
    set(&t, id, value(10, 10), false, 0);
    let key = t.pop_due(C0, &at(10)).unwrap();
    assert_eq!(t.fire(key, &mut parked, |tid| tid == 5, |_| true), None);
    assert_eq!(t.unignore(10, &mut parked, |_| false), Some(None), "one at a time, also of targets that are gone");
    assert_eq!(t.unignore(10, &mut parked, |_| false), None);
    t.delete(id as i32, None).unwrap();
}

/// One thread's clock: 5 is alive, others are gone.
struct Clocks<'a> {
    table: &'a TimerTable,
    timers: CpuTimers,
    cache: ExpiryCache,
    reading: u64,
}

impl Clocks<'_> {
    fn new(t: &PosixTimers, reading: u64) -> Clocks<'_> {
        let mut timers = CpuTimers::new();
        timers.reserve(CpuClock::Sched, 64).unwrap();
        Clocks { table: &t.table, timers, cache: ExpiryCache::new(), reading }
    }
}

impl CpuClocks for Clocks<'_> {
    fn read(&self, base: Base) -> Option<Nanos> {
        matches!(base, Base::ThreadCpu(_, 5)).then_some(Nanos::from_millis(self.reading))
    }
    fn arm(&mut self, _: Base, timer: TimerKey, at: Nanos) {
        if let Some(at) = self.timers.arm(CpuClock::Sched, timer.0, at, &mut &*self.table) {
            self.cache.lower(CpuClock::Sched, at);
        }
    }
    fn disarm(&mut self, _: Base, timer: TimerKey) {
        if self.timers.disarm(CpuClock::Sched, self.table.place(timer), &mut &*self.table) {
            self.cache.recheck(CpuClock::Sched);
        }
    }
}

#[test]
fn a_cpu_timer_needs_the_clocks_and_runs_on_its_own() {
    let t = timers();
    let mut cpu = Clocks::new(&t, 100);
    let id = t.create(None, spec(Base::ThreadCpu(CpuClock::Sched, 5)), C0, Nanos(0)).unwrap() as i32;
    assert_eq!(t.settime(id, value(10, 0), true, false, &at(0), None), Err(Refused::NeedsProcess));
    assert_eq!(t.gettime(id, &at(0), None), Err(Refused::NeedsProcess));
    assert_eq!(t.settime(id, value(10, 4), true, false, &at(0), Some(&mut cpu)), Ok((value(0, 0), None)));
    assert_eq!(cpu.cache.next(CpuClock::Sched), Nanos::from_millis(110));
    cpu.reading = 104;
    assert_eq!(t.gettime(id, &at(9_000), Some(&mut cpu)), Ok(value(6, 4)));
    assert_eq!(t.settime(id, value(0, 0), true, false, &at(0), Some(&mut cpu)), Ok((value(6, 4), None)));
    assert_eq!(cpu.cache.next(CpuClock::Sched), Nanos::ZERO, "the next tick looks again");
}

#[test]
fn a_cpu_timer_rearms_at_delivery_on_its_clock() {
    let t = timers();
    let mut cpu = Clocks::new(&t, 0);
    let id = t.create(None, spec(Base::ThreadCpu(CpuClock::Sched, 5)), C0, Nanos(0)).unwrap() as i32;
    t.settime(id, value(10, 10), true, false, &at(0), Some(&mut cpu)).unwrap();
    cpu.reading = 35;
    let now = crate::cpu::Cputime { exec: Nanos::from_millis(35), ..crate::cpu::Cputime::ZERO };
    let mut keys = vec![];
    cpu.timers.collect(&now, &mut &t.table, |timer, _, _| keys.push(TimerKey(timer)));
    let signal = t.fire(keys[0], &mut IgnoredTimers::new(), |_| true, |_| false).unwrap();
    let delivery = t.deliver(signal.key, &at(0), &mut cpu);
    assert_eq!(delivery, Delivery::Signal { overrun: 2, tell: None });
    assert_eq!(cpu.timers.next()[2], Nanos::from_millis(40));
    t.delete(id, Some((&mut cpu, &mut IgnoredTimers::new()))).unwrap();
    assert_eq!(cpu.timers.next()[2], Nanos::MAX);
}

#[test]
fn the_clock_of_a_thread_that_is_gone() {
    let t = timers();
    let mut cpu = Clocks::new(&t, 0);
    let id = t.create(None, spec(Base::ThreadCpu(CpuClock::Sched, 6)), C0, Nanos(0)).unwrap() as i32;
    let esrch = Err(Refused::Error(Error::NoSuchProcess));
    assert_eq!(t.settime(id, value(1, 0), true, false, &at(0), Some(&mut cpu)), esrch);
    assert_eq!(t.gettime(id, &at(0), Some(&mut cpu)), Ok(ItimerValue::default()));
    assert_eq!(t.delete(id, Some((&mut cpu, &mut IgnoredTimers::new()))), Ok(false));
}

#[test]
fn listing_goes_on_where_it_stopped_and_shows_living_timers_only() {
    let t = timers();
    (0..300).for_each(|i| _ = t.create(None, mono(), C0, Nanos(i)).unwrap());
    (0..300).step_by(3).for_each(|id| assert_eq!(t.delete(id, None), Ok(false)));
    let half = t.table.reserve(None, C0, &mut IdSearch::default()).unwrap();
    let (mut cursor, mut seen, mut steps) = (Some(0), vec![], 0);
    while let Some(from) = cursor {
        cursor = t.table.list(from, 64, |listed| seen.push((listed.created, listed.id)));
        steps += 1;
    }
    assert!(steps > 4);
    seen.sort_unstable();
    let want: Vec<(Nanos, u32)> = (0..300).filter(|i| i % 3 != 0).map(|i| (Nanos(i), i as u32)).collect();
    assert_eq!(seen, want);
    t.table.abandon(half);
}

/// Creating, setting, querying and deleting never wait for a listing. All of it happens in the middle of one, and
/// would hang if the listing held any lock but that of the timer it shows.
#[test]
fn slots_that_were_never_used_are_not_looked_at() {
    let t = timers();
    let id = t.create(None, Timer::new(Base::Monotonic, Notify::DEFAULT, 0, 1), CpuId(1), Nanos(1)).unwrap();
    let mut shown = vec![];
    assert_eq!(t.table.list(0, 2, |listed| shown.push(listed.id)), None);
    assert_eq!(shown, [id]);
}

#[test]
fn a_listing_is_in_nobodys_way() {
    let t = timers();
    for i in 0..100 {
        t.create(None, Timer::new(Base::Monotonic, Notify::DEFAULT, 0, 1), C0, Nanos(i)).unwrap();
    }
    let (mut shown, mut made) = (0, vec![]);
    let end = t.table.list(0, 100, |listed| {
        shown += 1;
        let other = (listed.id as i32 + 1) % 100;
        assert_eq!(t.table.overrun(other), Ok(0));
        set(&t, other as u32, value(1_000, 0), false, 0);
        made.push(create(&t, None).unwrap());
        let gone = create(&t, None).unwrap();
        assert_eq!(t.delete(gone as i32, None), Ok(false));
    });
    assert_eq!((shown, made.len(), end.is_some()), (100, 100, true));
    assert!(made.iter().all(|id| t.table.overrun(*id as i32) == Ok(0)));
}

#[test]
fn memory_of_a_hundred_thousand_armed_timers() {
    let t = timers();
    for i in 0..100_000u32 {
        let id = create(&t, None).unwrap();
        set(&t, id, value(1_000 + i as u64, 0), false, 0);
    }
    let (timers, bytes) = t.table.usage();
    assert_eq!(timers, 100_000);
    // A place in one heap is 16 bytes.
    assert!(bytes / timers + 16 <= 160, "{} bytes each", bytes / timers + 16);
}

#[test]
fn two_thousand_ids_at_a_stride_of_512_cost_little_more_than_dense_ones() {
    let (sparse, dense) = (timers(), timers());
    for i in 0..2048 {
        assert_eq!(create(&sparse, Some(i * 512)), Ok(i * 512));
        create(&dense, None).unwrap();
    }
    let extra = sparse.table.usage().1 as i64 - dense.table.usage().1 as i64;
    assert!(extra.abs() < 12_000, "{extra}");
}

/// B9 on real threads: creations, deletions and look-ups of ids that others use.
#[test]
fn ids_stay_unique_and_calls_see_whole_timers() {
    let t = timers();
    let created: Vec<Vec<u32>> = std::thread::scope(|s| {
        let hands: Vec<_> = (0..4)
            .map(|n| {
                let t = &t;
                s.spawn(move || {
                    let mut mine = vec![];
                    for i in 0..3_000 {
                        let timer = Timer::new(Base::Monotonic, Notify::DEFAULT, 77, 1);
                        let id = t.create(None, timer, CpuId(n % 2), Nanos(0)).unwrap();
                        mine.push(id);
                        for near in [id, id + 1, id.wrapping_sub(5)] {
                            if let Ok(value) = t.table.look(near as i32, |timer| timer.value) {
                                assert_eq!(value, 77);
                            }
                        }
                        set(t, id, value(1_000, 10), false, i);
                        if i % 2 == 0 {
                            t.delete(id as i32, None).unwrap();
                            assert_eq!(t.gettime(id as i32, &at(0), None), Err(EINVAL));
                        }
                    }
                    mine
                })
            })
            .collect();
        hands.into_iter().map(|h| h.join().unwrap()).collect()
    });
    let all: BTreeSet<u32> = created.iter().flatten().copied().collect();
    assert_eq!(all.len(), 12_000, "no id twice");
    assert_eq!(t.table.usage().0, 6_000);
}

/// Exact ids against counted ones: each id has one owner.
#[test]
fn wanted_ids_race_with_counted_ones() {
    let t = timers();
    let won: Vec<u32> = std::thread::scope(|s| {
        let (t, next) = (&t, |t: &PosixTimers| create(t, None).unwrap());
        let counted = s.spawn(move || (0..2_000).map(|_| next(t)).collect::<Vec<u32>>());
        let wanted = s.spawn(move || (0..2_000).filter_map(|id| create(t, Some(id)).ok()).collect::<Vec<u32>>());
        counted.join().unwrap().into_iter().chain(wanted.join().unwrap()).collect()
    });
    assert_eq!(won.iter().collect::<BTreeSet<_>>().len(), won.len());
    assert_eq!(t.table.usage().0, won.len());
}

/// Expiry on one CPU against settings from another: at most one firing per setting.
#[test]
fn expiry_races_with_settime() {
    let t = timers();
    let clock = sync::atomic::AtomicU64::new(0);
    let id = create(&t, None).unwrap();
    let (fired, settings) = std::thread::scope(|s| {
        let (t, clock) = (&t, &clock);
        let expirer = s.spawn(move || {
            let mut parked = IgnoredTimers::new();
            let mut fired = 0u32;
            while clock.load(Relaxed) < 20_000 {
                let now = clock.fetch_add(1, Relaxed) + 1;
                if let Some(key) = t.pop_due(C0, &at(now))
                    && let Some(signal) = t.fire(key, &mut parked, |_| true, |_| false)
                {
                    fired += 1;
                    let _ = deliver(t, &signal, now);
                }
            }
            fired
        });
        let mut settings = 0u32;
        while clock.load(Relaxed) < 20_000 {
            set(t, id, value(2, 0), false, clock.load(Relaxed));
            settings += 1;
            std::thread::yield_now();
        }
        (expirer.join().unwrap(), settings)
    });
    assert!(fired <= settings, "{fired} firings of {settings} settings");
}
