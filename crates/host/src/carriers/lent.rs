//! The blocks that borrowers have been lent.

use alloc::vec::Vec;

/// The blocks, by address.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    /// Blocks of borrowers that may still use our memory.
    pub blocks: Vec<usize>,
    /// A block for the next borrower, or 0. Programs that make borrowers tend to make many in a row.
    pub spare: usize,
}
