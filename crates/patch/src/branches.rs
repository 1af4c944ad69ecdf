//! Finds branches into the middle of bytes that a patch would replace.
//!
//! Within its function the planner sees every branch, because it decodes the function. But compilers also move cold
//! parts of a function far away, and assembly may jump anywhere. To find such branches without decoding
//! everything, treat *every byte* as if it began a branch, keep the few that would land near a system call, and
//! decode the function around one only if it would spoil a patch.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::ops::Range;

use crate::code::Code;
use crate::decode::{Flow, decode};
use crate::lanes;
use wide::u8x16;

/// A branch with a 32-bit displacement, if its bytes are one.
#[derive(Clone, Copy)]
struct Suspect {
    /// Offset of its opcode.
    from: u32,
    /// Offset that it lands on.
    to: u32,
}

/// All suspected branches that land near system calls.
pub(crate) struct Branches {
    /// In the order of `to`.
    suspects: Vec<Suspect>,
    /// Offsets of exported symbols, in order.
    entries: Vec<u32>,
}

/// Bytes on each side of a `syscall` that a patch may reach.
pub(crate) const REACH: usize = 40;
/// How many bytes one bit of the neighbourhood map covers.
const GRAIN: usize = 32;

impl Branches {
    /// Looks through all of `code` for branches that land near `syscalls` (offsets, in
    /// order).
    pub fn find(code: &Code<'_>, syscalls: &[u32]) -> Result<Self, TryReserveError> {
        let near = neighbourhood(code.bytes.len(), syscalls)?;
        let is_near = |to: usize| near[to / (GRAIN * 64)] >> (to / GRAIN % 64) & 1 != 0;
        let mut suspects = Vec::new();
        for start in (0..code.bytes.len()).step_by(BLOCK) {
            let mut opcodes = opcodes(&code.bytes[start..]);
            while opcodes != 0 {
                let from = start + opcodes.trailing_zeros() as usize;
                opcodes &= opcodes - 1;
                let end = from + if code.bytes[from] == 0x0f { 6 } else { 5 };
                let Some(displacement) = code.bytes.get(end - 4..end).and_then(|bytes| bytes.first_chunk()) else {
                    continue;
                };
                let to = end.wrapping_add_signed(i32::from_le_bytes(*displacement) as isize);
                if to < code.bytes.len() && is_near(to) {
                    suspects.try_reserve(1)?;
                    suspects.push(Suspect { from: from as u32, to: to as u32 });
                }
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
        let mut long = long.map(|suspect| suspect.from as usize).filter(|from| !function.contains(from));
        long.any(|from| is_branch_into(code, from, &inside))
            || short(code.bytes, function, inside.clone()).any(|from| is_branch_into(code, from, &inside))
    }
}

/// How many bytes are compared at a time.
const BLOCK: usize = 64;

/// Which of the first 64 bytes may be the opcode of a branch with a 32-bit displacement: `call`, `jmp`, or `0f` and a
/// condition. Code is so short that the highest byte of the displacement only repeats the sign.
///
/// No branch here depends on the result: half of all such blocks contain one, and the processor would often mispredict.
#[inline(always)]
fn opcodes(bytes: &[u8]) -> u64 {
    const BEHIND: usize = 5;
    let mut window = [0; BLOCK + BEHIND];
    let bytes = match bytes.get(..BLOCK + BEHIND) {
        Some(bytes) => bytes,
        None => {
            window[..bytes.len()].copy_from_slice(bytes);
            &window
        }
    };
    let is_sign = |bytes| lanes::are(bytes, 0) | lanes::are(bytes, 0xff);
    (0..BLOCK).step_by(lanes::COUNT).fold(0, |mask, at| {
        let [first, second, fifth, sixth] = [0, 1, 4, 5].map(|behind| lanes::load(bytes, at + behind));
        let short = lanes::are(first & u8x16::splat(0xfe), 0xe8) & is_sign(fifth);
        let long = lanes::are(first, 0x0f) & lanes::are(second & u8x16::splat(0xf0), 0x80) & is_sign(sixth);
        mask | lanes::bits(short | long) << at
    })
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

/// Offsets of bytes outside `function` that, taken for an opcode, branch into `inside` by
/// a displacement of one byte.
fn short<'a>(bytes: &'a [u8], function: &Range<usize>, inside: Range<usize>) -> impl Iterator<Item = usize> + use<'a> {
    let first = inside.start.saturating_sub(2 + 127);
    let last = (inside.end + 127).min(bytes.len());
    let parts = [first..function.start.max(first), function.end.min(last)..last];
    parts.into_iter().flat_map(move |part| {
        let inside = inside.clone();
        // One more byte: the displacement of the last opcode.
        let pairs = bytes[part.start..(part.end + 1).min(bytes.len())].windows(2).enumerate();
        pairs.filter_map(move |(at, pair)| {
            let to = (part.start + at + 2).wrapping_add_signed(pair[1] as i8 as isize);
            let hits = inside.contains(&to) && matches!(pair[0], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb);
            hits.then_some(part.start + at)
        })
    })
}

/// Whether the byte at `from` really belongs to a branch into `inside`. True if it is unknown what the byte is.
fn is_branch_into(code: &Code<'_>, from: usize, inside: &Range<usize>) -> bool {
    let address = code.address + from as u64;
    let Some((function, _)) = code.functions.last_from(address) else { return true };
    if !function.contains(&address) {
        return true;
    }
    let Some(mut at) = code.offset(function.start) else { return true };
    while let Some(i) = code.bytes.get(at..).and_then(decode) {
        let end = at + i.len();
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
