//! Names of one component.

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
        let word = |n: usize| {
            let part = bytes.get(8 * n..).unwrap_or_default();
            part.iter().take(8).rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
        };
        let words = core::array::from_fn(word);
        Name { words, len: bytes.len() }
    }

    /// The name that a path begins with, to its first slash or its end.
    #[inline(always)]
    pub(crate) fn first(path: &[u8]) -> Name {
        let len = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
        Name::new(&path[..len])
    }

    /// The name of a thread's directory.
    pub fn of_id(id: i32) -> Name {
        let (digits, begin) = decimal(id as u64);
        Name::new(&digits[begin..])
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
        // A multiplicative hash: products mix upwards, so the high half is taken. Longer names are folded into one word.
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

/// A number's digits, and where they begin.
pub(crate) fn decimal(mut n: u64) -> ([u8; 20], usize) {
    let (mut digits, mut begin) = ([0; 20], 20);
    loop {
        begin -= 1;
        digits[begin] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            return (digits, begin);
        }
    }
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
        for n in (0..20_000).chain((0..20).map(|digits| 10_u64.pow(digits))).chain([u32::MAX.into(), u64::MAX]) {
            let (digits, begin) = decimal(n);
            assert_eq!(digits[begin..], *std::format!("{n}").as_bytes());
        }
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
