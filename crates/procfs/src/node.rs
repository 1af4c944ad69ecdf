//! The target of a path.

use crate::entries::{self, Entry};

/// A thread as the tree names it: a slot, and the id that its owner has. A slot has another id when it has another
/// owner, so the two together are never somebody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadId {
    /// Where its owner is found.
    pub slot: u32,
    /// The thread's id.
    pub id: i32,
}

impl ThreadId {
    /// The owner of nodes that belong to no thread.
    pub const NONE: ThreadId = ThreadId { slot: u32::MAX, id: 0 };
}

/// A directory's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Dir {
    /// `/proc`.
    Root,
    /// `/proc/PID`: also of a thread that is no process's first, which can be opened but is not listed.
    Process,
    /// `/proc/PID/task`.
    Tasks,
    /// `/proc/PID/task/TID`.
    Thread,
    /// `/proc/sys`.
    Sys,
    /// `/proc/sys/kernel`.
    SysKernel,
}

impl Dir {
    const ALL: [Dir; 6] = [Dir::Root, Dir::Process, Dir::Tasks, Dir::Thread, Dir::Sys, Dir::SysKernel];
}

/// The place in the tree, for any owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A directory of ours.
    Dir(Dir),
    /// An entry of such a directory that is not a directory itself: its number there.
    Entry(Dir, u8),
}

/// A directory or file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// Where it is.
    pub place: Place,
    /// The owner; [`ThreadId::NONE`] above the processes.
    pub thread: ThreadId,
}

const IS_ENTRY: u32 = 1 << 16;

impl Node {
    /// `/proc` itself.
    pub const ROOT: Node = Node { place: Place::Dir(Dir::Root), thread: ThreadId::NONE };

    /// The entry that it is, unless it is a directory of ours.
    pub fn entry(&self) -> Option<&'static Entry> {
        match self.place {
            Place::Dir(_) => None,
            Place::Entry(dir, index) => entries::of(dir).get(index as usize),
        }
    }

    /// The directory of ours that it is.
    pub fn dir(&self) -> Option<Dir> {
        match self.place {
            Place::Dir(dir) => Some(dir),
            Place::Entry(..) => None,
        }
    }

    /// Whether a thread must live for it to be there.
    pub fn is_of_thread(&self) -> bool {
        self.thread != ThreadId::NONE
    }

    /// The node's inode number: unique, and the same for as long as its thread lives. Linux numbers inodes as they are
    /// made, and the host's /proc has numbers below 2³².
    pub fn inode(&self) -> u64 {
        (u64::from(self.thread.id as u32) << 24 | u64::from(self.tag())) + (1 << 32)
    }

    /// The place as a word.
    pub(crate) fn tag(&self) -> u32 {
        match self.place {
            Place::Dir(dir) => (dir as u32) << 8,
            Place::Entry(dir, index) => IS_ENTRY | (dir as u32) << 8 | u32::from(index),
        }
    }

    /// The node of a tag, if it is one.
    pub(crate) fn from_tag(tag: u32, thread: ThreadId) -> Option<Node> {
        let dir = *Dir::ALL.get((tag >> 8 & 0xff) as usize)?;
        let place = if tag & IS_ENTRY != 0 { Place::Entry(dir, tag as u8) } else { Place::Dir(dir) };
        Some(Node { place, thread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_its_node() {
        for dir in Dir::ALL {
            let thread = ThreadId { slot: 3, id: 77 };
            for place in [Place::Dir(dir), Place::Entry(dir, 0), Place::Entry(dir, 51)] {
                let node = Node { place, thread };
                assert_eq!(Node::from_tag(node.tag(), thread), Some(node));
            }
        }
        assert_eq!(Node::from_tag(9 << 8, ThreadId::NONE), None);
    }

    #[test]
    fn inodes_differ() {
        let of = |place, id| Node { place, thread: ThreadId { slot: 0, id } }.inode();
        let all = [
            of(Place::Dir(Dir::Process), 7),
            of(Place::Dir(Dir::Thread), 7),
            of(Place::Entry(Dir::Thread, 0), 7),
            of(Place::Entry(Dir::Process, 0), 7),
            of(Place::Entry(Dir::Process, 0), 8),
            Node::ROOT.inode(),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{all:x?}");
        }
    }
}
