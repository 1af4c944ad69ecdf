//! The plainest paths, in one look.
//!
//! Of a thread's files the tree itself knows what their paths stand for: the names are always the same, and who lives
//! is told by [`Threads::find`]. Nothing of that needs to be remembered, so for paths that are written as everybody
//! writes them (`self/task/TID/NAME`, `PID/NAME`, `thread-self`, …) there is nothing to be protected either: no dentry, no
//! sequence count and no reader's word. All others are walked ([`crate::walk`]): those with dots, empty names or
//! names of more than seven bytes, those that lead to files of the host's, those that are not there, and all where a mount
//! hides something. What is found here the walk would find, too (`tests/leap.rs`).

use crate::entries::{self, Is};
use crate::node::{Dir, Node, Place, ThreadId};
use crate::permission::HidePid;
use crate::walk::{Tree, Want, Within};
use crate::word::ONES;
use crate::{Caller, Threads};

const SELF: u32 = u32::from_le_bytes(*b"self");
const THREAD_S: u64 = u64::from_le_bytes(*b"thread-s");
const ELF: u64 = u64::from_le_bytes(*b"elf\0\0\0\0\0");
const TASK: u32 = u32::from_le_bytes(*b"task");

/// Where a path is, after a directory.
struct At {
    dir: Dir,
    thread: ThreadId,
    /// How much of it is used up, and the byte that follows: a slash, or zero at the end.
    used: usize,
    next: u8,
}

impl At {
    fn node(&self) -> Node {
        Node { place: Place::Dir(self.dir), thread: self.thread }
    }
}

impl Tree {
    /// The node of a path relative to `/proc`, of which `word` gives eight bytes from a place on: there is a zero
    /// at its end, and after that anything. `None` says nothing: the path is to be walked.
    #[inline(always)]
    pub fn leap<T: Threads>(
        &self,
        threads: &T,
        caller: &Caller<'_>,
        want: Want,
        word: impl Fn(usize) -> Option<u64>,
    ) -> Option<Node> {
        let is_plain = !want.directory && !want.no_links && want.within == Within::Anywhere;
        if !is_plain || self.options().hide != HidePid::Off || !self.policy().leaps {
            return None;
        }
        let first = word(0)?;
        let mut at = if first as u32 == SELF {
            let next = (first >> 32) as u8;
            if next == 0 && want.nofollow {
                return Some(entries::link(Is::SelfLink));
            }
            At { dir: Dir::Process, thread: threads.find(caller.process)?, used: 4, next }
        } else if first == THREAD_S {
            let rest = word(8)?;
            let next = (rest >> 24) as u8;
            if rest & 0xff_ffff != ELF {
                return None;
            }
            if next == 0 && want.nofollow {
                return Some(entries::link(Is::ThreadSelfLink));
            }
            At { dir: Dir::Thread, thread: threads.find(caller.thread)?, used: 11, next }
        } else {
            let (id, used, next) = number(&word, 0, first)?;
            At { dir: Dir::Process, thread: threads.find(id)?, used, next }
        };
        if at.next == 0 {
            return Some(at.node());
        }
        let mut name = after(&at, &word)?;
        if at.dir == Dir::Process && name as u32 == TASK {
            match (name >> 32) as u8 {
                0 => return Some(Node { place: Place::Dir(Dir::Tasks), thread: at.thread }),
                b'/' => {}
                _ => return None,
            }
            let begin = at.used + 6;
            let (id, len, next) = number(&word, begin, word(begin)?)?;
            let thread = threads.find(id)?;
            if threads.leader(thread) != threads.leader(at.thread) {
                return None;
            }
            at = At { dir: Dir::Thread, thread, used: begin + len, next };
            if at.next == 0 {
                return Some(at.node());
            }
            name = after(&at, &word)?;
        }
        let index = entries::find_short(at.dir, name)?;
        Some(Node { place: Place::Entry(at.dir, index), thread: at.thread })
    }
}

/// The eight bytes after a slash.
#[inline(always)]
fn after(at: &At, word: &impl Fn(usize) -> Option<u64>) -> Option<u64> {
    if at.next == b'/' { word(at.used + 1) } else { None }
}

/// The id that is written at a place, with the word that is there: it, how many digits it has, and the byte after them.
#[inline(always)]
fn number(word: &impl Fn(usize) -> Option<u64>, at: usize, first: u64) -> Option<(i32, usize, u8)> {
    let (high, len) = digits(first);
    if len == 0 || first as u8 == b'0' {
        return None;
    }
    if len < 8 {
        return Some((high as i32, len, (first >> (8 * len)) as u8));
    }
    let second = word(at + 8)?;
    let (low, more) = digits(second);
    let id = u64::from(high) * [1, 10, 100].get(more)? + u64::from(low);
    Some((i32::try_from(id).ok()?, 8 + more, (second >> (8 * more)) as u8))
}

/// What the decimal digits say that a word begins with, and how many they are.
#[inline(always)]
fn digits(word: u64) -> (u32, usize) {
    let digits = word ^ (ONES * u64::from(b'0'));
    // The highest bit of each byte that is none, from the lowest of these on; above it there may be others.
    let others = (digits.wrapping_add(ONES * 0x76) | digits) & (ONES << 7);
    let len = others.trailing_zeros() as usize / 8;
    if len == 0 {
        return (0, 0);
    }
    // The last digit into the highest byte, then by pairs, fours and eights.
    let eight = digits << (64 - 8 * len);
    let pairs = (eight.wrapping_mul(10).wrapping_add(eight >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000).wrapping_add(fours >> 32) as u32, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id_of;
    use std::format;
    use std::string::String;

    fn read(text: &str) -> Option<(i32, usize, u8)> {
        let bytes = [text.as_bytes(), &[0xff; 24]].concat();
        let word = |at: usize| bytes[at..].first_chunk().map(|word| u64::from_le_bytes(*word));
        number(&word, 3, word(3)?)
    }

    #[test]
    fn a_number_is_what_the_digits_say() {
        let ids = [1, 7, 10, 99, 100, 1234, 99_999, 654_321, 1_000_000, 4_194_304, 9_999_999, 10_000_000, 12_345_678];
        for id in ids.into_iter().chain([99_999_999, 100_000_000, 219_004_928, 1_000_000_009, i32::MAX]) {
            for end in ["/", "\0", "/xy", "\0\u{7f}9", "/99999", "/\u{7f}\u{7f}", ":1", "/0"] {
                let found = read(&format!("at/{id}{end}"));
                assert_eq!(found, Some((id, format!("{id}").len(), end.as_bytes()[0])), "{id}{end:?}");
            }
        }
    }

    #[test]
    fn what_is_no_id_is_none() {
        for text in ["0", "01", "x1", "/1", "", "2147483648", "4294967297", "99999999999", "00000000001", "12345678901"]
        {
            assert_eq!(read(&format!("at/{text}/")), None, "{text}");
            assert_eq!(id_of(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_byte_ends_a_number() {
        for byte in (0..128_u8).filter(|byte| !byte.is_ascii_digit()) {
            for digits in ["42", "1234567", "12345678", "123456789", "1234567890"] {
                let text: String = format!("at/{digits}{}\u{fe}7\u{8a}", char::from(byte));
                assert_eq!(read(&text), id_of(digits.as_bytes()).map(|id| (id, digits.len(), byte)));
            }
        }
    }
}
