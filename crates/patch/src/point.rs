//! Scheduling points in code that makes no system call: at the entry of a function, and at an access to memory.
//!
//! ```text
//!   function:                  stub:
//!     jmp stub  ─────────────►   mov  %rcx, %r10
//!     int3 …                     mov  $number, %eax
//!   rest:                        mov  $library, %r11d
//!                                lea  back(%rip), %rcx
//!                                jmp  *slot(%rip)  ──► entry, as a system call
//!                              back:
//!                                mov  %r10, %rcx
//!                                the instructions that stood there
//!     ◄────────────────────────  jmp  rest
//!
//!   access:                    copy:
//!     int3  ── SIGTRAP ──────►   the instruction
//!     ◄────────────────────────  jmp  behind it
//! ```
//!
//! At the entry of a function no argument is in rax, r10 or r11, which the call overwrites. One byte is all that an
//! access's `int3` replaces, so a branch may lead to it.

use crate::code::Code;
use crate::decode::{Flow, Instruction, LOCK, Map, OPERAND16, decode};
use crate::site::JUMP_LEN;
use crate::stub::{EmitError, Slots, Writer};
use alloc::vec::Vec;
use core::ops::Range;

/// No stub of an entry is longer, and no copy of an access.
pub const POINT_LEN_MAX: usize = 96;

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// The bytes of a function that a jump to a stub replaces: whole instructions at its beginning that can move. `None` if they
/// cannot, or if the function jumps between them.
#[must_use]
pub fn entry(code: &Code<'_>, function: u64) -> Option<Range<u64>> {
    let (body, _) = code.functions.last_from(function)?;
    let bytes = code.from(function)?;
    let start = if bytes.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let mut end = start;
    while end < start + JUMP_LEN {
        let i = decode(&bytes[end..])?;
        if !i.is_movable(&bytes[end..end + i.len()]) {
            return None;
        }
        end += i.len();
    }
    let replaced = function + start as u64..function + end as u64;
    let inside = body.start <= function && replaced.end <= body.end;
    (inside && !is_entered(code, &body, replaced.start + 1..replaced.end)?).then_some(replaced)
}

/// Whether a branch of the function goes there; `None` if it cannot be decoded.
fn is_entered(code: &Code<'_>, body: &Range<u64>, there: Range<u64>) -> Option<bool> {
    let bytes = code.from(body.start)?.get(..(body.end - body.start) as usize)?;
    let mut at = 0;
    while at < bytes.len() {
        let i = decode(&bytes[at..])?;
        let this = &bytes[at..at + i.len()];
        at += i.len();
        if let Flow::Branch(by) | Flow::Jump(by) = i.flow(this)
            && there.contains(&(body.start + at as u64).wrapping_add_signed(by.into()))
        {
            return Some(true);
        }
    }
    Some(false)
}

/// Writes the stub of a function whose first instructions, at `replaced`, were replaced by a jump: it makes the system
/// call `number` with the function's arguments, and continues. Returns the stub's length.
///
/// # Errors
/// See [`EmitError`].
pub fn emit_entry(
    code: &Code<'_>,
    replaced: &Range<u64>,
    stub: u64,
    slots: Slots,
    (number, library): (u32, u32),
    out: &mut [u8],
) -> Result<usize, EmitError> {
    let moved = bytes_of(code, replaced)?;
    let mut writer = Writer { out, len: 0, address: stub };
    writer.put(&[0x49, 0x89, 0xca, 0xb8])?;
    writer.put(&number.to_le_bytes())?;
    writer.put(&[0x41, 0xbb])?;
    writer.put(&library.to_le_bytes())?;
    // Behind the jump, which is six bytes long.
    writer.put(&[0x48, 0x8d, 0x0d, 6, 0, 0, 0, 0xff, 0x25])?;
    writer.relative(slots.vectors_live)?;
    writer.put(&[0x4c, 0x89, 0xd1])?;
    writer.moved(moved, replaced.start)?;
    writer.put(&[0xe9])?;
    writer.relative(replaced.end)?;
    Ok(writer.len)
}

/// Writes the jump to a stub, and `int3` behind it up to the end of what is replaced. Its length.
///
/// # Errors
/// See [`EmitError`].
pub fn emit_entry_jump(replaced: &Range<u64>, stub: u64, out: &mut [u8]) -> Result<usize, EmitError> {
    let len = (replaced.end - replaced.start) as usize;
    let mut writer = Writer { out: out.get_mut(..len).ok_or(EmitError::NoRoom)?, len: 0, address: replaced.start };
    writer.put(&[0xe9])?;
    writer.relative(stub)?;
    while writer.len < len {
        writer.put(&[0xcc])?;
    }
    Ok(len)
}

/// The first instruction of a function whose entry has no room for a jump, if it can be copied ([`emit_access`]).
#[must_use]
pub fn first(code: &Code<'_>, function: u64) -> Option<Range<u64>> {
    let bytes = code.from(function)?;
    let start = if bytes.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let i = decode(&bytes[start..])?;
    let this = &bytes[start..start + i.len()];
    let mut plain = i;
    plain.prefixes &= !LOCK;
    let start = function + start as u64;
    plain.is_movable(this).then_some(start..start + this.len() as u64)
}

/// Writes a copy of the instruction at `access`, with a jump to what follows it. Its length.
///
/// # Errors
/// See [`EmitError`].
pub fn emit_access(code: &Code<'_>, access: &Range<u64>, copy: u64, out: &mut [u8]) -> Result<usize, EmitError> {
    let moved = bytes_of(code, access)?;
    let mut writer = Writer { out, len: 0, address: copy };
    writer.moved(moved, access.start)?;
    writer.put(&[0xe9])?;
    writer.relative(access.end)?;
    Ok(writer.len)
}

pub(crate) fn bytes_of<'a>(code: &Code<'a>, range: &Range<u64>) -> Result<&'a [u8], EmitError> {
    let from = code.from(range.start).ok_or(EmitError::Changed)?;
    from.get(..(range.end - range.start) as usize).ok_or(EmitError::Changed)
}

/// The instructions of the function around `address` that access memory other than the stack or thread-local storage,
/// as far as they can be copied. None if the function cannot be decoded.
#[must_use]
pub fn accesses(code: &Code<'_>, address: u64) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let Some((body, _)) = code.functions.last_from(address) else { return found };
    let Some(bytes) = code.from(body.start).and_then(|from| from.get(..(body.end.checked_sub(body.start)?) as usize))
    else {
        return found;
    };
    let (mut at, framed) = (0, has_frame_pointer(bytes));
    while at < bytes.len() {
        let Some(i) = decode(&bytes[at..]) else { return Vec::new() };
        let this = &bytes[at..at + i.len()];
        if accesses_memory(&i, this, framed) {
            let start = body.start + at as u64;
            found.push(start..start + this.len() as u64);
        }
        at += this.len();
    }
    found
}

/// Whether the function keeps its frame in rbp (otherwise a general register): `mov %rsp, %rbp` near its beginning.
fn has_frame_pointer(function: &[u8]) -> bool {
    function[..function.len().min(16)].windows(3).any(|bytes| bytes == [0x48, 0x89, 0xe5])
}

fn accesses_memory(i: &Instruction, bytes: &[u8], framed: bool) -> bool {
    has_operand(i)
        && i.rm().is_none()
        && i.prefixes & !(LOCK | OPERAND16) == 0
        && i.flow(bytes) == Flow::Next
        && !is_own(i, bytes, framed)
}

/// Whether the instruction is one with a memory operand that it reads or writes.
fn has_operand(i: &Instruction) -> bool {
    match (i.map, i.opcode) {
        (Map::Primary, 0x00..=0x3b) => i.opcode & 7 < 4,
        (Map::Primary, 0x63 | 0x69 | 0x6b | 0x80..=0x8b | 0xc0 | 0xc1 | 0xc6 | 0xc7 | 0xd0..=0xd3 | 0xf6 | 0xf7) => {
            true
        }
        (Map::Primary, 0xfe | 0xff) => i.group() < 2,
        (Map::Secondary, 0x40..=0x4f | 0xaf | 0xb0 | 0xb1 | 0xb6 | 0xb7 | 0xbe | 0xbf | 0xc0 | 0xc1) => true,
        _ => false,
    }
}

/// Whether the operand lies on the stack, as far as its base register shows, or is relative to a segment register.
fn is_own(i: &Instruction, bytes: &[u8], framed: bool) -> bool {
    const SEGMENTS: [u8; 6] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65];
    const OTHERS: [u8; 5] = [0x66, 0x67, 0xf0, 0xf2, 0xf3];
    let prefixes = bytes.iter().take_while(|byte| SEGMENTS.contains(byte) || OTHERS.contains(byte)).count();
    if bytes[..prefixes].iter().any(|byte| SEGMENTS.contains(byte)) {
        return true;
    }
    let rex = usize::from(i.rex != 0);
    let opcode = if i.map == Map::Primary { 1 } else { 2 };
    let (mode, rm) = (i.modrm >> 6, i.modrm & 7);
    let base = if rm == 4 { bytes.get(prefixes + rex + opcode + 1).map_or(4, |sib| sib & 7) } else { rm };
    // Without a displacement, register 5 means rip or no register.
    i.rex & 1 == 0 && (rm == 4 && base == 4 || framed && base == 5 && mode != 0)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "code with one function")]
mod tests {
    use super::*;
    use crate::code::Function;

    const TEXT: u64 = 0x40_0000;

    fn code<'a>(bytes: &'a [u8], functions: &'a [Function; 1]) -> Code<'a> {
        Code { bytes, address: TEXT, functions, data: &[] }
    }

    #[test]
    fn accesses_to_what_is_shared_are_found() {
        let bytes = [
            0x48, 0x89, 0xe5, // mov %rsp, %rbp
            0x8b, 0x05, 0x10, 0, 0, 0, // mov 16(%rip), %eax
            0x89, 0x45, 0xfc, // mov %eax, -4(%rbp)
            0x48, 0x89, 0x44, 0x24, 8, // mov %rax, 8(%rsp)
            0xf0, 0xff, 0x00, // lock incl (%rax)
            0x64, 0x8b, 0x04, 0x25, 0, 0, 0, 0, // mov %fs:0, %eax
            0x48, 0x8d, 0x05, 0, 0, 0, 0, // lea 0(%rip), %rax
            0x41, 0x89, 0x45, 0, // mov %eax, 0(%r13)
            0x89, 0xc3, // mov %eax, %ebx
            0xf0, 0x0f, 0xb1, 0x0f, // lock cmpxchg %ecx, (%rdi)
            0xc3,
        ];
        let functions = [TEXT..TEXT + bytes.len() as u64];
        let found = accesses(&code(&bytes, &functions), TEXT + 5);
        let lens: Vec<_> = found.iter().map(|range| (range.start - TEXT, range.end - range.start)).collect();
        assert_eq!(lens, [(3, 6), (17, 3), (35, 4), (41, 4)]);
        // Without a frame, rbp may point anywhere.
        let functions = [TEXT + 3..TEXT + bytes.len() as u64];
        assert_eq!(accesses(&code(&bytes, &functions), TEXT + 5).len(), 5);
    }

    #[test]
    fn a_copied_access_means_the_same_address() {
        let bytes = [0x8b, 0x05, 0x10, 0, 0, 0, 0xc3];
        let functions = [TEXT..TEXT + 7];
        let (mut out, copy) = ([0; POINT_LEN_MAX], TEXT + 0x1000);
        let len = emit_access(&code(&bytes, &functions), &(TEXT..TEXT + 6), copy, &mut out).unwrap();
        let target = TEXT + 6 + 0x10;
        let displacement = (target as i64 - (copy + 6) as i64) as i32;
        let back = ((TEXT + 6) as i64 - (copy + 11) as i64) as i32;
        let expected = [&[0x8b, 0x05][..], &displacement.to_le_bytes(), &[0xe9], &back.to_le_bytes()].concat();
        assert_eq!(out[..len], expected);
    }

    #[test]
    fn an_entry_moves_as_a_whole_or_not_at_all() {
        // push %rbp; mov %rsp, %rbp; sub $16, %rsp; ret
        let bytes = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3];
        let functions = [TEXT..TEXT + 9];
        assert_eq!(entry(&code(&bytes, &functions), TEXT), Some(TEXT..TEXT + 8));
        // The same with endbr64 in front.
        let marked = [&ENDBR64[..], &bytes].concat();
        let functions = [TEXT..TEXT + 13];
        assert_eq!(entry(&code(&marked, &functions), TEXT), Some(TEXT + 4..TEXT + 12));
        // A loop back to the second instruction; and a branch among the first ones.
        let looped = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xeb, 0xf7];
        assert_eq!(entry(&code(&looped, &[TEXT..TEXT + 10]), TEXT), None);
        let branch = [0x55, 0x74, 0x02, 0x90, 0x90, 0x90, 0xc3];
        assert_eq!(entry(&code(&branch, &[TEXT..TEXT + 7]), TEXT), None);
    }

    #[test]
    fn a_stub_goes_back_behind_what_it_has_moved() {
        let bytes = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3];
        let functions = [TEXT..TEXT + 9];
        let (code, stub) = (code(&bytes, &functions), TEXT + 0x2000);
        let slots = Slots { vectors_dead: TEXT + 0x3000, vectors_live: TEXT + 0x3008 };
        let mut out = [0; POINT_LEN_MAX];
        let len = emit_entry(&code, &(TEXT..TEXT + 8), stub, slots, (7, 3), &mut out).unwrap();
        let out = &out[..len];
        assert_eq!(out[len - 13..len - 5], bytes[..8]);
        let back = i32::from_le_bytes(out[len - 4..].try_into().unwrap());
        assert_eq!((stub + len as u64).wrapping_add_signed(back.into()), TEXT + 8);
        let mut jump = [0; 16];
        assert_eq!(emit_entry_jump(&(TEXT..TEXT + 8), stub, &mut jump), Ok(8));
        assert_eq!(jump[..8], [0xe9, 0xfb, 0x1f, 0, 0, 0xcc, 0xcc, 0xcc]);
    }
}
