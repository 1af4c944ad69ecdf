//! A server that upgrades itself while its timers run, under load, and loses no expiry.
//!
//! Every timer is periodic and started at an absolute time. The server counts what each delivery says (1 and its
//! overrun) in memory that outlives the program, executes itself anew every now and then, and at the end compares:
//! for each timer, what was counted times the period must be how far its next expiry has come. One lost or one
//! that came twice would show.
//!
//!     entresol run --pending-signals=unlimited -- hot_restart --timers 100000 --restarts 20 --seconds 60

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{env, io, mem, ptr, slice, thread};

use entresol_api::restart;

const SIGNAL: i32 = 40;

/// What is asked for, and how far it has come. Handed on by arguments.
struct Plan {
    timers: usize,
    restarts: u32,
    seconds: f64,
    /// How many restarts there were.
    done: u32,
    /// The descriptor of the memory that outlives the program.
    memory: i32,
}

impl Plan {
    fn parse() -> Result<Plan, String> {
        let mut plan = Plan { timers: 1000, restarts: 3, seconds: 2.0, done: 0, memory: -1 };
        let mut arguments = env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name}: what?"))?;
            let number: f64 = value.parse().map_err(|_| format!("{name} {value}: no number"))?;
            match name.as_str() {
                "--timers" => plan.timers = number as usize,
                "--restarts" => plan.restarts = number as u32,
                "--seconds" => plan.seconds = number,
                "--done" => plan.done = number as u32,
                "--memory" => plan.memory = number as i32,
                _ => return Err(format!("{name}: no such option")),
            }
        }
        Ok(plan)
    }

    fn next(&self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        let mut option = |name: &str, value: String| _ = command.arg(name).arg(value);
        option("--timers", self.timers.to_string());
        option("--restarts", self.restarts.to_string());
        option("--seconds", self.seconds.to_string());
        option("--done", (self.done + 1).to_string());
        option("--memory", self.memory.to_string());
        command
    }

    /// 100,000 signals a second at most.
    fn period_ns(&self) -> u64 {
        (self.timers as u64 * 10_000).max(10_000_000)
    }
}

fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// The first word of the memory is when the first expiries are; then the count of each timer.
fn memory(plan: &mut Plan) -> io::Result<&'static [AtomicU64]> {
    let bytes = (plan.timers + 1) * 8;
    // SAFETY: fresh memory of a fresh file; only this thread and the programs after it look there.
    unsafe {
        if plan.memory < 0 {
            plan.memory = libc::memfd_create(c"counts".as_ptr(), 0);
            let file = File::from_raw_fd(plan.memory);
            file.set_len(bytes as u64)?;
            plan.memory = file.into_raw_fd();
        }
        let at =
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, plan.memory, 0);
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(slice::from_raw_parts(at.cast(), plan.timers + 1))
    }
}

fn create(index: usize, first: u64, period: u64) -> io::Result<()> {
    // SAFETY: zeros are a sigevent, and everything is ours.
    unsafe {
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_signo = SIGNAL;
        event.sigev_value.sival_ptr = index as *mut libc::c_void;
        let mut id = -1i32;
        if libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw mut event, &raw mut id) != 0 {
            return Err(io::Error::last_os_error());
        }
        assert_eq!(id as usize, index, "a fresh process counts from 0");
        let setting = libc::itimerspec { it_interval: timespec(period), it_value: timespec(first) };
        libc::syscall(libc::SYS_timer_settime, id, libc::TIMER_ABSTIME, &raw const setting, 0);
    }
    Ok(())
}

/// Serves expiries until then.
fn serve(counts: &[AtomicU64], until: u64) {
    // SAFETY: sets and places are ours; a timer's signal has a value and an overrun.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, SIGNAL);
        while now_ns() < until {
            let mut info: libc::siginfo_t = mem::zeroed();
            if libc::sigtimedwait(&set, &mut info, &timespec(10_000_000)) == SIGNAL {
                let index = info.si_value().sival_ptr as usize;
                counts[index + 1].fetch_add(1 + info.si_overrun() as u64, Relaxed);
            }
        }
    }
}

fn block() {
    // SAFETY: the set is ours.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, SIGNAL);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut());
    }
}

/// Something to do for the CPUs meanwhile: it is gone with the program.
fn load() {
    for seed in 0..2u64 {
        thread::spawn(move || {
            let mut x = seed + 1;
            loop {
                x = std::hint::black_box(x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
            }
        });
    }
}

/// Whether what was counted is what has expired.
fn compare(plan: &Plan, counts: &[AtomicU64]) -> Result<u64, String> {
    let end = restart::save().map_err(|e| e.to_string())?;
    let (first, period) = (counts[0].load(Relaxed), plan.period_ns());
    if end.timers.len() != plan.timers {
        return Err(format!("{} timers are left of {}", end.timers.len(), plan.timers));
    }
    let mut all = 0;
    for timer in &end.timers {
        let index = timer.value as usize;
        if timer.id as usize != index || timer.interval != period {
            return Err(format!("timer {} was {index}, its period is {} ns", timer.id, timer.interval));
        }
        let counted = counts[index + 1].load(Relaxed);
        let expected = timer.expires.map(|at| (at - first) / period);
        if expected != Some(counted) {
            return Err(format!("timer {index} has expired {expected:?} times, {counted} were told"));
        }
        all += counted;
    }
    Ok(all)
}

fn run() -> Result<ExitCode, String> {
    let mut plan = Plan::parse()?;
    if !entresol_api::is_available() {
        eprintln!("hot_restart: {}; start it by `entresol run`", entresol_api::Unavailable);
        return Ok(ExitCode::from(2));
    }
    block();
    let counts = memory(&mut plan).map_err(|e| e.to_string())?;
    match restart::inherited().map_err(|e| e.to_string())? {
        Some(left) => restart::restore(&left, restart::same_threads).map_err(|e| e.to_string())?,
        None => {
            let first = now_ns() + 100_000_000 + plan.timers as u64 * 1_000;
            counts[0].store(first, Relaxed);
            for index in 0..plan.timers {
                create(index, first, plan.period_ns()).map_err(|e| format!("timer {index}: {e}"))?;
            }
        }
    }
    load();
    let life = (plan.seconds * 1e9 / f64::from(plan.restarts + 1)) as u64;
    serve(counts, now_ns() + life);
    if plan.done < plan.restarts {
        // No file of ours but the counts is open, and the standard streams go on.
        debug_assert!(io::stdout().as_raw_fd() == 1);
        return Err(restart::exec(&mut plan.next()).to_string());
    }
    let all = compare(&plan, counts)?;
    println!("{} timers, {} restarts, {all} expiries: none lost, none doubled, ids unchanged", plan.timers, plan.done);
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("hot_restart: {error}");
        ExitCode::FAILURE
    })
}
