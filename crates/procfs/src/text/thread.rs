//! A thread's files, for any caller that knows the thread: the kernel in the program, or a reader of its state page.

use super::stat::{Field, Stat, priority};
use super::{Room, State, ticks};
use core::fmt::{self, Write};

/// How a thread is scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scheduling {
    /// The number of the thread's policy.
    pub policy: u32,
    /// Whether the policy is a real-time or the deadline policy.
    pub is_rt: bool,
    /// See `is_rt`.
    pub is_deadline: bool,
    /// Nice value.
    pub nice: i32,
    /// Real-time priority; 0 without such a policy.
    pub rt: u32,
    /// The CPU that it is on, or was on last.
    pub cpu: u32,
}

impl Scheduling {
    /// Field 18 of `stat`.
    pub fn priority(&self) -> i64 {
        priority(self.nice, self.is_rt.then_some(self.rt), self.is_deadline)
    }
}

/// Our fields of a thread's `stat`.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The process.
    pub process: i32,
    /// The thread.
    pub id: i32,
    /// The thread's name.
    pub name: &'a [u8],
    /// The thread's state.
    pub state: State,
    /// The file is the process's: times and faults of all its threads.
    pub whole: bool,
    /// How many threads the process has.
    pub threads: u32,
    /// CPU time in user mode and in the kernel, in nanoseconds.
    pub times: [u64; 2],
    /// When it began, in nanoseconds since the machine was started; `None`: the host's.
    pub begun: Option<u64>,
    /// `None` for a main thread that exited before the others.
    pub scheduling: Option<Scheduling>,
    /// Linux's name of the function in which it waits.
    pub waits_in: Option<&'static str>,
    /// Signals pending for the thread, for the process, blocked, ignored, caught.
    pub signals: [u64; 5],
}

impl Facts<'_> {
    /// `stat`, from the host's line of the process, which is changed for it.
    pub fn write_stat(&self, stat: &mut Stat, to: &mut Room<'_>) -> fmt::Result {
        (stat.id, stat.state) = (self.id, self.state.letter());
        stat.set_name(self.name);
        stat.set(Field::NumThreads, i64::from(self.threads));
        stat.set(Field::Utime, ticks(self.times[0]) as i64);
        stat.set(Field::Stime, ticks(self.times[1]) as i64);
        if !self.whole {
            for field in [Field::Minflt, Field::Cminflt, Field::Majflt, Field::Cmajflt] {
                stat.set(field, 0);
            }
        }
        if self.id != self.process {
            stat.set(Field::ExitSignal, -1);
        }
        if let Some(begun) = self.begun {
            stat.set(Field::StartTime, ticks(begun) as i64);
        }
        let Some(scheduling) = self.scheduling else { return stat.write(to) };
        stat.set(Field::Priority, scheduling.priority());
        stat.set(Field::Nice, i64::from(scheduling.nice));
        stat.set(Field::RtPriority, i64::from(scheduling.rt));
        stat.set(Field::Policy, i64::from(scheduling.policy));
        stat.set(Field::Processor, i64::from(scheduling.cpu));
        stat.set(Field::Wchan, i64::from(self.waits_in.is_some()));
        let [pending, _, blocked, ignored, caught] = self.signals;
        let first = |set: u64| (set & 0x7fff_ffff) as i64;
        stat.set(Field::Signal, first(pending));
        for (field, set) in [(Field::Blocked, blocked), (Field::SigIgnore, ignored), (Field::SigCatch, caught)] {
            stat.set(field, first(set));
        }
        stat.write(to)
    }
}

/// `wchan`, of the function in which a thread waits.
pub fn write_wchan(waits_in: Option<&str>, to: &mut Room<'_>) -> fmt::Result {
    to.write_str(waits_in.unwrap_or("0"))
}

/// `stack`: one line.
pub fn write_stack(waits_in: Option<&str>, to: &mut Room<'_>) -> fmt::Result {
    waits_in.map_or(Ok(()), |place| writeln!(to, "[<0>] {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn facts() -> Facts<'static> {
        Facts {
            process: 7,
            id: 4_194_310,
            name: b"worker",
            state: State::Sleeping,
            whole: false,
            threads: 3,
            times: [1_239_000_000, 20_000_000],
            begun: Some(5_010_000_000),
            scheduling: Some(Scheduling { policy: 1, is_rt: true, rt: 33, cpu: 1, ..Scheduling::default() }),
            waits_in: Some("futex_do_wait"),
            signals: [1 << 9, 1 << 10, 1 << 40 | 2, 1 << 12, 1 << 14],
        }
    }

    fn text(run: impl FnOnce(&mut Room<'_>) -> fmt::Result) -> String {
        let mut bytes = [0; 2048];
        let mut room = Room::new(&mut bytes);
        run(&mut room).unwrap();
        String::from_utf8(room.text().to_vec()).unwrap()
    }

    #[test]
    fn the_hosts_line_becomes_the_threads() {
        let host = std::fs::read("/proc/self/stat").unwrap();
        let base = Stat::parse(&host).unwrap();
        let ours = Stat::parse(text(|to| facts().write_stat(&mut base.clone(), to)).as_bytes()).unwrap();
        assert_eq!((ours.id, ours.name(), ours.state), (4_194_310, b"worker".as_slice(), b'S'));
        let fields = [Field::Utime, Field::Stime, Field::NumThreads, Field::Priority, Field::Policy, Field::ExitSignal];
        assert_eq!(fields.map(|field| ours.get(field)), [123, 2, 3, -34, 1, -1]);
        assert_eq!((ours.get(Field::Minflt), ours.get(Field::Wchan)), (0, 1));
        assert_eq!(ours.get(Field::StartTime), 501);
        let signals = [Field::Signal, Field::Blocked, Field::SigIgnore, Field::SigCatch].map(|field| ours.get(field));
        assert_eq!(signals, [1 << 9, 2, 1 << 12, 1 << 14], "its own, and of those the first 31");
        for kept in [Field::Ppid, Field::Vsize] {
            assert_eq!(ours.get(kept), base.get(kept), "{kept:?}");
        }
        let whole = Facts { whole: true, id: 7, name: base.name(), begun: None, signals: [1, 2, 4, 8, 16], ..facts() };
        let ours = Stat::parse(text(|to| whole.write_stat(&mut base.clone(), to)).as_bytes()).unwrap();
        assert_eq!((ours.name(), ours.get(Field::Minflt)), (base.name(), base.get(Field::Minflt)));
        assert_eq!(ours.get(Field::StartTime), base.get(Field::StartTime));
        assert_eq!((ours.get(Field::Signal), ours.get(Field::SigCatch)), (1, 16));
        assert_eq!(ours.get(Field::ExitSignal), base.get(Field::ExitSignal));
    }

    #[test]
    fn who_waits_for_nothing_is_nowhere() {
        let place = Some("futex_do_wait");
        assert_eq!(text(|to| write_wchan(place, to)), "futex_do_wait");
        assert_eq!(text(|to| write_stack(place, to)), "[<0>] futex_do_wait\n");
        assert_eq!((text(|to| write_wchan(None, to)), text(|to| write_stack(None, to))), ("0".into(), String::new()));
    }
}
