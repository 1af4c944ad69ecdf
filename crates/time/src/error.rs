use core::fmt;
use sync::OutOfMemory;

/// Why a call about time is refused, in Linux's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// EINVAL: no such clock, timer or value.
    Invalid,
    /// EOPNOTSUPP: the clock exists but cannot do this.
    NotSupported,
    /// EPERM: not allowed to the caller.
    Permission,
    /// ESRCH: the thread or process that the clock belonged to is gone.
    NoSuchProcess,
    /// EAGAIN: no resources: memory, the limit on pending signals, no free id.
    Again,
    /// EBUSY: the wanted timer id is taken.
    Busy,
}

impl Error {
    /// Linux's error number, positive.
    pub const fn errno(self) -> i32 {
        match self {
            Error::Permission => 1,
            Error::NoSuchProcess => 3,
            Error::Again => 11,
            Error::Busy => 16,
            Error::Invalid => 22,
            Error::NotSupported => 95,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Invalid => "invalid argument",
            Error::NotSupported => "operation not supported",
            Error::Permission => "operation not permitted",
            Error::NoSuchProcess => "no such process",
            Error::Again => "resource temporarily unavailable",
            Error::Busy => "device or resource busy",
        })
    }
}

impl core::error::Error for Error {}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Error {
        Error::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    /// As strerror(3) has them.
    #[test]
    fn errors_have_linux_numbers_and_words() {
        for (error, number, words) in [
            (Error::Permission, 1, "operation not permitted"),
            (Error::NoSuchProcess, 3, "no such process"),
            (Error::Again, 11, "resource temporarily unavailable"),
            (Error::Busy, 16, "device or resource busy"),
            (Error::Invalid, 22, "invalid argument"),
            (Error::NotSupported, 95, "operation not supported"),
        ] {
            assert_eq!((error.errno(), error.to_string().as_str()), (number, words));
        }
        assert_eq!((Error::from(OutOfMemory), OutOfMemory.to_string().as_str()), (Error::Again, "out of memory"));
    }
}
