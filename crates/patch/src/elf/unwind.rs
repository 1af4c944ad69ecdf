//! Functions by their exception frames.
//!
//! Compilers describe every function for the unwinder, static and nameless ones too, and
//! the linker adds a sorted table (`.eh_frame_hdr`): the best list of functions that a
//! stripped object has. Linux Standard Base, "Exception Frames".

use super::read;
use super::segments::Segments;
use crate::code::Function;
use crate::plan::RESTORER;
use alloc::vec::Vec;
use core::ops::Range;

/// The sorted table of an object's functions.
#[derive(Clone, Copy)]
pub struct FunctionTable<'a> {
    /// Run-time address of the header; the table's numbers count from it.
    address: u64,
    /// Pairs of numbers: where a function begins, where its frame description lies.
    entries: &'a [u8],
}

const ENTRY_LEN: usize = 8;
/// `DW_EH_PE_udata4`.
const UDATA4: u8 = 0x03;
/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
const DATAREL_SDATA4: u8 = 0x3b;
/// `DW_EH_PE_omit`.
const OMIT: u8 = 0xff;

impl<'a> FunctionTable<'a> {
    /// The table behind the `PT_GNU_EH_FRAME` header at `address`; `None` if it has
    /// another form than linkers write today.
    pub(super) fn new(segments: &Segments<'a>, address: u64) -> Option<Self> {
        let bytes = segments.from(address)?;
        let [version, frame, count, table] = read::array(bytes, 0)?;
        if version != 1 || count != UDATA4 || table != DATAREL_SDATA4 {
            return None;
        }
        let count_at = 4 + encoded_len(frame)?;
        let count = read::u32(bytes, count_at)? as usize;
        let entries = bytes.get(count_at + 4..)?;
        Some(Self { address, entries: entries.get(..count.checked_mul(ENTRY_LEN)?)? })
    }

    /// The table with these entries, which count from `address`, as [`search_table`] makes them.
    pub(super) fn of_entries(address: u64, entries: &'a [u8]) -> Self {
        Self { address, entries }
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.entries.len() / ENTRY_LEN
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn number(&self, at: usize) -> Option<u64> {
        Some(self.address.wrapping_add_signed(read::i32(self.entries, at)? as i64))
    }

    /// Where the function with this index begins.
    pub fn start(&self, index: usize) -> Option<u64> {
        self.number(index.checked_mul(ENTRY_LEN)?)
    }

    pub(super) fn last_from(&self, segments: &Segments<'_>, address: u64) -> Option<(Function, u64)> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start(middle)? <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let index = low.checked_sub(1)?;
        let frame = self.number(index * ENTRY_LEN + 4)?;
        let function = function(segments, self.start(index)?, frame)?;
        Some((function, self.start(low).unwrap_or(u64::MAX)))
    }
}

/// The code that the frame description at `frame` covers, which begins at `start`.
///
/// Of signal trampolines (augmentation `S`) only restorers have a known form: the description begins one byte before the
/// code, because unwinders look for the instruction before a return address.
fn function(segments: &Segments<'_>, start: u64, frame: u64) -> Option<Function> {
    let bytes = segments.from(frame)?;
    let common = Common::of(segments, frame, bytes)?;
    let len = encoded_len(common.encoding)?;
    let at = 8 + len;
    let covered = match len {
        2 => read::u16(bytes, at).map(u64::from),
        4 => read::u32(bytes, at).map(u64::from),
        _ => read::u64(bytes, at),
    };
    let end = start.checked_add(covered?)?;
    if !common.is_signal {
        return Some(start..end);
    }
    let code = start.checked_add(1)?;
    segments.from(code)?.starts_with(&RESTORER).then_some(code..end)
}

/// What a common information entry says of its frames.
struct Common {
    /// How they write their addresses (`DW_EH_PE_…`).
    encoding: u8,
    /// They are a signal's.
    is_signal: bool,
}

impl Common {
    /// That of the frame description at `address`, which has these bytes.
    fn of(segments: &Segments<'_>, address: u64, bytes: &[u8]) -> Option<Self> {
        let back = read::u32(bytes, 4)?;
        Self::read(segments.from(address.checked_add(4)?.checked_sub(back as u64)?)?)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (is_common, version) = (read::u32(bytes, 4)? == 0, *bytes.get(8)?);
        if !is_common || (version != 1 && version != 3) {
            return None;
        }
        let augmentation = read::string(bytes, 9)?;
        let mut at = 9 + augmentation.len() + 1;
        // Code alignment, data alignment, return address register.
        at = skip_leb128(bytes, skip_leb128(bytes, at)?)?;
        at = if version == 1 { at + 1 } else { skip_leb128(bytes, at)? };
        let (&first, letters) = augmentation.split_first()?;
        if first != b'z' {
            return None;
        }
        at = skip_leb128(bytes, at)?;
        let mut encoding = None;
        for letter in letters {
            match letter {
                b'R' => {
                    encoding = Some(*bytes.get(at)?);
                    at += 1;
                }
                b'L' => at += 1,
                b'P' => at += 1 + encoded_len(*bytes.get(at)?)?,
                b'B' | b'S' => {}
                _ => return None,
            }
        }
        Some(Self { encoding: encoding?, is_signal: letters.contains(&b'S') })
    }
}

/// The entries of the table that linkers make of the frames at `frames` for all objects but static programs (`ld --eh-frame-hdr`),
/// with numbers that count from there; `None` if something in the frames has an unusual form, or there is no memory.
pub fn search_table(segments: &Segments<'_>, frames: Range<u64>) -> Option<Vec<u8>> {
    let distance = |to: u64| i32::try_from(to.wrapping_sub(frames.start).cast_signed()).ok();
    let mut entries: Vec<[i32; 2]> = Vec::new();
    let mut at = frames.start;
    while at < frames.end {
        let bytes = segments.from(at)?;
        let len = read::u32(bytes, 0)?;
        // A zero ends the frames; longer lengths than of 32 bits are not written.
        if len == 0 {
            break;
        }
        if read::u32(bytes, 4)? != 0 {
            let start = first_address(Common::of(segments, at, bytes)?.encoding, at, bytes)?;
            entries.try_reserve(1).ok()?;
            entries.push([distance(start)?, distance(at)?]);
        }
        at = at.checked_add(4)?.checked_add(u64::from(len))?;
    }
    entries.sort_unstable();
    let mut table = Vec::new();
    table.try_reserve_exact(entries.len() * ENTRY_LEN).ok()?;
    table.extend(entries.iter().flatten().flat_map(|number| number.to_le_bytes()));
    Some(table)
}

/// Where the function of the frame description at `at` begins.
fn first_address(encoding: u8, at: u64, bytes: &[u8]) -> Option<u64> {
    const PLACE: u64 = 8;
    const PCREL_SDATA4: u8 = 0x1b;
    match encoding {
        PCREL_SDATA4 => Some(at.checked_add(PLACE)?.wrapping_add_signed(read::i32(bytes, 8)?.into())),
        UDATA4 => read::u32(bytes, 8).map(u64::from),
        _ => None,
    }
}

fn skip_leb128(bytes: &[u8], mut at: usize) -> Option<usize> {
    while bytes.get(at)? & 0x80 != 0 {
        at += 1;
    }
    Some(at + 1)
}

/// The length of a pointer with this encoding (`DW_EH_PE_…`).
fn encoded_len(encoding: u8) -> Option<usize> {
    if encoding == OMIT {
        return Some(0);
    }
    match encoding & 0x7 {
        0 | 4 => Some(8),
        2 => Some(2),
        3 => Some(4),
        _ => None,
    }
}
