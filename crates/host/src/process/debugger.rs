//! The table by which a debugger that has stopped the process finds its threads, most of which have no host thread.
//! `entresol gdb` finds the table by its first words.

use crate::base::sites;
use crate::process::Process;
use arch::{Context, entry};
use core::mem::offset_of;
use sync::atomic::{AtomicU64, Ordering::*};

/// The words of the table; the script in the command has their order.
const WORDS: usize = 18;
/// The first words of the table, by which debuggers find it in the image's writable memory.
const MAGIC: [u64; 2] = [0x6c6f_7365_7274_6e65, 0x7265_6767_7562_6564];
const VERSION: u64 = 1;

/// The version is zero until there is a kernel. Nothing in the image reads the table.
#[used]
static TABLE: [AtomicU64; WORDS] = {
    let mut table = [const { AtomicU64::new(0) }; WORDS];
    table[0] = AtomicU64::new(MAGIC[0]);
    table[1] = AtomicU64::new(MAGIC[1]);
    table
};

/// Fills the table for the present kernel.
pub(crate) fn publish(k: &Process) {
    let threads = k.threads().layout();
    let words = [
        MAGIC[0],
        MAGIC[1],
        VERSION,
        k.m.contexts.table(),
        crate::base::contexts::CHUNK as u64,
        size_of::<Context>() as u64,
        offset_of!(Context, r) as u64,
        offset_of!(Context, rip) as u64,
        offset_of!(Context, claim) as u64,
        threads.chunks,
        threads.chunk,
        threads.size,
        threads.tid,
        threads.name,
        threads.wait,
        sites::first(),
        entry::entresol_entry_call as *const () as u64,
        entry::entresol_entry_vectors as *const () as u64,
    ];
    for (word, value) in TABLE.iter().zip(words) {
        word.store(value, Relaxed);
    }
}
