//! Finds the system calls of a piece of code and decides how each can be replaced.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::ops::Range;

use crate::branches::{Branches, REACH};
use crate::code::{Code, Trust};
use crate::decode::{Flow, Instruction, Map, decode};
use crate::lanes;
use crate::liveness::vectors_dead;
use crate::site::{Form, JUMP_LEN, SYSCALL_LEN, Site};
use crate::stub::is_conditional_jump;

/// Instructions that move to the stub from before and from after a `syscall`, at most.
const BEFORE_MAX: usize = 4;
const AFTER_MAX: usize = 3;
/// Bytes that move from either side, at most.
pub(crate) const MOVED_LEN_MAX: usize = 24;
const _: () = assert!(MOVED_LEN_MAX + JUMP_LEN < REACH);

/// `mov $15, %rax` before the `syscall` of a signal restorer. By these bytes, debuggers and unwinders know a signal frame
/// whose restorer has no unwind information. A C library's has (`S` in the augmentation of its CIE), and is replaced like
/// any other call; where it has none, as in musl, there is no function around it. Elsewhere the bytes stay: Go's restorer
/// has unwind information, but none that calls it one.
pub(crate) const RESTORER: [u8; 7] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0];

/// The number of `rt_sigreturn(2)`.
const RT_SIGRETURN: u32 = RESTORER[3] as u32;

/// Counts of what was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Byte pairs `0f 05`.
    pub pairs: u32,
    /// The sites that are certainly `syscall` instructions.
    pub syscalls: u32,
    /// `syscall`s that can be replaced.
    pub sites: u32,
    /// Pairs outside any function, or in one that could not be decoded.
    pub unknown: u32,
    /// `syscall`s left alone because their neighbours cannot move.
    pub no_room: u32,
    /// Signal restorers that are left alone on purpose.
    pub restorers: u32,
}

/// Appends to `out`, in the order of addresses, every `syscall` of `code` that can be
/// replaced safely.
///
/// # Errors
/// No memory for a few kilobytes of notes or for the sites.
pub fn plan(code: &Code<'_>, trust: Trust, out: &mut Vec<Site>) -> Result<Census, TryReserveError> {
    let mut pairs = pairs(code.bytes)?;
    let mut census = Census { pairs: pairs.len() as u32, ..Census::default() };
    pairs.retain(|&pair| trust == Trust::LibC || !code.bytes[..pair as usize].ends_with(&RESTORER));
    census.restorers = census.pairs - pairs.len() as u32;
    let branches = Branches::find(code, &pairs)?;
    let mut body = Body::default();
    let mut rest = pairs.as_slice();
    while let Some(&first) = rest.first() {
        let decoded = body.read(code, first as usize)? && (trust == Trust::LibC || !body.jumps_anywhere);
        let inside = rest.partition_point(|&pair| (pair as usize) < body.range.end).max(1);
        let (these, others) = rest.split_at(inside);
        rest = others;
        if !decoded {
            census.unknown += these.len() as u32;
            continue;
        }
        let mut free_from = body.range.start;
        for &pair in these {
            let Some(index) = body.syscall(pair as usize) else { continue };
            census.syscalls += 1;
            let Some(window) = body.window(code, &branches, index, free_from) else {
                census.no_room += 1;
                continue;
            };
            free_from = window.bytes.end;
            census.sites += 1;
            out.try_reserve(1)?;
            out.push(body.site(code, trust, &branches, index, &window));
        }
    }
    Ok(census)
}

/// Offsets of all byte pairs `0f 05`.
fn pairs(bytes: &[u8]) -> Result<Vec<u32>, TryReserveError> {
    let mut found = Vec::new();
    let mut add = |at: usize| found.try_reserve(1).map(|()| found.push(at as u32));
    // Sixteen at a time, with a byte behind them; then the rest.
    let lanes = bytes.len().saturating_sub(1) / lanes::COUNT * lanes::COUNT;
    for start in (0..lanes).step_by(lanes::COUNT) {
        let first = lanes::are(lanes::load(bytes, start), 0x0f);
        let mut hits = lanes::bits(first & lanes::are(lanes::load(bytes, start + 1), 0x05));
        while hits != 0 {
            add(start + hits.trailing_zeros() as usize)?;
            hits &= hits - 1;
        }
    }
    for at in lanes..bytes.len().saturating_sub(1) {
        if bytes[at..].starts_with(&[0x0f, 0x05]) {
            add(at)?;
        }
    }
    Ok(found)
}

/// An instruction and its offset into the code.
#[derive(Clone, Copy)]
struct Placed {
    at: u32,
    i: Instruction,
}

impl Placed {
    fn bytes<'a>(&self, code: &Code<'a>) -> &'a [u8] {
        &code.bytes[self.at as usize..self.end()]
    }

    fn end(&self) -> usize {
        self.at as usize + self.i.len()
    }
}

/// The replaced bytes of a site, by instructions and by offsets.
struct Window {
    instructions: Range<usize>,
    bytes: Range<usize>,
}

/// The function that is being examined. Reused for the next one, for its memory.
#[derive(Default)]
struct Body {
    range: Range<usize>,
    instructions: Vec<Placed>,
    /// One bit for each byte: a branch of this function goes there.
    targets: Vec<u64>,
    /// A jump goes to an address that may be in no table of the kind that is known.
    jumps_anywhere: bool,
}

impl Body {
    /// Decodes the function around `offset`; false if that cannot be done to its end.
    fn read(&mut self, code: &Code<'_>, offset: usize) -> Result<bool, TryReserveError> {
        self.instructions.clear();
        self.targets.clear();
        self.jumps_anywhere = false;
        self.range = offset..offset + 1;
        let Some((function, next)) = code.functions.last_from(code.address + offset as u64) else { return Ok(false) };
        let (Some(start), Some(last)) = (code.offset(function.start), code.offset(function.end.wrapping_sub(1))) else {
            return Ok(false);
        };
        let end = last + 1;
        // clone() ends its unwind information before its syscall, because nothing above the child's frame can be
        // unwound. The function continues if its last instruction falls through.
        let (limit, gap) = if offset < end {
            (end, false)
        } else {
            let Some(limit) = code.offset(next) else { return Ok(false) };
            (limit, true)
        };
        self.range = start..limit;
        let words = (limit - start) / 64 + 1;
        self.targets.try_reserve(words)?;
        self.targets.resize(words, 0);

        let mut at = start;
        let mut has_indirect_jump = false;
        while at < limit {
            let Some(i) = decode(&code.bytes[at..limit]) else { return Ok(false) };
            let placed = Placed { at: at as u32, i };
            at = placed.end();
            let flow = i.flow(placed.bytes(code));
            match flow {
                Flow::Branch(by) | Flow::Jump(by) | Flow::Call(by) => self.mark(at.wrapping_add_signed(by as isize)),
                Flow::JumpIndirect => {
                    has_indirect_jump = true;
                    // By an entry of the procedure linkage table it leaves the function.
                    self.jumps_anywhere |= i.map != Map::Primary || i.rip_displacement == 0;
                }
                _ => {}
            }
            if gap && at >= end && placed.at < end as u32 && (at != end || flow != Flow::Next) {
                return Ok(false);
            }
            self.instructions.try_reserve(1)?;
            self.instructions.push(placed);
        }
        if has_indirect_jump {
            self.mark_tables(code);
        }
        Ok(true)
    }

    fn mark(&mut self, target: usize) {
        if self.range.contains(&target) {
            let bit = target - self.range.start;
            self.targets[bit / 64] |= 1 << (bit % 64);
        }
    }

    fn is_target(&self, offset: usize) -> bool {
        let bit = offset - self.range.start;
        self.targets[bit / 64] >> (bit % 64) & 1 != 0
    }

    /// Marks the targets of `switch` tables: compilers write `lea table(%rip)` and then
    /// jump to the table's address plus an entry of it. Their length is not written down;
    /// a table ends where its entries no longer name code.
    fn mark_tables(&mut self, code: &Code<'_>) {
        const ENTRIES_MAX: u64 = 1024;
        for index in 0..self.instructions.len() {
            let placed = self.instructions[index];
            if placed.i.map != Map::Primary || placed.i.opcode != 0x8d || placed.i.rip_displacement == 0 {
                continue;
            }
            let at = placed.at as usize + placed.i.rip_displacement as usize;
            let Some(Ok(displacement)) = code.bytes.get(at..at + 4).map(<[u8; 4]>::try_from) else { continue };
            let end = code.address + placed.end() as u64;
            let table = end.wrapping_add_signed(i32::from_le_bytes(displacement) as i64);
            for entry in 0..ENTRIES_MAX {
                let Some(by) = code.data_i32(table.wrapping_add(entry * 4)) else { break };
                let Some(target) = code.offset(table.wrapping_add_signed(by as i64)) else { break };
                self.mark(target);
            }
        }
    }

    /// The instruction that starts at `offset`, if it is a `syscall` without prefixes.
    fn syscall(&self, offset: usize) -> Option<usize> {
        let index = self.instructions.binary_search_by_key(&(offset as u32), |placed| placed.at).ok()?;
        let i = &self.instructions[index].i;
        let plain = i.map == Map::Secondary && i.opcode == 0x05 && i.len() == SYSCALL_LEN;
        plain.then_some(index)
    }

    /// The best bytes to replace around the `syscall` at `index`: rather before it than
    /// after it, because what stands after it costs a second jump; and few of them.
    fn window(&self, code: &Code<'_>, branches: &Branches, index: usize, free_from: usize) -> Option<Window> {
        let before = self.movable_before(code, index, free_from);
        let after = self.movable_after(code, index);
        let one_side = (1..=before).map(|before| (before, 0)).chain((1..=after).map(|after| (0, after)));
        let both = (1..=before).flat_map(|before| (1..=after).map(move |after| (before, after)));
        for (before, after) in one_side.chain(both) {
            let instructions = index - before..index + 1 + after;
            let start = self.instructions[instructions.start].at as usize;
            let end = self.instructions[instructions.end - 1].end();
            if end - start < JUMP_LEN || (start + 1..end).any(|offset| self.is_target(offset)) {
                continue;
            }
            if !branches.reach_from_outside(code, &self.range, start + 1..end) {
                return Some(Window { instructions, bytes: start..end });
            }
        }
        None
    }

    /// How many instructions directly before the `syscall` at `index` may move.
    fn movable_before(&self, code: &Code<'_>, index: usize, free_from: usize) -> usize {
        let syscall_at = self.instructions[index].at as usize;
        let mut count = 0;
        while count < BEFORE_MAX && count < index {
            let placed = &self.instructions[index - count - 1];
            let start = placed.at as usize;
            if start < free_from || syscall_at - start > MOVED_LEN_MAX || !placed.i.is_movable(placed.bytes(code)) {
                break;
            }
            count += 1;
        }
        count
    }

    /// How many instructions directly after the `syscall` at `index` may move. A jump or
    /// a return may be the last of them.
    fn movable_after(&self, code: &Code<'_>, index: usize) -> usize {
        let syscall_end = self.instructions[index].end();
        for count in 0..AFTER_MAX {
            let Some(placed) = self.instructions.get(index + count + 1) else { return count };
            let bytes = placed.bytes(code);
            if placed.end() - syscall_end > MOVED_LEN_MAX {
                return count;
            }
            let leaves = match placed.i.flow(bytes) {
                Flow::Jump(_) => true,
                Flow::Branch(_) => is_conditional_jump(&placed.i),
                Flow::Return => placed.i.prefixes == 0,
                _ => false,
            };
            if leaves {
                return count + 1;
            }
            if !placed.i.is_movable(bytes) {
                return count;
            }
        }
        AFTER_MAX
    }

    fn site(&self, code: &Code<'_>, trust: Trust, branches: &Branches, index: usize, window: &Window) -> Site {
        let syscall = &self.instructions[index];
        let before = syscall.at as usize - window.bytes.start;
        let after = window.bytes.end - syscall.end();
        let form = match (window.instructions.start == index, after == 0) {
            (true, _) => Form::After,
            (false, false) => Form::Around,
            (false, true) if before == 5 && self.instructions[index - 1].i.opcode == 0xb8 => Form::Number,
            (false, true) => Form::Before,
        };
        let number = self.number(code, branches, index, window);
        // Nothing follows a return from a handler. Until then the thread has the handler's state, all of it.
        let goes_on = number != Some(RT_SIGRETURN);
        Site {
            address: code.address + window.bytes.start as u64,
            before: before as u8,
            after: after as u8,
            form,
            vectors_dead: goes_on && vectors_dead(code, trust, code.address + syscall.end() as u64),
            number,
        }
    }

    /// The constant that the code before the `syscall` at `index` moves to eax, if nothing
    /// can jump between the two.
    fn number(&self, code: &Code<'_>, branches: &Branches, index: usize, window: &Window) -> Option<u32> {
        const LOOK_BACK: usize = 8;
        let syscall_at = self.instructions[index].at as usize;
        for placed in self.instructions[..index].iter().rev().take(LOOK_BACK) {
            if self.is_target(placed.end()) {
                return None;
            }
            let bytes = placed.bytes(code);
            if let Some(number) = sets_eax(&placed.i, bytes) {
                // No known branch may enter the window.
                let entered = (placed.at as usize) < window.bytes.start
                    && branches.reach_from_outside(code, &self.range, placed.end()..syscall_at + 1);
                return (!entered).then_some(number);
            }
            if may_write_rax(&placed.i) {
                return None;
            }
        }
        None
    }
}

/// The constant that the instruction puts into eax.
pub(crate) fn sets_eax(i: &Instruction, bytes: &[u8]) -> Option<u32> {
    let constant = || Some(u32::from_le_bytes(bytes.get(bytes.len() - 4..)?.try_into().ok()?));
    match (i.map, i.opcode) {
        (Map::Primary, 0xb8) if i.rex == 0 && i.immediate_len() == 4 => constant(),
        (Map::Primary, 0xc7) if i.rm() == Some(0) && i.immediate_len() == 4 => constant(),
        (Map::Primary, 0x31 | 0x33) if i.rm() == Some(0) && i.reg() == 0 && i.prefixes == 0 => Some(0),
        _ => None,
    }
}

/// False only for common instructions that certainly do not write rax.
pub(crate) fn may_write_rax(i: &Instruction) -> bool {
    let register_is_rax = i.rex & 1 == 0 && i.opcode & 7 == 0;
    // Without REX, register 4 of a byte instruction is ah.
    let may_be_of_bytes = i.map == Map::Secondary || i.opcode & 1 == 0;
    if i.rex == 0 && (i.rm() == Some(4) || i.reg() == 4) && may_be_of_bytes {
        return true;
    }
    match (i.map, i.opcode) {
        // xabort and xbegin.
        (Map::Primary, 0xc6 | 0xc7) if i.group() != 0 => true,
        // Arithmetic and moves with the register field as their source, then as their target.
        (Map::Primary, 0x00..=0x3b) if i.opcode & 7 < 2 => i.rm() == Some(0),
        (Map::Primary, 0x00..=0x3b) if i.opcode & 7 < 4 => i.reg() == 0,
        (Map::Primary, 0x88 | 0x89 | 0xc6 | 0xc7 | 0x80 | 0x81 | 0x83 | 0xc0 | 0xc1 | 0xd0..=0xd3) => i.rm() == Some(0),
        (Map::Primary, 0x63 | 0x8a | 0x8b | 0x8d) => i.reg() == 0,
        (Map::Primary, 0x84 | 0x85 | 0xa8 | 0xa9 | 0x50..=0x57 | 0x68 | 0x6a) => false,
        (Map::Primary, 0xb0..=0xbf) => register_is_rax || i.opcode == 0xb4,
        (Map::Primary, 0x58..=0x5f) => register_is_rax,
        // nop, but under REX.B xchg with r8.
        (Map::Primary, 0x90) => i.rex & 1 != 0,
        (Map::Secondary, 0x1f) => false,
        (Map::Secondary, 0x90..=0x9f) => i.rm() == Some(0),
        (Map::Secondary, 0x40..=0x4f | 0xb6 | 0xb7 | 0xbe | 0xbf | 0xaf) => i.reg() == 0,
        _ => true,
    }
}
