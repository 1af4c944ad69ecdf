use crate::bytes::{get_i32, get_u64, put_i32, put_u64};

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

impl StackT {
    /// The size in memory.
    pub const SIZE: usize = 24;

    /// Reads the structure.
    pub fn from_bytes(b: &[u8; 24]) -> StackT {
        StackT { sp: get_u64(b, 0), flags: get_i32(b, 8), size: get_u64(b, 16) }
    }

    /// Writes the structure; the padding is zero.
    pub fn to_bytes(&self) -> [u8; 24] {
        let mut b = [0; 24];
        put_u64(&mut b, 0, self.sp);
        put_i32(&mut b, 8, self.flags);
        put_u64(&mut b, 16, self.size);
        b
    }
}
