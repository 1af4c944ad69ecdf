//! Carriers: the host threads that run our threads.
//!
//! A carrier has a seat (it serves a CPU), is away in a host call without one, or is a spare, asleep on its own futex
//! word until it is assigned a seat. See `seat.rs`.

use crate::base::contexts::StateBuffers;
use crate::base::os;
use crate::carriers::alarms::Alarms;
use crate::carriers::inline::Inline;
use crate::carriers::mailbox::{Asked, Delegated, Tracing};
use arch::{Gs, xstate};
use core::mem::offset_of;
use ids::CpuId;
use sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

pub(crate) const KERNEL_STACK: usize = 128 << 10;
const SIGNAL_STACK: usize = 64 << 10;
const GUARD: usize = 4096;
/// The memory below a carrier's block. The block and a buffer for a preemption follow.
const BELOW: usize = GUARD + SIGNAL_STACK + GUARD + KERNEL_STACK;
const BLOCK: usize = size_of::<Carrier>().next_multiple_of(4096);

/// No set of signals: the host must be told of the present one.
pub(crate) const UNTOLD: u64 = u64::MAX;

/// The memory for exec behind the buffer of a borrower's block.
pub(crate) const PIECE: usize = 64 << 10;

/// Includes the end marker of the state in a signal frame.
fn total() -> usize {
    BELOW + BLOCK + xstate::size() + 64
}

fn total_borrowed() -> usize {
    total().next_multiple_of(64) + PIECE
}

/// The mark of a borrower in [`Gs::borrowed`].
pub(crate) const BORROWED: u32 = 1;
/// The mark of the service thread in [`Gs::borrowed`].
pub const SERVICE: u32 = 2;

/// Values of [`Carrier::polls`].
pub(super) const AWAKE: u32 = 0;
pub(super) const ASLEEP: u32 = 1;
pub(super) const CALLED: u32 = 2;

/// The mark of a forked child that has no kernel yet (`services::unborn`) in [`Gs::borrowed`].
pub(crate) const UNBORN: u32 = 3;

/// No identity (`identity`): the carrier has not begun, or has ended.
pub(crate) const NO_IDENTITY: u32 = u32::MAX;

/// In place of a seat: end.
pub(crate) const END: u32 = u32::MAX;
/// In place of a seat: make the host call that was handed over.
pub(crate) const CALL: u32 = u32::MAX - 1;
/// In place of a seat: end, unless a tracee or a child needs this host thread.
pub(crate) const RETIRE: u32 = u32::MAX - 2;
/// In place of a seat: wait for events while every CPU is busy.
pub(crate) const LOOK_OUT: u32 = u32::MAX - 3;
/// The maximum number of polls of an idle CPU before its carrier sleeps: about 20 µs.
pub(crate) const IDLE_LOOKS: u32 = 300;

/// One carrier. `gs` is what its GS base points to.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Carrier {
    /// The part that assembly uses.
    pub gs: Gs,
    /// The process it belongs to (`process`). Set when the block is made.
    process: *const (),
    /// The id of that process, which a borrower needs to wake the carrier, because its own id differs.
    pub(super) pid: i32,
    /// The carrier's number: its place in the table.
    pub number: u32,
    /// The host thread's id; 0 before the carrier has begun.
    pub tid: AtomicU32,
    /// The CPU that the carrier serves, plus one. Written by the carrier only.
    pub cpu: AtomicU32,
    /// The number of its credentials (`identity`). Written by the carrier, also in its handler; before it begins, by
    /// its maker.
    pub identity: AtomicU32,
    /// The identity it must have before it takes the assigned seat; [`NO_IDENTITY`] if any will do.
    pub(crate) wanted: AtomicU32,
    /// The futex word that it sleeps on: 0 sleep, 1 look.
    pub park: AtomicU32,
    /// The seat assigned to it while it slept: CPU plus one. Taken by an exchange of its own.
    pub assigned: AtomicU32,
    /// The seat assigned to it for the next time it is a spare: CPU plus one. Under the lock of the spares.
    pub(super) owed: AtomicU32,
    /// The CPU to whose host CPU the carrier is bound, plus one; `u32::MAX`: unknown. Written by the carrier, and by
    /// one that is about to wake it.
    pub placed: AtomicU32,
    /// The host CPU, plus one, on which it ran at its last check
    /// ([`Places::part`](crate::carriers::place::Places::part)), and when that was; 0: no check since it has its seat.
    pub(crate) ran_on: AtomicU32,
    pub(crate) looked_at: AtomicU64,
    /// A kick is on its way; the receiver clears it before it checks its run queue.
    pub kicked: AtomicBool,
    /// Requests to it because there are few carriers.
    pub(crate) asked: Asked,
    /// How often it polls, when its CPU is idle, before it sleeps.
    pub(crate) idle_looks: AtomicU32,
    /// Nanoseconds until it checks again whether another carrier attends to the poller; 0: at the last check none did.
    /// Private to it.
    pub(crate) pause: AtomicU32,
    /// The carrier's host timers.
    pub(crate) alarms: Alarms,
    /// Whether it sleeps in the poller, where a signal wakes it: `AWAKE`, `ASLEEP` (set by itself) or `CALLED` (set by
    /// whoever sends the signal, whose arrival makes it `AWAKE`).
    pub(super) polls: AtomicU32,
    /// In a process without a service thread: the thread's mask, the ignored signals and those with handlers, as the
    /// host was last told; [`UNTOLD`]: it must be told. Written by the carrier only.
    pub(crate) told: [AtomicU64; 3],
    /// A handler has left work for the carrier, in a process with one thread. Written by the carrier only.
    pub(crate) stirred: AtomicBool,
    /// The carrier is in a host call that waits. Written by the carrier only.
    pub(crate) waits: AtomicBool,
    /// The carrier must return from that call, because its CPU is wanted and no other carrier can serve it.
    pub(super) recalled: AtomicBool,
    /// The carrier is in a host call that should not wait and that its tick ends ([`linux::Ends`]). Written by the
    /// carrier only.
    pub(crate) brief: AtomicBool,
    /// The host call that it has been given in place of a seat.
    pub(crate) delegated: Delegated,
    /// Whether it is in a host call that was expected to be short, and whether it lost its CPU there.
    pub inline: Inline,
    /// The thread whose children it is the host parent of, and requests of a tracer.
    pub(crate) tracing: Tracing,
    /// A buffer for the next preemption, which the carrier's handler takes. Each carrier is made with one.
    pub buffer: AtomicPtr<u8>,
    /// The next spare.
    pub(super) next: AtomicU32,
    /// The host's description of a fault in user code: number, code, address, error code.
    pub fault: FaultInfo,
    /// A borrower's additional state, or that of a forked child without a kernel. Set before it begins.
    pub(crate) borrower: AtomicPtr<()>,
    /// How much of its piece a borrower's exec has used (`services/borrower/memory.rs`); MAX: it is not executing a
    /// program.
    pub(crate) taken: AtomicUsize,
    /// If a thread is tied to the carrier, the identity it would have otherwise; else [`NO_IDENTITY`]. Written by the
    /// carrier only.
    pub(crate) untied: AtomicU32,
    /// The thread that is tied to the carrier.
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
    /// Whether there is a fault.
    pub pending: AtomicBool,
    /// The carrier executes a program; signals that the program handles are kept here meanwhile (`services/caught.rs`).
    pub catches: AtomicBool,
    /// The address of the breakpoint of a controlled run that the thread has reached; 0: none.
    pub point: AtomicU64,
}

// SAFETY: other host threads touch the atomics only.
unsafe impl Sync for Carrier {}

const _: () = assert!(offset_of!(Carrier, gs) == 0);

impl Carrier {
    pub(super) fn map(number: u32, process: *const ()) -> Option<*mut Carrier> {
        let carrier = Carrier::reserve(total())?;
        // SAFETY: fresh and ours alone.
        unsafe { Carrier::write(carrier, number, process) };
        Some(carrier)
    }

    /// Memory for a block with its stacks, from low to high: guard, signal stack, guard, kernel stack, block, buffer;
    /// for a borrower also the piece.
    fn reserve(total: usize) -> Option<*mut Carrier> {
        let base = os::map(total)?;
        // SAFETY: the layout.
        unsafe {
            if !os::guard(base, GUARD) || !os::guard(base.add(GUARD + SIGNAL_STACK), GUARD) {
                os::unmap(base, total);
                return None;
            }
            Some(base.add(BELOW).cast())
        }
    }

    /// # Safety
    /// The block has been reserved, and nobody uses it.
    unsafe fn write(carrier: *mut Carrier, number: u32, process: *const ()) {
        // SAFETY: the layout of `reserve`.
        unsafe {
            let signal_stack = carrier.cast::<u8>().sub(BELOW - GUARD);
            carrier.write(Carrier {
                gs: Gs {
                    rip: 0,
                    user_rsp: 0,
                    context: core::ptr::null_mut(),
                    kernel_stack: carrier as u64,
                    pending: AtomicU32::new(0),
                    interrupt: AtomicU32::new(0),
                    this: carrier.cast(),
                    carrier: number,
                    borrowed: 0,
                    control_words: arch::context::UNKNOWN_WORDS,
                    xmm: [0; 16],
                    fs_base_due: 0,
                },
                process,
                pid: os::getpid(),
                number,
                tid: AtomicU32::new(0),
                cpu: AtomicU32::new(0),
                identity: AtomicU32::new(NO_IDENTITY),
                wanted: AtomicU32::new(NO_IDENTITY),
                park: AtomicU32::new(0),
                assigned: AtomicU32::new(0),
                owed: AtomicU32::new(0),
                placed: AtomicU32::new(0),
                ran_on: AtomicU32::new(0),
                looked_at: AtomicU64::new(0),
                kicked: AtomicBool::new(false),
                asked: Asked::default(),
                idle_looks: AtomicU32::new(IDLE_LOOKS),
                pause: AtomicU32::new(0),
                alarms: Alarms::default(),
                polls: AtomicU32::new(AWAKE),
                told: [UNTOLD; 3].map(AtomicU64::new),
                stirred: AtomicBool::new(false),
                waits: AtomicBool::new(false),
                brief: AtomicBool::new(false),
                recalled: AtomicBool::new(false),
                delegated: Delegated::default(),
                inline: Inline::default(),
                tracing: Tracing::default(),
                buffer: AtomicPtr::new(core::ptr::null_mut()),
                next: AtomicU32::new(0),
                fault: FaultInfo::default(),
                borrower: AtomicPtr::new(core::ptr::null_mut()),
                taken: AtomicUsize::new(usize::MAX),
                untied: AtomicU32::new(NO_IDENTITY),
                owner: AtomicU32::new(0),
                signal_stack,
            });
        }
    }

    /// A carrier block for a borrower, with its additional state; it is not in the table. `carrier` may be a block that
    /// another borrower had.
    ///
    /// # Safety
    /// That borrower is done with it.
    pub(crate) unsafe fn borrowed(
        spare: Option<*mut Carrier>,
        process: *const (),
        borrower: *mut (),
    ) -> Option<*mut Carrier> {
        let carrier = spare.or_else(|| Carrier::reserve(total_borrowed()))?;
        // SAFETY: ours alone.
        unsafe {
            Carrier::write(carrier, u32::MAX, process);
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
        // SAFETY: the layout of `reserve`.
        unsafe { os::unmap(carrier.cast::<u8>().sub(BELOW), total_borrowed()) };
    }

    /// A borrower's additional state.
    pub(crate) fn borrower_state(&self) -> *mut () {
        self.borrower.load(Acquire)
    }

    /// The process it belongs to; a higher layer knows its type.
    #[inline(always)]
    pub(crate) fn process_address(&self) -> *const () {
        self.process
    }

    /// The process of the carrier that runs this code: `me().process_address()` without the load of `me`.
    #[inline(always)]
    pub(crate) fn my_process_address() -> *const () {
        // SAFETY: set when the block is made.
        unsafe { arch::base::own_pointer::<{ offset_of!(Carrier, process) }>() }
    }

    /// The buffer behind a block.
    pub(crate) fn buffer_of(carrier: *mut Carrier) -> *mut u8 {
        carrier.cast::<u8>().wrapping_add(BLOCK)
    }

    /// The piece of a borrower's block.
    pub(crate) fn piece_of(carrier: *mut Carrier) -> *mut u8 {
        carrier.cast::<u8>().wrapping_add(total().next_multiple_of(64) - BELOW)
    }

    /// The kernel stack below a block: address and length.
    pub(crate) fn kernel_stack_of(carrier: *mut Carrier) -> (u64, u64) {
        (carrier as u64 - KERNEL_STACK as u64, KERNEL_STACK as u64)
    }

    /// The alternate signal stack of its host thread, as `struct stack_t` has it.
    pub(crate) fn signal_stack(&self) -> [u64; 3] {
        [self.signal_stack as u64, 0, SIGNAL_STACK as u64]
    }

    /// Whether a stack pointer is on the signal stack.
    pub(crate) fn is_on_signal_stack(&self, sp: u64) -> bool {
        (self.signal_stack as u64..self.signal_stack as u64 + SIGNAL_STACK as u64).contains(&sp)
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

    /// The CPU of the carrier that runs this code: `me().cpu()` without the load of `me`, because every trap begins
    /// with it.
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

    /// Whether a borrower runs this code, and not the service thread or an unborn child.
    pub(crate) fn is_borrowers() -> bool {
        Carrier::me().gs.borrowed == BORROWED
    }

    /// Whether it is the process's first host thread. If that one ends, the host considers the process ended.
    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Makes sure that the next preemption has a buffer.
    #[inline(always)]
    pub fn refill(&self, buffers: &StateBuffers) {
        if self.buffer.load(Relaxed).is_null() {
            self.buffer.store(buffers.take(), Relaxed);
        }
    }
}
