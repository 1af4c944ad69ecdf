//! `sched` and `schedstat` of a thread (`proc_sched_show_task`, `proc_pid_schedstat`).

use super::Room;
use core::fmt::{self, Write};

/// The scheduler's figures of a thread; times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sched {
    /// Time on a CPU.
    pub runtime: u64,
    /// Time it was ready and waited for one.
    pub waited: u64,
    /// How often it got one.
    pub timeslices: u64,
    /// When it was last seen running.
    pub exec_start: u64,
    /// The thread's virtual run time.
    pub vruntime: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Switches because it waited.
    pub voluntary: u64,
    /// Switches because others were to run.
    pub involuntary: u64,
    /// The thread's weight, 1024 for nice 0.
    pub weight: u64,
    /// The number of the thread's policy.
    pub policy: u32,
    /// The kernel's priority, 100 and more for fair threads.
    pub priority: i32,
    /// The slice.
    pub slice: u64,
}

/// `schedstat`.
pub fn write_stat(of: &Sched, to: &mut Room<'_>) -> fmt::Result {
    writeln!(to, "{} {} {}", of.runtime, of.waited, of.timeslices)
}

/// `sched`: those of the host's keys that mean something here.
pub fn write(name: &[u8], id: i32, threads: u32, of: &Sched, to: &mut Room<'_>) -> fmt::Result {
    to.raw(name)?;
    writeln!(to, " ({id}, #threads: {threads})")?;
    writeln!(to, "-------------------------------------------------------------------")?;
    let mut split = |key, ns: u64| writeln!(to, "{key:<45}:{:14}.{:06}", ns / 1_000_000, ns % 1_000_000);
    split("se.exec_start", of.exec_start)?;
    split("se.vruntime", of.vruntime)?;
    split("se.sum_exec_runtime", of.runtime)?;
    let mut plain = |key, n: i64| writeln!(to, "{key:<45}:{n:21}");
    plain("se.nr_migrations", of.migrations as i64)?;
    plain("nr_switches", of.voluntary.saturating_add(of.involuntary) as i64)?;
    plain("nr_voluntary_switches", of.voluntary as i64)?;
    plain("nr_involuntary_switches", of.involuntary as i64)?;
    // Linux scales weights up by 1,024 on 64 bits.
    plain("se.load.weight", of.weight.saturating_mul(1024) as i64)?;
    plain("policy", i64::from(of.policy))?;
    plain("prio", i64::from(of.priority))?;
    // `fair_policy`.
    if matches!(of.policy, 0 | 3) { plain("se.slice", of.slice as i64) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    /// Each line has the width and, where the host has the key, the shape of the host's.
    #[test]
    fn as_this_host_writes_it() {
        let of = Sched {
            runtime: 1_234_567_890,
            migrations: 3,
            voluntary: 5,
            involuntary: 6,
            weight: 1024,
            priority: 120,
            ..Sched::default()
        };
        let mut bytes = [0; 2048];
        let mut room = Room::new(&mut bytes);
        write(b"name", 42, 7, &of, &mut room).unwrap();
        let ours = String::from_utf8(room.text().to_vec()).unwrap();
        assert!(ours.starts_with("name (42, #threads: 7)\n-----"));
        assert!(ours.contains("se.sum_exec_runtime                          :          1234.567890\n"), "{ours}");
        assert!(ours.contains("se.load.weight                               :              1048576\n"), "{ours}");
        assert!(ours.contains("nr_switches                                  :                   11\n"), "{ours}");
        let Ok(host) = std::fs::read_to_string("/proc/self/sched") else { return };
        assert_eq!(host.lines().nth(1), ours.lines().nth(1));
        for line in ours.lines().skip(2) {
            let key = line.split(':').next().unwrap();
            if let Some(theirs) = host.lines().find(|l| l.split(':').next() == Some(key)) {
                assert_eq!((theirs.len(), theirs.contains('.')), (line.len(), line.contains('.')), "{key}");
            }
        }
    }

    #[test]
    fn three_numbers() {
        let mut bytes = [0; 64];
        let mut room = Room::new(&mut bytes);
        write_stat(&Sched { runtime: 1, waited: 2, timeslices: 3, ..Sched::default() }, &mut room).unwrap();
        assert_eq!(room.text(), b"1 2 3\n");
    }
}
