//! POSIX timers under a model checker: look-up against delete, wanted against counted
//! ids, expiry against settime and delete. Run with `RUSTFLAGS="--cfg shuttle"`.
#![cfg(shuttle)]

use ids::{CpuId, Nanos};
use shuttle::thread;
use std::sync::Arc;
use time::cpu::itimer::ItimerValue;
use time::posix::{
    Base, Delivery, IgnoredTimers, NoCpuClocks, Notify, PosixTimers, Refused, Status, Timer, TimerSignal, WallClocks,
};

const SCHEDULES: usize = 5_000;
const C0: CpuId = CpuId(0);

/// Random schedules, then schedules with few switches at odd places.
fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(model.clone(), SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

fn timers() -> Arc<PosixTimers> {
    Arc::new(PosixTimers::new(1).unwrap())
}

fn create(t: &PosixTimers, wanted: Option<u32>, value: u64) -> Option<u32> {
    let timer = Timer::new(Base::Monotonic, Notify::DEFAULT, value, 1);
    t.create(wanted, timer, C0, Nanos(0)).ok()
}

fn at(now: u64) -> WallClocks {
    WallClocks { monotonic: Nanos(now), ..WallClocks::default() }
}

fn set(t: &PosixTimers, id: u32, value: u64, interval: u64, now: u64) {
    let new = ItimerValue { value: Nanos(value), interval: Nanos(interval) };
    t.settime(id as i32, new, true, false, &at(now), None).unwrap();
}

fn expire(t: &PosixTimers, now: u64) -> Option<TimerSignal> {
    let key = t.pop_due(C0, &at(now))?;
    t.fire(key, &mut IgnoredTimers::new(), |_| true, |_| false)
}

#[test]
fn a_look_up_sees_its_timer_or_none() {
    check(|| {
        let t = timers();
        // Neighbours in one shard, so that nodes come and go on the way.
        let (stays, goes, comes) = (16, 32, 48);
        create(&t, Some(stays), stays as u64).unwrap();
        create(&t, Some(goes), goes as u64).unwrap();
        let u = t.clone();
        let changer = thread::spawn(move || {
            u.delete(goes as i32, None).unwrap();
            create(&u, Some(comes), comes as u64).unwrap();
            u.delete(comes as i32, None).unwrap();
        });
        for id in [stays, goes, comes, stays] {
            let seen = t.table.look(id as i32, |timer| timer.value);
            assert!(seen.is_err() && id != stays || seen == Ok(id as u64), "{id}: {seen:?}");
        }
        changer.join().unwrap();
        assert!(t.table.look(stays as i32, |_| ()).is_ok());
        assert_eq!(t.table.usage().0, 1);
    });
}

#[test]
fn a_wanted_and_a_counted_id_are_never_the_same() {
    check(|| {
        let t = timers();
        let u = t.clone();
        let counter = thread::spawn(move || [create(&u, None, 1), create(&u, None, 2)]);
        let wanted = create(&t, Some(1), 3);
        let counted = counter.join().unwrap();
        let mut ids: Vec<u32> = counted.into_iter().chain([wanted]).flatten().collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "an id was given twice");
        assert_eq!(t.table.usage().0, all);
    });
}

#[test]
fn an_expiry_against_a_setting_is_never_early_and_never_lost() {
    check(|| {
        let t = timers();
        let id = create(&t, None, 0).unwrap();
        set(&t, id, 10, 0, 0);
        let u = t.clone();
        let setter = thread::spawn(move || set(&u, id, 10, 0, 10));
        let fired = expire(&t, 10);
        setter.join().unwrap();
        // In either order the new setting stands: firing after it would be early.
        assert_eq!(t.table.look(id as i32, |timer| timer.status()), Ok(Status::Armed));
        if let Some(signal) = fired {
            // Its signal came first and is stale now.
            assert_eq!(t.deliver(signal.key, &at(11), &mut NoCpuClocks), Delivery::Dropped);
        }
        assert_eq!(expire(&t, 19), None, "early");
        assert!(expire(&t, 20).is_some(), "lost");
    });
}

#[test]
fn two_expirers_and_a_setting_fire_once_per_setting() {
    check(|| {
        let t = timers();
        let id = create(&t, None, 0).unwrap();
        set(&t, id, 10, 0, 0);
        let expirers: Vec<_> = (0..2)
            .map(|_| {
                let t = t.clone();
                thread::spawn(move || expire(&t, 30).is_some() as u32)
            })
            .collect();
        set(&t, id, 10, 0, 10);
        let mut fired: u32 = expirers.into_iter().map(|e| e.join().unwrap()).sum();
        fired += expire(&t, 30).is_some() as u32;
        assert!((1..=2).contains(&fired), "{fired} firings of two settings");
        assert_eq!(t.table.look(id as i32, |timer| timer.status()), Ok(Status::Disarmed));
        assert_eq!(t.queues.until_first(C0, &at(0)), None);
    });
}

#[test]
fn an_expiry_against_a_delete_leaves_nothing_behind() {
    check(|| {
        let t = timers();
        let id = create(&t, None, 0).unwrap();
        set(&t, id, 10, 10, 0);
        let u = t.clone();
        let deleter = thread::spawn(move || {
            // As the kernel does: by itself, and if the signal is somewhere, with the process's lock.
            match u.delete(id as i32, None) {
                Err(Refused::NeedsProcess) => {
                    u.delete(id as i32, Some((&mut NoCpuClocks, &mut IgnoredTimers::new()))).unwrap()
                }
                done => done.unwrap(),
            };
            // The slot is used again at once.
            create(&u, Some(id), 1).unwrap()
        });
        let fired = expire(&t, 10);
        let again = deleter.join().unwrap();
        if let Some(signal) = fired {
            assert_eq!(t.deliver(signal.key, &at(11), &mut NoCpuClocks), Delivery::Dropped);
        }
        assert_eq!(t.table.look(again as i32, |timer| timer.status()), Ok(Status::Disarmed));
        assert_eq!(t.table.usage().0, 1, "the old slot came back");
        assert_eq!(expire(&t, 1_000), None);
    });
}

/// The kernel delivers under the process lock, programs set timers without it.
#[test]
fn a_delivery_against_a_setting_counts_one_of_them() {
    check(|| {
        let t = timers();
        let id = create(&t, None, 0).unwrap();
        set(&t, id, 10, 10, 0);
        let signal = expire(&t, 10).unwrap();
        let u = t.clone();
        let setter = thread::spawn(move || set(&u, id, 100, 0, 25));
        let delivered = t.deliver(signal.key, &at(25), &mut NoCpuClocks);
        setter.join().unwrap();
        assert!(matches!(delivered, Delivery::Dropped | Delivery::Signal { overrun: 1, .. }), "{delivered:?}");
        assert_eq!(expire(&t, 124), None, "the old period is gone");
        assert!(expire(&t, 125).is_some());
    });
}
