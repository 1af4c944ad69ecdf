//! The state of each descriptor.

use super::closing::Waiting;
use super::nonblocking::{Clearings, Nonblocking};
use super::points::{Point, Points};
use super::poller::Poller;
use super::streams::{Sharing, Stream};
use crate::Host;
use crate::facts::{self, Tells};
use crate::machine::Arg::{In, Word};
use crate::machine::ask;
use abi::args::SOL_SOCKET;
use abi::epoll::{self, Readiness};
use abi::{Errno, nr};
use ids::Nanos;
use kernel::Call;
use sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use sync::{Arena, Lock};

/// Descriptors from here on are waited for in the host (`fs.nr_open` is 2^20 by default).
const DESCRIPTORS_MAX: usize = 1 << 20;
const CHUNK: usize = 256;

/// A descriptor. All zero if nobody has waited for it.
#[derive(Debug, Default)]
pub(super) struct Descriptor {
    pub(super) registration: Lock<Registration>,
    /// Incremented by each event, and when the descriptor is closed.
    pub(super) generation: AtomicU32,
    pub(super) waiting: Waiting,
    /// How many waiting threads are repeating their calls.
    pub(super) trying: AtomicU32,
    /// How many threads hold it, if it stands in for a closed descriptor.
    holders: AtomicU32,
    pub(super) stream: Stream,
    pub(super) nonblocking: Nonblocking,
    /// An event has reported an end or urgent data, for which a call that does not wait may return EAGAIN.
    may_deny: AtomicBool,
    /// The error that the next call reports, or 0.
    pub(super) owed: AtomicU32,
}

/// The poller's registration of a descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Registration {
    /// The events that it reports; 0: it is not registered.
    events: u32,
    /// Incremented when the descriptor is closed, which identifies late reports about its former file.
    epoch: u32,
    /// The poller refuses it.
    refused: bool,
    /// The socket has a time limit (SO_RCVTIMEO, SO_SNDTIMEO).
    limited: bool,
    /// It is a set of others (`epoll_create(2)`).
    is_set: bool,
    /// The number of calls during which the poller must not look at it.
    apart: u32,
}

/// All descriptors, and how many threads wait for them.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    descriptors: Arena<Descriptor, CHUNK, { DESCRIPTORS_MAX / CHUNK }>,
    /// The program sets time limits on sockets, so `limited` of a registration may be outdated.
    limits: AtomicBool,
    /// A stand-in has existed.
    holds: AtomicBool,
    /// How often the host had no descriptor or no memory for the poller, so that the wait was left to it.
    refusals: AtomicU32,
    pub(super) sharing: Sharing,
    pub(super) clearings: Clearings,
    /// Some descriptor may owe an error.
    pub(super) owes: AtomicBool,
    pub(crate) poller: Poller,
}

impl Ready {
    /// `epoll_ctl(2)` at the poller.
    fn control(&self, m: &impl Host, op: u64, fd: u32, event: Readiness) -> isize {
        let Some(poller) = self.poller.get_or_make(m) else { return Errno::EMFILE.to_ret() };
        ask(m, nr::EPOLL_CTL, &mut [Word(poller.into()), Word(op), Word(fd.into()), In(&event.to_bytes())])
    }

    /// Whether anything is known of any descriptor.
    pub(super) fn is_used(&self) -> bool {
        self.descriptors.is_made()
    }

    #[inline(always)]
    pub(super) fn get(&self, fd: u32) -> Option<&Descriptor> {
        self.descriptors.get(fd as usize)
    }

    pub(super) fn get_or_make(&self, fd: u32) -> Option<&Descriptor> {
        self.descriptors.get_or_make(fd as usize, |_| Descriptor::default()).ok()
    }

    /// How often the host had no descriptor or no memory for the poller.
    pub(crate) fn refusals(&self) -> u32 {
        self.refusals.load(Relaxed)
    }

    /// The sum of the generations. None ever decreases, so the sum is unchanged only if all are.
    pub(super) fn generations(&self, points: &Points) -> u32 {
        points.iter().map(|point| self.generation(point.fd)).fold(0, u32::wrapping_add)
    }

    pub(super) fn generation(&self, fd: u32) -> u32 {
        self.get(fd).map_or(0, |descriptor| descriptor.generation.load(Acquire))
    }

    /// The program changes an option of a socket.
    pub(crate) fn note_option(&self, call: &Call) {
        // SO_RCVTIMEO, SO_SNDTIMEO, and the same with 64-bit times.
        if matches!((call.args[1], call.args[2]), (SOL_SOCKET, 20 | 21 | 66 | 67)) {
            self.limits.store(true, Relaxed);
        }
    }

    pub(crate) fn sets_limits(&self) -> bool {
        self.limits.load(Relaxed)
    }

    /// Has the poller report the point's events. False if it cannot, or if the host must wait.
    pub(super) fn register(&self, m: &impl Host, point: Point) -> bool {
        let Some(descriptor) = self.get_or_make(point.fd) else { return false };
        let mut registration = descriptor.registration.lock();
        let wanted = registration.events | point.events();
        if registration.refused {
            return false;
        }
        if registration.events == 0 {
            registration.limited =
                [false, true].iter().any(|&out| facts::socket_time_limit(m, point.fd.into(), out).is_some());
            let is_stream = descriptor.stream.examine(m, point.fd, &self.sharing);
            match if is_stream { Tells::Always } else { facts::tells(m, point.fd) } {
                Tells::Once => {
                    registration.refused = true;
                    // The number may refer to another file since the caller tried its call, which must be tried again.
                    descriptor.generation.fetch_add(1, AcqRel);
                    return false;
                }
                told => registration.is_set = told == Tells::OfOthers,
            }
        }
        if registration.apart > 0 {
            registration.events = wanted;
        } else if wanted != registration.events {
            let event = Registration { events: wanted, ..*registration }.event(point.fd);
            let op = if registration.events == 0 { epoll::ADD } else { epoll::MOD };
            let mut result = self.control(m, op, point.fd, event);
            if result == Errno::EEXIST.to_ret() {
                // A duplicate keeps the number's former file registered.
                result = self.control(m, epoll::MOD, point.fd, event);
            }
            if result < 0 {
                if result == Errno::EBADF.to_ret() {
                    // The descriptor was closed after the caller tried its call, which must be tried again.
                    descriptor.generation.fetch_add(1, AcqRel);
                }
                // Out of memory or descriptors: that may pass.
                registration.refused = result == Errno::EPERM.to_ret();
                if matches!(Errno::from_ret(result), Err(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOSPC))
                {
                    self.refusals.fetch_add(1, Relaxed);
                }
                return false;
            }
            registration.events = wanted;
        }
        true
    }

    /// Does something while the poller does not look at the sets among these descriptors.
    pub(crate) fn apart<R>(&self, m: &impl Host, points: &Points, act: impl FnOnce() -> R) -> R {
        points.iter().for_each(|point| self.put_apart(m, point.fd));
        let result = act();
        points.iter().for_each(|point| self.put_back(m, point.fd));
        result
    }

    fn put_apart(&self, m: &impl Host, fd: u32) {
        let Some(descriptor) = self.get_or_make(fd) else { return };
        let mut registration = descriptor.registration.lock();
        let is_registered = registration.events != 0;
        if is_registered && !registration.is_set {
            return;
        }
        if is_registered && registration.apart == 0 {
            self.control(m, epoll::DEL, fd, Readiness::default());
        }
        // One that is not registered counts, too: it may be before it is put back.
        registration.apart += 1;
    }

    fn put_back(&self, m: &impl Host, fd: u32) {
        let Some(descriptor) = self.get(fd) else { return };
        let mut registration = descriptor.registration.lock();
        // None: no set, or closed meanwhile.
        let Some(left) = registration.apart.checked_sub(1) else { return };
        registration.apart = left;
        if left > 0 || registration.events == 0 {
            return;
        }
        // The poller reports events of the meantime, because a registration reports the present state.
        if self.control(m, epoll::ADD, fd, registration.event(fd)) < 0 {
            registration.events = 0;
            descriptor.generation.fetch_add(1, AcqRel);
        }
    }

    /// Whether a call that does not wait may return EAGAIN though one that waits would not wait: at the end of
    /// datagrams (`__skb_wait_for_more_packets`), and at urgent data while a signal, such as a tick, is pending
    /// (`tcp_recvmsg_locked`).
    pub(crate) fn may_deny(&self, fd: u32) -> bool {
        self.get(fd).is_some_and(|descriptor| descriptor.may_deny.load(Relaxed))
    }

    /// The time limit for a wait on this socket, if any (SO_RCVTIMEO, SO_SNDTIMEO).
    pub(super) fn time_limit(&self, m: &impl Host, point: Point) -> Option<Nanos> {
        let limited = self.sets_limits() || self.get(point.fd)?.registration.lock().limited;
        if limited { facts::socket_time_limit(m, point.fd.into(), point.out) } else { None }
    }

    /// A descriptor was found non-blocking ([`Nonblocking`]).
    pub(super) fn note_nonblocking(&self, fd: u32) {
        if let Some(descriptor) = self.get_or_make(fd) {
            descriptor.nonblocking.note(&self.clearings);
        }
    }

    /// Whether a descriptor is known to be non-blocking.
    #[inline]
    pub(super) fn is_nonblocking(&self, fd: u32) -> bool {
        self.get(fd).is_some_and(|descriptor| descriptor.nonblocking.is_known(&self.clearings))
    }

    /// The host has waited all the same.
    pub(super) fn doubt_nonblocking(&self, fd: u32) {
        if let Some(descriptor) = self.get(fd) {
            descriptor.nonblocking.forget();
        }
    }

    /// Adds a holder of a stand-in.
    pub(super) fn hold(&self, fd: u32) {
        if let Some(descriptor) = self.get_or_make(fd) {
            self.holds.store(true, Relaxed);
            descriptor.holders.fetch_add(1, Relaxed);
        }
    }

    /// Removes one; returns whether it was the last.
    pub(super) fn release(&self, fd: u32) -> bool {
        self.get(fd).is_some_and(|descriptor| descriptor.holders.fetch_sub(1, AcqRel) == 1)
    }

    /// The stand-ins at the moment.
    pub(crate) fn stand_ins(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.holds.load(Relaxed).then(|| self.known(0, u32::MAX)).into_iter().flatten();
        all.filter(|(_, descriptor)| descriptor.holders.load(Relaxed) != 0).map(|(fd, _)| fd)
    }

    /// Handles a report of the poller; returns whether it is about the present file.
    pub(super) fn note_event(&self, event: &Readiness) -> bool {
        let (fd, epoch) = (event.token as u32, (event.token >> 32) as u32);
        let Some(descriptor) = self.get(fd) else { return false };
        {
            let registration = descriptor.registration.lock();
            if registration.epoch != epoch {
                return false;
            }
            descriptor.stream.note_event(event.events);
            if event.events & (Readiness::PEER_CLOSED | Readiness::URGENT) != 0 {
                descriptor.may_deny.store(true, Relaxed);
            }
        }
        descriptor.generation.fetch_add(1, AcqRel);
        true
    }

    /// The number will refer to another file, or to none.
    pub(super) fn forget(&self, m: &impl Host, fd: u32) {
        let Some(descriptor) = self.get(fd) else { return };
        let mut registration = descriptor.registration.lock();
        if registration.events != 0 {
            // A duplicate, here or in another process, would keep it registered.
            self.control(m, epoll::DEL, fd, Readiness::default());
        }
        descriptor.stream.forget();
        descriptor.nonblocking.forget();
        descriptor.may_deny.store(false, Relaxed);
        descriptor.owed.store(0, Relaxed);
        *registration = Registration { epoch: registration.epoch.wrapping_add(1), ..Registration::default() };
        descriptor.generation.fetch_add(1, AcqRel);
    }

    /// The descriptors in a range of which anything is known.
    pub(super) fn known(&self, first: u32, last: u32) -> impl Iterator<Item = (u32, &Descriptor)> + '_ {
        let one = (first == last).then_some(first);
        let several = (first < last).then(|| self.descriptors.numbers().map(|fd| fd as u32));
        let within = several.into_iter().flatten().filter(move |fd| (first..=last).contains(fd));
        one.into_iter().chain(within).filter_map(|fd| Some((fd, self.get(fd)?)))
    }
}

impl Registration {
    fn event(&self, fd: u32) -> Readiness {
        Readiness { events: self.events, token: u64::from(fd) | u64::from(self.epoch) << 32 }
    }
}

impl Descriptor {
    /// Whether the poller has a registration of it, or it was found non-blocking.
    pub(super) fn is_noted(&self) -> bool {
        self.nonblocking.was_noted() || self.registration.lock().events != 0
    }
}
