//! From rt-app's JSON to a [`Workload`]. Unknown constructs are refused by name.

use super::json::{self, Node, Value, Wrong};
use super::{Event, Phase, Task, Workload};
use ids::{CPUS_MAX, Nanos, Policy};
use sched::{Attr, DeadlineParams};

/// Global settings of rt-app that say nothing about scheduling: where it logs, how it finds out what a
/// microsecond of computing is.
const GLOBAL_WITHOUT_EFFECT: &[&str] =
    &["calibration", "logdir", "log_basename", "log_size", "ftrace", "gnuplot", "lock_pages", "frag"];
/// Events and properties that exist in rt-app and are not built here.
const NOT_BUILT: &[&str] = &["util_min", "util_max", "taskgroup", "cumulative_slack", "memrun", "sem_post", "sem_wait"];
/// The only device that `iorun` may write to: the simulator has no disks.
const IO_DEVICE: &str = "/dev/null";
/// The size of the buffer that `mem` and `iorun` use, unless the file says another (rt-app's default), and the most.
const BUFFER: u64 = 4 << 20;
const BUFFER_MOST: i64 = 1 << 30;
/// No event writes more bytes.
const BYTES_MOST: i64 = 1 << 40;
/// The real-time priority of a thread that does not say (rt-app's `DEFAULT_THREAD_PRIORITY`).
const RT_PRIORITY: i64 = 10;
/// No time in a file is longer: a day.
const TIME_MOST: f64 = 86_400e6;
/// No workload begins with more threads.
const THREADS_MOST: i64 = 100_000;

type Members<'a> = &'a [(String, Node)];

/// Names of resources, by kind, in the order in which they are met.
#[derive(Default)]
struct Names {
    mutexes: Vec<String>,
    conds: Vec<String>,
    barriers: Vec<String>,
    timers: Vec<String>,
    /// Names and lines of tasks that events name: they must exist.
    tasks: Vec<(String, usize)>,
}

fn number_of(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|n| n == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

/// The workload in this text.
pub(super) fn workload(text: &str) -> Result<Workload, Wrong> {
    let root = json::parse(text)?;
    let members = object(&root, "the file")?;
    let mut names = Names::default();
    let (mut duration, mut default, mut pi, mut buffer, mut tasks) = (None, Policy::Other, false, BUFFER, None);
    for (key, node) in members {
        match key.as_str() {
            "tasks" => tasks = Some(node),
            "global" => {
                for (key, node) in object(node, "\"global\"")? {
                    match key.as_str() {
                        "duration" => duration = seconds(node)?,
                        "default_policy" => default = policy(node)?,
                        "pi_enabled" => pi = boolean(node)?,
                        "mem_buffer_size" => buffer = whole(node, 1, BUFFER_MOST)? as u64,
                        "io_device" => match self::text(node)? {
                            IO_DEVICE => {}
                            other => return Wrong::at(node.line, format!("\"{other}\": expected \"{IO_DEVICE}\"")),
                        },
                        k if GLOBAL_WITHOUT_EFFECT.contains(&k) => {}
                        k => {
                            let known = "duration, default_policy, pi_enabled, mem_buffer_size, io_device or rt-app's log settings";
                            return unknown(k, node, known);
                        }
                    }
                }
            }
            k => return unknown(k, node, "tasks or global"),
        }
    }
    let Some(tasks) = tasks else { return Wrong::at(root.line, "no tasks: expected a key \"tasks\"") };
    let mut all = Vec::new();
    for (name, node) in object(tasks, "\"tasks\"")? {
        all.push(task(name, node, default, duration.is_some(), &mut names)?);
    }
    let threads: i64 = all.iter().map(|t| t.instances as i64).sum();
    if !(1..=THREADS_MOST).contains(&threads) {
        return Wrong::at(tasks.line, format!("{threads} threads in all: expected 1 to {THREADS_MOST}"));
    }
    for (name, line) in &names.tasks {
        if !all.iter().any(|t| t.name == *name) {
            return Wrong::at(*line, format!("no task is called \"{name}\": expected the name of a task"));
        }
    }
    forks_are_sound(&all)?;
    let Names { mutexes, conds, barriers, timers, .. } = names;
    let [mutexes, conds, barriers, timers] = [mutexes, conds, barriers, timers].map(|n| n.len());
    Ok(Workload { duration, pi, buffer, tasks: all.into(), mutexes, conds, barriers, timers })
}

/// Whether the threads that fork come to an end, and whether each barrier knows how many threads meet there.
fn forks_are_sound(tasks: &[Task]) -> Result<(), Wrong> {
    for (number, task) in tasks.iter().enumerate() {
        for (forked, line) in forks_of(tasks, number) {
            let name = &tasks[forked].name;
            if tasks[forked].events().any(|e| matches!(e, Event::Barrier(_))) {
                return Wrong::at(
                    line,
                    format!("the task \"{name}\" has a barrier: expected none in a task that is forked"),
                );
            }
            if all_forked(tasks, forked).contains(&number) {
                return Wrong::at(line, format!("the task \"{}\" forks itself: expected an end of forks", task.name));
            }
        }
    }
    Ok(())
}

/// The tasks that a task forks, with the lines that say so.
fn forks_of(tasks: &[Task], number: usize) -> Vec<(usize, usize)> {
    let named = tasks[number].events().filter_map(|e| match e {
        Event::Fork { task, line } => Some((tasks.iter().position(|t| t.name == *task)?, *line)),
        _ => None,
    });
    named.collect()
}

/// A task and all that it forks, directly or through others.
fn all_forked(tasks: &[Task], first: usize) -> Vec<usize> {
    let (mut all, mut next) = (vec![first], 0);
    while let Some(&task) = all.get(next) {
        for (forked, _) in forks_of(tasks, task) {
            if !all.contains(&forked) {
                all.push(forked);
            }
        }
        next += 1;
    }
    all
}

fn task(name: &str, node: &Node, default: Policy, ends: bool, names: &mut Names) -> Result<Task, Wrong> {
    let members = object(node, "a task")?;
    let mut task = Task {
        name: name.to_owned(),
        instances: 1,
        attr: Attr::DEFAULT,
        cpus: Vec::new(),
        delay: Nanos::ZERO,
        loops: None,
        phases: Vec::new(),
    };
    let mut how = How::default();
    let mut events = Phase { loops: 1, cpus: Vec::new(), attr: None, events: Vec::new() };
    let mut phases = None;
    for (key, value) in members {
        match key.as_str() {
            "instance" => task.instances = whole(value, 0, THREADS_MOST)? as usize,
            "loop" => task.loops = loops(value)?,
            "delay" => task.delay = micros(value)?,
            "cpus" => task.cpus = cpus(value)?,
            "phases" => phases = Some(value),
            k if how.takes(k, value)? => {}
            k => match event(k, value, names)? {
                Some(e) => events.events.push(e),
                None => return unknown(k, value, "an event or a property of a task"),
            },
        }
    }
    let kind = how.policy.unwrap_or(default);
    task.attr = how.attr(kind, node.line)?;
    match phases {
        Some(phases) if !events.events.is_empty() => {
            return Wrong::at(phases.line, "events beside \"phases\": expected them inside of a phase");
        }
        Some(phases) => {
            for (_, node) in object(phases, "\"phases\"")? {
                task.phases.push(phase(node, kind, names)?);
            }
        }
        None => task.phases.push(events),
    }
    if task.phases.iter().all(|p| p.events.is_empty()) {
        return Wrong::at(node.line, format!("the task \"{name}\" does nothing: expected events"));
    }
    let barriers = |e: &Event| if let Event::Barrier(b) = e { Some(*b) } else { None };
    let mut met: Vec<usize> = task.events().filter_map(barriers).collect();
    met.sort_unstable();
    if let Some(twice) = met.windows(2).find(|pair| pair[0] == pair[1]) {
        let barrier = &names.barriers[twice[0]];
        let what = format!("the task \"{name}\" has the barrier \"{barrier}\" twice: expected a name for each place");
        return Wrong::at(node.line, what);
    }
    if task.loops.is_none() && !ends {
        let what = format!("the task \"{name}\" never ends: expected \"loop\", or \"duration\" in \"global\"");
        return Wrong::at(node.line, what);
    }
    Ok(task)
}

/// A phase of a task of this policy.
fn phase(node: &Node, kind: Policy, names: &mut Names) -> Result<Phase, Wrong> {
    let mut phase = Phase { loops: 1, cpus: Vec::new(), attr: None, events: Vec::new() };
    let mut how = How::default();
    for (key, value) in object(node, "a phase")? {
        match key.as_str() {
            "loop" => match loops(value)? {
                Some(n) => phase.loops = n,
                None => return Wrong::at(value.line, "a phase without end: expected a number of loops from 1"),
            },
            "cpus" => phase.cpus = cpus(value)?,
            k if how.takes(k, value)? => {}
            k => match event(k, value, names)? {
                Some(e) => phase.events.push(e),
                None => return unknown(k, value, "an event or a property of a phase"),
            },
        }
    }
    if how != How::default() {
        phase.attr = Some(how.attr(how.policy.unwrap_or(kind), node.line)?);
    }
    Ok(phase)
}

/// The policy and priority of a task or phase.
#[derive(Default, PartialEq)]
struct How {
    policy: Option<Policy>,
    /// With its line.
    priority: Option<(i64, usize)>,
    /// Runtime, deadline, period.
    deadline: [Option<Nanos>; 3],
}

impl How {
    /// Whether the key was one of these.
    fn takes(&mut self, key: &str, value: &Node) -> Result<bool, Wrong> {
        match key {
            "policy" => self.policy = Some(policy(value)?),
            "priority" => self.priority = Some((whole(value, -20, 99)?, value.line)),
            "dl-runtime" => self.deadline[0] = Some(micros(value)?),
            "dl-deadline" => self.deadline[1] = Some(micros(value)?),
            "dl-period" => self.deadline[2] = Some(micros(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn attr(&self, kind: Policy, line: usize) -> Result<Attr, Wrong> {
        attr(kind, self.priority, self.deadline, line)
    }
}

/// rt-app knows an event by how its key begins, so that run0 and run_again are different keys.
fn event(key: &str, node: &Node, names: &mut Names) -> Result<Option<Event>, Wrong> {
    if NOT_BUILT.iter().any(|word| key.starts_with(word)) {
        return unknown(key, node, "an event that is built here");
    }
    let starts = |word| key.starts_with(word);
    let event = if starts("runtime") {
        Event::RunFor(micros(node)?)
    } else if starts("run") {
        Event::Run(micros(node)?)
    } else if starts("sleep") {
        Event::Sleep(micros(node)?)
    } else if starts("timer") {
        timer(node, names)?
    } else if starts("lock") {
        Event::Lock(number_of(&mut names.mutexes, text(node)?))
    } else if starts("unlock") {
        Event::Unlock(number_of(&mut names.mutexes, text(node)?))
    } else if starts("wait") {
        let (cond, mutex) = wait(node)?;
        Event::Wait(number_of(&mut names.conds, cond), number_of(&mut names.mutexes, mutex))
    } else if starts("sync") {
        let (cond, mutex) = wait(node)?;
        Event::Sync(number_of(&mut names.conds, cond), number_of(&mut names.mutexes, mutex))
    } else if starts("signal") {
        Event::Signal(number_of(&mut names.conds, reference(node)?))
    } else if starts("broad") {
        Event::Broadcast(number_of(&mut names.conds, reference(node)?))
    } else if starts("barrier") {
        Event::Barrier(number_of(&mut names.barriers, reference(node)?))
    } else if starts("suspend") {
        let name = text(node)?;
        if !name.is_empty() {
            names.tasks.push((name.to_owned(), node.line));
        }
        Event::Suspend((!name.is_empty()).then(|| name.to_owned()))
    } else if starts("resume") {
        let name = text(node)?;
        names.tasks.push((name.to_owned(), node.line));
        Event::Resume(name.to_owned())
    } else if starts("mem") {
        Event::Memory(whole(node, 0, BYTES_MOST)? as u64)
    } else if starts("iorun") {
        Event::Write(whole(node, 0, BYTES_MOST)? as u64)
    } else if starts("fork") {
        let task = text(node)?.to_owned();
        names.tasks.push((task.clone(), node.line));
        Event::Fork { task, line: node.line }
    } else if starts("yield") {
        Event::Yield
    } else {
        return Ok(None);
    };
    Ok(Some(event))
}

fn timer(node: &Node, names: &mut Names) -> Result<Event, Wrong> {
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
    if period == Nanos::ZERO {
        return Wrong::at(node.line, "a period of 0: expected at least 1 µs");
    }
    let unique = name.starts_with("unique");
    Ok(Event::Timer { timer: number_of(&mut names.timers, name), unique, period, absolute })
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

/// A name, or an object with a `ref` only.
fn reference(node: &Node) -> Result<&str, Wrong> {
    match &node.value {
        Value::Object(members) => match members.as_slice() {
            [(key, value)] if key == "ref" => text(value),
            _ => Wrong::at(node.line, "an object: expected \"ref\" and nothing else"),
        },
        _ => text(node),
    }
}

fn attr(
    kind: Policy,
    priority: Option<(i64, usize)>,
    deadline: [Option<Nanos>; 3],
    line: usize,
) -> Result<Attr, Wrong> {
    let within = |default: i64, least: i64, most: i64| match priority {
        Some((n, line)) if !(least..=most).contains(&n) => {
            Wrong::at(line, format!("priority {n} with {kind:?}: expected {least} to {most}"))
        }
        other => Ok(other.map_or(default, |p| p.0)),
    };
    if kind != Policy::Deadline && deadline.iter().any(Option::is_some) {
        return Wrong::at(line, "dl-runtime, dl-deadline or dl-period: expected with SCHED_DEADLINE only");
    }
    let attr = match kind {
        Policy::Fifo => Attr::fifo(within(RT_PRIORITY, 1, 99)? as u8),
        Policy::RoundRobin => Attr::round_robin(within(RT_PRIORITY, 1, 99)? as u8),
        Policy::Deadline => match deadline {
            [Some(runtime), d, Some(period)] => {
                Attr::deadline(DeadlineParams { runtime, deadline: d.unwrap_or(period), period })
            }
            _ => return Wrong::at(line, "SCHED_DEADLINE: expected \"dl-runtime\" and \"dl-period\""),
        },
        fair => Attr::fair(fair, within(0, -20, 19)? as i8),
    };
    if attr.is_valid() {
        Ok(attr)
    } else {
        Wrong::at(line, "expected dl-runtime ≤ dl-deadline ≤ dl-period, as sched(7)")
    }
}

fn policy(node: &Node) -> Result<Policy, Wrong> {
    Ok(match text(node)? {
        "SCHED_OTHER" => Policy::Other,
        "SCHED_BATCH" => Policy::Batch,
        "SCHED_IDLE" => Policy::Idle,
        "SCHED_FIFO" => Policy::Fifo,
        "SCHED_RR" => Policy::RoundRobin,
        "SCHED_DEADLINE" => Policy::Deadline,
        other => {
            let expected = "SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR or SCHED_DEADLINE";
            return Wrong::at(node.line, format!("\"{other}\": expected {expected}"));
        }
    })
}

fn unknown<T>(key: &str, node: &Node, expected: &str) -> Result<T, Wrong> {
    let known = if NOT_BUILT.iter().any(|word| key.starts_with(word)) { "is not built here" } else { "is not known" };
    Wrong::at(node.line, format!("\"{key}\" {known}: expected {expected}"))
}

fn object<'a>(node: &'a Node, what: &str) -> Result<Members<'a>, Wrong> {
    match &node.value {
        Value::Object(members) => Ok(members),
        other => Wrong::at(node.line, format!("{} for {what}: expected an object", other.kind())),
    }
}

fn text(node: &Node) -> Result<&str, Wrong> {
    match &node.value {
        Value::Text(text) => Ok(text),
        other => Wrong::at(node.line, format!("{}: expected a name in quotes", other.kind())),
    }
}

fn boolean(node: &Node) -> Result<bool, Wrong> {
    match node.value {
        Value::Bool(b) => Ok(b),
        ref other => Wrong::at(node.line, format!("{}: expected true or false", other.kind())),
    }
}

fn whole(node: &Node, least: i64, most: i64) -> Result<i64, Wrong> {
    match node.value {
        Value::Number(n) if n.fract() == 0.0 && n >= least as f64 && n <= most as f64 => Ok(n as i64),
        ref other => Wrong::at(node.line, format!("{}: expected a whole number, {least} to {most}", other.kind())),
    }
}

/// A number of times; -1 is for ever.
fn loops(node: &Node) -> Result<Option<u32>, Wrong> {
    match whole(node, -1, i64::from(u32::MAX))? {
        -1 => Ok(None),
        0 => Wrong::at(node.line, "0 loops: expected -1 or a number from 1"),
        n => Ok(Some(n as u32)),
    }
}

fn micros(node: &Node) -> Result<Nanos, Wrong> {
    match node.value {
        Value::Number(n) if (0.0..=TIME_MOST).contains(&n) => Ok(Nanos((n * 1e3) as u64)),
        ref other => Wrong::at(node.line, format!("{}: expected microseconds, 0 to {TIME_MOST}", other.kind())),
    }
}

/// The length of the run; -1 is until all threads have ended.
fn seconds(node: &Node) -> Result<Option<Nanos>, Wrong> {
    let most = TIME_MOST / 1e6;
    match node.value {
        Value::Number(-1.0) => Ok(None),
        Value::Number(n) if n > 0.0 && n <= most => Ok(Some(Nanos((n * 1e9) as u64))),
        ref other => Wrong::at(node.line, format!("{}: expected seconds up to {most}, or -1", other.kind())),
    }
}

fn cpus(node: &Node) -> Result<Vec<(u16, usize)>, Wrong> {
    let Value::List(items) = &node.value else {
        return Wrong::at(node.line, format!("{}: expected a list of CPUs", node.value.kind()));
    };
    if items.is_empty() {
        return Wrong::at(node.line, "an empty list: expected at least one CPU");
    }
    items.iter().map(|item| Ok((whole(item, 0, CPUS_MAX as i64 - 1)? as u16, item.line))).collect()
}
