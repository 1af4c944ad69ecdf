//! The slowdown of a program while other processes read the states of its threads.
//!
//! **How CPUs are kept apart.** The program may use only the first host CPU of our mask, so all of it runs there:
//! its threads, our carriers, the service thread that makes snapshots. The watchers run on the last host CPU
//! only. So the program loses only what it does for them itself, and what the two CPUs share.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, anyhow, ensure};

use super::child::{Outcome, Side};
use super::figures::Spread;
use crate::probe::Probe;
use crate::probe::pthread::{cpus, pin};
use crate::probe::report::Line;
use watch::fetch;

/// Watchers, each in a loop without pauses.
const WATCHERS: usize = 4;

/// Throughput while watched as a fraction of throughput alone, in alternating spans.
pub(super) fn run(side: Side, quick: bool) -> anyhow::Result<Outcome> {
    let cpus = cpus();
    let [first, .., last] = cpus[..] else { return Ok(Outcome::Refused("it takes two host CPUs".to_owned())) };
    let mut program = Program::start(side, first)?;
    let mut shares = Vec::new();
    for _ in 0..if quick { 5 } else { 11 } {
        let alone = program.rounds()?;
        shares.push(beside_watchers(side, program.pid(), last, || program.rounds())? / alone);
    }
    program.end()?;
    let median = Spread::of(shares).context("at least one span")?.median;
    Ok(Outcome::Figures(BTreeMap::from([("proc_watched".to_owned(), median)])))
}

/// A process that computes for one span at each request.
struct Program {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Program {
    fn start(side: Side, cpu: usize) -> anyhow::Result<Program> {
        let own = super::own_path()?;
        let mut command: Command = side.command(&own, &own);
        command.arg("probe").arg(Probe::Watched.name()).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A child has the CPUs of the thread that starts it.
        let start = || pin(cpu).map_err(|why| anyhow!(why)).and_then(|()| Ok(command.spawn()?));
        let mut child = thread::scope(|scope| scope.spawn(start).join()).map_err(|_| anyhow!("no child"))??;
        let answers = BufReader::new(child.stdout.take().context("standard output is a pipe")?);
        let mut program = Program { child, answers };
        // Its pages are touched, its threads are there.
        program.rounds()?;
        Ok(program)
    }

    fn pid(&self) -> i32 {
        // `run` becomes the program.
        self.child.id() as i32
    }

    /// The rounds that it computes in one span.
    fn rounds(&mut self) -> anyhow::Result<f64> {
        self.child.stdin.as_mut().context("standard input is a pipe")?.write_all(b"\n")?;
        loop {
            let mut line = String::new();
            ensure!(self.answers.read_line(&mut line)? > 0, "the watched program has ended");
            if let Some(Line::Figure { value, .. }) = Line::parse(line.trim_end()) {
                return Ok(value);
            }
        }
    }

    fn end(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "the watched program ended with {status}");
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls `run` while all watchers read the process's state without pauses.
fn beside_watchers<R>(side: Side, pid: i32, cpu: usize, run: impl FnOnce() -> anyhow::Result<R>) -> anyhow::Result<R> {
    let stop = AtomicBool::new(false);
    let watch = || -> anyhow::Result<u64> {
        pin(cpu).map_err(|why| anyhow!(why))?;
        let mut looks = 0;
        while !stop.load(Ordering::Relaxed) {
            look(side, pid)?;
            looks += 1;
        }
        Ok(looks)
    };
    thread::scope(|scope| {
        let watchers: Vec<_> = (0..WATCHERS).map(|_| scope.spawn(watch)).collect();
        let result = run();
        stop.store(true, Ordering::Relaxed);
        for watcher in watchers {
            let looks = watcher.join().map_err(|_| anyhow!("a watcher has died"))??;
            ensure!(looks > 0, "a watcher saw nothing");
        }
        result
    })
}

/// Looks once: as `entresol threads` does, or natively as `ps -L`.
fn look(side: Side, pid: i32) -> anyhow::Result<()> {
    if side != Side::Native {
        fetch::one(pid)?;
        return Ok(());
    }
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = thread?.path();
        for file in ["stat", "status"] {
            fs::read(folder.join(file))?;
        }
    }
    Ok(())
}
