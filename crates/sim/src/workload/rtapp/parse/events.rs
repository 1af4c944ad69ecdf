//! The events of a task.

use super::super::Event;
use super::super::json::{Node, Value, Wrong};
use super::Reading;
use super::values::{micros, object, reference, text, unknown, whole};

/// No event writes more bytes.
const BYTES_MOST: i64 = 1 << 40;

/// How the keys of events begin. One that begins another stands after it.
const KEYS: &[&str] = &[
    "runtime", "run", "sleep", "timer", "lock", "unlock", "wait", "sync", "signal", "broad", "barrier", "suspend",
    "resume", "sem_wait", "sem_post", "memrun", "mem", "iorun", "fork", "yield",
];

/// The event that a key stands for. rt-app knows it by how the key begins, so that run0 and run_again are different
/// keys.
pub(super) fn kind(key: &str) -> Option<&'static str> {
    KEYS.iter().copied().find(|kind| key.starts_with(kind))
}

/// The event of this key; `None`: the key is none of an event.
pub(super) fn event(key: &str, node: &Node, reading: &mut Reading) -> Result<Option<Event>, Wrong> {
    let Some(kind) = kind(key) else { return Ok(None) };
    let event = match kind {
        "runtime" => Event::RunFor(micros(node)?),
        "run" => Event::Run(micros(node)?),
        "sleep" => Event::Sleep(micros(node)?),
        "timer" => timer(node, reading)?,
        "lock" => Event::Lock(reading.mutexes.number(text(node)?)),
        "unlock" => Event::Unlock(reading.mutexes.number(text(node)?)),
        "wait" | "sync" => {
            let (cond, mutex) = wait(node)?;
            let (cond, mutex) = (reading.conds.number(cond), reading.mutexes.number(mutex));
            if kind == "wait" { Event::Wait(cond, mutex) } else { Event::Sync(cond, mutex) }
        }
        "signal" => Event::Signal(reading.conds.number(reference(node)?)),
        "broad" => Event::Broadcast(reading.conds.number(reference(node)?)),
        "barrier" => Event::Barrier(reading.barriers.number(reference(node)?)),
        "suspend" => suspend(node, reading),
        "resume" => {
            let name = text(node)?;
            reading.resumed.push((name.to_owned(), node.line));
            Event::Resume(reading.gates.number(name))
        }
        "sem_wait" => Event::SemaphoreWait(reading.semaphores.number(reference(node)?)),
        "sem_post" => Event::SemaphorePost(reading.semaphores.number(reference(node)?)),
        "memrun" => {
            let why = "is not built here, because its time is that of caches, and simulated CPUs have none";
            return Wrong::at(node.line, format!("\"{key}\" {why}: expected \"mem\", \"run\" or \"runtime\""));
        }
        "mem" => Event::Memory(whole(node, 0, BYTES_MOST)? as u64),
        "iorun" => Event::Write(whole(node, 0, BYTES_MOST)? as u64),
        "fork" => {
            let task = text(node)?.to_owned();
            reading.forked.push((task.clone(), node.line));
            Event::Fork { task, line: node.line }
        }
        _ => Event::Yield,
    };
    Ok(Some(event))
}

/// A thread suspends where its task's name, or the name that the event gives, is resumed.
fn suspend(node: &Node, reading: &mut Reading) -> Event {
    let task = reading.task.clone();
    let name = match &node.value {
        Value::Text(name) if !name.is_empty() => name.clone(),
        _ => task.clone(),
    };
    if name != task {
        reading.suspended.push((name.clone(), node.line));
        let what = "counts, as in rt-app until May 2025; later versions take the task's";
        reading.note("suspend", node.line, &format!("the name \"{name}\" of \"suspend\" {what}"));
    }
    Event::Suspend(reading.gates.number(&name))
}

fn timer(node: &Node, reading: &mut Reading) -> Result<Event, Wrong> {
    let (mut name, mut period, mut absolute) = (None, None, false);
    for (key, value) in object(node, "a timer")? {
        match key.as_str() {
            "ref" => name = Some(text(value)?),
            "period" => period = Some(micros(value)?),
            "mode" => {
                absolute = match text(value)? {
                    "absolute" => true,
                    "relative" => false,
                    other => {
                        return Wrong::at(value.line, format!("\"{other}\": expected \"absolute\" or \"relative\""));
                    }
                }
            }
            k => return unknown(k, value, "ref, period or mode"),
        }
    }
    let (Some(name), Some(period)) = (name, period) else {
        return Wrong::at(node.line, "an incomplete timer: expected \"ref\" and \"period\"");
    };
    let unique = name.starts_with("unique");
    Ok(Event::Timer { timer: reading.timer(name, unique, absolute), unique, period })
}

fn wait(node: &Node) -> Result<(&str, &str), Wrong> {
    let (mut cond, mut mutex) = (None, None);
    for (key, value) in object(node, "a wait")? {
        match key.as_str() {
            "ref" => cond = Some(text(value)?),
            "mutex" => mutex = Some(text(value)?),
            k => return unknown(k, value, "ref or mutex"),
        }
    }
    match (cond, mutex) {
        (Some(cond), Some(mutex)) => Ok((cond, mutex)),
        _ => Wrong::at(node.line, "an incomplete wait: expected \"ref\" and \"mutex\""),
    }
}
