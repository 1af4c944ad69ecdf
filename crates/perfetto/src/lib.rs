//! Trace files for ui.perfetto.dev, as far as scheduling needs them.
//!
//! The switches of each CPU are written as ftrace's `sched_switch`, so the viewer shows CPUs and thread states as it does
//! for Linux. Message and field numbers are those of `protos/perfetto/trace/`. Simulated and live runs use the same code.
//!
//! **May touch:** what it is given. **Start reading at** [`trace`].

use ids::{CpuId, Nanos};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// A thread had a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Which CPU.
    pub cpu: CpuId,
    /// Since when.
    pub from: Nanos,
    /// Until when.
    pub to: Nanos,
    /// The thread's id.
    pub tid: i64,
    /// Its priority as Linux's kernel counts it (lower is more urgent).
    pub priority: i16,
    /// It waits afterwards, or is gone; else it was preempted.
    pub blocked: bool,
}

/// A process and its threads' time on CPUs, in order of their ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// The process's name.
    pub name: String,
    /// Names of threads, where known.
    pub threads: BTreeMap<i32, String>,
    /// Which thread had which CPU when. CPUs of two processes have different numbers.
    pub spans: Vec<Span>,
}

/// `TASK_RUNNING` and `TASK_INTERRUPTIBLE`.
const RUNNABLE: i64 = 0;
const SLEEPING: i64 = 1;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "1")]
    ftrace_events: Option<Bundle>,
    #[prost(message, optional, tag = "2")]
    process_tree: Option<ProcessTree>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Bundle {
    #[prost(uint32, optional, tag = "1")]
    cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    event: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(uint64, optional, tag = "1")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pid: Option<u32>,
    #[prost(message, optional, tag = "4")]
    sched_switch: Option<Switch>,
}

#[derive(Clone, PartialEq, Message)]
struct Switch {
    #[prost(string, optional, tag = "1")]
    prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    next_prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    processes: Vec<ProcessEntry>,
    #[prost(message, repeated, tag = "2")]
    threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessEntry {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    ppid: Option<i32>,
    #[prost(string, repeated, tag = "3")]
    cmdline: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Thread {
    #[prost(int32, optional, tag = "1")]
    tid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(int32, optional, tag = "3")]
    tgid: Option<i32>,
}

/// The thread on one side of a switch.
struct Side {
    tid: i32,
    priority: i32,
    state: i64,
}

const IDLE: Side = Side { tid: 0, priority: 120, state: RUNNABLE };

impl Side {
    fn of(span: &Span) -> Side {
        let state = if span.blocked { SLEEPING } else { RUNNABLE };
        Side { tid: span.tid as i32, priority: span.priority.into(), state }
    }

    fn name(&self, names: &BTreeMap<i32, String>) -> String {
        match names.get(&self.tid) {
            _ if self.tid == 0 => "swapper".to_string(),
            Some(name) => name.clone(),
            None => format!("thread {}", self.tid),
        }
    }
}

fn switch(names: &BTreeMap<i32, String>, at: Nanos, from: &Side, to: &Side) -> Event {
    let switch = Switch {
        prev_comm: Some(from.name(names)),
        prev_pid: Some(from.tid),
        prev_prio: Some(from.priority),
        prev_state: Some(from.state),
        next_comm: Some(to.name(names)),
        next_pid: Some(to.tid),
        next_prio: Some(to.priority),
    };
    Event { timestamp: Some(at.0), pid: Some(from.tid as u32), sched_switch: Some(switch) }
}

/// The trace as a file for ui.perfetto.dev.
#[must_use]
pub fn trace(processes: &[Process]) -> Vec<u8> {
    let mut tree = ProcessTree { processes: Vec::new(), threads: Vec::new() };
    let mut bundles = Vec::new();
    for process in processes {
        let entry = ProcessEntry { pid: Some(process.pid), ppid: Some(1), cmdline: vec![process.name.clone()] };
        tree.processes.push(entry);
        let mut cpus: BTreeMap<u16, Vec<Span>> = BTreeMap::new();
        let mut tids = BTreeSet::new();
        for span in &process.spans {
            tids.insert(span.tid as i32);
            cpus.entry(span.cpu.0).or_default().push(*span);
        }
        tree.threads.extend(tids.into_iter().map(|tid| {
            let side = Side { tid, ..IDLE };
            Thread { tid: Some(tid), name: Some(side.name(&process.threads)), tgid: Some(process.pid) }
        }));
        bundles.extend(
            cpus.into_iter()
                .map(|(cpu, spans)| Bundle { cpu: Some(cpu.into()), event: switches(&process.threads, &spans) }),
        );
    }
    let packet = |p: Packet| Packet { trusted_packet_sequence_id: Some(1), ..p };
    let mut all = vec![packet(Packet { process_tree: Some(tree), timestamp: Some(0), ..Packet::default() })];
    all.extend(bundles.into_iter().map(|b| packet(Packet { ftrace_events: Some(b), ..Packet::default() })));
    Trace { packet: all }.encode_to_vec()
}

/// The switches of one CPU; where it has no thread, to the idle thread.
fn switches(names: &BTreeMap<i32, String>, spans: &[Span]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut now = IDLE;
    let mut until = Nanos::ZERO;
    for span in spans {
        if span.from > until && now.tid != 0 {
            events.push(switch(names, until, &now, &IDLE));
            now = IDLE;
        }
        events.push(switch(names, span.from, &now, &Side::of(span)));
        now = Side::of(span);
        until = span.to;
    }
    events.push(switch(names, until, &now, &IDLE));
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_the_idle_threads() {
        let span =
            |from, to, tid| Span { cpu: CpuId(0), from: Nanos(from), to: Nanos(to), tid, priority: 120, blocked: true };
        let events = switches(&BTreeMap::new(), &[span(10, 20, 1), span(20, 30, 2), span(40, 50, 1)]);
        let pairs: Vec<_> = events
            .iter()
            .map(|e| {
                let s = e.sched_switch.as_ref().unwrap();
                (e.timestamp.unwrap(), s.prev_pid.unwrap(), s.next_pid.unwrap())
            })
            .collect();
        assert_eq!(pairs, [(10, 0, 1), (20, 1, 2), (30, 2, 0), (40, 0, 1), (50, 1, 0)]);
    }
}
