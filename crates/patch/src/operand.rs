//! What an instruction does to memory: where its operand lies, how long it is, and whether it is read, written or both.
//!
//! The instructions are those that [`accesses`](crate::point::accesses) finds. Tables: Intel SDM volume 2, appendix A
//! ("Opcode Map") and table 2-2 ("32-Bit Addressing Forms with the ModR/M Byte").

use crate::code::Code;
use crate::decode::{Instruction, LOCK, Map, OPERAND16, decode};
use crate::point::bytes_of;
use core::ops::Range;

const REX_B: u8 = 1;
const REX_X: u8 = 2;
const REX_W: u8 = 8;

/// A memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    location: Location,
    /// Its length in bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// It is read.
    pub reads: bool,
    /// It is written.
    pub writes: bool,
    /// Reading and writing is one step for other processors as well: `lock`, or `xchg`.
    pub atomic: bool,
}

/// Where it lies. Registers have the processor's numbers: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Location {
    base: Option<u8>,
    /// The register and the binary logarithm of its factor.
    index: Option<(u8, u8)>,
    /// For an operand relative to rip, its address.
    displacement: u64,
}

impl Operand {
    /// Its address, with these values of the registers.
    pub fn address(&self, register: impl Fn(u8) -> u64) -> u64 {
        let Location { base, index, displacement } = self.location;
        let base = base.map_or(0, &register);
        let index = index.map_or(0, |(index, scale)| register(index) << scale);
        base.wrapping_add(index).wrapping_add(displacement)
    }
}

/// The memory operand of the instruction at `access`, if it is one that has one.
#[must_use]
pub fn operand(code: &Code<'_>, access: &Range<u64>) -> Option<Operand> {
    let bytes = bytes_of(code, access).ok()?;
    let i = decode(bytes)?;
    let (size, reads, writes) = effect(&i)?;
    let location = location(&i, bytes, access.end)?;
    let exchanges = i.map == Map::Primary && matches!(i.opcode, 0x86 | 0x87);
    Some(Operand { location, size, reads, writes, atomic: exchanges || i.prefixes & LOCK != 0 })
}

/// `None` if the operand is a register, or relative to a segment.
fn location(i: &Instruction, bytes: &[u8], end: u64) -> Option<Location> {
    let prefixes = bytes.iter().take_while(|&&byte| byte == 0x66 || byte == 0xf0).count();
    let opcode = prefixes + usize::from(i.rex != 0);
    let mut at = opcode + if i.map == Map::Primary { 1 } else { 2 };
    if i.rm().is_some() || bytes.get(at) != Some(&i.modrm) {
        return None;
    }
    at += 1;
    let (mode, rm) = (i.modrm >> 6, i.modrm & 7);
    if i.rip_displacement != 0 {
        let displacement = end.wrapping_add(displacement(bytes, at, 4)?);
        return Some(Location { base: None, index: None, displacement });
    }
    let (mut base, mut index) = (Some(rm | (i.rex & REX_B) << 3), None);
    let mut len = [0, 1, 4][usize::from(mode)];
    if rm == 4 {
        let sib = *bytes.get(at)?;
        at += 1;
        let register = sib >> 3 & 7 | (i.rex & REX_X) << 2;
        // Register 4 (rsp) cannot be an index.
        index = (register != 4).then_some((register, sib >> 6));
        base = Some(sib & 7 | (i.rex & REX_B) << 3);
        if sib & 7 == 5 && mode == 0 {
            (base, len) = (None, 4);
        }
    }
    Some(Location { base, index, displacement: displacement(bytes, at, len)? })
}

/// The number of `len` bytes at `at`, with its sign.
fn displacement(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    let number = match *bytes {
        [] => 0,
        [byte] => i64::from(byte as i8),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => return None,
    };
    Some(number as u64)
}

/// The operand's length, and whether it is read and written.
fn effect(i: &Instruction) -> Option<(u8, bool, bool)> {
    const READ: (bool, bool) = (true, false);
    const WRITE: (bool, bool) = (false, true);
    const BOTH: (bool, bool) = (true, true);
    let wide = match i.prefixes & OPERAND16 != 0 {
        _ if i.rex & REX_W != 0 => 8,
        true => 2,
        false => 4,
    };
    let by_opcode = if i.opcode & 1 == 0 { 1 } else { wide };
    let (size, (reads, writes)) = match (i.map, i.opcode) {
        // The arithmetic of two operands: bit 1 says that the register is its target. Compares have none.
        (Map::Primary, 0x38..=0x3b) => (by_opcode, READ),
        (Map::Primary, 0x00..=0x37) if i.opcode & 7 < 4 => (by_opcode, if i.opcode & 2 == 0 { BOTH } else { READ }),
        (Map::Primary, 0x63) => (wide.min(4), READ),
        (Map::Primary, 0x69 | 0x6b) => (wide, READ),
        (Map::Primary, 0x80 | 0x81 | 0x83) => (by_opcode, if i.group() == 7 { READ } else { BOTH }),
        (Map::Primary, 0x84 | 0x85 | 0x8a | 0x8b) => (by_opcode, READ),
        (Map::Primary, 0x86 | 0x87 | 0xc0 | 0xc1 | 0xd0..=0xd3) => (by_opcode, BOTH),
        (Map::Primary, 0x88 | 0x89) => (by_opcode, WRITE),
        (Map::Primary, 0xc6 | 0xc7) if i.group() == 0 => (by_opcode, WRITE),
        // Test, not, neg, and the multiplications and divisions.
        (Map::Primary, 0xf6 | 0xf7) => (by_opcode, if matches!(i.group(), 2 | 3) { BOTH } else { READ }),
        (Map::Primary, 0xfe | 0xff) if i.group() < 2 => (by_opcode, BOTH),
        (Map::Secondary, 0x40..=0x4f | 0xaf) => (wide, READ),
        (Map::Secondary, 0xb0 | 0xb1 | 0xc0 | 0xc1) => (by_opcode, BOTH),
        (Map::Secondary, 0xb6 | 0xbe) => (1, READ),
        (Map::Secondary, 0xb7 | 0xbf) => (2, READ),
        _ => return None,
    };
    Some((size, reads, writes))
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "code with one function")]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess, Register};

    const TEXT: u64 = 0x40_0000;

    fn of(bytes: &[u8]) -> Option<Operand> {
        let functions = [TEXT..TEXT + bytes.len() as u64];
        let code = Code { bytes, address: TEXT, functions: &functions, data: &[] };
        operand(&code, &functions[0])
    }

    /// Register n has the value 0x1000 << n.
    fn value(register: u8) -> u64 {
        0x1000 << register
    }

    /// Length, whether it is read, written and atomic; and the address.
    type Found = (u8, [bool; 3], u64);

    const READ: [bool; 3] = [true, false, false];
    const WRITE: [bool; 3] = [false, true, false];
    const BOTH: [bool; 3] = [true, true, false];
    const ATOMIC: [bool; 3] = [true, true, true];

    fn table() -> [(&'static [u8], Found); 30] {
        [
            (&[0x8b, 0x05, 0x10, 0, 0, 0], (4, READ, TEXT + 0x16)), // mov 16(%rip), %eax
            (&[0x8b, 0x05, 0xf0, 0xff, 0xff, 0xff], (4, READ, TEXT - 10)), // mov -16(%rip), %eax
            (&[0xc7, 0x05, 8, 0, 0, 0, 1, 0, 0, 0], (4, WRITE, TEXT + 18)), // movl $1, 8(%rip)
            (&[0x80, 0x3d, 8, 0, 0, 0, 0], (1, READ, TEXT + 15)),   // cmpb $0, 8(%rip)
            (&[0x89, 0x03], (4, WRITE, value(3))),                  // mov %eax, (%rbx)
            (&[0x48, 0x89, 0x43, 0xf8], (8, WRITE, value(3) - 8)),  // mov %rax, -8(%rbx)
            (&[0x66, 0x89, 0x83, 0, 1, 0, 0], (2, WRITE, value(3) + 256)), // mov %ax, 256(%rbx)
            (&[0x88, 0x03], (1, WRITE, value(3))),                  // mov %al, (%rbx)
            (&[0x41, 0x8a, 0x45, 0], (1, READ, value(13))),         // mov (%r13), %al
            (&[0x8b, 0x04, 0xcb], (4, READ, value(3) + 8 * value(1))), // mov (%rbx,%rcx,8), %eax
            (&[0x43, 0x8b, 0x44, 0x65, 4], (4, READ, value(13) + 2 * value(12) + 4)), // mov 4(%r13,%r12,2), %eax
            (&[0x8b, 0x04, 0x8d, 0, 0, 0x10, 0], (4, READ, 4 * value(1) + 0x10_0000)), // mov 0x100000(,%rcx,4), %eax
            (&[0x8b, 0x04, 0x25, 0, 0, 0x10, 0], (4, READ, 0x10_0000)), // mov 0x100000, %eax
            (&[0x41, 0x8b, 0x04, 0x24], (4, READ, value(12))),      // mov (%r12), %eax
            (&[0xff, 0x03], (4, BOTH, value(3))),                   // incl (%rbx)
            (&[0xf0, 0x48, 0xff, 0x03], (8, ATOMIC, value(3))),     // lock incq (%rbx)
            (&[0x87, 0x03], (4, ATOMIC, value(3))),                 // xchg %eax, (%rbx)
            (&[0xf0, 0x0f, 0xb1, 0x0f], (4, ATOMIC, value(7))),     // lock cmpxchg %ecx, (%rdi)
            (&[0xf0, 0x48, 0x0f, 0xc1, 0x07], (8, ATOMIC, value(7))), // lock xadd %rax, (%rdi)
            (&[0x01, 0x03], (4, BOTH, value(3))),                   // add %eax, (%rbx)
            (&[0x03, 0x03], (4, READ, value(3))),                   // add (%rbx), %eax
            (&[0x39, 0x03], (4, READ, value(3))),                   // cmp %eax, (%rbx)
            (&[0x83, 0x03, 1], (4, BOTH, value(3))),                // addl $1, (%rbx)
            (&[0x83, 0x3b, 1], (4, READ, value(3))),                // cmpl $1, (%rbx)
            (&[0xf6, 0x03, 1], (1, READ, value(3))),                // testb $1, (%rbx)
            (&[0xf7, 0x1b], (4, BOTH, value(3))),                   // negl (%rbx)
            (&[0x48, 0x63, 0x03], (4, READ, value(3))),             // movslq (%rbx), %rax
            (&[0x0f, 0xb6, 0x03], (1, READ, value(3))),             // movzbl (%rbx), %eax
            (&[0x48, 0x0f, 0xbf, 0x03], (2, READ, value(3))),       // movswq (%rbx), %rax
            (&[0x48, 0x0f, 0x44, 0x03], (8, READ, value(3))),       // cmove (%rbx), %rax
        ]
    }

    #[test]
    fn operands_of_assembled_instructions() {
        for (bytes, (size, [reads, writes, atomic], address)) in table() {
            let operand = of(bytes).unwrap_or_else(|| panic!("{bytes:x?}"));
            assert_eq!((operand.size, operand.reads, operand.writes, operand.atomic), (size, reads, writes, atomic));
            assert_eq!(operand.address(value), address, "{bytes:x?}");
        }
    }

    #[test]
    fn what_has_no_operand_in_plain_memory() {
        let none: [&[u8]; 5] = [
            &[0x89, 0xc3],                         // mov %eax, %ebx
            &[0x48, 0x8d, 0x05, 0, 0, 0, 0],       // lea 0(%rip), %rax
            &[0x64, 0x8b, 0x04, 0x25, 0, 0, 0, 0], // mov %fs:0, %eax
            &[0xff, 0x23],                         // jmp *(%rbx)
            &[0x8b, 0x05, 0x10],                   // cut short
        ];
        none.iter().for_each(|bytes| assert_eq!(of(bytes), None, "{bytes:x?}"));
    }

    /// Every opcode with every form of operand, compared with a general disassembler.
    #[test]
    fn all_forms_are_those_of_a_disassembler() {
        const TAIL: [u8; 12] = [0xd9, 0x12, 0x34, 0x56, 0x07, 1, 2, 3, 4, 5, 6, 7];
        let prefixes: [&[u8]; 6] = [&[], &[0x66], &[0x48], &[0x43], &[0x4f], &[0x66, 0x41]];
        let mut compared = 0;
        for prefix in prefixes {
            for opcode in (0..=255u8).map(|byte| [0x90, byte]).chain((0x40..=0xc1).map(|byte| [0x0f, byte])) {
                let opcode = if opcode[0] == 0x0f { &opcode[..] } else { &opcode[1..] };
                for modrm in 0..0xc0u8 {
                    compared += usize::from(compare(&[prefix, opcode, &[modrm], &TAIL].concat()));
                }
            }
        }
        assert!(compared > 50_000, "{compared}");
    }

    /// Whether both know it; then they agree.
    fn compare(bytes: &[u8]) -> bool {
        let Some(i) = decode(bytes) else { return false };
        let Some(ours) = of(&bytes[..i.len()]) else { return false };
        let reference = Decoder::with_ip(64, bytes, TEXT, DecoderOptions::NONE).decode();
        assert_eq!(reference.len(), i.len(), "{bytes:x?}");
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&reference);
        let memory = info.used_memory().first().unwrap_or_else(|| panic!("{bytes:x?} uses no memory"));
        let register = |name: Register| value((name.full_register() as u32 - Register::RAX as u32) as u8);
        let theirs = memory.virtual_address(0, |name, _, _| match name {
            Register::DS | Register::SS => Some(0),
            _ => Some(register(name)),
        });
        assert_eq!(Some(ours.address(value)), theirs, "{bytes:x?}");
        let reads = !matches!(memory.access(), OpAccess::Write | OpAccess::CondWrite);
        let writes = !matches!(memory.access(), OpAccess::Read | OpAccess::CondRead);
        assert_eq!((ours.reads, ours.writes), (reads, writes), "{bytes:x?}");
        assert_eq!(usize::from(ours.size), memory.memory_size().size(), "{bytes:x?}");
        true
    }
}
