//! `connect(2)` of internet sockets without a host thread.
//!
//! A blocking call begins a connection and then waits for it. The host has no form of it that does not wait, so the first try is
//! the call itself, which is cut short: the connection goes on. From then on the state of the socket says how it ends. The
//! call is not made again before: if another thread has given the connection up (`shutdown(2)`), that would begin a new one.

use crate::facts::{self, TcpState};
use crate::host_call::{Attempt, Tried};
use crate::machine::Arg::{In, Word};
use crate::{Host, Linux};
use abi::{Errno, nr};
use ids::CpuId;
use kernel::Call;

const AF_UNSPEC: u16 = 0;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

impl<M: Host> Linux<'_, M> {
    /// Begins the connection, if the thread is to park for it.
    pub(crate) fn try_connect(&self, cpu: CpuId, call: &Call) -> Tried {
        let [fd, address, ..] = call.args;
        let by_internet = self.get::<u64>(address).is_ok_and(|word| matches!(word as u16, AF_INET | AF_INET6));
        if !by_internet || !self.is_crowd() {
            return Tried::MustWait;
        }
        if self.is_nonblocking(fd) || facts::is_datagram(&self.m, fd) {
            return Tried::Done(self.host(call));
        }
        if !facts::is_tcp(&self.m, fd) {
            return Tried::MustWait;
        }
        match facts::tcp_state(&self.m, fd) {
            // An earlier call has begun the connection, which shows if the time of this one is over (EALREADY).
            Some(TcpState::Connecting) => Tried::MustWait,
            _ => match self.host_briefly(cpu, call) {
                r if r == Errno::EINTR.to_ret() => Tried::WouldWait,
                r => Tried::Done(r),
            },
        }
    }

    /// A parked thread looks at the connection that its call has begun (`__inet_stream_connect`).
    pub(crate) fn connect_again(&self, cpu: CpuId, call: &Call) -> Attempt {
        let fd = call.args[0];
        match facts::tcp_state(&self.m, fd) {
            Some(TcpState::Connecting) => Attempt::Wait,
            Some(TcpState::Closed) => Attempt::Done(self.connection_failed(fd)),
            _ => match self.host_briefly(cpu, call) {
                r if r == Errno::EINTR.to_ret() => Attempt::Wait,
                // Another call has been told first that the connection is there.
                r if r == Errno::EISCONN.to_ret() => Attempt::Done(0),
                r => Attempt::Done(r),
            },
        }
    }

    /// The connection could not be made or was given up: the reason, which is told once. The socket can be connected again.
    fn connection_failed(&self, fd: u64) -> isize {
        let error = facts::take_socket_error(&self.m, fd).unwrap_or(Errno::ECONNABORTED);
        let mut nowhere = [0; 16];
        nowhere[..2].copy_from_slice(&AF_UNSPEC.to_ne_bytes());
        self.ask(nr::CONNECT, &mut [Word(fd), In(&nowhere), Word(nowhere.len() as u64)]);
        error.to_ret()
    }
}
