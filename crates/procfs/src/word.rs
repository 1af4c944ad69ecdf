//! The eight bytes of a word, looked at together.

/// A byte in each place.
pub(crate) const ONES: u64 = 0x0101_0101_0101_0101;

/// Which byte of a word, from the lowest on, is the first that is this one.
#[inline(always)]
pub fn first_of(byte: u8, word: u64) -> Option<usize> {
    let other = word ^ (ONES * u64::from(byte));
    // The lowest byte that is none of the others, and perhaps some above it, has its highest bit set.
    let found = other.wrapping_sub(ONES) & !other & (ONES << 7);
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_wherever_they_are() {
        for wanted in [0, b'/'] {
            for first in 0..=8 {
                for other in [0_u8, 1, 0x7f, 0x80, 0xff] {
                    let mut bytes = [0x80_u8, 1, 0xff, 0x7f, 1, 0x80, 1, 0xff];
                    bytes.iter_mut().skip(first).for_each(|byte| *byte = other);
                    bytes.iter_mut().skip(first).take(1).for_each(|byte| *byte = wanted);
                    let place = bytes.iter().position(|&byte| byte == wanted);
                    assert_eq!(first_of(wanted, u64::from_le_bytes(bytes)), place, "{bytes:x?}");
                }
            }
        }
    }
}
