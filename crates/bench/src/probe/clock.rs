//! Clocks as the C library reads them, and medians.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since some point in the past.
pub fn now_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// A clock that always exists, in nanoseconds.
pub fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("the clock exists");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Runs `batch` this many times and returns the median of its results.
pub fn median_of(batches: usize, mut batch: impl FnMut() -> f64) -> f64 {
    let mut values: Vec<f64> = (0..batches).map(|_| batch()).collect();
    percentile(&mut values, 50)
}

/// A percentile.
pub fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_found_in_any_order() {
        let mut values: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 50), 50.0);
        assert_eq!(percentile(&mut values, 99), 99.0);
        assert_eq!(percentile(&mut [7.0], 99), 7.0);
        assert!(percentile(&mut [], 50).is_nan());
    }

    #[test]
    fn the_clock_does_not_run_backwards() {
        let mut before = now_ns();
        for _ in 0..1000 {
            let now = now_ns();
            assert!(now >= before);
            before = now;
        }
    }
}
