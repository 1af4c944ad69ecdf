//! `entresol run --trace FILE`: every switch of a live run, as the simulator writes its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ids::{CpuId, Left, Nanos, Wake, Waker};
use perfetto::{Process, Span};
use record::read::name;
use record::write::Switched;
use record::{Record, records};

use crate::STATUS_REFUSED;
use crate::args::RunArguments;
use crate::profile::supervise;
use tool::style;

/// Runs the program in a child process and writes the trace: the program's exit status.
#[must_use]
pub fn run(request: &RunArguments, file: &Path) -> i32 {
    let output = match Output::create(file) {
        Ok(output) => output,
        Err(why) => {
            style::complain(&format!("{why:#}"));
            return STATUS_REFUSED;
        }
    };
    let traced = supervise::run(request.clone()).and_then(|(status, records)| {
        let files = records.read()?;
        if !files.is_empty() {
            output.write(&files)?;
        }
        Ok(status)
    });
    traced.unwrap_or_else(|why| {
        style::complain(&format!("{why:#}"));
        1
    })
}

/// Where the trace goes; made before the program starts.
#[derive(Debug)]
pub struct Output {
    file: File,
    path: PathBuf,
}

impl Output {
    /// Makes the file.
    pub fn create(path: &Path) -> anyhow::Result<Output> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Output { file, path: path.to_owned() })
    }

    /// Writes what all processes have recorded, and says how much that was.
    pub fn write(mut self, files: &[Vec<u64>]) -> anyhow::Result<()> {
        let live = live(files);
        self.file.write_all(&perfetto::trace(&live.processes)).context("cannot write the trace")?;
        let (switches, lost, path) = (live.switches, live.lost, self.path.display());
        style::remark(&format!("{switches} switches, {lost} lost; written to {path}"));
        Ok(())
    }
}

/// A live run.
#[derive(Debug, Default)]
pub struct Live {
    /// The trace's processes. The CPUs of each follow those of the processes before.
    pub processes: Vec<Process>,
    /// Switches that were written down.
    pub switches: u64,
    /// Switches that did not fit.
    pub lost: u64,
}

/// All processes' records of switches.
#[must_use]
pub fn live(files: &[Vec<u64>]) -> Live {
    let mut live = Live::default();
    let mut cpus_before = 0;
    for words in files {
        let mut process = Reader::default();
        for record in records(words) {
            match record {
                Record::Begin(begin) => {
                    process.close(begin.at);
                    // The program's first thread runs on the first CPU when its records begin.
                    let (at, tid, name) = (begin.at, begin.pid, begin.name);
                    let first = Switched { at, tid, priority: 120, name, left: Left::Waiting, woken: None };
                    process.pid = begin.pid;
                    process.cpus = process.cpus.max(begin.cpus as u16);
                    process.turn(0, &first);
                }
                Record::Switch(cpu, to) => {
                    live.switches += 1;
                    process.cpus = process.cpus.max(cpu + 1);
                    process.turn(cpu, &to);
                }
                Record::End(end) => {
                    live.lost += end.switches_lost;
                    process.lost |= end.switches_lost > 0;
                    process.close(end.at);
                }
                Record::Maps(_) | Record::Sample(_) | Record::Again(..) => {}
            }
        }
        let cpus = process.cpus;
        live.processes.push(process.finish(cpus_before));
        cpus_before += cpus;
    }
    live
}

/// One process while its records are read.
#[derive(Default)]
struct Reader {
    pid: i32,
    cpus: u16,
    names: BTreeMap<i32, String>,
    open: BTreeMap<u16, Switched>,
    spans: Vec<Span>,
    last: Nanos,
    lost: bool,
}

impl Reader {
    /// A CPU switches to another thread.
    fn turn(&mut self, cpu: u16, to: &Switched) {
        let before = if to.tid == 0 { self.open.remove(&cpu) } else { self.open.insert(cpu, *to) };
        if to.tid != 0 {
            self.names.insert(to.tid, name(to.name));
        }
        if let Some(before) = before {
            self.span(cpu, &before, to.at, to.left);
        }
        self.last = self.last.max(to.at);
    }

    fn span(&mut self, cpu: u16, who: &Switched, to: Nanos, left: Left) {
        // A thread that was woken for nothing; a birth or an end, however short, is told.
        let is_nothing =
            to <= who.at && left != Left::Ended && !matches!(who.woken, Some(Wake { by: Waker::Creator(_), .. }));
        if !is_nothing {
            let (from, to, tid, priority, woken) = (who.at, to.max(who.at), who.tid, who.priority, who.woken);
            self.spans.push(Span { cpu: CpuId(cpu), from, to, tid, priority, left, woken });
        }
    }

    /// Closes all open slices: the state of every CPU is unknown from here on.
    fn close(&mut self, at: Nanos) {
        for (cpu, who) in std::mem::take(&mut self.open) {
            self.span(cpu, &who, at, Left::Runnable);
        }
    }

    fn finish(mut self, cpus_before: u16) -> Process {
        self.close(self.last);
        for span in &mut self.spans {
            span.cpu.0 += cpus_before;
        }
        let name = self.names.get(&self.pid).cloned().unwrap_or_default();
        let cpus = cpus_before..cpus_before + self.cpus;
        Process { pid: self.pid, name, threads: self.names, cpus, spans: self.spans, lost: self.lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::write::{Begin, End};

    fn switch(cpu: u16, at: u64, tid: i32, left: Left) -> Vec<u64> {
        let woken = Some(Wake { at: Nanos(at - 1), by: Waker::Time });
        let to = Switched { at: Nanos(at), tid, priority: 120, name: [u64::from(b'a'), 0], left, woken };
        let words: Box<[sync::atomic::AtomicU64]> = (0..16).map(|_| Default::default()).collect();
        let ring = record::Ring::new(Box::leak(words));
        assert!(record::write::switch(&ring, cpu, &to));
        let mut got = Vec::new();
        ring.drain(&mut [0; 16], |words| got.extend_from_slice(words));
        got
    }

    #[test]
    fn switches_become_spans_and_losses_are_told() {
        let begin = Begin { pid: 7, cpus: 2, at: Nanos(10), every: Nanos(0), wall: false, name: [u64::from(b'p'), 0] };
        let mut words = begin.words().to_vec();
        words.extend(switch(0, 20, 8, Left::Waiting));
        words.extend(switch(1, 25, 7, Left::Waiting));
        words.extend(switch(0, 30, 0, Left::Waiting));
        words.extend(switch(1, 40, 8, Left::Runnable));
        words.extend(End { switches_lost: 3, at: Nanos(50), ..End::default() }.words());
        let live = live(&[words.clone(), words]);
        assert_eq!((live.switches, live.lost), (8, 6));
        let spans =
            |p: &Process| -> Vec<_> { p.spans.iter().map(|s| (s.cpu.0, s.from.0, s.to.0, s.tid, s.left)).collect() };
        let [first, second] = &live.processes[..] else { panic!("two processes") };
        assert_eq!(
            spans(first),
            [
                (0, 10, 20, 7, Left::Waiting),
                (0, 20, 30, 8, Left::Waiting),
                (1, 25, 40, 7, Left::Runnable),
                (1, 40, 50, 8, Left::Runnable)
            ]
        );
        assert_eq!(spans(second)[0].0, 2, "CPUs of their own");
        assert_eq!((first.name.as_str(), first.threads[&8].as_str()), ("a", "a"));
        assert_eq!((first.spans[1].woken, first.lost), (Some(Wake { at: Nanos(19), by: Waker::Time }), true));
        assert_eq!(first.cpus, 0..2);
    }
}
