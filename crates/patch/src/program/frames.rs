//! Finds a program's exception frames if no program header names them.
//!
//! Linkers leave PT_GNU_EH_FRAME out of what is linked with `-static`, because there the startup code registers the
//! frames with the unwinder. The section headers still name them, if the file has any.

use super::{HEADER_LEN, half, half_word, word};
use core::ops::Range;

const SECTION_LEN: usize = 64;
/// A program has some dozen.
const SECTIONS_MAX: u16 = 1024;
const NAME: &[u8] = b".eh_frame\0";
const SHT_PROGBITS: u32 = 1;
const SHT_X86_64_UNWIND: u32 = 0x7000_0001;
const SHF_WRITE: u64 = 1;
const SHF_ALLOC: u64 = 2;

/// The addresses of the section `.eh_frame` before the bias, if the file has section headers and such a section. `read` gives
/// bytes of the file from an offset on: as many as there are.
#[must_use]
pub fn frames(read: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> Option<Range<u64>> {
    let mut header = [0; HEADER_LEN];
    whole(read, 0, &mut header)?;
    let (start, count, names) = (word(&header, 40), half(&header, 60), half(&header, 62));
    if start == 0 || usize::from(half(&header, 58)) != SECTION_LEN || count > SECTIONS_MAX {
        return None;
    }
    let names = word(&section(read, start, names)?, 24);
    for index in 0..count {
        let section = section(read, start, index)?;
        let (kind, flags) = (half_word(&section, 4), word(&section, 8));
        if ![SHT_PROGBITS, SHT_X86_64_UNWIND].contains(&kind) || flags & (SHF_WRITE | SHF_ALLOC) != SHF_ALLOC {
            continue;
        }
        let mut name = [0; NAME.len()];
        whole(read, names.checked_add(half_word(&section, 0).into())?, &mut name)?;
        if name == NAME {
            let (address, len) = (word(&section, 16), word(&section, 32));
            return Some(address..address.checked_add(len)?);
        }
    }
    None
}

fn section(read: &mut dyn FnMut(u64, &mut [u8]) -> usize, start: u64, index: u16) -> Option<[u8; SECTION_LEN]> {
    let mut bytes = [0; SECTION_LEN];
    whole(read, start.checked_add(u64::from(index) * SECTION_LEN as u64)?, &mut bytes)?;
    Some(bytes)
}

fn whole(read: &mut dyn FnMut(u64, &mut [u8]) -> usize, at: u64, to: &mut [u8]) -> Option<()> {
    (read(at, to) == to.len()).then_some(())
}
