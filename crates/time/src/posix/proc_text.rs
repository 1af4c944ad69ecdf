//! The text of `/proc/PID/timers`.

use crate::posix::table::Listed;
use crate::posix::{Base, Notify};
use core::fmt;

/// One timer's four lines (`show_timer`).
#[derive(Clone, Copy, Debug)]
pub struct ProcTimer<'a> {
    /// The timer.
    pub listed: &'a Listed,
    /// The receiving process, as the reader sees it.
    pub pid: i32,
}

impl fmt::Display for ProcTimer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timer = &self.listed.timer;
        let (signo, how, whom, target) = match timer.notify {
            Notify::None { signo } => (signo, "none", "pid", self.pid),
            Notify::Process { signo, thread } => {
                (signo as i32, if thread { "thread" } else { "signal" }, "pid", self.pid)
            }
            Notify::Thread { signo, tid } => (signo as i32, "signal", "tid", tid),
        };
        let clock = match timer.base {
            Base::ProcessCpu(_) | Base::ThreadCpu(..) if timer.clock_raw == 2 => -6,
            Base::ProcessCpu(_) | Base::ThreadCpu(..) if timer.clock_raw == 3 => -2,
            _ => timer.clock_raw,
        };
        writeln!(f, "ID: {}", self.listed.id)?;
        writeln!(f, "signal: {}/{:016x}", signo, timer.value)?;
        writeln!(f, "notify: {how}/{whom}.{target}")?;
        writeln!(f, "ClockID: {clock}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuClock;
    use crate::posix::Timer;
    use ids::Nanos;
    use std::string::ToString;

    fn text(base: Base, notify: Notify, clock: i32) -> std::string::String {
        let listed = Listed { id: 3, created: Nanos(1), timer: Timer::new(base, notify, 0xdead_beef, clock) };
        ProcTimer { listed: &listed, pid: 42 }.to_string()
    }

    #[test]
    fn as_seen_on_linux() {
        assert_eq!(
            text(Base::Monotonic, Notify::Process { signo: 34, thread: false }, 1),
            "ID: 3\nsignal: 34/00000000deadbeef\nnotify: signal/pid.42\nClockID: 1\n"
        );
        assert_eq!(
            text(Base::ThreadCpu(CpuClock::Sched, 7), Notify::Thread { signo: 10, tid: 7 }, 3),
            "ID: 3\nsignal: 10/00000000deadbeef\nnotify: signal/tid.7\nClockID: -2\n"
        );
        assert!(
            text(Base::ProcessCpu(CpuClock::Sched), Notify::None { signo: 0 }, 2)
                .ends_with("notify: none/pid.42\nClockID: -6\n")
        );
        // The clock of another thread or process by its encoded id stays what it was.
        for raw in [-46, -41] {
            let base = Base::ThreadCpu(CpuClock::Sched, 5);
            let shown = text(base, Notify::Process { signo: 1, thread: false }, raw);
            assert!(shown.ends_with(&std::format!("ClockID: {raw}\n")), "{shown}");
        }
        assert!(text(Base::Tai, Notify::Process { signo: 1, thread: true }, 11).contains("notify: thread/pid.42\n"));
    }
}
