//! POSIX timers in numbers: the first one with an exact id, the memory of a million, and creating beside a reader
//! of `/proc/PID/timers`.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use super::clock::{now_ns, percentile};
use super::timers::{create, delete, exact_ids, refused, set};
use super::{Measured, report};

/// Microseconds for a process's first timer, which has to have the id 2,000,000.
pub(super) fn exact() -> Measured {
    if exact_ids(true) != 0 {
        return Err(refused("exact timer ids"));
    }
    let mut id = 2_000_000;
    // The clock's own first reading is no part of it.
    let _ = now_ns();
    let start = now_ns();
    create(&mut id, 0)?;
    let took = now_ns() - start;
    if id != 2_000_000 {
        return Err(format!("the id is {id}"));
    }
    report::figure("timer_exact_first", "us", took as f64 / 1e3);
    Ok(())
}

/// Bytes that the process grows by for each of a million armed timers.
pub(super) fn memory() -> Measured {
    const COUNT: usize = 1_000_000;
    const HOUR_NS: u64 = 3_600_000_000_000;
    let mut ids = vec![-1; COUNT];
    let before = resident()?;
    for (at, id) in ids.iter_mut().enumerate() {
        create(id, at)?;
        set(*id, 0, HOUR_NS + at as u64, 0);
    }
    report::figure("timer_memory_1m", "bytes", (resident()? - before) / COUNT as f64);
    Ok(())
}

/// Bytes of memory that the host has given this process.
fn resident() -> Result<f64, String> {
    const PAGE: f64 = 4096.0;
    let text = fs::read_to_string("/proc/./self/statm").map_err(|why| format!("statm: {why}"))?;
    let pages = text.split(' ').nth(1).and_then(|word| word.parse::<f64>().ok());
    Ok(pages.ok_or("statm has another form")? * PAGE)
}

/// Nanoseconds for a creation and a deletion, alone and while another process reads all timers of this one, of which
/// there are 100,000: the median, and what one in a thousand exceeds.
pub(super) fn listed(quick: bool) -> Measured {
    const COUNT: usize = 100_000;
    let mut ids = vec![-1; COUNT];
    for made in 0..COUNT {
        if let Err(refusal) = create(&mut ids[made], 0) {
            ids[..made].iter().for_each(|id| delete(*id));
            return Err(refusal);
        }
    }
    let readings = if quick { 5 } else { 20 };
    for (name, readings) in [("alone", 0), ("listed", readings)] {
        let stop = AtomicBool::new(false);
        let mut pairs = thread::scope(|scope| {
            let maker = scope.spawn(|| pairs_until(&stop));
            let read = if readings == 0 {
                thread::sleep(std::time::Duration::from_millis(500));
                Ok(())
            } else {
                (0..readings).try_for_each(|_| list(COUNT))
            };
            stop.store(true, Ordering::Relaxed);
            read.and(maker.join().unwrap_or(Err("a thread has died".to_owned())))
        })?;
        report::figure(&format!("timer_pair_{name}_p50"), "ns", percentile(&mut pairs, 50));
        // In ascending order, the one that 1 in 1,000 exceeds.
        report::figure(&format!("timer_pair_{name}_p999"), "ns", pairs[pairs.len() * 999 / 1000]);
    }
    Ok(())
}

/// Nanoseconds per pair, until `stop` is set.
fn pairs_until(stop: &AtomicBool) -> Result<Vec<f64>, String> {
    let mut took = Vec::with_capacity(8 << 20);
    while !stop.load(Ordering::Relaxed) {
        let start = now_ns();
        let mut id = -1;
        create(&mut id, 0)?;
        delete(id);
        if took.len() < took.capacity() {
            took.push((now_ns() - start) as f64);
        }
    }
    Ok(took)
}

/// Reads all of this process's timers, as another process would: Entresol's by its command, Linux's from the file.
fn list(least: usize) -> Measured {
    let pid = std::process::id();
    let text = if tool::machine::inside().is_some() {
        let own = std::env::current_exe().map_err(|why| format!("/proc/self/exe: {why}"))?;
        let mut command = Command::new(own);
        let output = command.args(["timers", &pid.to_string()]).stderr(Stdio::inherit()).output();
        output.map_err(|why| format!("entresol timers: {why}"))?.stdout
    } else {
        fs::read(format!("/proc/{pid}/timers")).map_err(|why| format!("/proc/{pid}/timers: {why}"))?
    };
    // Four lines a timer.
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    if lines >= 4 * least { Ok(()) } else { Err(format!("{lines} lines are not {least} timers")) }
}
