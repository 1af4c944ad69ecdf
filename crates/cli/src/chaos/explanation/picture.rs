//! The timeline as a drawing: a lane for each thread, its turns, and the switches with their numbers.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Explanation;
use tool::html::escape;

/// The number of threads that have a lane: those of the shown switches and the first others.
const LANES_MAX: usize = 64;
/// Width of the names and of the lanes; height of the row of numbers, of a lane and of a turn in it, pixels.
const NAMES: f64 = 190.0;
const WIDTH: f64 = 900.0;
const NUMBERS: f64 = 26.0;
const LANE: f64 = 26.0;
const TURN: f64 = 16.0;
/// Between the middles of two numbers.
const NUMBER: f64 = 22.0;
/// Turns of a thread that lie closer together are drawn as one, so a long run does not make a large file.
const GAP: f64 = 0.5;

/// The drawing. Writing to a string cannot fail.
pub fn timeline(told: &Explanation) -> String {
    let lanes = lanes(told);
    let end = told.outcome.points + 1;
    let x = |choice: u64| NAMES + WIDTH * choice.saturating_sub(1) as f64 / (end - 1).max(1) as f64;
    let (width, height) = (NAMES + WIDTH + 10.0, NUMBERS + LANE * (lanes.len() + 1) as f64);
    let mut svg =
        format!("<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n");
    for (thread, y) in &lanes {
        let (title, middle) = (escape(&told.title(*thread)), y + LANE / 2.0);
        let _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{:.0}\">{title}</text><line x1=\"{NAMES}\" x2=\"{}\" y1=\"{middle}\" y2=\"{middle}\"/>",
            middle + 4.0,
            NAMES + WIDTH
        );
    }
    turns(told, &lanes, &x, &mut svg);
    switches(told, &lanes, &x, &mut svg);
    let foot = height - 8.0;
    let _ = writeln!(
        svg,
        "<text class=\"soft\" x=\"{NAMES}\" y=\"{foot}\">choice 1</text>\
         <text class=\"soft end\" x=\"{}\" y=\"{foot}\">choice {}</text></svg>",
        NAMES + WIDTH,
        told.outcome.points
    );
    svg
}

/// The top of the lane of each thread that has one.
fn lanes(told: &Explanation) -> BTreeMap<u32, f64> {
    let switched = told.switches.iter().flat_map(|one| [one.switch.last, one.switch.to]);
    let all = switched.chain(told.threads().into_iter().map(|(thread, _)| thread));
    let mut shown: Vec<u32> = vec![];
    for thread in all {
        if shown.len() < LANES_MAX && !shown.contains(&thread) {
            shown.push(thread);
        }
    }
    shown.sort_unstable();
    shown.into_iter().enumerate().map(|(at, thread)| (thread, NUMBERS + LANE * at as f64)).collect()
}

/// A rectangle for each turn: its choices, and whether a switch began it.
fn turns(told: &Explanation, lanes: &BTreeMap<u32, f64>, x: &impl Fn(u64) -> f64, svg: &mut String) {
    let mut open: BTreeMap<u32, (u64, u64, bool)> = BTreeMap::new();
    let put = |thread: u32, (from, to, is_switch): (u64, u64, bool), svg: &mut String| {
        let Some(top) = lanes.get(&thread) else { return };
        let class = if is_switch { " class=\"switched\"" } else { "" };
        let _ = writeln!(
            svg,
            "<rect{class} x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{TURN}\"><title>{}, choices {from} to {}</title></rect>",
            x(from),
            top + (LANE - TURN) / 2.0,
            (x(to) - x(from)).max(1.0),
            escape(&told.title(thread)),
            to - 1
        );
    };
    for (at, turn) in told.outcome.turns.iter().enumerate() {
        let next = (turn.from, told.outcome.end_of(at), turn.is_switch);
        let same = |&(_, to, is_switch): &(u64, u64, bool)| is_switch == turn.is_switch && x(turn.from) - x(to) < GAP;
        match open.get_mut(&turn.thread) {
            Some(before) if same(before) => before.1 = next.1,
            _ => {
                if let Some(before) = open.insert(turn.thread, next) {
                    put(turn.thread, before, svg);
                }
            }
        }
    }
    open.into_iter().for_each(|(thread, turn)| put(thread, turn, svg));
}

/// A line from thread to thread for each switch, and its number above.
fn switches(told: &Explanation, lanes: &BTreeMap<u32, f64>, x: &impl Fn(u64) -> f64, svg: &mut String) {
    let wanted: Vec<f64> = told.switches.iter().map(|one| x(told.outcome.turns[one.turn].from)).collect();
    for ((at, one), number) in told.switches.iter().enumerate().zip(apart(&wanted)) {
        let (Some(from), Some(to)) = (lanes.get(&one.switch.last), lanes.get(&one.switch.to)) else { continue };
        let (line, top) = (x(told.outcome.turns[one.turn].from), NUMBERS / 2.0 - 2.0);
        let bottom = f64::max(*from, *to) + LANE / 2.0;
        let _ = writeln!(
            svg,
            "<a href=\"#switch-{0}\"><path class=\"switch\" d=\"M{number:.1} {top} L{line:.1} {NUMBERS} V{bottom}\"/>\
             <circle class=\"switch\" cx=\"{number:.1}\" cy=\"{top}\" r=\"10\"/>\
             <text class=\"switch\" x=\"{number:.1}\" y=\"{1}\">{0}</text></a>",
            at + 1,
            top + 4.0
        );
    }
}

/// The places of numbers, as near to the wanted ones as they can be side by side, and not beyond the lanes.
fn apart(wanted: &[f64]) -> Vec<f64> {
    let step = NUMBER.min(WIDTH / wanted.len().max(1) as f64);
    let mut places = wanted.to_vec();
    for at in 1..places.len() {
        places[at] = places[at].max(places[at - 1] + step);
    }
    let mut limit = NAMES + WIDTH;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - step;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::explanation::tests::told;
    use chaos::{Left, Turn};

    #[test]
    fn each_turn_has_its_place_in_its_lane() {
        let svg = timeline(&told());
        // Ten choices, of which the switched turn has the fourth to the seventh, in the third lane.
        let left = NAMES + WIDTH * 3.0 / 10.0;
        let top = NUMBERS + 2.0 * LANE + (LANE - TURN) / 2.0;
        let turn = format!("class=\"switched\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\"", WIDTH * 4.0 / 10.0);
        assert!(svg.contains(&turn) && svg.contains("<title>thread 2 (b), choices 4 to 7</title>"), "{turn}: {svg}");
        assert_eq!((svg.matches("<rect").count(), svg.matches("<circle").count()), (4, 1), "{svg}");
    }

    #[test]
    fn numbers_stand_side_by_side_within_the_drawing() {
        let end = NAMES + WIDTH;
        assert_eq!(apart(&[200.0, 210.0, 300.0]), [200.0, 200.0 + NUMBER, 300.0]);
        assert_eq!(apart(&[end - 1.0, end]), [end - NUMBER, end]);
        assert_eq!(apart(&[]), [0.0; 0]);
    }

    #[test]
    fn a_long_run_of_many_threads_is_no_large_drawing() {
        let mut told = told();
        let turn = |n| Turn { thread: n as u32 % 200, from: n, before: Left::Waits, is_switch: false };
        told.outcome.turns = (1..200_000).map(turn).collect();
        told.outcome.points = 200_000;
        let svg = timeline(&told);
        assert!(svg.len() < 16 << 20, "{} bytes", svg.len());
        assert!(svg.contains("thread 2 (b)<") && !svg.contains("thread 199<"));
    }
}
