//! The blocks that borrowers have been lent.

use alloc::vec::Vec;

/// The blocks, by address.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    /// Those of borrowers that may use our memory.
    pub blocks: Vec<usize>,
    /// One that the next borrower takes, or 0: programs that make borrowers make many, one after the other.
    pub spare: usize,
}
