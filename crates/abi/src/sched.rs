use crate::Errno;
use crate::bytes::{get_i32, get_u32, get_u64, put_i32, put_u32, put_u64};

/// `sched_flags` of `sched_setattr(2)`.
pub mod sched_flags {
    /// Children start with the default policy.
    pub const RESET_ON_FORK: u64 = 0x01;
    /// Give unused deadline bandwidth away.
    pub const RECLAIM: u64 = 0x02;
    /// SIGXCPU at a deadline overrun.
    pub const DL_OVERRUN: u64 = 0x04;
    /// Keep the policy.
    pub const KEEP_POLICY: u64 = 0x08;
    /// Keep the parameters.
    pub const KEEP_PARAMS: u64 = 0x10;
    /// `util_min` is set.
    pub const UTIL_CLAMP_MIN: u64 = 0x20;
    /// `util_max` is set.
    pub const UTIL_CLAMP_MAX: u64 = 0x40;
    /// Every flag there is; others are EINVAL.
    pub const ALL: u64 = 0x7F;
}

/// `struct sched_attr` of `sched_setattr(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct SchedAttr {
    /// The size the caller named.
    pub size: u32,
    /// Policy number.
    pub policy: u32,
    /// [`sched_flags`].
    pub flags: u64,
    /// Nice value.
    pub nice: i32,
    /// Real-time priority.
    pub priority: u32,
    /// Deadline budget, or the custom slice of a fair thread, in nanoseconds.
    pub runtime: u64,
    /// Relative deadline in nanoseconds.
    pub deadline: u64,
    /// Period in nanoseconds.
    pub period: u64,
    /// Least utilisation hint.
    pub util_min: u32,
    /// Greatest utilisation hint.
    pub util_max: u32,
}

impl SchedAttr {
    /// Sizes of the two published versions.
    pub const SIZES: [usize; 2] = [48, 56];
    /// The size this kernel knows.
    pub const SIZE: usize = 56;

    /// The size to read when the structure's first word is `size` (`sched_copy_attr`):
    /// 0 means the first version; E2BIG, with [`SchedAttr::SIZE`] to be written back there,
    /// below the first version or above a page.
    pub const fn check_size(size: u32) -> Result<usize, Errno> {
        match size {
            0 => Ok(SchedAttr::SIZES[0]),
            48..=4096 => Ok(size as usize),
            _ => Err(Errno::E2BIG),
        }
    }

    /// Reads a structure of any version; E2BIG if something is set behind what is known;
    /// EINVAL if utilisation clamps are asked for in the first version.
    pub fn from_bytes(b: &[u8]) -> Result<SchedAttr, Errno> {
        if b.len() < SchedAttr::SIZES[0] || b.iter().skip(SchedAttr::SIZE).any(|&x| x != 0) {
            return Err(Errno::E2BIG);
        }
        let new = b.len() >= SchedAttr::SIZE;
        let flags = get_u64(b, 8);
        if !new && flags & (sched_flags::UTIL_CLAMP_MIN | sched_flags::UTIL_CLAMP_MAX) != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(SchedAttr {
            size: get_u32(b, 0),
            policy: get_u32(b, 4),
            flags,
            nice: get_i32(b, 16),
            priority: get_u32(b, 20),
            runtime: get_u64(b, 24),
            deadline: get_u64(b, 32),
            period: get_u64(b, 40),
            util_min: if new { get_u32(b, 48) } else { 0 },
            util_max: if new { get_u32(b, 52) } else { 0 },
        })
    }

    /// Writes the structure in the newest version; `sched_getattr(2)` copies the first
    /// `min(size, 56)` bytes.
    pub fn to_bytes(&self) -> [u8; 56] {
        let mut b = [0; 56];
        put_u32(&mut b, 0, self.size);
        put_u32(&mut b, 4, self.policy);
        put_u64(&mut b, 8, self.flags);
        put_i32(&mut b, 16, self.nice);
        put_u32(&mut b, 20, self.priority);
        put_u64(&mut b, 24, self.runtime);
        put_u64(&mut b, 32, self.deadline);
        put_u64(&mut b, 40, self.period);
        put_u32(&mut b, 48, self.util_min);
        put_u32(&mut b, 52, self.util_max);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let attr = SchedAttr { size: 56, policy: 6, nice: -3, period: 7, util_max: 1024, ..Default::default() };
        let b = attr.to_bytes();
        assert_eq!(SchedAttr::from_bytes(&b), Ok(attr));
        assert_eq!(SchedAttr::from_bytes(&b[..48]).unwrap().util_max, 0);
        let mut longer = [0u8; 64];
        longer[..56].copy_from_slice(&b);
        assert_eq!(SchedAttr::from_bytes(&longer), Ok(attr));
        longer[63] = 1;
        assert_eq!(SchedAttr::from_bytes(&longer), Err(Errno::E2BIG));
    }

    #[test]
    fn sizes_are_checked_before_reading() {
        assert_eq!(SchedAttr::check_size(0), Ok(48));
        assert_eq!(SchedAttr::check_size(47), Err(Errno::E2BIG));
        assert_eq!(SchedAttr::check_size(4096), Ok(4096));
        assert_eq!(SchedAttr::check_size(4097), Err(Errno::E2BIG));
        let clamp = SchedAttr { flags: sched_flags::UTIL_CLAMP_MIN, ..Default::default() }.to_bytes();
        assert_eq!(SchedAttr::from_bytes(&clamp[..48]), Err(Errno::EINVAL));
    }
}
