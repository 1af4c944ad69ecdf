//! The records that the image makes.

use crate::{Kind, Ring, VERSION, Writer, first_word};
use alloc::vec::Vec;
use ids::{Left, Nanos, Wake};

/// The most of a thread's stack that is copied, bytes.
pub const STACK_MAX: usize = 16 << 10;
/// The most frames that are followed by their frame pointers.
pub const FRAMES_MAX: usize = 128;
/// Words of a sample before its frames.
const SAMPLE_HEAD: usize = 11;
/// The most words of a sample.
pub const SAMPLE_WORDS_MAX: usize = SAMPLE_HEAD + 2 * FRAMES_MAX + STACK_MAX / 8;
/// Words of a switch.
const SWITCH_WORDS: usize = 8;
/// How far from its stack pointer a thread's frames are looked for, bytes.
const REACH: u64 = 64 << 20;

/// The beginning of a process's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin {
    /// The process's id.
    pub pid: i32,
    /// How many CPUs it has.
    pub cpus: usize,
    /// The time.
    pub at: Nanos,
    /// Time between two samples; zero if there are none.
    pub every: Nanos,
    /// Samples are by the wall clock and not by CPU time.
    pub wall: bool,
    /// The program's name.
    pub name: [u64; 2],
}

impl Begin {
    /// The record.
    #[must_use]
    pub fn words(&self) -> [u64; 9] {
        let Begin { pid, cpus, at, every, wall, name } = *self;
        let first = first_word(Kind::Begin, 0, 9);
        [first, VERSION, pid as u64, cpus as u64, at.0, every.0, u64::from(wall), name[0], name[1]]
    }
}

/// The end of a process's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct End {
    /// How many samples were due.
    pub due: u64,
    /// CPU time after threads' last samples whose record did not fit.
    pub unsampled: Nanos,
    /// Switches that did not fit.
    pub switches_lost: u64,
    /// When.
    pub at: Nanos,
}

impl End {
    /// The record.
    #[must_use]
    pub fn words(&self) -> [u64; 5] {
        [first_word(Kind::End, 0, 5), self.due, self.unsampled.0, self.switches_lost, self.at.0]
    }
}

/// More of a thread's last sample.
#[must_use]
pub fn again(tid: i32, count: u64, value: Nanos) -> [u64; 4] {
    [first_word(Kind::Again, 0, 4), tid as u64, count, value.0]
}

/// Text with a header in front; `None` without memory.
#[must_use]
pub fn maps(text: &[u8]) -> Option<Vec<u64>> {
    let words = 2 + text.len().div_ceil(8);
    let mut record = Vec::new();
    record.try_reserve_exact(words).ok()?;
    record.push(first_word(Kind::Maps, 0, words));
    record.push(text.len() as u64);
    for chunk in text.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        record.push(u64::from_ne_bytes(bytes));
    }
    Some(record)
}

/// Where a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its instruction pointer.
    pub rip: u64,
    /// Its stack pointer.
    pub rsp: u64,
    /// Its frame pointer, if it uses one.
    pub rbp: u64,
}

/// The thread that a sample stands for, and its weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampled {
    /// The thread's id.
    pub tid: i32,
    /// Its name.
    pub name: [u64; 2],
    /// How many samples it counts for.
    pub count: u64,
    /// CPU time that it stands for.
    pub value: Nanos,
    /// When.
    pub at: Nanos,
}

/// Writes a sample into a CPU's ring; if it does not fit, the ring counts it. `load` reads a word of the program's
/// memory at an arbitrary address. False, and nothing is written, if the thread has moved on by the end.
pub fn sample(
    ring: &Ring,
    cpu: u16,
    who: &Sampled,
    place: Place,
    load: impl Fn(u64) -> Option<u64>,
    still_there: impl Fn() -> bool,
) -> bool {
    let Some(mut w) = ring.begin(SAMPLE_WORDS_MAX) else { return true };
    w.push_all(&[0, who.tid as u64, who.count, who.value.0, who.at.0, who.name[0], who.name[1]]);
    w.push_all(&[place.rip, place.rsp, place.rbp]);
    let frames_at = w.len();
    w.push(0);
    let frames = follow(&mut w, place, &load);
    w.set(frames_at, frames);
    copy(&mut w, place.rsp, &load);
    w.set(0, first_word(Kind::Sample, cpu, w.len()));
    let there = still_there();
    if there {
        w.commit();
    }
    there
}

/// The chain of frame pointers, as far as it looks like one: upwards, and not too far.
fn follow(w: &mut Writer<'_>, place: Place, load: impl Fn(u64) -> Option<u64>) -> u64 {
    let (mut frame, mut last, mut found) = (place.rbp, place.rsp, 0);
    while found < FRAMES_MAX as u64 && frame.is_multiple_of(8) && frame >= last && frame - place.rsp < REACH {
        let (Some(next), Some(back)) = (load(frame), load(frame.saturating_add(8))) else { break };
        if back == 0 {
            break;
        }
        w.push_all(&[frame, back]);
        found += 1;
        (last, frame) = (frame.saturating_add(8), next);
    }
    found
}

fn copy(w: &mut Writer<'_>, rsp: u64, load: impl Fn(u64) -> Option<u64>) {
    let bottom = rsp & !7;
    for at in (bottom..bottom.saturating_add(STACK_MAX as u64)).step_by(8) {
        let Some(word) = load(at) else { break };
        if !w.push(word) {
            break;
        }
    }
}

/// The thread that a CPU switches to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switched {
    /// When.
    pub at: Nanos,
    /// The thread's id; 0: idle.
    pub tid: i32,
    /// Its priority as `sched_switch` of Linux shows it.
    pub priority: i16,
    /// Its name.
    pub name: [u64; 2],
    /// How the thread before left.
    pub left: Left,
    /// What ended the thread's last wait, if that is why it was not running.
    pub woken: Option<Wake>,
}

/// Writes a switch into a CPU's ring; false, and counted by the ring, if it does not fit.
pub fn switch(ring: &Ring, cpu: u16, to: &Switched) -> bool {
    let Some(mut w) = ring.begin(SWITCH_WORDS) else { return false };
    let state = u64::from(to.priority as u16) | (to.left as u64) << 32;
    let (woken, by) = to.woken.map_or((0, 0), |wake| (wake.at.0, wake.by.to_word()));
    w.push_all(&[first_word(Kind::Switch, cpu, SWITCH_WORDS), to.at.0, to.tid as u64, state]);
    w.push_all(&to.name);
    w.push_all(&[woken, by]);
    w.commit();
    true
}
