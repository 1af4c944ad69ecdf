//! Carriers: the host threads that lend themselves to CPUs.
//!
//! A carrier either has a seat (it serves a CPU), is away in a host call without one, or is
//! a spare, asleep on its own futex word until somebody assigns it a seat. See `seat.rs`.

use crate::base::contexts::StateBuffers;
use crate::base::dispositions::{self, CARRIER_MASK, CLONING_MASK};
use crate::base::os::{self, nr};
use crate::carriers::alarms::Alarms;
use crate::carriers::inline::Inline;
use crate::carriers::mailbox::{Asked, Delegated, Tracing};
use arch::context::pending;
use arch::{Gs, syscall, xstate};
use core::mem::offset_of;
use ids::CpuId;
use sync::Lock;
use sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};

/// The most carriers of a process.
pub const CARRIERS_MAX: usize = 1 << 15;
pub(crate) const KERNEL_STACK: usize = 128 << 10;
const SIGNAL_STACK: usize = 64 << 10;
const GUARD: usize = 4096;
/// The memory below a carrier's block, and the block itself. A buffer for a preemption follows.
const BELOW: usize = GUARD + SIGNAL_STACK + GUARD + KERNEL_STACK;
const BLOCK: usize = size_of::<Carrier>().next_multiple_of(4096);

/// Includes the end marker of the state in a signal frame.
fn total() -> usize {
    BELOW + BLOCK + xstate::size() + 64
}

/// The mark of a borrower in [`Gs::borrowed`].
pub(crate) const BORROWED: u32 = 1;
/// The mark of the service thread in [`Gs::borrowed`].
pub const SERVICE: u32 = 2;

/// No identity (`identity`): a carrier that has not begun, or has ended.
pub(crate) const NO_IDENTITY: u32 = u32::MAX;

/// What [`Carrier::polls`] says.
const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const CALLED: u32 = 2;

/// In place of a seat: the carrier shall end.
pub(crate) const END: u32 = u32::MAX;
/// In place of a seat: a host call shall be made.
pub(crate) const CALL: u32 = u32::MAX - 1;
/// In place of a seat: the carrier shall end, unless a tracee or a child needs it.
pub(crate) const RETIRE: u32 = u32::MAX - 2;
/// How often an idle CPU looks around before its carrier sleeps, at most: about 20 µs.
pub(crate) const IDLE_LOOKS: u32 = 300;

/// One carrier. `gs` is what its GS base points to.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Carrier {
    /// The part that assembly uses.
    pub gs: Gs,
    /// The process that it belongs to (`process`). Set when the block is made.
    process: *const (),
    /// Its number: its place in the table.
    pub number: u32,
    /// The host's id of it; 0 before it has begun.
    pub tid: AtomicU32,
    /// The CPU it serves, plus one. Its own.
    pub cpu: AtomicU32,
    /// Its credentials (`identity`). Written by itself, also in its handler; by its maker before it begins.
    pub identity: AtomicU32,
    /// The identity it must have before it takes the seat it has been given; [`NO_IDENTITY`] if any will do.
    pub(crate) wanted: AtomicU32,
    /// Asleep on this word: 0 sleep, 1 look.
    pub park: AtomicU32,
    /// A seat it has been given while it slept: CPU plus one. Swapped out by itself.
    pub assigned: AtomicU32,
    /// A seat that it is given when it is a spare the next time: CPU plus one. Under the lock of the spares.
    owed: AtomicU32,
    /// The CPU whose host CPU it is bound to, plus one. Its own.
    pub placed: AtomicU32,
    /// A kick is on its way; the receiver clears it before it looks.
    pub kicked: AtomicBool,
    /// Requests to it because carriers are few.
    pub(crate) asked: Asked,
    /// How often it looks around, when its CPU is idle, before it sleeps.
    pub(crate) idle_looks: AtomicU32,
    /// Its host timers.
    pub(crate) alarms: Alarms,
    /// Whether it sleeps in the poller, where a signal wakes it: `AWAKE`, `ASLEEP` (set by itself) or `CALLED` (by the one that
    /// sends the signal, whose arrival makes it `AWAKE`).
    polls: AtomicU32,
    /// It is in a host call that waits. Its own.
    pub(crate) waits: AtomicBool,
    /// It shall come back from that call, because its CPU is wanted and nobody else can have it.
    recalled: AtomicBool,
    /// The host call that it has been given in place of a seat.
    pub(crate) delegated: Delegated,
    /// Whether it is in a host call that was taken to be short, and whether it lost its CPU there.
    pub inline: Inline,
    /// Whose children's host parent it is, and requests of a tracer.
    pub(crate) tracing: Tracing,
    /// A buffer for the next preemption. Its own; the handler takes it. The first one it brings with it.
    pub buffer: AtomicPtr<u8>,
    /// The next spare.
    next: AtomicU32,
    /// The host's description of a fault in user code: number, code, address, error code.
    pub fault: FaultInfo,
    /// A borrower's additional state. Set before it begins.
    borrower: AtomicPtr<()>,
    /// If a thread is tied to it: the identity that it has but for that; else [`NO_IDENTITY`]. Its own.
    pub(crate) untied: AtomicU32,
    /// That thread.
    pub(crate) owner: AtomicU32,
    signal_stack: *mut u8,
}

/// A fault that waits to be handled on the kernel stack.
#[derive(Debug, Default)]
pub struct FaultInfo {
    /// The host's siginfo.
    pub info: core::cell::UnsafeCell<[u64; 16]>,
    /// The processor's description of the fault.
    pub trapped: core::cell::UnsafeCell<arch::context::Trapped>,
    /// Whether there is one.
    pub pending: AtomicBool,
}

// SAFETY: other host threads touch the atomics only.
unsafe impl Sync for Carrier {}

const _: () = assert!(offset_of!(Carrier, gs) == 0);

/// All carriers of the process and the list of spares.
#[derive(Debug)]
pub struct Carriers {
    /// The process that they belong to.
    process: AtomicPtr<()>,
    table: *mut AtomicPtr<Carrier>,
    count: AtomicU32,
    /// The first spare, plus one.
    spares: Lock<u32>,
    /// The first whose host thread has ended or is about to, plus one.
    ended: Lock<u32>,
    /// Held while a host thread is cloned.
    cloning: Lock<()>,
}

// SAFETY: the table's entries are atomics, the memory lives as long as the process.
unsafe impl Sync for Carriers {}
// SAFETY: as above.
unsafe impl Send for Carriers {}

impl Carriers {
    /// No carriers yet; `None` without memory.
    pub fn new() -> Option<Carriers> {
        let table = os::map(CARRIERS_MAX * size_of::<AtomicPtr<Carrier>>())?.cast();
        Some(Carriers {
            process: AtomicPtr::new(core::ptr::null_mut()),
            table,
            count: AtomicU32::new(0),
            spares: Lock::new(0),
            ended: Lock::new(0),
            cloning: Lock::new(()),
        })
    }

    /// The carriers made from now on belong to `process`.
    pub(crate) fn belong_to(&self, process: *const ()) {
        self.process.store(process.cast_mut(), Release);
    }

    /// The carrier with that number.
    pub fn get(&self, number: u32) -> &'static Carrier {
        assert!(number < self.count.load(Acquire));
        // SAFETY: numbers below the count have been filled, and carriers are never freed.
        unsafe { &*(*self.table.add(number as usize)).load(Acquire) }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count.load(Acquire)
    }

    /// A new carrier's memory, entered in the table.
    pub fn create(&self) -> Option<&'static Carrier> {
        // The lock also keeps numbers and the table in step.
        let _guard = self.spares.lock();
        let number = self.count.load(Relaxed);
        if number as usize == CARRIERS_MAX {
            return None;
        }
        let carrier = Carrier::map(number, self)?;
        // SAFETY: the layout of `map`. A thread keeps the buffer: this block, unlike a borrowed one, is never freed.
        unsafe { (*carrier).buffer.store(carrier.cast::<u8>().add(BLOCK), Relaxed) };
        // SAFETY: within the table.
        unsafe { (*self.table.add(number as usize)).store(carrier, Release) };
        self.count.store(number + 1, Release);
        // SAFETY: just made; never freed.
        Some(unsafe { &*carrier })
    }

    /// Takes a spare that is asleep (or about to be).
    pub fn take_spare(&self) -> Option<&'static Carrier> {
        let mut first = self.spares.lock();
        let number = first.checked_sub(1)?;
        let carrier = self.get(number);
        *first = carrier.next.load(Relaxed);
        Some(carrier)
    }

    /// A spare, or a new carrier that will begin as one.
    pub fn spare_or_new(&self) -> Option<&'static Carrier> {
        self.take_spare().or_else(|| self.new_carrier())
    }

    /// A new carrier, with the caller's rights.
    pub(crate) fn new_carrier(&self) -> Option<&'static Carrier> {
        let carrier = self.take_ended().or_else(|| self.create())?;
        if !carrier.start(self) {
            self.give_ended(carrier);
            return None;
        }
        Some(carrier)
    }

    /// The block of one whose host thread has ended.
    pub(crate) fn take_ended(&self) -> Option<&'static Carrier> {
        let mut first = self.ended.lock();
        let carrier = self.get(first.checked_sub(1)?);
        // The host clears the word when the stack is no longer in use.
        if carrier.tid.load(Acquire) != 0 {
            return None;
        }
        *first = carrier.next.load(Relaxed);
        Some(carrier)
    }

    /// Keeps the block of one without a host thread.
    pub(crate) fn give_ended(&self, carrier: &Carrier) {
        let mut first = self.ended.lock();
        carrier.next.store(*first, Relaxed);
        *first = carrier.number + 1;
    }

    /// The host threads with this identity, at this moment.
    pub(crate) fn with_identity(&self, identity: u32) -> impl Iterator<Item = &'static Carrier> {
        (0..self.count()).map(|i| self.get(i)).filter(move |c| c.identity.load(SeqCst) == identity)
    }

    /// Whether there is a host thread with this identity, while none is being made.
    pub(crate) fn has_identity(&self, identity: u32) -> bool {
        let _guard = self.cloning.lock();
        self.with_identity(identity).next().is_some()
    }

    /// Takes a spare of that identity out of the list.
    pub(crate) fn take_spare_of(&self, identity: u32) -> Option<&'static Carrier> {
        self.take_spare_if(|c| c.identity.load(SeqCst) == identity)
    }

    /// Takes one out of the list that fits.
    pub(crate) fn take_spare_if(&self, fits: impl Fn(&Carrier) -> bool) -> Option<&'static Carrier> {
        self.unlink(&mut self.spares.lock(), fits)
    }

    fn unlink(&self, first: &mut u32, fits: impl Fn(&Carrier) -> bool) -> Option<&'static Carrier> {
        let mut before: Option<&Carrier> = None;
        let mut at = *first;
        while at != 0 {
            let carrier = self.get(at - 1);
            let next = carrier.next.load(Relaxed);
            if fits(carrier) {
                match before {
                    Some(before) => before.next.store(next, Relaxed),
                    None => *first = next,
                }
                return Some(carrier);
            }
            (before, at) = (Some(carrier), next);
        }
        None
    }

    /// Whether there is a spare of that identity.
    pub(crate) fn has_spare(&self, identity: u32) -> bool {
        let first = self.spares.lock();
        let mut at = *first;
        while at != 0 && self.get(at - 1).identity.load(SeqCst) != identity {
            at = self.get(at - 1).next.load(Relaxed);
        }
        at != 0
    }

    /// No thread has this identity any more: its spares end, unless they are needed.
    pub(crate) fn end_spares(&self, identity: u32) {
        self.end_all(RETIRE, |c| c.identity.load(SeqCst) == identity);
    }

    /// All threads have this identity: spares of another end.
    pub(crate) fn end_spares_but(&self, identity: u32) {
        self.end_all(END, |c| c.identity.load(SeqCst) != identity);
    }

    /// Makes spares end, and those that were kept when others had come to that.
    fn end_all(&self, how: u32, fits: impl Fn(&Carrier) -> bool) {
        while let Some(spare) = self.take_spare_if(&fits) {
            spare.end(how);
        }
        (0..self.count()).map(|i| self.get(i)).filter(|c| c.tracing.let_go()).for_each(|c| c.end(how));
    }

    /// Puts a carrier on the list of spares, unless a seat waits for it.
    pub fn give_spare(&self, carrier: &Carrier) {
        let mut first = self.spares.lock();
        let owed = carrier.owed.swap(0, Relaxed);
        if owed != 0 {
            drop(first);
            carrier.assign(CpuId((owed - 1) as u16));
            return;
        }
        carrier.next.store(*first, Relaxed);
        *first = carrier.number + 1;
    }

    /// Gives the seat to this very carrier: now if it is a spare, otherwise as soon as it is one.
    pub(crate) fn assign_when_free(&self, carrier: &Carrier, cpu: CpuId) {
        let mut first = self.spares.lock();
        if self.unlink(&mut first, |c| c.number == carrier.number).is_none() {
            carrier.owed.store(u32::from(cpu.0) + 1, Relaxed);
            return;
        }
        drop(first);
        carrier.assign(cpu);
    }
}

impl Carrier {
    fn map(number: u32, all: &Carriers) -> Option<*mut Carrier> {
        let base = os::map(total())?;
        // SAFETY: the layout, from low to high: guard, signal stack, guard, kernel stack, block, buffer.
        unsafe {
            let signal_stack = base.add(GUARD);
            if !os::guard(base, GUARD) || !os::guard(signal_stack.add(SIGNAL_STACK), GUARD) {
                os::unmap(base, total());
                return None;
            }
            let block_at = base.add(BELOW);
            let carrier: *mut Carrier = block_at.cast();
            carrier.write(Carrier {
                gs: Gs {
                    rip: 0,
                    user_rsp: 0,
                    context: core::ptr::null_mut(),
                    kernel_stack: block_at as u64,
                    pending: AtomicU32::new(0),
                    interrupt: AtomicU32::new(0),
                    this: carrier.cast(),
                    carrier: number,
                    borrowed: 0,
                    control_words: arch::context::UNKNOWN_WORDS,
                    xmm: [0; 16],
                    fs_base_due: 0,
                },
                process: all.process.load(Acquire),
                number,
                tid: AtomicU32::new(0),
                cpu: AtomicU32::new(0),
                identity: AtomicU32::new(NO_IDENTITY),
                wanted: AtomicU32::new(NO_IDENTITY),
                park: AtomicU32::new(0),
                assigned: AtomicU32::new(0),
                owed: AtomicU32::new(0),
                placed: AtomicU32::new(0),
                kicked: AtomicBool::new(false),
                asked: Asked::default(),
                idle_looks: AtomicU32::new(IDLE_LOOKS),
                alarms: Alarms::default(),
                polls: AtomicU32::new(AWAKE),
                waits: AtomicBool::new(false),
                recalled: AtomicBool::new(false),
                delegated: Delegated::default(),
                inline: Inline::default(),
                tracing: Tracing::default(),
                buffer: AtomicPtr::new(core::ptr::null_mut()),
                next: AtomicU32::new(0),
                fault: FaultInfo::default(),
                borrower: AtomicPtr::new(core::ptr::null_mut()),
                untied: AtomicU32::new(NO_IDENTITY),
                owner: AtomicU32::new(0),
                signal_stack,
            });
            Some(carrier)
        }
    }

    /// A carrier block for a borrower, with its additional state: not in the table.
    pub(crate) fn borrowed(all: &Carriers, borrower: *mut ()) -> Option<*mut Carrier> {
        let carrier = Carrier::map(u32::MAX, all)?;
        // SAFETY: fresh and ours alone.
        unsafe {
            (*carrier).gs.borrowed = BORROWED;
            (*carrier).borrower.store(borrower, Release);
        }
        Some(carrier)
    }

    /// Frees the block of a borrower that has left our memory.
    ///
    /// # Safety
    /// Its host thread must be done with it.
    pub(crate) unsafe fn free_borrowed(carrier: *mut Carrier) {
        // SAFETY: the layout of `map`.
        unsafe { os::unmap(carrier.cast::<u8>().sub(BELOW), total()) };
    }

    /// A borrower's additional state.
    pub(crate) fn borrower_state(&self) -> *mut () {
        self.borrower.load(Acquire)
    }

    /// The process that it belongs to, whose type is known above.
    #[inline(always)]
    pub(crate) fn process_address(&self) -> *const () {
        self.process
    }

    /// The process of the carrier that runs this code: `me().process_address()` without the wait for `me`.
    #[inline(always)]
    pub(crate) fn my_process_address() -> *const () {
        // SAFETY: set when the block is made.
        unsafe { arch::base::own_pointer::<{ offset_of!(Carrier, process) }>() }
    }

    /// The buffer behind a block.
    pub(crate) fn buffer_of(carrier: *mut Carrier) -> *mut u8 {
        carrier.cast::<u8>().wrapping_add(BLOCK)
    }

    /// The kernel stack below a block: where it begins, and its length.
    pub(crate) fn kernel_stack_of(carrier: *mut Carrier) -> (u64, u64) {
        (carrier as u64 - KERNEL_STACK as u64, KERNEL_STACK as u64)
    }

    /// The alternate signal stack of its host thread, as `struct stack_t` has it.
    pub(crate) fn signal_stack(&self) -> [u64; 3] {
        [self.signal_stack as u64, 0, SIGNAL_STACK as u64]
    }

    /// Whether a stack pointer is on that.
    pub(crate) fn is_on_signal_stack(&self, sp: u64) -> bool {
        (self.signal_stack as u64..self.signal_stack as u64 + SIGNAL_STACK as u64).contains(&sp)
    }

    /// The host's handlers run on it from now on, for the calling host thread.
    pub(crate) fn use_signal_stack(&self) {
        let stack = self.signal_stack();
        // SAFETY: the stack is this carrier's own.
        unsafe { syscall!(nr::SIGALTSTACK, stack.as_ptr(), 0) };
    }

    /// The carrier that runs this code.
    #[inline(always)]
    pub fn me() -> &'static Carrier {
        // SAFETY: image code runs on carriers (and the service thread has a block of its own).
        unsafe { &*arch::base::gs().cast::<Carrier>() }
    }

    /// The CPU it serves.
    #[inline(always)]
    pub fn cpu(&self) -> CpuId {
        CpuId(self.cpu.load(Relaxed).wrapping_sub(1) as u16)
    }

    /// The CPU that is served by the carrier that runs this code: `me().cpu()`, at which a trap begins, without the
    /// wait for `me`.
    #[inline(always)]
    pub fn my_cpu() -> CpuId {
        // SAFETY: an atomic of the carrier's.
        CpuId(unsafe { arch::base::own_word::<{ offset_of!(Carrier, cpu) }>() }.wrapping_sub(1) as u16)
    }

    /// Whether a borrower runs this code.
    #[inline(always)]
    pub fn is_borrowed() -> bool {
        // SAFETY: written before the carrier begins.
        unsafe { arch::base::own_word::<{ offset_of!(Carrier, gs) + offset_of!(Gs, borrowed) }>() != 0 }
    }

    /// Clones the host thread. It begins as a spare.
    fn start(&'static self, all: &Carriers) -> bool {
        // VM | FS | FILES | SIGHAND | THREAD | SYSVSEM | PARENT_SETTID
        const FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x4_0000 | 0x10_0000;
        let gs = core::ptr::from_ref(&self.gs).cast_mut();
        // Until it has its GS base, it has its maker's: a kick in between would be taken for the
        // maker's, and its own would count as on its way for ever. It is open from `settle` on.
        // And its maker's identity must not change before it has it (`identity/adopt.rs`).
        #[cfg(feature = "planted")]
        crate::carriers::planted::begin_to_make();
        let before = os::sigprocmask(2, CLONING_MASK);
        let started = {
            let _guard = all.cloning.lock();
            self.identity.store(Carrier::me().identity_for_new(), SeqCst);
            #[cfg(feature = "planted")]
            let refused = crate::carriers::planted::refuses_carrier(all);
            #[cfg(not(feature = "planted"))]
            let refused = false;
            // SAFETY: the block is complete and never freed.
            let started = !refused && unsafe { arch::entry::clone_carrier(FLAGS, gs, self.tid.as_ptr()) > 0 };
            if !started {
                self.identity.store(NO_IDENTITY, SeqCst);
            }
            started
        };
        os::sigprocmask(2, before);
        started
    }

    /// Makes it end: a spare, out of the list, that nobody will give a seat.
    fn end(&self, how: u32) {
        self.assigned.store(how, SeqCst);
        self.wake();
    }

    /// The identity of a carrier that this one, the caller, clones: its own, except for a tie. Takes no lock, because the
    /// service thread clones carriers, too. It cannot change while the caller has signals blocked, or a tie.
    pub(crate) fn identity_for_new(&self) -> u32 {
        match self.untied.load(SeqCst) {
            NO_IDENTITY => self.identity.load(SeqCst),
            untied => untied,
        }
    }

    /// The host thread ends, and the block is free for another.
    pub(crate) fn leave(&self, all: &Carriers) -> ! {
        assert!(!self.is_first(), "the first host thread must outlive the others");
        self.alarms.delete();
        self.placed.store(0, Relaxed);
        self.tracing.forget();
        self.identity.store(NO_IDENTITY, SeqCst);
        // SAFETY: the host clears the word as the last use of the stack.
        unsafe {
            syscall!(nr::SET_TID_ADDRESS, self.tid.as_ptr());
            all.give_ended(self);
            loop {
                syscall!(nr::EXIT, 0);
            }
        }
    }

    /// Whether it is the process's first host thread, whose end ends the process in the host's eyes.
    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// The first steps of every carrier on its host thread: mask, signal stack, dispatch.
    pub fn settle(&self, buffers: &StateBuffers) {
        // A kick may have been meant for the host thread that had this block before.
        self.kicked.store(false, Release);
        self.tid.store(os::gettid() as u32, Release);
        os::sigprocmask(2, CARRIER_MASK);
        self.use_signal_stack();
        os::set_timer_slack(os::FINEST);
        dispositions::dispatch_on();
        self.refill(buffers);
    }

    /// Sees to it that the next preemption has a buffer.
    #[inline(always)]
    pub fn refill(&self, buffers: &StateBuffers) {
        if self.buffer.load(Relaxed).is_null() {
            self.buffer.store(buffers.take(), Relaxed);
        }
    }

    /// Makes it look at its words.
    pub fn wake(&self) {
        self.park.store(1, SeqCst);
        if self.polls.compare_exchange(ASLEEP, CALLED, SeqCst, SeqCst).is_ok() {
            self.gs.interrupt.store(1, SeqCst);
            os::signal_thread(os::getpid(), self.tid.load(Relaxed) as i32, os::SIGNAL_INTERRUPT);
        } else {
            os::futex_wake(&self.park);
        }
    }

    /// It is about to sleep in the poller.
    pub(crate) fn fall_asleep_in_poller(&self) {
        self.polls.store(ASLEEP, SeqCst);
    }

    /// It has slept there. A signal on its way is awaited: it would cut a later call short.
    pub(crate) fn wake_up_in_poller(&self) {
        if self.polls.compare_exchange(ASLEEP, AWAKE, SeqCst, SeqCst).is_err() {
            for round in 0.. {
                if self.polls.load(SeqCst) == AWAKE {
                    break;
                }
                os::relax(round);
            }
        }
        self.gs.interrupt.store(0, SeqCst);
    }

    /// The signal has come: in its handler.
    pub(crate) fn called_in_poller(&self) {
        let _ = self.polls.compare_exchange(CALLED, AWAKE, SeqCst, SeqCst);
    }

    /// Ends all kicks to it, including one in flight: in a new program, which has no handler for it, a late kick
    /// would be fatal. The caller has the signal open.
    pub(crate) fn refuse_kicks(&self) {
        for round in 0.. {
            // Another that has set it either sends or takes it back; in that case try again.
            if !self.kicked.swap(true, SeqCst) {
                return;
            }
            os::relax(round);
        }
    }

    /// The exec failed: answers kicks that were refused meanwhile.
    pub(crate) fn accept_kicks(&self) {
        self.kicked.store(false, SeqCst);
        self.gs.pending.fetch_or(pending::KICK, SeqCst);
    }

    /// It begins a host call that waits.
    pub(crate) fn begin_waiting(&self) {
        self.recalled.store(false, SeqCst);
        self.waits.store(true, SeqCst);
    }

    /// The call has returned for good.
    pub(crate) fn end_waiting(&self) {
        self.waits.store(false, SeqCst);
    }

    /// Whether somebody wants it back.
    pub(crate) fn is_recalled(&self) -> bool {
        self.recalled.load(SeqCst)
    }

    /// Wants it back from a host call that waits: its CPU has other work, and the host gives us no other carrier. The
    /// thread makes its call again.
    /// Says whether it is in one.
    pub(crate) fn recall(&self, pid: i32) -> bool {
        let waits = self.waits.load(SeqCst);
        if waits {
            self.recalled.store(true, SeqCst);
            self.gs.interrupt.store(1, SeqCst);
            os::signal_thread(pid, self.tid.load(Relaxed) as i32, os::SIGNAL_INTERRUPT);
        }
        waits
    }

    /// Makes it carry out what it has been given ([`Delegated`]): a spare, out of the list.
    pub(crate) fn make_call(&self) {
        self.assigned.store(CALL, SeqCst);
        self.wake();
    }

    /// Gives it a seat and makes it take it.
    pub fn assign(&self, cpu: CpuId) {
        self.assigned.store(u32::from(cpu.0) + 1, SeqCst);
        self.wake();
    }
}
