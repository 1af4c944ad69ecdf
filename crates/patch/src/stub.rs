//! The stub that a patched site jumps to, and the jump itself.
//!
//! ```text
//!   site:                      stub:
//!     jmp stub  ─────────────►   the instructions that stood before the syscall
//!     int3 …                     mov   $library, %r11d
//!   end:                         lea   back(%rip), %rcx
//!                                jmp   *slot(%rip)  ──► entry
//!                              back:            (only if instructions after it moved)
//!                                those instructions
//!     ◄────────────────────────  jmp   end
//! ```
//!
//! Only rcx and r11 are touched, which the `syscall` instruction would have overwritten,
//! and nothing is pushed: below rsp lies the program's red zone. Flags are kept.

use crate::code::Code;
use crate::decode::{self, Flow, Instruction, Map};
use crate::site::{JUMP_LEN, SYSCALL_LEN, Site};

/// No stub is longer.
pub const STUB_LEN_MAX: usize = 96;

/// Addresses of two 8-byte words that hold the addresses of the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    /// Entry that does not save the vector registers.
    pub vectors_dead: u64,
    /// Entry that keeps them.
    pub vectors_live: u64,
}

/// A stub that has been written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stub {
    /// The stub's length in bytes.
    pub len: usize,
    /// Offset of the part that enters the kernel, behind the instructions that stood before the `syscall`.
    pub call: usize,
    /// Offset of the instructions that stood after it; the length if there are none.
    pub back: usize,
    /// The value of rcx at the entry: where the program continues after the system call.
    pub return_to: u64,
}

/// Why a stub or a jump could not be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmitError {
    /// Something is more than 2 GiB away from the stub.
    TooFar,
    /// The output is too short.
    NoRoom,
    /// The bytes at the site are not those that were planned.
    Changed,
}

/// Writes the stub of `site`, which will run at `stub_address`, to the start of `out`.
///
/// At the entry rax holds the number, rdi, rsi, rdx, r10, r8, r9 the arguments, rcx the
/// address to go on at, r11 the number `library`; all else is as it was at the `syscall`.
pub fn emit_stub(
    site: &Site,
    code: &Code<'_>,
    stub_address: u64,
    slots: Slots,
    library: u32,
    out: &mut [u8],
) -> Result<Stub, EmitError> {
    let offset = code.offset(site.address).ok_or(EmitError::Changed)?;
    let bytes = code.bytes.get(offset..offset + site.len()).ok_or(EmitError::Changed)?;
    let (before, rest) = bytes.split_at(site.before as usize);
    let (syscall, after) = rest.split_at(SYSCALL_LEN);
    if syscall != [0x0f, 0x05] {
        return Err(EmitError::Changed);
    }

    let mut writer = Writer { out, len: 0, address: stub_address };
    writer.moved(before, site.address)?;
    let call = writer.len;
    writer.put(&[0x41, 0xbb])?;
    writer.put(&library.to_le_bytes())?;
    // lea disp32(%rip), %rcx, filled in when the way back is known.
    writer.put(&[0x48, 0x8d, 0x0d])?;
    let lea_displacement = writer.len;
    writer.put(&[0; 4])?;
    writer.put(&[0xff, 0x25])?;
    writer.relative(if site.vectors_dead { slots.vectors_dead } else { slots.vectors_live })?;

    let mut return_to = site.end();
    let back = writer.len;
    if !after.is_empty() {
        return_to = writer.here();
        let falls_through = writer.moved(after, site.syscall_at() + SYSCALL_LEN as u64)?;
        if falls_through {
            writer.put(&[0xe9])?;
            writer.relative(site.end())?;
        }
    }
    let len = writer.len;
    let lea_end = stub_address + lea_displacement as u64 + 4;
    let displacement = displacement(lea_end, return_to)?;
    out[lea_displacement..lea_displacement + 4].copy_from_slice(&displacement.to_le_bytes());
    Ok(Stub { len, call, back, return_to })
}

/// Writes what replaces the site's bytes, to the start of `out`: a jump to the stub, then
/// int3, so that code that still jumps into the middle stops at once.
pub fn emit_jump(site: &Site, stub_address: u64, out: &mut [u8]) -> Result<(), EmitError> {
    let out = out.get_mut(..site.len()).ok_or(EmitError::NoRoom)?;
    let displacement = displacement(site.address + JUMP_LEN as u64, stub_address)?;
    out.fill(0xcc);
    out[0] = 0xe9;
    out[1..JUMP_LEN].copy_from_slice(&displacement.to_le_bytes());
    Ok(())
}

fn displacement(from: u64, to: u64) -> Result<i32, EmitError> {
    i32::try_from(to.wrapping_sub(from) as i64).map_err(|_| EmitError::TooFar)
}

pub(crate) struct Writer<'a> {
    pub out: &'a mut [u8],
    pub len: usize,
    pub address: u64,
}

impl Writer<'_> {
    fn here(&self) -> u64 {
        self.address + self.len as u64
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), EmitError> {
        let to = self.out.get_mut(self.len..self.len + bytes.len()).ok_or(EmitError::NoRoom)?;
        to.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// A displacement to `target` that counts from its own end.
    pub(crate) fn relative(&mut self, target: u64) -> Result<(), EmitError> {
        let displacement = displacement(self.here() + 4, target)?;
        self.put(&displacement.to_le_bytes())
    }

    /// Copies whole instructions that stood at `address`; says whether control reaches
    /// their end.
    pub(crate) fn moved(&mut self, mut bytes: &[u8], mut address: u64) -> Result<bool, EmitError> {
        let mut falls_through = true;
        while !bytes.is_empty() {
            let i = decode::decode(bytes).ok_or(EmitError::Changed)?;
            let (this, rest) = bytes.split_at(i.len());
            address += i.len() as u64;
            falls_through = self.moved_one(&i, this, address)?;
            bytes = rest;
        }
        Ok(falls_through)
    }

    fn moved_one(&mut self, i: &Instruction, bytes: &[u8], end: u64) -> Result<bool, EmitError> {
        match i.flow(bytes) {
            Flow::Next if i.rip_displacement != 0 => {
                let (at, new_end) = (i.rip_displacement as usize, self.here() + i.len() as u64);
                let old = i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
                let new = displacement(new_end, end.wrapping_add_signed(old as i64))?;
                self.put(&bytes[..at])?;
                self.put(&new.to_le_bytes())?;
                self.put(&bytes[at + 4..])?;
            }
            Flow::Next => self.put(bytes)?,
            Flow::Return => {
                self.put(bytes)?;
                return Ok(false);
            }
            Flow::Jump(by) => {
                self.put(&[0xe9])?;
                self.relative(end.wrapping_add_signed(by as i64))?;
                return Ok(false);
            }
            Flow::Branch(by) if is_conditional_jump(i) => {
                self.put(&[0x0f, 0x80 | i.opcode & 0xf])?;
                self.relative(end.wrapping_add_signed(by as i64))?;
            }
            _ => return Err(EmitError::Changed),
        }
        Ok(true)
    }
}

/// Whether the branch has a long form; `loop` and `jrcxz` have none.
pub(crate) fn is_conditional_jump(i: &Instruction) -> bool {
    i.map == Map::Secondary || i.opcode & 0xf0 == 0x70
}
