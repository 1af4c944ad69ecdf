//! The poller: an `epoll(7)` instance in which idle carriers sleep while threads wait for descriptors.
//!
//! Descriptors are registered once and report edges (`linux::ready`). Any number of idle carriers sleep in it. Linux
//! wakes the one that began to sleep last, whose caches are warm. A carrier that sleeps there is kicked by a signal
//! ([`Carrier::wake`](crate::carriers::carrier::Carrier::wake)).
//!
//! The personality owns its descriptor ([`linux::State::poller`]).

use crate::base::os::nr;
use crate::carriers::carrier::Carrier;
use crate::carriers::polling::Polling;
use abi::epoll::Readiness;
use arch::{entry, syscall};
use ids::Nanos;
use kernel::parked::Parked;
use sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// The most events that one call takes.
pub(crate) const EVENTS: usize = 64;

/// The poller of a process.
#[derive(Debug, Default)]
pub(crate) struct Poller {
    /// Who attended to it ([`Parked::attendance`]) at the last tick of a busy CPU.
    seen: AtomicU64,
    /// A lookout is posted (`serving::lookout`).
    lookout: AtomicBool,
    /// Whether carriers poll before they sleep in it.
    pub(crate) polling: Polling,
}

impl Poller {
    /// At a tick: whether nobody attends to it. No idle CPU's carrier sleeps in it and none has looked since the tick before (if
    /// real-time threads are parked, that is not enough), and there is no lookout.
    pub(crate) fn is_abandoned(&self, parked: &Parked) -> bool {
        let now = parked.attendance();
        let before = self.seen.swap(now, Relaxed);
        !parked.is_slept_for() && (parked.is_urgent() || before == now) && !self.lookout.load(Relaxed)
    }

    /// Claims the post of the lookout; false if there is one.
    pub(crate) fn set_lookout(&self) -> bool {
        !self.lookout.swap(true, AcqRel)
    }

    /// Gives up the post of the lookout.
    pub(crate) fn clear_lookout(&self) {
        self.lookout.store(false, Release);
    }

    /// How long the carrier of an idle CPU sleeps elsewhere because another attends to the poller; `None`: it sleeps in
    /// the poller.
    ///
    /// If all idle carriers slept in the poller while events arrive fast, each event would wake one that finds nothing
    /// left to do and takes a host CPU from the clients.
    pub(crate) fn pause(me: &Carrier, attended: bool) -> Option<Nanos> {
        const MIN: u32 = 200_000;
        const MAX: u32 = 1_000_000;
        let pause = if attended { (2 * me.pause.load(Relaxed)).clamp(MIN, MAX) } else { 0 };
        me.pause.store(pause, Relaxed);
        attended.then_some(Nanos(pause.into()))
    }

    /// Sleeps ([`Poller::sleep`]) as the carrier of an idle CPU.
    pub(crate) fn wait(&self, me: &Carrier, left: Option<Nanos>, to: &mut [Readiness; EVENTS]) -> usize {
        let parked = &me.process().parked;
        parked.begin_sleep();
        let n = self.sleep(me, left, to);
        parked.end_sleep();
        n
    }

    /// Polls once, as the calling carrier; returns the number of events.
    pub(crate) fn look(&self, me: &Carrier, to: &mut [Readiness; EVENTS]) -> usize {
        let Some(fd) = me.process().personality.poller() else { return 0 };
        me.process().parked.count_look();
        // SAFETY: the host fills the events.
        let n = unsafe { syscall!(nr::EPOLL_WAIT, fd, to.as_mut_ptr(), EVENTS, 0) };
        usize::try_from(n).unwrap_or(0)
    }

    /// Sleeps until there are events, the time is over or the calling carrier is woken; returns the number of events.
    pub(crate) fn sleep(&self, me: &Carrier, left: Option<Nanos>, to: &mut [Readiness; EVENTS]) -> usize {
        let Some(fd) = me.process().personality.poller() else { return 0 };
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
        usize::try_from(n).unwrap_or(0)
    }
}
