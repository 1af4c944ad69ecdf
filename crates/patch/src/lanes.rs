//! Compares sixteen bytes at a time. A library of two megabytes is searched twice at every start of a program, so this
//! is much of the cost of the planner.

use wide::u8x16;

/// How many bytes are compared at a time.
pub(crate) const COUNT: usize = 16;

/// The bytes from `at` on.
#[inline(always)]
pub(crate) fn load(bytes: &[u8], at: usize) -> u8x16 {
    let mut lanes = [0; COUNT];
    lanes.copy_from_slice(&bytes[at..at + COUNT]);
    u8x16::new(lanes)
}

/// Which of the lanes are this byte: all ones for yes, zero for no.
#[inline(always)]
pub(crate) fn are(lanes: u8x16, byte: u8) -> u8x16 {
    lanes.simd_eq(u8x16::splat(byte))
}

/// The results as bits, the first byte's lowest.
#[inline(always)]
pub(crate) fn bits(answers: u8x16) -> u64 {
    u64::from(answers.to_bitmask())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_in_order() {
        let bytes: [u8; 20] = core::array::from_fn(|i| i as u8);
        let lanes = load(&bytes, 3);
        assert_eq!(bits(are(lanes, 3)), 1);
        assert_eq!(bits(are(lanes, 18)), 1 << 15);
        assert_eq!(bits(are(lanes, 2)), 0);
        assert_eq!(bits(are(lanes, 5) | are(lanes, 6)), 0b1100);
        assert_eq!(bits(are(lanes & u8x16::splat(0xfe), 6)), 0b11000);
    }
}
