//! CPU time, timers and limit of the process in the host's hands: what we take over, and what exec hands on.
//!
//! The host must not act on its own count, which has our work in it. Its soft RLIMIT_CPU is raised to the hard one,
//! which cannot be lifted without privilege: there the host still kills.

use crate::Host;
use crate::machine::Arg::{In, Out, Word};
use abi::args::{ITIMER_REAL, RLIMIT_CPU, RLIMIT_RTTIME, RUSAGE_SELF};
use abi::{Itimerval, Timeval, nr};
use ids::Nanos;
use kernel::Times;
use time::cpu::Usage;
use time::cpu::itimer::ItimerValue;
use time::cpu::limit::Rlimit;

/// ITIMER_VIRTUAL and ITIMER_PROF.
const ITIMERS: [u64; 2] = [1, 2];
/// Size of `struct rusage`.
const RUSAGE_SIZE: usize = 144;

/// Takes over the host's counts and timers; its own timers and soft limit do nothing from now on.
pub(crate) fn take_over(m: &impl Host) -> Times {
    let cpu = limit(m, RLIMIT_CPU, None);
    if cpu.cur != cpu.max {
        let _ = limit(m, RLIMIT_CPU, Some(Rlimit { cur: cpu.max, max: cpu.max }));
    }
    let itimers = ITIMERS.map(|which| {
        let value = itimer(m, which, None);
        if value != ItimerValue::default() {
            let _ = itimer(m, which, Some(ItimerValue::default()));
        }
        value
    });
    Times { usage: usage(m), limit: cpu, rttime: limit(m, RLIMIT_RTTIME, None), itimers: Some(itimers) }
}

/// ITIMER_REAL: what is left, and the period.
pub(crate) fn real_itimer(m: &impl Host) -> [Nanos; 2] {
    let setting = itimer(m, ITIMER_REAL, None);
    [setting.value, setting.interval]
}

/// Gives limit and timers back.
pub(crate) fn hand_on(m: &impl Host, times: &Times) {
    for (resource, wanted) in [(RLIMIT_CPU, times.limit), (RLIMIT_RTTIME, times.rttime)] {
        if limit(m, resource, None) != wanted {
            let _ = limit(m, resource, Some(wanted));
        }
    }
    for (which, value) in ITIMERS.into_iter().zip(times.itimers.unwrap_or_default()) {
        if value != ItimerValue::default() {
            let _ = itimer(m, which, Some(value));
        }
    }
}

/// User and system time of the process.
pub(crate) fn usage(m: &impl Host) -> Usage {
    let mut bytes = [0; RUSAGE_SIZE];
    m.ask(nr::GETRUSAGE, &mut [Word(RUSAGE_SELF), Out(&mut bytes)]);
    // Both times come first.
    let times = Itimerval::from_bytes(bytes.first_chunk().expect("the structure is longer"));
    Usage { utime: nanos(times.interval), stime: nanos(times.value) }
}

/// The host's values are valid.
fn nanos(t: Timeval) -> Nanos {
    t.to_nanos().unwrap_or(Nanos::ZERO)
}

/// A limit of the process, and what it becomes.
pub(crate) fn limit(m: &impl Host, resource: u64, new: Option<Rlimit>) -> Rlimit {
    let new = new.map(|l| [l.cur.to_le_bytes(), l.max.to_le_bytes()]);
    let new = new.as_ref().map_or(Word(0), |bytes| In(bytes.as_flattened()));
    let mut old = [[u8::MAX; 8]; 2];
    m.ask(nr::PRLIMIT64, &mut [Word(0), Word(resource), new, Out(old.as_flattened_mut())]);
    let [cur, max] = old.map(u64::from_le_bytes);
    Rlimit { cur, max }
}

/// The old setting.
fn itimer(m: &impl Host, which: u64, new: Option<ItimerValue>) -> ItimerValue {
    let mut old = [0; Itimerval::SIZE];
    match new {
        None => m.ask(nr::GETITIMER, &mut [Word(which), Out(&mut old)]),
        Some(new) => {
            let (value, interval) = (Timeval::from_nanos(new.value), Timeval::from_nanos(new.interval));
            let new = Itimerval { interval, value }.to_bytes();
            m.ask(nr::SETITIMER, &mut [Word(which), In(&new), Out(&mut old)])
        }
    };
    let old = Itimerval::from_bytes(&old);
    ItimerValue { value: nanos(old.value), interval: nanos(old.interval) }
}
