//! `entresol chaos`: runs a program under many schedules until one makes it fail, repeats that one, and makes it simple.
//!
//! - `attempt` makes one controlled run: a child process as `run` makes it, a [`chaos::Log`] that both map, a time limit;
//!   `ending` ends it.
//! - `explore` makes many, several at a time, and stops at the first failure; `schedules` says which.
//! - `recording` is the file that holds a failing schedule; `repeat` repeats it; `bisect` leaves out what it does not need.
//! - `stacks` reads where the threads of a run are, and `waits` for whom they wait; `frames` shows a stack in a few lines, with
//!   those of its `source`.
//! - `races` describes the data races that a run has shown.
//! - `report` says how a run ended, and `results` writes it for other programs.
//! - `explanation` says of each switch of a schedule who was stopped where and who ran instead: as text, page and trace.
//!
//! Which thread runs next is decided in the program's process, by crate `chaos`.

pub mod args;
mod attempt;
mod bisect;
mod ending;
mod explanation;
mod explore;
mod frames;
mod races;
mod recording;
mod repeat;
mod report;
mod results;
mod schedules;
mod shorter;
mod source;
mod stacks;
mod waits;

use args::ChaosArguments;
use tool::style;

/// Nothing failed.
pub const STATUS_NOTHING: i32 = 0;
/// The program failed.
pub const STATUS_FAILED: i32 = 1;
/// A schedule was repeated, and the program did not fail as it did before.
pub const STATUS_OTHERWISE: i32 = 3;

/// Does what was asked; the exit status.
pub fn chaos(request: &ChaosArguments) -> i32 {
    let done = match (&request.replay, &request.bisect) {
        (Some(file), _) => repeat::repeat(request, file),
        (None, Some(file)) => bisect::bisect(request, file),
        (None, None) => explore::explore(request),
    };
    done.unwrap_or_else(|why| {
        style::complain(&format!("{why:#}"));
        crate::STATUS_REFUSED
    })
}
