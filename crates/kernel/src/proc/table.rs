//! Open files by their numbers. The low numbers, which nearly all programs use, each have a place of their own in memory,
//! so that threads which open, read and close at the same time meet at the lock of the table and nowhere else.

use super::files::OpenFile;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use sync::CachePadded;

/// Numbers below this are near: a bit each in a word.
const NEAR: usize = 64;

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Which of the near numbers stand for something.
    used: u64,
    /// Made when the first is needed.
    near: Option<Box<[CachePadded<Option<OpenFile>>]>>,
    far: BTreeMap<i32, OpenFile>,
}

fn near(fd: i32) -> Option<usize> {
    usize::try_from(fd).ok().filter(|&fd| fd < NEAR)
}

/// The near numbers from one to another.
fn mask(first: i32, last: i32) -> u64 {
    let from = first.max(0) as usize;
    let (Some(last), true) = (last.min(NEAR as i32 - 1).try_into().ok(), from < NEAR) else { return 0 };
    let last: usize = last;
    if last < from { 0 } else { u64::MAX >> (NEAR - 1 - (last - from)) << from }
}

/// The numbers of the bits.
fn numbers(mut bits: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let number = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (number < NEAR).then_some(number)
    })
}

impl Table {
    pub(super) fn get(&self, fd: i32) -> Option<&OpenFile> {
        match near(fd) {
            Some(at) => self.near.as_ref()?.get(at)?.0.as_ref(),
            None => self.far.get(&fd),
        }
    }

    pub(super) fn get_mut(&mut self, fd: i32) -> Option<&mut OpenFile> {
        match near(fd) {
            Some(at) => self.near.as_mut()?.get_mut(at)?.0.as_mut(),
            None => self.far.get_mut(&fd),
        }
    }

    /// What the number stood for before.
    pub(super) fn insert(&mut self, fd: i32, file: OpenFile) -> Option<OpenFile> {
        let Some(at) = near(fd) else { return self.far.insert(fd, file) };
        self.used |= 1 << at;
        let near = self.near.get_or_insert_with(|| (0..NEAR).map(|_| CachePadded(None)).collect());
        near[at].0.replace(file)
    }

    pub(super) fn remove(&mut self, fd: i32) -> Option<OpenFile> {
        let Some(at) = near(fd) else { return self.far.remove(&fd) };
        self.used &= !(1 << at);
        self.near.as_mut()?.get_mut(at)?.0.take()
    }

    /// Those from one number to another, lowest first.
    pub(super) fn range(&self, first: i32, last: i32) -> impl Iterator<Item = (i32, &OpenFile)> {
        let near = numbers(self.used & mask(first, last)).map(|at| at as i32);
        let far = (first <= last).then(|| self.far.range(first..=last)).into_iter().flatten().map(|(&fd, _)| fd);
        near.chain(far).filter_map(|fd| Some((fd, self.get(fd)?)))
    }

    /// Changes all from that number on.
    pub(super) fn each_from(&mut self, first: i32, change: impl Fn(&mut OpenFile)) {
        for at in numbers(self.used & mask(first, i32::MAX)) {
            if let Some(file) = self.near.as_mut().and_then(|near| near.get_mut(at)?.0.as_mut()) {
                change(file);
            }
        }
        self.far.range_mut(first..).for_each(|(_, file)| change(file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use procfs::Node;

    #[test]
    fn it_does_what_a_map_does() {
        let (mut table, mut map, mut state) = (Table::default(), BTreeMap::new(), 0x2545_f491_4f6c_dd1d_u64);
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (fd, other) = ((state >> 8 & 0x7f) as i32, (state >> 16 & 0x7f) as i32);
            let file = OpenFile { cursor: state, ..OpenFile::new(Node::ROOT, true, false, false) };
            let cursor = |file: OpenFile| file.cursor;
            match state % 5 {
                0 | 1 => assert_eq!(table.insert(fd, file).map(cursor), map.insert(fd, state)),
                2 => assert_eq!(table.remove(fd).map(cursor), map.remove(&fd)),
                3 => {
                    table.each_from(fd, |file| file.cursor ^= 1);
                    map.range_mut(fd..).for_each(|(_, cursor)| *cursor ^= 1);
                }
                _ => {
                    assert_eq!(table.get(fd).map(|file| file.cursor), map.get(&fd).copied());
                    assert_eq!(table.get_mut(fd).map(|file| file.cursor), map.get(&fd).copied());
                    let found: Vec<_> = table.range(fd, other).map(|(fd, file)| (fd, file.cursor)).collect();
                    let wanted: Vec<_> = map
                        .iter()
                        .filter(|(at, _)| (fd..=other).contains(*at))
                        .map(|(&fd, &cursor)| (fd, cursor))
                        .collect();
                    assert_eq!(found, wanted, "{fd} to {other}");
                }
            }
        }
        assert!(table.get(-1).is_none() && table.remove(i32::MIN).is_none());
        assert_eq!(table.range(-5, i32::MAX).count(), map.len());
    }
}
