use crate::SigSet;
use crate::bytes::{layout, plain_number};
use core::ops::{BitAnd, BitOr};

/// The default action (`sa_handler`).
pub const SIG_DFL: u64 = 0;
/// Ignore the signal (`sa_handler`).
pub const SIG_IGN: u64 = 1;

/// `sa_flags` of `sigaction(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct SaFlags(pub u64);

impl SaFlags {
    /// No SIGCHLD when a child stops or continues.
    pub const NOCLDSTOP: SaFlags = SaFlags(1);
    /// Children that end leave no zombie.
    pub const NOCLDWAIT: SaFlags = SaFlags(2);
    /// The handler gets siginfo and the context.
    pub const SIGINFO: SaFlags = SaFlags(4);
    /// Probe bit that the kernel always clears, so that a program can see whether unknown bits are cleared.
    pub const UNSUPPORTED: SaFlags = SaFlags(0x400);
    /// The kernel's own mark that `restorer` is set; x86-64 has no other way to return.
    pub const RESTORER: SaFlags = SaFlags(0x0400_0000);
    /// Run the handler on the alternate stack.
    pub const ONSTACK: SaFlags = SaFlags(0x0800_0000);
    /// Restart an interrupted system call.
    pub const RESTART: SaFlags = SaFlags(0x1000_0000);
    /// Do not block the signal while its handler runs.
    pub const NODEFER: SaFlags = SaFlags(0x4000_0000);
    /// Back to the default action as the handler starts.
    pub const RESETHAND: SaFlags = SaFlags(0x8000_0000);
    /// Every flag that x86-64 knows (`UAPI_SA_FLAGS`); `sigaction` clears all others.
    pub const KNOWN: SaFlags = SaFlags(0x1 | 0x2 | 0x4 | 0x800 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0xC000_0000);

    /// Whether all of `f` are set.
    #[inline(always)]
    pub const fn has(self, f: SaFlags) -> bool {
        self.0 & f.0 == f.0
    }
}

impl BitOr for SaFlags {
    type Output = SaFlags;
    fn bitor(self, o: SaFlags) -> SaFlags {
        SaFlags(self.0 | o.0)
    }
}

impl BitAnd for SaFlags {
    type Output = SaFlags;
    fn bitand(self, o: SaFlags) -> SaFlags {
        SaFlags(self.0 & o.0)
    }
}

/// The kernel's `struct sigaction` of `rt_sigaction`, which is not libc's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(C)]
pub struct SigAction {
    /// [`SIG_DFL`], [`SIG_IGN`] or the handler's address.
    pub handler: u64,
    /// How the handler runs.
    pub flags: SaFlags,
    /// The code a handler returns to.
    pub restorer: u64,
    /// Blocked while the handler runs.
    pub mask: SigSet,
}

impl SigAction {
    /// The default action.
    pub const DEFAULT: SigAction = SigAction { handler: SIG_DFL, flags: SaFlags(0), restorer: 0, mask: SigSet::EMPTY };

    /// Whether this is a function of the program.
    #[inline]
    pub const fn is_handler(&self) -> bool {
        self.handler != SIG_DFL && self.handler != SIG_IGN
    }
}

plain_number!(SaFlags);
layout!(SigAction: 32 { 0 handler, 8 flags, 16 restorer, 24 mask });
