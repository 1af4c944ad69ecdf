//! Who jumps into the middle of the bytes that a patch would replace?
//!
//! Within its function the planner sees every branch, because it decodes the function.
//! Compilers also move cold parts of a function far away, and assembly jumps where it
//! likes. To find such branches without decoding everything, look at *every byte* as if it
//! began a branch, keep the few that would land beside a system call, and only then, if
//! one of them would spoil a patch, decode the function around it.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::ops::Range;

use crate::code::Code;
use crate::decode::{Flow, decode};

/// A branch with a 32-bit displacement, if its bytes are one.
#[derive(Clone, Copy)]
struct Suspect {
    /// Offset of its opcode.
    from: u32,
    /// Offset that it lands on.
    to: u32,
}

/// All suspects that land near system calls.
pub(crate) struct Branches {
    /// In the order of `to`.
    suspects: Vec<Suspect>,
    /// Offsets of exported symbols, in order.
    entries: Vec<u32>,
}

/// Bytes on each side of a `syscall` that a patch may reach.
pub(crate) const REACH: usize = 40;
/// Bytes a bit of the neighbourhood map stands for.
const GRAIN: usize = 32;

impl Branches {
    /// Looks through all of `code` for branches that land near `syscalls` (offsets, in
    /// order).
    pub fn find(code: &Code<'_>, syscalls: &[u32]) -> Result<Self, TryReserveError> {
        let near = neighbourhood(code.bytes.len(), syscalls)?;
        let is_near = |to: usize| near[to / (GRAIN * 64)] >> (to / GRAIN % 64) & 1 != 0;
        let mut suspects = Vec::new();
        let bytes = code.bytes;
        let mut note = |from: usize, displacement_at: usize| -> Result<(), TryReserveError> {
            let Some(displacement) = bytes.get(displacement_at..displacement_at + 4) else { return Ok(()) };
            let displacement = i32::from_le_bytes([displacement[0], displacement[1], displacement[2], displacement[3]]);
            let to = (displacement_at + 4).wrapping_add_signed(displacement as isize);
            if to < bytes.len() && is_near(to) {
                suspects.try_reserve(1)?;
                suspects.push(Suspect { from: from as u32, to: to as u32 });
            }
            Ok(())
        };
        for (from, pair) in bytes.windows(2).enumerate() {
            if pair[0] & 0xfe == 0xe8 {
                note(from, from + 1)?;
            } else if pair[0] == 0x0f && pair[1] & 0xf0 == 0x80 {
                note(from, from + 2)?;
            }
        }
        suspects.sort_unstable_by_key(|suspect| suspect.to);

        let mut entries = Vec::new();
        let mut memory = Ok(());
        code.functions.entries(&mut |entry| {
            let Some(offset) = code.offset(entry).filter(|&to| is_near(to)) else { return };
            match entries.try_reserve(1) {
                Ok(()) => entries.push(offset as u32),
                Err(error) => memory = Err(error),
            }
        });
        memory?;
        entries.sort_unstable();
        Ok(Self { suspects, entries })
    }

    /// Whether anything outside `function` may go to one of the bytes `inside`.
    pub fn reach_from_outside(&self, code: &Code<'_>, function: &Range<usize>, inside: Range<usize>) -> bool {
        let first = self.entries.partition_point(|&entry| (entry as usize) < inside.start);
        if self.entries.get(first).is_some_and(|&entry| inside.contains(&(entry as usize))) {
            return true;
        }
        let first = self.suspects.partition_point(|suspect| (suspect.to as usize) < inside.start);
        let long = self.suspects[first..].iter().take_while(|suspect| (suspect.to as usize) < inside.end);
        let long = long.map(|suspect| suspect.from as usize);
        let mut strangers = long.chain(short(code.bytes, inside.clone())).filter(|from| !function.contains(from));
        strangers.any(|from| is_branch_into(code, from, &inside))
    }
}

/// A bitmap of the grains that hold a system call or lie within [`REACH`] of one.
fn neighbourhood(len: usize, syscalls: &[u32]) -> Result<Vec<u64>, TryReserveError> {
    let words = len / (GRAIN * 64) + 1;
    let mut near = Vec::new();
    near.try_reserve_exact(words)?;
    near.resize(words, 0u64);
    for &syscall in syscalls {
        let first = (syscall as usize).saturating_sub(REACH) / GRAIN;
        let last = (syscall as usize + REACH).min(len) / GRAIN;
        for grain in first..=last {
            near[grain / 64] |= 1 << (grain % 64);
        }
    }
    Ok(near)
}

/// Offsets of bytes that, taken for an opcode, branch into `inside` by a displacement of
/// one byte.
fn short(bytes: &[u8], inside: Range<usize>) -> impl Iterator<Item = usize> + '_ {
    let from = inside.start.saturating_sub(2 + 127)..(inside.end + 127).min(bytes.len().saturating_sub(1));
    from.filter(move |&at| {
        matches!(bytes[at], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb)
            && inside.contains(&(at + 2).wrapping_add_signed(bytes[at + 1] as i8 as isize))
    })
}

/// Whether the byte at `from` really belongs to a branch into `inside`. Where nobody knows
/// what the byte is, it does.
fn is_branch_into(code: &Code<'_>, from: usize, inside: &Range<usize>) -> bool {
    let Some((function, next)) = code.functions.last_from(code.address + from as u64) else { return true };
    let Some(mut at) = code.offset(function.start) else { return true };
    if code.address + from as u64 >= function.end && next == u64::MAX {
        return true;
    }
    while let Some(i) = code.bytes.get(at..).and_then(decode) {
        let end = at + i.len as usize;
        if from < end {
            return match i.flow(&code.bytes[at..]) {
                Flow::Branch(by) | Flow::Jump(by) | Flow::Call(by) => {
                    inside.contains(&end.wrapping_add_signed(by as isize))
                }
                _ => false,
            };
        }
        at = end;
    }
    true
}
