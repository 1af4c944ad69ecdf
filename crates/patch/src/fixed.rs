//! The image at fixed addresses: a copy of it that the host maps there and nowhere else (ET_EXEC).
//!
//! A seccomp filter knows an address before the program is executed that it judges. So where system calls are caught
//! by a filter, the image must lie at the same addresses in every process. The copy still relocates itself by where it
//! finds itself, as the original does, so only what the host and debuggers read is changed: the kind of the file, its
//! entry point, and the addresses of segments, sections and symbols.

use alloc::vec::Vec;
use core::ops::Range;

/// The addresses that belong to the image. The range is larger than any image, so that a filter fits all versions, and
/// lies where Linux puts position-independent programs, below the first of them: its heap can grow, and the address
/// spaces of sanitizers know such addresses as a program's. The image's last segment reaches to the range's end, so
/// that no code of the program lies there.
pub const RANGE: Range<u64> = 0x5555_0000_0000..0x5555_0040_0000;

const ET_EXEC: u16 = 2;
const PT_LOAD: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
const SEGMENT_LEN: usize = 56;
const SECTION_LEN: usize = 64;
const SYMBOL_LEN: usize = 24;

/// The copy; `None` if the bytes are no shared object of this form, or it is too long for [`RANGE`].
#[must_use]
pub fn at_fixed_addresses(image: &[u8]) -> Option<Vec<u8>> {
    let mut copy = image.to_vec();
    write(&mut copy, 16, &ET_EXEC.to_le_bytes())?;
    shift(&mut copy, 24)?;
    let (segments, sections) = (word(image, 32)? as usize, word(image, 40)? as usize);
    // Segments are in the order of their addresses.
    let mut last = None;
    for at in entries(segments, half(image, 56)?, SEGMENT_LEN) {
        let [address, len] = [word(image, at + 16)?, word(image, at + 40)?];
        let is_loaded = word(image, at)? as u32 == PT_LOAD;
        if is_loaded {
            last = Some((at, (RANGE.end - RANGE.start).checked_sub(address).filter(|&room| len <= room)?));
        }
        // A segment without an address describes no memory (PT_GNU_STACK).
        if address != 0 || is_loaded {
            shift(&mut copy, at + 16)?;
            shift(&mut copy, at + 24)?;
        }
    }
    let (at, room) = last?;
    write(&mut copy, at + 40, &room.to_le_bytes())?;
    for at in entries(sections, half(image, 60)?, SECTION_LEN) {
        if word(image, at + 16)? != 0 {
            shift(&mut copy, at + 16)?;
        }
        if (word(image, at)? >> 32) as u32 == SHT_SYMTAB {
            shift_symbols(&mut copy, word(image, at + 24)? as usize, word(image, at + 32)? as usize)?;
        }
    }
    Some(copy)
}

fn entries(start: usize, count: u16, len: usize) -> impl Iterator<Item = usize> {
    (0..usize::from(count)).map(move |i| start + i * len)
}

fn shift_symbols(copy: &mut [u8], start: usize, len: usize) -> Option<()> {
    for at in (start..start.checked_add(len)?).step_by(SYMBOL_LEN) {
        if ![SHN_UNDEF, SHN_ABS].contains(&half(copy, at + 6)?) {
            shift(copy, at + 8)?;
        }
    }
    Some(())
}

/// Moves an address into the range.
fn shift(bytes: &mut [u8], at: usize) -> Option<()> {
    let moved = word(bytes, at)?.checked_add(RANGE.start)?;
    write(bytes, at, &moved.to_le_bytes())
}

fn write(bytes: &mut [u8], at: usize, value: &[u8]) -> Option<()> {
    bytes.get_mut(at..at.checked_add(value.len())?)?.copy_from_slice(value);
    Some(())
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Layout;

    #[test]
    fn a_copy_is_the_same_program_elsewhere() {
        // A program that begins at address 0, as the image does.
        let original = std::fs::read("/bin/true").unwrap();
        let layout = |bytes: &[u8]| {
            let read = &mut |at: u64, to: &mut [u8]| {
                let from = bytes.get(at as usize..).unwrap_or_default();
                let len = from.len().min(to.len());
                to[..len].copy_from_slice(&from[..len]);
                len
            };
            Layout::read(read).unwrap()
        };
        let (before, after) = (layout(&original), layout(&at_fixed_addresses(&original).unwrap()));
        assert!(!before.is_fixed && after.is_fixed);
        assert_eq!(after.entry, before.entry + RANGE.start);
        assert_eq!(after.span().start, RANGE.start);
        assert_eq!(after.span().end, RANGE.end);
        assert_eq!(after.headers, before.headers + RANGE.start);
        assert_eq!(after.segments.len(), before.segments.len());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut original = std::fs::read("/bin/true").unwrap();
        assert_eq!(at_fixed_addresses(&original[..100]), None);
        let first = word(&original, 32).unwrap() as usize;
        let load = entries(first, half(&original, 56).unwrap(), SEGMENT_LEN)
            .find(|&at| word(&original, at).unwrap() as u32 == PT_LOAD);
        write(&mut original, load.unwrap() + 40, &(1u64 << 30).to_le_bytes()).unwrap();
        assert_eq!(at_fixed_addresses(&original), None);
    }
}
