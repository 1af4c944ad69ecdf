//! How a run ended, for the user.

use tool::{say, style};

use super::attempt::{End, Outcome};
use super::frames;
use super::races::Seen;
use super::source::Sources;
use super::stacks::Stack;
use super::waits::{self, On};

/// The end in a few words.
pub fn name(end: &End) -> String {
    match end {
        End::Passed => "it passed".to_owned(),
        End::Crash(signal) => format!("it was ended by signal {signal} ({})", signal_name(*signal)),
        End::Status(status) => format!("it ended with exit status {status}"),
        End::Found => "the command of --fail-if succeeded".to_owned(),
        End::Deadlock => "deadlock: all its threads wait, and nothing can wake one".to_owned(),
        End::Hang => "it did not end in time".to_owned(),
        End::Race => "it has come to a data race".to_owned(),
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
        "{}; {} threads, {} choices, {} of them not plain{}",
        name(&outcome.end),
        outcome.threads,
        outcome.points,
        outcome.switches.len(),
        pauses(outcome)
    ));
    threads(outcome).iter().chain(&race(outcome)).try_for_each(|line| say!("{line}"))
}

/// That no thread ran for some time, if it is so.
fn pauses(outcome: &Outcome) -> String {
    match outcome.paused_ns {
        0 => String::new(),
        ns => format!("; the machine paused for {:.3} ms, so that timeouts came early", ns as f64 / 1e6),
    }
}

/// The race at which a run was to end, line by line.
pub fn race(outcome: &Outcome) -> Vec<String> {
    let shown = outcome.races.iter().filter(|_| outcome.end == End::Race);
    shown.flat_map(Seen::lines).collect()
}

/// Where the threads of a run were at its end, and whether they wait for each other, line by line.
pub fn threads(outcome: &Outcome) -> Vec<String> {
    let (mut lines, mut sources) = (vec![], Sources::default());
    for stack in &outcome.stacks {
        lines.push(format!("{}{}:", stack.title(), waits(outcome, stack)));
        lines.extend(frames::lines(&stack.frames, &mut sources).iter().map(|line| format!("    {line}")));
    }
    lines.extend(circle(outcome));
    lines
}

/// What a thread waited for at the end.
pub fn waits(outcome: &Outcome, stack: &Stack) -> String {
    match (stack.on, stack.waits) {
        (Some(On::Mutex(tid)), _) => format!(" waits for a mutex that {} holds", title(outcome, tid)),
        (Some(On::End(tid)), _) => format!(" waits for the end of {}", title(outcome, tid)),
        (None, Some(what)) => format!(" waits ({what})"),
        (None, None) => String::new(),
    }
}

/// The threads that wait for each other, if any do.
pub fn circle(outcome: &Outcome) -> Option<String> {
    let waits: Vec<_> = outcome.stacks.iter().map(|stack| (stack.tid, stack.on.map(On::tid))).collect();
    let circle = waits::circle(&waits)?;
    let names: Vec<_> = circle.iter().chain(circle.first()).map(|&tid| title(outcome, tid)).collect();
    Some(format!("They wait for each other: {}", names.join(" → ")))
}

fn title(outcome: &Outcome, tid: i32) -> String {
    let found = outcome.stacks.iter().find(|stack| stack.tid == tid);
    found.map_or_else(|| format!("thread with id {tid}"), Stack::title)
}

/// Says what may be wrong with what was asked.
pub fn doubts(outcome: &Outcome, only: Option<&str>) {
    if outcome.end != End::Passed {
        return;
    }
    if outcome.points == 0 {
        style::remark("the program was not controlled");
    } else if outcome.steps == 0 {
        style::remark("there was never more than one thread that could run");
    }
    if outcome.others > 0 && only.is_none() {
        let (n, are) =
            (outcome.others, if outcome.others == 1 { "program, which was" } else { "programs, which were" });
        style::remark(&format!("it has started {n} other {are} not controlled; --only NAME controls one of them"));
    }
}
