//! The fewest switches of a recorded schedule that still make the program fail, and where they are.

use std::path::Path;

use anyhow::ensure;

use super::args::ChaosArguments;
use super::attempt::Room;
use super::explanation::{self, Files, text};
use super::{STATUS_FAILED, STATUS_OTHERWISE, recording, repeat, report, shorter};
use tool::{say, style};

/// The number of runs at most: for leaving out switches, and for the search for fewer.
pub const RUNS_MAX: usize = 2000;

/// Reduces the schedule in the file.
pub fn bisect(request: &ChaosArguments, file: &Path) -> anyhow::Result<i32> {
    let mut recording = repeat::read(request, file)?;
    recording::check(&recording.command, &request.output)?;
    let files = Files::begin(request)?;
    let mut room = Room::new()?;
    let again = room.attempt(&recording.plan(&recording.switches, request.timeout))?;
    if again.end != recording.end {
        style::complain(&format!("the recorded run does not fail as it did: {}", report::name(&again.end)));
        return Ok(STATUS_OTHERWISE);
    }
    let (all, mut runs, mut broken) = (recording.switches.clone(), 0, None);
    let least = chaos::reduce(&all, RUNS_MAX, |part| {
        runs += 1;
        style::progress(&format!("{runs} runs, {} of {} switches", part.len(), all.len()));
        match room.attempt(&recording.plan(part, request.timeout)) {
            Ok(outcome) => outcome.end == recording.end,
            Err(why) => {
                broken.get_or_insert(why);
                false
            }
        }
    });
    if let Some(why) = broken {
        return Err(why);
    }
    let (other, more) = shorter::search(&mut room, &recording, &least, request.timeout)?;
    let how = if other.is_some() { "enough, in another schedule" } else { "needed" };
    let (least, runs) = (other.unwrap_or(least), runs + more);
    // Drops switches that were no longer reached.
    let last = room.attempt(&recording.plan(&least, request.timeout))?;
    ensure!(
        last.end == recording.end,
        "the reduced schedule does not fail each time; something outside decides as well"
    );
    recording.switches = last.switches.clone();
    recording.write(&request.output)?;
    let told = explanation::explain(&mut room, &recording, last, request.timeout)?;
    say!("{} of {} switches are {how} ({runs} runs):\n", recording.switches.len(), all.len())?;
    text::lines(&told).iter().try_for_each(|line| say!("{line}"))?;
    report::tell(&told.outcome)?;
    files.write(&told)?;
    style::remark(&format!("the reduced schedule is in {}", request.output.display()));
    Ok(STATUS_FAILED)
}
