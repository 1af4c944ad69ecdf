//! Which paths are ours.

use super::AT_FDCWD;
use super::view::View;
use crate::{Host, Linux};
use abi::args::{AT_EMPTY_PATH, STATX_INO};
use core::ffi::CStr;
use procfs::entries::Is;
use procfs::node::{Dir, Place};
use procfs::{Node, Owner, Threads};

/// Paths of ours are shorter; with longer names behind them they are the host's to refuse.
pub(super) const PATH_MAX: usize = 320;
/// Most are shorter than this: a buffer for the others is some cycles of zeros.
pub(super) const PATH_SHORT: usize = 64;
const PREFIX: &[u8] = b"/proc/";
const PREFIX_WORD: u64 = u64::from_le_bytes(*b"/proc/\0\0");
const PREFIX_MASK: u64 = (1 << 48) - 1;
const PAGE: u64 = 4096;
/// How the names of ours begin that the host's `/proc` has, too, but for numbers.
const BEGINNINGS: [u32; 10] = [
    u32::from_le_bytes(*b"self"),
    u32::from_le_bytes(*b"thre"),
    u32::from_le_bytes(*b"task"),
    u32::from_le_bytes(*b"stat"),
    u32::from_le_bytes(*b"comm"),
    u32::from_le_bytes(*b"sche"),
    u32::from_le_bytes(*b"time"),
    u32::from_le_bytes(*b"wcha"),
    u32::from_le_bytes(*b"stac"),
    u32::from_le_bytes(*b"limi"),
];

/// A path of the program's that may be ours: where it begins, and what follows.
pub(super) struct ProcPath<'b> {
    pub from: Node,
    pub rest: &'b [u8],
    /// It was written out from the root.
    pub absolute: bool,
}

impl<M: Host> Linux<'_, M> {
    /// Whether a path may be one of ours, by its first bytes. Nothing behind the path's page is touched, since
    /// nothing may be there: what begins at a page's end is looked at whole.
    #[inline]
    pub(super) fn may_be_proc(&self, at: u64) -> bool {
        if at % PAGE > PAGE - 8 {
            return true;
        }
        let is = |word: u64| match word as u8 {
            b'/' => word & PREFIX_MASK == PREFIX_WORD || matches!((word >> 8) as u8, b'/' | b'.'),
            first => {
                first.is_ascii_digit() || BEGINNINGS.contains(&(word as u32)) || self.state().proc.files.has_folders()
            }
        };
        self.get::<u64>(at).is_ok_and(is)
    }

    /// A path of the program's: how long it is. `None` if it does not fit, or cannot be read, which the host will say.
    pub(super) fn copy_path(&self, at: u64, to: &mut [u8]) -> Option<usize> {
        let mut len = 0;
        loop {
            let at = at.wrapping_add(len as u64);
            let room = to.get_mut(len..).filter(|room| !room.is_empty())?;
            match room.first_chunk_mut() {
                Some(bytes) if at % PAGE <= PAGE - 8 => {
                    *bytes = self.get::<u64>(at).ok()?.to_le_bytes();
                    if let Some(zero) = bytes.iter().position(|&byte| byte == 0) {
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
        if path.first() == Some(&b'/') {
            let rest = path.strip_prefix(PREFIX).or_else(|| below_proc(path))?;
            return self.begins_with_ours(rest).then_some(ProcPath { from: Node::ROOT, rest, absolute: true });
        }
        if path.is_empty() {
            return None;
        }
        let from = match self.state().proc.files.folder(dirfd as i32) {
            Some(from) => from,
            None => self.hosts_folder(dirfd, path)?,
        };
        Some(ProcPath { from, rest: path, absolute: false })
    }

    /// A directory of ours that was not opened as one: as part of `/proc`, before an exec, by another process, or that is
    /// the working directory. The host is asked only if the path begins with a name of ours.
    #[cold]
    #[inline(never)]
    fn hosts_folder(&self, dirfd: u64, path: &[u8]) -> Option<Node> {
        let first = first_names(path).next()?;
        let (in_root, in_process) = (self.begins_with_ours(path), is_entry(Dir::Process, first));
        if !(in_root || in_process || is_entry(Dir::Thread, first)) {
            return None;
        }
        let [device, inode] = self.file_at(dirfd, c"", AT_EMPTY_PATH)?;
        let [of_proc, root] = self.file_at(AT_FDCWD, c"/proc", 0)?;
        if device != of_proc {
            return None;
        }
        if inode == root {
            return in_root.then_some(Node::ROOT);
        }
        let process = View { k: *self, owner: Owner::default() }.find(self.config().pid.0)?;
        let folders =
            [(c"/proc/self", Dir::Process), (c"/proc/self/task", Dir::Tasks), (c"/proc/thread-self", Dir::Thread)];
        let same = |path| self.file_at(AT_FDCWD, path, 0) == Some([device, inode]);
        let (_, dir) = folders.into_iter().find(|&(path, _)| same(path))?;
        Some(Node { place: Place::Dir(dir), thread: process })
    }

    /// Device and inode number of a file of the host's.
    fn file_at(&self, dirfd: u64, path: &CStr, flags: u64) -> Option<[u64; 2]> {
        self.statx(dirfd, path, flags, STATX_INO).map(|known| [known[17], known[4]])
    }

    /// Of the names in `/proc` only those of this process are ours.
    fn begins_with_ours(&self, rest: &[u8]) -> bool {
        match first_names(rest).next() {
            Some(b"self" | b"thread-self") => true,
            Some(name) => procfs::id_of(name)
                .is_some_and(|id| View { k: *self, owner: procfs::Owner::default() }.find(id).is_some()),
            None => false,
        }
    }
}

/// The rest after `/proc/` of an absolute path that has empty names, "." or ".." before it.
#[cold]
fn below_proc(path: &[u8]) -> Option<&[u8]> {
    let mut rest = path;
    loop {
        rest = rest.strip_prefix(b"/")?;
        let name = rest.split(|&byte| byte == b'/').next()?;
        match name {
            b"" | b"." | b".." => rest = &rest[name.len()..],
            b"proc" => return rest[name.len()..].strip_prefix(b"/"),
            _ => return None,
        }
    }
}

/// Whether there is such a file or directory of ours.
fn is_entry(dir: Dir, name: &[u8]) -> bool {
    dir == Dir::Process && name == b"task"
        || procfs::entries::of(dir).iter().any(|entry| entry.name.as_bytes() == name && matches!(entry.is, Is::Ours(_)))
}

/// The names of a path that lead elsewhere: "." does not.
pub(super) fn first_names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_has_many_names() {
        for (path, rest) in [
            ("//proc/self", Some("self")),
            ("/./proc//self", Some("/self")),
            ("/../.././proc/1/stat", Some("1/stat")),
            ("//proc", None),
            ("//process/self", None),
            ("/tmp/proc/self", None),
            ("//", None),
        ] {
            assert_eq!(below_proc(path.as_bytes()), rest.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn names_of_ours_are_known_by_their_beginnings() {
        for dir in [Dir::Process, Dir::Thread] {
            let ours = procfs::entries::of(dir).iter().filter(|entry| matches!(entry.is, Is::Ours(_)));
            for name in ours.map(|entry| entry.name.as_bytes()).chain([&b"task"[..], b"self", b"thread-self"]) {
                let first = name.first_chunk().copied().map(u32::from_le_bytes);
                assert!(first.is_some_and(|first| BEGINNINGS.contains(&first)), "{name:?}");
            }
        }
    }

    #[test]
    fn the_prefix_is_a_word() {
        assert_eq!(PREFIX_WORD.to_le_bytes()[..PREFIX.len()], *PREFIX);
        assert_eq!(PREFIX_MASK.count_ones() as usize, 8 * PREFIX.len());
    }
}
