use core::fmt;

/// There was no memory for a structure that must be there before it is needed.
/// Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl core::error::Error for OutOfMemory {}

impl From<alloc::collections::TryReserveError> for OutOfMemory {
    fn from(_: alloc::collections::TryReserveError) -> OutOfMemory {
        OutOfMemory
    }
}
