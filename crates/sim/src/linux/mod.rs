//! A small Linux that serves as the host of the personality: descriptors, pipes, mailboxes, child processes,
//! `epoll(7)`.
//!
//! It serves calls in the forms that the personality uses: calls that do not wait, at once ([`SmallLinux::call`];
//! [`SmallLinux::transfer`] for `preadv2(2)` and `pwritev2(2)` with RWF_NOWAIT), and calls that wait, in pieces
//! ([`SmallLinux::advance`]): the world repeats the latter whenever something has changed.
//!
//! A **mailbox** is a datagram socket whose other end belongs to another process: its messages come at any time, even
//! during a trap ([`SmallLinux::hurry`]).

mod epoll;
mod files;

use crate::memory::Memory;
use crate::rng::Rng;
use abi::args::{F_DUPFD, F_DUPFD_CLOEXEC, F_GETFL, POLLNVAL, WNOHANG};
use abi::epoll::Readiness;
use abi::{Errno, nr};
pub(crate) use epoll::DESCRIPTOR;
use epoll::Poller;
pub(crate) use files::timeval;
use files::{File, Mailbox};
use ids::Nanos;
use kernel::Call;
use std::collections::{BTreeMap, VecDeque};

/// The ids of children.
const FIRST_CHILD: i32 = 50_000;

/// A host call that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub call: Call,
    /// How much of it is done.
    done: u64,
    /// The file it reads or writes; closing the descriptor does not change that.
    file: Option<File>,
    /// When it times out.
    pub until: Option<Nanos>,
}

impl Waiting {
    /// The result if a signal ends it now.
    pub(crate) fn interrupted(&self) -> isize {
        if self.done > 0 { self.done as isize } else { Errno::EINTR.to_ret() }
    }

    /// Whether it ends when something changes, not at a time.
    pub(crate) fn depends(&self) -> bool {
        matches!(self.call.nr, nr::READ | nr::WRITE | nr::WAIT4 | nr::POLL)
    }
}

#[derive(Debug)]
pub(crate) struct SmallLinux {
    files: BTreeMap<u64, File>,
    pipes: Vec<VecDeque<u8>>,
    mailboxes: Vec<Mailbox>,
    /// Children, and whether they have exited.
    children: BTreeMap<i32, bool>,
    forked: i32,
    /// Something has changed: waiting calls may be able to continue.
    pub changed: bool,
    /// Messages that were announced: mailbox, and after how long.
    pub announced: Vec<(usize, Nanos)>,
    pub poller: Poller,
    rng: Rng,
}

impl SmallLinux {
    pub(crate) fn new(rng: Rng) -> SmallLinux {
        SmallLinux {
            files: BTreeMap::new(),
            pipes: Vec::new(),
            mailboxes: Vec::new(),
            children: BTreeMap::new(),
            forked: 0,
            changed: false,
            announced: Vec::new(),
            poller: Poller::default(),
            rng,
        }
    }

    /// A call that does not wait.
    pub(crate) fn call(&mut self, call: &Call, memory: &mut Memory) -> isize {
        let [a, b, c, ..] = call.args;
        match call.nr {
            nr::PIPE2 => self.pipe(a, memory),
            nr::SOCKET => self.mailbox(call.args[3], Nanos(call.args[4])),
            nr::SETSOCKOPT => self.set_limit(call, memory),
            nr::CLOSE => self.close(a),
            nr::DUP2 => self.dup2(a, b),
            nr::FCNTL => match (self.files.get(&a), b) {
                (None, _) => Errno::EBADF.to_ret(),
                (Some(&file), F_DUPFD | F_DUPFD_CLOEXEC) => self.open(file, c) as isize,
                (Some(_), F_GETFL) => 0,
                _ => Errno::EINVAL.to_ret(),
            },
            nr::READ | nr::WRITE => self.transfer(a, b, c, call.nr == nr::WRITE, memory),
            nr::POLL => self.poll(a, b, memory),
            nr::WAIT4 if c & WNOHANG != 0 => self.wait(a as i32),
            _ => Errno::ENOSYS.to_ret(),
        }
    }

    /// A call begins to wait.
    pub(crate) fn begin(&self, call: Call, now: Nanos) -> Waiting {
        let [fd, _, timeout, ..] = call.args;
        let file = self.files.get(&fd).copied().filter(|_| matches!(call.nr, nr::READ | nr::WRITE));
        let span = match (call.nr, file) {
            (nr::POLL, _) => u64::try_from(timeout as i32).ok().map(Nanos::from_millis),
            (_, Some(File::Mailbox(mailbox))) => self.mailboxes[mailbox].limit,
            _ => None,
        };
        Waiting { call, done: 0, file, until: span.map(|span| now + span) }
    }

    /// Goes on with a call that waits: its result, if it is through.
    pub(crate) fn advance(&mut self, waiting: &mut Waiting, memory: &mut Memory, now: Nanos) -> Option<isize> {
        let [a, addr, len, ..] = waiting.call.args;
        let again = Errno::EAGAIN.to_ret();
        let over = waiting.until.is_some_and(|until| until <= now);
        match (waiting.call.nr, waiting.file) {
            (nr::READ | nr::WRITE, None) => Some(Errno::EBADF.to_ret()),
            (nr::READ, Some(file)) => {
                Some(self.transfer_file(file, addr, len, false, memory)).filter(|&result| result != again || over)
            }
            (nr::WRITE, Some(file)) => loop {
                let (at, left) = (addr + waiting.done, len - waiting.done);
                match self.transfer_file(file, at, left, true, memory) {
                    result if result == again => return None,
                    result if result < 0 => return Some(result),
                    written => waiting.done += written as u64,
                }
                if waiting.done == len {
                    return Some(len as isize);
                }
            },
            (nr::POLL, _) => Some(self.poll(a, addr, memory)).filter(|&result| result != 0 || over),
            (nr::WAIT4, _) => Some(self.wait(a as i32)).filter(|&result| result != 0),
            _ => Some(0),
        }
    }

    /// `poll(2)` that does not wait.
    fn poll(&self, at: u64, count: u64, memory: &mut Memory) -> isize {
        let mut found = 0;
        for at in (0..count).map(|i| at + 8 * i) {
            let mut one = [0; 8];
            if memory.read(at, &mut one).is_err() {
                return Errno::EFAULT.to_ret();
            }
            let [fd, asked] = [abi::bytes::get_u32(&one, 0), abi::bytes::get_u32(&one, 4) & 0xffff];
            let always = Readiness::ERROR | Readiness::CLOSED;
            let says = match self.files.get(&u64::from(fd)) {
                Some(&file) => self.readiness(file) & (asked | always),
                None => POLLNVAL as u32,
            };
            found += isize::from(says != 0);
            if memory.write(at + 6, &(says as u16).to_le_bytes()).is_err() {
                return Errno::EFAULT.to_ret();
            }
        }
        found
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
