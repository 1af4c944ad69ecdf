//! Which paths are ours.

use super::view::View;
use crate::Kernel;
use crate::machine::{Fault, Machine};
use procfs::{Node, Threads};

/// Paths of ours are shorter; with longer names behind them they are the host's to refuse.
pub(super) const PATH_MAX: usize = 320;
/// Most are shorter than this: a buffer for the others is some cycles of zeros.
pub(super) const PATH_SHORT: usize = 64;
const PREFIX: &[u8] = b"/proc/";
const PREFIX_WORD: u64 = u64::from_le_bytes(*b"/proc/\0\0");
const PREFIX_MASK: u64 = (1 << 48) - 1;
const PAGE: u64 = 4096;

/// A path of the program's that may be ours: where it begins, and what follows.
pub(super) struct ProcPath<'b> {
    pub from: Node,
    pub rest: &'b [u8],
    /// It was written out from the root.
    pub absolute: bool,
}

impl<M: Machine> Kernel<M> {
    /// Whether a path may be one of ours, by its first bytes. Nothing behind the path's page is touched, since
    /// nothing may be there.
    #[inline]
    pub(super) fn may_be_proc(&self, at: u64) -> bool {
        let first = if at % PAGE <= PAGE - 8 { self.m.load_u64(at) } else { self.word_at_end(at) };
        let is = |word: u64| word & PREFIX_MASK == PREFIX_WORD || word as u8 != b'/' && self.proc.files.has_folders();
        first.is_ok_and(is)
    }

    /// What is left of a page at its end.
    #[cold]
    fn word_at_end(&self, at: u64) -> Result<u64, Fault> {
        let mut word = [0; 8];
        self.m.read(at, &mut word[..(PAGE - at % PAGE).min(8) as usize])?;
        Ok(u64::from_le_bytes(word))
    }

    /// A path of the program's: how long it is. `None` if it does not fit, or cannot be read, which the host will say.
    pub(super) fn copy_path(&self, at: u64, to: &mut [u8]) -> Option<usize> {
        let mut len = 0;
        loop {
            let at = at.wrapping_add(len as u64);
            let room = to.get_mut(len..).filter(|room| !room.is_empty())?;
            match room.first_chunk_mut() {
                Some(bytes) if at % PAGE <= PAGE - 8 => {
                    let word = self.m.load_u64(at).ok()?;
                    *bytes = word.to_le_bytes();
                    if let Some(zero) = procfs::first_of(0, word) {
                        return Some(len + zero);
                    }
                    len += 8;
                }
                _ => {
                    self.m.read(at, &mut room[..1]).ok()?;
                    if room[0] == 0 {
                        return Some(len);
                    }
                    len += 1;
                }
            }
        }
    }

    /// A path that is ours to look at: below `/proc` with a first name of ours, or relative to a directory of ours.
    #[inline]
    pub(super) fn proc_path<'b>(&self, dirfd: u64, path: &'b [u8]) -> Option<ProcPath<'b>> {
        if let Some(rest) = path.strip_prefix(PREFIX) {
            return self.begins_with_ours(rest).then_some(ProcPath { from: Node::ROOT, rest, absolute: true });
        }
        if path.first() == Some(&b'/') || path.is_empty() {
            return None;
        }
        let from = self.proc.files.folder(dirfd as i32)?;
        Some(ProcPath { from, rest: path, absolute: false })
    }

    /// Of the names in `/proc` only those of this process are ours.
    fn begins_with_ours(&self, rest: &[u8]) -> bool {
        match first_names(rest).next() {
            Some(b"self" | b"thread-self") => true,
            Some(name) => procfs::id_of(name)
                .is_some_and(|id| View { k: self, owner: procfs::Owner::default() }.find(id).is_some()),
            None => false,
        }
    }
}

/// The names of a path.
pub(super) fn first_names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_a_word() {
        assert_eq!(PREFIX_WORD.to_le_bytes()[..PREFIX.len()], *PREFIX);
        assert_eq!(PREFIX_MASK.count_ones() as usize, 8 * PREFIX.len());
    }
}
