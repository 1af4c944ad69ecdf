//! `--stats`: the summary at the end, on the standard error stream.

use crate::libraries;
use abi::args::CLOCK_PROCESS_CPUTIME_ID;
use core::fmt::Write;
use host::natives::{Counts, Reason};
use host::os;
use host::process::Process;
use host::report::Line;
use ids::Nanos;
use kernel::cpu::LIBRARIES_MAX;
use sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::*};

static WANTED: AtomicBool = AtomicBool::new(false);
static BEGAN: AtomicU64 = AtomicU64::new(0);
/// Our own descriptor for the original error stream, and which file that was: programs close theirs before they end, to
/// notice write errors, and the number may refer to another file then.
static KEPT: AtomicI32 = AtomicI32::new(-1);
static FILE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Above the numbers that a program expects to get next.
const KEPT_MIN: i32 = 1000;

/// Records the start time and the error stream.
pub fn begin(wanted: bool) {
    WANTED.store(wanted, Relaxed);
    BEGAN.store(os::clock_gettime(1).0, Relaxed);
    // Before carriers are bound to one host CPU each.
    if wanted && let Some(file) = os::file_of(2) {
        KEPT.store(os::duplicate(2, KEPT_MIN).unwrap_or(2), Relaxed);
        FILE[0].store(file[0], Relaxed);
        FILE[1].store(file[1], Relaxed);
    }
}

/// Where the summary goes, if the file is still open.
fn stream() -> Option<i32> {
    let file = [FILE[0].load(Relaxed), FILE[1].load(Relaxed)];
    [KEPT.load(Relaxed), 2].into_iter().find(|&fd| os::file_of(fd) == Some(file))
}

/// Called in a forked child: the summary is not about it, and readers that wait for the end of the stream must not wait
/// for it.
pub fn forget() {
    if WANTED.swap(false, Relaxed) && KEPT.load(Relaxed) != 2 && stream() == Some(KEPT.load(Relaxed)) {
        os::close(KEPT.load(Relaxed));
    }
}

/// Prints the summary if it was asked for, once.
pub fn print(k: &Process) {
    if !WANTED.swap(false, Relaxed) {
        return;
    }
    let Some(stream) = stream() else { return };
    let s = k.stats();
    let wall = os::clock_gettime(1).since(Nanos(BEGAN.load(Relaxed)));
    let stolen = k.m.stolen();
    let mut out = Line::to(stream);
    let seconds = |n: Nanos| (n.0 / 1_000_000_000, n.0 / 1_000 % 1_000_000);
    let (w, us) = seconds(wall);
    let (st, stus) = seconds(stolen);
    let usage = linux::Linux(k).process_usage();
    let ((u, uus), (y, yus)) = (seconds(usage.utime), seconds(usage.stime));
    let (h, hus) = seconds(os::clock_gettime(CLOCK_PROCESS_CPUTIME_ID));
    let _ = writeln!(out, "entresol: {} CPUs, {w}.{us:06} s, process {}", k.config().cpus, k.config().pid.0);
    let _ = writeln!(out, "  threads        {} started, {} at most at once", s.threads_started, s.threads_peak);
    let _ = writeln!(
        out,
        "  CPU time       {u}.{uus:06} s user, {y}.{yus:06} s system; {h}.{hus:06} s by the host's count"
    );
    let _ = writeln!(
        out,
        "  switches       {} ({} preemptions, {} migrations, {} wake-ups)",
        s.switches, s.preemptions, s.migrations, s.wakeups
    );
    if s.rt.priority > 0 {
        let (worst, of, priority) = (s.rt.worst.0, s.rt.wakeups, s.rt.priority);
        let (us, tenth) = (worst / 1_000, worst / 100 % 10);
        let _ =
            writeln!(out, "  real time      worst wake-up {us}.{tenth} µs of {of} at priority {priority}, the highest");
    }
    let _ = writeln!(out, "  interrupts     {} ticks, {} kicks", s.ticks, s.kicks);
    let _ = writeln!(
        out,
        "  host calls     {} passed on, {} had to wait, {} waited without a host thread, {} takeovers of a CPU",
        s.passed,
        s.waited,
        s.parked,
        k.m.takeovers()
    );
    print_waits(k, &mut out, &s);
    let _ = writeln!(out, "  stolen by host {st}.{stus:06} s over {} carriers", k.m.carriers());
    let (times, looked) = k.m.awaited();
    if times > 0 {
        let (l, lus) = seconds(looked);
        let _ =
            writeln!(out, "  awake early    {times} times for real-time threads that slept, {l}.{lus:06} s of CPUs");
    }
    for group in k.groups() {
        let name = core::str::from_utf8(group.name).unwrap_or("?");
        let (g, gus) = seconds(group.consumed);
        let (threads, waits) = (group.threads, group.throttled);
        let _ = writeln!(
            out,
            "  group {name:8} {g}.{gus:06} s of CPU time, {threads} threads now, {waits} waits for its share"
        );
    }
    print_natives(k, &mut out);
    let total = print_libraries(k, &mut out);
    print_reason(k, &mut out, &s, total, wall, stolen);
    out.flush();
}

/// Prints where threads waited for descriptors, and which calls took a host thread.
fn print_waits(k: &Process, out: &mut Line, s: &kernel::stats::Stats) {
    if s.parked > 0 {
        let (turns, events, looks) = (k.parked.turns(), s.events, s.looks);
        let _ = writeln!(out, "  poller         {events} events; {turns} looks of idle CPUs, {looks} of busy ones");
    }
    if s.waited > 0 {
        let _ = write!(out, "  waits on a host thread each  ");
        for (i, (nr, times)) in k.calls_waited().into_iter().take_while(|&(_, times)| times > 0).enumerate() {
            let (comma, name) = (if i > 0 { ", " } else { "" }, abi::nr::name(nr).unwrap_or("?"));
            let _ = write!(out, "{comma}{name} {times}");
        }
        let _ = writeln!(out);
    }
}

/// Prints the programs that this one and its descendants have executed and that Entresol could not enter.
fn print_natives(k: &Process, out: &mut Line) {
    let natives = &k.m.natives;
    let Counts { execs, changes } = natives.counts();
    if changes > 0 {
        let (s, they) = if changes == 1 { ("", "it executes") } else { ("es", "they execute") };
        let _ = writeln!(out, "  changed user   {changes} process{s}: what {they} runs natively and is not counted");
    }
    if execs.iter().all(|&count| count == 0) {
        return;
    }
    let _ = write!(out, "  {:14} ", if natives.are_refused() { "refused" } else { "ran natively" });
    let some = Reason::ALL.into_iter().zip(execs).filter(|&(_, count)| count > 0);
    for (i, (reason, count)) in some.enumerate() {
        let _ = write!(out, "{}{count} {}", if i > 0 { "; " } else { "" }, reason.words());
    }
    let _ = writeln!(out);
}

/// Prints calls by way and library; returns the number of dispatched ones.
fn print_libraries(k: &Process, out: &mut Line) -> u64 {
    let names = libraries::NAMES.lock();
    let mut dispatched = 0;
    for i in 0..LIBRARIES_MAX {
        let calls: u64 =
            (0..k.config().cpus).map(|c| k.cpu(ids::CpuId(c as u16)).count.calls_by_library[i].load(Relaxed)).sum();
        if i == 0 {
            dispatched = calls;
        }
        if let Some(name) = names.get(i).filter(|_| calls > 0) {
            let name = core::str::from_utf8(name).unwrap_or("?");
            let way = if i == 0 { "calls" } else { "calls patched" };
            let _ = writeln!(out, "  {way:14} {calls} {name}");
        }
    }
    dispatched
}

/// Explains what made the program slow, if anything did.
fn print_reason(k: &Process, out: &mut Line, s: &kernel::stats::Stats, dispatched: u64, wall: Nanos, stolen: Nanos) {
    let mut any = false;
    let mut say = |out: &mut Line, text: core::fmt::Arguments<'_>| {
        any = true;
        let _ = writeln!(out, "  note: {text}");
    };
    // A dispatched call costs about a microsecond more than a patched one.
    if dispatched * 1_000 > wall.0 / 100 {
        say(
            out,
            format_args!("{dispatched} calls came by dispatch, about 1 µs each: they are made outside the C library"),
        );
    }
    // Each such wait costs two context switches of the host, about 5 µs.
    if s.waited * 5_000 > wall.0 / 50 {
        let (nr, times) = k.calls_waited()[0];
        let name = abi::nr::name(nr).unwrap_or("?");
        say(
            out,
            format_args!(
                "{} host calls waited on a host thread, about 5 µs each on top of the waiting: {times} of them {name}",
                s.waited
            ),
        );
    }
    let refusals = k.personality.poller_refusals();
    if refusals > 0 {
        say(
            out,
            format_args!(
                "the host had no descriptor or memory for the poller: {refusals} waits took a host thread instead"
            ),
        );
    }
    let (cpus, processors) = (k.config().cpus, k.m.places.host_cpus());
    if stolen.0 > wall.0 / 20 && cpus > processors {
        say(out, format_args!("{cpus} CPUs share the host's {processors} processors, and perhaps with others"));
    } else if stolen.0 > wall.0 / 20 {
        say(out, format_args!("the host gave the processors to others for a noticeable part of the time"));
    }
    if !any {
        let _ = writeln!(out, "  note: nothing slowed the program down");
    }
}
