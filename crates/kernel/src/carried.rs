//! Thread state of ours that survives `execve(2)`: policy, nice value, affinity, timer slack; and, of the process,
//! the id of its next timer.
//!
//! The new program has a kernel of its own, which reads them as one word of its options, so that `nice`, `chrt` and
//! `taskset` in front of a program work.

use crate::Kernel;
use crate::machine::Machine;
use crate::syscall::clone::inherited;
use crate::syscall::policy::attr_to;
use abi::SchedAttr;
use core::fmt::{self, Write};
use ids::{CpuId, CpuMask, Nanos, Nice, Policy, RtPriority, ThreadIdx};
use sched::{Attr, DeadlineParams};

/// State that is carried over an exec.
#[derive(Clone, PartialEq, Debug)]
pub struct Carried {
    attr: Attr,
    /// `None`: all CPUs, however many the new kernel has.
    affinity: Option<CpuMask>,
    /// Its timer slack, and the default that it is reset to.
    timer_slack: [u64; 2],
    /// Exec keeps the counter of timer ids (`exit_itimers` does not touch it).
    next_timer_id: u32,
}

/// The numbers of the text form: policy, nice value, priority, reset on fork, slice, runtime,
/// deadline, period, timer slack, timer id, default of the timer slack.
const FIELDS: usize = 11;

impl Carried {
    /// Writes the text form: decimal numbers with commas, and the mask, if there is one, as
    /// hexadecimal words with points after an `@`.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, to: &mut impl Write) -> fmt::Result {
        let a = &self.attr;
        let d = a.deadline.map_or([0; 3], |d| [d.runtime.0, d.deadline.0, d.period.0]);
        let reset = u8::from(a.reset_on_fork);
        write!(to, "{},{},{},{reset},{}", a.policy as u32, a.nice.0, a.rt.0, a.slice.0)?;
        let [slack, default] = self.timer_slack;
        write!(to, ",{},{},{},{slack},{},{default}", d[0], d[1], d[2], self.next_timer_id)?;
        if let Some(mask) = &self.affinity {
            for (i, word) in mask.words().iter().enumerate() {
                write!(to, "{}{word:x}", if i == 0 { '@' } else { '.' })?;
            }
        }
        Ok(())
    }

    /// Reads the text form; `None` if it is not one.
    pub fn parse(text: &[u8]) -> Option<Carried> {
        let text = core::str::from_utf8(text).ok()?;
        let (numbers, mask) = text.split_once('@').map_or((text, None), |(n, m)| (n, Some(m)));
        let mut fields = [0i64; FIELDS];
        let mut parts = numbers.split(',');
        for field in &mut fields {
            *field = parts.next()?.parse().ok()?;
        }
        let [policy, nice, rt, reset, slice, runtime, deadline, period, slack, id, default] = fields;
        let nanos = |n: i64| Nanos(n as u64);
        let policy = Policy::from_raw(u32::try_from(policy).ok()?)?;
        let params = DeadlineParams { runtime: nanos(runtime), deadline: nanos(deadline), period: nanos(period) };
        let attr = Attr {
            policy,
            nice: Nice::clamp_from(i32::try_from(nice).ok()?),
            rt: RtPriority(u8::try_from(rt).ok()?),
            reset_on_fork: reset != 0,
            slice: nanos(slice),
            deadline: (policy == Policy::Deadline).then_some(params),
        };
        let affinity = match mask {
            None => None,
            Some(mask) => {
                let mut words = [0u64; ids::CPUS_MAX / 64];
                for (i, word) in mask.split('.').enumerate() {
                    *words.get_mut(i)? = u64::from_str_radix(word, 16).ok()?;
                }
                Some(CpuMask::from_words(&words))
            }
        };
        let timer_slack = [slack as u64, default as u64];
        Some(Carried { attr, affinity, timer_slack, next_timer_id: u32::try_from(id).ok()? })
    }

    /// The first of this many CPUs where its thread may run.
    pub fn first_cpu(&self, cpus: usize) -> CpuId {
        let allowed = self.affinity.as_ref().and_then(|mask| mask.and(&CpuMask::first(cpus)).lowest());
        allowed.unwrap_or(CpuId(0))
    }

    /// Policy and priority as `sched_setattr(2)` takes them, without a slice of its own.
    pub fn sched_attr(&self) -> SchedAttr {
        attr_to(&self.attr, Nanos::ZERO, SchedAttr::SIZES[0])
    }

    /// The CPUs where its thread may run; `None`: all.
    pub fn affinity(&self) -> Option<&CpuMask> {
        self.affinity.as_ref()
    }

    /// The state of a forked child that has changed nothing yet: the parent's.
    pub(crate) fn by_new_child(attr: Attr, affinity: Option<CpuMask>, timer_slack: u64) -> Carried {
        Carried { attr: inherited(attr), affinity, timer_slack: [timer_slack; 2], next_timer_id: 0 }
    }

    /// The state that a child in borrowed memory passes on: its process is new, and it has its own timer slack.
    #[must_use]
    pub fn by_child(self, timer_slack: [u64; 2]) -> Carried {
        Carried { attr: inherited(self.attr), next_timer_id: 0, timer_slack, ..self }
    }
}

impl<M: Machine> Kernel<M> {
    /// The state of `t` that survives an exec.
    pub fn carried(&self, t: ThreadIdx) -> Carried {
        let all = CpuMask::first(self.config.cpus);
        let affinity = self.sched.affinity(t);
        Carried {
            attr: self.sched.attr(t),
            affinity: (affinity != all).then_some(affinity),
            timer_slack: self.thread(t).slacks(),
            next_timer_id: self.timer_table().next_id(),
        }
    }

    /// Applies it to the first thread of the new program. Values that do not fit this kernel, which may have other
    /// CPUs, stay at their defaults.
    pub fn take_carried(&self, t: ThreadIdx, carried: &Carried) {
        let now = self.now();
        let cpu = self.sched.cpu_of(t);
        // If admission is refused here, because there are fewer CPUs, the default policy stays.
        let before = self.sched.attr(t).nice;
        let _ = self.sched.set_attr(t, &carried.attr, now, &mut self.kicks(cpu));
        self.nice_changed(before, self.sched.attr(t).nice);
        if let Some(mask) = &carried.affinity {
            let mask = mask.and(&CpuMask::first(self.config.cpus));
            // Fails if none of these CPUs is left.
            let _ = self.sched.set_affinity(t, mask, now, &mut self.kicks(cpu));
        }
        self.thread(t).set_slacks(carried.timer_slack);
        self.timer_table().set_next_id(carried.next_timer_id);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;

    fn round(carried: &Carried) -> Option<Carried> {
        let mut text = String::new();
        carried.write(&mut text).unwrap();
        Carried::parse(text.as_bytes())
    }

    #[test]
    fn what_is_written_is_read() {
        let plain = Carried { attr: Attr::DEFAULT, affinity: None, timer_slack: [50_000; 2], next_timer_id: 0 };
        let params = DeadlineParams { runtime: Nanos(1), deadline: Nanos(2), period: Nanos(u64::from(u32::MAX)) };
        let attrs = [
            Attr { nice: Nice(-20), slice: Nanos(7), ..Attr::DEFAULT },
            Attr { policy: Policy::RoundRobin, rt: RtPriority(99), reset_on_fork: true, ..Attr::DEFAULT },
            Attr { policy: Policy::Deadline, deadline: Some(params), ..Attr::DEFAULT },
        ];
        assert_eq!(round(&plain).as_ref(), Some(&plain));
        for attr in attrs {
            for affinity in [None, Some(CpuMask::from_words(&[5])), Some(CpuMask::from_words(&[1, 0, u64::MAX]))] {
                let carried = Carried { attr, affinity, timer_slack: [1, 7], next_timer_id: 0x7fff_ffff };
                assert_eq!(round(&carried).as_ref(), Some(&carried));
            }
        }
    }

    #[test]
    fn nonsense_is_not_read() {
        for text in [
            "",
            "0",
            "0,0,0,0,0,0,0,0,0,0",
            "9,0,0,0,0,0,0,0,0,0,0",
            "0,0,300,0,0,0,0,0,0,0,0",
            "0,0,0,0,0,0,0,0,0,0,0@x",
        ] {
            assert_eq!(Carried::parse(text.as_bytes()), None, "{text}");
        }
    }
}
