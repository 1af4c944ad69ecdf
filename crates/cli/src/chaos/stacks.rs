//! Where the threads of a run are while it waits for this command: their functions, with source lines.

use std::collections::HashMap;
use std::fmt;

use chaos::Log;
use profile::modules::Module;
use profile::variables::Variables;
use state::Place;
use tool::style;
use watch::{fetch, stack};

use super::frames::Frame;
use super::waits::{self, On};

/// A thread of a run whose stacks were read.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Its number, if it has one.
    pub thread: Option<u32>,
    /// Its id.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// What it waits for.
    pub waits: Option<&'static str>,
    /// The thread that it waits for, if known.
    pub on: Option<On>,
    /// Its stack pointer, if it is parked.
    pub pointer: u64,
    /// Its functions, the innermost first.
    pub frames: Vec<Frame>,
}

impl Stack {
    /// The thread in a few words.
    pub fn title(&self) -> String {
        let number = self.thread.map_or_else(|| format!("thread with id {}", self.tid), |n| format!("thread {n}"));
        format!("{number} ({})", self.name)
    }
}

/// The files that a run has mapped, with their debug information and symbols: each is read once.
#[derive(Default)]
pub struct Modules {
    code: HashMap<String, Option<Module>>,
    variables: HashMap<String, Option<Variables>>,
}

impl fmt::Debug for Modules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.code.keys()).finish()
    }
}

impl Modules {
    /// The code of a file; `None` if it cannot be read.
    pub fn code(&mut self, file: &str) -> Option<&Module> {
        self.code.entry(file.to_owned()).or_insert_with_key(|file| Module::load(file)).as_ref()
    }

    /// The variables of a file; `None` if it cannot be read.
    pub fn variables(&mut self, file: &str) -> Option<&Variables> {
        self.variables.entry(file.to_owned()).or_insert_with_key(|file| Variables::load(file)).as_ref()
    }

    /// The threads of a run, which is `held` if it waits for this command. Empty, with a remark, if they cannot be read.
    pub fn stacks(&mut self, pid: i32, log: &Log<'_>, held: bool) -> Vec<Stack> {
        let looked = fetch::anew(pid).map_err(anyhow::Error::from).and_then(|watched| {
            let frames = if held { stack::of_held(&watched) } else { stack::of(&watched) }?;
            Ok((watched, frames))
        });
        let (watched, frames) = match looked {
            Ok(looked) => looked,
            Err(why) => {
                style::remark(&format!("its threads cannot be shown: {why:#}"));
                return vec![];
            }
        };
        let (tids, waited) = (log.tids(), waits::of(&watched));
        let threads = watched.snapshot.threads.iter().zip(frames).zip(waited);
        let described = threads.map(|((thread, frames), on)| Stack {
            thread: tids.iter().position(|&tid| tid == thread.tid).map(|at| at as u32),
            tid: thread.tid,
            name: watch::printable(thread.name()),
            waits: (thread.place == Place::Waiting).then(|| thread.wait.name()),
            on,
            pointer: thread.parked[1],
            frames: frames.into_iter().map(|frame| self.describe(frame)).collect(),
        });
        let mut stacks: Vec<Stack> = described.collect();
        stacks.sort_by_key(|stack| stack.thread);
        stacks
    }

    /// The frame with its line.
    fn describe(&mut self, frame: stack::Frame) -> Frame {
        // The C library calls a function of its own by this name, too, which says no more.
        let function =
            frame.text.strip_prefix("__GI_").map_or(&*frame.text, |rest| rest.trim_start_matches('_')).to_owned();
        if frame.file.is_empty() {
            return Frame { function, source: None };
        }
        let place = self.code(&frame.file).and_then(|module| module.frames(frame.address).into_iter().next());
        let source = place.filter(|place| place.line > 0).map(|place| (place.file, place.line));
        Frame { function, source }
    }
}
