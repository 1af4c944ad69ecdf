//! The carrier blocks lent to borrowers.

use alloc::vec::Vec;

/// The blocks, by address.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    /// Blocks of borrowers that may still use our memory.
    pub blocks: Vec<usize>,
    /// A block kept for the next borrower, or 0: programs that make borrowers tend to make many in a row.
    pub spare: usize,
}
