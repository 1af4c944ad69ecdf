use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point in time or a span, in nanoseconds. Arithmetic saturates: time never wraps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Never: later than everything.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// A span of `n` microseconds.
    pub const fn from_micros(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000))
    }
    /// A span of `n` milliseconds.
    pub const fn from_millis(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000))
    }
    /// A span of `n` seconds.
    pub const fn from_secs(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000_000))
    }
    /// `self - earlier`, or zero if `earlier` is not earlier.
    #[inline(always)]
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    #[inline(always)]
    fn add(self, o: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(o.0))
    }
}

impl AddAssign for Nanos {
    #[inline(always)]
    fn add_assign(&mut self, o: Nanos) {
        *self = *self + o;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    #[inline(always)]
    fn sub(self, o: Nanos) -> Nanos {
        self.since(o)
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Nanos::MAX => f.write_str("never"),
            Nanos(n) => write!(f, "{}.{:09}s", n / 1_000_000_000, n % 1_000_000_000),
        }
    }
}
