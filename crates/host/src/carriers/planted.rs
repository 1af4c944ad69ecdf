//! Deliberate faults, planted one at a time to show that the machine's own checks catch them. Only with the feature
//! `planted`.

use crate::base::os;
use crate::carriers::carrier::{Carrier, NO_IDENTITY, SERVICE};
use crate::carriers::service_state::Service;
use crate::carriers::table::Carriers;
use arch::planted::Twist;
use sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

const RESUME_TWICE: u32 = 1;
const STUCK: u32 = 2;
const OLD_RIGHTS: u32 = 3;
const MADE_MEANWHILE: u32 = 4;
const ONE_CARRIER: u32 = 5;
const TWO_CARRIERS: u32 = 6;
const DIRECTION_FLAG: u32 = 7;
const NEVER_RESTARTS: u32 = 8;
const VECTORS_LOST: u32 = 9;
const TRAP_UNKNOWN: u32 = 10;
/// The fault strikes after this many resumed threads. Earlier, the program might not have started other threads: nobody
/// would wait for a stopped CPU, and the watchdog would see nothing wrong.
const AFTER: u32 = 20_000;

static FAULT: AtomicU32 = AtomicU32::new(0);
static RESUMED: AtomicU32 = AtomicU32::new(0);

/// Plants the fault of that name. `resume-twice` resumes a thread that another carrier has; `stuck` stops one carrier
/// in the kernel while threads wait for its CPU; `old-rights` lets one host thread keep its rights when the process
/// gives them up. `made-meanwhile` is no fault but a rare order of events: the process gives up rights while the
/// service thread is making a carrier. With `one-carrier` and `two-carriers` the host allows us no more than that many.
pub fn plant(name: &[u8]) {
    let fault = match name {
        b"resume-twice" => RESUME_TWICE,
        b"stuck" => STUCK,
        b"old-rights" => OLD_RIGHTS,
        b"made-meanwhile" => MADE_MEANWHILE,
        b"one-carrier" => ONE_CARRIER,
        b"two-carriers" => TWO_CARRIERS,
        b"direction-flag" => DIRECTION_FLAG,
        b"never-restarts" => NEVER_RESTARTS,
        b"vectors-lost" => VECTORS_LOST,
        b"trap-unknown" => TRAP_UNKNOWN,
        _ => plant_in_calls(name),
    };
    FAULT.store(fault, Relaxed);
}

/// Plants faults of host calls: all of a kind, or `fail=NTH,ERRNO`, or `bus=PAGE`.
fn plant_in_calls(name: &[u8]) -> u32 {
    let twist = match name {
        b"munmap-kept" => Twist::MunmapKept,
        b"protection-ignored" => Twist::ProtectionIgnored,
        b"advice-ignored" => Twist::AdviceIgnored,
        b"wrong-error" => Twist::WrongError,
        b"signal-lost" => Twist::SignalLost,
        b"close-range-flags" => Twist::CloseRangeFlags,
        _ => Twist::Nothing,
    };
    arch::planted::twist(twist);
    let page = name.strip_prefix(b"bus=").and_then(|text| core::str::from_utf8(text).ok());
    if let Some(page) = page.and_then(|text| text.parse().ok()) {
        arch::planted::miss_page(page);
    }
    let numbers = name.strip_prefix(b"fail=").and_then(|text| core::str::from_utf8(text).ok());
    if let Some((nth, errno)) = numbers.and_then(|text| text.split_once(',')) {
        arch::planted::fail(nth.parse().unwrap_or(0), errno.parse().unwrap_or(0));
    }
    0
}

/// Whether handlers find the direction flag set.
pub(crate) fn sets_direction_flag() -> bool {
    FAULT.load(Relaxed) == DIRECTION_FLAG
}

/// Whether no call is restarted after a handler, regardless of SA_RESTART.
pub(crate) fn never_restarts() -> bool {
    FAULT.load(Relaxed) == NEVER_RESTARTS
}

/// Whether handlers change the vector registers.
pub(crate) fn loses_vectors() -> bool {
    FAULT.load(Relaxed) == VECTORS_LOST
}

/// Whether handlers are not told which trap it was.
pub(crate) fn forgets_trap() -> bool {
    FAULT.load(Relaxed) == TRAP_UNKNOWN
}

/// Plants the scheduler's fault of that name. `skip-push` pushes nothing, so that a preempted thread waits where it is.
pub fn plant_in(scheduler: &mut sched::Scheduler, name: &[u8]) {
    if name == b"skip-push" {
        scheduler.plant(sched::Fault::SkipPush);
    }
}

/// The part of the changes that this host thread makes.
pub(crate) fn forget_changes<T>(path: &[T]) -> &[T] {
    if FAULT.compare_exchange(OLD_RIGHTS, 0, Relaxed, Relaxed).is_ok() { &[] } else { path }
}

/// The progress of `made-meanwhile`.
static MEETING: AtomicU32 = AtomicU32::new(NOT_YET);
const NOT_YET: u32 = 0;
const ASKED: u32 = 1;
const MAKING: u32 = 2;
const OUT: u32 = 3;

fn await_meeting(stage: u32) {
    let mut round = 0;
    while MEETING.load(SeqCst) != stage {
        os::relax(round);
        round += 1;
    }
}

/// Called before all host threads are told to change their rights. Makes the service thread find `missing` and begin to
/// make a carrier first.
pub(crate) fn before_order(missing: &AtomicBool, service: &Service) {
    if FAULT.compare_exchange(MADE_MEANWHILE, 0, Relaxed, Relaxed).is_ok() {
        MEETING.store(ASKED, SeqCst);
        missing.store(true, SeqCst);
        assert!(service.call());
        await_meeting(MAKING);
    }
}

/// Whether the host refuses a further carrier, which is counted already.
pub(crate) fn refuses_carrier(all: &Carriers) -> bool {
    let there = (0..all.count()).map(|i| all.get(i)).filter(|c| c.gs.borrowed == 0);
    let count = there.filter(|c| c.identity.load(SeqCst) != NO_IDENTITY).count();
    match FAULT.load(Relaxed) {
        ONE_CARRIER => count > 1,
        TWO_CARRIERS => count > 2,
        _ => false,
    }
}

/// Called when the CPUs have the order.
pub(crate) fn order_is_out() {
    let _ = MEETING.compare_exchange(MAKING, OUT, SeqCst, SeqCst);
}

/// Called before a carrier is made.
pub(crate) fn begin_to_make() {
    if Carrier::me().gs.borrowed == SERVICE && MEETING.compare_exchange(ASKED, MAKING, SeqCst, SeqCst).is_ok() {
        await_meeting(OUT);
    }
}

/// The fault to plant in the thread that is about to be resumed.
pub(crate) enum Resumed {
    Well,
    Twice,
    Never,
}

/// Called before a thread is resumed.
pub(crate) fn resumed() -> Resumed {
    match FAULT.load(Relaxed) {
        0 => Resumed::Well,
        _ if RESUMED.fetch_add(1, Relaxed) < AFTER => Resumed::Well,
        RESUME_TWICE => Resumed::Twice,
        STUCK => Resumed::Never,
        _ => Resumed::Well,
    }
}
