//! The rest of a path: its components, and those of a link on the way.

use crate::entries::Is;
use crate::name::Name;
use crate::permission::Caller;
use crate::text::Room;

/// "PID/task/TID".
pub(crate) const LINK_MAX: usize = 32;

/// The rest of the path, and before it the rest of a link.
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

/// Writes the text of `self` or `thread-self` for this caller and returns its length.
#[inline]
pub fn link_text(caller: &Caller<'_>, is: Option<Is>, text: &mut [u8; 32]) -> usize {
    let mut room = Room::new(text);
    // Two numbers and a word fit.
    let _ = room.number(caller.process as u64);
    if is == Some(Is::ThreadSelfLink) {
        let _ = room.raw(b"/task/").and_then(|()| room.number(caller.thread as u64));
    }
    room.text().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn a_links_text_is_where_it_leads() {
        for process in [1, 42, 12_345, 4_194_304, 99_999_999, 100_000_000, i32::MAX] {
            for thread in [1, 17, 4_194_303, 123_456_789, i32::MAX] {
                let caller = Caller { process, thread, ..Caller::default() };
                let mut text = [0xff; 32];
                let len = link_text(&caller, Some(Is::SelfLink), &mut text);
                assert_eq!(text[..len], *format!("{process}").as_bytes());
                let len = link_text(&caller, Some(Is::ThreadSelfLink), &mut text);
                assert_eq!(text[..len], *format!("{process}/task/{thread}").as_bytes());
            }
        }
    }
}
