//! The poller: an instance of `epoll(7)` in which idle carriers sleep while threads wait for descriptors.
//!
//! Descriptors are registered once and report edges (`linux::ready`). Any number of idle carriers sleep in it; Linux wakes
//! the one that came last, whose caches are warm. A kick to a carrier that sleeps there is a signal
//! ([`Carrier::wake`](crate::carriers::carrier::Carrier::wake)).
//!
//! The instance is made when the first thread parks. Its descriptor is ours: the program cannot close it
//! ([`linux::Host::poller`]), exec closes it, and a forked child closes its copy and makes its own.

use crate::base::os::{self, nr};
use crate::carriers::carrier::Carrier;
use abi::epoll::Readiness;
use arch::{entry, syscall};
use ids::Nanos;
use sync::Lock;
use sync::atomic::{AtomicI32, AtomicU32, Ordering::*};

/// How many events one look takes.
pub(crate) const EVENTS: usize = 64;

/// Our descriptor lies near the end of the first table of descriptors that Linux makes, out of the way of those that the program
/// opens, which get the lowest numbers; a higher one would make `fork` copy a larger table.
const DESCRIPTOR_FROM: i32 = 1000;

/// The poller of a process.
#[derive(Debug)]
pub(crate) struct Poller {
    /// The instance; -1 before there is one.
    fd: AtomicI32,
    making: Lock<()>,
    /// Carriers that sleep in it.
    sleepers: AtomicU32,
}

impl Default for Poller {
    fn default() -> Poller {
        Poller { fd: AtomicI32::new(-1), making: Lock::new(()), sleepers: AtomicU32::new(0) }
    }
}

impl Poller {
    /// The instance, made if there is none yet.
    pub(crate) fn get_or_make(&self) -> Option<i32> {
        let fd = self.fd.load(Acquire);
        if fd >= 0 {
            return Some(fd);
        }
        let _guard = self.making.lock();
        let fd = self.fd.load(Acquire);
        if fd >= 0 {
            return Some(fd);
        }
        const CLOEXEC: usize = 0o2000000;
        // SAFETY: a new descriptor harms nobody.
        let low = unsafe { syscall!(nr::EPOLL_CREATE1, CLOEXEC) };
        let low = i32::try_from(low).ok().filter(|&fd| fd >= 0)?;
        let fd = match os::duplicate(low, DESCRIPTOR_FROM) {
            Some(high) => {
                os::close(low);
                high
            }
            None => low,
        };
        self.fd.store(fd, Release);
        Some(fd)
    }

    /// The instance's descriptor, if there is one.
    pub(crate) fn descriptor(&self) -> Option<u32> {
        u32::try_from(self.fd.load(Acquire)).ok()
    }

    /// The program wants this very number (`dup2(2)`): ours gets another.
    pub(crate) fn move_away(&self) {
        let _guard = self.making.lock();
        let fd = self.fd.load(Acquire);
        if let Some(other) = os::duplicate(fd, DESCRIPTOR_FROM) {
            self.fd.store(other, Release);
            os::close(fd);
        }
    }

    /// Whether a carrier sleeps in it.
    pub(crate) fn is_used(&self) -> bool {
        self.sleepers.load(Relaxed) != 0
    }

    /// Sleeps until there are events, the time is over or the carrier, the caller, is woken: how many events.
    pub(crate) fn wait(&self, me: &Carrier, left: Option<Nanos>, to: &mut [Readiness; EVENTS]) -> usize {
        let Some(fd) = self.descriptor() else { return 0 };
        self.sleepers.fetch_add(1, Relaxed);
        me.fall_asleep_in_poller();
        let mut n = 0;
        if me.park.load(SeqCst) == 0 {
            let time = left.map(|t| [t.0 / 1_000_000_000, t.0 % 1_000_000_000]);
            let time = time.as_ref().map_or(core::ptr::null(), |t| t.as_ptr());
            let words = [nr::EPOLL_PWAIT2 as u64, fd.into(), to.as_mut_ptr() as u64, EVENTS as u64, time as u64, 0, 8];
            // SAFETY: the host fills the events.
            n = unsafe { entry::host_call(&words) };
        }
        me.wake_up_in_poller();
        self.sleepers.fetch_sub(1, Relaxed);
        usize::try_from(n).unwrap_or(0)
    }
}
