//! Reads the traces that [`trace`](crate::trace) writes.
//!
//! A replay depends on every switch, so nothing is guessed: what does not fit together is refused, with the place. The
//! messages are those of `prost`; a reader of all of Perfetto's formats (compact events, interned strings, clocks) would
//! be a large library for fields that these traces do not have.

use crate::format::{DEAD, Event, HARD_INTERRUPT, RUNNABLE, SLEEPING, Trace};
use crate::{Process, Span};
use ids::{CPUS_MAX, CpuId, Left, Nanos, Tid, Wake, Waker};
use prost::Message;
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a file is no trace that can be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReadError {
    /// Not the format, or cut off.
    #[error("it is no Perfetto trace, or its end is missing ({0})")]
    Format(#[from] prost::DecodeError),
    /// Nothing that could be used.
    #[error("it has no switches of threads (sched_switch)")]
    NoSwitches,
    /// The tree of processes names no process for a thread.
    #[error("thread {0} belongs to no process")]
    Stray(i32),
    /// The tree of processes names a thread that never ran.
    #[error("thread {0} has no switch, so a part of the file is missing")]
    Missing(i32),
    /// An event without time, CPU, thread or state, or with one that cannot be.
    #[error("an event of CPU {cpu} at {at} ns cannot be: {what}")]
    Event {
        /// The CPU.
        cpu: u32,
        /// The event's time.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// Time goes back.
    #[error("the events of CPU {cpu} are out of order: {at} ns comes after {before} ns")]
    Order {
        /// The CPU.
        cpu: u32,
        /// The event's time.
        at: u64,
        /// That of the event before it.
        before: u64,
    },
    /// A thread has two CPUs.
    #[error("thread {tid} gets CPU {cpu} at {at} ns, but has another one until {until} ns")]
    Twice {
        /// The thread.
        tid: i32,
        /// The second CPU.
        cpu: u16,
        /// Since when.
        at: u64,
        /// Until when it has the first one.
        until: u64,
    },
}

/// The processes of a trace that [`trace`](crate::trace) has written, with their threads' time on CPUs.
///
/// # Errors
/// The first thing that does not fit together. Nothing is repaired.
pub fn read(file: &[u8]) -> Result<Vec<Process>, ReadError> {
    let trace = Trace::decode(file)?;
    let mut owners = BTreeMap::new();
    let mut processes: BTreeMap<i32, Process> = BTreeMap::new();
    for tree in trace.packet.iter().filter_map(|packet| packet.process_tree.as_ref()) {
        for entry in &tree.processes {
            let name = entry.cmdline.first().cloned().unwrap_or_default();
            let process = Process {
                pid: entry.pid(),
                name,
                threads: BTreeMap::new(),
                cpus: 0..0,
                spans: Vec::new(),
                lost: false,
            };
            processes.insert(entry.pid(), process);
        }
        for thread in &tree.threads {
            let process = processes.get_mut(&thread.tgid()).ok_or(ReadError::Stray(thread.tid()))?;
            process.threads.insert(thread.tid(), thread.name().to_owned());
            owners.insert(thread.tid(), thread.tgid());
        }
    }
    let mut wakes: BTreeMap<i32, Vec<Wake>> = BTreeMap::new();
    let mut last = None;
    for bundle in trace.packet.iter().filter_map(|packet| packet.ftrace_events.as_ref()) {
        let cpu = bundle.cpu();
        let wrong = |what: &str| ReadError::Event { cpu, at: 0, what: what.to_owned() };
        let number = u16::try_from(cpu).map_err(|_| wrong("there is no such CPU"))?;
        let spans = Cpu::new(cpu).spans(&bundle.event, &mut wakes)?;
        // A CPU without events belongs to the process of the CPU before: each process has CPUs in a row.
        let owner = match spans.first() {
            Some(span) => *owners.get(&span.tid).ok_or(ReadError::Stray(span.tid))?,
            None => last.ok_or(ReadError::NoSwitches)?,
        };
        if let Some(span) = spans.iter().find(|span| owners.get(&span.tid) != Some(&owner)) {
            return Err(ReadError::Stray(span.tid));
        }
        last = Some(owner);
        let process = processes.get_mut(&owner).ok_or(ReadError::NoSwitches)?;
        let cpus = if process.cpus.is_empty() { number..number + 1 } else { process.cpus.clone() };
        process.cpus = cpus.start.min(number)..cpus.end.max(number + 1);
        process.spans.extend(spans);
        process.lost |= bundle.lost_events();
    }
    processes.values_mut().try_for_each(|process| join(process, &wakes))?;
    let processes: Vec<Process> = processes.into_values().collect();
    if processes.iter().all(|process| process.spans.is_empty()) {
        return Err(ReadError::NoSwitches);
    }
    Ok(processes)
}

/// One CPU while its events are read.
struct Cpu {
    cpu: u32,
    before: u64,
    /// The thread that has it, its priority and since when.
    open: Option<(i32, i16, u64)>,
}

impl Cpu {
    fn new(cpu: u32) -> Cpu {
        Cpu { cpu, before: 0, open: None }
    }

    fn spans(mut self, events: &[Event], wakes: &mut BTreeMap<i32, Vec<Wake>>) -> Result<Vec<Span>, ReadError> {
        let cpu = self.cpu;
        if cpu as usize >= CPUS_MAX {
            return Err(self.wrong(0, format!("there are at most {CPUS_MAX} CPUs")));
        }
        let mut spans = Vec::new();
        for event in events {
            let at = event.timestamp.ok_or_else(|| self.wrong(self.before, "it has no time".to_owned()))?;
            if at < self.before {
                return Err(ReadError::Order { cpu, at, before: self.before });
            }
            self.before = at;
            if let Some((tid, by)) = waker(event) {
                wakes.entry(tid).or_default().push(Wake { at: Nanos(at), by });
            } else {
                spans.extend(self.switch(at, event)?);
            }
        }
        match self.open {
            Some((tid, ..)) => Err(self.wrong(self.before, format!("thread {tid} never leaves it"))),
            None => Ok(spans),
        }
    }

    /// The span that ends with this event, if it is a switch.
    fn switch(&mut self, at: u64, event: &Event) -> Result<Option<Span>, ReadError> {
        let Some(switch) = &event.sched_switch else { return Ok(None) };
        let (from, to) = (switch.prev_pid(), switch.next_pid());
        let open = self.open.take();
        if open.map_or(0, |(tid, ..)| tid) != from {
            let has = open.map_or_else(|| "none".to_owned(), |(tid, ..)| tid.to_string());
            return Err(self.wrong(at, format!("thread {from} leaves it, but {has} has it")));
        }
        if to != 0 {
            let priority = i16::try_from(switch.next_prio()).ok().filter(|p| (-1..140).contains(p));
            let priority = priority.ok_or_else(|| self.wrong(at, format!("priority {}", switch.next_prio())))?;
            self.open = Some((to, priority, at));
        }
        let Some((tid, priority, since)) = open else { return Ok(None) };
        let left = match switch.prev_state() {
            SLEEPING => Left::Waiting,
            RUNNABLE => Left::Runnable,
            DEAD => Left::Ended,
            state => return Err(self.wrong(at, format!("state {state}"))),
        };
        let cpu = CpuId(self.cpu as u16);
        Ok(Some(Span { cpu, from: Nanos(since), to: Nanos(at), tid, priority, left, woken: None }))
    }

    fn wrong(&self, at: u64, what: String) -> ReadError {
        ReadError::Event { cpu: self.cpu, at, what }
    }
}

/// Which thread an event makes runnable, and what does it.
fn waker(event: &Event) -> Option<(i32, Waker)> {
    let by = event.pid() as i32;
    if let Some(new) = &event.task_newtask {
        return Some((new.pid(), Waker::Creator(Tid(by))));
    }
    let waking = event.sched_waking.as_ref()?;
    let by = match by {
        0 if event.common_flags() & HARD_INTERRUPT != 0 => Waker::Time,
        0 => Waker::Outside,
        tid => Waker::Thread(Tid(tid)),
    };
    Some((waking.pid(), by))
}

/// Says for each span what made its thread runnable, and checks that no thread has two CPUs.
fn join(process: &mut Process, wakes: &BTreeMap<i32, Vec<Wake>>) -> Result<(), ReadError> {
    process.spans.sort_by_key(|span| (span.to, span.from));
    let mut by_thread: BTreeMap<i32, Vec<&mut Span>> = process.threads.keys().map(|&tid| (tid, Vec::new())).collect();
    for span in &mut process.spans {
        by_thread.entry(span.tid).or_default().push(span);
    }
    for (tid, mut spans) in by_thread {
        if spans.is_empty() {
            return Err(ReadError::Missing(tid));
        }
        spans.sort_by_key(|span| (span.from, span.to));
        if let Some([first, second]) = spans.array_windows().find(|[first, second]| second.from < first.to) {
            let (cpu, at, until) = (second.cpu.0, second.from.0, first.to.0);
            return Err(ReadError::Twice { tid, cpu, at, until });
        }
        let mut wakes: Vec<Wake> = wakes.get(&tid).cloned().unwrap_or_default();
        wakes.sort_by_key(|wake| wake.at);
        let mut wakes = wakes.into_iter().peekable();
        for span in spans {
            while let Some(wake) = wakes.next_if(|wake| wake.at <= span.from) {
                span.woken = Some(wake);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Bundle, Packet, ProcessEntry, ProcessTree, Switch, Thread};
    use crate::trace;

    fn span(cpu: u16, from: u64, to: u64, tid: i32, left: Left, woken: Option<(u64, Waker)>) -> Span {
        let woken = woken.map(|(at, by)| Wake { at: Nanos(at), by });
        Span { cpu: CpuId(cpu), from: Nanos(from), to: Nanos(to), tid, priority: 120, left, woken }
    }

    fn two_threads(pid: i32, cpus: std::ops::Range<u16>) -> Process {
        let (a, b) = (pid, pid + 1);
        let first = cpus.start;
        let spans = vec![
            span(first, 10, 20, a, Left::Waiting, None),
            span(first + 1, 15, 30, b, Left::Runnable, Some((12, Waker::Creator(Tid(a))))),
            span(first, 35, 40, a, Left::Waiting, Some((25, Waker::Thread(Tid(b))))),
            span(first + 1, 30, 50, b, Left::Waiting, None),
            span(first, 60, 61, a, Left::Waiting, Some((58, Waker::Time))),
            span(first, 70, 75, b, Left::Ended, Some((70, Waker::Outside))),
        ];
        let mut spans = spans;
        spans.sort_by_key(|span| (span.to, span.from));
        let threads = [(a, "a".to_owned()), (b, "b".to_owned())].into();
        Process { pid, name: "p".to_owned(), threads, cpus, spans, lost: false }
    }

    #[test]
    fn what_is_written_is_read() {
        let all = [two_threads(7, 0..3), Process { lost: true, ..two_threads(20, 3..8) }];
        assert_eq!(read(&trace(&all)), Ok(all.to_vec()));
    }

    #[test]
    fn what_is_cut_off_is_refused_wherever() {
        let whole = trace(&[two_threads(7, 0..2)]);
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end} of {} bytes", whole.len());
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(read(b""), Err(ReadError::NoSwitches));
        for file in [&b"hello, world"[..], b"\x7fELF\x02\x01\x01", b"<!doctype html>", &[0xff; 100], &[0; 100]] {
            assert!(read(file).is_err(), "{file:?}");
        }
        // Any change of one byte is refused or gives a trace; it never panics.
        let whole = trace(&[two_threads(7, 0..2)]);
        for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut file = whole.clone();
            file[at] ^= 1 << bit;
            let _ = read(&file);
        }
    }

    /// A trace of one process, 7, with these events on CPU 0: time, thread that leaves, its state, thread that comes.
    fn raw(events: &[(u64, i32, i64, i32)]) -> Vec<u8> {
        let event = |&(at, prev, state, next): &(u64, i32, i64, i32)| {
            let switch = Switch {
                prev_pid: Some(prev),
                prev_state: Some(state),
                next_pid: Some(next),
                next_prio: Some(120),
                ..Switch::default()
            };
            Event { timestamp: Some(at), sched_switch: Some(switch), ..Event::default() }
        };
        let processes = vec![ProcessEntry { pid: Some(7), ..ProcessEntry::default() }];
        let threads = vec![Thread { tid: Some(7), tgid: Some(7), name: None }];
        let tree = Packet { process_tree: Some(ProcessTree { processes, threads }), ..Packet::default() };
        let bundle = Bundle { cpu: Some(0), event: events.iter().map(event).collect(), lost_events: None };
        let events = Packet { ftrace_events: Some(bundle), ..Packet::default() };
        Trace { packet: vec![tree, events] }.encode_to_vec()
    }

    #[test]
    fn each_fault_is_named() {
        assert!(read(&raw(&[(10, 0, 0, 7), (20, 7, 1, 0)])).is_ok());
        for (events, words) in [
            (&[(10, 0, 0, 7), (5, 7, 1, 0)][..], "out of order: 5 ns comes after 10 ns"),
            (&[(10, 0, 0, 7), (20, 8, 1, 0)], "thread 8 leaves it, but 7 has it"),
            (&[(10, 0, 0, 7)], "thread 7 never leaves it"),
            (&[(10, 0, 0, 7), (20, 7, 3, 0)], "state 3"),
            (&[(10, 0, 0, 9), (20, 9, 1, 0)], "thread 9 belongs to no process"),
            (&[], "no switches"),
        ] {
            let error = read(&raw(events)).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
        let twice = Process {
            spans: vec![span(0, 10, 20, 7, Left::Runnable, None), span(1, 15, 30, 7, Left::Runnable, None)],
            threads: [(7, "a".to_owned())].into(),
            ..two_threads(7, 0..2)
        };
        let error = read(&trace(&[twice])).expect_err("two CPUs").to_string();
        assert!(error.contains("thread 7 gets CPU 1 at 15 ns, but has another one until 20 ns"), "{error}");
    }
}
