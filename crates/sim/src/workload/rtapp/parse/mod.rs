//! From rt-app's JSON to a [`Workload`]. Unknown constructs are refused by name.

mod events;
mod groups;
mod how;
mod values;

use super::json::{self, Node, Wrong};
use super::{Event, Phase, Task, Workload};
use events::event;
use groups::Places;
use how::{How, policy};
use ids::{Nanos, Policy};
use sched::Attr;
use values::{boolean, cpus, loops, members, micros, object, once, seconds, text, unknown, whole};

/// Global settings of rt-app that say nothing about scheduling: where it logs, how it finds out what a
/// microsecond of computing is.
const GLOBAL_WITHOUT_EFFECT: &[&str] = &[
    "calibration",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "lock_pages",
    "frag",
    "cumulative_slack",
];
/// The types of resources that rt-app lets a file declare. Nothing comes of it: events make what they name.
const RESOURCES: &[&str] = &["mutex", "signal", "wait", "broadcast", "sync", "sleep", "run", "timer"];
/// The only device that `iorun` may write to: the simulator has no disks.
const IO_DEVICE: &str = "/dev/null";
/// The size of the buffer that `mem` and `iorun` use, unless the file says another (rt-app's default), and the most.
const BUFFER: u64 = 4 << 20;
const BUFFER_MOST: i64 = 1 << 30;
/// No workload begins with more threads.
const THREADS_MOST: i64 = 100_000;

/// The names that a file has used so far. Events make what they name.
#[derive(Default)]
struct Reading {
    mutexes: Names,
    conds: Names,
    barriers: Names,
    semaphores: Names,
    gates: Names,
    /// The task whose own a timer is, and its name; whether it is absolute.
    timers: Vec<(Option<String>, String)>,
    absolute: Vec<bool>,
    /// Names that must stand for something, with their lines: tasks that are forked, and where threads suspend and are
    /// resumed.
    forked: Vec<(String, usize)>,
    suspended: Vec<(String, usize)>,
    resumed: Vec<(String, usize)>,
    /// The name of the task that is being read.
    task: String,
    /// Keys without effect, and a sentence for each.
    notes: Vec<(String, String)>,
}

/// Names of one kind of objects, in the order in which they are met.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn number(&mut self, name: &str) -> usize {
        self.0.iter().position(|n| n == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }
}

impl Reading {
    /// The number of a timer. It is absolute if one event says so.
    fn timer(&mut self, name: &str, unique: bool, absolute: bool) -> usize {
        let timer = (unique.then(|| self.task.clone()), name.to_owned());
        let number = self.timers.iter().position(|t| *t == timer).unwrap_or_else(|| {
            self.timers.push(timer);
            self.absolute.push(false);
            self.absolute.len() - 1
        });
        self.absolute[number] |= absolute;
        number
    }

    /// Something to know: once for each kind.
    fn note(&mut self, kind: &str, line: usize, what: &str) {
        if !self.notes.iter().any(|(other, _)| other == kind) {
            self.notes.push((kind.to_owned(), format!("line {line}: {what}")));
        }
    }
}

/// The settings of the whole file.
struct Global {
    duration: Option<Nanos>,
    policy: Policy,
    pi: bool,
    buffer: u64,
    /// Another device than [`IO_DEVICE`], with its line.
    device: Option<(String, usize)>,
}

/// The workload in this text.
pub(super) fn workload(text: &str) -> Result<Workload, Wrong> {
    let root = json::parse(text)?;
    let (mut global, mut tasks) = (global(&[])?, None);
    for (key, node) in object(&root, "the file")? {
        match key.as_str() {
            "tasks" => tasks = Some(node),
            "global" => global = self::global(object(node, "\"global\"")?)?,
            "resources" => resources(node)?,
            k => return unknown(k, node, "tasks, global or resources"),
        }
    }
    let Some(tasks) = tasks else { return Wrong::at(root.line, "no tasks: expected a key \"tasks\"") };
    let mut reading = Reading::default();
    let (mut all, mut places): (Vec<Task>, Vec<Places>) = Default::default();
    for (name, node) in members(tasks, "\"tasks\"")? {
        reading.task = own_name(name, &all);
        let (task, its) = task(node, &global, &mut reading)?;
        all.push(task);
        places.push(its);
    }
    let threads: i64 = all.iter().map(|t| t.instances as i64).sum();
    if !(1..=THREADS_MOST).contains(&threads) {
        return Wrong::at(tasks.line, format!("{threads} threads in all: expected 1 to {THREADS_MOST}"));
    }
    names_exist(&all, &reading)?;
    forks_are_sound(&all)?;
    let forked: Vec<String> = reading.forked.iter().map(|(name, _)| name.clone()).collect();
    groups::make_no_difference(&all, &places, &forked)?;
    let writes = all.iter().flat_map(Task::events).any(|event| matches!(event, Event::Write(_)));
    if let Some((device, line)) = global.device.filter(|_| writes) {
        return Wrong::at(line, format!("\"{device}\": expected \"{IO_DEVICE}\", as no other device is simulated"));
    }
    let Reading { mutexes, conds, barriers, semaphores, gates, absolute, notes, .. } = reading;
    let [mutexes, conds, barriers, semaphores, gates] =
        [mutexes, conds, barriers, semaphores, gates].map(|names| names.0.len());
    Ok(Workload {
        duration: global.duration,
        pi: global.pi,
        buffer: global.buffer,
        tasks: all.into(),
        mutexes,
        conds,
        barriers,
        semaphores,
        gates,
        timers: absolute.into(),
        notes: notes.into_iter().map(|(_, note)| note).collect(),
    })
}

fn global(members: values::Members<'_>) -> Result<Global, Wrong> {
    let mut global = Global { duration: None, policy: Policy::Other, pi: false, buffer: BUFFER, device: None };
    for (key, node) in members {
        match key.as_str() {
            "duration" => global.duration = seconds(node)?,
            "default_policy" => global.policy = policy(node)?,
            "pi_enabled" => global.pi = boolean(node)?,
            "mem_buffer_size" => global.buffer = whole(node, 1, BUFFER_MOST)? as u64,
            "io_device" => {
                global.device = Some((text(node)?.to_owned(), node.line)).filter(|(name, _)| name != IO_DEVICE);
            }
            k if GLOBAL_WITHOUT_EFFECT.contains(&k) => {}
            k => {
                let known = "duration, default_policy, pi_enabled, mem_buffer_size, io_device or rt-app's log settings";
                return unknown(k, node, known);
            }
        }
    }
    Ok(global)
}

/// Declarations, which older versions of rt-app needed.
fn resources(node: &Node) -> Result<(), Wrong> {
    for (_, resource) in members(node, "\"resources\"")? {
        for (_, kind) in object(resource, "a resource")?.iter().filter(|(key, _)| key == "type") {
            let name = text(kind)?;
            if !RESOURCES.contains(&name) {
                let what = format!("a resource of type \"{name}\": expected one of {}", RESOURCES.join(", "));
                return Wrong::at(kind.line, format!("{what}; events make what they name"));
            }
        }
    }
    Ok(())
}

/// A name that no task has yet: as workgen, with a number if the file uses one twice.
fn own_name(name: &str, tasks: &[Task]) -> String {
    let free = |name: &String| !tasks.iter().any(|task| task.name == *name);
    let numbered = (1..).map(|n| format!("{name}{n}"));
    std::iter::once(name.to_owned()).chain(numbered).find(free).unwrap_or_default()
}

/// Whether there is everything that events name.
fn names_exist(tasks: &[Task], reading: &Reading) -> Result<(), Wrong> {
    let Reading { forked, suspended, resumed, .. } = reading;
    let is_task = |name: &str| tasks.iter().any(|task| task.name == name);
    let is_in = |all: &[(String, usize)], name: &str| all.iter().any(|(other, _)| other == name);
    if let Some((name, line)) = forked.iter().find(|(name, _)| !is_task(name)) {
        return Wrong::at(*line, format!("no task is called \"{name}\": expected the name of a task"));
    }
    if let Some((name, line)) = resumed.iter().find(|(name, _)| !is_task(name) && !is_in(suspended, name)) {
        return Wrong::at(*line, format!("no task is called \"{name}\": expected what a thread suspends with"));
    }
    match suspended.iter().find(|(name, _)| !is_in(resumed, name)) {
        Some((name, line)) => {
            Wrong::at(*line, format!("nothing resumes \"{name}\": expected a name that is resumed, or none"))
        }
        None => Ok(()),
    }
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

/// The task that is being read.
fn task(node: &Node, global: &Global, reading: &mut Reading) -> Result<(Task, Places), Wrong> {
    let members = members(node, "a task")?;
    once(members, |key| events::kind(key).is_none())?;
    let mut task = Task {
        name: reading.task.clone(),
        instances: 1,
        attr: Attr::DEFAULT,
        cpus: Vec::new(),
        delay: Nanos::ZERO,
        loops: None,
        phases: Vec::new(),
    };
    let phases = members.iter().find(|(key, _)| key == "phases").map(|(_, node)| node);
    let mut how = How::default();
    let events = properties(members, phases.is_some(), &mut task, &mut how, reading)?;
    task.attr = how.of_task(global.policy, node.line, reading)?;
    let mut hows = Vec::new();
    match phases {
        Some(phases) if !events.is_empty() => {
            return Wrong::at(phases.line, "events beside \"phases\": expected them inside of a phase");
        }
        Some(phases) => {
            let mut attr = task.attr;
            for (_, node) in values::members(phases, "\"phases\"")? {
                let (phase, how) = phase(node, attr, reading)?;
                attr = phase.attr.unwrap_or(attr);
                task.phases.push(phase);
                hows.push(how);
            }
        }
        None => task.phases.push(Phase { loops: Some(1), cpus: Vec::new(), attr: None, events }),
    }
    does_something(&task, node.line, global, reading)?;
    let places = Places::new(&task, &how, hows.iter());
    if places.are_named() {
        reading.note("taskgroup", node.line, "\"taskgroup\" has no effect, as no two groups compete for a CPU");
    }
    Ok((task, places))
}

/// Reads what a task says outside of phases; returns its events.
fn properties(
    members: values::Members<'_>,
    has_phases: bool,
    task: &mut Task,
    how: &mut How,
    reading: &mut Reading,
) -> Result<Vec<Event>, Wrong> {
    let mut events = Vec::new();
    for (key, value) in members {
        match key.as_str() {
            "instance" => task.instances = whole(value, 0, THREADS_MOST)? as usize,
            "loop" => task.loops = loops(value)?,
            "delay" => task.delay = micros(value)?,
            "cpus" => task.cpus = cpus(value)?,
            "phases" => continue,
            // Older files have the keys of a reservation without "dl-"; this one is an event as well.
            "period" => how.old.period = Some(micros(value)?),
            "deadline" => how.old.deadline = Some(micros(value)?),
            "runtime" => how.old.runtime = Some(micros(value)?),
            k if how.takes(k, value, reading)? => {}
            k if events::kind(k).is_none() => return unknown(k, value, "an event or a property of a task"),
            _ => {}
        }
        if key != "runtime" || !has_phases {
            events.extend(event(key, value, reading)?);
        }
    }
    Ok(events)
}

/// Whether a task has events, with each barrier once, and comes to an end.
fn does_something(task: &Task, line: usize, global: &Global, reading: &Reading) -> Result<(), Wrong> {
    let name = &task.name;
    if task.events().next().is_none() {
        return Wrong::at(line, format!("the task \"{name}\" does nothing: expected events"));
    }
    let barriers = |e: &Event| if let Event::Barrier(b) = e { Some(*b) } else { None };
    let mut met: Vec<usize> = task.events().filter_map(barriers).collect();
    met.sort_unstable();
    if let Some(twice) = met.windows(2).find(|pair| pair[0] == pair[1]) {
        let barrier = &reading.barriers.0[twice[0]];
        let what = format!("the task \"{name}\" has the barrier \"{barrier}\" twice: expected a name for each place");
        return Wrong::at(line, what);
    }
    let for_ever = task.loops.is_none() || task.phases.iter().any(|phase| phase.loops.is_none());
    if for_ever && global.duration.is_none() {
        let what = format!("the task \"{name}\" never ends: expected \"loop\", or \"duration\" in \"global\"");
        return Wrong::at(line, what);
    }
    Ok(())
}

/// A phase of a task that has these attributes before it.
fn phase(node: &Node, before: Attr, reading: &mut Reading) -> Result<(Phase, How), Wrong> {
    let members = members(node, "a phase")?;
    once(members, |key| events::kind(key).is_none())?;
    let mut phase = Phase { loops: Some(1), cpus: Vec::new(), attr: None, events: Vec::new() };
    let mut how = How::default();
    for (key, value) in members {
        match key.as_str() {
            "loop" => phase.loops = loops(value)?,
            "cpus" => phase.cpus = cpus(value)?,
            k if how.takes(k, value, reading)? => {}
            k => match event(k, value, reading)? {
                Some(e) => phase.events.push(e),
                None => return unknown(k, value, "an event or a property of a phase"),
            },
        }
    }
    phase.attr = how.of_phase(before, node.line, reading)?;
    Ok((phase, how))
}
