//! Weights of nice values: one step is a factor of about 1.25, so that one nice level
//! between two threads shifts a tenth of the CPU from one to the other
//! (`sched_prio_to_weight`, whose values programs can see in their CPU shares).

use ids::{Nice, Policy};

/// The weight of nice 0: virtual time of such a thread runs as real time does.
pub(crate) const NICE_0: u32 = 1024;
/// The weight of SCHED_IDLE.
const IDLE: u32 = 3;

const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The weight of a fair thread.
pub(crate) fn weight(policy: Policy, nice: Nice) -> u32 {
    match policy {
        Policy::Idle => IDLE,
        _ => WEIGHTS[(i32::from(nice.0) + 20).clamp(0, 39) as usize],
    }
}

/// 2^32 / weight: turns the division by a weight into a multiplication.
pub(crate) fn inverse(weight: u32) -> u32 {
    ((1u64 << 32) / u64::from(weight.max(2))) as u32
}

/// Real nanoseconds as virtual ones of a thread with this inverse weight.
#[inline(always)]
pub(crate) fn to_virtual(nanos: u64, inverse: u32) -> i64 {
    ((u128::from(nanos) * u128::from(inverse)) >> 22) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_zero_keeps_real_time() {
        let inv = inverse(weight(Policy::Other, Nice(0)));
        assert_eq!(to_virtual(1_234_567, inv), 1_234_567);
    }

    #[test]
    fn heavier_threads_age_slower() {
        let v = |nice| to_virtual(1_000_000, inverse(weight(Policy::Other, Nice(nice))));
        assert!(v(-20) < v(-19) && v(-1) < v(0) && v(0) < v(1) && v(18) < v(19));
        assert!(v(19) < to_virtual(1_000_000, inverse(weight(Policy::Idle, Nice(0)))));
    }
}
