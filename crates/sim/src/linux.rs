//! A small Linux for the personality to ask: descriptors, pipes and child processes.
//!
//! It answers in the forms in which the personality asks: calls that do not wait at once ([`SmallLinux::call`],
//! [`SmallLinux::transfer`] for `preadv2(2)` and `pwritev2(2)` with RWF_NOWAIT), calls that wait in pieces
//! ([`SmallLinux::advance`]): the world calls again whenever something has changed.

use crate::memory::Memory;
use abi::{Errno, nr};
use kernel::Call;
use std::collections::{BTreeMap, VecDeque};

/// What a pipe holds: a page, as after F_SETPIPE_SZ.
const CAPACITY: usize = 4096;
/// Writes up to this are not divided (`_POSIX_PIPE_BUF`).
const ATOMIC: usize = 512;
/// The ids of children.
const FIRST_CHILD: i32 = 50_000;
const WNOHANG: u64 = 1;

/// One end of a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct End {
    pipe: usize,
    writes: bool,
}

/// A host call that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub call: Call,
    /// How much of it is done.
    done: u64,
}

impl Waiting {
    pub(crate) fn new(call: Call) -> Waiting {
        Waiting { call, done: 0 }
    }

    /// The result if a signal ends it now.
    pub(crate) fn interrupted(&self) -> isize {
        if self.done > 0 { self.done as isize } else { Errno::EINTR.to_ret() }
    }

    /// Whether it ends when something changes, and not by itself.
    pub(crate) fn depends(&self) -> bool {
        matches!(self.call.nr, nr::READ | nr::WRITE | nr::WAIT4)
    }
}

#[derive(Debug, Default)]
pub(crate) struct SmallLinux {
    files: BTreeMap<u64, End>,
    pipes: Vec<VecDeque<u8>>,
    /// Children, and whether they have exited.
    children: BTreeMap<i32, bool>,
    forked: i32,
    /// Calls that wait may go on.
    pub changed: bool,
}

impl SmallLinux {
    /// A call that does not wait.
    pub(crate) fn call(&mut self, call: &Call, memory: &mut Memory) -> isize {
        const F_GETFL: u64 = 3;
        let [a, b, c, ..] = call.args;
        match call.nr {
            nr::PIPE2 => self.pipe(a, memory),
            nr::CLOSE => self.close(a),
            nr::FCNTL if b == F_GETFL && self.files.contains_key(&a) => 0,
            nr::READ | nr::WRITE => self.transfer(a, b, c, call.nr == nr::WRITE, memory),
            nr::WAIT4 if c & WNOHANG != 0 => self.wait(a as i32),
            _ => Errno::ENOSYS.to_ret(),
        }
    }

    /// Goes on with a call that waits: its result, if it is through.
    pub(crate) fn advance(&mut self, waiting: &mut Waiting, memory: &mut Memory) -> Option<isize> {
        let [a, addr, len, ..] = waiting.call.args;
        let again = Errno::EAGAIN.to_ret();
        match waiting.call.nr {
            nr::READ => Some(self.transfer(a, addr, len, false, memory)).filter(|&result| result != again),
            nr::WRITE => loop {
                let (at, left) = (addr + waiting.done, len - waiting.done);
                match self.transfer(a, at, left, true, memory) {
                    result if result == again => return None,
                    result if result < 0 => return Some(result),
                    written => waiting.done += written as u64,
                }
                if waiting.done == len {
                    return Some(len as isize);
                }
            },
            nr::WAIT4 => Some(self.wait(a as i32)).filter(|&result| result != 0),
            _ => Some(0),
        }
    }

    fn pipe(&mut self, to: u64, memory: &mut Memory) -> isize {
        let pipe = self.pipes.len();
        self.pipes.push(VecDeque::new());
        for (i, writes) in [false, true].into_iter().enumerate() {
            let fd = (3..).find(|fd| !self.files.contains_key(fd)).expect("there are numbers enough");
            self.files.insert(fd, End { pipe, writes });
            if memory.store_u32(to + 4 * i as u64, fd as u32).is_err() {
                return Errno::EFAULT.to_ret();
            }
        }
        0
    }

    fn close(&mut self, fd: u64) -> isize {
        self.changed = true;
        if self.files.remove(&fd).is_some() { 0 } else { Errno::EBADF.to_ret() }
    }

    /// Moves bytes without waiting: how many, or EAGAIN.
    pub(crate) fn transfer(&mut self, fd: u64, addr: u64, len: u64, writes: bool, memory: &mut Memory) -> isize {
        let Some(&end) = self.files.get(&fd).filter(|end| end.writes == writes) else { return Errno::EBADF.to_ret() };
        let other = self.files.values().any(|other| *other == End { writes: !writes, ..end });
        let (held, len) = (self.pipes[end.pipe].len(), len as usize);
        let room = CAPACITY - held;
        let count = match writes {
            true if !other => return Errno::EPIPE.to_ret(),
            true if room == 0 || len <= ATOMIC && room < len => return Errno::EAGAIN.to_ret(),
            true => len.min(room),
            false if held == 0 => return if other { Errno::EAGAIN.to_ret() } else { 0 },
            false => len.min(held),
        };
        let mut bytes = vec![0; count];
        if writes {
            if memory.read(addr, &mut bytes).is_err() {
                return Errno::EFAULT.to_ret();
            }
            self.pipes[end.pipe].extend(&bytes);
        } else {
            self.pipes[end.pipe].iter().zip(&mut bytes).for_each(|(byte, to)| *to = *byte);
            if memory.write(addr, &bytes).is_err() {
                return Errno::EFAULT.to_ret();
            }
            self.pipes[end.pipe].drain(..count);
        }
        self.changed = true;
        count as isize
    }

    /// A new child process: its id.
    pub(crate) fn fork(&mut self) -> i32 {
        let child = FIRST_CHILD + self.forked;
        self.forked += 1;
        self.children.insert(child, false);
        child
    }

    /// A child exits.
    pub(crate) fn exit(&mut self, child: i32) {
        self.children.insert(child, true);
        self.changed = true;
    }

    fn wait(&mut self, child: i32) -> isize {
        match self.children.get(&child) {
            None => Errno::ECHILD.to_ret(),
            Some(false) => 0,
            Some(true) => {
                self.children.remove(&child);
                child as isize
            }
        }
    }
}
