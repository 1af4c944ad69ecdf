//! `fcntl(2)`.

/// Makes a duplicate of a descriptor.
pub const F_DUPFD: u64 = 0;
/// Asks for the flags of an open file.
pub const F_GETFL: u64 = 3;
/// Changes the flags of an open file.
pub const F_SETFL: u64 = 4;
/// As `F_DUPFD`; exec closes the duplicate.
pub const F_DUPFD_CLOEXEC: u64 = 1030;

/// Calls on this open file do not wait.
pub const O_NONBLOCK: u64 = 0o4000;
