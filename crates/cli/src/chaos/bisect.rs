//! The fewest switches of a recorded schedule that still make the program fail, and where they are.

use std::path::Path;

use anyhow::ensure;
use chaos::Switch;

use super::args::ChaosArguments;
use super::attempt::{Plan, Room};
use super::{STATUS_FAILED, STATUS_OTHERWISE, recording, repeat, report};
use tool::{say, style};

/// Not more runs than this.
const RUNS_MAX: usize = 2000;

/// Reduces the schedule in the file.
pub fn bisect(request: &ChaosArguments, file: &Path) -> anyhow::Result<i32> {
    let mut recording = repeat::read(request, file)?;
    recording::check(&recording.command, &request.output)?;
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
    // Drops switches that were no longer reached.
    let last = room.attempt(&recording.plan(&least, request.timeout))?;
    ensure!(
        last.end == recording.end,
        "the reduced schedule does not fail each time; something outside decides as well"
    );
    recording.switches = last.switches.clone();
    recording.write(&request.output)?;
    say!("{} of {} switches are needed ({runs} runs):", recording.switches.len(), all.len())?;
    for (i, switch) in recording.switches.iter().enumerate() {
        let plan = Plan { stop: i as u64 + 1, ..recording.plan(&recording.switches, request.timeout) };
        let stopped = room.attempt(&plan)?;
        show(i + 1, switch, &stopped.stacks)?;
    }
    report::tell(&last)?;
    style::remark(&format!("the reduced schedule is in {}", request.output.display()));
    Ok(STATUS_FAILED)
}

fn show(number: usize, switch: &Switch, stacks: &[report::Stack]) -> std::io::Result<()> {
    let described = |thread: u32| match stacks.iter().find(|stack| stack.thread == Some(thread)) {
        Some(stack) => stack.title(),
        None => format!("thread {thread}"),
    };
    let how = if switch.spins { "computes for long or waits in a loop" } else { "stops here" };
    say!("\n{number}. {} {how}, and {} runs:", described(switch.last), described(switch.to))?;
    match stacks.iter().find(|stack| stack.thread == Some(switch.last)) {
        Some(stack) if !stack.frames.is_empty() => stack.frames.iter().try_for_each(|line| say!("       {line}")),
        _ => say!("       {:#x}", switch.place),
    }
}
