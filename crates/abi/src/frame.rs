//! The signal frame of x86-64 (`struct rt_sigframe`): where everything lies, and the
//! registers it carries.
//!
//! ```text
//! rsp at the handler's entry ─► pretcode      8   the restorer: what the handler returns to
//!                               uc_flags      8
//!                               uc_link       8
//!                               uc_stack     24
//!                               uc_mcontext 256   registers, pointer to the extended state
//!                               uc_sigmask    8
//!                               siginfo     128
//!                               (gap)
//!                    64-aligned extended state: fxsave area, xsave header and rest, magic2
//!                               (red zone, 128 bytes, when on the interrupted stack)
//! ```

use crate::bytes::layout;

/// `pretcode`, the return address.
pub const PRETCODE: usize = 0;
/// `struct ucontext`.
pub const UCONTEXT: usize = 8;
/// `uc_flags`.
pub const UC_FLAGS: usize = UCONTEXT;
/// `uc_link`.
pub const UC_LINK: usize = UCONTEXT + 8;
/// `uc_stack`.
pub const UC_STACK: usize = UCONTEXT + 16;
/// `uc_mcontext`: `struct sigcontext`.
pub const UC_MCONTEXT: usize = UCONTEXT + 40;
/// `uc_sigmask`.
pub const UC_SIGMASK: usize = UCONTEXT + 296;
/// `siginfo`.
pub const SIGINFO: usize = UCONTEXT + 304;
/// `sizeof(struct rt_sigframe)`.
pub const SIZE: usize = SIGINFO + 128;

/// Bytes under the stack pointer that belong to the interrupted function.
pub const RED_ZONE: u64 = 128;
/// `uc_flags`: the extended state has an xsave header.
pub const UC_FP_XSTATE: u64 = 1;
/// `uc_flags`: the saved `ss` is meaningful.
pub const UC_SIGCONTEXT_SS: u64 = 2;
/// `uc_flags`: sigreturn restores `ss` as it stands.
pub const UC_STRICT_RESTORE_SS: u64 = 4;

/// Offset of `fpstate` in the saved registers: the extended state's address, or 0.
pub const MC_FPSTATE: usize = 184;
/// Length of the saved registers with what is reserved behind them.
pub const MCONTEXT_SIZE: usize = 256;

/// Extended state: length of the fxsave area.
pub const FXSAVE_SIZE: usize = 512;
/// Extended state: offset of `sw_reserved` (`struct _fpx_sw_bytes`).
pub const SW_RESERVED: usize = 464;
/// `magic1` in `sw_reserved`: there is an xsave header.
pub const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
/// `magic2` right behind the extended state.
pub const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
/// The size of `magic2`.
pub const FP_XSTATE_MAGIC2_SIZE: usize = 4;
/// The alignment of the extended state.
pub const FPSTATE_ALIGN: u64 = 64;

/// Flags that a program may set in `rflags` by sigreturn (`FIX_EFLAGS`).
pub const FIX_EFLAGS: u64 = 0x0005_0DD5;
/// The flags that a handler starts without: DF, RF, TF (`handle_signal`).
pub const HANDLER_CLEARS: u64 = 0x0001_0500;
/// The code segment of 64-bit programs.
pub const USER_CS: u16 = 0x33;
/// The stack segment of 64-bit programs.
pub const USER_SS: u16 = 0x2B;

/// `struct sigcontext` without the extended state: the registers in the frame's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the names are the processor's")]
pub struct Registers {
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub eflags: u64,
    pub cs: u16,
    pub gs: u16,
    pub fs: u16,
    pub ss: u16,
    /// The fault's error code.
    pub err: u64,
    /// The fault's vector.
    pub trapno: u64,
    /// The first word of the saved mask.
    pub oldmask: u64,
    /// The faulting address of a page fault.
    pub cr2: u64,
}

layout!(Registers: 184 {
    0 r8, 8 r9, 16 r10, 24 r11, 32 r12, 40 r13, 48 r14, 56 r15, 64 rdi, 72 rsi, 80 rbp, 88 rbx, 96 rdx, 104 rax, 112 rcx,
    120 rsp, 128 rip, 136 eflags, 144 cs, 146 gs, 148 fs, 150 ss, 152 err, 160 trapno, 168 oldmask, 176 cr2,
});

/// `struct _fpx_sw_bytes`: what the extended state of a frame says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FpSwBytes {
    /// [`FP_XSTATE_MAGIC1`] if there is more than the fxsave area.
    pub magic1: u32,
    /// Length with `magic2`.
    pub extended_size: u32,
    /// Components that are there (bits of XCR0).
    pub xfeatures: u64,
    /// Length without `magic2`.
    pub xstate_size: u32,
}

impl FpSwBytes {
    /// The description of an xsave area of `xstate_size` bytes with these components.
    pub const fn of(xfeatures: u64, xstate_size: u32) -> FpSwBytes {
        let extended_size = xstate_size + FP_XSTATE_MAGIC2_SIZE as u32;
        FpSwBytes { magic1: FP_XSTATE_MAGIC1, extended_size, xfeatures, xstate_size }
    }
}

layout!(FpSwBytes: 48 { 0 magic1, 4 extended_size, 8 xfeatures, 16 xstate_size });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Plain;

    #[test]
    fn registers_survive_the_way_through_a_frame() {
        let mut b = [0u8; MCONTEXT_SIZE];
        for (i, x) in b.iter_mut().enumerate().take(Registers::SIZE) {
            *x = i as u8;
        }
        let r = Registers::get(&b);
        let mut again = [0u8; MCONTEXT_SIZE];
        r.put(&mut again);
        assert_eq!(again, b);
    }

    #[test]
    fn extended_state_describes_itself() {
        let sw = FpSwBytes::of(0xE7, 2696);
        assert_eq!(FpSwBytes::from_bytes(&sw.to_bytes()), sw);
        assert_eq!(sw.extended_size, 2700);
    }
}
