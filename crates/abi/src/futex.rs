//! Futexes: operations, flags and the structures of `futex(2)`, `futex_waitv(2)` and
//! `get_robust_list(2)`.

use crate::bytes::layout;
use linux_raw_sys::general as linux;

pub use linux::{
    FUTEX_BITSET_MATCH_ANY, FUTEX_CLOCK_REALTIME, FUTEX_CMP_REQUEUE, FUTEX_CMP_REQUEUE_PI, FUTEX_FD, FUTEX_LOCK_PI,
    FUTEX_LOCK_PI2, FUTEX_OWNER_DIED, FUTEX_PRIVATE_FLAG, FUTEX_REQUEUE, FUTEX_TID_MASK, FUTEX_TRYLOCK_PI,
    FUTEX_UNLOCK_PI, FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_WAITERS, FUTEX_WAITV_MAX, FUTEX_WAKE,
    FUTEX_WAKE_BITSET, FUTEX_WAKE_OP, FUTEX2_NUMA, FUTEX2_PRIVATE, FUTEX2_SIZE_MASK, FUTEX2_SIZE_U8, FUTEX2_SIZE_U16,
    FUTEX2_SIZE_U32, FUTEX2_SIZE_U64,
};

/// The mask of an operation without its flags (`FUTEX_CMD_MASK`).
pub const FUTEX_CMD_MASK: u32 = !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
/// `FUTEX2_MPOL`: choose the memory node by policy.
pub const FUTEX2_MPOL: u32 = linux::FUTEX2_MPOL;
/// The most entries of a robust list that are walked at exit (`ROBUST_LIST_LIMIT`).
pub const ROBUST_LIST_LIMIT: usize = 2048;

/// The encoded operation of FUTEX_WAKE_OP: `*uaddr2 = *uaddr2 op oparg`, then wake there if
/// `old cmp cmparg`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeOp {
    /// `FUTEX_OP_*`: 0 set, 1 add, 2 or, 3 and-not, 4 xor.
    pub op: u32,
    /// The operand, already shifted if FUTEX_OP_OPARG_SHIFT was set.
    pub oparg: i32,
    /// `FUTEX_OP_CMP_*`: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5 greater or equal.
    pub cmp: u32,
    /// The operand of the comparison with the old value.
    pub cmparg: i32,
}

impl WakeOp {
    /// Takes the argument `val3` apart (`futex_atomic_op_inuser`): 12-bit operands are
    /// sign-extended; a shift count outside 0 to 31 is taken modulo 32.
    pub const fn decode(encoded: u32) -> WakeOp {
        let oparg = (encoded << 8) as i32 >> 20;
        WakeOp {
            op: encoded >> 28 & 7,
            oparg: if encoded >> 31 != 0 { 1 << (oparg & 31) } else { oparg },
            cmp: encoded >> 24 & 15,
            cmparg: (encoded << 20) as i32 >> 20,
        }
    }

    /// The new value, or `None` for an unknown operation (ENOSYS).
    pub const fn apply(&self, old: u32) -> Option<u32> {
        let arg = self.oparg as u32;
        Some(match self.op {
            0 => arg,
            1 => old.wrapping_add(arg),
            2 => old | arg,
            3 => old & !arg,
            4 => old ^ arg,
            _ => return None,
        })
    }

    /// Whether the comparison with the old value holds, or `None` for an unknown one (ENOSYS).
    pub const fn holds(&self, old: u32) -> Option<bool> {
        let (old, arg) = (old as i32, self.cmparg);
        Some(match self.cmp {
            0 => old == arg,
            1 => old != arg,
            2 => old < arg,
            3 => old <= arg,
            4 => old > arg,
            5 => old >= arg,
            _ => return None,
        })
    }
}

/// `struct robust_list_head`: the locks a thread holds, for release at its exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct RobustListHead {
    /// Address of the first entry, or of the head itself when empty; bit 0 marks a PI futex.
    pub next: u64,
    /// From an entry to its futex word.
    pub futex_offset: i64,
    /// The lock being taken or released right now, or 0.
    pub list_op_pending: u64,
}

layout!(RobustListHead: 24 { 0 next, 8 futex_offset, 16 list_op_pending });

/// `struct futex_waitv`: one futex of `futex_waitv(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct FutexWaitv {
    /// Expected value.
    pub val: u64,
    /// Address.
    pub uaddr: u64,
    /// `FUTEX2_*`.
    pub flags: u32,
    /// Must be 0 (EINVAL).
    pub reserved: i32,
}

layout!(FutexWaitv: 24 { 0 val, 8 uaddr, 16 flags, 20 reserved });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_op_is_taken_apart() {
        // FUTEX_OP(FUTEX_OP_ADD, -1, FUTEX_OP_CMP_GT, -2)
        let op = WakeOp::decode(1 << 28 | 4 << 24 | 0xFFF << 12 | 0xFFE);
        assert_eq!(op, WakeOp { op: 1, oparg: -1, cmp: 4, cmparg: -2 });
        assert_eq!((op.apply(5), op.holds(5), op.holds(-2i32 as u32)), (Some(4), Some(true), Some(false)));
        let shifted = WakeOp::decode((8 | 2) << 28 | 3 << 12);
        assert_eq!((shifted.op, shifted.oparg), (2, 8));
        assert_eq!(WakeOp { op: 5, oparg: 0, cmp: 6, cmparg: 0 }.apply(0), None);
        assert_eq!(WakeOp { op: 5, oparg: 0, cmp: 6, cmparg: 0 }.holds(0), None);
    }
}
