//! Descriptors, pipes and mailboxes.

use super::SmallLinux;
use crate::memory::Memory;
use abi::Errno;
use abi::args::{SO_RCVTIMEO, SOL_SOCKET};
use abi::epoll::Readiness;
use ids::Nanos;
use kernel::Call;
use std::collections::VecDeque;

/// The capacity of a pipe: a page, as after F_SETPIPE_SZ.
const CAPACITY: usize = 4096;
/// Writes up to this are not divided (`_POSIX_PIPE_BUF`).
const ATOMIC: usize = 512;
/// The length of a message.
const MESSAGE: u64 = 8;

/// An open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum File {
    /// The end of a pipe that is read.
    Reads(usize),
    /// The end of a pipe that is written.
    Writes(usize),
    /// A mailbox.
    Mailbox(usize),
}

#[derive(Debug)]
pub(super) struct Mailbox {
    messages: u64,
    /// Messages that have not been sent yet.
    coming: u64,
    /// SO_RCVTIMEO.
    pub(super) limit: Option<Nanos>,
}

impl SmallLinux {
    /// Opens `file` as the lowest free number from `from` on.
    pub(super) fn open(&mut self, file: File, from: u64) -> u64 {
        let fd = (from..).find(|fd| !self.files.contains_key(fd)).expect("there are numbers enough");
        self.files.insert(fd, file);
        fd
    }

    pub(super) fn pipe(&mut self, to: u64, memory: &mut Memory) -> isize {
        let pipe = self.pipes.len();
        self.pipes.push(VecDeque::new());
        for (i, file) in [File::Reads(pipe), File::Writes(pipe)].into_iter().enumerate() {
            let fd = self.open(file, 3);
            if memory.store_u32(to + 4 * i as u64, fd as u32).is_err() {
                return Errno::EFAULT.to_ret();
            }
        }
        0
    }

    /// A mailbox to which another process sends this many messages within the given time.
    pub(super) fn mailbox(&mut self, messages: u64, within: Nanos) -> isize {
        let mailbox = self.mailboxes.len();
        self.mailboxes.push(Mailbox { messages: 0, coming: messages, limit: None });
        self.announced.extend((0..messages).map(|_| (mailbox, Nanos(self.rng.below(within.0 + 1)))));
        self.open(File::Mailbox(mailbox), 3) as isize
    }

    pub(super) fn set_limit(&mut self, call: &Call, memory: &Memory) -> isize {
        let [fd, level, option, at, ..] = call.args;
        let mut time = [0; 16];
        match self.files.get(&fd) {
            _ if memory.read(at, &mut time).is_err() => Errno::EFAULT.to_ret(),
            Some(&File::Mailbox(mailbox)) if (level, option) == (SOL_SOCKET, SO_RCVTIMEO) => {
                self.mailboxes[mailbox].limit = Some(nanos_of(&time));
                0
            }
            _ => Errno::ENOTSOCK.to_ret(),
        }
    }

    /// `getsockopt(2)` for SO_RCVTIMEO; sending has no time limit.
    pub(crate) fn tell_limit(&self, fd: u64, option: u64, to: &mut [u8]) -> isize {
        if !matches!(self.files.get(&fd), Some(File::Mailbox(_))) || to.len() != 16 {
            return Errno::ENOTSOCK.to_ret();
        }
        let limit = self.limit(fd).filter(|_| option == SO_RCVTIMEO).unwrap_or(Nanos::ZERO);
        to.copy_from_slice(&timeval(limit));
        0
    }

    /// The limit itself.
    pub(crate) fn limit(&self, fd: u64) -> Option<Nanos> {
        match self.files.get(&fd) {
            Some(&File::Mailbox(mailbox)) => self.mailboxes[mailbox].limit,
            _ => None,
        }
    }

    pub(super) fn close(&mut self, fd: u64) -> isize {
        let Some(file) = self.files.remove(&fd) else { return Errno::EBADF.to_ret() };
        self.closed(file);
        0
    }

    pub(super) fn dup2(&mut self, from: u64, to: u64) -> isize {
        let Some(&file) = self.files.get(&from) else { return Errno::EBADF.to_ret() };
        if let Some(old) = self.files.insert(to, file).filter(|&old| old != file) {
            self.closed(old);
        }
        to as isize
    }

    /// A descriptor of `file` was closed. The poller keeps its item while the file has another descriptor, as in Linux.
    fn closed(&mut self, file: File) {
        self.changed = true;
        if self.files.values().any(|other| *other == file) {
            return;
        }
        self.poller.forget(file);
        match file {
            File::Reads(pipe) => self.edge(File::Writes(pipe), Readiness::ERROR),
            File::Writes(pipe) => self.edge(File::Reads(pipe), Readiness::CLOSED),
            File::Mailbox(_) => {}
        }
    }

    /// Moves bytes without waiting: how many, or EAGAIN.
    pub(crate) fn transfer(&mut self, fd: u64, addr: u64, len: u64, writes: bool, memory: &mut Memory) -> isize {
        match self.files.get(&fd) {
            Some(&file) => self.transfer_file(file, addr, len, writes, memory),
            None => Errno::EBADF.to_ret(),
        }
    }

    pub(super) fn transfer_file(
        &mut self,
        file: File,
        addr: u64,
        len: u64,
        writes: bool,
        memory: &mut Memory,
    ) -> isize {
        match (file, writes) {
            (File::Reads(pipe), false) => self.read_pipe(pipe, addr, len as usize, memory),
            (File::Writes(pipe), true) => self.write_pipe(pipe, addr, len as usize, memory),
            (File::Mailbox(mailbox), false) => self.take_message(mailbox, addr, memory),
            _ => Errno::EBADF.to_ret(),
        }
    }

    fn read_pipe(&mut self, pipe: usize, addr: u64, len: usize, memory: &mut Memory) -> isize {
        let writers = self.files.values().any(|file| *file == File::Writes(pipe));
        let held = &mut self.pipes[pipe];
        if held.is_empty() {
            return if writers { Errno::EAGAIN.to_ret() } else { 0 };
        }
        let bytes: Vec<u8> = held.iter().take(len).copied().collect();
        if memory.write(addr, &bytes).is_err() {
            return Errno::EFAULT.to_ret();
        }
        held.drain(..bytes.len());
        self.changed = true;
        self.edge(File::Writes(pipe), Readiness::OUT);
        bytes.len() as isize
    }

    fn write_pipe(&mut self, pipe: usize, addr: u64, len: usize, memory: &mut Memory) -> isize {
        if !self.files.values().any(|file| *file == File::Reads(pipe)) {
            return Errno::EPIPE.to_ret();
        }
        let room = CAPACITY - self.pipes[pipe].len();
        if room == 0 || len <= ATOMIC && room < len {
            return Errno::EAGAIN.to_ret();
        }
        let mut bytes = vec![0; len.min(room)];
        if memory.read(addr, &mut bytes).is_err() {
            return Errno::EFAULT.to_ret();
        }
        self.pipes[pipe].extend(&bytes);
        self.changed = true;
        self.edge(File::Reads(pipe), Readiness::IN);
        bytes.len() as isize
    }

    fn take_message(&mut self, mailbox: usize, addr: u64, memory: &mut Memory) -> isize {
        let messages = &mut self.mailboxes[mailbox].messages;
        match *messages {
            0 => Errno::EAGAIN.to_ret(),
            _ if memory.write(addr, &[0; MESSAGE as usize]).is_err() => Errno::EFAULT.to_ret(),
            _ => {
                *messages -= 1;
                MESSAGE as isize
            }
        }
    }

    /// Another process sends a message, unless it has sent all.
    pub(crate) fn send(&mut self, mailbox: usize) {
        let coming = &mut self.mailboxes[mailbox].coming;
        if *coming > 0 {
            *coming -= 1;
            self.deliver(mailbox);
        }
    }

    /// A message comes.
    pub(crate) fn deliver(&mut self, mailbox: usize) {
        self.mailboxes[mailbox].messages += 1;
        self.changed = true;
        self.edge(File::Mailbox(mailbox), Readiness::IN);
    }

    /// A thread has just found the mailbox empty: sometimes a message comes at this very moment, and the poller reports
    /// it to another thread before the caller has continued.
    pub(crate) fn hurry(&mut self, fd: u64) -> Vec<Readiness> {
        match self.files.get(&fd) {
            Some(&File::Mailbox(mailbox)) if self.mailboxes[mailbox].coming > 0 && self.rng.permille(300) => {
                self.send(mailbox);
                self.events(64)
            }
            _ => Vec::new(),
        }
    }

    /// The events that `poll(2)` reports for a file.
    pub(super) fn readiness(&self, file: File) -> u32 {
        let open = |file| self.files.values().any(|other| *other == file);
        let bit = |yes, bit| if yes { bit } else { 0 };
        match file {
            File::Reads(pipe) => {
                bit(!self.pipes[pipe].is_empty(), Readiness::IN) | bit(!open(File::Writes(pipe)), Readiness::CLOSED)
            }
            File::Writes(pipe) => {
                let room = CAPACITY - self.pipes[pipe].len();
                bit(room >= ATOMIC, Readiness::OUT) | bit(!open(File::Reads(pipe)), Readiness::ERROR)
            }
            File::Mailbox(mailbox) => bit(self.mailboxes[mailbox].messages > 0, Readiness::IN),
        }
    }
}

/// `struct timeval`.
pub(crate) fn timeval(time: Nanos) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(time.0 / 1_000_000_000).to_le_bytes());
    bytes[8..].copy_from_slice(&(time.0 % 1_000_000_000 / 1000).to_le_bytes());
    bytes
}

fn nanos_of(timeval: &[u8; 16]) -> Nanos {
    let [seconds, micros] = [0, 8].map(|at| abi::bytes::get_u64(timeval, at));
    Nanos(seconds * 1_000_000_000 + micros * 1000)
}
