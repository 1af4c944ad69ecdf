//! A recorded schedule once more.

use std::path::Path;

use super::args::ChaosArguments;
use super::attempt::{End, Room};
use super::explanation::{self, Files};
use super::races::Found;
use super::recording::Recording;
use super::results::Results;
use super::{STATUS_FAILED, STATUS_OTHERWISE, report};
use tool::style;

/// Repeats the schedule in the file.
pub fn repeat(request: &ChaosArguments, file: &Path) -> anyhow::Result<i32> {
    let recording = read(request, file)?;
    let results = Results::begin(request, &recording.command)?;
    let files = Files::begin(request)?;
    let mut room = Room::new()?;
    let outcome = room.attempt(&recording.plan(&recording.switches, request.timeout))?;
    let told = report::tell(&outcome);
    let races: Vec<Found> = outcome
        .races
        .iter()
        .map(|seen| Found { seen: seen.clone(), seed: recording.seed, file: Some(file.to_owned()) })
        .collect();
    results.write(1, 1, (outcome.end != End::Passed).then_some((recording.seed, &outcome)), &races)?;
    told?;
    if files.are_wanted() {
        files.write(&explanation::explain(&mut room, &recording, outcome.clone(), request.timeout)?)?;
    }
    if outcome.end == recording.end {
        return Ok(STATUS_FAILED);
    }
    let same = recording.switches.iter().zip(&outcome.switches).take_while(|(a, b)| a.key() == b.key() && a.to == b.to);
    style::complain(&format!(
        "the recorded run ended otherwise ({}); they are the same up to switch {} of {}",
        report::name(&recording.end),
        same.count(),
        recording.switches.len()
    ));
    Ok(STATUS_OTHERWISE)
}

/// The recording, for the program that the user has named instead if there is one.
pub fn read(request: &ChaosArguments, file: &Path) -> anyhow::Result<Recording> {
    let mut recording = Recording::read(file)?;
    if !request.command.is_empty() {
        recording.command = request.command.clone();
    }
    if let Some(changes) = recording.refresh()? {
        style::remark(&changes);
    }
    Ok(recording)
}
