//! Reduces the switches of a failing schedule: delta debugging (Zeller and Hildebrandt 2002, `ddmin`). It ends where no
//! single switch can be left out. Two may be that only undo each other, so of few switches all parts are tried in the
//! end.

use alloc::vec::Vec;

/// Up to this many elements, all parts are tried: 1023 of ten.
const FEW: usize = 10;

/// A part of `all` for which `fails` is still true and from which no single element can be left out, and the smallest
/// such part of it if it has at most ten elements, unless `patience` calls of `fails` ran out before. `fails(all)` is
/// taken to be true.
pub fn reduce<T: Clone>(all: &[T], mut patience: usize, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut current = all.to_vec();
    let mut pieces = 1;
    while !current.is_empty() && patience > 0 {
        let size = current.len().div_ceil(pieces);
        let mut smaller = None;
        for start in (0..current.len()).step_by(size) {
            if patience == 0 {
                break;
            }
            patience -= 1;
            let end = (start + size).min(current.len());
            let rest = [&current[..start], &current[end..]].concat();
            if fails(&rest) {
                smaller = Some(rest);
                break;
            }
        }
        match smaller {
            Some(rest) => {
                current = rest;
                pieces = pieces.saturating_sub(1).clamp(1, current.len().max(1));
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(current.len()),
        }
    }
    if current.len() <= FEW { smallest(&current, patience, fails).unwrap_or(current) } else { current }
}

/// The smallest part of `all` for which `fails` is true and that lacks two elements or more, if there is one.
fn smallest<T: Clone>(all: &[T], patience: usize, mut fails: impl FnMut(&[T]) -> bool) -> Option<Vec<T>> {
    // The empty part has been tried.
    let mut parts: Vec<u32> =
        (1..1 << all.len()).filter(|part: &u32| part.count_ones() as usize + 2 <= all.len()).collect();
    parts.sort_by_key(|part| part.count_ones());
    let chosen =
        |part: u32| (0..all.len()).filter(move |i| part >> i & 1 == 1).map(|i| all[i].clone()).collect::<Vec<T>>();
    parts.into_iter().take(patience).map(chosen).find(|part| fails(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_left() {
        let all: Vec<u32> = (0..300).collect();
        for needed in [&[][..], &[7], &[0, 299], &[13, 150, 151]] {
            let fails = |part: &[u32]| needed.iter().all(|n| part.contains(n));
            assert_eq!(reduce(&all, usize::MAX, fails), needed);
        }
    }

    /// Three that matter, and two that must be left out together.
    #[test]
    fn what_undoes_itself_is_left_out() {
        let all: Vec<u32> = (0..50).collect();
        let fails =
            |part: &[u32]| [5, 20, 40].iter().all(|n| part.contains(n)) && part.contains(&10) == part.contains(&30);
        assert_eq!(reduce(&all, usize::MAX, fails), [5, 20, 40]);
    }

    #[test]
    fn it_ends_when_patience_does() {
        let mut asked = 0;
        let left = reduce(&[1, 2, 3, 4], 2, |_| {
            asked += 1;
            false
        });
        assert_eq!((left, asked), (Vec::from([1, 2, 3, 4]), 2));
    }
}
