//! The host's `status` of the process, cached for its threads: a scan of all threads reads one for each.

use super::FACTS_LAST;
use super::known::Known;
use crate::{Host, Linux};
use alloc::vec::Vec;
use ids::Nanos;
use sync::atomic::Ordering::Relaxed;

/// A longer text is not kept.
const LEN_MAX: usize = 3072;

/// The text's length, and the text.
pub(super) type KnownStatus = Known<{ 1 + LEN_MAX / 8 }>;

impl<M: Host> Linux<'_, M> {
    /// Calls `using` with the host's text of the process. For a thread it is at most [`FACTS_LAST`] old; for the
    /// process it is current, because programs measure their memory with it.
    pub(super) fn host_status<R>(&self, whole: bool, using: impl FnOnce(&[u8]) -> R) -> R {
        let (now, changes) = (self.now(), self.state().proc.changes.load(Relaxed));
        let since = Nanos(now.0.saturating_sub(FACTS_LAST.0));
        if !whole && let Some(words) = self.state().proc.status.get(since, changes) {
            let bytes = words.map(u64::to_le_bytes);
            let (_, text) = bytes.as_flattened().split_at(8);
            return using(&text[..words[0] as usize]);
        }
        using(&self.ask_for_status(now, changes))
    }

    #[cold]
    #[inline(never)]
    fn ask_for_status(&self, now: Nanos, changes: u64) -> Vec<u8> {
        let text = self.read_host_file(c"/proc/thread-self/status");
        if text.len() <= LEN_MAX {
            let mut bytes = [[0; 8]; 1 + LEN_MAX / 8];
            bytes[0] = (text.len() as u64).to_le_bytes();
            bytes[1..].as_flattened_mut()[..text.len()].copy_from_slice(&text);
            self.state().proc.status.set(now, changes, &bytes.map(u64::from_le_bytes));
        }
        text
    }
}
