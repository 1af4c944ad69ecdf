use crate::Errno;
use crate::bytes::{Plain, layout};

/// `sched_flags` of `sched_setattr(2)`.
pub mod sched_flags {
    /// Children start with the default policy.
    pub const RESET_ON_FORK: u64 = 0x01;
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

layout!(SchedAttr: 56 {
    0 size, 4 policy, 8 flags, 16 nice, 20 priority, 24 runtime, 32 deadline, 40 period, 48 util_min, 52 util_max,
});

impl SchedAttr {
    /// Sizes of the two published versions.
    pub const SIZES: [usize; 2] = [48, 56];
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
    pub fn read(b: &[u8]) -> Result<SchedAttr, Errno> {
        if b.len() < SchedAttr::SIZES[0] || b.iter().skip(SchedAttr::SIZE).any(|&x| x != 0) {
            return Err(Errno::E2BIG);
        }
        let mut known = [0; SchedAttr::SIZE];
        let len = if b.len() >= SchedAttr::SIZE { SchedAttr::SIZE } else { SchedAttr::SIZES[0] };
        known[..len].copy_from_slice(&b[..len]);
        let attr = SchedAttr::get(&known);
        if len < SchedAttr::SIZE && attr.flags & (sched_flags::UTIL_CLAMP_MIN | sched_flags::UTIL_CLAMP_MAX) != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(attr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let attr = SchedAttr { size: 56, policy: 6, nice: -3, period: 7, util_max: 1024, ..Default::default() };
        let b = attr.to_bytes();
        assert_eq!(SchedAttr::read(&b), Ok(attr));
        assert_eq!(SchedAttr::read(&b[..48]).unwrap().util_max, 0);
        let mut longer = [0u8; 64];
        longer[..56].copy_from_slice(&b);
        assert_eq!(SchedAttr::read(&longer), Ok(attr));
        longer[63] = 1;
        assert_eq!(SchedAttr::read(&longer), Err(Errno::E2BIG));
    }

    #[test]
    fn sizes_are_checked_before_reading() {
        assert_eq!(SchedAttr::check_size(0), Ok(48));
        assert_eq!(SchedAttr::check_size(47), Err(Errno::E2BIG));
        assert_eq!(SchedAttr::check_size(4096), Ok(4096));
        assert_eq!(SchedAttr::check_size(4097), Err(Errno::E2BIG));
        let clamp = SchedAttr { flags: sched_flags::UTIL_CLAMP_MIN, ..Default::default() }.to_bytes();
        assert_eq!(SchedAttr::read(&clamp[..48]), Err(Errno::EINVAL));
    }
}
