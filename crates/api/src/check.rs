//! Parsing a checkpoint: it is checked as a whole before any of it is used.

use std::collections::BTreeMap;

use crate::checkpoint::{Checkpoint, FORMAT, Notify, TimerState, VERSION};

/// A checkpoint that is refused: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct Damaged {
    /// A place in the text (`line 7, column 3`) or a field (`timers[2].signal`).
    pub at: String,
    /// The fault.
    pub what: String,
}

fn damaged(at: impl Into<String>, what: impl Into<String>) -> Damaged {
    Damaged { at: at.into(), what: what.into() }
}

fn in_text(error: &serde_json::Error) -> Damaged {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    damaged(format!("line {}, column {}", error.line(), error.column()), what)
}

/// The latest point in time there is.
const TIME_MAX: u64 = i64::MAX as u64;

impl Checkpoint {
    /// Reads the JSON.
    ///
    /// # Errors
    /// The text is not a checkpoint, is of a newer version, was changed, or has impossible values.
    pub fn from_json(text: &str) -> Result<Self, Damaged> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| in_text(&e))?;
        let format = value.get("format").and_then(serde_json::Value::as_str);
        if format != Some(FORMAT) {
            return Err(damaged("format", format!("this is not a checkpoint, which would say \"{FORMAT}\"")));
        }
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) if version > u64::from(VERSION) => {
                return Err(damaged("version", format!("{version} is from the future: this reads {VERSION}")));
            }
            _ => return Err(damaged("version", format!("there is none that this reads, which is {VERSION}"))),
        }
        drop(value);
        let checkpoint: Checkpoint = serde_json::from_str(text).map_err(|e| in_text(&e))?;
        checkpoint.check()?;
        Ok(checkpoint)
    }

    fn check(&self) -> Result<(), Damaged> {
        if let Some(sum) = &self.sum
            && *sum != self.sum()
        {
            return Err(damaged("sum", format!("{sum} is not what the rest adds up to: the file was changed")));
        }
        if self.next_id > i32::MAX as u32 {
            return Err(damaged("next_id", "ids end at 2147483647"));
        }
        let mut seen = BTreeMap::new();
        for (i, timer) in self.timers.iter().enumerate() {
            timer.check().map_err(|(field, what)| damaged(format!("timers[{i}].{field}"), what))?;
            if let Some(before) = seen.insert(timer.id, i) {
                return Err(damaged(
                    format!("timers[{i}].id"),
                    format!("{} is that of timers[{before}], too", timer.id),
                ));
            }
        }
        Ok(())
    }
}

impl TimerState {
    fn check(&self) -> Result<(), (&'static str, String)> {
        let refuse = |field, what: &str| Err((field, what.to_owned()));
        if self.id < 0 {
            return refuse("id", "ids are not negative");
        }
        let is_cpu = matches!(self.clock, 2 | 3) || (self.clock < 0 && self.clock & 3 != 3);
        if !is_cpu && !matches!(self.clock, 0 | 1 | 7 | 11) {
            return Err(("clock", format!("no timer can be on clock {}", self.clock)));
        }
        let of_thread = self.clock == 3 || (self.clock < 0 && self.clock & 4 != 0);
        if of_thread != (self.clock_tid > 0) || self.clock_tid < 0 {
            return refuse("clock_tid", "a thread is named if and only if the clock is a thread's");
        }
        if self.notify != Notify::None && !(1..=64).contains(&self.signal) {
            return Err(("signal", format!("{} is no signal", self.signal)));
        }
        if (self.notify == Notify::ThreadId) != (self.tid > 0) || self.tid < 0 {
            return refuse("tid", "a thread is named if and only if one is told");
        }
        for (field, time) in [("interval", self.interval), ("expires", self.expires.unwrap_or(1)), ("now", self.now)] {
            if time > TIME_MAX {
                return Err((field, format!("{time} ns is beyond the end of time")));
            }
        }
        if self.expires == Some(0) {
            return refuse("expires", "no timer expires at 0; null is one that does not run");
        }
        if self.overrun < -1 || self.overrun_last < -1 {
            return refuse("overrun", "less than none");
        }
        if self.pending && self.notify == Notify::None {
            return refuse("pending", "it tells nobody");
        }
        Ok(())
    }
}
