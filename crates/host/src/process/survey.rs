//! A survey of CPUs, carriers and threads for the report of a process that cannot go on.
//!
//! Takes no lock, because its holder may be stuck. Values may be slightly out of date.

use crate::base::report::{self, Line};
use crate::base::{os, task};
use crate::carriers::carrier::Carrier;
use crate::carriers::seat::Seat;
use crate::process::Process;
use core::fmt::Write;
use ids::{CpuId, Policy, ThreadIdx};
use kernel::wait::Wait;
use sync::atomic::Ordering::*;

const THREADS_SHOWN: usize = 64;
const CPUS_SHOWN: usize = 64;

/// Describes every CPU and thread, within bounds.
pub(crate) fn all(k: &Process, out: &mut Line) {
    let cpus = k.config().cpus;
    for i in 0..cpus.min(CPUS_SHOWN) {
        cpu(k, out, CpuId(i as u16));
    }
    if cpus > CPUS_SHOWN {
        let _ = writeln!(out, "  and {} more CPUs", cpus - CPUS_SHOWN);
    }
    let mut more = 0;
    for (n, t) in k.threads().living().enumerate() {
        if n < THREADS_SHOWN {
            thread(k, out, t);
        } else {
            more += 1;
        }
    }
    if more > 0 {
        let _ = writeln!(out, "  and {more} more threads");
    }
}

/// Describes one CPU and the host thread that serves it.
pub(crate) fn cpu(k: &Process, out: &mut Line, cpu: CpuId) {
    let (seat, carrier) = k.m.seats.look(cpu);
    let does = match seat {
        Seat::Running => "is run by",
        Seat::Parked => "is idle, parked with",
        Seat::Host => "is idle, left in a host call by",
        Seat::Empty => return,
    };
    let _ = write!(out, "  CPU {} {does} carrier {carrier}", cpu.0);
    if let Some(t) = k.sched.current(cpu) {
        let _ = write!(out, ", thread {}", k.tid(t).0);
    }
    let asked = if k.sched.need_resched(cpu) { ", asked to choose" } else { "" };
    let _ = writeln!(out, ", {} queued{asked}", k.sched.queued(cpu));
    let c = k.m.carriers.get(carrier);
    let tid = c.tid.load(Relaxed);
    let inline = if c.inline.current().is_some() { ", in a host call" } else { "" };
    let marks = c.gs.pending.load(Relaxed);
    let _ = write!(out, "    host thread {tid}{inline}, marks {marks}");
    if let Some(h) = host_thread(k, cpu) {
        let _ = write!(out, ", state {}, {} ms user, {} ms system", h.state as char, h.user * 10, h.system * 10);
    }
    for what in ["wchan", "syscall"] {
        let mut bytes = [0; 160];
        let text = core::str::from_utf8(task::read(tid, what, &mut bytes)).unwrap_or("");
        let _ = write!(out, ", {what} {}", text.trim_end());
    }
    let _ = writeln!(out);
}

/// Describes one thread.
fn thread(k: &Process, out: &mut Line, t: ThreadIdx) {
    let (attr, thread) = (k.sched.attr(t), k.thread(t));
    let name = thread.name_words().map(u64::to_le_bytes);
    let name = name.as_flattened();
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    let name = core::str::from_utf8(&name[..end]).unwrap_or("?");
    let _ = write!(out, "  thread {} \"{name}\", ", k.tid(t).0);
    let _ = match attr.policy {
        Policy::Fifo => write!(out, "FIFO {}", attr.rt.0),
        Policy::RoundRobin => write!(out, "RR {}", attr.rt.0),
        Policy::Other => write!(out, "nice {}", attr.nice.0),
        policy => write!(out, "{policy:?}"),
    };
    let (cpu, wait) = (k.sched.cpu_of(t), thread.wait.kind());
    let place = if k.sched.current(cpu) == Some(t) {
        "has"
    } else if k.sched.is_blocked(t) {
        "was last on"
    } else {
        "is queued on"
    };
    let _ = write!(out, ": {place} CPU {}", cpu.0);
    let _ = match wait {
        Wait::None => Ok(()),
        Wait::Futex | Wait::FutexPi | Wait::FutexRequeuePi => {
            write!(out, ", waits for {wait:?} {:#x}", thread.node.address())
        }
        Wait::Host => {
            let call = thread.wait.call.load(Relaxed) as usize;
            write!(out, ", waits for host call {call} {}", abi::nr::name(call).unwrap_or("?"))
        }
        _ => write!(out, ", waits for {wait:?}"),
    };
    if let Some(deadline) = thread.wait.armed() {
        let left =
            deadline.0 as i64 - os::clock_gettime(if thread.wait.clock.load(Relaxed) == 0 { 1 } else { 0 }).0 as i64;
        let _ = write!(out, ", until {} ms from now", left / 1_000_000);
    }
    let _ = writeln!(out);
}

/// The host's view of a carrier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostThread {
    /// `R`, `S`, `D`, `T`, …
    pub state: u8,
    /// Its time in user mode, in hundredths of a second.
    pub user: u64,
    /// Its time in the host, in hundredths of a second.
    pub system: u64,
}

/// The host thread that serves `cpu`.
pub(crate) fn host_thread(k: &Process, cpu: CpuId) -> Option<HostThread> {
    let m = &k.m;
    let (seat, carrier) = m.seats.look(cpu);
    if seat == Seat::Empty {
        return None;
    }
    let mut bytes = [0; 512];
    let text = task::read(m.carriers.get(carrier).tid.load(Relaxed), "stat", &mut bytes);
    let mut fields = task::after_name(text)?.split(' ');
    let state = *fields.next()?.as_bytes().first()?;
    let mut times = fields.skip(10).map(|f| f.parse().unwrap_or(0));
    Some(HostThread { state, user: times.next()?, system: times.next()? })
}

/// Ends the process with a survey after the report's first lines.
pub(crate) fn end(k: &Process) -> ! {
    let mut out = Line::default();
    all(k, &mut out);
    out.flush();
    report::abort()
}

/// Two carriers have resumed the thread, and neither saw the other in time: see `Context::claim`.
#[cold]
pub(crate) fn resumed_elsewhere(me: &Carrier, t: ThreadIdx, owner: u32) -> ! {
    report::say(format_args!(
        "thread {} ({t:?}) ran on {:?} by carrier {}, but carrier {} was given it as well; the process ends",
        me.process().tid(t).0,
        me.cpu(),
        me.number,
        owner.wrapping_sub(1)
    ));
    end(me.process())
}
