//! Groups of measurements: each task gives one or more figures.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, ensure};

use super::cargo_build;
use super::child::{self, Outcome, Side};
use super::figures::Spread;
use super::processes::{self, Work};
use super::watched;
use crate::probe::Probe;

/// Tasks that belong together.
pub struct Group {
    /// Its name on the command line.
    pub name: &'static str,
    /// The measurement.
    pub tasks: &'static [Task],
    /// Takes minutes or more: measured only if it is named, and at most three times.
    pub long: bool,
}

impl Group {
    /// How often, and out of how many times.
    #[must_use]
    pub fn runs(&self, runs: usize) -> usize {
        if self.long { runs.min(3) } else { runs }
    }
}

/// One process to run on each side.
pub struct Task {
    /// A description for the progress line.
    pub about: &'static str,
    /// The figures that it gives.
    pub figures: &'static [&'static str],
    /// The unit of all of them, empty where they differ.
    pub unit: &'static str,
    kind: Kind,
}

enum Kind {
    /// A program of ours that measures itself.
    Probe(Probe),
    /// A probe with parameters.
    Told(Probe, &'static str),
    /// The start and end of /bin/true.
    Startup,
    /// `xz -T2 -3` on a file that we make.
    Xz,
    /// `cargo build` of a small generated program.
    CargoBuild,
    /// A program that computes while others watch it.
    Watched,
    /// A program that starts many processes.
    Processes(Work),
}

/// All groups.
pub const GROUPS: &[Group] = &[
    Group { name: "threads", tasks: THREADS, long: false },
    Group { name: "sched", tasks: SCHED, long: false },
    Group { name: "calls", tasks: CALLS, long: false },
    Group { name: "cpu-time", tasks: CPU_TIME, long: false },
    Group { name: "timers", tasks: TIMERS, long: false },
    Group { name: "procfs", tasks: PROCFS, long: false },
    Group { name: "processes", tasks: PROCESSES, long: true },
    Group { name: "accuracy", tasks: ACCURACY, long: true },
];

const THREADS: &[Task] = &[
    probe(Probe::Yield, "yield between two threads on one CPU", &["yield_same_cpu"], "ns"),
    probe(Probe::Futex, "futex hand-over on one CPU", &["futex_handover_same_cpu"], "ns"),
    probe(Probe::Condvar, "mutex and condition variable hand-over", &["condvar_handover"], "ns"),
    probe(Probe::Create, "creating and joining a thread", &["create_join"], "us"),
    probe(Probe::Passthrough, "a system call passed through", &["passthrough_getppid"], "ns"),
    probe(Probe::Preemption, "preemption", &["preemption"], "us"),
    probe(Probe::RtWakeup, "real-time wake-up while every CPU spins", &["rt_wakeup_p50", "rt_wakeup_p99"], "us"),
    probe(Probe::Crowd, "100,000 threads: memory", &["threads_100k_resident", "threads_100k_create"], ""),
    probe(Probe::Sieve, "a prime sieve on all CPUs", &["cpu_bound"], "ms"),
    Task { about: "xz -T2 -3", figures: &["cpu_bound_xz"], unit: "ms", kind: Kind::Xz },
    Task { about: "starting /bin/true", figures: &["startup"], unit: "ms", kind: Kind::Startup },
];

const SCHED: &[Task] = &[probe(
    Probe::Schbench,
    "workers of schbench, woken among 2, 8 and 32",
    &["schbench_p99_2", "schbench_p99_8", "schbench_p99_32"],
    "us",
)];

const CALLS: &[Task] = &[
    probe(Probe::PipeWakeup, "wake-up by a pipe while every CPU spins", &["pipe_wakeup_p50", "pipe_wakeup_p99"], "us"),
    Task { about: "cargo build of a small program", figures: &["cargo_build"], unit: "ms", kind: Kind::CargoBuild },
];

const CPU_TIME: &[Task] = &[
    probe(
        Probe::CpuClock,
        "reading the clocks of CPU time",
        &["thread_clock", "process_clock_1", "process_clock_1k"],
        "ns",
    ),
    probe(Probe::CpuClock100k, "the same beside 100,000 threads", &["process_clock_100k"], "ns"),
    probe(Probe::Profile8, "profiling ticks over 8 threads", &["profile_tick_8"], "ms"),
    probe(Probe::Profile1k, "profiling ticks over 1,000 threads", &["profile_tick_1k"], "ms"),
    probe(Probe::Profile20k, "profiling ticks over 20,000 threads", &["profile_tick_20k"], "ms"),
    probe(Probe::Profile100k, "profiling ticks over 100,000 threads", &["profile_tick_100k"], "ms"),
];

const TIMERS: &[Task] = &[
    probe(Probe::Timers20k, "20,000 timers", &["timer_create_20k", "timer_getoverrun_20k", "timer_delete_20k"], "ns"),
    probe(Probe::Timers96k, "96,000 timers", &["timer_create_96k", "timer_getoverrun_96k", "timer_delete_96k"], "ns"),
    probe(Probe::Timers1m, "a million timers", &["timer_create_1m", "timer_getoverrun_1m", "timer_delete_1m"], "ns"),
    probe(Probe::TimerPairs, "timers in loops", &["timer_arm_disarm", "timer_pair_1", "timer_pair_63"], "ns"),
    probe(Probe::TimerRestore, "90,000 timers with exact ids", &["timer_restore_90k"], "ms"),
    probe(Probe::TimerExact, "a first timer with an exact id", &["timer_exact_first"], "us"),
    probe(Probe::TimerMemory, "memory of a million armed timers", &["timer_memory_1m"], "bytes"),
    probe(
        Probe::TimerListed,
        "timers made while 100,000 are listed",
        &["timer_pair_alone_p50", "timer_pair_alone_p999", "timer_pair_listed_p50", "timer_pair_listed_p999"],
        "ns",
    ),
    probe(Probe::TimerLateness, "1,000 periodic timers", &["timer_late_p50", "timer_late_p99"], "ms"),
];

const ACCURACY: &[Task] = &[
    probe(
        Probe::Tick,
        "a tick beside many threads and armed timers",
        &["tick_1_ns", "tick_1k_ns", "tick_100k_ns", "tick_armed_1k_ns", "tick_armed_100k_ns"],
        "ns",
    ),
    Task {
        about: "instructions of a tick",
        figures: &[
            "tick_1_instructions",
            "tick_1k_instructions",
            "tick_100k_instructions",
            "tick_armed_1k_instructions",
            "tick_armed_100k_instructions",
        ],
        unit: "",
        kind: Kind::Told(Probe::Tick, "instructions=1"),
    },
    limits("threads=1", &["cpu_limit_1_soft", "cpu_limit_1_hard", "cpu_limit_1_off"]),
    limits("threads=8", &["cpu_limit_8_soft", "cpu_limit_8_hard", "cpu_limit_8_off"]),
    limits("threads=1000", &["cpu_limit_1000_soft", "cpu_limit_1000_hard", "cpu_limit_1000_off"]),
    probe(Probe::ClockSum, "clocks beside the host's, mixed", &["clock_sum_off", "clock_threads_off"], "%"),
];

const PROCFS: &[Task] = &[
    probe(Probe::Procfs, "looking threads up in /proc", LOOKED_UP, "ns"),
    probe(Probe::ProcfsScan, "128 scans of 2,000 threads in /proc", &["proc_scan"], "ms"),
    Task { about: "a program with four watchers", figures: &["proc_watched"], unit: "alone", kind: Kind::Watched },
];

const PROCESSES: &[Task] = &[
    probe(Probe::Process, "children", &["fork_exit_wait", "fork_exec_wait", "posix_spawn_wait"], "us"),
    probe(Probe::ForkMalloc, "fork while eight threads call malloc", &["fork_beside_malloc"], "us"),
    processes("500 times /bin/true from sh", &["sh_true_500"], "ms", processes::TRUE_500),
    processes("200 pipelines of three programs", &["sh_pipelines_200"], "ms", processes::PIPELINES_200),
    processes("make -j4 of 31 C files", &["make_31"], "ms", Work::Make),
    processes("stress-ng fork", &["stress_fork"], "us", Work::Stress("fork")),
    processes("stress-ng vfork", &["stress_vfork"], "us", Work::Stress("vfork")),
    processes("stress-ng exec", &["stress_exec"], "us", Work::Stress("exec")),
    processes("stress-ng nice", &["stress_nice"], "us", Work::Stress("nice")),
    processes("stress-ng sigsuspend", &["stress_sigsuspend"], "us", Work::Stress("sigsuspend")),
    processes("stress-ng sigio", &["stress_sigio"], "us", Work::Stress("sigio")),
    processes("stress-ng switch", &["stress_switch"], "us", Work::Stress("switch")),
    processes("stress-ng signest", &["stress_signest"], "us", Work::Stress("signest")),
    processes("stress-ng kill", &["stress_kill"], "us", Work::Stress("kill")),
];

const LOOKED_UP: &[&str] = &[
    "proc_stat_1",
    "proc_stat_2",
    "proc_stat_64",
    "proc_stat_scaling",
    "proc_access_1",
    "proc_access_2",
    "proc_access_64",
    "proc_access_scaling",
    "proc_readlink_1",
    "proc_readlink_2",
    "proc_readlink_64",
    "proc_readlink_scaling",
    "proc_read_1",
    "proc_read_2",
    "proc_read_64",
    "proc_read_scaling",
];

const fn probe(probe: Probe, about: &'static str, figures: &'static [&'static str], unit: &'static str) -> Task {
    Task { about, figures, unit, kind: Kind::Probe(probe) }
}

const fn processes(about: &'static str, figures: &'static [&'static str], unit: &'static str, work: Work) -> Task {
    Task { about, figures, unit, kind: Kind::Processes(work) }
}

const fn limits(threads: &'static str, figures: &'static [&'static str]) -> Task {
    Task { about: "limits on CPU time", figures, unit: "", kind: Kind::Told(Probe::CpuLimit, threads) }
}

/// The groups' names, for the command line.
#[must_use]
pub fn names() -> Vec<&'static str> {
    GROUPS.iter().map(|group| group.name).collect()
}

/// A task with what it needs at hand.
pub struct Prepared {
    action: Action,
    quick: bool,
}

enum Action {
    Probe(Probe, Vec<String>),
    Startup,
    Watched,
    Xz { program: PathBuf, input: PathBuf },
    CargoBuild { program: PathBuf, folder: PathBuf },
    Processes(processes::Prepared, &'static str),
}

impl Task {
    /// The unit of one of its figures.
    #[must_use]
    pub fn unit_of(&self, figure: &str) -> &'static str {
        match figure {
            "threads_100k_resident" => "KiB",
            "threads_100k_create" => "us",
            name if name.ends_with("_ns") => "ns",
            name if name.ends_with("_instructions") => "instr",
            name if name.ends_with("_soft") || name.ends_with("_hard") => "s",
            name if name.ends_with("_off") => "%",
            name if name.ends_with("_scaling") => "x",
            _ => self.unit,
        }
    }

    /// Whether the programs that it needs are there.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        match self.kind {
            Kind::Xz => super::on_path("xz").is_some(),
            Kind::CargoBuild => super::on_path("cargo").is_some(),
            Kind::Processes(work) => work.is_possible(),
            Kind::Probe(_) | Kind::Told(..) | Kind::Startup | Kind::Watched => true,
        }
    }

    /// Makes what the runs share.
    pub fn prepare(&self, folder: &Path, quick: bool) -> anyhow::Result<Prepared> {
        let action = match self.kind {
            Kind::Probe(probe) => Action::Probe(probe, Vec::new()),
            Kind::Told(probe, told) => Action::Probe(probe, vec![told.to_owned()]),
            Kind::Startup => Action::Startup,
            Kind::Watched => Action::Watched,
            Kind::Processes(work) => Action::Processes(work.prepare(folder, quick)?, self.figures[0]),
            Kind::Xz => {
                let input = folder.join("words");
                write_words(&input).context("no room for 25 MB of temporary data")?;
                Action::Xz { program: super::on_path("xz").context("xz was there just now")?, input }
            }
            Kind::CargoBuild => {
                let folder = folder.join("small");
                cargo_build::write_program(&folder).context("no room for a small program")?;
                let program = super::on_path("cargo").context("cargo was there just now")?;
                Action::CargoBuild { program, folder }
            }
        };
        Ok(Prepared { action, quick })
    }
}

impl Prepared {
    /// Runs it once on one side.
    pub fn run(&self, side: Side) -> anyhow::Result<Outcome> {
        match &self.action {
            Action::Probe(probe, told) => child::run_probe(side, *probe, told, self.quick, &mut |_, _, _| {}),
            Action::Startup => startup(side, if self.quick { 20 } else { 50 }),
            Action::Watched => watched::run(side, self.quick),
            Action::Xz { program, input } => xz(side, program, input),
            Action::CargoBuild { program, folder } => cargo_build::run(side, program, folder),
            Action::Processes(prepared, figure) => prepared.run(side, figure),
        }
    }
}

/// The median of many starts: they are short, and each one is at the mercy of the machine.
fn startup(side: Side, times: usize) -> anyhow::Result<Outcome> {
    let program = super::on_path("true").context("there is no program `true` on PATH")?;
    let own = super::own_path()?;
    let mut took_ms = Vec::with_capacity(times);
    for _ in 0..times {
        let start = Instant::now();
        let status = side.command(&own, &program).status()?;
        took_ms.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(status.success(), "`true` ended with {status}");
    }
    let median = Spread::of(took_ms).context("at least one start")?.median;
    Ok(Outcome::Figures(BTreeMap::from([("startup".to_owned(), median)])))
}

fn xz(side: Side, program: &Path, input: &Path) -> anyhow::Result<Outcome> {
    let mut command = side.command(&super::own_path()?, program);
    command.args(["-T2", "-3", "--stdout"]).arg(input).stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status()?;
    let took_ms = start.elapsed().as_secs_f64() * 1e3;
    ensure!(status.success(), "xz ended with {status}");
    Ok(Outcome::Figures(BTreeMap::from([("cpu_bound_xz".to_owned(), took_ms)])))
}

/// 25 MB that compress like text, the same every time: two blocks for xz, one a thread.
fn write_words(path: &Path) -> std::io::Result<()> {
    const BYTES: usize = 25_000_000;
    const VOCABULARY: u64 = 1_000;
    let words: Vec<String> = (1..=VOCABULARY).map(|number| format!("{:x} ", number * number * 0x9e37)).collect();
    let mut file = BufWriter::new(File::create(path)?);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut written = 0;
    while written < BYTES {
        // xorshift64: the words only have to repeat irregularly. The smaller of two draws makes some frequent.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = &words[((state >> 32) % VOCABULARY).min(state % VOCABULARY / 8) as usize];
        file.write_all(word.as_bytes())?;
        written += word.len();
    }
    file.flush()
}
