//! Functions by the table that Go's linker writes.
//!
//! Go's programs have no exception frames. Their runtime finds functions by a table of its own (`runtime.pclntab`), which a
//! record in the data names (`runtime.moduledata`). Both have had this form since Go 1.18. A stripped program has them too, because
//! the runtime cannot work without them.
//!
//! The table counts from an address that only the record has, so the record is looked for. It has been found when all
//! that it says agrees with the table: a chance hit would need five words to agree.

use super::read;
use super::segments::Segments;
use crate::code::Function;

/// The functions of a Go program.
#[derive(Clone, Copy)]
pub struct GoFunctions<'a> {
    /// From here the table's numbers count (`runtime.text`).
    text: u64,
    /// Pairs of numbers in the order of the first: where a function begins, and where it is described. The last pair is where the
    /// last function ends.
    entries: &'a [u8],
}

/// `abi.Go118PCLnTabMagic`, `abi.Go120PCLnTabMagic`.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// After the magic number: two zeroes, the length of the shortest instruction, and of a pointer.
const SHAPE: [u8; 4] = [0, 0, 1, 8];
const ENTRY_LEN: usize = 8;

/// Words of `runtime.moduledata`: the table, the list of functions with their number, the first and last address that they
/// have, and where they count from.
const LIST: usize = 16;
const MIN: usize = 20;
const MAX: usize = 21;
const TEXT: usize = 22;

impl<'a> GoFunctions<'a> {
    /// The table that a record in `data`, the writable memory of a program, names; `None` if that is no Go program.
    pub(super) fn find(segments: &Segments<'a>, data: &[u8]) -> Option<Self> {
        const WORD: usize = 8;
        let records = (0..data.len() / WORD).map(|at| &data[at * WORD..]);
        records.filter_map(|record| Self::named_by(segments, record)).next()
    }

    /// The table that this record names, if it is one.
    fn named_by(segments: &Segments<'a>, record: &[u8]) -> Option<Self> {
        let word = |index: usize| read::u64(record, index * 8);
        let table_at = word(0)?;
        let table = segments.from(table_at)?;
        if !MAGICS.contains(&read::u32(table, 0)?) || read::array(table, 4)? != SHAPE {
            return None;
        }
        let (count, list_from) = (read::u64(table, 8)?, read::u64(table, 64)?);
        let list_at = table_at.checked_add(list_from)?;
        if word(LIST)? != list_at || word(LIST + 1)? != count.checked_add(1)? {
            return None;
        }
        let len = usize::try_from(count).ok()?.checked_add(1)?.checked_mul(ENTRY_LEN)?;
        let functions = Self { text: word(TEXT)?, entries: segments.from(list_at)?.get(..len)? };
        let ends = [functions.start(0)?, functions.start(functions.len())?];
        (ends == [word(MIN)?, word(MAX)?]).then_some(functions)
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.entries.len() / ENTRY_LEN - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the function with this index begins; with the index behind the last one, where that ends.
    pub fn start(&self, index: usize) -> Option<u64> {
        let from = read::u32(self.entries, index.checked_mul(ENTRY_LEN)?)?;
        self.text.checked_add(u64::from(from))
    }

    pub(super) fn last_from(&self, address: u64) -> Option<(Function, u64)> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start(middle)? <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let (start, end) = (self.start(low.checked_sub(1)?)?, self.start(low)?);
        (address < end).then_some((start..end, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const TABLE: u64 = 0x50_0000;
    const TEXT_AT: u64 = 0x40_1000;
    const LIST_FROM: usize = 80;

    /// A table with three functions, the last of which ends at 0x90.
    fn table() -> Vec<u8> {
        let mut bytes = MAGICS[1].to_le_bytes().to_vec();
        bytes.extend(SHAPE);
        for word in [3_u64, 1, 0, 0, 0, 0, 0, LIST_FROM as u64, 0] {
            bytes.extend(word.to_le_bytes());
        }
        for pair in [[0_u32, 7], [0x20, 7], [0x60, 7], [0x90, 0]] {
            bytes.extend(pair.map(u32::to_le_bytes).concat());
        }
        bytes
    }

    /// Data with a word that points to the table by chance, and then the record.
    fn data() -> Vec<u8> {
        let mut words = [0_u64; 30];
        words[0] = TABLE;
        let record = &mut words[2..];
        record[0] = TABLE;
        record[LIST..LIST + 2].copy_from_slice(&[TABLE + LIST_FROM as u64, 4]);
        record[MIN..=TEXT].copy_from_slice(&[TEXT_AT, TEXT_AT + 0x90, TEXT_AT]);
        words.map(u64::to_le_bytes).concat()
    }

    fn found<'a>(table: &'a [u8], data: &[u8]) -> Option<GoFunctions<'a>> {
        let mut segments = Segments::new();
        segments.push(TABLE, table);
        GoFunctions::find(&segments, data)
    }

    #[test]
    fn functions_end_where_the_next_one_begins() {
        let table = table();
        let functions = found(&table, &data()).unwrap();
        assert_eq!(functions.len(), 3);
        let at = |offset: u64| functions.last_from(TEXT_AT + offset);
        assert_eq!(at(0), Some((TEXT_AT..TEXT_AT + 0x20, TEXT_AT + 0x20)));
        assert_eq!(at(0x5f), Some((TEXT_AT + 0x20..TEXT_AT + 0x60, TEXT_AT + 0x60)));
        assert_eq!(at(0x8f), Some((TEXT_AT + 0x60..TEXT_AT + 0x90, TEXT_AT + 0x90)));
        assert_eq!((at(0x90), functions.last_from(TEXT_AT - 1)), (None, None));
    }

    #[test]
    fn a_record_that_disagrees_with_the_table_is_none() {
        let (table, data) = (table(), data());
        for word in [2, 2 + LIST, 2 + LIST + 1, 2 + MIN, 2 + MAX, 2 + TEXT] {
            let mut changed = data.clone();
            changed[word * 8] ^= 8;
            assert!(found(&table, &changed).is_none(), "word {word}");
        }
        for byte in [0, 4, 5, 6, 7, 8, 64] {
            let mut changed = table.clone();
            changed[byte] ^= 2;
            assert!(found(&changed, &data).is_none(), "byte {byte}");
        }
        assert!(found(&table[..table.len() - 1], &data).is_none());
        assert!(found(&table, &data[..data.len() - 48]).is_none());
    }

    proptest! {
        /// Whatever the numbers are, nothing panics and what is found lies around the address.
        #[test]
        fn hostile_tables(changes in prop::collection::vec((0..112_usize, any::<u8>()), 0..6), address in any::<u64>()) {
            let mut table = table();
            for (at, byte) in changes {
                table[at] = byte;
            }
            if let Some(functions) = found(&table, &data()) {
                for address in [address, TEXT_AT + address % 256] {
                    if let Some((function, next)) = functions.last_from(address) {
                        prop_assert!(function.contains(&address) && next == function.end);
                    }
                }
            }
        }
    }
}
