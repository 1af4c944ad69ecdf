//! The host timers of a carrier. There are two, so that one can be armed a tick ahead.
//!
//! Arming a timer that becomes the next event of its host CPU programs the hardware, which is an exit in a virtual
//! machine and used to delay every preemption (figures in `docs/PERFORMANCE.md`). With two timers, the next one is
//! armed already when a tick goes off: the host programs the hardware in its own interrupt, where it must do so anyway,
//! and each tick arms the one after the next.
//!
//! | word | meaning | writer |
//! |---|---|---|
//! | `id` | the host's number; −1: not made yet | the carrier |
//! | `at` | when it goes off, by CLOCK_MONOTONIC; MAX: not armed, or its signal has arrived | the carrier, its handler |
//! | `rung_at` | when the service thread must kick instead; 0: it has; MAX: it need not | the carrier sets it, the service thread sets 0, the carrier's handler MAX |
//!
//! A timer whose time has come but whose signal has not arrived still counts as armed.
//!
//! **Without a timer**, when RLIMIT_SIGPENDING is exhausted, the service thread *rings*: it sleeps until the time and
//! kicks the carrier. That costs two switches of host threads a tick, and one host call for each new attempt to arm a
//! timer.

use crate::base::os::{self, nr};
use crate::base::report;
use crate::carriers::carrier::Carrier;
use crate::carriers::service_state::Service;
use crate::carriers::table::Carriers;
use abi::args::TIMER_ABSTIME;
use abi::{Errno, SigEvent};
use arch::syscall;
use ids::Nanos;
use sync::atomic::{AtomicI32, AtomicU64, Ordering::*};

/// Both timers of one carrier.
#[derive(Debug)]
pub struct Alarms {
    alarms: [Alarm; 2],
    rung_at: AtomicU64,
}

impl Default for Alarms {
    fn default() -> Alarms {
        Alarms { alarms: Default::default(), rung_at: AtomicU64::new(NEVER) }
    }
}

const NEVER: u64 = u64::MAX;
const RUNG: u64 = 0;

#[derive(Debug)]
struct Alarm {
    id: AtomicI32,
    at: AtomicU64,
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm { id: AtomicI32::new(-1), at: AtomicU64::new(u64::MAX) }
    }
}

impl Alarms {
    /// Arms the tick signal of the calling carrier, the host thread `tid`, for `at` or somewhat earlier; and, if a
    /// timer is unused, also for about `then`.
    pub(crate) fn set(&self, service: &Service, tid: u32, at: Nanos, then: Option<Nanos>) {
        let [a, b] = &self.alarms;
        let (first, other) = match (a.at.load(Relaxed), b.at.load(Relaxed)) {
            (x, y) if x.min(y) <= at.0 => return Self::ahead(tid, at, then, [a, b]),
            // Reuse the timer that has gone off, else the later one.
            (x, y) if x == u64::MAX || (y != u64::MAX && x > y) => (a, b),
            (_, y) if y != u64::MAX || b.exists() => (b, a),
            _ => (a, b),
        };
        if let Err(error) = first.set(tid, at) {
            return self.be_rung(service, at, error);
        }
        if let Some(then) = then
            && other.at.load(Relaxed) == u64::MAX
        {
            // The second timer is an optimisation: without it the next tick is armed later.
            let _ = other.set(tid, then);
        }
    }

    /// Arms the first timer, before any was armed; false if the host refuses.
    pub(crate) fn can_be_set(&self, tid: u32, at: Nanos) -> bool {
        self.alarms[0].set(tid, at).is_ok()
    }

    /// A timer for `at` is armed already; arms the other at the same distance as `then` has from `at`.
    fn ahead(tid: u32, at: Nanos, then: Option<Nanos>, [a, b]: [&Alarm; 2]) {
        let Some(then) = then else { return };
        let (next, other) = if a.at.load(Relaxed) <= b.at.load(Relaxed) { (a, b) } else { (b, a) };
        if other.at.load(Relaxed) == u64::MAX {
            let _ = other.set(tid, Nanos(next.at.load(Relaxed)) + then.since(at));
        }
    }

    /// Asks the service thread to ring at `at`. It is called only if it has not been asked for an earlier time.
    #[cold]
    fn be_rung(&self, service: &Service, at: Nanos, error: Errno) {
        service.rings.store(true, SeqCst);
        if self.rung_at.fetch_min(at.0.max(RUNG + 1), SeqCst) > at.0 && !service.call() {
            report::fatal(format_args!(
                "the host refused a timer for a carrier (error {}; 11: the user's processes have all the timers and pending \
                 signals that `ulimit -i` allows)",
                error.0
            ));
        }
    }

    /// Notes the arrival of a tick in the carrier's handler; true if it was the service thread's ring.
    pub fn was_rung(&self) -> bool {
        self.rung_at.load(Relaxed) == RUNG && self.rung_at.compare_exchange(RUNG, NEVER, SeqCst, Relaxed).is_ok()
    }

    /// Cancels rings, and waits for one that is on its way. The caller has the tick unblocked; its CPU asks again when
    /// it arms its timer.
    pub(crate) fn refuse_rings(&self) {
        for round in 0.. {
            match self.rung_at.load(SeqCst) {
                // The signal is on its way; the handler takes it.
                RUNG => os::relax(round),
                at if self.rung_at.compare_exchange(at, NEVER, SeqCst, SeqCst).is_ok() => return,
                _ => {}
            }
        }
    }

    /// Notes in the carrier's handler that the signal of this timer has arrived.
    pub fn went_off(&self, id: i32) {
        for alarm in &self.alarms {
            if alarm.id.load(Relaxed) == id {
                alarm.at.store(u64::MAX, Relaxed);
            }
        }
    }

    /// Disarms both timers.
    pub(crate) fn disarm(&self) {
        for alarm in self.alarms.iter().filter(|alarm| alarm.exists()) {
            alarm.at.store(u64::MAX, Relaxed);
            let never = [0_u64; 4];
            // SAFETY: the timer is this carrier's, and the host reads the times.
            unsafe { syscall!(nr::TIMER_SETTIME, alarm.id.load(Relaxed), 0, never.as_ptr(), 0) };
        }
    }

    /// Counts both as not armed, because their signals may have been lost.
    pub fn forget(&self) {
        for alarm in &self.alarms {
            alarm.at.store(u64::MAX, Relaxed);
        }
    }

    /// Takes over a timer that sends its signals to the calling carrier but that it has not made.
    pub(crate) fn adopt(&self, id: i32) {
        self.alarms[0].id.store(id, Relaxed);
    }

    /// Deletes both timers, because the carrier's host thread is about to end.
    pub fn delete(&self) {
        for alarm in &self.alarms {
            let id = alarm.id.swap(-1, Relaxed);
            alarm.at.store(u64::MAX, Relaxed);
            self.rung_at.store(NEVER, SeqCst);
            if id >= 0 {
                // SAFETY: the timer is this carrier's.
                unsafe { syscall!(nr::TIMER_DELETE, id) };
            }
        }
    }
}

/// How long the service thread may sleep before it must ring; `None`: no limit.
pub(crate) fn sleep(service: &Service, all: &Carriers) -> Option<Nanos> {
    let at = waiting(service, all).map(|(_, at)| at).min()?;
    Some(Nanos(at).since(os::clock_gettime(1)))
}

/// Kicks the carriers whose time has come.
pub(crate) fn ring(service: &Service, all: &Carriers) {
    for (carrier, at) in waiting(service, all) {
        let due = at <= os::clock_gettime(1).0;
        // If the carrier asks for an earlier time meanwhile, it calls the service thread, which checks again.
        if due && carrier.alarms.rung_at.compare_exchange(at, RUNG, SeqCst, Relaxed).is_ok() {
            os::ring(os::getpid(), carrier.tid.load(Acquire) as i32);
        }
    }
}

/// The carriers that must be rung, and when.
fn waiting<'a>(service: &Service, all: &'a Carriers) -> impl Iterator<Item = (&'static Carrier, u64)> + use<'a> {
    let count = if service.rings.load(SeqCst) { all.count() } else { 0 };
    let all = (0..count).map(|i| all.get(i)).map(|c| (c, c.alarms.rung_at.load(SeqCst)));
    all.filter(|&(_, at)| at != RUNG && at != NEVER)
}

impl Alarm {
    fn exists(&self) -> bool {
        self.id.load(Relaxed) >= 0
    }

    /// Arms the timer, and creates it first if necessary.
    fn set(&self, tid: u32, at: Nanos) -> Result<(), Errno> {
        if !self.exists() {
            self.id.store(create(tid)?, Relaxed);
        }
        // A time in the past fires at once. Zero would disarm the timer.
        let at = at.max(Nanos(1));
        self.at.store(at.0, Relaxed);
        let spec = [0, 0, at.0 / 1_000_000_000, at.0 % 1_000_000_000];
        // SAFETY: the host reads the times.
        let r = unsafe { syscall!(nr::TIMER_SETTIME, self.id.load(Relaxed), TIMER_ABSTIME, spec.as_ptr(), 0) };
        if r < 0 {
            self.at.store(u64::MAX, Relaxed);
        }
        Errno::from_ret(r).map(|_| ())
    }
}

/// Creates a timer that sends the calling host thread one tick after `after`: its id; `None` if the host refuses.
pub(crate) fn make_one(after: Nanos) -> Option<i32> {
    let id = create(os::gettid() as u32).ok()?;
    let spec = [0, 0, 0, after.0];
    // SAFETY: the host reads the times.
    unsafe { syscall!(nr::TIMER_SETTIME, id, 0, spec.as_ptr(), 0) };
    Some(id)
}

fn create(tid: u32) -> Result<i32, Errno> {
    let (signo, notify) = (os::SIGNAL_TICK, SigEvent::THREAD_ID);
    let event = SigEvent { value: os::COOKIE, signo, notify, tid: tid as i32 }.to_bytes();
    let mut id = -1i32;
    // SAFETY: the host reads the event and fills the id.
    let r = unsafe { syscall!(nr::TIMER_CREATE, 1, event.as_ptr(), &raw mut id) };
    if r < 0 { Err(Errno(-r as i32)) } else { Ok(id) }
}
