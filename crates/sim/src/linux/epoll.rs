//! The poller's instance of `epoll(7)`: files that report edges, and the CPUs that sleep in it.

use super::{File, SmallLinux};
use abi::Errno;
use abi::epoll::{ADD, DEL, MOD, Readiness};
use ids::CpuId;
use std::collections::VecDeque;

/// The number of its descriptor.
pub(crate) const DESCRIPTOR: u32 = 1000;

/// A registered file. It is known by number and file (`struct epoll_filefd`).
#[derive(Clone, Copy, Debug)]
struct Item {
    fd: u64,
    file: File,
    events: u32,
    token: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Poller {
    items: Vec<Item>,
    /// Items that have something to report, in order.
    list: VecDeque<(u64, File)>,
    /// CPUs that sleep in it; the last came last.
    pub sleepers: Vec<CpuId>,
    /// CPUs that it wakes.
    pub called: Vec<CpuId>,
    /// How many of them the kernel still counts as asleep.
    pub woken: u32,
}

impl Poller {
    /// No descriptor refers to the file any more.
    pub(super) fn forget(&mut self, file: File) {
        self.items.retain(|item| item.file != file);
        self.list.retain(|listed| listed.1 != file);
    }

    /// Whether there may be something to report.
    pub(crate) fn has_events(&self) -> bool {
        !self.list.is_empty()
    }

    /// `ep_poll_callback`: lists the item and wakes the sleeper that came last.
    fn report(&mut self, fd: u64, file: File) {
        if !self.list.contains(&(fd, file)) {
            self.list.push_back((fd, file));
        }
        if let Some(sleeper) = self.sleepers.pop() {
            self.called.push(sleeper);
            self.woken += 1;
        }
    }

    /// The CPU no longer sleeps in the poller.
    pub(crate) fn leave(&mut self, cpu: CpuId) {
        if let Some(at) = self.sleepers.iter().position(|&sleeper| sleeper == cpu) {
            self.sleepers.remove(at);
            self.woken += 1;
        }
    }
}

impl SmallLinux {
    /// Something has happened to the file.
    pub(super) fn edge(&mut self, file: File, what: u32) {
        let always = Readiness::ERROR | Readiness::CLOSED;
        for i in 0..self.poller.items.len() {
            let item = self.poller.items[i];
            if item.file == file && (item.events | always) & what != 0 {
                self.poller.report(item.fd, file);
            }
        }
    }

    /// `epoll_ctl(2)`.
    pub(crate) fn control(&mut self, op: u64, fd: u64, event: Readiness) -> isize {
        let Some(&file) = self.files.get(&fd) else { return Errno::EBADF.to_ret() };
        let known = self.poller.items.iter().position(|item| item.fd == fd && item.file == file);
        let item = Item { fd, file, events: event.events, token: event.token };
        match (op, known) {
            (ADD, Some(_)) => return Errno::EEXIST.to_ret(),
            (ADD, None) => self.poller.items.push(item),
            (_, None) => return Errno::ENOENT.to_ret(),
            (MOD, Some(at)) => self.poller.items[at] = item,
            (DEL, Some(at)) => {
                self.poller.items.remove(at);
                self.poller.list.retain(|listed| *listed != (fd, file));
                return 0;
            }
            _ => return Errno::EINVAL.to_ret(),
        }
        if self.readiness(file) & event.events != 0 {
            self.poller.report(fd, file);
        }
        0
    }

    /// `epoll_wait(2)` that does not wait: each item once, if it is still ready.
    pub(crate) fn events(&mut self, most: usize) -> Vec<Readiness> {
        let mut found = Vec::new();
        while found.len() < most
            && let Some((fd, file)) = self.poller.list.pop_front()
        {
            let always = Readiness::ERROR | Readiness::CLOSED;
            let item = self.poller.items.iter().find(|item| item.fd == fd && item.file == file);
            if let Some(&Item { events, token, .. }) = item
                && let ready @ 1.. = self.readiness(file) & (events | always)
            {
                found.push(Readiness { events: ready, token });
            }
        }
        found
    }
}
