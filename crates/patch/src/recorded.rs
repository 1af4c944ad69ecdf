//! Plans kept in a file: the result of [`plan`] for an object, for the next start of a program with the same object.
//!
//! Analysing a C library takes as long as the rest of a start-up, and always gives the same result. The file is named
//! and headed by the object's build id. Its reader checks every field, and every site against the code in memory, so
//! a damaged file costs time and nothing else.
//!
//! | bytes | content (little-endian) |
//! |---|---|
//! | 16 | `entresol plan 1\n` |
//! | 4, then as many | length of the build id; the build id |
//! | for each executable segment: 8, 8, 4, 4 | address before the bias; length; number of sites; length of their records |
//! | for each site: 4, 1, 1, 1, 1, 4 | offset into the segment; bytes before and after the `syscall`; form; flags; number |
//! | as many as the site has | its bytes |

use alloc::collections::TryReserveError;
use alloc::string::String;
use alloc::vec::Vec;

use crate::code::{Code, Trust};
use crate::elf::Object;
use crate::plan::{MOVED_LEN_MAX, plan};
use crate::site::{Form, JUMP_LEN, Site};

const MAGIC: &[u8; 16] = b"entresol plan 1\n";
const FORMS: [Form; 4] = [Form::Number, Form::Before, Form::After, Form::Around];
const VECTORS_DEAD: u8 = 1;
const NUMBER_KNOWN: u8 = 2;

/// The suffix that turns the name of an image into that of its plan for an object.
pub fn plan_suffix(build_id: &[u8]) -> String {
    let mut name = String::from(".");
    push_hex(&mut name, build_id);
    name.push_str(".plan");
    name
}

/// Appends two digits for each byte. Each process does so for a few names at its start, where `fmt` takes fifteen times
/// as many instructions.
pub(crate) fn push_hex(to: &mut String, bytes: &[u8]) {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    to.reserve(2 * bytes.len());
    to.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

/// Whether a file's name is that of a part of the C library: what is planned with [`Trust::LibC`].
pub fn is_c_library(file: &[u8]) -> bool {
    [&b"libc.so."[..], b"libc-2.", b"libpthread.so.", b"libpthread-2.", b"librt.so.", b"ld-linux-x86-64.so."]
        .iter()
        .any(|start| file.starts_with(start))
}

/// Plans all code of `object` and writes down what was found; `None` if it has no build id.
///
/// # Errors
/// No memory for it.
pub fn record(object: &Object<'_>, trust: Trust) -> Result<Option<Vec<u8>>, TryReserveError> {
    let Some(build_id) = object.build_id() else { return Ok(None) };
    let mut out = Vec::new();
    put(&mut out, MAGIC)?;
    put(&mut out, &(build_id.len() as u32).to_le_bytes())?;
    put(&mut out, build_id)?;
    for code in object.code() {
        let (mut sites, mut records) = (Vec::new(), Vec::new());
        plan(&code, trust, &mut sites)?;
        for site in &sites {
            put_site(&mut records, &code, site)?;
        }
        put(&mut out, &code.address.wrapping_sub(object.bias()).to_le_bytes())?;
        put(&mut out, &(code.bytes.len() as u64).to_le_bytes())?;
        put(&mut out, &(sites.len() as u32).to_le_bytes())?;
        put(&mut out, &(records.len() as u32).to_le_bytes())?;
        put(&mut out, &records)?;
    }
    Ok(Some(out))
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TryReserveError> {
    out.try_reserve(bytes.len())?;
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_site(out: &mut Vec<u8>, code: &Code<'_>, site: &Site) -> Result<(), TryReserveError> {
    let offset = (site.address - code.address) as usize;
    let form = FORMS.iter().position(|&form| form == site.form).unwrap_or_default() as u8;
    let dead = if site.vectors_dead { VECTORS_DEAD } else { 0 };
    let known = if site.number.is_some() { NUMBER_KNOWN } else { 0 };
    put(out, &(offset as u32).to_le_bytes())?;
    put(out, &[site.before, site.after, form, dead | known])?;
    put(out, &site.number.unwrap_or(0).to_le_bytes())?;
    put(out, &code.bytes[offset..offset + site.len()])
}

/// Appends to `out` the sites of `code`, a segment of the object with this build id and bias, as `file` has them.
/// A site whose bytes have changed, by a debugger for instance, is left out. `None` if the file is not about this
/// code, or damaged: then `out` is as it was.
///
/// # Errors
/// No memory for the sites.
pub fn recall(
    file: &[u8],
    build_id: &[u8],
    bias: u64,
    code: &Code<'_>,
    out: &mut Vec<Site>,
) -> Result<Option<()>, TryReserveError> {
    let Some((count, records)) = segment(file, build_id, code.address.wrapping_sub(bias), code.bytes.len() as u64)
    else {
        return Ok(None);
    };
    let before = out.len();
    // A record is longer than a byte: a forged count asks for no more memory than the file has.
    out.try_reserve((count as usize).min(records.len()))?;
    let whole = sites(records, count, code, out);
    if whole.is_none() {
        out.truncate(before);
    }
    Ok(whole)
}

/// The number of sites of a segment and their records.
fn segment<'a>(file: &'a [u8], build_id: &[u8], address: u64, len: u64) -> Option<(u32, &'a [u8])> {
    let mut rest = Reader(file);
    if rest.take(MAGIC.len())? != MAGIC {
        return None;
    }
    let id_len = rest.u32()? as usize;
    if rest.take(id_len)? != build_id {
        return None;
    }
    loop {
        let (this, this_len, count, records) = (rest.u64()?, rest.u64()?, rest.u32()?, rest.u32()?);
        let records = rest.take(records as usize)?;
        if (this, this_len) == (address, len) {
            return Some((count, records));
        }
    }
}

fn sites(records: &[u8], count: u32, code: &Code<'_>, out: &mut Vec<Site>) -> Option<()> {
    let mut rest = Reader(records);
    let mut free_from = 0;
    for _ in 0..count {
        let offset = rest.u32()? as usize;
        let &[before, after, form, flags] = rest.take(4)? else { return None };
        let number = rest.u32()?;
        let site = Site {
            address: code.address + offset as u64,
            before,
            after,
            form: *FORMS.get(form as usize)?,
            vectors_dead: flags & VECTORS_DEAD != 0,
            number: (flags & NUMBER_KNOWN != 0).then_some(number),
        };
        let fits = site.len() >= JUMP_LEN && usize::from(before.max(after)) <= MOVED_LEN_MAX && offset >= free_from;
        if !fits {
            return None;
        }
        free_from = offset + site.len();
        let planned = rest.take(site.len())?;
        if code.bytes.get(offset..free_from)? == planned {
            out.push(site);
        }
    }
    rest.0.is_empty().then_some(())
}

/// The bytes not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}
