//! The length and the kind of one x86-64 instruction.
//!
//! A general disassembler costs 0.3 ms to start and a quarter of a megabyte, in every
//! program that we enter. Patching asks little of an instruction: how long it is, where
//! it may go, which fields depend on its own address, whether it touches a vector
//! register. This decoder answers that and no more; what it does not know it refuses, and
//! the code around it stays unpatched. The tests hold it against a general disassembler.
//!
//! Tables: Intel SDM volume 2, appendix A ("Opcode Map").

/// The opcode map that an instruction comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Map {
    /// One-byte opcodes.
    Primary,
    /// `0f xx`.
    Secondary,
    /// `0f 38 xx`.
    Third38,
    /// `0f 3a xx`.
    Third3A,
    /// Any map under a VEX prefix (`c4`, `c5`); the number is the map field.
    Vex(u8),
    /// Any map under an EVEX prefix (`62`).
    Evex,
}

/// `lock`.
pub(crate) const LOCK: u8 = 1;
/// `f3`: rep, or part of the opcode.
pub(crate) const REP: u8 = 2;
/// `f2`: repne, bnd, or part of the opcode.
pub(crate) const REPNE: u8 = 4;
/// `66`: 16-bit operands, or part of the opcode.
pub(crate) const OPERAND16: u8 = 8;
/// `67`: 32-bit addresses.
pub(crate) const ADDRESS32: u8 = 16;

const REX_W: u8 = 8;
const REX_R: u8 = 4;
const REX_B: u8 = 1;

/// Longest instruction that the processor accepts.
pub(crate) const LEN_MAX: usize = 15;

/// One decoded instruction. Offsets count from its first byte; 0 means "has none".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub len: u8,
    pub map: Map,
    pub opcode: u8,
    /// Legacy prefixes, the constants above.
    pub prefixes: u8,
    pub rex: u8,
    pub has_modrm: bool,
    pub modrm: u8,
    /// Offset of a displacement that counts from the end of the instruction.
    pub rip_displacement: u8,
    pub immediate: u8,
    pub immediate_len: u8,
}

/// Where control goes after an instruction. Displacements count from its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// To the next instruction.
    Next,
    /// `jmp` to a fixed place.
    Jump(i32),
    /// A conditional branch to a fixed place.
    Branch(i32),
    /// `call` of a fixed place.
    Call(i32),
    /// `call` through a register or memory.
    CallIndirect,
    /// `jmp` through a register or memory.
    JumpIndirect,
    /// `ret`.
    Return,
    /// `syscall`.
    Syscall,
    /// An instruction that always faults: `ud2`, `hlt`, `int3`.
    Fault,
    /// Anything that leaves the program's code in another way: `int`, `sysenter`, `iret`.
    Other,
}

// Attributes of an opcode: ModRM bit, invalid bit, immediate in the low four bits.
const M: u8 = 0x80;
const X: u8 = 0x40;
const IB: u8 = 1;
const IW: u8 = 2;
/// 2 or 4 bytes by operand size.
const IZ: u8 = 3;
/// 2, 4 or 8 bytes by operand size: `mov $imm, %reg`.
const IV: u8 = 4;
/// An absolute address: 8 bytes, or 4 under `67`.
const MOFFS: u8 = 5;
const ENTER: u8 = 6;
/// Group 3: an immediate byte for `test` (ModRM.reg 0 and 1) only.
const GROUP3B: u8 = 7;
/// Group 3: an immediate IZ for `test` only.
const GROUP3Z: u8 = 8;
/// A 4-byte branch displacement.
const REL: u8 = 9;

const fn fill(mut table: [u8; 256], first: usize, last: usize, attribute: u8) -> [u8; 256] {
    let mut at = first;
    while at <= last {
        table[at] = attribute;
        at += 1;
    }
    table
}

const fn primary() -> [u8; 256] {
    let mut t = [0u8; 256];
    let mut row = 0;
    while row < 0x40 {
        t = fill(t, row, row + 3, M);
        t[row + 4] = IB;
        t[row + 5] = IZ;
        t = fill(t, row + 6, row + 7, X);
        row += 8;
    }
    t = fill(t, 0x60, 0x62, X);
    t[0x63] = M;
    t[0x68] = IZ;
    t[0x69] = M | IZ;
    t[0x6a] = IB;
    t[0x6b] = M | IB;
    t = fill(t, 0x70, 0x7f, IB);
    t = fill(t, 0x80, 0x8f, M);
    t[0x80] = M | IB;
    t[0x81] = M | IZ;
    t[0x82] = X;
    t[0x83] = M | IB;
    t[0x9a] = X;
    t = fill(t, 0xa0, 0xa3, MOFFS);
    t[0xa8] = IB;
    t[0xa9] = IZ;
    t = fill(t, 0xb0, 0xb7, IB);
    t = fill(t, 0xb8, 0xbf, IV);
    t = fill(t, 0xc0, 0xc1, M | IB);
    t[0xc2] = IW;
    t[0xc6] = M | IB;
    t[0xc7] = M | IZ;
    t[0xc8] = ENTER;
    t[0xca] = IW;
    t[0xcd] = IB;
    t[0xce] = X;
    t = fill(t, 0xd0, 0xd3, M);
    t = fill(t, 0xd4, 0xd6, X);
    t = fill(t, 0xd8, 0xdf, M);
    t = fill(t, 0xe0, 0xe7, IB);
    t = fill(t, 0xe8, 0xe9, REL);
    t[0xea] = X;
    t[0xeb] = IB;
    t[0xf6] = M | GROUP3B;
    t[0xf7] = M | GROUP3Z;
    t = fill(t, 0xfe, 0xff, M);
    t
}

const fn secondary() -> [u8; 256] {
    let mut t = [M; 256];
    t[0x04] = X;
    t = fill(t, 0x05, 0x09, 0);
    t[0x0a] = X;
    t[0x0b] = 0;
    t[0x0c] = X;
    t = fill(t, 0x0e, 0x0f, X);
    // Moves from and to control registers: their ModRM has rules of its own, and no
    // program may execute them.
    t = fill(t, 0x20, 0x27, X);
    t = fill(t, 0x30, 0x35, 0);
    t = fill(t, 0x36, 0x3f, X);
    t = fill(t, 0x70, 0x73, M | IB);
    t[0x77] = 0;
    t = fill(t, 0x78, 0x7b, X);
    t = fill(t, 0x80, 0x8f, REL);
    t = fill(t, 0xa0, 0xa2, 0);
    t[0xa4] = M | IB;
    t = fill(t, 0xa6, 0xa7, X);
    t = fill(t, 0xa8, 0xaa, 0);
    t[0xac] = M | IB;
    t[0xba] = M | IB;
    t[0xc2] = M | IB;
    t = fill(t, 0xc4, 0xc6, M | IB);
    t = fill(t, 0xc8, 0xcf, 0);
    t[0xff] = X;
    t
}

static PRIMARY: [u8; 256] = primary();
static SECONDARY: [u8; 256] = secondary();

/// Decodes the instruction at the start of `bytes`; `None` if it is cut short or is none
/// that this decoder knows.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Option<Instruction> {
    let bytes = if bytes.len() > LEN_MAX { &bytes[..LEN_MAX] } else { bytes };
    let mut i = Instruction {
        len: 0,
        map: Map::Primary,
        opcode: 0,
        prefixes: 0,
        rex: 0,
        has_modrm: false,
        modrm: 0,
        rip_displacement: 0,
        immediate: 0,
        immediate_len: 0,
    };
    let mut at = 0;
    loop {
        let byte = *bytes.get(at)?;
        match byte {
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 => {}
            0x66 => i.prefixes |= OPERAND16,
            0x67 => i.prefixes |= ADDRESS32,
            0xf0 => i.prefixes |= LOCK,
            0xf2 => i.prefixes |= REPNE,
            0xf3 => i.prefixes |= REP,
            0x40..=0x4f => {
                // A REX prefix counts only directly before the opcode.
                i.rex = byte;
                at += 1;
                continue;
            }
            _ => break,
        }
        i.rex = 0;
        at += 1;
    }
    i.opcode = bytes[at];
    at += 1;
    let attribute = match i.opcode {
        0x0f => {
            i.map = Map::Secondary;
            i.opcode = *bytes.get(at)?;
            at += 1;
            match i.opcode {
                0x38 => three_byte(&mut i, Map::Third38, M, bytes, &mut at)?,
                0x3a => three_byte(&mut i, Map::Third3A, M | IB, bytes, &mut at)?,
                opcode => SECONDARY[opcode as usize],
            }
        }
        0xc4 | 0xc5 => vex(&mut i, bytes, &mut at)?,
        0x62 => evex(&mut i, bytes, &mut at)?,
        opcode => PRIMARY[opcode as usize],
    };
    if attribute & X != 0 {
        return None;
    }
    if attribute & M != 0 {
        modrm(&mut i, bytes, &mut at)?;
    }
    i.immediate_len = immediate_len(&i, attribute & 0xf)?;
    i.immediate = at as u8;
    at += i.immediate_len as usize;
    if at > bytes.len() {
        return None;
    }
    i.len = at as u8;
    Some(i)
}

fn three_byte(i: &mut Instruction, map: Map, attribute: u8, bytes: &[u8], at: &mut usize) -> Option<u8> {
    i.map = map;
    i.opcode = *bytes.get(*at)?;
    *at += 1;
    Some(attribute)
}

/// Whether an opcode of the `0f` map takes an immediate byte under VEX or EVEX.
fn vector_immediate(opcode: u8) -> u8 {
    match opcode {
        0x70..=0x73 | 0xc2 | 0xc4..=0xc6 => M | IB,
        _ => M,
    }
}

#[cold]
fn vex(i: &mut Instruction, bytes: &[u8], at: &mut usize) -> Option<u8> {
    // SDM 2.3: with any of these before it, the instruction faults.
    if i.rex != 0 || i.prefixes & (LOCK | REP | REPNE | OPERAND16) != 0 {
        return None;
    }
    let first = *bytes.get(*at)?;
    *at += 1;
    let (map, last) = if i.opcode == 0xc5 {
        (1, first)
    } else {
        let second = *bytes.get(*at)?;
        *at += 1;
        (first & 0x1f, second)
    };
    i.map = Map::Vex(map);
    i.prefixes |= [0, OPERAND16, REP, REPNE][(last & 3) as usize];
    i.opcode = *bytes.get(*at)?;
    *at += 1;
    match map {
        1 if i.opcode == 0x77 => Some(0),
        1 => Some(vector_immediate(i.opcode)),
        2 => Some(M),
        3 => Some(M | IB),
        _ => None,
    }
}

#[cold]
fn evex(i: &mut Instruction, bytes: &[u8], at: &mut usize) -> Option<u8> {
    if i.rex != 0 || i.prefixes & (LOCK | REP | REPNE | OPERAND16) != 0 {
        return None;
    }
    let payload = bytes.get(*at..*at + 4)?;
    // Bit 3 of the first byte is fixed to 0 and bit 2 of the second to 1 (SDM 2.7.1).
    if payload[0] & 8 != 0 || payload[1] & 4 == 0 {
        return None;
    }
    i.map = Map::Evex;
    i.opcode = payload[3];
    *at += 4;
    match payload[0] & 7 {
        1 => Some(vector_immediate(i.opcode)),
        2 | 5 | 6 => Some(M),
        3 => Some(M | IB),
        _ => None,
    }
}

/// Reads ModRM, SIB and displacement (SDM volume 2, tables 2-2 and 2-3).
#[inline]
fn modrm(i: &mut Instruction, bytes: &[u8], at: &mut usize) -> Option<()> {
    i.has_modrm = true;
    i.modrm = *bytes.get(*at)?;
    *at += 1;
    let mode = i.modrm >> 6;
    if mode == 3 {
        return Some(());
    }
    let mut base = i.modrm & 7;
    let has_sib = base == 4;
    if has_sib {
        base = *bytes.get(*at)? & 7;
        *at += 1;
    }
    *at += match mode {
        0 if base == 5 => {
            if !has_sib {
                i.rip_displacement = *at as u8;
            }
            4
        }
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(())
}

#[inline]
fn immediate_len(i: &Instruction, kind: u8) -> Option<u8> {
    let wide = i.rex & REX_W != 0;
    let narrow = i.prefixes & OPERAND16 != 0 && !wide;
    let iz = if narrow { 2 } else { 4 };
    Some(match kind {
        0 => 0,
        IB => 1,
        IW => 2,
        IZ => iz,
        IV if wide => 8,
        IV => iz,
        MOFFS if i.prefixes & ADDRESS32 != 0 => 4,
        MOFFS => 8,
        ENTER => 3,
        GROUP3B => (i.modrm & 0x38 < 0x10) as u8,
        GROUP3Z if i.modrm & 0x38 < 0x10 => iz,
        GROUP3Z => 0,
        // Under `66` AMD's processors take a 16-bit displacement and Intel's a 32-bit one.
        REL if narrow => return None,
        REL => 4,
        _ => return None,
    })
}

impl Instruction {
    /// The register field of ModRM, extended by REX.R.
    pub fn reg(&self) -> u8 {
        self.modrm >> 3 & 7 | (self.rex & REX_R) << 1
    }

    /// The register of ModRM's r/m field, extended by REX.B; `None` if it names memory.
    pub fn rm(&self) -> Option<u8> {
        (self.modrm >> 6 == 3).then_some(self.modrm & 7 | (self.rex & REX_B) << 3)
    }

    /// The low three bits of the register field: an extension of the opcode in "groups".
    pub fn group(&self) -> u8 {
        self.modrm >> 3 & 7
    }

    fn relative(&self, bytes: &[u8]) -> i32 {
        let at = self.immediate as usize;
        match self.immediate_len {
            1 => bytes[at] as i8 as i32,
            _ => i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]),
        }
    }

    /// Where control goes next; `bytes` are the ones that the instruction came from.
    #[inline]
    pub fn flow(&self, bytes: &[u8]) -> Flow {
        match (self.map, self.opcode) {
            (Map::Primary, 0x70..=0x7f | 0xe0..=0xe3) => Flow::Branch(self.relative(bytes)),
            (Map::Primary, 0xe8) => Flow::Call(self.relative(bytes)),
            (Map::Primary, 0xe9 | 0xeb) => Flow::Jump(self.relative(bytes)),
            (Map::Primary, 0xc2 | 0xc3) => Flow::Return,
            (Map::Primary, 0xff) => match self.group() {
                2 | 3 => Flow::CallIndirect,
                4 | 5 => Flow::JumpIndirect,
                _ => Flow::Next,
            },
            (Map::Primary, 0xcc | 0xf4) => Flow::Fault,
            (Map::Primary, 0xca | 0xcb | 0xcd | 0xcf | 0xf1) => Flow::Other,
            // xabort and xbegin.
            (Map::Primary, 0xc6 | 0xc7) if self.group() != 0 => Flow::Other,
            (Map::Secondary, 0x80..=0x8f) => Flow::Branch(self.relative(bytes)),
            (Map::Secondary, 0x05) => Flow::Syscall,
            (Map::Secondary, 0x0b | 0xb9) => Flow::Fault,
            (Map::Secondary, 0x07 | 0x34 | 0x35) => Flow::Other,
            _ => Flow::Next,
        }
    }

    /// Whether the instruction does the same at another address, once a displacement
    /// that counts from its end ([`Instruction::rip_displacement`]) has been corrected.
    pub fn is_movable(&self, bytes: &[u8]) -> bool {
        // Also keeps out endbr64, which must stay where indirect branches arrive, pause
        // and the string instructions, which may be interrupted in the middle.
        if self.prefixes & (LOCK | REP | REPNE | ADDRESS32) != 0 || self.flow(bytes) != Flow::Next {
            return false;
        }
        match (self.map, self.opcode) {
            // String and port instructions, fwait, and those that write flags as data.
            (Map::Primary, 0x6c..=0x6f | 0x9b..=0x9f | 0xa0..=0xa7 | 0xaa..=0xaf | 0xc8 | 0xd7) => false,
            (Map::Primary, 0xd8..=0xdf | 0xe4..=0xe7 | 0xec..=0xef | 0xf4..=0xf5 | 0xf8..=0xfd) => false,
            // Loading a segment register, and pop to memory (its address counts from the new rsp).
            (Map::Primary, 0x8c | 0x8e | 0x8f) => false,
            (Map::Primary, 0xff) => self.group() == 6 || self.group() < 2,
            (Map::Primary, 0xfe) => self.group() < 2,
            (Map::Primary, _) => true,
            // Hint nop, cmov, setcc, shifts, bit tests, imul, movzx, movsx, bswap.
            (Map::Secondary, 0x1f | 0x40..=0x4f | 0x90..=0x9f | 0xa3..=0xa5 | 0xab..=0xad) => true,
            (Map::Secondary, 0xaf | 0xb6 | 0xb7 | 0xba..=0xbf | 0xc8..=0xcf) => true,
            _ => false,
        }
    }
}
