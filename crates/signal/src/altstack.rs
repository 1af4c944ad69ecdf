use abi::{Errno, SS_AUTODISARM, SS_DISABLE, SS_ONSTACK, StackT};

/// A thread's alternate signal stack (`sigaltstack(2)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AltStack {
    sp: u64,
    size: u64,
    /// As the program set them.
    flags: i32,
}

impl AltStack {
    /// The least size a program may give (`MINSIGSTKSZ`), where the processor needs no more.
    pub const MIN_SIZE: u64 = 2048;
    /// No alternate stack.
    pub const NONE: AltStack = AltStack { sp: 0, size: 0, flags: SS_DISABLE };

    /// Whether `sp` points into it. It grows down: its highest address is inside, its
    /// lowest is not (`__on_sig_stack`).
    #[inline]
    pub const fn contains(&self, sp: u64) -> bool {
        sp > self.sp && sp - self.sp <= self.size
    }

    /// Whether a thread with this stack pointer counts as running on it; never with
    /// SS_AUTODISARM (`on_sig_stack`).
    #[inline]
    pub const fn is_used_by(&self, sp: u64) -> bool {
        self.flags & SS_AUTODISARM == 0 && self.contains(sp)
    }

    /// The stack's status for a thread with this stack pointer: 0, SS_DISABLE or SS_ONSTACK (`sas_ss_flags`).
    pub const fn status(&self, sp: u64) -> i32 {
        if self.size == 0 {
            SS_DISABLE
        } else if self.is_used_by(sp) {
            SS_ONSTACK
        } else {
            0
        }
    }

    /// The address behind its highest byte, where a handler's stack starts.
    pub const fn top(&self) -> u64 {
        self.sp.wrapping_add(self.size)
    }

    /// Whether a handler that starts on it takes it away until sigreturn.
    pub const fn disarms(&self) -> bool {
        self.flags & SS_AUTODISARM != 0
    }

    /// The result of `sigaltstack(2)` for a thread with this stack pointer.
    pub const fn report(&self, sp: u64) -> StackT {
        StackT { sp: self.sp, flags: self.status(sp) | self.flags & SS_AUTODISARM, size: self.size }
    }

    /// The stack saved in a signal frame (`__save_altstack`).
    pub const fn saved(&self) -> StackT {
        StackT { sp: self.sp, flags: self.flags, size: self.size }
    }

    /// Sets it for a thread with stack pointer `sp` (`do_sigaltstack`). EPERM while the
    /// thread runs on it; EINVAL for unknown flags; ENOMEM below `min_size`.
    pub const fn set(&mut self, new: StackT, sp: u64, min_size: u64) -> Result<(), Errno> {
        if self.is_used_by(sp) {
            return Err(Errno::EPERM);
        }
        match new.flags & !SS_AUTODISARM {
            SS_DISABLE => *self = AltStack { sp: 0, size: 0, flags: new.flags },
            0 | SS_ONSTACK => {
                let same = self.sp == new.sp && self.size == new.size && self.flags == new.flags;
                if !same && new.size < min_size {
                    return Err(Errno::ENOMEM);
                }
                *self = AltStack { sp: new.sp, size: new.size, flags: new.flags };
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}
