//! The explanation as a trace for ui.perfetto.dev: the turns of the threads, and a mark with both stacks at each switch.
//!
//! A choice lasts a microsecond, so times are numbers of choices. Thread 0 has the id 1, because the viewer knows no thread 0.

use chaos::Left;
use ids::{CpuId, Nanos};
use perfetto::{Mark, Process, Span};

use super::{Explained, Explanation, text};
use crate::chaos::attempt::End;
use crate::chaos::frames;
use crate::chaos::report;
use crate::chaos::source::Sources;
use crate::chaos::stacks::Stack;

const PID: i32 = 1;
/// That of a thread of nice value 0.
const PRIORITY: i16 = 120;

/// The file.
pub fn trace(told: &Explanation) -> Vec<u8> {
    let threads = told.threads().into_iter().map(|(thread, title)| (tid(thread), title)).collect();
    let process =
        Process { pid: PID, name: told.command.clone(), threads, cpus: 0..1, spans: spans(told), lost: false };
    perfetto::marked(&[process], &marks(told))
}

fn tid(thread: u32) -> i32 {
    thread as i32 + PID
}

fn at(choice: u64) -> Nanos {
    Nanos(choice * 1000)
}

fn spans(told: &Explanation) -> Vec<Span> {
    let turns = &told.outcome.turns;
    let last = if told.outcome.end == End::Deadlock { Left::Waits } else { Left::Ended };
    let span = |(n, turn): (usize, &chaos::Turn)| Span {
        cpu: CpuId(0),
        from: at(turn.from),
        to: at(told.outcome.end_of(n)),
        tid: tid(turn.thread),
        priority: PRIORITY,
        left: match turns.get(n + 1).map_or(last, |next| next.before) {
            Left::Stopped | Left::Yielded | Left::Spun => ids::Left::Runnable,
            Left::Waits => ids::Left::Waiting,
            Left::Ended => ids::Left::Ended,
        },
        woken: None,
    };
    turns.iter().enumerate().map(span).collect()
}

fn marks(told: &Explanation) -> Vec<Mark> {
    let mut sources = Sources::default();
    let mut marks: Vec<Mark> =
        told.switches.iter().enumerate().map(|(n, one)| mark(told, n, one, &mut sources)).collect();
    marks.extend(told.outcome.turns.last().map(|turn| Mark {
        pid: PID,
        tid: tid(turn.thread),
        at: at(told.outcome.points + 1),
        name: report::name(&told.outcome.end),
        notes: vec![
            ("threads".to_owned(), report::threads(&told.outcome).join("\n")),
            ("race".to_owned(), report::race(&told.outcome).join("\n")),
        ],
    }));
    marks
}

/// One switch, on the track of the thread that no longer runs.
fn mark(told: &Explanation, n: usize, one: &Explained, sources: &mut Sources) -> Mark {
    let mut stack = |title: String, stack: &Option<Stack>| {
        let lines = stack.as_ref().map(|stack| frames::lines(&stack.frames, sources)).unwrap_or_default();
        (title, lines.join("\n"))
    };
    let mut notes = vec![stack(text::stopped(told, one), &one.stopped), stack(text::runs(told, one), &one.from)];
    let end = stack(text::until(told, one), &one.to);
    notes.push((
        "by way of".to_owned(),
        told.way(one).iter().map(|frame| frame.line(sources)).collect::<Vec<_>>().join("\n"),
    ));
    notes.push(end);
    Mark {
        pid: PID,
        tid: tid(one.switch.last),
        at: at(told.outcome.turns[one.turn].from),
        name: format!("switch {}: {} runs", n + 1, told.title(one.switch.to)),
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::explanation::tests::told;

    #[test]
    fn turns_are_spans_and_switches_are_marks() {
        let file = trace(&told());
        let process = &perfetto::read(&file).unwrap()[0];
        let spans: Vec<_> = process.spans.iter().map(|span| (span.tid, span.from.0, span.to.0, span.left)).collect();
        assert_eq!(
            spans,
            [
                (1, 1000, 3000, ids::Left::Waiting),
                (2, 3000, 4000, ids::Left::Runnable),
                (3, 4000, 8000, ids::Left::Ended),
                (2, 8000, 11_000, ids::Left::Ended),
            ]
        );
        assert_eq!(process.threads[&2], "thread 1 (x & y)");
        let marks = perfetto::read_marks(&file).unwrap();
        let said: Vec<_> = marks.iter().map(|mark| (mark.tid, mark.at.0, &*mark.name)).collect();
        assert_eq!(said, [(2, 4000, "switch 1: thread 2 (b) runs"), (2, 11_000, "it ended with exit status 3")]);
        assert_eq!(marks[0].notes[0], ("thread 1 (x & y) is stopped at".to_owned(), "f at /not/there.c:7".to_owned()));
    }
}
