//! A race for the user: both threads with their stacks, and what they access.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use chaos::races::Other;
use chaos::{Access, Log, Race};
use profile::modules::{self, Frame, Mapping};
use serde_json::{Value, json};

use super::frames;
use super::source::Sources;
use super::stacks::{Modules, Stack};

/// A race that a run has shown.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the program has found.
    pub race: Race,
    /// How many switches the run had made.
    pub switches: usize,
    /// The variable, or what kind of memory it is.
    pub variable: String,
    /// The thread whose access is pending, and the other one.
    sides: [Side; 2],
}

/// One of the two threads.
#[derive(Clone, Debug)]
struct Side {
    /// The thread, what it does, and its functions.
    title: String,
    does: String,
    frames: Vec<String>,
    /// The source line of the access, or its address.
    line: String,
}

/// A race with the seed of the run, and the file with its schedule.
#[derive(Clone, Debug)]
pub struct Found {
    /// The race.
    pub seen: Seen,
    /// The seed of the run.
    pub seed: u64,
    /// `None`: the run switched too often to be written down.
    pub file: Option<PathBuf>,
}

/// Describes a race of a run that waits for this command. `None` if source code shows that it is none.
pub fn describe(pid: i32, modules: &mut Modules, log: &Log<'_>) -> Option<Seen> {
    let race = log.race();
    let memory = Memory::of(pid);
    let (here, there) = match race.other {
        Other::Arrives(access) => (race.pending.place, access.place),
        Other::Wrote { place, .. } => (race.pending.place, place),
    };
    let frames = [here, there].map(|place| memory.frames(place, modules));
    let is_none = match race.other {
        Other::Arrives(_) => frames.iter().all(|frames| is_atomic(frames) || says_atomic(frames)),
        // Who has written it is not known so exactly.
        Other::Wrote { .. } => is_atomic(&frames[0]) || says_atomic(&frames[0]),
    };
    if is_none {
        return None;
    }
    let stacks = modules.stacks(pid, log, true);
    let variable = memory.variable(race.pending.address, &stacks, modules);
    // The first thread that needs a static variable of a function initialises it, by a protocol of the compiler's.
    if variable.starts_with("guard variable for ") {
        return None;
    }
    let mut sources = Sources::default();
    let does = [
        access(&race.pending, true),
        match race.other {
            Other::Arrives(arrives) => access(&arrives, arrives.address == race.pending.address),
            Other::Wrote { before, after, .. } => {
                format!("has changed it from {before:#x} to {after:#x} on its way here")
            }
        },
    ];
    let [here, there] = [(race.holder, here), (race.thread, there)];
    let mut side = |(thread, place): (u32, u64), frames: &[Frame], does: String| {
        let stack = stacks.iter().find(|stack| stack.thread == Some(thread));
        Side {
            title: stack.map_or_else(|| format!("thread {thread}"), Stack::title),
            does,
            frames: stack.map(|stack| frames::lines(&stack.frames, &mut sources)).unwrap_or_default(),
            line: line(place, frames),
        }
    };
    let [first, second] = does;
    let sides = [side(here, &frames[0], first), side(there, &frames[1], second)];
    Some(Seen { race, switches: log.switches() as usize, variable, sides })
}

/// What a thread is about to do, with the variable or with bytes in it.
fn access(access: &Access, same: bool) -> String {
    let verb = match (access.reads, access.writes) {
        (true, true) if access.atomic => "read and write (in one step)",
        (true, true) => "read and write",
        (true, false) => "read",
        _ => "write",
    };
    match same {
        true => format!("is about to {verb} it"),
        false => format!("is about to {verb} {} bytes at {:#x}", access.size, access.address),
    }
}

/// The innermost source line, which the compiler may have inlined from elsewhere, or the address.
fn line(place: u64, frames: &[Frame]) -> String {
    match frames.first().filter(|frame| frame.line > 0) {
        Some(frame) => format!("{}:{}", frame.file, frame.line),
        None => format!("{place:#x}"),
    }
}

/// Whether the functions at an access, the innermost first, are those by which C++ and Rust access atomic variables.
fn is_atomic(frames: &[Frame]) -> bool {
    const NAMES: [&str; 8] = [
        "std::atomic<",
        "std::atomic_",
        "std::__atomic_",
        "std::__1::__cxx_atomic_",
        "std::__1::__atomic_",
        "std::_Sp_counted_base",
        "__gnu_cxx::__exchange_and_add",
        "core::sync::atomic::",
    ];
    frames.iter().any(|frame| NAMES.iter().any(|name| frame.function.trim_start_matches('<').starts_with(name)))
}

/// Whether the source line of an access has a word for atomic operations, as in `atomic_load`: in C they leave no other
/// trace.
fn says_atomic(frames: &[Frame]) -> bool {
    let line = frames.first().and_then(|frame| Sources::default().line(&frame.file, frame.line));
    line.is_some_and(|line| line.contains("atomic_") || line.contains("ATOMIC_"))
}

impl Seen {
    /// Whether a race of these lines is among the known ones, or says more than this one.
    pub fn is_known(&self, known: &[Found]) -> bool {
        let lines = |seen: &Seen| seen.sides.each_ref().map(|side| side.line.clone());
        let [here, there] = lines(self);
        known.iter().any(|found| {
            let [a, b] = lines(&found.seen);
            let [of_pending, of_both] =
                [a == here || b == here, (&a, &b) == (&here, &there) || (&b, &a) == (&here, &there)];
            of_both || matches!(self.race.other, Other::Wrote { .. }) && of_pending
        })
    }

    /// What is raced for.
    pub fn title(&self) -> String {
        let Access { size, address, .. } = self.race.pending;
        let plural = if size == 1 { "" } else { "s" };
        format!("data race: {} ({size} byte{plural} at {address:#x})", self.variable)
    }

    /// All of it, line by line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.title()];
        for side in &self.sides {
            lines.push(format!("  {} {}:", side.title, side.does));
            lines.extend(side.frames.iter().map(|frame| format!("      {frame}")));
        }
        lines.extend(self.doubt().map(|doubt| format!("  {doubt}")));
        lines
    }

    /// What may make it none.
    fn doubt(&self) -> Option<&'static str> {
        let is_update = |access: &Access| access.reads && access.writes;
        match &self.race.other {
            _ if is_update(&self.race.pending) => None,
            Other::Arrives(access) if is_update(access) => None,
            Other::Arrives(_) => {
                Some("If the variable is atomic, this is no race: its loads and stores look like these.")
            }
            Other::Wrote { .. } => {
                Some("The instruction that wrote is not known. If the variable is atomic, this is no race.")
            }
        }
    }

    fn json(&self) -> Value {
        let side =
            |side: &Side| json!({ "thread": side.title, "does": side.does, "line": side.line, "frames": side.frames });
        json!({
            "variable": self.variable,
            "address": self.race.pending.address,
            "size": self.race.pending.size,
            "threads": self.sides.iter().map(side).collect::<Vec<_>>(),
        })
    }
}

impl Found {
    /// For `--json`.
    pub fn json(&self) -> Value {
        let mut value = self.seen.json();
        value["seed"] = self.seed.into();
        value["schedule"] = self.file.as_ref().map(|file| file.display().to_string()).into();
        value
    }
}

/// Where the schedule of the n-th race goes if that of a failing run goes to `output`.
pub fn file(output: &Path, n: usize) -> PathBuf {
    let mut name = output.file_stem().map_or_else(OsString::new, OsString::from);
    name.push(format!("-race{n}"));
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(name)
}

/// What a process has mapped.
struct Memory {
    /// The text of its map.
    maps: String,
    files: Vec<Mapping>,
}

impl Memory {
    fn of(pid: i32) -> Memory {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let files = modules::mappings(&maps);
        Memory { maps, files }
    }

    /// The functions at a place of the code.
    fn frames(&self, place: u64, modules: &mut Modules) -> Vec<Frame> {
        let mut find = || {
            let mapping = self.files.iter().find(|mapping| mapping.range.contains(&place))?;
            let module = modules.code(&mapping.path)?;
            let address = module.address_of(place - mapping.range.start + mapping.offset)?;
            Some(module.frames(address))
        };
        find().unwrap_or_default()
    }

    /// The variable at an address, or the kind of memory there.
    fn variable(&self, address: u64, stacks: &[Stack], modules: &mut Modules) -> String {
        if let Some(name) = self.symbol(address, modules) {
            return name;
        }
        let line = self.maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let hex = |text| u64::from_str_radix(text, 16).ok();
            let range = hex(from)?..hex(to)?;
            range.contains(&address).then(|| (range, rest.splitn(5, ' ').nth(4).unwrap_or("").trim()))
        });
        let Some((range, name)) = line else { return "memory that is gone".to_owned() };
        match stacks.iter().find(|stack| range.contains(&stack.pointer)).and_then(|stack| stack.thread) {
            Some(thread) => format!("on the stack of thread {thread}"),
            None if name.starts_with('/') => format!("in {name}"),
            None => "on the heap".to_owned(),
        }
    }

    /// The variable of a file at an address.
    fn symbol(&self, address: u64, modules: &mut Modules) -> Option<String> {
        // What a file does not contain, because it is zero, lies behind its last mapping.
        let below = self.files.iter().rfind(|mapping| mapping.range.start <= address)?;
        let first = self.files.iter().find(|mapping| mapping.path == below.path)?;
        let base = first.range.start.wrapping_sub(modules.code(&first.path)?.address_of(first.offset)?);
        let (name, offset) = modules.variables(&first.path)?.at(address.wrapping_sub(base))?;
        Some(if offset == 0 { name } else { format!("{name} + {offset}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_schedules() {
        assert_eq!(file(Path::new("a/chaos.json"), 2), Path::new("a/chaos-race2.json"));
        assert_eq!(file(Path::new("found"), 1), Path::new("found-race1"));
    }

    #[test]
    fn lines_with_atomic_operations() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.c");
        fs::write(&file, "x = 1;\natomic_store_explicit(&x, 1, memory_order_release);\n").unwrap();
        let at = |line| [Frame { function: "f".to_owned(), file: file.display().to_string(), line }];
        assert!(says_atomic(&at(2)));
        (0..4).filter(|&line| line != 2).for_each(|line| assert!(!says_atomic(&at(line)), "{line}"));
    }

    #[test]
    fn functions_of_atomic_variables() {
        let frames = |name: &str| {
            [name, "main"].map(|function| Frame { function: function.to_owned(), file: String::new(), line: 0 })
        };
        for name in [
            "std::atomic<int>::load(std::memory_order) const",
            "std::__atomic_base<int>::store(int, std::memory_order)",
            "<core::sync::atomic::AtomicU32>::load",
            "core::sync::atomic::atomic_load::<u32>",
        ] {
            assert!(is_atomic(&frames(name)), "{name}");
        }
        for name in ["load", "std::vector<int>::size", "atomic_counter::bump"] {
            assert!(!is_atomic(&frames(name)), "{name}");
        }
    }
}
