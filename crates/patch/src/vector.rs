//! The use that one instruction makes of the vector, mask and x87 registers.
//!
//! The answer errs on one side only: it may claim that an instruction needs a register when it does not.

use crate::decode::{Instruction, Map, OPERAND16, REP, REPNE};

/// The xmm registers, one bit each.
pub(crate) type Registers = u16;

/// How an instruction depends on vector state that was there before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VectorUse {
    /// Not at all.
    None,
    /// On all of `reads`; afterwards `writes` hold values that do not depend on anything
    /// else.
    Xmm { reads: Registers, writes: Registers },
    /// In a way that is not described here.
    Unknown,
}

/// The use that `i` makes of vector state.
#[inline]
pub(crate) fn vector_use(i: &Instruction) -> VectorUse {
    match i.map {
        Map::Primary => match i.opcode {
            0xd8..=0xdf => x87(i),
            _ => VectorUse::None,
        },
        Map::Secondary => secondary(i),
        // movbe, crc32, adcx, adox, and the direct stores.
        Map::Third38 if matches!(i.opcode, 0xf0 | 0xf1 | 0xf6 | 0xf8 | 0xf9) => VectorUse::None,
        // andn, blsr, bzhi, pdep, pext, mulx, shlx, sarx, shrx; rorx; vzeroupper.
        Map::Vex0F38 if matches!(i.opcode, 0xf2 | 0xf3 | 0xf5..=0xf7) => VectorUse::None,
        Map::Vex0F3A if i.opcode == 0xf0 => VectorUse::None,
        Map::Vex0F if i.opcode == 0x77 => VectorUse::None,
        _ => VectorUse::Unknown,
    }
}

/// The control and status words travel with every thread; the register stack may not.
fn x87(i: &Instruction) -> VectorUse {
    let memory = i.rm().is_none();
    match (i.opcode, i.group(), i.modrm) {
        // fldcw, fnstcw, fnstsw; fldenv, which loads no register and overwrites the whole environment.
        (0xd9, 4 | 5 | 7, _) | (0xdd, 7, _) if memory => VectorUse::None,
        // fnstsw %ax, fnclex.
        (0xdf, _, 0xe0) | (0xdb, _, 0xe2) => VectorUse::None,
        _ => VectorUse::Unknown,
    }
}

fn secondary(i: &Instruction) -> VectorUse {
    match i.opcode {
        0x10..=0x17 | 0x28..=0x2f | 0x50..=0x7f | 0xc2 | 0xc4..=0xc6 | 0xd0..=0xff => sse(i),
        // fxsave, fxrstor, xsave, xrstor, xsaveopt; their sisters xsavec, xsaves, xrstors.
        0xae if i.rm().is_none() && matches!(i.group(), 0 | 1 | 4..=6) => VectorUse::Unknown,
        0xc7 if i.rm().is_none() && matches!(i.group(), 3..=5) => VectorUse::Unknown,
        _ => VectorUse::None,
    }
}

fn sse(i: &Instruction) -> VectorUse {
    const NONE: u8 = 0;
    let prefix = match i.prefixes & (OPERAND16 | REP | REPNE) {
        // A prefix 66 has no effect next to one of these. If both are there, the processor decides which counts.
        both if both & (REP | REPNE) == REP | REPNE => return VectorUse::Unknown,
        prefix if prefix & (REP | REPNE) != 0 => prefix & !OPERAND16,
        prefix => prefix,
    };
    let reg: Registers = 1 << i.reg();
    let rm: Registers = i.rm().map_or(0, |rm| 1 << rm);
    let memory = rm == 0;
    let same = rm == reg;
    match (i.opcode, prefix) {
        // MMX registers: every operand, or one of the two.
        (0x60..=0x7f | 0xd0..=0xff, NONE) => VectorUse::Unknown,
        (0x2a | 0x2c | 0x2d, NONE | OPERAND16) => VectorUse::Unknown,
        (0xd6, REP | REPNE) | (0xc4 | 0xc5, NONE) => VectorUse::Unknown,

        // movups, movupd, movaps, movapd, movdqa, movdqu, lddqu; movss and movsd of
        // memory clear the rest of the register.
        (0x10 | 0x28, NONE | OPERAND16) | (0x6f, OPERAND16 | REP) | (0xf0, REPNE) => {
            VectorUse::Xmm { reads: rm, writes: reg }
        }
        (0x10, REP | REPNE) if memory => VectorUse::Xmm { reads: 0, writes: reg },
        // movd and movq from a general register or memory; movq between xmm registers.
        (0x6e, OPERAND16) => VectorUse::Xmm { reads: 0, writes: reg },
        (0x7e, REP) => VectorUse::Xmm { reads: rm, writes: reg },
        // movd and movq to a general register or memory.
        (0x7e, OPERAND16) => VectorUse::Xmm { reads: reg, writes: 0 },
        // xorps, pxor, psub*: zero; pcmpeq*: all ones; whatever the register held before.
        (0x57 | 0xef | 0xf8..=0xfb | 0x74..=0x76, NONE | OPERAND16) if same => VectorUse::Xmm { reads: 0, writes: reg },
        // Conversions and masks to a general register.
        (0x2c | 0x2d, REP | REPNE) | (0x50, _) | (0xd7 | 0xc5, OPERAND16) => VectorUse::Xmm { reads: rm, writes: 0 },
        // Conversions from a general register keep the upper part; so does pinsrw.
        (0x2a, REP | REPNE) | (0xc4, OPERAND16) => VectorUse::Xmm { reads: reg, writes: 0 },
        // Shifts by an immediate name their register in r/m.
        (0x71..=0x73, OPERAND16) => VectorUse::Xmm { reads: rm, writes: 0 },
        // The rest: at worst both registers go in, and nothing new comes out.
        _ => VectorUse::Xmm { reads: reg | rm, writes: 0 },
    }
}
