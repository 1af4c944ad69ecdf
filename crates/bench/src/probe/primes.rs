//! The program of Linux bug 9906, "Weird hang with NPTL and SIGPROF": many threads that compute primes, with a
//! profiling timer and limits on CPU time, as the message of 2008 measured them.
//!
//! Counts go to a file as well, if one is named: a hard limit leaves no moment to print them.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::{io, mem, ptr};

use super::cpu_clock::{Crowd, wait_for};
use super::parameters::Parameters;
use super::{Measured, report};

/// `threads` compute the primes up to `upto` each. `first` and `interval`: ITIMER_PROF, in seconds. `soft` and `hard`:
/// RLIMIT_CPU, in seconds. `counts`: the file.
pub(super) const PARAMETERS: &[&str] = &["threads", "upto", "first", "interval", "soft", "hard", "counts"];
/// Layout of the file, in words of 64 bits.
pub const COUNTS: usize = 4;

/// The file's words, or [`OWN`].
static SHOWN: AtomicPtr<Counts> = AtomicPtr::new(ptr::null_mut());
static OWN: Counts = Counts {
    ticks: AtomicU64::new(0),
    warnings: AtomicU64::new(0),
    through: AtomicU64::new(0),
    primes: AtomicU64::new(0),
};
static UPTO: AtomicU64 = AtomicU64::new(0);

#[repr(C)]
struct Counts {
    /// SIGPROF.
    ticks: AtomicU64,
    /// SIGXCPU.
    warnings: AtomicU64,
    /// Threads that are through.
    through: AtomicU64,
    primes: AtomicU64,
}

impl Counts {
    fn shown() -> &'static Counts {
        // SAFETY: null, or the mapping of `show_in`, which stays.
        unsafe { SHOWN.load(Ordering::Relaxed).as_ref() }.unwrap_or(&OWN)
    }

    /// Keeps the counts in this file from now on.
    fn show_in(path: &str) -> io::Result<()> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(mem::size_of::<Counts>() as u64)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is large enough; zeros are counts.
        let place = unsafe {
            let (size, shared) = (mem::size_of::<Counts>(), libc::MAP_SHARED);
            libc::mmap(ptr::null_mut(), size, access, shared, file.as_raw_fd(), 0)
        };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        SHOWN.store(place.cast(), Ordering::Relaxed);
        Ok(())
    }
}

extern "C" fn on_signal(signal: i32) {
    let counts = Counts::shown();
    let count = if signal == libc::SIGXCPU { &counts.warnings } else { &counts.ticks };
    count.fetch_add(1, Ordering::Relaxed);
}

fn compute(word: &AtomicU32) {
    wait_for(word);
    let primes = primes_up_to(UPTO.load(Ordering::Relaxed));
    Counts::shown().primes.fetch_add(primes, Ordering::Relaxed);
    Counts::shown().through.fetch_add(1, Ordering::Relaxed);
}

/// Divides each odd number by all smaller odd ones up to its root: work for the processor, none for the memory.
pub fn primes_up_to(limit: u64) -> u64 {
    let is_prime = |number: u32| {
        let mut divisor = 3;
        while divisor * divisor <= number && !number.is_multiple_of(divisor) {
            divisor += 2;
        }
        divisor * divisor > number
    };
    let odd = (3..=limit.min(1 << 31) as u32).step_by(2).filter(|number| is_prime(*number)).count() as u64;
    u64::from(limit >= 2) + odd
}

/// Ticks and warnings that came, and primes that were found; the time is its parent's business.
pub(super) fn measure(told: &Parameters) -> Measured {
    let threads = told.number("threads")?.unwrap_or(8);
    UPTO.store(told.number("upto")?.unwrap_or(1_000_000), Ordering::Relaxed);
    let first: Option<f64> = told.number("first")?;
    let interval = told.number("interval")?.or(first).unwrap_or(0.0);
    if let Some(path) = told.text("counts") {
        Counts::show_in(path).map_err(|why| format!("{path}: {why}"))?;
    }
    let crowd = Crowd::gather_for(threads, compute)?;
    [libc::SIGPROF, libc::SIGXCPU].into_iter().try_for_each(handle).map_err(|why| format!("sigaction: {why}"))?;
    limit(told.number("soft")?, told.number("hard")?).map_err(|why| format!("setrlimit: {why}"))?;
    if let Some(first) = first {
        arm(first, interval).map_err(|why| format!("setitimer: {why}"))?;
    }
    crowd.release();
    crowd.join();
    let counts = Counts::shown();
    report::figure("ticks", "signals", counts.ticks.load(Ordering::Relaxed) as f64);
    report::figure("warnings", "signals", counts.warnings.load(Ordering::Relaxed) as f64);
    report::figure("primes", "primes", counts.primes.load(Ordering::Relaxed) as f64);
    Ok(())
}

fn refusal_of(answer: libc::c_long) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn handle(signal: i32) -> io::Result<()> {
    // SAFETY: the handler touches atomics only; all-zero bytes are an action without flags.
    let answer = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &action, ptr::null_mut())
    };
    refusal_of(answer.into())
}

fn limit(soft: Option<u64>, hard: Option<u64>) -> io::Result<()> {
    let Some(first) = soft.or(hard) else { return Ok(()) };
    let limit = libc::rlimit { rlim_cur: first, rlim_max: hard.unwrap_or(libc::RLIM_INFINITY) };
    // SAFETY: the limit is readable.
    refusal_of(unsafe { libc::setrlimit(libc::RLIMIT_CPU, &limit) }.into())
}

fn arm(first: f64, interval: f64) -> io::Result<()> {
    let time = |seconds: f64| libc::timeval {
        tv_sec: seconds as i64,
        tv_usec: ((seconds - seconds.trunc()) * 1e6).round() as i64,
    };
    let timer = libc::itimerval { it_interval: time(interval), it_value: time(first) };
    // SAFETY: the setting is readable.
    let answer = unsafe {
        libc::syscall(libc::SYS_setitimer, libc::ITIMER_PROF, &raw const timer, ptr::null_mut::<libc::itimerval>())
    };
    refusal_of(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_as_many_primes_as_there_are() {
        for (limit, primes) in [(1, 0), (2, 1), (3, 2), (9, 4), (10, 4), (100, 25), (10_000, 1_229)] {
            assert_eq!(primes_up_to(limit), primes, "up to {limit}");
        }
    }

    #[test]
    fn the_file_has_every_count() {
        assert_eq!(mem::size_of::<Counts>(), COUNTS * 8);
    }
}
