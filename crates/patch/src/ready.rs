//! A library that is patched already: a file that every process maps in place of the library's code.
//!
//! Patching in memory gives each process its own copies of a hundred pages, and costs more than everything else at the
//! start of a small program. Here jumps and stubs depend on nothing that differs between processes: the stubs lie at a
//! fixed distance from the library, and reach the kernel through two words that the process writes.
//!
//! | part of the file, each from a new page on | content |
//! |---|---|
//! | the library's file | all of it, so that tools find symbols; its code is patched |
//! | stubs | behind them, at once, the records of [`Places`] |
//! | the last [`TRAILER_LEN`] bytes | [`Ready`]: numbers of 8 bytes, little-endian, behind `entresol ready 1` |
//!
//! In memory a page with the two words lies [`GAP`] and the length of the stubs below the library, and behind it the stubs.

use alloc::collections::TryReserveError;
use alloc::string::String;
use alloc::vec::Vec;

use crate::code::Trust;
use crate::elf::{Object, ProgramHeader};
use crate::places::RECORD_LEN;
use crate::plan::plan;
use crate::recorded::push_hex;
use crate::stub::Slots;
use crate::stubs::Stubs;

const MAGIC: &[u8; 16] = b"entresol ready 1";
const PAGE: u64 = 4096;
/// Between the library and the stubs: a jump that goes wrong does not lead from one to the other.
const GAP: u64 = 64 << 10;
/// Bytes at the end of the file.
pub const TRAILER_LEN: usize = 128;
const FIELDS: usize = 7;
/// Longer build ids are cut off; they have 20 bytes.
const BUILD_ID_MAX: usize = TRAILER_LEN - 16 - 8 * FIELDS;
/// Where the library lies while stubs are made: anywhere with room below.
const BIAS: u64 = 1 << 40;

/// The number of the library that the stubs pass on: behind the vDSO and the dynamic linker.
pub const NUMBER: u32 = 3;

/// The layout. Lengths and offsets in the file are multiples of the page's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The pages of code: offset in the file, address before the bias, length.
    pub text: Part,
    /// The pages of stubs and records, behind the page with the two words.
    pub stubs: Part,
    /// Where in them the records begin, and how many bytes they are.
    pub records: (u64, u64),
}

/// A part of the file that is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Offset in the file.
    pub offset: u64,
    /// Address before the bias, modulo 2^64.
    pub address: u64,
    /// Length.
    pub len: u64,
}

/// The suffix that turns the name of an image into that of a library that is ready for it.
pub fn ready_suffix(build_id: &[u8], name: &[u8]) -> String {
    let mut suffix = String::from(".");
    push_hex(&mut suffix, build_id);
    suffix.push('.');
    suffix.push_str(&String::from_utf8_lossy(name));
    suffix
}

/// Whether a library of this name is kept ready: the one with nearly all system calls.
pub fn is_kept_ready(file: &[u8]) -> bool {
    file.starts_with(b"libc.so.") || file.starts_with(b"libc-2.")
}

/// Makes the file out of the library's; `None` for a library without a build id or with code in several pieces.
///
/// # Errors
/// No memory for it.
pub fn make_ready(file: &[u8]) -> Result<Option<Vec<u8>>, TryReserveError> {
    let Ok(object) = Object::of_file(file, BIAS) else { return Ok(None) };
    let executable = |h: &ProgramHeader| h.kind == ProgramHeader::LOAD && h.allows(ProgramHeader::EXECUTE);
    let mut headers = object.headers().filter(executable);
    let (Some(header), None) = (headers.next(), headers.next()) else { return Ok(None) };
    let (Some(build_id), Some(code)) = (object.build_id(), object.code().next()) else { return Ok(None) };
    let inside = header.offset % PAGE;
    if header.address % PAGE != inside {
        return Ok(None);
    }
    let mut sites = Vec::new();
    plan(&code, Trust::LibC, &mut sites)?;
    // As many pages as all stubs can need, before it is known how many they do.
    let most = (sites.len() * (crate::STUB_LEN_MAX + RECORD_LEN)) as u64;
    let len = most.next_multiple_of(PAGE).max(PAGE);
    let area = 0u64.wrapping_sub(GAP + len + PAGE);
    let slots = Slots { vectors_dead: BIAS.wrapping_add(area), vectors_live: BIAS.wrapping_add(area) + 8 };
    let stubs = Stubs::new(&code, &sites, (slots.vectors_dead, PAGE as usize), slots, NUMBER)?;

    let mut out = Vec::new();
    let own = (file.len() as u64).next_multiple_of(PAGE);
    out.try_reserve_exact((own + len + PAGE) as usize)?;
    out.extend_from_slice(file);
    for (address, replacement) in stubs.replacements() {
        let at = (header.offset + (address - code.address)) as usize;
        let bytes = replacement.as_ref();
        out[at..at + bytes.len()].copy_from_slice(bytes);
    }
    out.resize(own as usize, 0);
    out.extend_from_slice(&stubs.bytes);
    let records = stubs.bytes.len() as u64;
    out.extend_from_slice(stubs.places.records());
    out.resize((own + len + PAGE) as usize - TRAILER_LEN, 0);
    let text_len = (inside + code.bytes.len() as u64).next_multiple_of(PAGE);
    let ready = Ready {
        text: Part { offset: header.offset - inside, address: header.address - inside, len: text_len },
        stubs: Part { offset: own, address: area.wrapping_add(PAGE), len },
        records: (records, stubs.places.records().len() as u64),
    };
    ready.write(build_id, &mut out);
    Ok(Some(out))
}

impl Ready {
    fn write(&self, build_id: &[u8], out: &mut Vec<u8>) {
        let end = out.len() + TRAILER_LEN;
        out.extend_from_slice(MAGIC);
        let (text, stubs) = (&self.text, &self.stubs);
        let (at, len) = self.records;
        for field in [text.offset, text.address, text.len, stubs.offset, stubs.len, at, len] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&build_id[..build_id.len().min(BUILD_ID_MAX)]);
        out.resize(end, 0);
    }

    /// Reads the last bytes of a file of `file_len` bytes; `None` if it is not about the library with this build id, or
    /// says what cannot be.
    #[must_use]
    pub fn read(trailer: &[u8; TRAILER_LEN], build_id: &[u8], file_len: u64) -> Option<Ready> {
        let (magic, rest) = trailer.split_at(MAGIC.len());
        let (fields, id) = rest.split_at(8 * FIELDS);
        let mut numbers = [0u64; FIELDS];
        for (number, bytes) in numbers.iter_mut().zip(fields.as_chunks().0) {
            *number = u64::from_le_bytes(*bytes);
        }
        let [offset, address, len, stubs, stubs_len, at, records_len] = numbers;
        let text = Part { offset, address, len };
        let below = GAP.checked_add(stubs_len)?;
        let stubs = Part { offset: stubs, address: 0u64.wrapping_sub(below), len: stubs_len };
        let id_len = build_id.len().min(BUILD_ID_MAX);
        let is_whole = |part: &Part| {
            let aligned = [part.offset, part.address, part.len].iter().all(|number| number.is_multiple_of(PAGE));
            aligned && part.len > 0 && part.offset.checked_add(part.len).is_some_and(|end| end <= file_len)
        };
        let known = magic == MAGIC && !build_id.is_empty() && id[..id_len] == build_id[..id_len];
        let inside = at.checked_add(records_len).is_some_and(|end| end <= stubs_len);
        (known && is_whole(&text) && is_whole(&stubs) && inside).then_some(Ready {
            text,
            stubs,
            records: (at, records_len),
        })
    }
}
