//! The states of threads that are not running: what is copied, replaced and captured of them.

use crate::base::{report, sites};
use crate::process::Host;
use abi::frame::Registers;
use arch::context::{NO_CALL, UNKNOWN_WORDS, reg};
use arch::frame::HostFrame;
use arch::{Context, Kind, base, entry, xstate};
use patch::SYSCALL_LEN;
use signal::frame::ExtendedState;
use sync::atomic::{AtomicU64, Ordering::*};

/// The largest extended state that a signal frame may hold: all components of the processor.
pub fn extended_state() -> ExtendedState {
    form_of(xstate::features())
}

/// The form of a thread's extended state in a signal frame. Components that programs must ask for are there only if the
/// thread uses them: they are larger than the alternate stacks of programs that know nothing of them (`user_size` of
/// `struct fpstate`).
pub(crate) fn form_for_frame(buffer: &[u8]) -> ExtendedState {
    form_of(xstate::features() & !(xstate::ON_REQUEST & !xstate::components(buffer)))
}

fn form_of(features: u64) -> ExtendedState {
    let size = xstate::length(features & xstate::ON_REQUEST != 0) as u32;
    ExtendedState::Xsave { size, features }
}

/// The general registers as the program knows them, with its own code's addresses.
pub(crate) fn registers(c: &Context) -> Registers {
    let r = &c.r;
    let rip = sites::seen(c.rip, r[reg::RCX]);
    let eflags = if c.kind == Kind::Call as u32 { 0x202 } else { c.rflags };
    // The `syscall` instruction overwrites these two. Entries by a plain call do not store them, and a call that starts over
    // has our own values there.
    let (rcx, r11) = match c.kind == Kind::Full as u32 {
        true if entry::begins_call(c.rip) => (rip + SYSCALL_LEN as u64, eflags),
        true => (r[reg::RCX], r[reg::R11]),
        false => (rip, eflags),
    };
    Registers {
        r8: r[reg::R8],
        r9: r[reg::R9],
        r10: r[reg::R10],
        r11,
        r12: r[reg::R12],
        r13: r[reg::R13],
        r14: r[reg::R14],
        r15: r[reg::R15],
        rdi: r[reg::RDI],
        rsi: r[reg::RSI],
        rbp: r[reg::RBP],
        rbx: r[reg::RBX],
        rdx: r[reg::RDX],
        rax: r[reg::RAX],
        rcx,
        rsp: r[reg::RSP],
        rip,
        eflags,
        ..Registers::default()
    }
}

/// The host's description of extended state in its frames, as the last fault had it; the same for all threads.
static FORM: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

/// Notes in which form the host wrote the extended state of a fault.
pub(crate) fn note_form(frame: &HostFrame) {
    for (to, word) in FORM.iter().zip(frame.state_words()) {
        to.store(word, Relaxed);
    }
}

/// Loads the base of the thread that continues with this context, unless it is loaded.
pub(crate) fn load_fs_base(c: &Context) {
    // SAFETY: the block of this carrier, on which the thread continues.
    unsafe {
        if core::mem::take(&mut (*base::gs()).fs_base_due) != 0 {
            base::set_fs_base(c.fs_base);
        }
    }
}

impl Host {
    /// A child's state: the parent's, as `clone(2)` changes it. The parent is the calling carrier's current thread.
    pub(crate) fn copy_state(&self, p: &mut Context, c: &mut Context, stack: u64, tls: Option<u64>) {
        // If the parent entered by a plain call, its control words are still in the registers.
        let (mxcsr, fcw) = xstate::control_words();
        if p.kind == Kind::CallVectors as u32 {
            // A child inherits vectors, too: if they are live, they are saved for both.
            self.make_full(p);
        }
        c.r = p.r;
        c.rip = p.rip;
        c.rflags = p.rflags;
        c.kind = p.kind;
        c.call = p.call;
        c.fs_base = tls.unwrap_or_else(base::fs_base);
        (c.mxcsr, c.fcw) = (mxcsr, fcw);
        c.r[reg::RAX] = 0;
        if stack != 0 {
            c.r[reg::RSP] = stack;
        }
        if p.kind == Kind::Full as u32 && !p.xbuf.is_null() {
            if c.xbuf.is_null() {
                c.xbuf = self.buffers.take();
            }
            // SAFETY: both buffers have the size.
            unsafe { core::ptr::copy_nonoverlapping(p.xbuf, c.xbuf, xstate::size()) };
        }
    }

    /// Sends the thread to the common entry once more, as if its site had jumped there.
    pub(crate) fn restart(&self, c: &mut Context, instead: Option<usize>) {
        let call = instead.unwrap_or(c.call as usize);
        let fast = c.kind == Kind::Call as u32;
        self.reload(c);
        self.make_full(c);
        c.r[reg::RAX] = call as u64;
        c.r[reg::RCX] = c.rip;
        c.r[reg::R11] = u64::from(c.library);
        let entry = if fast { arch::entry::entresol_entry_call } else { arch::entry::entresol_entry_vectors };
        c.rip = entry as *const () as u64;
    }

    /// Replaces the general registers.
    pub(crate) fn replace_registers(&self, c: &mut Context, n: &Registers) {
        self.reload(c);
        self.make_full(c);
        c.r = [
            n.rax, n.rdi, n.rsi, n.rdx, n.r10, n.r8, n.r9, n.rsp, n.rbx, n.rcx, n.rbp, n.r11, n.r12, n.r13, n.r14,
            n.r15,
        ];
        c.rip = sites::real(n.rip);
        c.call = NO_CALL;
        c.rflags = n.eflags | 0x202;
        #[cfg(feature = "planted")]
        if crate::carriers::planted::sets_direction_flag() && (1..=64).contains(&n.rdi) {
            // A handler's first argument is the signal's number.
            c.rflags |= 0x400;
        }
    }

    /// The thread's extended state in its buffer, from which it is loaded at resume.
    pub(crate) fn extended<'a>(&self, c: &'a mut Context) -> &'a mut [u8] {
        self.reload(c);
        self.make_full(c);
        // SAFETY: the buffer has that size and is this thread's.
        unsafe { core::slice::from_raw_parts_mut(c.xbuf, xstate::size()) }
    }

    /// The registers with which the thread continues, and the address of its extended state in the form of a signal frame, as
    /// the host described it at the last fault: its size there depends on what the process may use.
    pub(crate) fn state_in_frame(&self, c: &mut Context) -> (Registers, u64) {
        self.reload(c);
        self.make_full(c);
        let words = FORM.each_ref().map(|word| word.load(Relaxed));
        // SAFETY: a buffer has room for the marker at the end of a state.
        let state = unsafe { arch::frame::finish_state(c.xbuf, words) };
        (Registers { rip: c.rip, ..registers(c) }, state as u64)
    }

    /// Makes the context complete, with the extended state in a buffer, so that resume loads all of it.
    pub(crate) fn make_full(&self, c: &mut Context) {
        if c.kind == Kind::Full as u32 {
            return;
        }
        if c.xbuf.is_null() {
            c.xbuf = self.buffers.take();
            if c.xbuf.is_null() {
                report::fatal(format_args!("no memory for a thread's vector registers"));
            }
        }
        // SAFETY: the buffer is fresh; the vectors are live (or in the block) on this carrier.
        unsafe {
            if c.kind == Kind::CallVectors as u32 {
                xstate::save_trap(c.xbuf, &raw const (*base::gs()).xmm);
            } else {
                xstate::save_live(c.xbuf);
                c.rflags = 0x202;
            }
        }
        c.kind = Kind::Full as u32;
        // As the `syscall` instruction leaves them.
        c.r[reg::RCX] = c.rip;
        c.r[reg::R11] = c.rflags;
    }

    /// A thread saved for a wait has its control words in the context, not in the registers: loads them before its
    /// extended state is captured from there.
    fn reload(&self, c: &mut Context) {
        if c.kind == Kind::Call as u32 && c.claim.load(Relaxed) == 0 {
            // SAFETY: they were saved from this very thread; the block is this carrier's.
            unsafe {
                xstate::set_control_words(c.mxcsr, c.fcw);
                (*base::gs()).control_words = UNKNOWN_WORDS;
            }
        }
    }
}
