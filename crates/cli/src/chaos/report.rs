//! How a run ended, for the user.

use std::collections::HashMap;

use chaos::Log;
use profile::modules::Module;
use state::Place;
use tool::{say, style};
use watch::stack::Frame;
use watch::{fetch, stack};

use super::attempt::{End, Outcome};
use super::waits::{self, On};

/// A thread of a run whose stacks were read.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Its number, if it has one.
    pub thread: Option<u32>,
    /// Its id.
    tid: i32,
    name: String,
    /// What it waits for.
    waits: Option<&'static str>,
    /// The thread that it waits for, if known.
    on: Option<On>,
    /// Its functions, the innermost first.
    pub frames: Vec<String>,
}

impl Stack {
    /// The thread in a few words.
    pub fn title(&self) -> String {
        let number = self.thread.map_or_else(|| format!("thread with id {}", self.tid), |n| format!("thread {n}"));
        format!("{number} ({})", self.name)
    }
}

/// The threads of a run that waits for this command. Empty, with a remark, if they cannot be read.
pub fn stacks(pid: i32, log: &Log<'_>) -> Vec<Stack> {
    let looked = fetch::one(pid).map_err(anyhow::Error::from).and_then(|watched| {
        let frames = stack::of(&watched)?;
        Ok((watched, frames))
    });
    let (watched, frames) = match looked {
        Ok(looked) => looked,
        Err(why) => {
            style::remark(&format!("its threads cannot be shown: {why:#}"));
            return vec![];
        }
    };
    let mut sources = Sources::default();
    let (tids, waited) = (log.tids(), waits::of(&watched));
    let threads = watched.snapshot.threads.iter().zip(frames).zip(waited);
    let described = threads.map(|((thread, frames), on)| Stack {
        thread: tids.iter().position(|&tid| tid == thread.tid).map(|at| at as u32),
        tid: thread.tid,
        name: watch::printable(thread.name()),
        waits: (thread.place == Place::Waiting).then(|| thread.wait.name()),
        on,
        frames: frames.iter().map(|frame| sources.describe(frame)).collect(),
    });
    let mut stacks: Vec<Stack> = described.collect();
    stacks.sort_by_key(|stack| stack.thread);
    stacks
}

/// The files that frames are in, with their debug information.
#[derive(Default)]
struct Sources(HashMap<String, Option<Module>>);

impl Sources {
    /// The frame with its line, if the file has debug information.
    fn describe(&mut self, frame: &Frame) -> String {
        if frame.file.is_empty() {
            return frame.text.clone();
        }
        let module = self.0.entry(frame.file.clone()).or_insert_with(|| Module::load(&frame.file));
        let place = module.as_ref().and_then(|module| module.frames(frame.address).into_iter().next());
        match place.filter(|place| place.line > 0) {
            Some(place) => format!("{} at {}:{}", frame.text, place.file, place.line),
            None => frame.text.clone(),
        }
    }
}

/// The end in a few words.
pub fn name(end: &End) -> String {
    match end {
        End::Passed => "it passed".to_owned(),
        End::Crash(signal) => format!("it was ended by signal {signal} ({})", signal_name(*signal)),
        End::Status(status) => format!("it ended with exit status {status}"),
        End::Found => "the command of --fail-if succeeded".to_owned(),
        End::Deadlock => "deadlock: all its threads wait, and nothing can wake one".to_owned(),
        End::Hang => "it did not end in time".to_owned(),
    }
}

fn signal_name(signal: i32) -> String {
    // SAFETY: the answer is a string that stays, or null.
    unsafe {
        let text = libc::strsignal(signal);
        if text.is_null() { "?".to_owned() } else { std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

/// Prints the output of a run, how it ended, and where its threads are.
///
/// # Errors
/// The host's, if the last of them cannot be written.
pub fn tell(outcome: &Outcome) -> std::io::Result<()> {
    use std::io::Write;
    // A closed pipe is no reason to say nothing of the end.
    let _ = std::io::stdout().write_all(&outcome.output);
    style::remark(&format!(
        "{}; {} threads, {} choices, {} of them not plain",
        name(&outcome.end),
        outcome.threads,
        outcome.points,
        outcome.switches.len()
    ));
    threads(outcome).iter().try_for_each(|line| say!("{line}"))
}

/// Where the threads of a run were at its end, and whether they wait for each other, line by line.
pub fn threads(outcome: &Outcome) -> Vec<String> {
    let title = |tid: i32| {
        let found = outcome.stacks.iter().find(|stack| stack.tid == tid);
        found.map_or_else(|| format!("thread with id {tid}"), Stack::title)
    };
    let mut lines = vec![];
    for stack in &outcome.stacks {
        let waits = match (stack.on, stack.waits) {
            (Some(On::Mutex(tid)), _) => format!(" waits for a mutex that {} holds", title(tid)),
            (Some(On::End(tid)), _) => format!(" waits for the end of {}", title(tid)),
            (None, Some(what)) => format!(" waits ({what})"),
            (None, None) => String::new(),
        };
        lines.push(format!("{}{waits}:", stack.title()));
        lines.extend(stack.frames.iter().map(|line| format!("    {line}")));
    }
    let waits: Vec<_> = outcome.stacks.iter().map(|stack| (stack.tid, stack.on.map(On::tid))).collect();
    if let Some(circle) = waits::circle(&waits) {
        let names: Vec<_> = circle.iter().chain(circle.first()).map(|&tid| title(tid)).collect();
        lines.push(format!("They wait for each other: {}", names.join(" → ")));
    }
    lines
}

/// Says what may be wrong with what was asked.
pub fn doubts(outcome: &Outcome) {
    if outcome.points == 0 && outcome.end == End::Passed {
        style::remark("the program was not controlled: only the program itself is, not those that it executes");
    } else if outcome.steps == 0 && outcome.end == End::Passed {
        style::remark("there was never more than one thread that could run");
    }
}
