//! The frame in which the host delivers a signal to one of our handlers.
//!
//! Layout of `struct ucontext` and `struct sigcontext` of the x86-64 ABI
//! (`arch/x86/include/uapi/asm/{ucontext,sigcontext}.h`).

use crate::context::{Context, Kind, NO_CALL, Trapped, reg};

/// `struct ucontext` as the host writes it.
#[repr(C)]
#[derive(Debug)]
pub struct HostFrame {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    /// r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags.
    gregs: [u64; 18],
    segments: u64,
    error: u64,
    trap: u64,
    oldmask: u64,
    cr2: u64,
    fpstate: *mut u8,
    reserved: [u64; 8],
    /// The host mask to be restored.
    pub sigmask: u64,
}

/// The host's index in `gregs` for each of ours.
const HOST_INDEX: [usize; 16] = [13, 8, 9, 12, 2, 0, 1, 15, 11, 14, 10, 3, 4, 5, 6, 7];
const RIP: usize = 16;
const EFLAGS: usize = 17;

/// The segments of 64-bit code, cs lowest and ss highest. A fault may find others: after `sysenter`, or in 32-bit code.
const SEGMENTS: u64 = 0x2b << 48 | 0x33;

/// The software-reserved bytes of an extended frame: magic and size.
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;

impl HostFrame {
    /// Where the interrupted code stands.
    pub fn rip(&self) -> u64 {
        self.gregs[RIP]
    }

    /// Makes the interrupted code continue at `rip`.
    pub fn set_rip(&mut self, rip: u64) {
        self.gregs[RIP] = rip;
    }

    /// A general register, by our index.
    pub fn reg(&self, i: usize) -> u64 {
        self.gregs[HOST_INDEX[i]]
    }

    /// Sets a general register, by our index.
    pub fn set_reg(&mut self, i: usize, v: u64) {
        self.gregs[HOST_INDEX[i]] = v;
    }

    /// The flags of the interrupted code.
    pub fn flags(&self) -> u64 {
        self.gregs[EFLAGS]
    }

    /// Makes the interrupted code continue without these flags.
    pub fn clear_flags(&mut self, flags: u64) {
        self.gregs[EFLAGS] &= !flags;
    }

    /// The processor's description of a fault.
    pub fn trapped(&self) -> Trapped {
        Trapped { number: self.trap, error: self.error, address: self.cr2 }
    }

    /// Copies the interrupted thread out of the frame: general registers, flags and the
    /// extended state into `xbuf`.
    ///
    /// # Safety
    /// The frame must be the host's; `xbuf` must hold [`crate::xstate::size`] bytes, 64-byte aligned.
    pub unsafe fn copy_out(&self, to: &mut Context, xbuf: *mut u8) {
        for (i, &h) in HOST_INDEX.iter().enumerate() {
            to.r[i] = self.gregs[h];
        }
        to.rip = self.gregs[RIP];
        to.rflags = self.gregs[EFLAGS];
        to.kind = Kind::Full as u32;
        to.call = NO_CALL;
        to.xbuf = xbuf;
        // SAFETY: the host's frame holds at least 512 bytes of state and says in its
        // software-reserved words whether and how far it extends.
        unsafe {
            let magic = self.fpstate.add(464).cast::<u32>().read();
            let size = self.fpstate.add(480).cast::<u32>().read() as usize;
            if magic == FP_XSTATE_MAGIC1 {
                let n = size.min(crate::xstate::size());
                core::ptr::copy_nonoverlapping(self.fpstate, xbuf, n);
                core::ptr::write_bytes(xbuf.add(512 + 16), 0, 48);
            } else {
                core::ptr::copy_nonoverlapping(self.fpstate, xbuf, 512);
                core::ptr::write_bytes(xbuf.add(512), 0, 64);
                xbuf.add(512).cast::<u64>().write(3);
            }
            // XRSTOR ignores these bytes; clear what the host left there.
            core::ptr::write_bytes(xbuf.add(464), 0, 48);
        }
    }

    /// The extended state with its final magic, as the host has written it.
    pub fn state(&self) -> &[u8] {
        // SAFETY: as in `copy_out`.
        unsafe {
            let len = match self.state_size() {
                Some(_) => self.fpstate.add(468).cast::<u32>().read() as usize,
                None => 512,
            };
            core::slice::from_raw_parts(self.fpstate, len)
        }
    }

    /// The length of the extended state; `None` if there is the oldest part alone.
    pub fn state_size(&self) -> Option<u32> {
        // SAFETY: as in `copy_out`.
        unsafe {
            let magic = self.fpstate.add(464).cast::<u32>().read();
            (magic == FP_XSTATE_MAGIC1).then(|| self.fpstate.add(480).cast::<u32>().read())
        }
    }

    /// The words in which the state describes itself (`struct _fpx_sw_bytes`).
    pub fn state_words(&self) -> [u64; 6] {
        // SAFETY: as in `copy_out`.
        unsafe { self.fpstate.add(464).cast::<[u64; 6]>().read() }
    }

    /// Makes the handler's return go to another function, with these general registers and the processor's initial
    /// extended state.
    pub fn enter(&mut self, r: [u64; 16], rip: u64, flags: u64) {
        for (i, &h) in HOST_INDEX.iter().enumerate() {
            self.gregs[h] = r[i];
        }
        self.gregs[RIP] = rip;
        self.gregs[EFLAGS] = flags;
        self.segments = SEGMENTS;
        self.fpstate = core::ptr::null_mut();
    }

    /// Makes the handler's return go to `rip` on the stack `rsp`, the extended state untouched.
    pub fn divert(&mut self, rip: u64, rsp: u64) {
        self.gregs[RIP] = rip;
        self.gregs[HOST_INDEX[reg::RSP]] = rsp;
        self.gregs[EFLAGS] = 0x202;
        self.segments = SEGMENTS;
    }

    /// Makes the handler's return land at `rip` on the stack `rsp`, with the processor's
    /// initial extended state: a thread that is resumed next by a plain call finds x87
    /// and the upper vector halves clean.
    pub fn land(&mut self, rip: u64, rsp: u64) {
        self.gregs[RIP] = rip;
        self.gregs[HOST_INDEX[reg::RSP]] = rsp;
        // Clear DF, TF, AC, RF; keep the always-one bit and IF.
        self.gregs[EFLAGS] = 0x202;
        self.segments = SEGMENTS;
        self.fpstate = core::ptr::null_mut();
    }
}

const _: () = assert!(core::mem::offset_of!(HostFrame, sigmask) == 296);

/// Makes a state that has been saved one of a signal frame, which the host described in these words. Gives its address.
///
/// # Safety
/// The buffer must have [`crate::xstate::size`] bytes and four more.
pub unsafe fn finish_state(xbuf: *mut u8, words: [u64; 6]) -> *mut u8 {
    const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
    let size = (words[2] as u32 as usize).min(crate::xstate::size());
    // SAFETY: as the caller promises.
    unsafe {
        xbuf.add(464).cast::<[u64; 6]>().write(words);
        xbuf.add(size).cast::<u32>().write_unaligned(FP_XSTATE_MAGIC2);
    }
    xbuf
}
