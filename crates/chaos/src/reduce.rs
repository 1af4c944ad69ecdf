//! Reduces the switches of a failing schedule: delta debugging (Zeller and Hildebrandt 2002, `ddmin`).

use alloc::vec::Vec;

/// A part of `all` for which `fails` is still true and from which no single element can be left out, unless
/// `patience` calls of `fails` ran out before. `fails(all)` is taken to be true.
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
    current
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
