use crate::Errno;
use crate::bytes::layout;
use ids::Nanos;

/// Nanoseconds of a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;
/// The latest point in time: spans and times beyond it become it (`KTIME_MAX`).
pub const KTIME_MAX: Nanos = Nanos(i64::MAX as u64);

/// Seconds and nanoseconds to nanoseconds, clamped (`ktime_set`). `sec` is not negative.
fn ktime(sec: i64, nsec: i64) -> Nanos {
    match (sec as u64).checked_mul(NANOS_PER_SEC).and_then(|n| n.checked_add(nsec as u64)) {
        Some(n) if n < KTIME_MAX.0 => Nanos(n),
        _ => KTIME_MAX,
    }
}

/// `struct timespec` with 64-bit seconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(C)]
pub struct Timespec {
    /// Seconds.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999 when valid.
    pub nsec: i64,
}

layout!(Timespec: 16 { 0 sec, 8 nsec });

impl Timespec {
    /// The value, at most [`KTIME_MAX`]; EINVAL if seconds are negative or nanoseconds
    /// outside 0 to 999,999,999 (`timespec64_valid`, `timespec64_to_ktime`).
    pub fn to_nanos(&self) -> Result<Nanos, Errno> {
        if self.sec < 0 || self.nsec as u64 >= NANOS_PER_SEC {
            return Err(Errno::EINVAL);
        }
        Ok(ktime(self.sec, self.nsec))
    }

    /// The structure for a value.
    pub fn from_nanos(n: Nanos) -> Timespec {
        Timespec { sec: (n.0 / NANOS_PER_SEC) as i64, nsec: (n.0 % NANOS_PER_SEC) as i64 }
    }
}

/// `struct timeval`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(C)]
pub struct Timeval {
    /// Seconds.
    pub sec: i64,
    /// Microseconds, 0 to 999,999 when valid.
    pub usec: i64,
}

layout!(Timeval: 16 { 0 sec, 8 usec });

impl Timeval {
    /// The value, at most [`KTIME_MAX`]; EINVAL if seconds are negative or microseconds
    /// outside 0 to 999,999, as `setitimer(2)` checks.
    pub fn to_nanos(&self) -> Result<Nanos, Errno> {
        if self.sec < 0 || self.usec as u64 >= 1_000_000 {
            return Err(Errno::EINVAL);
        }
        Ok(ktime(self.sec, self.usec * 1_000))
    }

    /// The structure for a value, rounded down to microseconds.
    pub fn from_nanos(n: Nanos) -> Timeval {
        Timeval { sec: (n.0 / NANOS_PER_SEC) as i64, usec: (n.0 % NANOS_PER_SEC / 1_000) as i64 }
    }
}

macro_rules! interval_pair {
    ($name:ident, $of:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
        #[repr(C)]
        pub struct $name {
            /// Period; zero for once.
            pub interval: $of,
            /// Time to, or of, the first expiry; zero disarms.
            pub value: $of,
        }

        layout!($name: 32 { 0 interval, 16 value });

        impl $name {
            /// `(interval, value)`; EINVAL if either is invalid, even when disarming.
            pub fn to_nanos(&self) -> Result<(Nanos, Nanos), Errno> {
                Ok((self.interval.to_nanos()?, self.value.to_nanos()?))
            }

            /// The structure for a pair of values.
            pub fn from_nanos(interval: Nanos, value: Nanos) -> $name {
                $name { interval: $of::from_nanos(interval), value: $of::from_nanos(value) }
            }
        }
    };
}

interval_pair!(Itimerspec, Timespec, "`struct itimerspec` of `timer_settime(2)` and `timerfd_settime(2)`.");
interval_pair!(Itimerval, Timeval, "`struct itimerval` of `setitimer(2)`.");

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(sec: i64, nsec: i64) -> Result<Nanos, Errno> {
        Timespec { sec, nsec }.to_nanos()
    }

    #[test]
    fn what_is_invalid_is_einval() {
        for bad in [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MIN, 0), (0, i64::MIN)] {
            assert_eq!(ts(bad.0, bad.1), Err(Errno::EINVAL), "{bad:?}");
        }
        assert_eq!(Timeval { sec: 0, usec: 1_000_000 }.to_nanos(), Err(Errno::EINVAL));
        assert_eq!(Timeval { sec: 0, usec: -1 }.to_nanos(), Err(Errno::EINVAL));
    }

    #[test]
    fn huge_times_clamp() {
        assert_eq!(ts(9_223_372_036, 854_775_806), Ok(Nanos(i64::MAX as u64 - 1)));
        assert_eq!(ts(9_223_372_036, 854_775_807), Ok(KTIME_MAX));
        assert_eq!(ts(9_223_372_037, 0), Ok(KTIME_MAX));
        assert_eq!(ts(i64::MAX, 999_999_999), Ok(KTIME_MAX));
    }

    #[test]
    fn an_interval_is_checked_even_when_disarming() {
        let bad = Itimerspec { interval: Timespec { sec: 0, nsec: -1 }, value: Timespec::default() };
        assert_eq!(bad.to_nanos(), Err(Errno::EINVAL));
        let good = Itimerval::from_nanos(Nanos::from_millis(1), Nanos::from_secs(2));
        assert_eq!(Itimerval::from_bytes(&good.to_bytes()).to_nanos(), Ok((Nanos(1_000_000), Nanos(2_000_000_000))));
    }
}
