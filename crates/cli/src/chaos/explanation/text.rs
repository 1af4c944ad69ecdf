//! The explanation on a terminal.

use chaos::Left;

use super::{Explained, Explanation, Until};
use crate::chaos::frames::{self, Frame, own};
use crate::chaos::source::Sources;
use crate::chaos::stacks::Stack;

/// The number of places between the two ends of a turn that are shown.
const WAY_MAX: usize = 6;

/// Of each switch which thread is stopped where, and which one runs from where to where: line by line.
pub fn lines(told: &Explanation) -> Vec<String> {
    let (mut lines, mut sources) = (vec![], Sources::default());
    let mut put = |lines: &mut Vec<String>, stack: Option<&Stack>| {
        let frames = stack.map(|stack| frames::lines(&stack.frames, &mut sources)).unwrap_or_default();
        lines.extend(frames.iter().map(|line| format!("       {line}")));
    };
    for (at, one) in told.switches.iter().enumerate() {
        lines.push(format!("{}. {}", at + 1, stopped(told, one)));
        match &one.stopped {
            Some(stack) => put(&mut lines, Some(stack)),
            None if one.switch.place != 0 => lines.push(format!("       {:#x}", one.switch.place)),
            None => {}
        }
        lines.push(format!("   {}", runs(told, one)));
        put(&mut lines, one.from.as_ref());
        lines.extend(way(told, one));
        if told.shows_end(one) {
            lines.push("   to".to_owned());
            put(&mut lines, one.to.as_ref());
        }
        lines.push(format!("   {}", until(told, one)));
        lines.push(String::new());
    }
    lines.extend(missing(told));
    lines
}

/// Where the thread comes by.
fn way(told: &Explanation, one: &Explained) -> Vec<String> {
    let (places, mut sources) = (told.way(one), Sources::default());
    let line = |frame: &Frame, sources: &mut Sources| format!("       {}", frame.line(sources));
    if places.is_empty() {
        return vec![];
    }
    let mut lines = vec!["   by way of".to_owned()];
    let missing = places.len().saturating_sub(WAY_MAX);
    let (first, last) = places.split_at(if missing > 0 { WAY_MAX / 2 } else { places.len() });
    lines.extend(first.iter().map(|frame| line(frame, &mut sources)));
    if missing > 0 {
        lines.push(format!("       … {missing} more …"));
    }
    lines.extend(last.iter().skip(missing).map(|frame| line(frame, &mut sources)));
    lines
}

/// What is said if there are more switches than are explained.
pub fn missing(told: &Explanation) -> Option<String> {
    let missing = told.outcome.switches.len() - told.switches.len();
    (missing > 0)
        .then(|| format!("{missing} more switches are not shown: --bisect leaves out those that do not matter"))
}

/// Which thread no longer runs.
pub fn stopped(told: &Explanation, one: &Explained) -> String {
    let thread = told.title(one.switch.last);
    let how = match one.left {
        Left::Stopped => "is stopped at",
        Left::Yielded => "yields at",
        Left::Spun => "computes for long or waits in a loop at",
        Left::Waits => "waits at",
        Left::Ended => "has ended",
    };
    format!("{thread} {how}")
}

/// Which thread runs instead.
pub fn runs(told: &Explanation, one: &Explained) -> String {
    let how = if one.switch.to == one.switch.last { "goes on all the same" } else { "runs" };
    let begins = one.from.as_ref().is_some_and(|stack| !stack.frames.is_empty() && own(&stack.frames).is_empty());
    let from = if begins { "from its beginning" } else { "from" };
    format!("and {} {how} {from}", told.title(one.switch.to))
}

/// Until when it runs.
pub fn until(told: &Explanation, one: &Explained) -> String {
    let after = if one.choices == 1 { "one choice".to_owned() } else { format!("{} choices", one.choices) };
    let place = |how: &str| match told.shows_end(one) {
        true => format!("where {how}, after {after}"),
        false => format!("until {how}, after {after}"),
    };
    match one.until {
        Until::Switch(number) => format!("until switch {number}, after {after}"),
        Until::Turn(Left::Ended) => format!("to its end, after {after}"),
        Until::End => place("the run ends"),
        Until::Turn(Left::Waits) => place("it waits"),
        Until::Turn(Left::Yielded) => place("it yields"),
        Until::Turn(Left::Spun) => place("it computes for long or waits in a loop"),
        Until::Turn(Left::Stopped) => place("another thread runs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::explanation::tests::told;

    #[test]
    fn both_threads_are_shown() {
        let said = "\
1. thread 1 (x & y) is stopped at
       f at /not/there.c:7
   and thread 2 (b) runs from its beginning
   by way of
       g at /not/there.c:9
   to its end, after 4 choices
";
        assert_eq!(lines(&told()).join("\n"), said);
    }

    #[test]
    fn a_long_way_is_cut_in_the_middle() {
        let mut told = told();
        let place = |line| Frame { function: "g + 0x1 (a)".to_owned(), source: Some(("/x.c".to_owned(), line)) };
        told.switches[0].way = (1..=20).map(place).collect();
        let lines = way(&told, &told.switches[0]);
        let shown: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        let expected = [
            "by way of",
            "g at /x.c:1",
            "g at /x.c:2",
            "g at /x.c:3",
            "… 14 more …",
            "g at /x.c:18",
            "g at /x.c:19",
            "g at /x.c:20",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn each_end_of_a_turn_has_its_words() {
        let told = told();
        let words = |until_: Until| until(&told, &Explained { until: until_, choices: 1, ..told.switches[0].clone() });
        assert_eq!(words(Until::Turn(Left::Ended)), "to its end, after one choice");
        assert_eq!(words(Until::Turn(Left::Waits)), "until it waits, after one choice");
        assert_eq!(words(Until::Switch(2)), "until switch 2, after one choice");
        let stays = Explained { to: told.switches[0].stopped.clone(), until: Until::End, ..told.switches[0].clone() };
        assert_eq!(until(&told, &stays), "where the run ends, after 4 choices");
    }
}
