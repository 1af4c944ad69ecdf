//! Names of one component.

use crate::word::first_of;

/// The longest name that exists in the tree, in words of eight bytes.
pub(crate) const WORDS: usize = 3;
const LEN_MAX: usize = 8 * WORDS;

/// A component of a path, as the cache compares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    words: [u64; WORDS],
    len: usize,
}

impl Name {
    /// A name that may be longer than any that exists. (NAME_MAX is each file system's to refuse, and procfs does not.)
    #[inline(always)]
    pub fn new(bytes: &[u8]) -> Name {
        // Word by word, so that it stays in registers: what is stored in pieces and loaded whole is slow.
        let word = |n: usize| match bytes.get(8 * n..) {
            None | Some([]) => 0,
            Some(part) => match part.first_chunk() {
                Some(all) => u64::from_le_bytes(*all),
                None => part.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
            },
        };
        let words = [word(0), word(1), word(2)];
        Name { words, len: bytes.len() }
    }

    /// The name that a path begins with, to its first slash or its end.
    #[inline(always)]
    pub(crate) fn first(path: &[u8]) -> Name {
        let mut words = [0; WORDS];
        for (i, to) in words.iter_mut().enumerate() {
            let rest = path.get(8 * i..).unwrap_or_default();
            let (word, len) = match rest.first_chunk() {
                Some(all) => (u64::from_le_bytes(*all), 8),
                None => (rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), rest.len()),
            };
            let slash = first_of(b'/', word);
            let len = slash.unwrap_or(len);
            if len < 8 {
                *to = word & ((1 << (8 * len)) - 1);
                return Name { words, len: 8 * i + len };
            }
            *to = word;
        }
        let rest = path.get(LEN_MAX..).unwrap_or_default();
        let more = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        Name { words, len: LEN_MAX + more }
    }

    /// The name of a thread's directory.
    pub fn of_id(id: i32) -> Name {
        let (text, len) = decimal(id as u32);
        Name::new(&text[..len])
    }

    /// Whether anything can have this name.
    pub fn may_exist(&self) -> bool {
        self.len <= LEN_MAX
    }

    /// Its words.
    #[inline(always)]
    pub(crate) fn words(&self) -> [u64; WORDS] {
        self.words
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u32 {
        self.len as u32
    }

    /// Whether it is this.
    pub fn is(&self, other: &[u8]) -> bool {
        *self == Name::new(other) && self.may_exist()
    }

    /// `.`: the directory itself.
    pub(crate) fn is_dot(&self) -> bool {
        self.len == 1 && self.words[0] == u64::from(b'.')
    }

    /// `..`: the one above.
    pub(crate) fn is_dot_dot(&self) -> bool {
        self.len == 2 && self.words[0] == u64::from_le_bytes(*b"..\0\0\0\0\0\0")
    }

    /// A number for the cache's buckets: of the name in this directory.
    #[inline(always)]
    pub(crate) fn hash(&self, parent: u32) -> u32 {
        // Multiplying spreads the differences of a name upwards, and the high half is taken. Most names fit in one word;
        // the others are folded in.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let [first, second, third] = self.words;
        let folded = first ^ second.rotate_left(21) ^ third.rotate_left(42);
        let hash = (folded ^ u64::from(parent).rotate_right(17)).wrapping_mul(GOLDEN);
        (hash ^ hash >> 29).wrapping_mul(GOLDEN).rotate_left(32) as u32
    }

    /// The id that it writes, if it is one ([`id_of`]).
    pub fn id(&self) -> Option<i32> {
        if self.len > 10 {
            return None;
        }
        let mut bytes = [0; 10];
        for (i, byte) in bytes.iter_mut().enumerate().take(self.len) {
            *byte = (self.words[i / 8] >> (i % 8 * 8)) as u8;
        }
        id_of(&bytes[..self.len])
    }
}

/// The id that a name stands for (`name_to_int`): decimal, no leading zero, no sign, not too large. Zero is no id.
pub fn id_of(bytes: &[u8]) -> Option<i32> {
    if bytes.is_empty() || bytes.len() > 10 || bytes[0] == b'0' {
        return None;
    }
    let id = bytes.iter().try_fold(0_i64, |n, byte| byte.is_ascii_digit().then(|| n * 10 + i64::from(byte - b'0')))?;
    i32::try_from(id).ok()
}

/// A number's digits, and how many there are.
#[inline(always)]
pub(crate) fn decimal(n: u32) -> ([u8; 16], usize) {
    const EIGHT: u32 = 100_000_000;
    if n < EIGHT {
        let (text, len) = short_decimal(n);
        return (u128::from(text).to_le_bytes(), len);
    }
    let (first, len) = short_decimal(n / EIGHT);
    let rest = u128::from(eight_digits(n % EIGHT) | ASCII_ZEROS);
    ((u128::from(first) | rest << (8 * len)).to_le_bytes(), len + 8)
}

const ASCII_ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// The same of a number below 10⁸, in a word.
#[inline(always)]
pub(crate) fn short_decimal(n: u32) -> (u64, usize) {
    let digits = eight_digits(n);
    // Zero has a digit, too: the last one.
    let zeros = (digits | 1 << 56).trailing_zeros() as usize / 8;
    ((digits | ASCII_ZEROS) >> (8 * zeros), 8 - zeros)
}

/// The eight digits of a number below 10⁸, the first in the lowest byte: halves, then pairs, then digits, all of a kind at once
/// in one register. Digits that are found one by one take a division each, and those that are stored one by one and
/// loaded together are waited for.
#[inline(always)]
fn eight_digits(n: u32) -> u64 {
    let halves = u64::from(n / 10_000) | u64::from(n % 10_000) << 32;
    // A hundredth of less than 10⁴, a tenth of less than 10²: the error of the fraction is too small to be seen.
    let hundredths = ((halves * 10_486) >> 20) & 0x7f_0000_007f;
    let pairs = hundredths | (halves - 100 * hundredths) << 16;
    let tenths = ((pairs * 103) >> 10) & 0x0f_000f_000f_000f;
    tenths | (pairs - 10 * tenths) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_in_one_way_only() {
        assert_eq!(id_of(b"1"), Some(1));
        assert_eq!(id_of(b"2147483647"), Some(i32::MAX));
        for bad in ["", "0", "01", "+1", "-1", "1 ", "1a", "2147483648", "4294967296", "4294967297", "99999999999"] {
            assert_eq!(id_of(bad.as_bytes()), None, "{bad}");
            assert_eq!(Name::new(bad.as_bytes()).id(), None, "{bad}");
        }
        assert_eq!(Name::of_id(4_194_305).id(), Some(4_194_305));
        assert!(Name::of_id(1000).is(b"1000"));
    }

    #[test]
    fn digits_are_those_of_the_number() {
        let is_right = |n: u32| {
            let (text, len) = decimal(n);
            assert_eq!(text[..len], *std::format!("{n}").as_bytes());
            assert!(text[len..].iter().all(|&byte| byte == 0));
        };
        // Every half and every pair, as high and as low part.
        (0..20_000).chain((0..10_000).map(|n| n * 10_000 + 9_999)).for_each(is_right);
        (0..10).map(|digits| 10_u32.pow(digits)).flat_map(|n| [n - 1, n, n + 1, n * 2]).for_each(is_right);
        [99_999_999, 100_000_000, 100_000_001, 1_000_000_010, 4_194_304, u32::MAX].into_iter().for_each(is_right);
    }

    #[test]
    fn a_name_ends_at_a_slash() {
        let text = b"abcdefghijklmnopqrstuvwxyz\x2e\x30\xaf0123456789";
        for len in 0..text.len() {
            for rest in ["", "/", "//x", "/abcdefghijklmnopqrstuvwxyz"] {
                let path = [&text[..len], rest.as_bytes()].concat();
                assert_eq!(Name::first(&path), Name::new(&text[..len]), "{len}, then {rest}");
            }
        }
    }

    #[test]
    fn a_long_name_is_none_of_ours() {
        let long = Name::new(&[b'x'; 25]);
        assert!(!long.may_exist() && !long.is(&[b'x'; 25]) && !long.is(&[b'x'; 24]));
        assert!(!Name::new(&[b'x'; 256]).may_exist());
    }

    #[test]
    fn names_that_are_prefixes_differ() {
        let (a, b) = (Name::new(b"stat"), Name::new(b"stat\0"));
        assert_ne!(a, b, "a zero byte is no end here");
        assert!(Name::new(b".").is_dot() && !Name::new(b"..").is_dot() && Name::new(b"..").is_dot_dot());
        assert!(!Name::new(b"...").is_dot_dot() && !Name::new(b".x").is_dot_dot());
        assert_ne!(Name::new(b"stat").hash(1), Name::new(b"stat").hash(2));
    }
}
