//! Costs on the machine at hand, measured natively by ordinary threads. Nanoseconds throughout.
//!
//! Figures of two threads need two CPUs; on a machine of one they are `None`.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ids::{CpuId, CpuMask, Nanos, ThreadIdx};
use sched::{Attr, Config, Kick, Prev, Scheduler};

use bench::probe::clock::{median_of, now_ns, percentile};
use bench::probe::pthread;

/// The least, the median and what nine of ten do not exceed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Range {
    /// Of these samples; `most` leaves out the tenth in which the host did something else.
    fn of(mut samples: Vec<f64>) -> Range {
        let [least, median, most] = [2, 50, 90].map(|percent| percentile(&mut samples, percent));
        Range { least, median, most }
    }
}

/// A line that two threads write.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// The first two CPUs of the machine, if there are two.
fn two_cpus() -> Option<(usize, usize)> {
    let cpus = pthread::cpus();
    Some((*cpus.first()?, *cpus.get(1)?))
}

fn per_turn(turns: u64, body: impl FnOnce()) -> f64 {
    let start = now_ns();
    body();
    (now_ns() - start) as f64 / turns as f64
}

/// An atomic addition to a line at hand.
pub(super) fn atomic(batches: usize) -> f64 {
    const TURNS: u64 = 100_000;
    let word = Line::default();
    let batch = || {
        for _ in 0..TURNS {
            black_box(word.0.fetch_add(1, Ordering::SeqCst));
        }
    };
    median_of(batches, || per_turn(TURNS, batch))
}

/// Writing 1,024 bytes of 4 MiB, as rt-app's `mem` does.
pub(super) fn memory(batches: usize) -> f64 {
    const KIB: usize = 4 << 10;
    let mut buffer = vec![1_u8; KIB << 10];
    median_of(batches, || per_turn(KIB as u64, || black_box(&mut buffer).fill(0)))
}

/// A line goes to another CPU.
pub(super) fn line(batches: usize) -> Option<f64> {
    const TURNS: u64 = 20_000;
    let (here, there) = two_cpus()?;
    let word = Line::default();
    let play = |cpu: usize, odd: u64, to: u64| {
        // Where it cannot be pinned, the figure is one of unpinned threads.
        let _ = pthread::pin(cpu);
        while word.0.load(Ordering::Acquire) < to {
            let seen = word.0.load(Ordering::Acquire);
            if seen < to && seen % 2 == odd {
                word.0.store(seen + 1, Ordering::Release);
            } else {
                spin_loop();
            }
        }
    };
    Some(median_of(batches, || {
        word.0.store(0, Ordering::SeqCst);
        per_turn(TURNS, || {
            thread::scope(|scope| {
                scope.spawn(|| play(here, 0, TURNS));
                scope.spawn(|| play(there, 1, TURNS));
            });
        })
    }))
}

/// The cost of lines that another CPU has written since: a working set of 16 KiB.
pub(super) fn migration(batches: usize) -> Option<f64> {
    const LINES: usize = 128;
    let (here, there) = two_cpus()?;
    let set: Vec<Line> = (0..LINES).map(|_| Line::default()).collect();
    let touch = || set.iter().for_each(|line| line.0.store(line.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed));
    let on = |cpu: usize| {
        thread::scope(|scope| {
            let pass = scope.spawn(|| {
                let _ = pthread::pin(cpu);
                let first = per_turn(1, touch);
                first - per_turn(1, touch)
            });
            pass.join().unwrap_or(0.0)
        })
    };
    on(here);
    let mut far = Vec::new();
    for _ in 0..batches {
        far.push(on(there));
        far.push(on(here));
    }
    Some(percentile(&mut far, 50).max(0.0))
}

struct NoKick;

impl Kick for NoKick {
    fn kick(&mut self, _: CpuId) {}
}

/// One switch, and one tick, of the scheduler with two fair threads on one CPU.
pub(super) fn scheduler(batches: usize) -> anyhow::Result<(f64, f64)> {
    const TURNS: u64 = 20_000;
    let failed = |_| anyhow::anyhow!("no memory for a scheduler of one CPU");
    let s = Scheduler::new(&Config { cpus: 1, ..Config::default() }).map_err(failed)?;
    let cpu = CpuId(0);
    for t in [ThreadIdx(0), ThreadIdx(1)] {
        s.attach(t, &Attr::DEFAULT, CpuMask::first(1)).map_err(failed)?;
        s.wake_new(t, cpu, Nanos(1), &mut NoKick);
    }
    let mut now = 1_000;
    let mut turn = |prev: Option<Prev>| {
        now += 100;
        match prev {
            Some(prev) => {
                black_box(s.schedule(cpu, Nanos(now), prev, &mut NoKick));
            }
            None => s.tick(cpu, Nanos(now), &mut NoKick),
        }
    };
    turn(Some(Prev::Preempted));
    let switch = median_of(batches, || per_turn(TURNS, || (0..TURNS).for_each(|_| turn(Some(Prev::Yield)))));
    let tick = median_of(batches, || per_turn(TURNS, || (0..TURNS).for_each(|_| turn(None))));
    Ok((switch, tick))
}

/// The signal that stands for tick and kick: this process uses it for nothing else.
const SIGNAL: libc::c_int = libc::SIGUSR2;
/// When the handler ran last.
static ARRIVED: AtomicU64 = AtomicU64::new(0);

extern "C" fn arrive(_: libc::c_int) {
    ARRIVED.store(now_ns(), Ordering::Release);
}

fn handle() {
    // SAFETY: the handler reads the clock and stores a word, which is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = arrive as *const () as usize;
        libc::sigaction(SIGNAL, &action, std::ptr::null_mut());
    }
}

fn own_tid() -> libc::pid_t {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

fn send(to: libc::pid_t, signal: libc::c_int) {
    // SAFETY: plain numbers; the signal has a handler.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), to, signal) };
}

/// A host signal taken, and the way back.
pub(super) fn interrupt(batches: usize) -> f64 {
    const TURNS: u64 = 5_000;
    handle();
    let me = own_tid();
    let with = median_of(batches, || per_turn(TURNS, || (0..TURNS).for_each(|_| send(me, SIGNAL))));
    let without = median_of(batches, || per_turn(TURNS, || (0..TURNS).for_each(|_| send(me, 0))));
    (with - without).max(1.0)
}

/// Setting a host timer, which a tick does.
pub(super) fn set_timer(batches: usize) -> f64 {
    const TURNS: u64 = 5_000;
    let far = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
        it_value: libc::timeval { tv_sec: 1_000, tv_usec: 0 },
    };
    let set = |value: &libc::itimerval| {
        // SAFETY: the value is readable, and nobody asks for the old one.
        unsafe { libc::setitimer(libc::ITIMER_REAL, value, std::ptr::null_mut()) };
    };
    let cost = median_of(batches, || per_turn(TURNS, || (0..TURNS).for_each(|_| set(&far))));
    set(&libc::itimerval { it_value: far.it_interval, ..far });
    cost
}

/// Sending a signal to a thread that computes, and until its handler runs.
pub(super) fn kick(samples: usize) -> Option<(f64, Range)> {
    let (here, there) = two_cpus()?;
    handle();
    let (tid, done) = (AtomicI32::new(0), AtomicBool::new(false));
    let (mut sending, mut arriving) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pthread::pin(there);
            tid.store(own_tid(), Ordering::Release);
            while !done.load(Ordering::Relaxed) {
                spin_loop();
            }
        });
        scope.spawn(|| {
            let _ = pthread::pin(here);
            while tid.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            for _ in 0..samples {
                ARRIVED.store(0, Ordering::Release);
                let start = now_ns();
                send(tid.load(Ordering::Relaxed), SIGNAL);
                sending.push((now_ns() - start) as f64);
                let limit = start + 1_000_000_000;
                while ARRIVED.load(Ordering::Acquire) == 0 && now_ns() < limit {
                    spin_loop();
                }
                arriving.push(ARRIVED.load(Ordering::Acquire).max(start) as f64 - start as f64);
            }
            done.store(true, Ordering::Relaxed);
        });
    });
    Some((percentile(&mut sending, 50), Range::of(arriving)))
}

/// From waking a sleeping thread until it runs.
pub(super) fn wake_sleeper(samples: usize) -> Option<Range> {
    let (here, there) = two_cpus()?;
    let (sent, ran) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut latencies = Vec::new();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let _ = pthread::pin(there);
            for turn in 1..=samples as u64 {
                while sent.load(Ordering::Acquire) < turn {
                    thread::park();
                }
                ran.store(now_ns(), Ordering::Release);
            }
        });
        let _ = pthread::pin(here);
        for turn in 1..=samples as u64 {
            // It shall be asleep, and its CPU as well.
            thread::sleep(Duration::from_millis(1));
            ran.store(0, Ordering::Release);
            sent.store(turn, Ordering::Release);
            let start = now_ns();
            sleeper.thread().unpark();
            while ran.load(Ordering::Acquire) == 0 {
                spin_loop();
            }
            latencies.push(ran.load(Ordering::Acquire).saturating_sub(start) as f64);
        }
    });
    Some(Range::of(latencies))
}

/// How much later than asked for a sleep ends, with the timer slack that carriers have.
///
/// A CPU that was idle for longer sleeps deeper, on a virtual machine above all: the sleeps are as long as those of programs.
pub(super) fn timer(samples: usize) -> Range {
    const SPANS: [u64; 3] = [1_000_000, 5_000_000, 10_000_000];
    // SAFETY: plain numbers; it concerns this thread's later sleeps only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let mut late = Vec::new();
    for turn in 0..samples {
        let due = now_ns() + SPANS[turn % SPANS.len()];
        let until = libc::timespec { tv_sec: (due / 1_000_000_000) as i64, tv_nsec: (due % 1_000_000_000) as i64 };
        // SAFETY: the time is readable; an absolute sleep has no remaining time to store.
        unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &until, std::ptr::null_mut()) };
        late.push(now_ns().saturating_sub(due) as f64);
    }
    Range::of(late)
}
