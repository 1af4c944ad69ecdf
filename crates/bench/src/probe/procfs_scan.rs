//! Many scans of one program's threads at once, each as `ps -eLf` makes it: the directory is listed, and of each thread
//! `stat` and `status` are opened, read and closed.

use std::ffi::CString;
use std::fs;
use std::sync::Barrier;
use std::thread;

use super::clock::now_ns;
use super::cpu_clock::Crowd;
use super::{Measured, procfs, report};

/// Threads that are scanned; those that scan come on top.
const THREADS: usize = 2_000;
/// Scans at the same time, as in the message of 2021.
const LOOPS: usize = 128;

/// Milliseconds for each scan, of all loops together: a thousand by this are scans per second.
pub(super) fn measure(quick: bool) -> Measured {
    let rounds = if quick { 1 } else { 3 };
    let crowd = Crowd::gather(THREADS)?;
    let gate = Barrier::new(LOOPS);
    let work = || {
        gate.wait();
        let begin = now_ns();
        for _ in 0..rounds {
            scan()?;
        }
        Ok((begin, now_ns()))
    };
    let spans: Result<Vec<(u64, u64)>, String> = thread::scope(|scope| {
        let loops: Vec<_> = (0..LOOPS).map(|_| scope.spawn(work)).collect();
        loops.into_iter().map(|one| one.join().map_err(|_| "a loop has died".to_owned())?).collect()
    });
    crowd.release();
    crowd.join();
    report::figure("proc_scan", "ms", procfs::span_ns(&spans?) / 1e6 / (LOOPS * rounds) as f64);
    Ok(())
}

fn scan() -> Measured {
    let failed = |why: &dyn std::fmt::Display| format!("a scan failed: {why}");
    let mut seen = 0;
    for entry in fs::read_dir("/proc/self/task").map_err(|why| failed(&why))? {
        let name = entry.map_err(|why| failed(&why))?.file_name();
        let name = name.to_string_lossy();
        for file in ["stat", "status"] {
            let path = CString::new(format!("/proc/self/task/{name}/{file}")).map_err(|why| failed(&why))?;
            // A loop that has done its scans may have ended in between.
            seen += usize::from(procfs::read(&path));
        }
    }
    if seen < 2 * THREADS { Err(format!("a scan saw {seen} files")) } else { Ok(()) }
}
