//! The memory of an ELF object.

use super::header::{BadElf, ProgramHeader, headers};
use super::read;

/// Most segments that are kept; linkers make four or five.
const SEGMENTS_MAX: usize = 16;

/// Readable memory of an object: run-time address and bytes of each piece.
#[derive(Clone, Copy, Default)]
pub struct Segments<'a> {
    pieces: [(u64, &'a [u8]); SEGMENTS_MAX],
    len: usize,
}

impl<'a> Segments<'a> {
    /// No memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a piece; nothing is found in one beyond the sixteenth, or in one that would reach beyond the last address.
    pub fn push(&mut self, address: u64, bytes: &'a [u8]) {
        let fits = address.checked_add(bytes.len() as u64).is_some();
        if let Some(piece) = self.pieces.get_mut(self.len).filter(|_| fits) {
            *piece = (address, bytes);
            self.len += 1;
        }
    }

    /// The segments of a file as they would lie in memory if it were loaded at `bias`, without the zeros behind them.
    ///
    /// # Errors
    /// As [`headers`].
    pub fn of_file(file: &'a [u8], bias: u64) -> Result<Self, BadElf> {
        let mut segments = Self::new();
        for header in headers(file)?.filter(|header| header.kind == ProgramHeader::LOAD) {
            let bytes = read::range(file, header.offset, header.file_len).ok_or(BadElf::Truncated)?;
            segments.push(bias.wrapping_add(header.address), bytes);
        }
        Ok(segments)
    }

    /// The pieces, in the order in which they were added.
    pub fn pieces(&self) -> &[(u64, &'a [u8])] {
        &self.pieces[..self.len]
    }

    /// The bytes from `address` to the end of its piece.
    pub fn from(&self, address: u64) -> Option<&'a [u8]> {
        self.pieces().iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(offset..).filter(|rest| !rest.is_empty())
        })
    }
}
