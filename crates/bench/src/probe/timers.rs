//! POSIX timers: making, asking and deleting many of them, setting one, exact ids, and how late a thousand
//! periodic ones are. By system calls, as a program that restores itself makes them.

use std::mem;
use std::sync::Barrier;
use std::thread;

use super::clock::{median_of, now_ns, percentile};
use super::{Measured, report};

/// Sends nothing unless it is armed, and few here are.
const SIGNAL: i32 = 40;
const PR_TIMER_CREATE_RESTORE_IDS: i32 = 77;

pub(super) fn refused(what: &str) -> String {
    format!("{what}: {}", std::io::Error::last_os_error())
}

pub(super) fn create(id: &mut i32, value: usize) -> Measured {
    // SAFETY: a `sigevent` of zeros is one.
    let mut event: libc::sigevent = unsafe { mem::zeroed() };
    event.sigev_signo = SIGNAL;
    event.sigev_value.sival_ptr = value as *mut libc::c_void;
    // SAFETY: event and id are ours.
    let r = unsafe { libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw mut event, &raw mut *id) };
    if r == 0 { Ok(()) } else { Err(refused("timer_create")) }
}

pub(super) fn delete(id: i32) {
    // SAFETY: about one of our timers.
    unsafe { libc::syscall(libc::SYS_timer_delete, id) };
}

pub(super) fn set(id: i32, flags: i32, first_ns: u64, interval_ns: u64) {
    let time = |ns: u64| libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    let setting = libc::itimerspec { it_interval: time(interval_ns), it_value: time(first_ns) };
    // SAFETY: the setting is ours.
    unsafe { libc::syscall(libc::SYS_timer_settime, id, flags, &raw const setting, 0) };
}

/// Nanoseconds for creating, asking for the overrun of, and deleting one of this many timers.
pub(super) fn many(count: usize, label: &str, quick: bool) -> Measured {
    let rounds = if quick || count > 100_000 { 1 } else { 5 };
    let mut took = [const { Vec::new() }; 3];
    let mut ids = vec![-1; count];
    for _ in 0..rounds {
        let start = now_ns();
        for made in 0..count {
            if let Err(refusal) = create(&mut ids[made], 0) {
                ids[..made].iter().for_each(|id| delete(*id));
                return Err(refusal);
            }
        }
        let created = now_ns();
        for id in &ids {
            // SAFETY: about one of our timers.
            std::hint::black_box(unsafe { libc::syscall(libc::SYS_timer_getoverrun, *id) });
        }
        let asked = now_ns();
        ids.iter().for_each(|id| delete(*id));
        let deleted = now_ns();
        for (all, span) in took.iter_mut().zip([created - start, asked - created, deleted - asked]) {
            all.push(span as f64 / count as f64);
        }
    }
    for (what, all) in ["create", "getoverrun", "delete"].iter().zip(&mut took) {
        report::figure(&format!("timer_{what}_{label}"), "ns", percentile(all, 50));
    }
    Ok(())
}

/// Nanoseconds of a CPU for a pair of creation and deletion, with one thread and with 63, and for arming and
/// disarming.
pub(super) fn pairs(quick: bool) -> Measured {
    let rounds = if quick { 20_000 } else { 100_000 };
    let mut id = -1;
    create(&mut id, 0)?;
    let armed = median_of(11, || {
        let start = now_ns();
        for _ in 0..rounds {
            set(id, 0, 3_600_000_000_000, 0);
            set(id, 0, 0, 0);
        }
        (now_ns() - start) as f64 / f64::from(rounds)
    });
    delete(id);
    report::figure("timer_arm_disarm", "ns", armed);
    report::figure("timer_pair_1", "ns", pair(1, rounds)?);
    report::figure("timer_pair_63", "ns", pair(63, rounds / 20)?);
    Ok(())
}

fn pair(threads: u32, rounds: u32) -> Result<f64, String> {
    let gate = Barrier::new(threads as usize);
    let cpus = super::pthread::cpus().len().min(threads as usize);
    let work = || {
        gate.wait();
        let begin = now_ns();
        for _ in 0..rounds {
            let mut id = -1;
            create(&mut id, 0)?;
            delete(id);
        }
        Ok((begin, now_ns()))
    };
    let spans: Result<Vec<(u64, u64)>, String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread has died".to_owned())?).collect()
    });
    let (begins, ends): (Vec<u64>, Vec<u64>) = spans?.into_iter().unzip();
    let span = ends.into_iter().max().unwrap_or(0) - begins.into_iter().min().unwrap_or(0);
    Ok(span as f64 * cpus as f64 / f64::from(threads * rounds))
}

/// Whether `timer_create` takes the id that it is given; 0 if the host can do that.
pub(super) fn exact_ids(on: bool) -> i32 {
    // SAFETY: changes how ids are given, nothing else.
    unsafe { libc::prctl(PR_TIMER_CREATE_RESTORE_IDS, i32::from(on), 0, 0, 0) }
}

/// Milliseconds for 90,000 timers with exact ids, seven apart.
pub(super) fn restore() -> Measured {
    const COUNT: i32 = 90_000;
    if exact_ids(true) != 0 {
        return Err(refused("exact timer ids"));
    }
    let start = now_ns();
    for i in 0..COUNT {
        let mut id = i * 7;
        create(&mut id, 0)?;
    }
    report::figure("timer_restore_90k", "ms", (now_ns() - start) as f64 / 1e6);
    exact_ids(false);
    (0..COUNT).for_each(|i| delete(i * 7));
    Ok(())
}

/// Milliseconds from an expiry of one of a thousand timers of 10 ms, all in phase, until a thread that waits for
/// their signal has it.
pub(super) fn lateness(quick: bool) -> Measured {
    const TIMERS: usize = 1_000;
    const PERIOD_NS: u64 = 10_000_000;
    let signals = TIMERS * if quick { 50 } else { 200 };
    // SAFETY: the set is ours; blocking a signal that only our timers send.
    let set_of = unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, SIGNAL);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    };
    let mut ids = vec![-1; TIMERS];
    for (i, id) in ids.iter_mut().enumerate() {
        create(id, i)?;
    }
    let mut due_ns = vec![now_ns() + 2 * PERIOD_NS; TIMERS];
    ids.iter().for_each(|id| set(*id, libc::TIMER_ABSTIME, due_ns[0], PERIOD_NS));
    let mut late_ms = Vec::with_capacity(signals);
    for _ in 0..signals {
        // SAFETY: the host fills `info`; a timer's signal has a value and an overrun.
        let (which, overrun) = unsafe {
            let mut info: libc::siginfo_t = mem::zeroed();
            libc::sigwaitinfo(&set_of, &mut info);
            (info.si_value().sival_ptr as usize, info.si_overrun())
        };
        let due = &mut due_ns[which % TIMERS];
        // Missed expiries were due first; they count as late as the first one.
        late_ms.push(now_ns().saturating_sub(*due) as f64 / 1e6);
        *due += (1 + overrun.max(0) as u64) * PERIOD_NS;
    }
    ids.iter().for_each(|id| delete(*id));
    report::figure("timer_late_p50", "ms", percentile(&mut late_ms, 50));
    report::figure("timer_late_p99", "ms", percentile(&mut late_ms, 99));
    Ok(())
}
