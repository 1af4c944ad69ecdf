//! `epoll(7)`.

use crate::bytes::layout;

/// An event of one descriptor (`struct epoll_event`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, packed)]
pub struct Readiness {
    /// The events: bits below.
    pub events: u32,
    /// The token given at registration.
    pub token: u64,
}

layout!(Readiness: 12 { 0 events, 4 token });

impl Readiness {
    /// There is something to read (EPOLLIN).
    pub const IN: u32 = 1;
    /// There is urgent data (EPOLLPRI).
    pub const URGENT: u32 = 2;
    /// There is room to write (EPOLLOUT).
    pub const OUT: u32 = 4;
    /// An error (EPOLLERR); always reported.
    pub const ERROR: u32 = 8;
    /// Nothing will come any more (EPOLLHUP); always reported.
    pub const CLOSED: u32 = 0x10;
    /// The peer writes no more (EPOLLRDHUP).
    pub const PEER_CLOSED: u32 = 0x2000;
    /// Changes are reported rather than states (EPOLLET).
    pub const EDGES: u32 = 1 << 31;
    /// Events that concern readers: data, an error or the end of the stream.
    pub const FOR_READERS: u32 =
        Readiness::IN | Readiness::URGENT | Readiness::ERROR | Readiness::CLOSED | Readiness::PEER_CLOSED;
    /// Events that concern writers: room, or an error.
    pub const FOR_WRITERS: u32 = Readiness::OUT | Readiness::ERROR | Readiness::CLOSED;
    /// The bits of `poll(2)` that ask for room to write (POLLOUT, POLLWRNORM, POLLWRBAND).
    pub const POLL_OUT: u16 = 4 | 0x100 | 0x200;
}

/// EPOLL_CTL_ADD.
pub const ADD: u64 = 1;
/// EPOLL_CTL_DEL.
pub const DEL: u64 = 2;
/// EPOLL_CTL_MOD.
pub const MOD: u64 = 3;
