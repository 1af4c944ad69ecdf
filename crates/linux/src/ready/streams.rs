//! TCP connections that a read has emptied: the next read waits without being tried.
//!
//! A read that returned less than requested has taken all there was (`epoll(7)`, question 9). Until the poller reports
//! an event, which changes the descriptor's generation, another read would wait. This saves a server one host call per
//! request, and the check of O_NONBLOCK that would follow.
//!
//! It requires that a descriptor is *plain*:
//! 1. It is a TCP connection. Other files return less for other reasons: a packet, a pipe's buffer, passed rights.
//! 2. It is blocking, and no other process can change that: this process has accepted it and shares its file with no
//!    other descriptor and no other process. A duplicate, F_SETFL, FIONBIO, a fork and a message with control data end
//!    this.
//! 3. Only data has been reported. An end, an error or urgent data may stop a read early, and is reported once.
//!
//! Rule 3 holds because the report is noted before the generation changes, under the lock of the registration, which is
//! also held when a descriptor becomes plain.

use super::table::Ready;
use crate::{Host, facts};
use abi::epoll::Readiness;
use abi::nr;
use kernel::Call;
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

/// `Stream::empty_at` is a generation.
const EMPTY: u64 = 1 << 32;

/// A descriptor's state as a stream. All zero: nothing is known.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// [`Sharing`] when this process accepted the connection, plus one.
    accepted: AtomicU32,
    /// All three rules hold for the stream.
    plain: AtomicBool,
    /// The generation at which a read emptied it, with `EMPTY`.
    empty_at: AtomicU64,
}

/// Incremented when files may have come to be shared with other processes.
#[derive(Debug, Default)]
pub(super) struct Sharing(AtomicU32);

impl Stream {
    /// Examines a descriptor before its registration, under the lock: whether it is a plain stream.
    pub(super) fn examine(&self, m: &impl Host, fd: u32, sharing: &Sharing) -> bool {
        let fd = fd.into();
        let plain = self.is_private(sharing) && facts::is_tcp(m, fd) && !facts::is_nonblocking(m, fd);
        self.plain.store(plain, Release);
        plain
    }

    /// The poller has reported this; the lock of the registration is held.
    pub(super) fn note_event(&self, events: u32) {
        if events & !(Readiness::IN | Readiness::OUT) != 0 {
            self.plain.store(false, Release);
        }
    }

    /// The descriptor refers to another file from now on, or its file has another descriptor. The lock of the
    /// registration is held.
    pub(super) fn forget(&self) {
        self.accepted.store(0, Relaxed);
        self.plain.store(false, Release);
    }

    fn is_private(&self, sharing: &Sharing) -> bool {
        self.accepted.load(Relaxed) == sharing.0.load(Relaxed).wrapping_add(1)
    }
}

impl Ready {
    /// `accept(2)` has made a descriptor.
    pub(crate) fn note_accepted(&self, fd: u32) {
        if let Some(descriptor) = self.get_or_make(fd) {
            descriptor.stream.accepted.store(self.sharing.0.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Other processes get files of this one.
    pub(crate) fn share(&self) {
        self.sharing.0.fetch_add(1, Relaxed);
    }

    /// Called before a call that may change how a descriptor or its file is read.
    pub(crate) fn note_change(&self, m: &impl Host, call: &Call) {
        if !self.is_used() {
            return;
        }
        self.clearings.note(call);
        let a = &call.args;
        match call.nr {
            nr::SENDMSG if passes_control(m, a[1]) => self.share(),
            nr::SENDMMSG => self.share(),
            _ if changes_file(call) => {
                if let Some(descriptor) = self.get(a[0] as u32) {
                    let _guard = descriptor.registration.lock();
                    descriptor.stream.forget();
                }
            }
            _ => {}
        }
    }

    /// A call has returned less than requested. `seen` is the generation before it.
    pub(crate) fn note_short(&self, call: &Call, result: isize, seen: u32) {
        if is_stream_read(call)
            && (1..call.args[2] as i64).contains(&(result as i64))
            && let Some(descriptor) = self.get(call.args[0] as u32)
            && descriptor.stream.plain.load(Acquire)
        {
            descriptor.stream.empty_at.store(EMPTY | u64::from(seen), Release);
        }
    }

    /// Whether the three rules hold.
    #[inline]
    pub(crate) fn is_plain(&self, fd: u32) -> bool {
        let plain = |stream: &Stream| stream.plain.load(Acquire) && stream.is_private(&self.sharing);
        self.get(fd).is_some_and(|descriptor| plain(&descriptor.stream))
    }

    /// Whether this call is known to wait: the generation for which that holds.
    pub(crate) fn is_empty(&self, call: &Call) -> Option<u32> {
        let fd = call.args[0] as u32;
        if !is_stream_read(call) || call.args[2] == 0 || !self.is_plain(fd) {
            return None;
        }
        let descriptor = self.get(fd)?;
        let generation = descriptor.generation.load(Acquire);
        (descriptor.stream.empty_at.load(Acquire) == EMPTY | u64::from(generation)).then_some(generation)
    }
}

/// Whether the call reads in the order of the stream, and removes what it reads.
fn is_stream_read(call: &Call) -> bool {
    call.nr == nr::READ || call.nr == nr::RECVFROM && call.args[3] == 0
}

fn changes_file(call: &Call) -> bool {
    use abi::args::{F_DUPFD, F_DUPFD_CLOEXEC, F_SETFL, FIONBIO};
    const SOL_TCP: u64 = 6;
    /// Another protocol on top of TCP may keep records apart.
    const TCP_ULP: u64 = 31;
    match call.nr {
        nr::DUP | nr::DUP2 | nr::DUP3 => true,
        nr::FCNTL => matches!(call.args[1], F_SETFL | F_DUPFD | F_DUPFD_CLOEXEC),
        nr::IOCTL => call.args[1] == FIONBIO,
        nr::SETSOCKOPT => call.args[1..3] == [SOL_TCP, TCP_ULP],
        _ => false,
    }
}

/// Whether a `struct msghdr` has control data, which may pass descriptors on.
fn passes_control(m: &impl Host, message: u64) -> bool {
    /// The offset of `msg_controllen`, in bytes.
    const AT: u64 = 40;
    kernel::machine::get::<u64>(m, message.wrapping_add(AT)) != Ok(0)
}
