//! Another schedule that fails in the same way with fewer switches.
//!
//! Leaving out switches ends where none can be left out, but another schedule may need fewer: what a switch does depends
//! on those before it. So the schedules with few switches are searched as by `--strategy dfs`.

use chaos::{Search, Switch};

use super::attempt::{Plan, Room};
use super::bisect::RUNS_MAX;
use super::recording::Recording;
use tool::style;

/// The switches of such a schedule, if there is one with fewer than `least` among those that are tried; and how many
/// were tried.
pub fn search(
    room: &mut Room,
    recording: &Recording,
    least: &[Switch],
    timeout: u64,
) -> anyhow::Result<(Option<Vec<Switch>>, usize)> {
    let Some(bound @ 1..) = least.len().checked_sub(1) else { return Ok((None, 0)) };
    let mut search = Search::new(bound as u32, recording.seed);
    for run in 0..RUNS_MAX {
        let Some(switches) = search.take_one() else { return Ok((None, run)) };
        style::progress(&format!("{run} more runs, {} of at most {bound} switches", switches.len()));
        let asks = search.goes_on_from(&switches);
        let outcome = room.attempt(&Plan { asks, ..recording.plan(&switches, timeout) })?;
        if outcome.end == recording.end && outcome.is_complete {
            return Ok((Some(outcome.switches), run + 1));
        }
        search.tried(switches, outcome.possible, outcome.knows_all);
    }
    Ok((None, RUNS_MAX))
}
