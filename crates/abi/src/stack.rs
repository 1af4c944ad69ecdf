use crate::bytes::layout;

/// `ss_flags`: the thread is on the alternate stack (output; ignored as input).
pub const SS_ONSTACK: i32 = 1;
/// `ss_flags`: no alternate stack.
pub const SS_DISABLE: i32 = 2;
/// `ss_flags`: forget the alternate stack while a handler runs on it; sigreturn restores it.
pub const SS_AUTODISARM: i32 = i32::MIN;

/// `stack_t` of `sigaltstack(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(C)]
pub struct StackT {
    /// Lowest address.
    pub sp: u64,
    /// `SS_*`.
    pub flags: i32,
    /// Length in bytes.
    pub size: u64,
}

layout!(StackT: 24 { 0 sp, 8 flags, 16 size });
