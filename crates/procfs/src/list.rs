//! Directory listings by a cursor.
//!
//! A cursor is the number of the next entry; for threads it is the next id, not the next place. An entry that lives
//! throughout a listing is listed once, whatever is created or removed meanwhile, and nothing is listed twice.

use crate::Threads;
use crate::entries;
use crate::name::decimal;
use crate::node::{Dir, Node, Place};
use crate::permission::{Caller, Options};
use abi::Errno;

/// Cursors of threads: this plus the id (`TGID_OFFSET`).
const FIRST_THREAD: u64 = 256;
/// Where there is nothing more.
pub const END: u64 = 1 << 40;
/// `d_type` of directories, files and links.
const DT_DIR: u8 = 4;

/// One name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The entry's inode.
    pub inode: u64,
    /// `d_type`.
    pub kind: u8,
    /// The cursor behind it.
    pub next: u64,
}

/// Calls `tell` for the names in a directory from `cursor` on, at most `most`, until it returns false: that name was
/// not taken. Returns the cursor with which to continue. ENOENT if its thread is gone.
pub fn list<T: Threads>(
    threads: &T,
    caller: &Caller<'_>,
    options: &Options,
    node: &Node,
    cursor: u64,
    most: usize,
    mut tell: impl FnMut(&Listed<'_>) -> bool,
) -> Result<u64, Errno> {
    let dir = node.dir().ok_or(Errno::ENOTDIR)?;
    if node.is_of_thread() && !threads.lives(node.thread) {
        return Err(Errno::ENOENT);
    }
    let mut at = cursor;
    for _ in 0..most {
        let digits;
        let listed = if at < FIRST_THREAD {
            let Some(listed) = fixed(threads, node, dir, at) else {
                at = if matches!(dir, Dir::Root | Dir::Tasks) { FIRST_THREAD } else { END };
                continue;
            };
            listed
        } else if at < END {
            let Some(thread) = next_of(threads, node, dir, at) else { return Ok(END) };
            let (kind, next) = match dir {
                Dir::Root => (Dir::Process, FIRST_THREAD + thread.id as u64 + 1),
                // The first thread comes first, whatever its number.
                _ => (Dir::Thread, FIRST_THREAD + if at == FIRST_THREAD { 1 } else { thread.id as u64 + 1 }),
            };
            let child = Node { place: Place::Dir(kind), thread };
            if dir == Dir::Root && !caller.sees(threads, options, thread) {
                at = next;
                continue;
            }
            digits = decimal(thread.id as u64);
            Listed { name: &digits.0[digits.1..], inode: child.inode(), kind: DT_DIR, next }
        } else {
            return Ok(END);
        };
        if !tell(&listed) {
            break;
        }
        at = listed.next;
    }
    Ok(at)
}

fn next_of<T: Threads>(threads: &T, node: &Node, dir: Dir, at: u64) -> Option<crate::ThreadId> {
    let number = i32::try_from(at - FIRST_THREAD).ok()?;
    match dir {
        Dir::Root => threads.next_process(number.max(1)),
        Dir::Tasks if number == 0 => threads.leader(node.thread),
        Dir::Tasks => {
            let leader = threads.leader(node.thread)?;
            let next = threads.next_thread(leader, number - 1)?;
            // The leader has been listed first.
            if next == leader { threads.next_thread(leader, next.id) } else { Some(next) }
        }
        _ => None,
    }
}

/// `.`, `..`, and the names that are always there.
fn fixed<T: Threads>(threads: &T, node: &Node, dir: Dir, at: u64) -> Option<Listed<'static>> {
    let next = at + 1;
    if at == 0 {
        return Some(Listed { name: b".", inode: node.inode(), kind: DT_DIR, next });
    }
    if at == 1 {
        let above = match dir {
            Dir::Tasks => Node { place: Place::Dir(Dir::Process), thread: node.thread },
            Dir::Thread => {
                let thread = threads.leader(node.thread).unwrap_or(node.thread);
                Node { place: Place::Dir(Dir::Tasks), thread }
            }
            Dir::SysKernel => Node { place: Place::Dir(Dir::Sys), thread: node.thread },
            _ => Node::ROOT,
        };
        return Some(Listed { name: b"..", inode: above.inode(), kind: DT_DIR, next });
    }
    let index = at as usize - 2;
    let entry = entries::of(dir).get(index)?;
    let place = match entry.is {
        entries::Is::Dir(dir) => Place::Dir(dir),
        _ => Place::Entry(dir, index as u8),
    };
    let inode = Node { place, thread: node.thread }.inode();
    Some(Listed { name: entry.name.as_bytes(), inode, kind: (entry.mode >> 12) as u8, next })
}
