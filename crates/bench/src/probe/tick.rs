//! The cost of a tick to a thread that computes, next to many waiting threads and many timers on CPU time that do not
//! expire. A loop of fixed length reads the time-stamp counter: where two readings lie far apart, something interrupted
//! the loop. The length of the loop is known, so all other instructions in user mode belong to ticks: with the
//! parameter `instructions` the probe prints their number instead, if the machine counts them. Many virtual machines do
//! not.

use std::arch::x86_64::_rdtsc;
use std::{io, ptr};

use super::clock::{now_ns, percentile};
use super::cpu_clock::Crowd;
use super::parameters::Parameters;
use super::pthread::{cpus, pin};
use super::timers::refused;
use super::{Measured, report};

/// Far more than two readings take, far less than a tick.
const GAP_NS: f64 = 800.0;
/// Whatever took longer was not a tick alone.
const LONG_NS: f64 = 50_000.0;
/// With fewer additional gaps than this, ticks are not visible on this machine.
const TICKS_MIN: usize = 30;

/// `instructions=1`: these instead of nanoseconds.
pub(super) const PARAMETERS: &[&str] = &["instructions"];

/// The interruptions found.
struct Seen {
    /// The number of gaps; the lengths leave out those that are too long for a tick.
    gaps: usize,
    gaps_ns: Vec<f64>,
    /// Executed in user mode by this host thread, if they are counted.
    instructions: Option<u64>,
}

/// Nanoseconds and instructions of a tick, with 1 to 100,000 threads, and with as many timers armed.
pub(super) fn measure(parameters: &Parameters, quick: bool) -> Measured {
    pin(cpus().first().copied().unwrap_or(0))?;
    let counts = parameters.number("instructions")?.unwrap_or(0u8) != 0;
    let open = || Counter::open().map_err(|why| format!("this machine counts no instructions: perf_event_open: {why}"));
    let counter = counts.then(open).transpose()?;
    let watch = Watch { counter, loops: if quick { 20_000_000 } else { 60_000_000 } };
    let quiet = watch.look()?;
    arm_far()?;
    for (name, threads) in [("1", 1), ("1k", 1_000), ("100k", 100_000)] {
        let crowd = Crowd::gather(threads - 1)?;
        let seen = watch.look();
        crowd.release();
        crowd.join();
        tell(&format!("tick_{name}"), &quiet, seen?)?;
    }
    let mut armed = 0;
    for (name, timers) in [("1k", 1_000), ("100k", 100_000)] {
        (armed..timers).try_for_each(|_| arm_timer())?;
        armed = timers;
        tell(&format!("tick_armed_{name}"), &quiet, watch.look()?)?;
    }
    Ok(())
}

fn tell(name: &str, quiet: &Seen, mut seen: Seen) -> Measured {
    let ticks = seen.gaps.saturating_sub(quiet.gaps);
    if ticks < TICKS_MIN {
        return Err("ticks are not seen from user code here".to_owned());
    }
    match seen.instructions.zip(quiet.instructions) {
        Some((all, loops)) => {
            let each = all.saturating_sub(loops) as f64 / ticks as f64;
            report::figure(&format!("{name}_instructions"), "instructions", each);
        }
        None => report::figure(&format!("{name}_ns"), "ns", percentile(&mut seen.gaps_ns, 50)),
    }
    Ok(())
}

struct Watch {
    counter: Option<Counter>,
    loops: u64,
}

impl Watch {
    fn look(&self) -> Result<Seen, String> {
        let mut gaps = Vec::with_capacity(1 << 20);
        let (start_ns, start) = (now_ns(), clock());
        let threshold = (GAP_NS * self.ticks_a_ns()) as u64;
        let before = self.executed()?;
        let mut last = clock();
        for _ in 0..self.loops {
            let now = clock();
            if now - last > threshold && gaps.len() < gaps.capacity() {
                gaps.push(now - last);
            }
            last = now;
        }
        let instructions = self.executed()?.zip(before).map(|(after, before)| after - before);
        let ns = (now_ns() - start_ns) as f64 / (clock() - start) as f64;
        let gaps_ns = gaps.iter().map(|gap| *gap as f64 * ns).filter(|gap| *gap < LONG_NS).collect();
        Ok(Seen { gaps: gaps.len(), gaps_ns, instructions })
    }

    /// Instructions so far.
    fn executed(&self) -> Result<Option<u64>, String> {
        self.counter.as_ref().map(Counter::read).transpose().map_err(|why| format!("perf event: {why}"))
    }

    /// Ticks of the time-stamp counter in a nanosecond, measured over two milliseconds.
    fn ticks_a_ns(&self) -> f64 {
        let (start_ns, start) = (now_ns(), clock());
        while now_ns() - start_ns < 2_000_000 {}
        (clock() - start) as f64 / (now_ns() - start_ns) as f64
    }
}

fn clock() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { _rdtsc() }
}

/// A profiling timer that goes off in some hours of CPU time.
fn arm_far() -> Measured {
    let far = libc::timeval { tv_sec: 10_000, tv_usec: 0 };
    let timer = libc::itimerval { it_interval: far, it_value: far };
    // SAFETY: the setting is readable.
    let answer = unsafe {
        libc::syscall(libc::SYS_setitimer, libc::ITIMER_PROF, &raw const timer, ptr::null_mut::<libc::itimerval>())
    };
    if answer == 0 { Ok(()) } else { Err(refused("setitimer")) }
}

/// A timer on the process's CPU time, as far away.
fn arm_timer() -> Measured {
    let far = libc::timespec { tv_sec: 10_000, tv_nsec: 0 };
    let setting = libc::itimerspec { it_interval: far, it_value: far };
    let mut id = -1;
    // SAFETY: no event, our id.
    if unsafe { libc::syscall(libc::SYS_timer_create, libc::CLOCK_PROCESS_CPUTIME_ID, 0, &raw mut id) } != 0 {
        return Err(refused("timer_create"));
    }
    // SAFETY: our id, our setting.
    let answer = unsafe { libc::syscall(libc::SYS_timer_settime, id, 0, &raw const setting, 0) };
    if answer == 0 { Ok(()) } else { Err(refused("timer_settime")) }
}

/// Counts the instructions that this host thread executes in user mode.
struct Counter(libc::c_int);

impl Counter {
    fn open() -> io::Result<Self> {
        // `struct perf_event_attr`: type (hardware), size, what (instructions), then a word of flags at 40: without
        // the host's kernel, without a hypervisor.
        let mut attributes = [0u64; 16];
        attributes[0] = 128 << 32;
        attributes[1] = 1;
        attributes[5] = 1 << 5 | 1 << 6;
        // SAFETY: the attributes are as long as they say.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) };
        if fd >= 0 { Ok(Self(fd as libc::c_int)) } else { Err(io::Error::last_os_error()) }
    }

    fn read(&self) -> io::Result<u64> {
        let mut count = 0u64;
        // SAFETY: eight bytes of ours.
        let got = unsafe { libc::read(self.0, (&raw mut count).cast(), 8) };
        if got == 8 { Ok(count) } else { Err(io::Error::last_os_error()) }
    }
}
