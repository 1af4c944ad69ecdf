//! A profiling timer over many computing threads: how much CPU time the host spends on the process for each tick
//! that arrives. The timer asks for one every 10 ms.

use std::fs;
use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::cpu_clock::{Crowd, wait_for};
use super::{Measured, report};

/// Microseconds of CPU time between ticks.
const INTERVAL_US: i64 = 10_000;
/// No host that loses ticks is waited for longer.
const LIMIT: Duration = Duration::from_secs(12);

static TICKS: AtomicU32 = AtomicU32::new(0);
static WANTED: AtomicU32 = AtomicU32::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_tick(_: i32) {
    if TICKS.fetch_add(1, Ordering::Relaxed) + 1 >= WANTED.load(Ordering::Relaxed) {
        STOP.store(true, Ordering::Relaxed);
    }
}

fn compute(word: &AtomicU32) {
    wait_for(word);
    let mut sum = 0u64;
    while !STOP.load(Ordering::Relaxed) {
        for i in 0..10_000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
        }
    }
}

/// Milliseconds of the host's CPU time for each tick received.
pub(super) fn measure(threads: usize, figure: &str, quick: bool) -> Measured {
    WANTED.store(if quick { 100 } else { 300 }, Ordering::Relaxed);
    let crowd = Crowd::gather_for(threads, compute)?;
    handle().map_err(|why| format!("sigaction: {why}"))?;
    let before = host_ms();
    arm(INTERVAL_US).map_err(|why| format!("setitimer: {why}"))?;
    crowd.release();
    let start = Instant::now();
    while !STOP.load(Ordering::Relaxed) && start.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(10));
    }
    STOP.store(true, Ordering::Relaxed);
    let (used, ticks) = (host_ms() - before, TICKS.load(Ordering::Relaxed));
    arm(0).map_err(|why| format!("setitimer: {why}"))?;
    crowd.join();
    if ticks == 0 {
        return Err(format!("no tick in {} s", LIMIT.as_secs()));
    }
    report::figure(figure, "ms", used / f64::from(ticks));
    Ok(())
}

fn handle() -> io::Result<()> {
    // SAFETY: the handler touches atomics only; all-zero bytes are an action without flags.
    let answer = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_tick as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGPROF, &action, ptr::null_mut())
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn arm(interval_us: i64) -> io::Result<()> {
    let time = libc::timeval { tv_sec: 0, tv_usec: interval_us };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the setting is readable. The C library has no function of its own for it that libc knows.
    let answer = unsafe {
        libc::syscall(libc::SYS_setitimer, libc::ITIMER_PROF, &raw const timer, ptr::null_mut::<libc::itimerval>())
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPU time of this process by the host's count, in milliseconds: what a program asks for would be Entresol's
/// count (fields 14 and 15 of stat, in hundredths of a second, see proc(5)).
fn host_ms() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum::<f64>() * 10.0
}
