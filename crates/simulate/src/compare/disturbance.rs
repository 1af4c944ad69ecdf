//! Disturbances: the time that the machine's CPUs spent on others meanwhile.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

/// Others matter if they had this part of the CPU time.
const MATTERS: f64 = 0.02;

/// CPU time of the whole machine during runs of one side.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Disturbance {
    /// Time that the hypervisor gave to other machines.
    pub stolen: Duration,
    /// Time of programs that are not part of the run.
    pub others: Duration,
    /// The time of all CPUs.
    pub all: Duration,
}

impl AddAssign for Disturbance {
    fn add_assign(&mut self, other: Disturbance) {
        self.stolen += other.stolen;
        self.others += other.others;
        self.all += other.all;
    }
}

impl Disturbance {
    /// In words, if it explains times that are longer than they should be.
    pub fn in_words(&self) -> Option<String> {
        let part = |of: Duration| of.as_secs_f64() / self.all.as_secs_f64().max(1e-9);
        let told = |of: Duration, who| format!("{who} {} ms ({:.0} %)", of.as_millis(), 100.0 * part(of));
        let who = [(self.others, "other programs had"), (self.stolen, "the hypervisor took")];
        let matter: Vec<String> =
            who.into_iter().filter(|(of, _)| part(*of) >= MATTERS).map(|(of, who)| told(of, who)).collect();
        let all = self.all.as_millis();
        (!matter.is_empty()).then(|| format!("{} of {all} ms of CPU time meanwhile", matter.join(", ")))
    }
}

/// Watches the machine from now on.
pub(super) struct Watch {
    begun: Instant,
    counters: Counters,
    children: Duration,
}

impl Watch {
    pub fn begin() -> Watch {
        Watch { begun: Instant::now(), counters: Counters::read(), children: used_by_us() }
    }

    /// Since the beginning; children of this process that have been waited for are the run.
    pub fn end(self) -> Disturbance {
        let (now, own) = (Counters::read(), used_by_us().saturating_sub(self.children));
        Disturbance {
            stolen: now.stolen.saturating_sub(self.counters.stolen),
            others: now.busy.saturating_sub(self.counters.busy).saturating_sub(own),
            all: self.begun.elapsed() * now.cpus,
        }
    }
}

/// Of all CPUs, since the machine was started.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counters {
    busy: Duration,
    stolen: Duration,
    cpus: u32,
}

impl Counters {
    /// Nothing where `/proc/stat` cannot be read.
    fn read() -> Counters {
        std::fs::read_to_string("/proc/stat").map(|text| Counters::parse(&text)).unwrap_or_default()
    }

    /// `proc_stat(5)`: user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(text: &str) -> Counters {
        let mut lines = text.lines().take_while(|line| line.starts_with("cpu"));
        let ticks: Vec<u64> =
            lines.next().unwrap_or("").split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        // USER_HZ is 100 on x86-64.
        let sum =
            |fields: &[usize]| Duration::from_millis(10 * fields.iter().filter_map(|at| ticks.get(*at)).sum::<u64>());
        Counters { busy: sum(&[0, 1, 2, 5, 6]), stolen: sum(&[7]), cpus: lines.count() as u32 }
    }
}

fn used_by_us() -> Duration {
    let of = |who| {
        let Ok(usage) = getrusage(who) else { return Duration::ZERO };
        let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Duration::from_micros(us.unsigned_abs())
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_are_read() {
        let text = "cpu  100 20 30 4000 5 6 7 80 0 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 1 2\n";
        let all = Counters { busy: Duration::from_millis(1_630), stolen: Duration::from_millis(800), cpus: 2 };
        assert_eq!(Counters::parse(text), all);
        assert_eq!(Counters::parse(""), Counters::default());
    }

    #[test]
    fn little_is_not_mentioned() {
        let ms = Duration::from_millis;
        let of = |stolen, others| Disturbance { stolen: ms(stolen), others: ms(others), all: ms(1_000) }.in_words();
        assert_eq!(of(10, 19), None);
        let words = of(30, 400).unwrap();
        assert_eq!(
            words,
            "other programs had 400 ms (40 %), the hypervisor took 30 ms (3 %) of 1000 ms of CPU time meanwhile"
        );
        assert_eq!(Disturbance::default().in_words(), None, "where nothing is known");
    }
}
