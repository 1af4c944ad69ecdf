//! The service thread: the one host thread that takes the program's asynchronous signals.
//!
//! It blocks them and asks for them with `rt_sigtimedwait`, so no handler is needed, no call
//! of a carrier is ever interrupted by one, and the host's dispositions stay as the
//! program wants its children to find them. It is asleep unless a signal arrives.

use crate::carrier::Carrier;
use crate::machine::kernel;
use crate::os::{self, nr};
use crate::page::Publisher;
use crate::watch::Watch;
use crate::{alarms, handlers, identity, neighbour, outside, recorder, report, request, stops, survey, takeover};
use abi::{Errno, SigInfo, si_code};
use arch::syscall;
use ids::{CpuId, Nanos};
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

static SERVICE_TID: AtomicU32 = AtomicU32::new(0);
/// Signals that are left pending, for descriptors of the program to read.
static LEFT: AtomicU64 = AtomicU64::new(0);
/// Those of them that the service thread no longer asks for.
static HEEDED: AtomicU64 = AtomicU64::new(0);

/// The host has refused it.
static MISSING: AtomicBool = AtomicBool::new(false);

/// Starts it, as the second host thread of the process.
///
/// Where the host allows no second one (RLIMIT_NPROC, `pids.max`, memory), the program has one thread: others are refused with
/// EAGAIN, as the host would refuse them, for nobody would watch over them. Its carrier takes signals when it is idle
/// (`stand_in`), and a later attempt may succeed.
pub fn start() {
    takeover::prepare();
    if let Err(error) = try_to_start() {
        MISSING.store(true, Relaxed);
        report::say(format_args!(
            "no service thread (error {error}): threads are refused, and signals from outside arrive when the program sleeps"
        ));
    }
}

/// The process, maybe a forked child, begins.
pub(crate) fn forget() {
    MISSING.store(false, Relaxed);
    SERVICE_TID.store(0, Relaxed);
}

/// There is none.
#[inline]
pub(crate) fn is_missing() -> bool {
    MISSING.load(Relaxed)
}

/// Whether there is one, after another attempt if need be. The caller serves the process's only thread.
#[cold]
pub(crate) fn start_again() -> bool {
    let there = try_to_start().is_ok();
    MISSING.store(!there, Relaxed);
    there
}

/// Its block is a carrier's that never gets a seat.
fn try_to_start() -> Result<(), isize> {
    let carriers = &kernel().m.carriers;
    let Some(carrier) = carriers.take_ended().or_else(|| carriers.create()) else { return Err(Errno::ENOMEM.to_ret()) };
    carrier.identity.store(Carrier::me().identity.load(Relaxed), Relaxed);
    LEFT.store(0, Relaxed);
    HEEDED.store(0, Relaxed);
    stops::forget();
    // VM | FS | FILES | SIGHAND | THREAD | SYSVSEM | PARENT_SETTID
    const FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x4_0000 | 0x10_0000;
    let gs = core::ptr::from_ref(&carrier.gs).cast_mut();
    // Blocked from the beginning: a call that came before it asks would go to a handler and be lost.
    let before = os::sigprocmask(2, !handlers::FAULTS);
    // SAFETY: nobody else uses the block; 2 marks it as the service thread's.
    let r = unsafe {
        (*gs).borrowed = SERVICE;
        arch::entry::clone_carrier(FLAGS, gs, SERVICE_TID.as_ptr())
    };
    os::sigprocmask(2, before);
    if r > 0 {
        return Ok(());
    }
    // There is no host thread that could ever follow a change of rights.
    carrier.identity.store(identity::NONE, Relaxed);
    // SAFETY: as above.
    unsafe { (*gs).borrowed = 0 };
    carriers.give_ended(carrier);
    Err(-r)
}

/// The time between two looks of [`stand_in`].
pub(crate) const STAND_IN: Nanos = Nanos::from_millis(10);

/// The carrier of a process without a service thread takes a signal that has arrived; false if there is none.
#[cold]
pub(crate) fn stand_in() -> bool {
    outside::serve();
    let mut info = [0u8; 128];
    let set = handlers::SERVICE_SET & !LEFT.load(SeqCst);
    let there = take(set, Some(Nanos::ZERO), &mut info) > 0;
    if there {
        let _ = SigInfo::from_bytes(&info).map(deliver);
    }
    there
}

/// The mark of the service thread in [`arch::Gs::borrowed`].
pub const SERVICE: u32 = 2;

/// The service thread's loop.
pub fn run(_me: &'static Carrier) -> ! {
    crate::place::release();
    let mut watch = Watch::new(kernel().config().cpus);
    let mut page = Publisher::default();
    // A signal that did not fit. Until it does, others of its kind stay at the host, where their senders meet the
    // host's limit.
    let mut held: Option<SigInfo> = None;
    let mut order = Order::default();
    let rounds = &kernel().m.receiving.rounds;
    loop {
        held = held.and_then(deliver);
        outside::serve();
        let left = LEFT.load(SeqCst);
        HEEDED.store(left, SeqCst);
        stops::serve(left);
        let simple = stops::adopt(left);
        let queueing = if held.is_some() { REAL_TIME } else { 0 };
        let called = outside::SIGNALS | 1 << (CALL - 1) | u64::from(CALLED.load(SeqCst)) << (CALL_NO_ROOM - 1);
        let set = handlers::SERVICE_SET & !left & !queueing & !simple | called;
        let patience = held.is_some().then_some(PATIENCE);
        let sleep =
            [recorder::sooner(watch.sleep()), page.sleep(), alarms::sleep(), patience].into_iter().flatten().min();
        let mut info = [0u8; 128];
        rounds.begin(set);
        let r = order.next(set, sleep, &mut info);
        rounds.deliver();
        if r == CALL as isize && is_call(&info) || r == CALL_NO_ROOM as isize && handlers::is_ours(&info) {
            CALLED.store(false, SeqCst);
            follow(&mut page);
            watch.begin();
        } else if r > 0
            && let Ok(info) = SigInfo::from_bytes(&info)
        {
            if Publisher::is_request(&info) {
                page.ask();
            } else {
                // Only a real-time signal is ever refused, and there is none in hand if one comes.
                held = deliver(info).or(held);
            }
        }
        rounds.end();
        alarms::ring();
        watch.look();
        recorder::look();
        page.look();
    }
}

/// Does what the table of identities wants of the service thread. When it has other rights than before, the page is no
/// longer mapped: so it is before the call that changes them answers, which waits for this.
fn follow(page: &mut Publisher) {
    if identity::serve(|| page.withdraw()) {
        crate::page::announce();
    }
}

/// In which order real-time signals are taken.
///
/// The host's queue is one list, and it looks through that for the signal which it is to give and for another of the
/// same number (`collect_signal`). To be given the lowest first means to go past all others each time: with some
/// thousand of eight numbers in the queue one took a millisecond. By turns, what is wanted lies at the
/// list's beginning, whatever there is. Which of those that are queued *here* is delivered first, is decided here.
#[derive(Default)]
struct Order {
    /// The last real-time signal.
    last: u32,
    /// Different numbers came one after the other.
    mixed: bool,
}

impl Order {
    /// The next signal of the set; 0 or less if there was none in this time.
    fn next(&mut self, set: u64, patience: Option<Nanos>, info: &mut [u8; 128]) -> isize {
        let above = set & (!REAL_TIME | 1 << (CALL - 1) | (!0u64).checked_shl(self.last).unwrap_or(0));
        let mut r = if self.mixed { take(above, Some(Nanos::ZERO), info) } else { 0 };
        if r <= 0 {
            r = take(set, patience, info);
        }
        if let Ok(signal @ 34..) = u32::try_from(r) {
            self.mixed = signal != self.last;
            self.last = signal;
        }
        r
    }
}

/// `rt_sigtimedwait`.
fn take(set: u64, patience: Option<Nanos>, info: &mut [u8; 128]) -> isize {
    let time = patience.map(|t| [t.0 / 1_000_000_000, t.0 % 1_000_000_000]);
    let time = time.as_ref().map_or(core::ptr::null(), |t| t.as_ptr());
    // SAFETY: all three are ours.
    unsafe { syscall!(nr::RT_SIGTIMEDWAIT, &raw const set, info.as_mut_ptr(), time, 8) }
}

/// Its host thread's id; 0 if it could not be started.
pub(crate) fn tid() -> i32 {
    SERVICE_TID.load(Relaxed) as i32
}

/// Signals that queue.
const REAL_TIME: u64 = !0 << 31;
/// The pause before checking again whether a signal fits.
const PATIENCE: Nanos = Nanos(1_000_000);

/// By this signal the watcher is called.
const CALL: i32 = os::SIGNAL_INTERRUPT;
/// The call when there is no room to queue the other one (SIGSTKFLT, which no program uses). The service thread
/// receives it like the program's signals, so no call comes too early for its sleep.
const CALL_NO_ROOM: i32 = 16;
/// It may have been called by that one.
static CALLED: AtomicBool = AtomicBool::new(false);

/// Whether a signal of that number is one of ours.
fn is_call(info: &[u8; 128]) -> bool {
    [os::COOKIE, os::IDENTITY_COOKIE].iter().any(|cookie| info[24..32] == cookie.to_ne_bytes())
}

/// Calls the watcher; false if there is no service thread yet.
pub(crate) fn call() -> bool {
    let tid = SERVICE_TID.load(Relaxed);
    if tid != 0 {
        let pid = kernel().m.pid;
        if os::queue(pid, tid as i32, CALL, os::COOKIE) != 0 {
            CALLED.store(true, SeqCst);
            os::send(pid, tid as i32, CALL_NO_ROOM);
        }
    }
    tid != 0
}

/// The signals that are left pending.
pub(crate) fn left() -> u64 {
    LEFT.load(SeqCst)
}

/// Leaves the signals of this set pending from now on, and receives all others.
///
/// When it returns, none of the set is received any more: the service thread, which may be asking for some of them,
/// has been called and has started over. Otherwise it would receive a signal that the caller queues next, and a
/// program that reads its descriptor at once would find nothing there.
///
/// The service thread itself calls this between two rounds, when it asks for none. The caller holds no lock, so that
/// the round can finish.
pub(crate) fn leave(set: u64) {
    if LEFT.swap(set, SeqCst) == set || !call() || Carrier::me().gs.borrowed == SERVICE {
        return;
    }
    // Signals that other threads claim back meanwhile are not waited for.
    for round in 0.. {
        if set & LEFT.load(SeqCst) & !HEEDED.load(SeqCst) == 0 {
            return;
        }
        os::relax(round);
    }
}

/// Returns the signal if there is no room for it.
pub(crate) fn deliver(info: SigInfo) -> Option<SigInfo> {
    if request::serve(&info) || neighbour::serve(kernel(), &info) {
        return None;
    }
    // It has no CPU: every CPU that must look is kicked.
    let refused = linux::Linux(kernel()).signal_from_host(CpuId::NONE, info) == Err(Errno::EAGAIN);
    (refused && info.code() != si_code::TIMER).then_some(info)
}

/// How long the host let our host threads wait for a processor, in all.
pub fn stolen() -> ids::Nanos {
    let carriers = kernel().m.carriers();
    let mut sum = 0;
    for i in 0..carriers.count() {
        let tid = carriers.get(i).tid.load(Relaxed);
        if tid != 0 {
            sum += survey::run_delay(tid).0;
        }
    }
    ids::Nanos(sum)
}
