//! The length and the kind of one x86-64 instruction.
//!
//! A general disassembler costs 0.3 ms to start and a quarter of a megabyte, in every
//! program that we enter. Patching needs to know little of an instruction: its length, where
//! it may branch to, which fields depend on its own address, whether it uses a vector
//! register. This decoder finds just that; it refuses what it does not know, and
//! the code around it stays unpatched. The tests compare it with a general disassembler.
//!
//! Tables: Intel SDM volume 2, appendix A ("Opcode Map").

use core::num::NonZeroU8;

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
    /// `0f xx` under a VEX prefix (`c4`, `c5`).
    Vex0F,
    /// `0f 38 xx` under a VEX prefix.
    Vex0F38,
    /// `0f 3a xx` under a VEX prefix.
    Vex0F3A,
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
///
/// Eight bytes, also with an `Option` around: it travels in a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    len: NonZeroU8,
    pub map: Map,
    pub opcode: u8,
    /// Legacy prefixes, the constants above.
    pub prefixes: u8,
    pub rex: u8,
    pub modrm: u8,
    /// Offset of a displacement that counts from the end of the instruction.
    pub rip_displacement: u8,
    /// Offset of the immediate, which reaches to the end; the highest bit is [`MAY_LEAVE`].
    immediate: u8,
}

const _: () = assert!(size_of::<Option<Instruction>>() == 8);
/// Control may go elsewhere than to the next instruction.
const MAY_LEAVE: u8 = 0x80;

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

// Attributes of an opcode: it has a ModRM byte, it is invalid, control may go elsewhere
// than to the next instruction; and in the low four bits what follows.
const M: u8 = 0x80;
const X: u8 = 0x40;
const F: u8 = 0x20;
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
/// `pop`: with ModRM.reg other than 0 it is AMD's XOP prefix, which no compiler uses.
const POP: u8 = 10;
/// Not an opcode: a prefix, the `0f` escape, VEX or EVEX. All larger numbers too.
const PREFIX: u8 = 13;
const ESCAPE: u8 = 14;
const VECTOR: u8 = 15;

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
    t[0x0f] = ESCAPE;
    t[0x26] = PREFIX;
    t[0x2e] = PREFIX;
    t[0x36] = PREFIX;
    t[0x3e] = PREFIX;
    t = fill(t, 0x40, 0x4f, PREFIX);
    t = fill(t, 0x60, 0x61, X);
    t[0x62] = VECTOR;
    t[0x63] = M;
    t = fill(t, 0x64, 0x67, PREFIX);
    t[0x68] = IZ;
    t[0x69] = M | IZ;
    t[0x6a] = IB;
    t[0x6b] = M | IB;
    t = fill(t, 0x70, 0x7f, F | IB);
    t = fill(t, 0x80, 0x8f, M);
    t[0x80] = M | IB;
    t[0x81] = M | IZ;
    t[0x82] = X;
    t[0x83] = M | IB;
    t[0x8f] = M | POP;
    t[0x9a] = X;
    t = fill(t, 0xa0, 0xa3, MOFFS);
    t[0xa8] = IB;
    t[0xa9] = IZ;
    t = fill(t, 0xb0, 0xb7, IB);
    t = fill(t, 0xb8, 0xbf, IV);
    t = fill(t, 0xc0, 0xc1, M | IB);
    t[0xc2] = F | IW;
    t[0xc3] = F;
    t = fill(t, 0xc4, 0xc5, VECTOR);
    t[0xc6] = M | F | IB;
    t[0xc7] = M | F | IZ;
    t[0xc8] = ENTER;
    t[0xca] = F | IW;
    t = fill(t, 0xcb, 0xcc, F);
    t[0xcd] = F | IB;
    t[0xce] = X;
    t[0xcf] = F;
    t = fill(t, 0xd0, 0xd3, M);
    t = fill(t, 0xd4, 0xd6, X);
    t = fill(t, 0xd8, 0xdf, M);
    t = fill(t, 0xe0, 0xe3, F | IB);
    t = fill(t, 0xe4, 0xe7, IB);
    t = fill(t, 0xe8, 0xe9, F | REL);
    t[0xea] = X;
    t[0xeb] = F | IB;
    t[0xf0] = PREFIX;
    t[0xf1] = F;
    t = fill(t, 0xf2, 0xf3, PREFIX);
    t[0xf4] = F;
    t[0xf6] = M | GROUP3B;
    t[0xf7] = M | GROUP3Z;
    t[0xfe] = M;
    t[0xff] = M | F;
    t
}

const fn secondary() -> [u8; 256] {
    let mut t = [M; 256];
    t[0x01] = M | F;
    t[0x04] = X;
    t = fill(t, 0x05, 0x09, 0);
    t[0x05] = F;
    t[0x07] = F;
    t[0x0a] = X;
    t[0x0b] = F;
    t[0x0c] = X;
    t = fill(t, 0x0e, 0x0f, X);
    // Moves from and to control registers: their ModRM has rules of its own, and no
    // program may execute them.
    t = fill(t, 0x20, 0x27, X);
    t = fill(t, 0x30, 0x33, 0);
    t = fill(t, 0x34, 0x35, F);
    t = fill(t, 0x36, 0x3f, X);
    t[0x38] = PREFIX;
    t[0x3a] = PREFIX;
    t = fill(t, 0x70, 0x73, M | IB);
    t[0x77] = 0;
    t = fill(t, 0x78, 0x7b, X);
    t = fill(t, 0x80, 0x8f, F | REL);
    t = fill(t, 0xa0, 0xa2, 0);
    t[0xa4] = M | IB;
    t = fill(t, 0xa6, 0xa7, X);
    t = fill(t, 0xa8, 0xa9, 0);
    t[0xaa] = X;
    t[0xac] = M | IB;
    t[0xb9] = M | F;
    t[0xba] = M | IB;
    t[0xc2] = M | IB;
    t = fill(t, 0xc4, 0xc6, M | IB);
    t = fill(t, 0xc8, 0xcf, 0);
    t[0xff] = X;
    t
}

/// Bytes of SIB and displacement behind each ModRM byte (SDM volume 2, tables 2-2, 2-3),
/// but for the case that SIB itself decides (mode 0, base 5).
const fn operand_lens() -> [u8; 256] {
    let mut lens = [0u8; 256];
    let mut modrm = 0;
    while modrm < 0xc0 {
        let has_sib = (modrm & 7 == 4) as u8;
        lens[modrm] = has_sib
            + match modrm >> 6 {
                0 if modrm & 7 == 5 => 4,
                0 => 0,
                1 => 1,
                _ => 4,
            };
        modrm += 1;
    }
    lens
}

static PRIMARY: [u8; 256] = primary();
static SECONDARY: [u8; 256] = secondary();
static OPERAND_LENS: [u8; 256] = operand_lens();

/// Decodes the instruction at the start of `bytes`; `None` if it is cut short or is none
/// that this decoder knows.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Option<Instruction> {
    match bytes.first_chunk() {
        Some(window) => decode_window(window, LEN_MAX),
        None => {
            let mut window = [0; WINDOW];
            window[..bytes.len()].copy_from_slice(bytes);
            decode_window(&window, bytes.len())
        }
    }
}

/// A power of two above [`LEN_MAX`]: an offset is cut to it, and one that was too large
/// shows in the length.
const WINDOW: usize = 16;
type Window = [u8; WINDOW];

#[inline]
fn byte(window: &Window, at: usize) -> u8 {
    window[at % WINDOW]
}

/// An instruction's bytes up to the opcode, decoded.
struct Opcode {
    map: Map,
    opcode: u8,
    prefixes: u8,
    rex: u8,
    /// Offset of the next byte.
    at: usize,
}

#[inline]
fn decode_window(window: &Window, available: usize) -> Option<Instruction> {
    let rex = if window[0] & 0xf0 == 0x40 { window[0] } else { 0 };
    let before = (rex != 0) as usize;
    let mut o = Opcode { map: Map::Primary, opcode: byte(window, before), prefixes: 0, rex, at: before + 1 };
    let mut attribute = PRIMARY[o.opcode as usize];
    if attribute & 0xf >= PREFIX {
        attribute = extended(&mut o, attribute, window)?;
    }
    if attribute & X != 0 {
        return None;
    }
    let Opcode { map, opcode, prefixes, rex, mut at } = o;
    let (mut modrm, mut rip_displacement) = (0, 0);
    if attribute & M != 0 {
        modrm = byte(window, at);
        at += 1;
        if modrm & 0xc7 == 0x05 {
            rip_displacement = at as u8;
        } else if modrm & 0xc7 == 0x04 && byte(window, at) & 7 == 5 {
            at += 4;
        }
        at += OPERAND_LENS[modrm as usize] as usize;
    }
    let end = at + immediate_len(attribute & 0xf, prefixes, rex, modrm)?;
    if end > available {
        return None;
    }
    let may_leave = if attribute & F != 0 { MAY_LEAVE } else { 0 };
    let immediate = at as u8 | may_leave;
    Some(Instruction {
        len: NonZeroU8::new(end as u8)?,
        map,
        opcode,
        prefixes,
        rex,
        modrm,
        rip_displacement,
        immediate,
    })
}

/// Prefixes other than a single REX, and the maps behind escapes.
#[inline]
fn extended(o: &mut Opcode, mut attribute: u8, window: &Window) -> Option<u8> {
    while attribute & 0xf == PREFIX {
        // A REX prefix counts only directly before the opcode.
        o.rex = if o.opcode & 0xf0 == 0x40 { o.opcode } else { 0 };
        match o.opcode {
            0x66 => o.prefixes |= OPERAND16,
            0x67 => o.prefixes |= ADDRESS32,
            0xf0 => o.prefixes |= LOCK,
            0xf2 => o.prefixes |= REPNE,
            0xf3 => o.prefixes |= REP,
            _ => {}
        }
        if o.at >= LEN_MAX {
            return None;
        }
        o.opcode = byte(window, o.at);
        o.at += 1;
        attribute = PRIMARY[o.opcode as usize];
    }
    match attribute & 0xf {
        ESCAPE => {
            o.map = Map::Secondary;
            o.opcode = byte(window, o.at);
            o.at += 1;
            let (map, attribute) = match o.opcode {
                0x38 => (Map::Third38, M),
                0x3a => (Map::Third3A, M | IB),
                opcode => return Some(SECONDARY[opcode as usize]),
            };
            o.map = map;
            o.opcode = byte(window, o.at);
            o.at += 1;
            Some(attribute)
        }
        VECTOR if o.opcode == 0x62 => evex(o, window),
        VECTOR => vex(o, window),
        _ => Some(attribute),
    }
}

/// Whether an opcode of the `0f` map takes an immediate byte under VEX or EVEX.
fn vector_immediate(opcode: u8) -> u8 {
    match opcode {
        0x70..=0x73 | 0xc2 | 0xc4..=0xc6 => M | IB,
        _ => M,
    }
}

fn vex(o: &mut Opcode, window: &Window) -> Option<u8> {
    // SDM 2.3: with any of these before it, the instruction faults.
    if o.rex != 0 || o.prefixes & (LOCK | REP | REPNE | OPERAND16) != 0 {
        return None;
    }
    let first = byte(window, o.at);
    o.at += 1;
    let (map, last) = if o.opcode == 0xc5 {
        (1, first)
    } else {
        let second = byte(window, o.at);
        o.at += 1;
        (first & 0x1f, second)
    };
    o.prefixes |= [0, OPERAND16, REP, REPNE][(last & 3) as usize];
    o.opcode = byte(window, o.at);
    o.at += 1;
    let attribute;
    (o.map, attribute) = match map {
        1 if o.opcode == 0x77 => (Map::Vex0F, 0),
        1 => (Map::Vex0F, vector_immediate(o.opcode)),
        2 => (Map::Vex0F38, M),
        3 => (Map::Vex0F3A, M | IB),
        _ => return None,
    };
    Some(attribute)
}

fn evex(o: &mut Opcode, window: &Window) -> Option<u8> {
    if o.rex != 0 || o.prefixes & (LOCK | REP | REPNE | OPERAND16) != 0 {
        return None;
    }
    let payload = [0, 1, 3].map(|offset| byte(window, o.at + offset));
    // Bit 3 of the first byte is fixed to 0 and bit 2 of the second to 1 (SDM 2.7.1).
    if payload[0] & 8 != 0 || payload[1] & 4 == 0 {
        return None;
    }
    o.map = Map::Evex;
    o.opcode = payload[2];
    o.at += 4;
    match payload[0] & 7 {
        1 => Some(vector_immediate(o.opcode)),
        2 | 5 | 6 => Some(M),
        3 => Some(M | IB),
        _ => None,
    }
}

#[inline]
fn immediate_len(kind: u8, prefixes: u8, rex: u8, modrm: u8) -> Option<usize> {
    // None, IB and IW are their own lengths.
    if kind <= IW {
        return Some(kind as usize);
    }
    let wide = rex & REX_W != 0;
    let narrow = prefixes & OPERAND16 != 0 && !wide;
    let iz = if narrow { 2 } else { 4 };
    let is_test = modrm & 0x38 < 0x10;
    Some(match kind {
        IZ => iz,
        IV if wide => 8,
        IV => iz,
        MOFFS if prefixes & ADDRESS32 != 0 => 4,
        MOFFS => 8,
        ENTER => 3,
        GROUP3B => is_test as usize,
        GROUP3Z if is_test => iz,
        GROUP3Z => 0,
        POP if modrm & 0x38 == 0 => 0,
        // Under `66` AMD's processors take a 16-bit displacement and Intel's a 32-bit one.
        REL if narrow => return None,
        REL => 4,
        _ => return None,
    })
}

impl Instruction {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len.get() as usize
    }

    /// Offset of the immediate; the length if it has none.
    fn immediate(&self) -> usize {
        (self.immediate & !MAY_LEAVE) as usize
    }

    /// Length of the immediate in bytes.
    pub fn immediate_len(&self) -> usize {
        self.len() - self.immediate()
    }

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
        let at = self.immediate();
        match self.immediate_len() {
            1 => bytes[at] as i8 as i32,
            _ => i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]),
        }
    }

    /// Where control goes next; `bytes` are the ones that the instruction came from.
    #[inline]
    pub fn flow(&self, bytes: &[u8]) -> Flow {
        if self.immediate & MAY_LEAVE == 0 {
            return Flow::Next;
        }
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
            // Of the system instructions without operand, only xgetbv, rdpkru, wrpkru and rdtscp continue with the next
            // instruction. Others enter enclaves, hypervisors or transactions.
            (Map::Secondary, 0x01) => match self.modrm {
                0xd0 | 0xee | 0xef | 0xf9 | ..=0xbf => Flow::Next,
                _ => Flow::Other,
            },
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
