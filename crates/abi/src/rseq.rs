//! Restartable sequences: offsets of `struct rseq` and `struct rseq_cs`, and the checks of
//! `rseq(2)`. The areas themselves belong to the program.

use crate::bytes::layout;

/// `cpu_id_start` (u32): the CPU number, always a valid one.
pub const CPU_ID_START: usize = 0;
/// `cpu_id` (u32): the CPU number, or [`CPU_ID_UNINITIALIZED`].
pub const CPU_ID: usize = 4;
/// `rseq_cs` (u64): address of the running critical section's descriptor, or 0.
pub const RSEQ_CS: usize = 8;
/// `flags` (u32).
pub const FLAGS: usize = 16;
/// `node_id` (u32).
pub const NODE_ID: usize = 20;
/// `mm_cid` (u32): a small number unique among the running threads of the process.
pub const MM_CID: usize = 24;
/// The size of the first version, which every program may register.
pub const ORIG_SIZE: usize = 32;
/// The alignment of an area.
pub const ALIGN: usize = 32;
/// Nothing has been stored in `cpu_id` yet.
pub const CPU_ID_UNINITIALIZED: u32 = u32::MAX;
/// Flag of `rseq(2)`: unregister.
pub const FLAG_UNREGISTER: u32 = 1;

/// `struct rseq_cs`: a critical section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CriticalSection {
    /// Must be 0.
    pub version: u32,
    /// Must be 0 today.
    pub flags: u32,
    /// First instruction.
    pub start_ip: u64,
    /// Length in bytes.
    pub post_commit_offset: u64,
    /// Where to go on abort; the four bytes before it are the signature.
    pub abort_ip: u64,
}

layout!(CriticalSection: 32 { 0 version, 4 flags, 8 start_ip, 16 post_commit_offset, 24 abort_ip });

impl CriticalSection {
    /// Whether `ip` is inside the section (`in_rseq_cs`).
    pub const fn contains(&self, ip: u64) -> bool {
        ip.wrapping_sub(self.start_ip) < self.post_commit_offset
    }

    /// Whether the descriptor is acceptable (`rseq_get_rseq_cs`): a section that does not
    /// wrap around, and an abort address outside it. If not, the program gets SIGSEGV.
    pub const fn is_valid(&self) -> bool {
        self.version == 0
            && self.start_ip.checked_add(self.post_commit_offset).is_some()
            && !self.contains(self.abort_ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_knows_its_inside() {
        let mut cs = CriticalSection { version: 0, flags: 0, start_ip: 100, post_commit_offset: 10, abort_ip: 200 };
        assert!(cs.is_valid() && cs.contains(100) && cs.contains(109));
        assert!(!cs.contains(110) && !cs.contains(99));
        cs.abort_ip = 105;
        assert!(!cs.is_valid());
        cs = CriticalSection { start_ip: u64::MAX, abort_ip: 0, ..cs };
        assert!(!cs.is_valid());
    }
}
