//! Writes traces.

use crate::format::{
    Bundle, DEAD, Event, HARD_INTERRUPT, NewTask, Packet, ProcessEntry, ProcessTree, RUNNABLE, SLEEPING,
    SOFT_INTERRUPT, Switch, THREAD, Thread, Trace, Waking,
};
use crate::{Mark, Process, Span, marks};
use ids::{Left, Nanos, Waker};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// The thread on one side of a switch.
struct Side {
    tid: i32,
    priority: i32,
    state: i64,
}

const IDLE: Side = Side { tid: 0, priority: 120, state: RUNNABLE };

impl Side {
    fn of(span: &Span) -> Side {
        let state = match span.left {
            Left::Waiting => SLEEPING,
            Left::Runnable => RUNNABLE,
            Left::Ended => DEAD,
        };
        Side { tid: span.tid, priority: span.priority.into(), state }
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
    Event { timestamp: Some(at.0), pid: Some(from.tid as u32), sched_switch: Some(switch), ..Event::default() }
}

/// The trace as a file for ui.perfetto.dev.
#[must_use]
pub fn trace(processes: &[Process]) -> Vec<u8> {
    marked(processes, &[])
}

/// The same with marks.
#[must_use]
pub fn marked(processes: &[Process], marks: &[Mark]) -> Vec<u8> {
    let mut tree = ProcessTree { processes: Vec::new(), threads: Vec::new() };
    let mut bundles = Vec::new();
    for process in processes {
        let entry = ProcessEntry { pid: Some(process.pid), ppid: Some(1), cmdline: vec![process.name.clone()] };
        tree.processes.push(entry);
        // A CPU that nobody had is there, too.
        let mut cpus: BTreeMap<u16, Vec<Span>> = process.cpus.clone().map(|cpu| (cpu, Vec::new())).collect();
        let mut tids = BTreeSet::new();
        for span in &process.spans {
            tids.insert(span.tid);
            cpus.entry(span.cpu.0).or_default().push(*span);
        }
        tree.threads.extend(tids.into_iter().map(|tid| {
            let side = Side { tid, ..IDLE };
            Thread { tid: Some(tid), name: Some(side.name(&process.threads)), tgid: Some(process.pid) }
        }));
        let lost = process.lost.then_some(true);
        bundles.extend(cpus.into_iter().map(|(cpu, spans)| {
            let mut event = wakes(&process.threads, &spans);
            event.extend(switches(&process.threads, &spans));
            event.sort_by_key(|event| event.timestamp);
            Bundle { cpu: Some(cpu.into()), event, lost_events: lost }
        }));
    }
    let packet = |p: Packet| Packet { trusted_packet_sequence_id: Some(1), ..p };
    let bundles = bundles.into_iter().map(|b| packet(Packet { ftrace_events: Some(b), ..Packet::default() }));
    let marks = marks::packets(marks).into_iter().map(packet);
    // The tree comes last, so a file without its end lacks it.
    let tree = packet(Packet { process_tree: Some(tree), timestamp: Some(0), ..Packet::default() });
    Trace { packet: bundles.chain(marks).chain([tree]).collect() }.encode_to_vec()
}

/// What made the threads of these spans runnable.
fn wakes(names: &BTreeMap<i32, String>, spans: &[Span]) -> Vec<Event> {
    let wake = |span: &Span| {
        let wake = span.woken?;
        let (pid, common_flags) = match wake.by {
            Waker::Thread(tid) | Waker::Creator(tid) => (tid.0 as u32, None),
            Waker::Time => (0, Some(HARD_INTERRUPT)),
            Waker::Outside => (0, Some(SOFT_INTERRUPT)),
        };
        let event = Event { timestamp: Some(wake.at.0), pid: Some(pid), common_flags, ..Event::default() };
        let (comm, pid) = (Some(Side::of(span).name(names)), Some(span.tid));
        Some(if let Waker::Creator(_) = wake.by {
            Event { task_newtask: Some(NewTask { pid, comm, clone_flags: Some(THREAD) }), ..event }
        } else {
            let (prio, target_cpu) = (Some(span.priority.into()), Some(span.cpu.0.into()));
            Event { sched_waking: Some(Waking { comm, pid, prio, target_cpu }), ..event }
        })
    };
    spans.iter().filter_map(wake).collect()
}

/// The switches of one CPU; where nobody has it, the idle thread does.
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
    if now.tid != 0 {
        events.push(switch(names, until, &now, &IDLE));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::CpuId;

    #[test]
    fn gaps_are_the_idle_threads() {
        let span = |from, to, tid| Span {
            cpu: CpuId(0),
            from: Nanos(from),
            to: Nanos(to),
            tid,
            priority: 120,
            left: Left::Waiting,
            woken: None,
        };
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
