//! `stat` for one thread of a process after another: most of the line is the process's, and stays as text.

use super::Room;
use super::stat::{FIELDS, Field, Stat, is_signed};
use core::fmt;

/// The fields that each thread, or each moment, has of its own, in the order of the line.
const CHANGING: [Field; 19] = [
    Field::Minflt,
    Field::Cminflt,
    Field::Majflt,
    Field::Cmajflt,
    Field::Utime,
    Field::Stime,
    Field::Priority,
    Field::Nice,
    Field::NumThreads,
    Field::StartTime,
    Field::Signal,
    Field::Blocked,
    Field::SigIgnore,
    Field::SigCatch,
    Field::Wchan,
    Field::ExitSignal,
    Field::Processor,
    Field::RtPriority,
    Field::Policy,
];
/// The index of a field in [`CHANGING`]; their number for a field that does not change.
const PLACES: [u8; FIELDS + 1] = {
    let (mut places, mut i) = ([CHANGING.len() as u8; FIELDS + 1], 0);
    while i < CHANGING.len() {
        places[CHANGING[i] as usize] = i as u8;
        i += 1;
    }
    places
};
/// The first field after id, name and state.
const FIRST: usize = 4;
/// Each other field with a blank before it, at the longest.
const TEXT_MAX: usize = (FIELDS + 1 - FIRST - CHANGING.len()) * 21 + 7;
/// Words of a template.
pub const WORDS: usize = CHANGING.len() * 2 + TEXT_MAX / 8;

/// A line with gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    values: [i64; CHANGING.len()],
    /// Where the text before each gap ends; what follows the last gap ends with the text.
    ends: [u64; CHANGING.len()],
    len: usize,
    text: [u8; TEXT_MAX],
}

impl Template {
    /// Gaps only.
    pub const EMPTY: Template =
        Template { values: [0; CHANGING.len()], ends: [0; CHANGING.len()], len: 0, text: [0; TEXT_MAX] };

    /// Of such a line.
    pub fn new(line: &Stat) -> Template {
        let (mut values, mut ends) = ([0; CHANGING.len()], [0; CHANGING.len()]);
        let mut text = [0; TEXT_MAX];
        let mut room = Room::new(&mut text);
        for (field, &place) in PLACES.iter().enumerate().skip(FIRST) {
            let (number, place) = (line.number(field), usize::from(place));
            if place < CHANGING.len() {
                (values[place], ends[place]) = (number, room.text().len() as u64);
            } else {
                // Any number fits.
                let _ = write_field(field, number, &mut room);
            }
        }
        let len = room.text().len();
        Template { values, ends, len, text }
    }

    /// Sets a field that changes; others it has not got.
    #[inline]
    pub fn set(&mut self, field: Field, value: i64) {
        if let Some(to) = self.values.get_mut(usize::from(PLACES[field as usize])) {
            *to = value;
        }
    }

    /// The line of a thread.
    pub fn write(&self, id: i32, name: &[u8], state: u8, to: &mut Room<'_>) -> fmt::Result {
        to.number(id as u64)?;
        to.raw(b" (")?;
        to.raw(name)?;
        to.raw(&[b')', b' ', state])?;
        let mut begin = 0;
        for ((field, &value), &end) in CHANGING.into_iter().zip(&self.values).zip(&self.ends) {
            if begin < end as usize {
                to.raw(self.text.get(begin..end as usize).unwrap_or_default())?;
                begin = end as usize;
            }
            write_field(field as usize, value, to)?;
        }
        to.raw(self.text.get(begin..self.len).unwrap_or_default())?;
        to.byte(b'\n')
    }

    /// The template a word at a time, to be kept where many read and one writes. How many words there are.
    pub fn store(&self, mut to: impl FnMut(usize, u64)) -> usize {
        let count = CHANGING.len();
        for i in 0..count {
            to(i, self.values[i] as u64);
            // The last end has the length beside it.
            to(count + i, self.ends[i] | if i + 1 == count { (self.len as u64) << 32 } else { 0 });
        }
        let words = self.text[..self.len.next_multiple_of(8)].as_chunks::<8>().0;
        words.iter().enumerate().for_each(|(i, word)| to(2 * count + i, u64::from_le_bytes(*word)));
        2 * count + words.len()
    }

    /// The opposite of [`Template::store`]: in place, because the copy is a good part of a read.
    #[inline]
    pub fn load(&mut self, from: impl Fn(usize) -> u64) {
        let count = CHANGING.len();
        for i in 0..count {
            self.values[i] = from(i) as i64;
            self.ends[i] = from(count + i) & 0xffff_ffff;
        }
        // Read in the middle of a change it may be anything.
        self.len = ((from(2 * count - 1) >> 32) as usize).min(TEXT_MAX - 7);
        let words = self.text[..self.len.next_multiple_of(8)].as_chunks_mut::<8>().0;
        words.iter_mut().enumerate().for_each(|(i, word)| *word = from(2 * count + i).to_le_bytes());
    }
}

/// A blank and the number.
#[inline]
pub(super) fn write_field(field: usize, n: i64, to: &mut Room<'_>) -> fmt::Result {
    to.byte(b' ')?;
    if is_signed(field) && n < 0 {
        to.byte(b'-')?;
        return to.number(n.unsigned_abs());
    }
    to.number(n as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    fn text(write: impl FnOnce(&mut Room<'_>) -> fmt::Result) -> String {
        let mut bytes = [0; 2048];
        let mut room = Room::new(&mut bytes);
        write(&mut room).unwrap();
        String::from_utf8(room.text().to_vec()).unwrap()
    }

    /// A line in which each field says which it is, with numbers as long as they get.
    fn lines() -> Vec<Stat> {
        let of = |number: &dyn Fn(usize) -> String| {
            let numbers: Vec<String> = (FIRST..=FIELDS).map(number).collect();
            Stat::parse(std::format!("7 (a) S {}\n", numbers.join(" ")).as_bytes()).unwrap()
        };
        [
            of(&|field| field.to_string()),
            of(&|field| std::format!("-{field}")),
            of(&|_| i64::MIN.to_string()),
            of(&|_| u64::MAX.to_string()),
            of(&|field| if field % 2 == 0 { "0".into() } else { "10".into() }),
        ]
        .into()
    }

    use std::string::ToString;

    #[test]
    fn it_writes_what_the_line_writes() {
        for line in lines() {
            let template = Template::new(&line);
            let wanted = text(|to| line.write(to));
            assert_eq!(text(|to| template.write(7, b"a", b'S', to)), wanted);
            let host = std::fs::read("/proc/self/stat").unwrap();
            let line = Stat::parse(&host).unwrap();
            let written = text(|to| Template::new(&line).write(line.id, line.name(), line.state, to));
            assert_eq!(written.as_bytes(), host);
        }
    }

    #[test]
    fn every_field_that_changes_can_be_set() {
        for mut line in lines() {
            let mut template = Template::new(&line);
            for (i, field) in CHANGING.into_iter().enumerate() {
                let value = 1_000_000 + i as i64;
                line.set(field, value);
                template.set(field, value);
                assert_eq!(text(|to| template.write(7, b"a", b'S', to)), text(|to| line.write(to)), "{field:?}");
            }
            let before = template;
            template.set(Field::Vsize, 5);
            assert_eq!(template, before, "the process's stay");
        }
    }

    #[test]
    fn words_come_back() {
        for line in lines() {
            let template = Template::new(&line);
            let mut words = [0; WORDS];
            let used = template.store(|at, word| words[at] = word);
            assert!(used <= WORDS);
            let mut loaded = Template::EMPTY;
            loaded.load(|at| words[at]);
            assert_eq!(loaded, template);
        }
        // Torn words must not cause a panic.
        for word in [u64::MAX, 1 << 32, 700 << 32 | 700, 5] {
            let mut template = Template::EMPTY;
            template.load(|_| word);
            let mut bytes = [0; 4096];
            let _ = template.write(1, b"", b'R', &mut Room::new(&mut bytes));
        }
    }
}
