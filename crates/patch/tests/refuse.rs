//! What must not be patched, and what must not be believed about vector registers.

#![allow(clippy::single_range_in_vec_init, reason = "a program may have one function")]

use std::ops::Range;

use entresol_patch::{Census, Code, EmitError, Form, Function, Functions, STUB_LEN_MAX, Site, Slots, Trust};
use entresol_patch::{emit_jump, emit_stub, plan};

const BASE: u64 = 0x5555_0000_0000;
const DATA: u64 = BASE + 0x10_0000;

const MOV_NUMBER: [u8; 5] = [0xb8, 0x27, 0, 0, 0];
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const RET: [u8; 1] = [0xc3];

/// Functions, and offsets that are exported.
struct Known {
    functions: Vec<Function>,
    exported: Vec<u64>,
}

impl Functions for Known {
    fn last_from(&self, address: u64) -> Option<(Function, u64)> {
        self.functions.as_slice().last_from(address)
    }

    fn entries(&self, visit: &mut dyn FnMut(u64)) {
        self.exported.iter().for_each(|&entry| visit(entry));
    }
}

/// Plans `code`, whose functions and exported symbols are at these offsets.
fn planned(code: &[u8], functions: &[Range<u64>], exported: &[u64], data: &[u8]) -> (Vec<Site>, Census) {
    trusted(Trust::LibC, code, functions, exported, data)
}

fn trusted(trust: Trust, code: &[u8], functions: &[Range<u64>], exported: &[u64], data: &[u8]) -> (Vec<Site>, Census) {
    let functions = functions.iter().map(|range| BASE + range.start..BASE + range.end).collect();
    let known = Known { functions, exported: exported.iter().map(|offset| BASE + offset).collect() };
    let mut sites = Vec::new();
    let data = [(DATA, data)];
    let code = Code { bytes: code, address: BASE, functions: &known, data: &data };
    let census = plan(&code, trust, &mut sites).unwrap();
    (sites, census)
}

/// Plans `parts` as one function.
fn one(parts: &[&[u8]]) -> (Vec<Site>, Census) {
    let code = parts.concat();
    planned(&code, &[0..code.len() as u64], &[0], &[])
}

#[test]
fn pairs_inside_other_instructions() {
    // movabs $…0f05…,%rax; mov $0x050f,%ecx; add 0x050f(%rbx),%eax
    let (sites, census) = one(&[
        &[0x48, 0xb8, 0x0f, 0x05, 0x0f, 0x05, 0x90, 0x90, 0x0f, 0x05],
        &[0xb9, 0x0f, 0x05, 0, 0],
        &[0x03, 0x83, 0x0f, 0x05, 0, 0],
        &RET,
    ]);
    assert_eq!(sites, []);
    assert_eq!((census.pairs, census.syscalls, census.unknown), (5, 0, 0));
}

#[test]
fn outside_of_functions() {
    let code = [&MOV_NUMBER[..], &SYSCALL, &RET].concat();
    let (sites, census) = planned(&code, &[], &[], &[]);
    assert_eq!((sites.len(), census.unknown), (0, 1));
    // Behind a function that returns there may be anything.
    let code = [&RET[..], &MOV_NUMBER, &SYSCALL, &RET, &RET].concat();
    let (sites, census) = planned(&code, &[0..1, 9..10], &[], &[]);
    assert_eq!((sites.len(), census.unknown), (0, 1));
}

#[test]
fn code_behind_the_unwind_information_of_clone() {
    // mov $56,%eax ends its function; syscall; test; ret; then the next begins.
    let code = [&[0x31, 0xff][..], &MOV_NUMBER, &SYSCALL, &[0x85, 0xc0], &RET, &RET].concat();
    let (sites, _) = planned(&code, &[0..7, 12..13], &[], &[]);
    assert_eq!(sites.len(), 1);
    assert_eq!((sites[0].address, sites[0].form), (BASE + 2, Form::Number));
    // If an instruction lies across the end, the end is wrong.
    assert_eq!(planned(&code, &[0..6, 12..13], &[], &[]).0, []);
}

#[test]
fn undecodable_functions() {
    let (sites, census) = one(&[&MOV_NUMBER, &SYSCALL, &[0x06], &RET]);
    assert_eq!((sites.len(), census.unknown), (0, 1));
}

#[test]
fn signal_restorer() {
    let code = [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0][..], &SYSCALL, &[0x90; 8]].concat();
    let restorers = |trust, functions: &[Range<u64>]| {
        let (sites, census) = trusted(trust, &code, functions, &[], &[]);
        (sites.len(), census.restorers, census.unknown)
    };
    // Go's, which debuggers know by its bytes; glibc's; musl's, which has no unwind information.
    assert_eq!(restorers(Trust::Unknown, &[0..9]), (0, 1, 0));
    assert_eq!(restorers(Trust::LibC, &[0..9]), (1, 0, 0));
    assert_eq!(restorers(Trust::LibC, &[]), (0, 0, 1));
    // The code behind it is not executed, and a handler leaves any state.
    assert!(!trusted(Trust::LibC, &code, &[0..9], &[], &[]).0[0].vectors_dead);
}

#[test]
fn no_room() {
    // ret; syscall; ret
    let (sites, census) = one(&[&[0x74, 0x01], &RET, &SYSCALL, &RET]);
    assert_eq!((sites.len(), census.no_room), (0, 1));
    // Locked and repeated instructions stay.
    for stays in [&[0xf0, 0x48, 0x0f, 0xc1, 0x07][..], &[0xf3, 0xa4], &[0xf3, 0x0f, 0x1e, 0xfa], &[0xe8, 0, 0, 0, 0]] {
        let (sites, census) = one(&[stays, &SYSCALL, stays, &RET]);
        assert_eq!((sites.len(), census.no_room), (0, 1), "{stays:x?}");
    }
}

#[test]
fn branch_to_the_syscall() {
    // 1: mov; 2: syscall; ret …; and elsewhere in the function a jump to 2.
    let jump: [u8; 2] = [0xeb, 0xfa];
    let (sites, census) = one(&[&MOV_NUMBER, &SYSCALL, &RET, &[0x90], &jump, &RET]);
    assert_eq!((census.syscalls, sites.len()), (1, 0));
    // To the mov is no harm.
    let (sites, _) = one(&[&MOV_NUMBER, &SYSCALL, &RET, &[0x90], &[0xeb, 0xf5], &RET]);
    assert_eq!(sites.len(), 1);
    // With room behind the syscall, that is taken.
    let compare = [0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff];
    let (sites, _) = one(&[&MOV_NUMBER, &SYSCALL, &compare, &[0xeb, 0xf6], &RET]);
    assert_eq!((sites.len(), sites[0].form, sites[0].number), (1, Form::After, None));
}

/// `mov; syscall; ret` at 0, and at `from` another function that is `bytes`.
fn with_stranger(from: usize, bytes: &[u8]) -> usize {
    let mut code = [&MOV_NUMBER[..], &SYSCALL, &RET].concat();
    code.resize(from, 0xcc);
    code.extend_from_slice(bytes);
    let end = code.len() as u64;
    code.resize(end as usize + 64, 0xcc);
    planned(&code, &[0..8, from as u64..end], &[0], &[]).0.len()
}

#[test]
fn branches_from_elsewhere() {
    // jmp, je and call to offset 5, the syscall, from far away, in a cold part.
    let back = |from: usize, len: usize, to: i32| (to - (from + len) as i32).to_le_bytes();
    for (opcode, len) in [(&[0xe9][..], 5), (&[0xe8], 5), (&[0x0f, 0x84], 6)] {
        let jump_to = |to: i32| [opcode, &back(0x1000, len, to), &RET].concat();
        assert_eq!(with_stranger(0x1000, &jump_to(5)), 0, "{opcode:x?}");
        assert_eq!(with_stranger(0x1000, &jump_to(0)), 1, "{opcode:x?}");
        assert_eq!(with_stranger(0x1000, &jump_to(7)), 1, "{opcode:x?}");
    }
    // The same bytes inside another instruction: movabs.
    let hidden = [&[0x48, 0xb8, 0xe9][..], &back(0x1002, 5, 5), &[0, 0, 0], &RET].concat();
    assert_eq!(with_stranger(0x1000, &hidden), 1);
    // A short jump from a neighbour.
    assert_eq!(with_stranger(0x20, &[0xeb, (5i32 - 0x22) as u8, 0xc3]), 0);
    assert_eq!(with_stranger(0x20, &[0x74, (5i32 - 0x22) as u8, 0xc3]), 0);
    assert_eq!(with_stranger(0x20, &[0xeb, (0i32 - 0x22) as u8, 0xc3]), 1);
    assert_eq!(with_stranger(0x20, &[0xb8, 0xeb, (5i32 - 0x23) as u8, 0, 0, 0xc3]), 1);
}

#[test]
fn branches_from_unknown_bytes_count() {
    let mut code = [&MOV_NUMBER[..], &SYSCALL, &RET].concat();
    code.resize(0x1000, 0xcc);
    code.extend_from_slice(&[0xe9]);
    code.extend_from_slice(&(5 - 0x1005i32).to_le_bytes());
    code.resize(0x1100, 0xcc);
    assert_eq!(planned(&code, &[0..8], &[0], &[]).0.len(), 0);
    // Also between two functions.
    assert_eq!(planned(&code, &[0..8, 0x1080..0x1090], &[0], &[]).0.len(), 0);
}

#[test]
fn exported_symbol_inside() {
    let code = [&MOV_NUMBER[..], &SYSCALL, &RET].concat();
    assert_eq!(planned(&code, &[0..8], &[0], &[]).0.len(), 1);
    assert_eq!(planned(&code, &[0..8], &[0, 5], &[]).0.len(), 0);
}

#[test]
fn switch_tables() {
    // lea table(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax;
    // mov $39,%eax; 0x15: syscall; ret
    let lea_end = 7i64;
    let displacement = ((DATA - BASE) as i64 - lea_end) as i32;
    let code = [
        &[0x48, 0x8d, 0x15][..],
        &displacement.to_le_bytes(),
        &[0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0],
        &MOV_NUMBER,
        &SYSCALL,
        &RET,
    ]
    .concat();
    let table = |targets: &[u64]| -> Vec<u8> {
        let entry = |target: &u64| ((BASE + target) as i64 - DATA as i64) as i32;
        targets.iter().flat_map(|target| entry(target).to_le_bytes()).collect()
    };
    let function = [0..code.len() as u64];
    assert_eq!(planned(&code, &function, &[0], &table(&[0x10, 0x17])).0.len(), 1);
    assert_eq!(planned(&code, &function, &[0], &table(&[0x10, 0x15])).0.len(), 0);
}

/// Whether the planner finds the vector registers dead after a system call that is
/// followed by `parts`.
fn dead(trust: Trust, parts: &[&[u8]]) -> bool {
    let code = [&MOV_NUMBER[..], &SYSCALL, &parts.concat()].concat();
    let functions = [BASE..BASE + code.len() as u64];
    let mut sites = Vec::new();
    let code = Code { bytes: &code, address: BASE, functions: &functions, data: &[] };
    plan(&code, trust, &mut sites).unwrap();
    assert_eq!(sites.len(), 1);
    sites[0].vectors_dead
}

const READ_XMM1: [u8; 4] = [0x0f, 0x11, 0x0c, 0x24]; // movups %xmm1,(%rsp)
const ZERO_XMM1: [u8; 4] = [0x66, 0x0f, 0xef, 0xc9]; // pxor %xmm1,%xmm1
const LOAD_XMM1: [u8; 4] = [0xf3, 0x0f, 0x6f, 0x0e]; // movdqu (%rsi),%xmm1
const CALL: [u8; 5] = [0xe8, 0, 0x01, 0, 0];

#[test]
fn vectors_read_and_written() {
    let libc = |parts: &[&[u8]]| dead(Trust::LibC, parts);
    assert!(libc(&[&RET]));
    assert!(!libc(&[&READ_XMM1, &RET]));
    assert!(libc(&[&ZERO_XMM1, &READ_XMM1, &RET]));
    assert!(libc(&[&LOAD_XMM1, &READ_XMM1, &RET]));
    // paddd %xmm2,%xmm1 with xmm2 unknown; movss between registers keeps the rest.
    assert!(!libc(&[&ZERO_XMM1, &[0x66, 0x0f, 0xfe, 0xca], &RET]));
    assert!(!libc(&[&[0xf3, 0x0f, 0x10, 0xc8], &RET]));
    // movhps keeps the lower half, cvtsi2sd the upper one.
    assert!(!libc(&[&[0x0f, 0x16, 0x0e], &RET]));
    assert!(!libc(&[&[0xf2, 0x48, 0x0f, 0x2a, 0xcf], &RET]));
    assert!(libc(&[&ZERO_XMM1, &[0xf2, 0x48, 0x0f, 0x2a, 0xcf], &RET]));
    // AVX, AVX-512, masks, x87, MMX, xsave, fxsave.
    for unknown in [
        &[0xc5, 0xf8, 0x10, 0x06][..],
        &[0x62, 0xf1, 0x7c, 0x48, 0x10, 0x06],
        &[0xc5, 0xf8, 0x90, 0xc1],
        &[0xd9, 0xe8],
        &[0x0f, 0x6f, 0x06],
        &[0x0f, 0xae, 0x26],
        &[0x0f, 0xae, 0x06],
        &[0x0f, 0xc7, 0x26],
    ] {
        assert!(!libc(&[unknown, &RET]), "{unknown:x?}");
    }
    // ldmxcsr, stmxcsr, fldcw, fnstcw, vzeroupper, shlx: control words and general registers.
    for harmless in [
        &[0x0f, 0xae, 0x16][..],
        &[0x0f, 0xae, 0x1e],
        &[0xd9, 0x2e],
        &[0xd9, 0x3e],
        &[0xc5, 0xf8, 0x77],
        &[0xc4, 0xe2, 0xf9, 0xf7, 0xd2],
    ] {
        assert!(libc(&[harmless, &RET]), "{harmless:x?}");
    }
}

#[test]
fn vectors_on_every_path() {
    let libc = |parts: &[&[u8]]| dead(Trust::LibC, parts);
    // je over a ret to the reader.
    assert!(!libc(&[&[0x74, 0x01], &RET, &READ_XMM1, &RET]));
    // One path writes, the other does not; they meet at the reader.
    assert!(!libc(&[&[0x74, 0x04], &ZERO_XMM1, &READ_XMM1, &RET]));
    assert!(libc(&[&[0x74, 0x06], &ZERO_XMM1, &[0xeb, 0x04], &LOAD_XMM1, &READ_XMM1, &RET]));
    // A loop that reads what its own later part writes: jmp back.
    assert!(!libc(&[&READ_XMM1, &ZERO_XMM1, &[0xeb, 0xf6]]));
    assert!(libc(&[&ZERO_XMM1, &READ_XMM1, &[0xeb, 0xfa]]));
    // Faults end a path; so does nothing, the end of the code.
    assert!(libc(&[&[0x0f, 0x0b]]));
    assert!(!libc(&[&[0x90]]));
}

#[test]
fn vectors_beyond_the_function() {
    assert!(dead(Trust::LibC, &[&CALL, &READ_XMM1, &RET]));
    assert!(!dead(Trust::Unknown, &[&CALL, &RET]));
    assert!(!dead(Trust::Unknown, &[&RET]));
    assert!(dead(Trust::Unknown, &[&[0x0f, 0x0b]]));
    // jmp *disp(%rip) is a call; jmp *%rax may be a switch.
    assert!(dead(Trust::LibC, &[&[0xff, 0x25, 0, 0, 0, 0]]));
    assert!(!dead(Trust::LibC, &[&[0xff, 0xe0]]));
    assert!(!dead(Trust::LibC, &[&[0xcd, 0x80], &RET]));
}

#[test]
fn emitting_far_away_or_late_fails() {
    let bytes = [&MOV_NUMBER[..], &SYSCALL, &RET].concat();
    let functions = [BASE..BASE + 8];
    let code = Code { bytes: &bytes, address: BASE, functions: &functions, data: &[] };
    let mut sites = Vec::new();
    plan(&code, Trust::LibC, &mut sites).unwrap();
    let near = BASE + 0x1000;
    let slots = Slots { vectors_dead: near + 0x100, vectors_live: near + 0x108 };
    let mut out = [0; STUB_LEN_MAX];
    let mut emit = |code: &Code<'_>, at: u64, len: usize| emit_stub(&sites[0], code, at, slots, 1, &mut out[..len]);
    assert!(emit(&code, near, STUB_LEN_MAX).is_ok());
    assert_eq!(emit(&code, near, 10), Err(EmitError::NoRoom));
    assert_eq!(emit(&code, near + (1 << 32), STUB_LEN_MAX), Err(EmitError::TooFar));
    assert_eq!(emit_jump(&sites[0], near + (1 << 32), &mut [0; 16]), Err(EmitError::TooFar));
    assert_eq!(emit_jump(&sites[0], near, &mut [0; 6]), Err(EmitError::NoRoom));
    let other = [0x90; 8];
    let changed = Code { bytes: &other, ..code };
    assert_eq!(emit(&changed, near, STUB_LEN_MAX), Err(EmitError::Changed));
}
