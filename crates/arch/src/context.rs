//! A thread's saved state and a carrier's block: the two structures the assembly knows.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

/// How a thread must be resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// The thread came by a system call from a site where no vector register is live. The general registers, control
    /// words and the FS base are the whole state.
    Call = 0,
    /// It came by a system call from anywhere: xmm0–15 are in the carrier's block, the
    /// rest of the vector state is still in the registers. Only for the carrier's current thread.
    CallVectors = 1,
    /// The thread was interrupted, or its vectors were saved for a switch. The whole extended state is in `xbuf`, and
    /// all general registers and the flags count.
    Full = 2,
}

/// A thread's user state while it is in the kernel or off its CPU.
///
/// | field | written by | when |
/// |---|---|---|
/// | registers | trap entry, preemption, the kernel (results, frames) | the thread is claimed by that carrier |
/// | `fs_base`, `mxcsr`, `fcw` | `Machine::save` | before the thread is visible as waiting |
/// | `claim` | the resuming carrier (0 → carrier + 1), `save` (→ 0, if it still is its own) | law 2: one owner |
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Context {
    /// The general registers, by [`reg`].
    pub r: [u64; 16],
    /// Where the thread continues.
    pub rip: u64,
    /// The thread's flags (only [`Kind::Full`] restores them).
    pub rflags: u64,
    /// The thread's FS base, which points to its thread-local storage.
    pub fs_base: u64,
    /// The thread's SSE control word.
    pub mxcsr: u32,
    /// The thread's x87 control word.
    pub fcw: u32,
    /// The thread's extended state, or null. Kept until the next trap, so that a resume can start over.
    pub xbuf: *mut u8,
    /// How to resume it ([`Kind`]).
    pub kind: u32,
    /// 0, or 1 + the carrier that has it.
    pub claim: AtomicU32,
    /// The library whose system call this was (for counting).
    pub library: u32,
    /// The carrier's host call is on behalf of this thread (for directing interrupts).
    pub host_carrier: AtomicU32,
    /// The thread's credentials: the machine's number for them.
    pub identity: AtomicU32,
    /// The number of its system call, for restarts; [`NO_CALL`] if its own code was interrupted.
    pub call: u32,
}

/// In [`Context::call`]: the thread did not enter by a system call.
pub const NO_CALL: u32 = u32::MAX;

/// The processor's description of a thread's last fault. Linux keeps it in the thread (`thread_struct`) and writes it
/// into every signal frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Trapped {
    /// The trap number.
    pub number: u64,
    /// The error code.
    pub error: u64,
    /// The address of the last page fault (CR2).
    pub address: u64,
}

/// Bits of the flags register with which kernel code must not run.
pub mod flag {
    /// Single-step: a trap after each instruction.
    pub const TF: u64 = 1 << 8;
    /// Alignment check: misaligned accesses trap.
    pub const AC: u64 = 1 << 18;
}

/// Indices into [`Context::r`]: first a system call's number and arguments, in their order.
#[allow(missing_docs)]
pub mod reg {
    /// The result; a system call's number.
    pub const RAX: usize = 0;
    pub const RDI: usize = 1;
    pub const RSI: usize = 2;
    pub const RDX: usize = 3;
    pub const R10: usize = 4;
    pub const R8: usize = 5;
    pub const R9: usize = 6;
    pub const RSP: usize = 7;
    pub const RBX: usize = 8;
    pub const RCX: usize = 9;
    pub const RBP: usize = 10;
    pub const R11: usize = 11;
    /// Kept over calls.
    pub const R12: usize = 12;
    /// Kept over calls.
    pub const R13: usize = 13;
    /// Kept over calls.
    pub const R14: usize = 14;
    /// Kept over calls.
    pub const R15: usize = 15;
    /// The arguments of a system call.
    pub const ARGUMENTS: [usize; 6] = [RDI, RSI, RDX, R10, R8, R9];
}

// SAFETY: the holder of the claim has the fields to itself; `xbuf` goes with them.
unsafe impl Sync for Context {}
// SAFETY: as above.
unsafe impl Send for Context {}

impl Default for Context {
    fn default() -> Context {
        Context {
            r: [0; 16],
            rip: 0,
            rflags: 0x202,
            fs_base: 0,
            mxcsr: 0x1f80,
            fcw: 0x37f,
            xbuf: core::ptr::null_mut(),
            kind: Kind::Call as u32,
            claim: AtomicU32::new(0),
            library: 0,
            host_carrier: AtomicU32::new(0),
            identity: AtomicU32::new(0),
            call: 0,
        }
    }
}

impl Context {
    /// Claims the thread for a carrier; false if another carrier has it.
    ///
    /// A load and a store, not an exchange: the run queue's lock orders all claims, and the check is there to detect a
    /// kernel in which it does not. Two carriers that claim the thread within a few nanoseconds may both find it free.
    /// The word then names the later one, and the earlier one finds out in [`Context::release`], at its next switch. So
    /// a thread that is resumed twice is always noticed, nearly always before it runs.
    #[inline(always)]
    pub fn claim(&self, carrier: u32) -> bool {
        let free = self.claim.load(Ordering::Acquire) == 0;
        if free {
            self.take(carrier);
        }
        free
    }

    /// The second half of `claim`, for a caller that has checked.
    #[inline(always)]
    pub fn take(&self, carrier: u32) {
        self.claim.store(carrier + 1, Ordering::Relaxed);
    }

    /// Gives the thread back: everything is saved.
    ///
    /// # Errors
    /// The claim, if the carrier does not have it (any more).
    #[inline(always)]
    pub fn release(&self, carrier: u32) -> Result<(), u32> {
        let owner = self.claim.load(Ordering::Relaxed);
        self.claim.store(0, Ordering::Release);
        if owner == carrier + 1 { Ok(()) } else { Err(owner) }
    }

    /// The thread's control words, mxcsr low, as in [`Gs::control_words`].
    #[inline(always)]
    pub fn control_words(&self) -> u64 {
        // SAFETY: the two words stand beside each other, and together are aligned (see the assertions below).
        unsafe { core::ptr::from_ref(self).cast::<u64>().add(offset_of!(Context, mxcsr) / 8).read() }
    }

    /// Releases the claim: no carrier has a new thread.
    pub fn free(&self) {
        self.claim.store(0, Ordering::Release);
    }
}

/// The target of `%gs`: the part of a carrier that assembly reaches by fixed offsets.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Gs {
    /// Where `jmp *%gs:0` goes: the last step of a full resume.
    pub rip: u64,
    /// The user's stack pointer between two instructions of the entry.
    pub user_rsp: u64,
    /// The state of the thread that runs here.
    pub context: *mut Context,
    /// The top of the kernel stack.
    pub kernel_stack: u64,
    /// Bits of [`pending`] that arrived while the kernel ran.
    pub pending: AtomicU32,
    /// 1 while an interrupt is asked of a host call that waits.
    pub interrupt: AtomicU32,
    /// The address of this block.
    pub this: *mut Gs,
    /// The carrier's number.
    pub carrier: u32,
    /// Non-zero in a vfork child: its calls pass straight to the host.
    pub borrowed: u32,
    /// The SSE and x87 control words that are in the registers now, mxcsr low, or
    /// [`UNKNOWN_WORDS`]: loading them costs more than comparing.
    pub control_words: u64,
    /// xmm0–15 of a thread that came by [`Kind::CallVectors`].
    pub xmm: [u128; 16],
    /// 1 from loading a thread until the last steps of the way out: its FS base is in its `Context` and perhaps not in
    /// the register yet. Writing the register empties the pipeline, so it is done last.
    pub fs_base_due: u32,
}

/// No pair of control words is like this.
pub const UNKNOWN_WORDS: u64 = u64::MAX;

/// Signals that arrived while the kernel ran ([`Gs::pending`]).
pub mod pending {
    /// The tick or another timer of this CPU.
    pub const TIMER: u32 = 1;
    /// A kick from another CPU.
    pub const KICK: u32 = 2;
}

// SAFETY: other host threads touch the atomics only.
unsafe impl Sync for Gs {}

const _: () = {
    assert!(offset_of!(Context, rip) == 128);
    assert!(offset_of!(Context, rflags) == 136);
    assert!(offset_of!(Context, fs_base) == 144);
    assert!(offset_of!(Context, mxcsr) == 152);
    assert!(offset_of!(Context, fcw) == 156);
    assert!(offset_of!(Context, xbuf) == 160);
    assert!(offset_of!(Context, kind) == 168);
    assert!(offset_of!(Context, library) == 176);
    assert!(offset_of!(Context, call) == 188);
    assert!(size_of::<Context>() == 192);
    assert!(offset_of!(Gs, user_rsp) == 8);
    assert!(offset_of!(Gs, context) == 16);
    assert!(offset_of!(Gs, kernel_stack) == 24);
    assert!(offset_of!(Gs, pending) == 32);
    assert!(offset_of!(Gs, interrupt) == 36);
    assert!(offset_of!(Gs, this) == 40);
    assert!(offset_of!(Gs, xmm) == 64);
    assert!(offset_of!(Gs, fs_base_due) == 320);
};
