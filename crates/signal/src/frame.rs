//! The frame a handler runs on: where it lies, its bytes, and the way back.
//!
//! Pure arithmetic over [`abi::frame`]'s layout. The caller copies the bytes to and from
//! user memory and saves and loads the extended state itself, straight to and from the
//! address that the plan names.

use crate::Delivery;
use abi::bytes::{Plain, get_u64, put_u64};
use abi::frame::{
    FIX_EFLAGS, FP_XSTATE_MAGIC1, FP_XSTATE_MAGIC2, FP_XSTATE_MAGIC2_SIZE, FPSTATE_ALIGN, FXSAVE_SIZE, FpSwBytes,
    HANDLER_CLEARS, MC_FPSTATE, PRETCODE, RED_ZONE, Registers, SIGINFO, SIZE, UC_FLAGS, UC_FP_XSTATE, UC_LINK,
    UC_MCONTEXT, UC_SIGCONTEXT_SS, UC_SIGMASK, UC_STACK, UC_STRICT_RESTORE_SS, UCONTEXT, USER_CS, USER_SS,
};
use abi::{SaFlags, SigInfo, SigSet, Signal, StackT, si_code};

/// The least length of extended state with an xsave header: the fxsave area and the header.
const XSTATE_MIN: u32 = FXSAVE_SIZE as u32 + 64;

/// The form of the extended state in frames, a fact of the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtendedState {
    /// The fxsave area alone.
    Fxsave,
    /// An xsave area in standard format of `size` bytes with these components of XCR0.
    Xsave {
        /// Length in bytes without magic2.
        size: u32,
        /// Components.
        features: u64,
    },
}

impl ExtendedState {
    /// The length of the state itself.
    pub const fn state_len(self) -> usize {
        match self {
            ExtendedState::Fxsave => FXSAVE_SIZE,
            ExtendedState::Xsave { size, .. } => size as usize,
        }
    }

    /// The length in a frame, with magic2 if there is an xsave header (`xstate_sigframe_size`).
    pub const fn frame_len(self) -> u64 {
        match self {
            ExtendedState::Fxsave => FXSAVE_SIZE as u64,
            ExtendedState::Xsave { size, .. } => size as u64 + FP_XSTATE_MAGIC2_SIZE as u64,
        }
    }

    /// The 48 bytes at [`abi::frame::SW_RESERVED`] of the saved state.
    pub const fn sw_bytes(self) -> FpSwBytes {
        match self {
            ExtendedState::Fxsave => FpSwBytes { magic1: 0, extended_size: 0, xfeatures: 0, xstate_size: 0 },
            ExtendedState::Xsave { size, features } => FpSwBytes::of(features, size),
        }
    }

    /// Where magic2 goes, from the start of the state, and its bytes.
    pub const fn magic2(self) -> Option<(u64, [u8; 4])> {
        match self {
            ExtendedState::Fxsave => None,
            ExtendedState::Xsave { size, .. } => Some((size as u64, FP_XSTATE_MAGIC2.to_le_bytes())),
        }
    }
}

/// The frame cannot be placed: the handler's stack is too small, or the action has no way
/// back. The thread gets SIGSEGV ([`crate::ProcessSignals::frame_failed`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoesNotFit;

/// Where a signal frame lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramePlan {
    /// The frame's lowest address, the handler's stack pointer at entry: 16-aligned less 8,
    /// as after a call.
    pub frame: u64,
    /// The extended state's address, 64-aligned.
    pub fpstate: u64,
    /// The extended state's form.
    pub state: ExtendedState,
    /// Whether the handler starts on the alternate stack, and the thread was not there before.
    pub enters_altstack: bool,
}

impl FramePlan {
    /// Places the frame for a thread interrupted at stack pointer `rsp` (`get_sigframe`).
    pub fn new(delivery: &Delivery, rsp: u64, state: ExtendedState) -> Result<FramePlan, DoesNotFit> {
        let (action, alt) = (&delivery.action, &delivery.altstack);
        if !action.flags.has(SaFlags::RESTORER) {
            return Err(DoesNotFit);
        }
        let nested = alt.is_used_by(rsp);
        // A wrapped address cannot be written, but the alternate stack may be used instead.
        let mut sp = rsp.wrapping_sub(RED_ZONE);
        let enters_altstack = action.flags.has(SaFlags::ONSTACK) && alt.status(sp) == 0;
        if enters_altstack {
            sp = alt.top();
        }
        let fpstate = sp.checked_sub(state.frame_len()).ok_or(DoesNotFit)? & !(FPSTATE_ALIGN - 1);
        let frame =
            fpstate.checked_sub(SIZE as u64).map(|a| a & !15).and_then(|a| a.checked_sub(8)).ok_or(DoesNotFit)?;
        if (nested || enters_altstack) && !alt.contains(frame) {
            return Err(DoesNotFit);
        }
        Ok(FramePlan { frame, fpstate, state, enters_altstack })
    }

    /// The frame's bytes, from the registers as they were interrupted (`x64_setup_rt_frame`).
    pub fn bytes(&self, delivery: &Delivery, interrupted: &Registers) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        let xstate = if self.state == ExtendedState::Fxsave { 0 } else { UC_FP_XSTATE };
        put_u64(&mut b, PRETCODE, delivery.action.restorer);
        put_u64(&mut b, UC_FLAGS, xstate | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS);
        put_u64(&mut b, UC_LINK, 0);
        b[UC_STACK..UC_STACK + StackT::SIZE].copy_from_slice(&delivery.altstack.saved().to_bytes());
        let registers =
            Registers { cs: USER_CS, gs: 0, fs: 0, ss: USER_SS, oldmask: delivery.old_mask.0, ..*interrupted };
        registers.put(&mut b[UC_MCONTEXT..]);
        put_u64(&mut b, UC_MCONTEXT + MC_FPSTATE, self.fpstate);
        put_u64(&mut b, UC_SIGMASK, delivery.old_mask.0);
        if delivery.action.flags.has(SaFlags::SIGINFO) {
            b[SIGINFO..].copy_from_slice(&delivery.info.to_bytes());
        }
        b
    }

    /// The registers that the handler starts with: `handler(signo, &siginfo, &ucontext)`,
    /// no variable arguments.
    pub fn entry(&self, delivery: &Delivery, interrupted: &Registers) -> Registers {
        Registers {
            rdi: delivery.info.signo() as u64,
            rsi: self.frame + SIGINFO as u64,
            rdx: self.frame + UCONTEXT as u64,
            rax: 0,
            rsp: self.frame,
            rip: delivery.action.handler,
            eflags: interrupted.eflags & !HANDLER_CLEARS,
            cs: USER_CS,
            ss: USER_SS,
            ..*interrupted
        }
    }
}

/// The frame's lowest address when `rt_sigreturn(2)` is made: the handler's return has
/// popped the first word.
pub const fn address_at_sigreturn(rsp: u64) -> u64 {
    rsp.wrapping_sub(8)
}

/// A frame from which no thread can continue: SIGSEGV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadFrame;

/// A frame's contents after its handler has returned, which may have changed them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Returned {
    /// The registers with which to continue.
    pub registers: Registers,
    /// The mask.
    pub mask: SigSet,
    /// The alternate stack.
    pub stack: StackT,
    /// The extended state's address; 0: start afresh with the initial state.
    pub fpstate: u64,
}

impl Returned {
    /// The fault of continuing outside of user space, which ends at `address_limit`. It belongs to the registers and the
    /// mask of the frame: `iret` reports a non-canonical address, the first fetch one of the kernel's.
    pub fn fault(&self, address_limit: u64) -> Option<SigInfo> {
        match self.registers.rip {
            rip if rip < address_limit => None,
            rip if rip >= address_limit.wrapping_neg() => Some(SigInfo::fault(Signal::SEGV, si_code::SEGV_MAPERR, rip)),
            _ => Some(SigInfo::kernel(Signal::SEGV)),
        }
    }
}

/// Reads a frame back (`rt_sigreturn`, `restore_sigcontext`). `eflags` are the flags now,
/// of which a program changes only some.
pub fn read(b: &[u8; SIZE], eflags: u64) -> Result<Returned, BadFrame> {
    let saved = Registers::get(&b[UC_MCONTEXT..]);
    let strict = get_u64(b, UC_FLAGS) & UC_STRICT_RESTORE_SS != 0;
    if saved.cs | 3 != USER_CS || (strict && saved.ss | 3 != USER_SS) {
        return Err(BadFrame);
    }
    let registers =
        Registers { eflags: eflags & !FIX_EFLAGS | saved.eflags & FIX_EFLAGS, cs: USER_CS, ss: USER_SS, ..saved };
    let mut stack = [0; StackT::SIZE];
    stack.copy_from_slice(&b[UC_STACK..UC_STACK + StackT::SIZE]);
    Ok(Returned {
        registers,
        mask: SigSet(get_u64(b, UC_SIGMASK)),
        stack: StackT::from_bytes(&stack),
        fpstate: get_u64(b, UC_MCONTEXT + MC_FPSTATE),
    })
}

/// How much of the extended state in a returning frame can be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restorable {
    /// The fxsave area alone; everything else starts afresh.
    Fxsave,
    /// An xsave area of `size` bytes; components not in `features` start afresh.
    Xsave {
        /// Length in bytes.
        size: u32,
        /// Components, no more than the processor has.
        features: u64,
    },
}

/// Judges the extended state at address `fpstate` by what it says about itself
/// (`check_xstate_in_sigframe`): a state that was copied without its end, or never had one,
/// counts as an fxsave area. `read_u32` reads user memory; the frame is bad if it cannot,
/// or if the state is not aligned as the processor wants it.
pub fn restorable(
    ours: ExtendedState,
    fpstate: u64,
    sw: &FpSwBytes,
    read_u32: impl FnOnce(u64) -> Option<u32>,
) -> Result<Restorable, BadFrame> {
    let (size, features) = match ours {
        ExtendedState::Fxsave => (0, 0),
        ExtendedState::Xsave { size, features } => (size, features),
    };
    let plausible = sw.magic1 == FP_XSTATE_MAGIC1
        && (XSTATE_MIN..=size).contains(&sw.xstate_size)
        && sw.xstate_size <= sw.extended_size;
    let extended =
        plausible && read_u32(fpstate.wrapping_add(u64::from(sw.xstate_size))).ok_or(BadFrame)? == FP_XSTATE_MAGIC2;
    let align = if extended { FPSTATE_ALIGN } else { 16 };
    if !fpstate.is_multiple_of(align) {
        return Err(BadFrame);
    }
    Ok(if extended {
        Restorable::Xsave { size: sw.xstate_size, features: sw.xfeatures & features }
    } else {
        Restorable::Fxsave
    })
}
