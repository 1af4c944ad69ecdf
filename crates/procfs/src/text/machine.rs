//! The machine's files: `uptime`, `loadavg`, `stat`.

use super::{Room, ticks};
use core::fmt::{self, Write};

/// Load averages are numbers with eleven bits behind the point.
const FIXED: u64 = 1 << 11;
/// e^(−5 s/1, 5, 15 min) in them (`EXP_1`, `EXP_5`, `EXP_15`).
const DECAYS: [u64; 3] = [1884, 2014, 2037];

/// Load averages over 1, 5 and 15 minutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load([u64; 3]);

impl Load {
    /// Five seconds have gone by in which so many threads were running or in disk sleep (`calc_load`): rises
    /// are rounded up, so that an idle machine comes down to nothing and a busy one reaches its load.
    pub fn step(&mut self, active: u64) {
        let active = active * FIXED;
        for (load, decay) in self.0.iter_mut().zip(DECAYS) {
            let mut new = *load * decay + active * (FIXED - decay);
            if active >= *load {
                new += FIXED - 1;
            }
            *load = new / FIXED;
        }
    }

    /// `loadavg`.
    pub fn write(&self, running: u64, threads: u64, last: i32, to: &mut Room<'_>) -> fmt::Result {
        for load in self.0 {
            let shown = load + FIXED / 200;
            write!(to, "{}.{:02} ", shown / FIXED, shown % FIXED * 100 / FIXED)?;
        }
        writeln!(to, "{running}/{threads} {last}")
    }
}

/// `uptime`, of two spans in nanoseconds.
pub fn write_uptime(up: u64, idle: u64, to: &mut Room<'_>) -> fmt::Result {
    let hundredths = |ns: u64| (ns / 1_000_000_000, ns / 10_000_000 % 100);
    let ((up, up_part), (idle, idle_part)) = (hundredths(up), hundredths(idle));
    writeln!(to, "{up}.{up_part:02} {idle}.{idle_part:02}")
}

/// A CPU's time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuTime {
    /// In programs of nice 0 and below.
    pub user: u64,
    /// In those above.
    pub nice: u64,
    /// In the kernel.
    pub system: u64,
    /// Nothing.
    pub idle: u64,
    /// Taken by the machine below.
    pub steal: u64,
}

/// The machine's `stat` beside its CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Interrupts.
    pub interrupts: u64,
    /// Switches.
    pub switches: u64,
    /// When it began, in seconds of the epoch.
    pub booted: u64,
    /// Threads made.
    pub forks: u64,
    /// Threads that run or could.
    pub running: u64,
    /// Threads in disk sleep.
    pub blocked: u64,
}

/// `stat`: the sum of the CPUs, each of them, and the rest. Missing figures are zero.
pub fn write_stat(cpus: &[CpuTime], totals: &Totals, to: &mut Room<'_>) -> fmt::Result {
    let mut line = |name: fmt::Arguments<'_>, sum: &dyn Fn(fn(&CpuTime) -> u64) -> u64| {
        const PARTS: [fn(&CpuTime) -> u64; 5] = [|c| c.user, |c| c.nice, |c| c.system, |c| c.idle, |c| c.steal];
        let [user, nice, system, idle, steal] = PARTS.map(|part| ticks(sum(part)));
        writeln!(to, "{name} {user} {nice} {system} {idle} 0 0 0 {steal} 0 0")
    };
    line(format_args!("cpu "), &|f| cpus.iter().map(f).sum())?;
    for (n, cpu) in cpus.iter().enumerate() {
        line(format_args!("cpu{n}"), &|f| f(cpu))?;
    }
    writeln!(to, "intr {}", totals.interrupts)?;
    writeln!(to, "ctxt {}", totals.switches)?;
    writeln!(to, "btime {}", totals.booted)?;
    writeln!(to, "processes {}", totals.forks)?;
    writeln!(to, "procs_running {}", totals.running)?;
    writeln!(to, "procs_blocked {}", totals.blocked)?;
    writeln!(to, "softirq 0 0 0 0 0 0 0 0 0 0 0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn text(run: impl FnOnce(&mut Room<'_>) -> fmt::Result) -> String {
        let mut bytes = [0; 4096];
        let mut room = Room::new(&mut bytes);
        run(&mut room).unwrap();
        String::from_utf8(room.text().to_vec()).unwrap()
    }

    #[test]
    fn load_reaches_what_is_there_and_comes_down_again() {
        let mut load = Load::default();
        (0..12).for_each(|_| load.step(1));
        assert_eq!(text(|to| load.write(1, 2, 3, to)), "0.63 0.18 0.06 1/2 3\n", "after a minute 1 − 1/e");
        // Many at once: 1 − (1884, 2014, 2037 of 2048)^60.
        let mut many = Load::default();
        (0..60).for_each(|_| many.step(100));
        assert_eq!(text(|to| many.write(100, 101, 3, to)), "99.33 63.38 27.62 100/101 3\n");
        (0..2000).for_each(|_| load.step(1));
        assert_eq!(text(|to| load.write(1, 2, 3, to)), "1.00 1.00 1.00 1/2 3\n");
        (0..2000).for_each(|_| load.step(0));
        assert_eq!(text(|to| load.write(0, 2, 3, to)), "0.00 0.00 0.00 0/2 3\n");
    }

    #[test]
    fn as_this_host_writes_them() {
        assert_eq!(text(|to| write_uptime(3_661_987_654_321, 7_009_999_999, to)), "3661.98 7.00\n");
        let cpus = [CpuTime { user: 10_000_000, idle: 1_990_000_000, ..CpuTime::default() }; 2];
        let ours = text(|to| write_stat(&cpus, &Totals { switches: 9, ..Totals::default() }, to));
        assert!(ours.starts_with("cpu  2 0 0 398 0 0 0 0 0 0\ncpu0 1 0 0 199 0 0 0 0 0 0\ncpu1 "), "{ours}");
        let host = std::fs::read_to_string("/proc/stat").unwrap();
        let keys = |text: &str| {
            text.lines()
                .map(|l| l.split(' ').next().unwrap().into())
                .filter(|k: &String| !k.starts_with("cpu"))
                .collect::<std::vec::Vec<_>>()
        };
        assert_eq!(keys(&ours), keys(&host));
        let fields = |text: &str| text.lines().next().unwrap().split(' ').count();
        assert_eq!(fields(&ours), fields(&host));
    }
}
