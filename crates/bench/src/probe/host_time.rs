//! Compares our clocks of CPU time with the host's count: at the limits on CPU time, and after a mixed run. A child
//! process is measured; its parent gets the host's count from wait4(2).

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, hint, mem, ptr, thread};

use nix::time::ClockId;

use super::clock::read_ns;
use super::cpu_clock::{Crowd, wait_for};
use super::parameters::Parameters;
use super::{Measured, report};

/// The parameters of [`at_limits`]: how many threads.
pub(super) const LIMIT_PARAMETERS: &[&str] = &["threads"];
/// The parameters of [`sum`]: how many seconds.
pub(super) const SUM_PARAMETERS: &[&str] = &["seconds"];

/// The child's report, in nanoseconds by its own process clock.
#[repr(C)]
struct Told {
    /// When the soft limit's signal came.
    soft: AtomicU64,
    /// The last reading before its end.
    last: AtomicU64,
    /// The threads' clocks together.
    threads: AtomicU64,
}

static STOP: AtomicBool = AtomicBool::new(false);
static TOLD: std::sync::OnceLock<usize> = std::sync::OnceLock::new();

fn told() -> &'static Told {
    let place = TOLD.get_or_init(|| {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, never given back; it is checked before it is used.
        unsafe { libc::mmap(ptr::null_mut(), mem::size_of::<Told>(), access, kind, -1, 0) as usize }
    });
    assert!(*place as *mut c_void != libc::MAP_FAILED, "no page to share");
    // SAFETY: mapped as large as this; zeros are a `Told`.
    unsafe { &*(*place as *const Told) }
}

/// Runs `work` in a child: the host's count of all that it has consumed, in nanoseconds, and how it ended.
fn in_child(work: impl FnOnce()) -> Result<(u64, i32), String> {
    let refused = |what: &str| format!("{what}: {}", std::io::Error::last_os_error());
    // SAFETY: this process has one thread; the status and usage are ours.
    unsafe {
        match libc::fork() {
            -1 => Err(refused("fork")),
            0 => {
                work();
                libc::_exit(0)
            }
            child => {
                let (mut status, mut usage) = (0, mem::zeroed::<libc::rusage>());
                if libc::wait4(child, &mut status, 0, &mut usage) != child {
                    return Err(refused("wait4"));
                }
                let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
                Ok((ns(usage.ru_utime) + ns(usage.ru_stime), status))
            }
        }
    }
}

fn off_percent(ours: u64, host: u64) -> f64 {
    (ours as f64 / host as f64 - 1.0).abs() * 100.0
}

extern "C" fn on_soft_limit(_: i32) {
    let told = told();
    if told.soft.load(Ordering::Relaxed) == 0 {
        told.soft.store(read_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID), Ordering::Relaxed);
    }
}

fn spin(word: &AtomicU32) {
    wait_for(word);
    loop {
        told().last.fetch_max(read_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID), Ordering::Relaxed);
        for _ in 0..2_000 {
            hint::spin_loop();
        }
    }
}

/// RLIMIT_CPU of 2 s and 4 s with spinning threads: when each limit took effect by the process's clock, in seconds, and
/// how far the clock's last reading is from the host's total, in percent.
pub(super) fn at_limits(parameters: &Parameters) -> Measured {
    let threads: usize = parameters.number("threads")?.unwrap_or(8);
    let name = format!("cpu_limit_{threads}");
    let told = told();
    let (host, status) = in_child(|| {
        // SAFETY: the handler touches atomics and reads clocks; the limits are readable.
        unsafe {
            libc::signal(libc::SIGXCPU, on_soft_limit as *const () as libc::sighandler_t);
            let limits = libc::rlimit { rlim_cur: 2, rlim_max: 4 };
            libc::setrlimit(libc::RLIMIT_CPU, &limits);
        }
        if let Ok(crowd) = Crowd::gather_for(threads, spin) {
            crowd.release();
            crowd.join();
        }
    })?;
    if !libc::WIFSIGNALED(status) || libc::WTERMSIG(status) != libc::SIGKILL {
        return Err(format!("the process was not killed at its limit, but ended with {status:#x}"));
    }
    let [soft, last] = [&told.soft, &told.last].map(|ns| ns.load(Ordering::Relaxed));
    if soft == 0 {
        return Err("the hard limit came before the soft one's signal was handled".to_owned());
    }
    report::figure(&format!("{name}_soft"), "s", soft as f64 / 1e9);
    report::figure(&format!("{name}_hard"), "s", last as f64 / 1e9);
    report::figure(&format!("{name}_off"), "%", off_percent(last, host));
    Ok(())
}

/// How far, in percent, the process's clock is from the host's count after a run of spinning, host calls, sleeping
/// and time that others take; and the sum of the threads' clocks from the process's.
pub(super) fn sum(parameters: &Parameters, quick: bool) -> Measured {
    let seconds = parameters.number("seconds")?.unwrap_or(if quick { 5 } else { 30 });
    let told = told();
    // A rival on the machine: the time that the host gives it must not count as ours.
    let rival = Rival::start()?;
    let run = in_child(|| mixed(Duration::from_secs(seconds)));
    drop(rival);
    let (host, status) = run?;
    if status != 0 {
        return Err(format!("the process ended with {status:#x}"));
    }
    let [process, threads] = [&told.last, &told.threads].map(|ns| ns.load(Ordering::Relaxed));
    report::figure("clock_sum_off", "%", off_percent(process, host));
    report::figure("clock_threads_off", "%", off_percent(threads, process));
    report::figure("clock_sum_host", "s", host as f64 / 1e9);
    Ok(())
}

/// Another process, which computes half of the time.
struct Rival(libc::pid_t);

impl Rival {
    fn start() -> Result<Self, String> {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            -1 => Err(format!("fork: {}", std::io::Error::last_os_error())),
            0 => loop {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(7) {}
                thread::sleep(Duration::from_millis(7));
            },
            child => Ok(Self(child)),
        }
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // SAFETY: our own child, not waited for yet.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, ptr::null_mut(), 0);
        }
    }
}

fn mixed(span: Duration) {
    const EACH: usize = 2;
    let activities: [fn(); 4] = [compute, call_host, sleep_briefly, read_files];
    let until_stop = |activity: fn()| {
        while !STOP.load(Ordering::Relaxed) {
            activity();
        }
        told().threads.fetch_add(read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID), Ordering::Relaxed);
    };
    thread::scope(|scope| {
        for activity in activities {
            (0..EACH).for_each(|_| drop(scope.spawn(move || until_stop(activity))));
        }
        thread::sleep(span);
        STOP.store(true, Ordering::Relaxed);
    });
    told().threads.fetch_add(read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID), Ordering::Relaxed);
    told().last.store(read_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID), Ordering::Relaxed);
}

fn compute() {
    hint::black_box(super::primes::primes_up_to(20_000));
}

/// Calls that the host answers at once, and long ones.
fn call_host() {
    const SIZE: usize = 4 << 20;
    for _ in 0..200 {
        // SAFETY: asks for a number.
        hint::black_box(unsafe { libc::syscall(libc::SYS_getppid) });
    }
    // SAFETY: new memory, given back.
    unsafe {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let place = libc::mmap(ptr::null_mut(), SIZE, access, kind | libc::MAP_POPULATE, -1, 0);
        if place != libc::MAP_FAILED {
            libc::munmap(place, SIZE);
        }
    }
}

fn sleep_briefly() {
    thread::sleep(Duration::from_micros(300));
}

fn read_files() {
    hint::black_box(fs::read("/proc/cpuinfo").unwrap_or_default());
}
