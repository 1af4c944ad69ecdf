//! CPU time, timers and limit that the host keeps for the process: what we take over, what exec passes on, and
//! `getrusage(2)` and `times(2)`, which are the host's except for our user and system time.
//!
//! The host must not act on its own count, which includes our work. So its soft RLIMIT_CPU is raised to the hard one.
//! The hard one cannot be raised without privilege; the host still kills the process there.

use crate::machine::Arg::{In, Out as Filled, Word};
use crate::machine::ask;
use crate::{Host, Linux};
use abi::args::{ITIMER_REAL, RLIMIT_CPU, RLIMIT_RTTIME, RUSAGE_SELF};
use abi::{Errno, Itimerval, Timeval, nr};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::{Call, Out, Times};
use time::cpu::Usage;
use time::cpu::itimer::ItimerValue;
use time::cpu::limit::Rlimit;

/// ITIMER_VIRTUAL and ITIMER_PROF.
const ITIMERS: [u64; 2] = [1, 2];
/// Size of `struct rusage`.
const RUSAGE_SIZE: usize = 144;

/// Takes over the host's counts and timers, and disables its timers and soft limit.
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

/// ITIMER_REAL: remaining time and period.
pub(crate) fn real_itimer(m: &impl Host) -> [Nanos; 2] {
    let setting = itimer(m, ITIMER_REAL, None);
    [setting.value, setting.interval]
}

/// Gives limits and timers back to the host. A child that has `borrowed` its memory has no kernel: a limit that it set
/// itself is the host's.
pub(crate) fn hand_on(m: &impl Host, times: &Times, borrowed: bool) {
    let cpu = limit(m, RLIMIT_CPU, None);
    // The limit is ours if the host's soft limit is its hard one, which is no lower than the program's hard limit.
    let is_ours = !borrowed || cpu.cur == cpu.max && cpu.max >= times.limit.max;
    if is_ours && cpu != times.limit {
        let _ = limit(m, RLIMIT_CPU, Some(times.limit));
    }
    if limit(m, RLIMIT_RTTIME, None) != times.rttime {
        let _ = limit(m, RLIMIT_RTTIME, Some(times.rttime));
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
    ask(m, nr::GETRUSAGE, &mut [Word(RUSAGE_SELF), Filled(&mut bytes)]);
    // Both times come first.
    let times = Itimerval::from_bytes(bytes.first_chunk().expect("the structure is longer"));
    Usage { utime: nanos(times.interval), stime: nanos(times.value) }
}

/// Needs no checks, because the host's values are valid.
fn nanos(t: Timeval) -> Nanos {
    t.to_nanos().unwrap_or(Nanos::ZERO)
}

/// Sets a limit of the process, if `new` is given; returns the old one.
pub(crate) fn limit(m: &impl Host, resource: u64, new: Option<Rlimit>) -> Rlimit {
    let new = new.map(|l| [l.cur.to_le_bytes(), l.max.to_le_bytes()]);
    let new = new.as_ref().map_or(Word(0), |bytes| In(bytes.as_flattened()));
    let mut old = [[u8::MAX; 8]; 2];
    ask(m, nr::PRLIMIT64, &mut [Word(0), Word(resource), new, Filled(old.as_flattened_mut())]);
    let [cur, max] = old.map(u64::from_le_bytes);
    Rlimit { cur, max }
}

/// Sets an interval timer, if `new` is given; returns the old setting.
fn itimer(m: &impl Host, which: u64, new: Option<ItimerValue>) -> ItimerValue {
    let mut old = [0; Itimerval::SIZE];
    match new {
        None => ask(m, nr::GETITIMER, &mut [Word(which), Filled(&mut old)]),
        Some(new) => {
            let (value, interval) = (Timeval::from_nanos(new.value), Timeval::from_nanos(new.interval));
            let new = Itimerval { interval, value }.to_bytes();
            ask(m, nr::SETITIMER, &mut [Word(which), In(&new), Filled(&mut old)])
        }
    };
    let old = Itimerval::from_bytes(&old);
    ItimerValue { value: nanos(old.value), interval: nanos(old.interval) }
}

impl<M: Host> Linux<'_, M> {
    /// User and system time of the process, as programs see them.
    pub fn process_usage(&self) -> Usage {
        self.0.process_usage(usage(&self.m))
    }

    /// User and system time of the process as its current thread `t` reads them, at the moment of the comparison. What the host gives
    /// to others after that, above all at the end of a call, would be read as consumed, and a clock that was read does not go back.
    fn usage_by_now(&self, cpu: CpuId, t: ThreadIdx) -> Usage {
        let host = usage(&self.m);
        let now = self.compare_with_host(cpu, t);
        self.process_usage_at(host, now)
    }

    /// `getrusage(2)`: the host counts faults and similar events, and the times of children.
    pub(crate) fn sys_getrusage(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        const OF_PROCESS: i32 = RUSAGE_SELF as i32;
        const OF_THREAD: i32 = 1;
        let [who, to, ..] = call.args;
        let out = self.pass(cpu, call);
        if out != Out::Done(0) {
            return out;
        }
        let usage = match who as i32 {
            OF_PROCESS => self.usage_by_now(cpu, t),
            OF_THREAD => {
                let now = self.compare_with_host(cpu, t);
                self.thread_usage_at(t, now)
            }
            _ => return out,
        };
        self.put(to, [usage.utime, usage.stime].map(Timeval::from_nanos)).into()
    }

    /// `times(2)`: the host counts the times of children.
    pub(crate) fn sys_times(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let out = self.pass(cpu, call);
        let to = call.args[0];
        if to == 0 || out == Errno::EFAULT.into() {
            return out;
        }
        let (utime, stime) = self.usage_by_now(cpu, t).in_clock_ticks();
        self.put(to, [utime, stime]).map_or_else(|fault| Errno::from(fault).into(), |()| out)
    }
}
