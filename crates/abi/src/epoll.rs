//! `epoll(7)`.

/// An event of one descriptor (`struct epoll_event`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, packed)]
pub struct Readiness {
    /// The events: bits below.
    pub events: u32,
    /// The token given at registration.
    pub token: u64,
}

impl Readiness {
    /// Its size in memory.
    pub const SIZE: usize = size_of::<Readiness>();

    /// As it lies in memory.
    pub fn to_bytes(self) -> [u8; Readiness::SIZE] {
        let mut bytes = [0; Readiness::SIZE];
        bytes[..4].copy_from_slice(&{ self.events }.to_ne_bytes());
        bytes[4..].copy_from_slice(&{ self.token }.to_ne_bytes());
        bytes
    }

    /// Reads an event that `epoll_wait(2)` has written.
    pub fn from_bytes(bytes: &[u8; Readiness::SIZE]) -> Readiness {
        Readiness { events: crate::bytes::get_u32(bytes, 0), token: crate::bytes::get_u64(bytes, 4) }
    }

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
