//! The data, and its JSON. Times are nanoseconds.

use abi::SigEvent;
use abi::checkpoint::{ProcessRecord, ThreadRecord, TimerRecord, timer_flag};
use serde::{Deserialize, Serialize};

/// The format's name in a file of this kind.
pub const FORMAT: &str = "entresol-time";
/// The version of the form that this library writes and reads.
pub const VERSION: u32 = 1;

/// A process's time at one moment (each timer at its own moment: nothing is stopped).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// A checksum of everything else: a file that was cut, joined or changed is refused. `None`: not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
    /// The process.
    pub pid: i32,
    /// The host's `boot_id`: clocks of another boot are others.
    pub boot: String,
    /// The clocks' readings.
    pub clocks: Clocks,
    /// CPU time of the process.
    pub cpu: CpuTime,
    /// CPU time of its threads, where it was asked from outside.
    pub threads: Vec<ThreadTime>,
    /// `setitimer(2)`.
    pub itimers: ITimers,
    /// `getrlimit(2)`.
    pub limits: Limits,
    /// The id that the next timer gets.
    pub next_id: u32,
    /// Whether exact ids are asked for (`PR_TIMER_CREATE_RESTORE_IDS`).
    pub restoring_ids: bool,
    /// `timer_create(2)`, the newest first.
    pub timers: Vec<TimerState>,
}

/// Clocks of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    /// CLOCK_MONOTONIC.
    pub monotonic: u64,
    /// CLOCK_REALTIME.
    pub realtime: u64,
    /// CLOCK_BOOTTIME.
    pub boottime: u64,
    /// CLOCK_TAI.
    pub tai: u64,
}

/// Consumed CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuTime {
    /// In all.
    pub total: u64,
    /// In user mode.
    pub user: u64,
    /// In system calls.
    pub system: u64,
}

/// CPU time of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadTime {
    /// Its id.
    pub tid: i32,
    /// Its CPU time.
    pub cpu: CpuTime,
}

/// The interval timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ITimers {
    /// ITIMER_REAL.
    pub real: Setting,
    /// ITIMER_VIRTUAL.
    pub r#virtual: Setting,
    /// ITIMER_PROF.
    pub prof: Setting,
}

/// An interval timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The rest; 0: not running.
    pub value: u64,
    /// Its period; 0: once.
    pub interval: u64,
}

/// The limits that are about time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// RLIMIT_CPU, seconds.
    pub cpu: Limit,
    /// RLIMIT_RTTIME, microseconds.
    pub rttime: Limit,
    /// The soft RLIMIT_SIGPENDING; `null`: none.
    pub sigpending: Option<u64>,
}

/// A limit; `null`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The limit in force.
    pub soft: Option<u64>,
    /// How far it may be raised.
    pub hard: Option<u64>,
}

/// The receiver of a timer's signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notify {
    /// SIGEV_SIGNAL: the process.
    Signal,
    /// SIGEV_NONE: nobody.
    None,
    /// SIGEV_THREAD, by a raw system call: the process.
    Thread,
    /// SIGEV_THREAD_ID: the thread in `tid`.
    ThreadId,
}

/// One POSIX timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimerState {
    /// Its id.
    pub id: i32,
    /// Its clock, as `timer_create(2)` was given it.
    pub clock: i32,
    /// The thread whose CPU clock that is; 0 for other clocks.
    pub clock_tid: i32,
    /// The receiver of its signal.
    pub notify: Notify,
    /// Which signal.
    pub signal: i32,
    /// The thread that gets its signal, or 0.
    pub tid: i32,
    /// `sigev_value`.
    pub value: u64,
    /// Its period; 0: once.
    pub interval: u64,
    /// When it expires; `null`: not running. On the clock that `now` was read of: a relative setting of CLOCK_REALTIME
    /// counts on CLOCK_MONOTONIC.
    pub expires: Option<u64>,
    /// The clock's reading.
    pub now: u64,
    /// Set with TIMER_ABSTIME.
    pub absolute: bool,
    /// Its signal was sent and not delivered.
    pub pending: bool,
    /// Periods counted towards the next signal, less one.
    pub overrun: i64,
    /// `timer_getoverrun(2)`.
    pub overrun_last: i64,
    /// When it was created, for the order of listings.
    pub created: u64,
}

/// The host's name for this boot.
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn limit(value: u64) -> Option<u64> {
    (value != libc::RLIM_INFINITY).then_some(value)
}

impl Checkpoint {
    pub(crate) fn new(process: &ProcessRecord, threads: &[ThreadRecord], timers: &[TimerRecord]) -> Self {
        let [real, r#virtual, prof] =
            process.itimers.map(|[value, interval]| Setting { value: value.0, interval: interval.0 });
        let [cpu, rttime] = process.limits.map(|[soft, hard]| Limit { soft: limit(soft), hard: limit(hard) });
        let [monotonic, realtime, boottime, tai] = process.clocks.map(|clock| clock.0);
        let mut timers: Vec<TimerState> = timers.iter().map(TimerState::new).collect();
        timers.sort_by_key(|timer| std::cmp::Reverse((timer.created, timer.id)));
        let mut checkpoint = Checkpoint {
            format: FORMAT.to_owned(),
            version: VERSION,
            sum: None,
            pid: process.pid,
            boot: boot(),
            clocks: Clocks { monotonic, realtime, boottime, tai },
            cpu: cpu_time(process.cpu),
            threads: threads.iter().map(|t| ThreadTime { tid: t.tid, cpu: cpu_time(t.cpu) }).collect(),
            itimers: ITimers { real, r#virtual, prof },
            limits: Limits { cpu, rttime, sigpending: limit(process.sigpending) },
            next_id: process.next_id,
            restoring_ids: process.restoring != 0,
            timers,
        };
        checkpoint.sum = Some(checkpoint.sum());
        checkpoint
    }

    /// The JSON, a line for each timer.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = |value: &dyn erased::Json| value.json();
        let mut out = String::from("{\n");
        let mut field = |name: &str, value: String| out.push_str(&format!("  \"{name}\": {value},\n"));
        field("format", text(&self.format));
        field("version", text(&self.version));
        if let Some(sum) = &self.sum {
            field("sum", text(sum));
        }
        field("pid", text(&self.pid));
        field("boot", text(&self.boot));
        field("clocks", text(&self.clocks));
        field("cpu", text(&self.cpu));
        field("threads", rows(&self.threads));
        field("itimers", text(&self.itimers));
        field("limits", text(&self.limits));
        field("next_id", text(&self.next_id));
        field("restoring_ids", text(&self.restoring_ids));
        out.push_str(&format!("  \"timers\": {}\n}}\n", rows(&self.timers)));
        out
    }

    /// FNV-1a over everything but the sum, in the order of the fields.
    #[must_use]
    pub fn sum(&self) -> String {
        let plain = serde_json::to_vec(&Checkpoint { sum: None, ..self.clone() }).unwrap_or_default();
        let sum = plain
            .iter()
            .fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        format!("{sum:016x}")
    }
}

/// Writes any value as JSON.
mod erased {
    pub trait Json {
        fn json(&self) -> String;
    }
    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap_or_default()
        }
    }
}

fn rows<T: Serialize>(items: &[T]) -> String {
    if items.is_empty() {
        return "[]".to_owned();
    }
    let lines: Vec<String> = items.iter().map(erased::Json::json).collect();
    format!("[\n    {}\n  ]", lines.join(",\n    "))
}

fn cpu_time([total, user, system]: [ids::Nanos; 3]) -> CpuTime {
    CpuTime { total: total.0, user: user.0, system: system.0 }
}

impl TimerState {
    fn new(r: &TimerRecord) -> Self {
        TimerState {
            id: r.id,
            clock: r.clock,
            clock_tid: r.clock_tid,
            notify: match r.notify {
                SigEvent::NONE => Notify::None,
                SigEvent::THREAD => Notify::Thread,
                SigEvent::THREAD_ID => Notify::ThreadId,
                _ => Notify::Signal,
            },
            signal: r.signo,
            tid: r.tid,
            value: r.value,
            interval: r.interval.0,
            expires: (r.flags & timer_flag::RUNS != 0).then_some(r.expires.0),
            now: r.now.0,
            absolute: r.flags & timer_flag::ABSOLUTE != 0,
            pending: r.flags & timer_flag::PENDING != 0,
            overrun: r.overrun,
            overrun_last: r.overrun_last,
            created: r.created.0,
        }
    }

    pub(crate) fn to_record(self) -> TimerRecord {
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        TimerRecord {
            id: self.id,
            clock: self.clock,
            notify: match self.notify {
                Notify::Signal => SigEvent::SIGNAL,
                Notify::None => SigEvent::NONE,
                Notify::Thread => SigEvent::THREAD,
                Notify::ThreadId => SigEvent::THREAD_ID,
            },
            signo: self.signal,
            tid: self.tid,
            flags: flag(self.expires.is_some(), timer_flag::RUNS)
                | flag(self.pending, timer_flag::PENDING)
                | flag(self.absolute, timer_flag::ABSOLUTE),
            value: self.value,
            interval: ids::Nanos(self.interval),
            expires: ids::Nanos(self.expires.unwrap_or(0)),
            now: ids::Nanos(self.now),
            overrun: self.overrun,
            overrun_last: self.overrun_last,
            created: ids::Nanos(self.created),
            clock_tid: self.clock_tid,
        }
    }

    /// The four lines of `/proc/PID/timers`.
    #[must_use]
    pub fn proc_text(&self, pid: i32) -> String {
        let (how, whom, target) = match self.notify {
            Notify::Signal => ("signal", "pid", pid),
            Notify::None => ("none", "pid", pid),
            Notify::Thread => ("thread", "pid", pid),
            Notify::ThreadId => ("signal", "tid", self.tid),
        };
        let clock = match self.clock {
            libc::CLOCK_PROCESS_CPUTIME_ID => -6,
            libc::CLOCK_THREAD_CPUTIME_ID => -2,
            clock => clock,
        };
        format!(
            "ID: {}\nsignal: {}/{:016x}\nnotify: {how}/{whom}.{target}\nClockID: {clock}\n",
            self.id, self.signal, self.value
        )
    }
}
