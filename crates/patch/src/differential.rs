//! Our decoder against a general disassembler, instruction by instruction.

use std::string::String;
use std::vec::Vec;
use std::{eprintln, format, println};

use iced_x86::{
    Code as Iced, Decoder, DecoderOptions, FlowControl, Instruction as Reference, InstructionInfoFactory, OpAccess,
    Register, UsedRegister,
};
use proptest::prelude::*;

use crate::decode::{Flow, Instruction, decode};
use crate::elf::Object;
use crate::plan::{may_write_rax, sets_eax};
use crate::vector::{VectorUse, vector_use};

/// Where the bytes are said to lie; every 32-bit displacement stays in range.
const IP: u64 = 0x7000_0000_0000;

struct Oracle {
    info: InstructionInfoFactory,
    /// Agreed, refused by ours alone, refused by the other alone.
    agreed: usize,
    refused: usize,
    accepted: usize,
    refused_first: Vec<String>,
}

impl Oracle {
    fn new() -> Self {
        Self { info: InstructionInfoFactory::new(), agreed: 0, refused: 0, accepted: 0, refused_first: Vec::new() }
    }

    /// Compares the two on the first instruction of `bytes`; returns the length that the
    /// other sees, 0 if none.
    fn compare(&mut self, bytes: &[u8]) -> usize {
        let mut decoder = Decoder::with_ip(64, bytes, IP, DecoderOptions::NONE);
        let reference = decoder.decode();
        let ours = decode(bytes);
        match (ours, reference.is_invalid()) {
            (None, true) => {}
            (Some(_), true) => self.accepted += 1,
            (None, false) => {
                self.refused += 1;
                if self.refused_first.len() < 20 {
                    self.refused_first.push(format!("{:?} {:02x?}", reference.code(), &bytes[..reference.len()]));
                }
            }
            (Some(i), false) => {
                self.agreed += 1;
                let context = format!("{:?}: {:02x?}: {i:?}", reference.code(), &bytes[..bytes.len().min(15)]);
                assert_eq!(i.len(), reference.len(), "length of {context}");
                assert!(flows_agree(&i, bytes, &reference), "flow of {context}");
                let displacement = decoder.get_constant_offsets(&reference).displacement_offset();
                let relative = if reference.is_ip_rel_memory_operand() { displacement } else { 0 };
                assert_eq!(i.rip_displacement as usize, relative, "displacement of {context}");
                let used = self.info.info(&reference).used_registers();
                assert!(vectors_agree(vector_use(&i), used, &reference), "vector use of {context}: {used:?}");
                assert!(rax_agrees(&i, &bytes[..i.len()], used), "use of rax of {context}");
                if i.is_movable(bytes) {
                    let plain = reference.flow_control() == FlowControl::Next
                        && !reference.is_privileged()
                        && !reference.has_lock_prefix()
                        && !reference.has_rep_prefix()
                        && !matches!(reference.code(), Iced::Endbr64 | Iced::Endbr32);
                    assert!(plain, "moving of {context}");
                }
            }
        }
        if reference.is_invalid() { 0 } else { reference.len() }
    }
}

fn flows_agree(i: &Instruction, bytes: &[u8], reference: &Reference) -> bool {
    let target = |by: i32| reference.near_branch_target() == (IP + i.len() as u64).wrapping_add_signed(by as i64);
    match (i.flow(bytes), reference.flow_control()) {
        (Flow::Next, FlowControl::Next) | (Flow::Return, FlowControl::Return) => true,
        (Flow::Jump(by), FlowControl::UnconditionalBranch) => target(by),
        (Flow::Branch(by), FlowControl::ConditionalBranch) => target(by),
        (Flow::Call(by), FlowControl::Call) => target(by),
        (Flow::CallIndirect, FlowControl::IndirectCall) => true,
        (Flow::JumpIndirect, FlowControl::IndirectBranch) => true,
        (Flow::Syscall, FlowControl::Call) => reference.code() == Iced::Syscall,
        (Flow::Fault, FlowControl::Exception | FlowControl::Interrupt) => true,
        (Flow::Fault, FlowControl::Next) => reference.code() == Iced::Hlt,
        // Far returns, interrupts, system enters and exits, transactions.
        (Flow::Other, _) => true,
        _ => false,
    }
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
}

/// Our decoder reports every register that the reference sees being read, and what it reports as overwritten is
/// overwritten without being read.
fn vectors_agree(ours: VectorUse, used: &[UsedRegister], reference: &Reference) -> bool {
    let is_other = |register: Register| {
        register.is_ymm() || register.is_zmm() || register.is_k() || register.is_mm() || register.is_st()
    };
    // Comparing or subtracting a register with itself is not seen as a constant there.
    let is_constant = reference.op_count() == 2 && reference.op0_register() == reference.op1_register() && {
        use iced_x86::Mnemonic::*;
        matches!(reference.mnemonic(), Pcmpeqb | Pcmpeqw | Pcmpeqd | Psubb | Psubw | Psubd | Psubq | Xorpd)
    };
    let xmm = |test: fn(OpAccess) -> bool| {
        let hits = used.iter().filter(|used| used.register().is_vector_register() && test(used.access()));
        hits.fold(0u32, |all, used| all | 1 << used.register().number())
    };
    let (read, written) = (if is_constant { 0 } else { xmm(reads) }, xmm(writes));
    let touches_other = used.iter().any(|used| is_other(used.register()) && used.access() != OpAccess::None);
    match ours {
        VectorUse::Unknown => true,
        // Writing alone does no harm either; vzeroupper and vzeroall are such.
        VectorUse::None => {
            let harmless = matches!(reference.code(), Iced::VEX_Vzeroupper | Iced::VEX_Vzeroall);
            harmless || (!touches_other && read == 0 && written == 0)
        }
        VectorUse::Xmm { reads: ours, writes: overwritten } => {
            let (ours, overwritten) = (ours as u32, overwritten as u32);
            !touches_other && read & !ours == 0 && overwritten & !written == 0
        }
    }
}

fn rax_agrees(i: &Instruction, bytes: &[u8], used: &[UsedRegister]) -> bool {
    let is_rax = |used: &&UsedRegister| used.register().full_register() == Register::RAX;
    let written = used.iter().filter(is_rax).any(|used| writes(used.access()));
    (may_write_rax(i) || !written) && (sets_eax(i, bytes).is_none() || written)
}

/// The executable segments of the libraries that most programs load.
fn with_code(mut test: impl FnMut(&str, &[u8])) {
    let mut seen = 0;
    for name in ["libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libcrypto.so.3"]
    {
        let folders = ["/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64"];
        let Some(file) = folders.iter().find_map(|folder| std::fs::read(format!("{folder}/{name}")).ok()) else {
            println!("SKIPPED: {name} is not here");
            continue;
        };
        seen += 1;
        for code in Object::of_file(&file, 0).unwrap().code() {
            test(name, code.bytes);
        }
    }
    assert!(seen > 0);
}

/// As a program would execute them.
#[test]
fn libraries_in_order() {
    with_code(|name, code| {
        let mut oracle = Oracle::new();
        let mut at = 0;
        while at < code.len() {
            at += oracle.compare(&code[at..]).max(1);
        }
        println!("{name}: {} agree, {} refused, {} accepted", oracle.agreed, oracle.refused, oracle.accepted);
        if !oracle.refused_first.is_empty() {
            eprintln!("{:#?}", oracle.refused_first);
        }
        // Instructions that programs do not contain may be refused; those they contain must be known.
        assert!(oracle.refused * 2000 <= oracle.agreed, "{name}");
    });
}

/// At every byte, so that also the rarest encodings turn up.
#[test]
fn libraries_at_every_byte() {
    with_code(|name, code| {
        let mut oracle = Oracle::new();
        for at in 0..code.len().min(1 << 20) {
            oracle.compare(&code[at..code.len().min(at + 15)]);
        }
        println!("{name}: {} agree, {} refused, {} accepted", oracle.agreed, oracle.refused, oracle.accepted);
    });
}

const ESCAPES: &[&[u8]] = &[&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a], &[0xc5], &[0xc4], &[0x62]];

proptest! {
    #![proptest_config(ProptestConfig { cases: 50_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random bytes behind random prefixes and escapes, cut anywhere.
    #[test]
    fn random_bytes(
        prefixes in proptest::collection::vec(
            prop::sample::select(&[0x66u8, 0x67, 0xf0, 0xf2, 0xf3, 0x2e, 0x64, 0x40, 0x48, 0x41, 0x4f][..]), 0..4),
        escape in prop::sample::select(ESCAPES),
        rest in proptest::collection::vec(any::<u8>(), 0..16),
    ) {
        let mut bytes = prefixes;
        bytes.extend_from_slice(escape);
        bytes.extend_from_slice(&rest);
        Oracle::new().compare(&bytes);
    }
}
