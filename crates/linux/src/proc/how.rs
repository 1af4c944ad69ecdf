//! `openat2(2)`: how a path may be walked.

use crate::{Host, Linux};
use abi::args::{O_CREAT, O_PATH, O_TRUNC};
use kernel::machine::Call;
use procfs::walk::Within;

const NO_XDEV: u64 = 1;
pub(super) const NO_MAGICLINKS: u64 = 2;
pub(super) const NO_SYMLINKS: u64 = 4;
const BENEATH: u64 = 8;
const IN_ROOT: u64 = 0x10;
pub(super) const CACHED: u64 = 0x20;
/// With these an absolute path leaves its starting point, or starts elsewhere.
pub(super) const WITHIN: u64 = NO_XDEV | BENEATH | IN_ROOT;
const ALL: u64 = 0x3f;

/// The size of the first `struct open_how`.
pub(super) const SIZE: usize = 24;
/// Fields that later versions added must be zero.
const SIZE_MAX: usize = 64;

/// `__O_TMPFILE`
const TMPFILE: u64 = 0o20000000;
/// All flags (`VALID_OPEN_FLAGS`), and those that are valid with O_PATH.
const VALID: u64 = 0x7f_ffc3;
const VALID_WITH_PATH: u64 = O_PATH | 0o200000 | 0o400000 | 0o2000000;

/// `struct open_how`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct How {
    pub flags: u64,
    pub resolve: u64,
}

impl How {
    /// Where the walk must stay.
    pub(super) fn within(&self) -> Within {
        match self.resolve {
            resolve if resolve & BENEATH != 0 => Within::Beneath,
            resolve if resolve & IN_ROOT != 0 => Within::Root,
            _ => Within::Anywhere,
        }
    }

    /// Creating and truncating may wait, so they are refused with RESOLVE_CACHED (`build_open_flags`).
    pub(super) fn must_wait(&self) -> bool {
        self.resolve & CACHED != 0 && self.flags & (O_CREAT | O_TRUNC) != 0
    }

    fn is_valid(&self, mode: u64) -> bool {
        let both = BENEATH | IN_ROOT;
        self.flags & !VALID == 0
            && self.resolve & !ALL == 0
            && self.resolve & both != both
            && self.flags & TMPFILE == 0
            && (self.flags & O_PATH == 0 || self.flags & !VALID_WITH_PATH == 0)
            && (mode == 0 || self.flags & O_CREAT != 0 && mode <= 0o7777)
    }
}

impl<M: Host> Linux<'_, M> {
    /// The structure of an `openat2`. `None`: the host refuses it.
    pub(super) fn read_how(&self, call: &Call) -> Option<How> {
        let (at, size) = (call.args[2], call.args[3] as usize);
        let mut bytes = [0; SIZE_MAX];
        let given = bytes.get_mut(..size).filter(|given| given.len() >= SIZE)?;
        self.m.read(at, given).ok()?;
        let word = |i: usize| bytes.as_chunks::<8>().0.get(i).map_or(0, |word| u64::from_le_bytes(*word));
        let how = How { flags: word(0), resolve: word(2) };
        let is_of_old = bytes[SIZE..].iter().all(|&byte| byte == 0);
        (is_of_old && how.is_valid(word(1))).then_some(how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_refuses_is_left_to_it() {
        let how = |flags, resolve| How { flags, resolve };
        assert!(how(0, 0).is_valid(0) && how(O_CREAT, ALL & !IN_ROOT).is_valid(0o644));
        assert!(how(O_PATH | 0o400000, NO_SYMLINKS).is_valid(0));
        let bad = [(1 << 30, 0, 0), (0, 0x40, 0), (0, BENEATH | IN_ROOT, 0), (O_PATH | 1, 0, 0), (0, 0, 0o644)];
        for (flags, resolve, mode) in bad {
            assert!(!how(flags, resolve).is_valid(mode), "{flags:o} {resolve:x} {mode:o}");
        }
        assert!(!how(O_CREAT, 0).is_valid(0o10000));
    }

    #[test]
    fn where_a_walk_stays() {
        let how = |flags, resolve| How { flags, resolve };
        assert_eq!(how(0, BENEATH | CACHED).within(), Within::Beneath);
        assert_eq!(how(0, IN_ROOT).within(), Within::Root);
        assert_eq!(how(0, NO_XDEV | NO_SYMLINKS).within(), Within::Anywhere);
        assert!(how(O_TRUNC, CACHED).must_wait() && !how(O_TRUNC, 0).must_wait() && !how(0, CACHED).must_wait());
    }
}
