//! Abstract sockets (`unix(7)`) between two processes under Entresol, or between one and the command. They are closed
//! on drop and by exec, and never wait longer than told.

use crate::base::os::{self, nr};
use abi::args::{MSG_DONTWAIT_NOSIGNAL, O_CLOEXEC, O_NONBLOCK, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET};
use arch::syscall;

const AF_UNIX: u16 = 1;
/// SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK
const CLOEXEC_NONBLOCK: u64 = O_CLOEXEC | O_NONBLOCK;
/// Bytes of a name.
const NAME: usize = abi::neighbour::NAME;

/// A connected or listening socket.
#[derive(Debug)]
pub(crate) struct Socket(pub i32);

/// The process at the other end, as the host reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The peer's process id; 0 if it is in another namespace.
    pub process: i32,
    /// The peer's effective user.
    pub user: u32,
}

impl Socket {
    fn new() -> Option<Socket> {
        // SAFETY: a new descriptor.
        let fd = unsafe { syscall!(nr::SOCKET, AF_UNIX, SOCK_STREAM | CLOEXEC_NONBLOCK, 0) };
        (fd >= 0).then_some(Socket(fd as i32))
    }

    /// Connects to the listener of that name.
    pub fn connect(name: &[u8; NAME]) -> Option<Socket> {
        let (socket, address) = (Socket::new()?, address(name));
        // SAFETY: the address is ours.
        let r = unsafe { syscall!(nr::CONNECT, socket.0, address.as_ptr(), address.len()) };
        (r == 0).then_some(socket)
    }

    /// Listens under that name, if it is free.
    pub fn listen(name: &[u8; NAME]) -> Option<Socket> {
        let (socket, address) = (Socket::new()?, address(name));
        // SAFETY: as above.
        let bound = unsafe { syscall!(nr::BIND, socket.0, address.as_ptr(), address.len()) == 0 };
        // SAFETY: the socket is ours.
        let listens = bound && unsafe { syscall!(nr::LISTEN, socket.0, 4) == 0 };
        listens.then_some(socket)
    }

    /// Accepts a connection, if one arrives within `patience` milliseconds.
    pub fn accept(&self, patience: u32) -> Option<Socket> {
        if !os::becomes_ready(self.0 as u64, false, patience) {
            return None;
        }
        // SAFETY: a new descriptor.
        let fd = unsafe { syscall!(nr::ACCEPT4, self.0, 0, 0, CLOEXEC_NONBLOCK) };
        (fd >= 0).then_some(Socket(fd as i32))
    }

    /// The process that connected or listens there.
    pub fn peer(&self) -> Option<Peer> {
        // `struct ucred`: process, user, group.
        let (mut peer, mut size) = ([0u32, u32::MAX, u32::MAX], 12u32);
        // SAFETY: the host fills our words.
        let r = unsafe { syscall!(nr::GETSOCKOPT, self.0, SOL_SOCKET, SO_PEERCRED, peer.as_mut_ptr(), &raw mut size) };
        (r == 0).then_some(Peer { process: peer[0] as i32, user: peer[1] })
    }

    /// Sends all of it; false if it does not fit.
    pub fn send(&self, bytes: &[u8]) -> bool {
        // SAFETY: the host reads the bytes.
        let r = unsafe { syscall!(nr::SENDTO, self.0, bytes.as_ptr(), bytes.len(), MSG_DONTWAIT_NOSIGNAL, 0, 0) };
        r == bytes.len() as isize
    }

    /// Receives `bytes`, which the peer sends in one piece, within `patience` milliseconds.
    pub fn receive(&self, bytes: &mut [u8], patience: u32) -> bool {
        os::becomes_ready(self.0 as u64, false, patience) && os::read(self.0, bytes) == bytes.len()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        os::close(self.0);
    }
}

fn address(name: &[u8; NAME]) -> [u8; 2 + NAME] {
    let mut address = [0; 2 + NAME];
    address[..2].copy_from_slice(&AF_UNIX.to_ne_bytes());
    address[2..].copy_from_slice(name);
    address
}
