//! What is left of a path: its components, and those of a link on the way.

use crate::entries::Is;
use crate::name::{Name, decimal};
use crate::permission::Caller;

/// "PID/task/TID".
pub(crate) const LINK_MAX: usize = 32;

/// What is left of the path, and before it of a link.
pub(crate) struct Way<'p> {
    pub path: &'p [u8],
    pub used: usize,
    pub link: [u8; LINK_MAX],
    pub link_len: usize,
    pub link_used: usize,
    pub links: u32,
}

impl Way<'_> {
    /// The next component, without the slashes before it.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Name> {
        let in_link = take(&self.link[..self.link_len], &mut self.link_used);
        in_link.or_else(|| take(self.path, &mut self.used))
    }

    pub fn is_last(&self) -> bool {
        let only_slashes = |rest: &[u8]| rest.iter().all(|&byte| byte == b'/');
        only_slashes(&self.link[self.link_used..self.link_len]) && only_slashes(&self.path[self.used..])
    }

    /// Slashes follow: what comes before them must be a directory.
    pub fn has_trailing_slash(&self) -> bool {
        self.used < self.path.len()
    }
}

#[inline(always)]
fn take(bytes: &[u8], used: &mut usize) -> Option<Name> {
    let begin = *used + bytes[*used..].iter().position(|&byte| byte != b'/')?;
    let name = Name::first(&bytes[begin..]);
    *used = begin + name.len() as usize;
    Some(name)
}

/// The text of `self` or `thread-self` for this caller; how long it is.
pub fn link_text(caller: &Caller<'_>, is: Option<Is>, text: &mut [u8; 32]) -> usize {
    // All 16 bytes of a number each time, over what was there: a copy of as many as count takes longer. Two numbers of
    // ten digits and a word between fit.
    let (process, mut len) = decimal(caller.process as u32);
    text[..16].copy_from_slice(&process);
    if is == Some(Is::ThreadSelfLink) {
        text[len..len + 6].copy_from_slice(b"/task/");
        let (thread, digits) = decimal(caller.thread as u32);
        text[len + 6..len + 22].copy_from_slice(&thread);
        len += 6 + digits;
    }
    len
}
