//! Takes a program apart until nothing more can go without the difference going as well.

use crate::program::{Op, size};

/// The smallest program found for which `fails` holds, which it does for `program`.
pub fn shrink(program: Vec<Op>, fails: &mut dyn FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut best = program;
    loop {
        let before = best.clone();
        best = in_chunks(best, fails);
        best = inside(best, fails);
        best = simpler(best, fails);
        if size(&best) == size(&before) && best == before {
            return best;
        }
    }
}

/// Without stretches of the top level, long ones first.
fn in_chunks(mut best: Vec<Op>, fails: &mut dyn FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut length = best.len().next_power_of_two() / 2;
    while length > 0 {
        let mut at = 0;
        while at < best.len() {
            let mut fewer = best.clone();
            fewer.drain(at..(at + length).min(best.len()));
            if fails(&fewer) {
                best = fewer;
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    best
}

/// Shrinks what children do.
fn inside(mut best: Vec<Op>, fails: &mut dyn FnMut(&[Op]) -> bool) -> Vec<Op> {
    for at in 0..best.len() {
        if let Some(child) = best[at].child.clone().filter(|child| !child.is_empty()) {
            let outer = best.clone();
            let with = |child: &[Op]| {
                let mut whole = outer.clone();
                whole[at].child = Some(child.to_vec());
                whole
            };
            if fails(&with(&[])) {
                best = with(&[]);
                continue;
            }
            let smaller = in_chunks(child, &mut |child| fails(&with(child)));
            let smaller = inside(smaller, &mut |child| fails(&with(child)));
            best = with(&smaller);
        }
    }
    best
}

/// By the first thread instead of a worker.
fn simpler(mut best: Vec<Op>, fails: &mut dyn FnMut(&[Op]) -> bool) -> Vec<Op> {
    for at in 0..best.len() {
        if best[at].who != 0 {
            let mut other = best.clone();
            other[at].who = 0;
            if fails(&other) {
                best = other;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(name: &str, child: Option<Vec<Op>>) -> Op {
        Op { who: 1, name: name.into(), args: vec![], child }
    }

    fn holds(steps: &[Op], name: &str) -> bool {
        steps.iter().any(|op| op.name == name || op.child.as_deref().is_some_and(|child| holds(child, name)))
    }

    #[test]
    fn only_what_matters_is_left() {
        let child = vec![op("x", None), op("bad", None), op("y", None)];
        let mut program: Vec<Op> = (0..50).map(|_| op("filler", None)).collect();
        program.insert(20, op("fork", Some(child)));
        program.insert(40, op("also", None));
        let small = shrink(program, &mut |steps| holds(steps, "bad") && holds(steps, "also"));
        assert_eq!(size(&small), 3);
        assert!(small.iter().all(|op| op.who == 0));
    }
}
