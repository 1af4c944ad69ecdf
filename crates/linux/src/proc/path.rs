//! Which paths are ours.

use super::AT_FDCWD;
use super::view::View;
use crate::{Host, Linux};
use abi::args::{AT_EMPTY_PATH, STATX_INO};
use core::ffi::CStr;
use procfs::entries::Is;
use procfs::node::{Dir, Place};
use procfs::{Node, Owner, Threads};

/// Paths of ours are shorter; the host refuses longer ones.
pub(super) const PATH_MAX: usize = 320;
/// Most paths are shorter than this: zeroing a larger buffer takes some cycles.
pub(super) const PATH_SHORT: usize = 64;
const PREFIX: &[u8] = b"/proc/";
const DESCRIPTORS: &[u8; 8] = b"/dev/fd/";
const PREFIX_WORD: u64 = u64::from_le_bytes(*b"/proc/\0\0");
const PREFIX_MASK: u64 = (1 << 48) - 1;
const PAGE: u64 = 4096;
/// The beginnings of our names that the host's `/proc` has, too, except numbers.
const BEGINNINGS: [u32; 11] = [
    u32::from_le_bytes(*b"proc"),
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

/// A path of the program's that may be ours: its starting point, and the rest.
pub(super) struct ProcPath<'b> {
    pub from: Node,
    pub rest: &'b [u8],
    /// The path reaches `from` from elsewhere: from the root, or from a directory other than the one named in the call.
    pub absolute: bool,
    /// The path went through a link of the process that is not a text.
    pub by_link: bool,
}

impl<'b> ProcPath<'b> {
    /// The path with this rest after `/proc/`.
    fn from_root(rest: &'b [u8]) -> ProcPath<'b> {
        ProcPath { from: Node::ROOT, rest, absolute: true, by_link: false }
    }
}

impl<M: Host> Linux<'_, M> {
    /// Whether a path may be ours, by its first bytes. Does not read beyond the path's page, where memory may be
    /// missing: a path that begins at a page's end is examined completely.
    #[inline]
    pub(super) fn may_be_proc(&self, at: u64) -> bool {
        if at % PAGE > PAGE - 8 {
            return true;
        }
        let is = |word: u64| match word as u8 {
            b'/' => {
                word & PREFIX_MASK == PREFIX_WORD
                    || matches!((word >> 8) as u8, b'/' | b'.')
                    || word == u64::from_le_bytes(*DESCRIPTORS)
                    || word == super::online::BEGINNING
            }
            b'.' => true,
            first => {
                first.is_ascii_digit() || BEGINNINGS.contains(&(word as u32)) || self.state().proc.files.has_folders()
            }
        };
        self.get::<u64>(at).is_ok_and(is)
    }

    /// Copies a path of the program's; returns its length. `None` if it does not fit or cannot be read, which the host
    /// reports.
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

    /// A path that may be ours: below `/proc` with a first name of ours, or relative to a directory of ours.
    #[inline]
    pub(super) fn proc_path<'b>(&self, dirfd: u64, path: &'b [u8]) -> Option<ProcPath<'b>> {
        if path.first() == Some(&b'/') {
            let plain = path.strip_prefix(PREFIX).filter(|rest| rest.first() != Some(&b'.'));
            return match plain.or_else(|| below_proc(path)) {
                Some(rest) => self.begins_with_ours(rest).then_some(ProcPath::from_root(rest)),
                None => self.below_descriptor(path.strip_prefix(DESCRIPTORS)?),
            };
        }
        if path.is_empty() {
            return None;
        }
        match self.state().proc.files.folder(dirfd as i32) {
            Some(from) => match out_and_back(&from, path).filter(|rest| self.begins_with_ours(rest)) {
                Some(rest) => Some(ProcPath::from_root(rest)),
                None => Some(ProcPath { from, rest: path, absolute: false, by_link: false }),
            },
            None => self.hosts_folder(dirfd, path),
        }
    }

    /// The path after a link of the process that is not a text, if the link leads to a directory of ours.
    pub(super) fn behind_link<'b>(&self, link: &Node, rest: &'b [u8]) -> Option<ProcPath<'b>> {
        let below = without_slashes(rest);
        let path = match link.entry()?.name {
            "root" => self.proc_path(AT_FDCWD, rest)?,
            "cwd" => self.proc_path(AT_FDCWD, below)?,
            "fd" => return self.below_descriptor(below),
            _ => return None,
        };
        Some(ProcPath { absolute: true, by_link: true, ..path })
    }

    /// The path with this rest after `/dev/fd/`: a number, and names below it.
    #[cold]
    fn below_descriptor<'b>(&self, path: &'b [u8]) -> Option<ProcPath<'b>> {
        let slash = path.iter().position(|&byte| byte == b'/')?;
        let fd = procfs::id_of(&path[..slash])?;
        let path = self.proc_path(fd as u64, without_slashes(&path[slash..]))?;
        Some(ProcPath { absolute: true, by_link: true, ..path })
    }

    /// A directory of ours that was not opened as one: as part of `/proc`, before an exec, by another process, or the
    /// working directory; and what leads to one from there. The host is asked only if a name of ours follows.
    #[cold]
    #[inline(never)]
    fn hosts_folder<'b>(&self, dirfd: u64, path: &'b [u8]) -> Option<ProcPath<'b>> {
        let (way, rest) = before_first_name(path);
        let first = first_names(rest).next()?;
        let below_root = rest.strip_prefix(b"proc/").filter(|rest| self.begins_with_ours(rest));
        let (in_root, in_process) = (self.begins_with_ours(rest), is_entry(Dir::Process, first));
        if !(below_root.is_some() || in_root || in_process || is_entry(Dir::Thread, first)) {
            return None;
        }
        let goes_up = way.windows(2).any(|pair| pair == b"..");
        let mut text = [0; 32];
        if goes_up {
            text.get_mut(..way.len())?.copy_from_slice(way);
        }
        let found = self.file_at(dirfd, CStr::from_bytes_until_nul(&text).ok()?, AT_EMPTY_PATH)?;
        if let Some(rest) = below_root {
            return (found == self.file_at(AT_FDCWD, c"/", 0)?).then_some(ProcPath::from_root(rest));
        }
        let root = self.file_at(AT_FDCWD, c"/proc", 0)?;
        if found == root {
            return in_root.then_some(ProcPath { from: Node::ROOT, rest, absolute: goes_up, by_link: false });
        }
        if found[0] != root[0] {
            return None;
        }
        let process = View { k: *self, owner: Owner::default() }.find(self.config().pid.0)?;
        let folders =
            [(c"/proc/self", Dir::Process), (c"/proc/self/task", Dir::Tasks), (c"/proc/thread-self", Dir::Thread)];
        let (_, dir) = folders.into_iter().find(|&(path, _)| self.file_at(AT_FDCWD, path, 0) == Some(found))?;
        let from = Node { place: Place::Dir(dir), thread: process };
        Some(ProcPath { from, rest, absolute: goes_up, by_link: false })
    }

    /// Device and inode number of a host file.
    fn file_at(&self, dirfd: u64, path: &CStr, flags: u64) -> Option<[u64; 2]> {
        self.statx(dirfd, path, flags, STATX_INO).map(|known| [known[17], known[4]])
    }

    /// Only this process's names in `/proc` are ours.
    fn begins_with_ours(&self, rest: &[u8]) -> bool {
        match first_names(rest).next() {
            Some(b"self" | b"thread-self") => true,
            Some(name) => procfs::id_of(name)
                .is_some_and(|id| View { k: *self, owner: procfs::Owner::default() }.find(id).is_some()),
            None => false,
        }
    }
}

/// The rest after `/proc/` of an absolute path with empty names, "." or ".." around it.
#[cold]
fn below_proc(path: &[u8]) -> Option<&[u8]> {
    let mut rest = path;
    loop {
        rest = rest.strip_prefix(b"/")?;
        let name = rest.split(|&byte| byte == b'/').next()?;
        match name {
            b"" | b"." | b".." => rest = &rest[name.len()..],
            b"proc" => {
                rest = &rest[name.len()..];
                let below = rest.strip_prefix(b"/")?;
                if first_names(below).next() != Some(b"..") {
                    return Some(below);
                }
            }
            _ => return None,
        }
    }
}

/// The rest after `proc/` of a path that leaves `/proc` from one of its directories and returns.
fn out_and_back<'b>(from: &Node, path: &'b [u8]) -> Option<&'b [u8]> {
    if path.first() != Some(&b'.') {
        return None;
    }
    let (way, rest) = before_first_name(path);
    let steps = way.split(|&byte| byte == b'/').filter(|name| *name == b"..").count();
    let depth = match from.dir()? {
        Dir::Root => 0,
        Dir::Process | Dir::Sys => 1,
        Dir::Tasks | Dir::SysKernel => 2,
        Dir::Thread => 3,
    };
    rest.strip_prefix(b"proc/").filter(|_| steps > depth)
}

fn without_slashes(path: &[u8]) -> &[u8] {
    &path[path.iter().take_while(|&&byte| byte == b'/').count()..]
}

/// Empty names, "." and ".." at the beginning of a path, and the rest.
fn before_first_name(path: &[u8]) -> (&[u8], &[u8]) {
    let names = path.split(|&byte| byte == b'/').take_while(|name| matches!(*name, b"" | b"." | b".."));
    path.split_at(names.map(|name| name.len() + 1).sum::<usize>().min(path.len()))
}

/// Whether we have such a file or directory.
fn is_entry(dir: Dir, name: &[u8]) -> bool {
    dir == Dir::Process && name == b"task"
        || procfs::entries::of(dir).iter().any(|entry| entry.name.as_bytes() == name && matches!(entry.is, Is::Ours(_)))
}

/// The names of a path, except ".".
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
            ("/proc/../proc/self", Some("self")),
            ("/proc/./..//./proc/./self", Some("./self")),
            ("/proc/../tmp", None),
            ("//proc", None),
            ("//process/self", None),
            ("/tmp/proc/self", None),
            ("//", None),
        ] {
            assert_eq!(below_proc(path.as_bytes()), rest.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn a_way_ends_at_the_first_name() {
        for (path, way, rest) in [
            ("self/stat", "", "self/stat"),
            ("./../self", "./../", "self"),
            (".//..", ".//..", ""),
            ("...", "", "..."),
            ("/proc", "/", "proc"),
            ("", "", ""),
        ] {
            assert_eq!(before_first_name(path.as_bytes()), (way.as_bytes(), rest.as_bytes()), "{path}");
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
