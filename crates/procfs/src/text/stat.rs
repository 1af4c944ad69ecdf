//! `/proc/PID/stat`: 52 fields on one line (`do_task_stat`).

use super::Room;
use core::fmt;

/// How many fields there are.
pub const FIELDS: usize = 52;
/// The fields before the numbers: id, name, state.
const BEFORE: usize = 3;
/// How many are numbers.
pub const NUMBERS: usize = FIELDS - BEFORE;
const NAME_MAX: usize = 64;

/// A field by its number in proc(5), 4 to 52.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
#[repr(usize)]
pub enum Field {
    Ppid = 4,
    Pgrp = 5,
    Session = 6,
    Flags = 9,
    Minflt = 10,
    Cminflt = 11,
    Majflt = 12,
    Cmajflt = 13,
    Utime = 14,
    Stime = 15,
    Cutime = 16,
    Cstime = 17,
    Priority = 18,
    Nice = 19,
    NumThreads = 20,
    StartTime = 22,
    Vsize = 23,
    Rss = 24,
    StartCode = 26,
    EndCode = 27,
    StartStack = 28,
    Signal = 31,
    Blocked = 32,
    SigIgnore = 33,
    SigCatch = 34,
    Wchan = 35,
    ExitSignal = 38,
    Processor = 39,
    RtPriority = 40,
    Policy = 41,
    ExitCode = 52,
}

/// The line, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Field 1.
    pub id: i32,
    name: [u8; NAME_MAX],
    name_len: usize,
    /// Field 3.
    pub state: u8,
    /// Fields 4 to 52.
    pub numbers: [i64; NUMBERS],
}

impl Stat {
    /// A line of zeros, except for the fields that are never zero on Linux.
    pub fn new(id: i32, state: u8) -> Stat {
        Stat { id, name: [0; NAME_MAX], name_len: 0, state, numbers: [0; NUMBERS] }
    }

    /// Reads a line, from the *last* parenthesis on: a name may have some. Fields that a later kernel adds are
    /// left out; `None` if any is missing.
    pub fn parse(line: &[u8]) -> Option<Stat> {
        let open = line.iter().position(|&byte| byte == b'(')?;
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let name = line.get(open + 1..close)?;
        let mut stat = Stat::new(number(line.get(..open)?.trim_ascii())? as i32, *line.get(close + 2)?);
        stat.set_name(name);
        let mut words = line[close + 3..].split(|&byte| byte == b' ' || byte == b'\n').filter(|word| !word.is_empty());
        for to in &mut stat.numbers {
            *to = number(words.next()?)?;
        }
        Some(stat)
    }

    /// Field 2, without its parentheses.
    pub fn name(&self) -> &[u8] {
        &self.name[..self.name_len]
    }

    /// Sets field 2; what is longer than any name is cut.
    pub fn set_name(&mut self, name: &[u8]) {
        self.name_len = name.len().min(NAME_MAX);
        self.name[..self.name_len].copy_from_slice(&name[..self.name_len]);
    }

    /// A field's number.
    pub fn get(&self, field: Field) -> i64 {
        self.numbers[field as usize - BEFORE - 1]
    }

    /// Sets a field.
    pub fn set(&mut self, field: Field, value: i64) {
        self.numbers[field as usize - BEFORE - 1] = value;
    }

    /// The line.
    pub fn write(&self, to: &mut Room<'_>) -> fmt::Result {
        to.number(self.id as u64)?;
        to.raw(b" (")?;
        to.raw(self.name())?;
        to.raw(&[b')', b' ', self.state])?;
        for (i, &n) in self.numbers.iter().enumerate() {
            to.byte(b' ')?;
            if is_signed(i + BEFORE + 1) && n < 0 {
                to.byte(b'-')?;
                to.number(n.unsigned_abs())?;
            } else {
                to.number(n as u64)?;
            }
        }
        to.byte(b'\n')
    }
}

/// Limits and addresses have no sign: RLIM_INFINITY is 2⁶⁴ − 1.
const fn is_signed(field: usize) -> bool {
    !matches!(field, 23 | 25..=30 | 35 | 45..=51)
}

/// A number with or without a sign, up to 2⁶⁴ − 1, whose bits are kept.
fn number(word: &[u8]) -> Option<i64> {
    let word = core::str::from_utf8(word).ok()?;
    word.parse::<i64>().ok().or_else(|| word.parse::<u64>().ok().map(|n| n as i64))
}

/// Fields 18 and 40: what the kernel calls priority. Nice values are 0 to 39 there, real-time priorities −2 to
/// −100, and deadline threads −101.
pub fn priority(nice: i32, rt: Option<u32>, deadline: bool) -> i64 {
    match (deadline, rt) {
        (true, _) => -101,
        (_, Some(rt)) => -1 - i64::from(rt),
        _ => 20 + i64::from(nice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn written(stat: &Stat) -> Vec<u8> {
        let mut bytes = [0; 1024];
        let mut room = Room::new(&mut bytes);
        stat.write(&mut room).unwrap();
        room.text().to_vec()
    }

    #[test]
    fn every_line_of_this_host_is_read_and_written_to_the_byte() {
        let mut lines = 0;
        for entry in std::fs::read_dir("/proc").unwrap() {
            let path = entry.unwrap().path().join("stat");
            let Ok(line) = std::fs::read(&path) else { continue };
            // Fields that newer kernels may have are not ours to write.
            if !line.contains(&b'(') || line.rsplit(|&b| b == b')').next().unwrap().split(|&b| b == b' ').count() != 51
            {
                continue;
            }
            let stat = Stat::parse(&line).unwrap_or_else(|| panic!("{}", std::string::String::from_utf8_lossy(&line)));
            assert_eq!(written(&stat), line);
            lines += 1;
        }
        assert!(lines > 0);
    }

    #[test]
    fn a_name_may_look_like_the_end_of_a_name() {
        let line: Vec<u8> = [b"7 (a) R 1 \n) S".as_slice(), &b" -1".repeat(49), b"\n"].concat();
        let mut stat = Stat::parse(&line).unwrap();
        assert_eq!((stat.name(), stat.state, stat.id), (b"a) R 1 \n".as_slice(), b'S', 7));
        stat.set(Field::Utime, 5);
        assert_eq!(stat.get(Field::Utime), 5);
        let text = written(&stat);
        assert!(text.starts_with(b"7 (a) R 1 \n) S -1 -1"));
        assert_eq!(Stat::parse(&text), Some(stat), "what has no sign keeps its bits");
    }

    #[test]
    fn what_is_no_such_line_is_refused() {
        for bad in ["", "7", "7 (a", "7 (a) S 1 2 3", "x (a) S", ") (", "7 (a)"] {
            assert_eq!(Stat::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn priorities_are_the_kernels() {
        assert_eq!((priority(0, None, false), priority(-20, None, false), priority(19, None, false)), (20, 0, 39));
        assert_eq!(
            (priority(0, Some(1), false), priority(0, Some(99), false), priority(0, None, true)),
            (-2, -100, -101)
        );
    }
}
