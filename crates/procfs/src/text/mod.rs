//! The files' contents, to the byte (`fs/proc/array.c` and its neighbours). Pure functions from numbers to
//! [`fmt::Write`].
//!
//! The host writes what a process has beside its threads (memory, credentials, parents) in the same formats. So
//! [`stat`] and [`status`] can be read as well as written: our fields replace those of a line of the host's, and
//! everything else stays as the host wrote it. [`thread`] has our fields, for any caller that knows them: the program's
//! own kernel, or a reader of its state page.

pub mod sched;
pub mod stat;
pub mod status;
pub mod thread;

use crate::name::decimal;
use core::fmt::{self, Write};

/// Ticks of all files, whatever the kernel's own rate (`USER_HZ`).
pub const TICKS_PER_SEC: u64 = 100;

/// Nanoseconds as such ticks, rounded down.
pub fn ticks(ns: u64) -> u64 {
    ns / (1_000_000_000 / TICKS_PER_SEC)
}

/// Room for a text of known size; what does not fit is an error and leaves a prefix.
#[derive(Debug)]
pub struct Room<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Room<'a> {
    /// Nothing written yet.
    pub fn new(bytes: &'a mut [u8]) -> Room<'a> {
        Room { bytes, len: 0 }
    }

    /// The text so far.
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Bytes as they are: names need not be text.
    pub fn raw(&mut self, bytes: &[u8]) -> fmt::Result {
        let end = self.len + bytes.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// A number in decimal.
    pub fn number(&mut self, n: u64) -> fmt::Result {
        let (digits, begin) = decimal(n);
        self.raw(&digits[begin..])
    }

    /// One byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) -> fmt::Result {
        *self.bytes.get_mut(self.len).ok_or(fmt::Error)? = byte;
        self.len += 1;
        Ok(())
    }

    /// A name as `status` shows it: newlines and backslashes escaped (`proc_task_name`).
    pub fn escaped(&mut self, name: &[u8]) -> fmt::Result {
        for &byte in name {
            match byte {
                b'\n' => self.raw(b"\\n")?,
                b'\\' => self.raw(b"\\\\")?,
                byte => self.raw(&[byte])?,
            }
        }
        Ok(())
    }
}

impl Write for Room<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.raw(text.as_bytes())
    }
}

/// A thread's state as a letter and a word (`task_state_array`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The thread has a CPU or waits for one.
    Running,
    /// The thread waits, and a signal wakes it.
    Sleeping,
    /// The thread waits, and a signal does not wake it.
    Disk,
    /// Stopped by a signal.
    Stopped,
    /// The thread has exited and was not waited for.
    Zombie,
}

impl State {
    /// The letter.
    pub fn letter(self) -> u8 {
        self.words().as_bytes()[0]
    }

    /// Letter and word, as `status` has them.
    pub fn words(self) -> &'static str {
        match self {
            State::Running => "R (running)",
            State::Sleeping => "S (sleeping)",
            State::Disk => "D (disk sleep)",
            State::Stopped => "T (stopped)",
            State::Zombie => "Z (zombie)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_an_error() {
        let mut bytes = [0; 4];
        let mut room = Room::new(&mut bytes);
        assert!(room.write_str("abc").is_ok() && room.write_str("de").is_err());
        assert_eq!(room.text(), b"abc");
    }

    #[test]
    fn numbers_are_decimal() {
        for n in [0, 7, 10, 99, 100, 109, 12_345, 99_999_999, 100_000_000, 1_000_000_007, u64::MAX] {
            let text = std::format!("{n}");
            // With room behind it, and with none.
            for size in [40, text.len()] {
                let mut bytes = [0; 40];
                let mut room = Room::new(&mut bytes[..size]);
                room.number(n).unwrap();
                assert_eq!(room.text(), text.as_bytes());
            }
            let mut bytes = [0; 40];
            assert!(Room::new(&mut bytes[..text.len() - 1]).number(n).is_err());
        }
    }

    #[test]
    fn names_are_escaped() {
        let mut bytes = [0; 20];
        let mut room = Room::new(&mut bytes);
        room.escaped(b"a\nb\\c d)").unwrap();
        assert_eq!(room.text(), b"a\\nb\\\\c d)");
    }

    #[test]
    fn states_have_letters() {
        let all = [State::Running, State::Sleeping, State::Disk, State::Stopped, State::Zombie];
        assert_eq!(all.map(State::letter), *b"RSDTZ");
    }
}
