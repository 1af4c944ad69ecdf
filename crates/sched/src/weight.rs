//! Weights of nice values: one step is a factor of about 1.25, so that one nice level between two threads shifts a
//! tenth of the CPU from one to the other (`sched_prio_to_weight`, whose values programs can observe in their CPU
//! shares).

use ids::{Nice, Policy};

/// The weight of nice 0: such a thread's virtual time advances like real time.
pub(crate) const NICE_0: u32 = 1024;
/// The weight of SCHED_IDLE.
const IDLE: u32 = 3;

const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The weight of a fair thread; 1024 for nice 0.
#[must_use]
pub fn weight(policy: Policy, nice: Nice) -> u32 {
    match policy {
        Policy::Idle => IDLE,
        _ => WEIGHTS[(i32::from(nice.0) + 20).clamp(0, 39) as usize],
    }
}

/// 2^32 / weight: turns the division by a weight into a multiplication.
pub(crate) fn inverse(weight: u32) -> u32 {
    ((1u64 << 32) / u64::from(weight.max(2))) as u32
}

/// Converts real nanoseconds to virtual ones of a thread with this inverse weight.
#[inline(always)]
pub(crate) fn to_virtual(nanos: u64, inverse: u32) -> i64 {
    match u32::try_from(nanos) {
        Ok(nanos) => ((u64::from(nanos) * u64::from(inverse)) >> 22) as i64,
        Err(_) => to_virtual_long(nanos, inverse),
    }
}

/// For four seconds and more: multiplies and shifts two words, which takes twice as long.
#[cold]
fn to_virtual_long(nanos: u64, inverse: u32) -> i64 {
    ((u128::from(nanos) * u128::from(inverse)) >> 22) as i64
}

/// Converts virtual nanoseconds of a thread with this weight to real ones, rounded up.
pub(crate) fn to_real(time: i64, weight: u32) -> u64 {
    (u128::from(time.max(0) as u64) * u128::from(weight)).div_ceil(u128::from(NICE_0)).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_zero_keeps_real_time() {
        let inv = inverse(weight(Policy::Other, Nice(0)));
        for nanos in [0, 1_234_567, u64::from(u32::MAX), u64::from(u32::MAX) + 1, 1 << 50] {
            assert_eq!(to_virtual(nanos, inv), nanos as i64);
        }
    }

    #[test]
    fn a_slice_is_as_long_as_it_was() {
        for nice in -20..20 {
            let w = weight(Policy::Other, Nice(nice));
            let there_and_back = to_real(to_virtual(1_400_000, inverse(w)), w);
            assert!(there_and_back.abs_diff(1_400_000) <= 100, "{nice}: {there_and_back}");
        }
    }

    #[test]
    fn heavier_threads_age_slower() {
        let v = |nice| to_virtual(1_000_000, inverse(weight(Policy::Other, Nice(nice))));
        assert!(v(-20) < v(-19) && v(-1) < v(0) && v(0) < v(1) && v(18) < v(19));
        assert!(v(19) < to_virtual(1_000_000, inverse(weight(Policy::Idle, Nice(0)))));
    }

    /// As `sched_prio_to_weight` has them, beyond its ends as at the ends; and 2^32 / weight rounded down, 2^31 at most.
    #[test]
    fn weights_are_those_that_programs_know() {
        for (nice, w, inv) in [
            (-128, 88_761, 48_388),
            (-20, 88_761, 48_388),
            (-1, 1_277, 3_363_325),
            (0, 1_024, 4_194_304),
            (1, 820, 5_237_764),
            (19, 15, 286_331_153),
            (127, 15, 286_331_153),
        ] {
            let found = weight(Policy::Other, Nice(nice));
            assert_eq!((found, inverse(found)), (w, inv), "nice {nice}");
            assert_eq!((weight(Policy::Batch, Nice(nice)), weight(Policy::Idle, Nice(nice))), (w, 3));
        }
        assert_eq!([0, 1, 2, 3].map(inverse), [1 << 31, 1 << 31, 1 << 31, 1_431_655_765]);
    }

    #[test]
    fn virtual_time_is_real_time_by_the_weight() {
        let v = |nanos, w| to_virtual(nanos, inverse(w));
        assert_eq!((v(1_000, 2_048), v(1_000, 512), v(3, 1_024 * 3)), (500, 2_000, 0));
        // 1,000 / 1.5 is rounded down. No overflow in a year, 2^55 ns.
        assert_eq!((v(1_000, 1_536), v(1 << 55, 512)), (666, 1 << 56));
    }
}
