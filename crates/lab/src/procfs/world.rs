//! One process and its threads, reduced to what a look-up needs.

use ::procfs::text::Room;
use ::procfs::{Owner, ThreadId, Threads};
use core::fmt::Write;

/// Its id.
pub const PROCESS: i32 = 4_194_400;

/// Threads `PROCESS ..`, by number.
#[derive(Debug)]
pub struct World {
    threads: i32,
}

impl World {
    pub(super) fn new(threads: usize) -> World {
        World { threads: threads as i32 }
    }

    pub(super) fn path<'a>(&self, n: usize, bytes: &'a mut [u8; 40]) -> &'a [u8] {
        let len = {
            let mut room = Room::new(bytes);
            // A number and two words fit.
            let _ = write!(room, "self/task/{}/stat", PROCESS + n as i32);
            room.text().len()
        };
        &bytes[..len]
    }

    fn get(&self, n: i32) -> Option<ThreadId> {
        (0..self.threads).contains(&n).then(|| ThreadId { slot: n as u32, id: PROCESS + n })
    }
}

impl Threads for World {
    fn find(&self, id: i32) -> Option<ThreadId> {
        self.get(id - PROCESS)
    }
    fn lives(&self, thread: ThreadId) -> bool {
        self.find(thread.id) == Some(thread)
    }
    fn leader(&self, _: ThreadId) -> Option<ThreadId> {
        self.get(0)
    }
    fn owner(&self, _: ThreadId) -> Option<Owner> {
        Some(Owner { dumpable: true, ..Owner::default() })
    }
    fn next_process(&self, at_least: i32) -> Option<ThreadId> {
        self.get(0).filter(|leader| leader.id >= at_least)
    }
    fn next_thread(&self, _: ThreadId, after: i32) -> Option<ThreadId> {
        self.get((after - PROCESS + 1).max(0))
    }
    fn count(&self, _: ThreadId) -> u32 {
        self.threads as u32
    }
}
