//! Which paths are ours.

use super::view::View;
use crate::Kernel;
use crate::machine::Machine;
use procfs::{Node, Threads};

/// Paths of ours are shorter; with longer names behind them they are the host's to refuse.
pub(super) const PATH_MAX: usize = 320;
const PREFIX: &[u8] = b"/proc/";
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
        let (mut first, len) = ([0; PREFIX.len()], PREFIX.len().min((PAGE - at % PAGE) as usize));
        self.m.read(at, &mut first[..len]).is_ok()
            && (first[..len] == PREFIX[..len] || first[0] != b'/' && self.proc.files.has_folders())
    }

    /// A path that is ours to look at: below `/proc` with a first name of ours, or relative to a directory of ours.
    #[inline(never)]
    pub(super) fn proc_path<'b>(&self, dirfd: u64, at: u64, bytes: &'b mut [u8; PATH_MAX]) -> Option<ProcPath<'b>> {
        let (mut len, mut seen) = (0, 0);
        let end = loop {
            if let Some(end) = first_zero(&bytes[seen..len]) {
                break seen + end;
            }
            seen = len;
            let at = at.wrapping_add(len as u64);
            let more = ((PAGE - at % PAGE) as usize).min(64).min(PATH_MAX - len);
            if more == 0 {
                return None;
            }
            self.m.read(at, &mut bytes[len..len + more]).ok()?;
            len += more;
        };
        let path = &bytes[..end];
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

/// Where the first zero is, eight bytes at a time.
fn first_zero(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    while let Some(part) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*part);
        // The lowest byte that is zero, and perhaps some above it, has its highest bit set.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes[at..].iter().position(|&byte| byte == 0).map(|n| at + n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_found_wherever_they_are() {
        for len in 0..40 {
            for at in 0..=len {
                let mut bytes = [0x80_u8; 41];
                bytes[at..].iter_mut().skip(1).step_by(3).for_each(|byte| *byte = 0);
                bytes[at] = u8::from(at == len) * 7;
                let wanted = bytes[..len].iter().position(|&byte| byte == 0);
                assert_eq!(first_zero(&bytes[..len]), wanted, "{at} of {len}");
                let mut ones = [1_u8; 41];
                ones[at.min(39)] = 0;
                assert_eq!(first_zero(&ones[..len]), (at < len).then_some(at));
            }
        }
    }
}
