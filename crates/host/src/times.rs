//! CPU time, timers and limit of the process in the host's hands: what we take over, and what exec hands on.
//!
//! The host must not act on its own count, which has our work in it. Its soft RLIMIT_CPU is raised to the hard one,
//! which cannot be lifted without privilege: there the host still kills.

use crate::os::nr;
use abi::{Itimerval, Timeval};
use arch::syscall;
use ids::Nanos;
use kernel::Times;
use time::cpu::Usage;
use time::cpu::itimer::ItimerValue;
use time::cpu::limit::Rlimit;

const RLIMIT_CPU: usize = 0;
const RLIMIT_RTTIME: usize = 15;
const RUSAGE_SELF: usize = 0;
/// ITIMER_VIRTUAL and ITIMER_PROF.
const ITIMERS: [usize; 2] = [1, 2];

/// Takes over the host's counts and timers; its own timers and soft limit do nothing from now on.
pub(crate) fn take_over() -> Times {
    let limit = limit(RLIMIT_CPU, None);
    if limit.cur != limit.max {
        let _ = self::limit(RLIMIT_CPU, Some(Rlimit { cur: limit.max, max: limit.max }));
    }
    let itimers = ITIMERS.map(|which| {
        let value = itimer(which, None);
        if value != ItimerValue::default() {
            let _ = itimer(which, Some(ItimerValue::default()));
        }
        value
    });
    let rttime = self::limit(RLIMIT_RTTIME, None);
    Times { usage: usage(), limit, rttime, itimers: Some(itimers) }
}

/// ITIMER_REAL: what is left, and the period.
pub(crate) fn real_itimer() -> [Nanos; 2] {
    let setting = itimer(0, None);
    [setting.value, setting.interval]
}

/// Gives limit and timers back.
pub(crate) fn hand_on(times: &Times) {
    for (resource, wanted) in [(RLIMIT_CPU, times.limit), (RLIMIT_RTTIME, times.rttime)] {
        if limit(resource, None) != wanted {
            let _ = limit(resource, Some(wanted));
        }
    }
    for (which, value) in ITIMERS.into_iter().zip(times.itimers.unwrap_or_default()) {
        if value != ItimerValue::default() {
            let _ = itimer(which, Some(value));
        }
    }
}

/// User and system time of the process.
pub(crate) fn usage() -> Usage {
    let mut words = [0i64; 18];
    // SAFETY: `struct rusage` has 144 bytes.
    unsafe { syscall!(nr::GETRUSAGE, RUSAGE_SELF, words.as_mut_ptr()) };
    let time = |at: usize| Timeval { sec: words[at], usec: words[at + 1] }.to_nanos().unwrap_or(Nanos::ZERO);
    Usage { utime: time(0), stime: time(2) }
}

/// The old limit.
fn limit(resource: usize, new: Option<Rlimit>) -> Rlimit {
    let new = new.map(|l| [l.cur, l.max]);
    let new = new.as_ref().map_or(core::ptr::null(), |l| l.as_ptr());
    let mut old = [u64::MAX; 2];
    // SAFETY: two words each.
    unsafe { syscall!(nr::PRLIMIT64, 0, resource, new, old.as_mut_ptr()) };
    Rlimit { cur: old[0], max: old[1] }
}

/// The old setting.
fn itimer(which: usize, new: Option<ItimerValue>) -> ItimerValue {
    let mut old = [0; Itimerval::SIZE];
    // SAFETY: both structures have that size.
    unsafe {
        match new {
            None => syscall!(nr::GETITIMER, which, old.as_mut_ptr()),
            Some(new) => {
                let (value, interval) = (Timeval::from_nanos(new.value), Timeval::from_nanos(new.interval));
                let new = Itimerval { interval, value }.to_bytes();
                syscall!(nr::SETITIMER, which, new.as_ptr(), old.as_mut_ptr())
            }
        }
    };
    let old = Itimerval::from_bytes(&old);
    // The host's values are valid.
    let nanos = |t: Timeval| t.to_nanos().unwrap_or(Nanos::ZERO);
    ItimerValue { value: nanos(old.value), interval: nanos(old.interval) }
}
