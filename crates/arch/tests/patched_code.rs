//! Patched code does what unpatched code does: both are executed.

#[path = "patched/machine.rs"]
mod machine;

use machine::*;
use patch::{Form, Site, Trust};
use proptest::prelude::*;

/// Runs `code` with real system calls, patches it and runs it again; returns the site.
/// Everything must be the same but rcx and r11.
fn same(name: &str, code: &[u8], trust: Trust) -> Site {
    let _lock = lock();
    let machine = Machine::new();
    machine.load(code, &[]);
    let sites = machine.plan(code, trust);
    assert_eq!(sites.len(), 1, "{name}: {sites:x?}");
    let registers = pattern();
    let mut expected = machine.run(0, registers);

    let stubs = machine.patch(code, &sites);
    let (mut got, arrivals) = machine.run_patched(0, registers);
    assert_eq!(arrivals.len(), 1, "{name}: reached the kernel more or less than once");
    let arrival = &arrivals[0];
    assert_eq!(arrival.registers[R11], LIBRARY as u64, "{name}");
    assert_eq!(arrival.registers[RCX], stubs[0].return_to, "{name}");
    assert_eq!(arrival.registers[RAX] as u32, NUMBER, "{name}");
    assert_eq!(arrival.vectors_dead, sites[0].vectors_dead, "{name}");
    for scratch in [RCX, R11] {
        (expected[scratch], got[scratch]) = (0, 0);
    }
    assert_eq!(got, expected, "{name}");
    sites[0]
}

/// `mov $NUMBER, %eax`.
const MOV_NUMBER: [u8; 5] = [0xb8, 0x77, 0x77, 0, 0];
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const RET: [u8; 1] = [0xc3];
/// `cmp $-4095, %rax`.
const COMPARE: [u8; 6] = [0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff];
/// A jump over one byte: what follows that byte is the target of a branch.
const LABEL: [u8; 3] = [0xeb, 0x01, 0xcc];
const NOP: [u8; 1] = [0x90];

fn code(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn number_before() {
    let site = same("number", &code(&[&MOV_NUMBER, &SYSCALL, &RET]), Trust::LibC);
    assert_eq!((site.form, site.before, site.after), (Form::Number, 5, 0));
    assert_eq!(site.number, Some(NUMBER));
    assert!(site.vectors_dead);
}

#[test]
fn unknown_callers_may_keep_vectors() {
    let site = same("trust", &code(&[&MOV_NUMBER, &SYSCALL, &RET]), Trust::Unknown);
    assert!(!site.vectors_dead);
}

#[test]
fn other_instructions_before() {
    // mov %rdi,%rbx; mov $NUMBER,%eax; xor %r10d,%r10d; xor $0x81,%sil
    let parts: [&[u8]; 6] =
        [&[0x48, 0x89, 0xfb], &MOV_NUMBER, &[0x45, 0x31, 0xd2], &[0x40, 0x80, 0xf6, 0x81], &SYSCALL, &RET];
    let site = same("before", &code(&parts), Trust::LibC);
    assert_eq!((site.form, site.before, site.after, site.number), (Form::Before, 4, 0, Some(NUMBER)));
}

#[test]
fn own_address_before() {
    // lea 0x12345(%rip),%rsi; cmpl $5,-0x20(%rip), which reads the code itself
    let lea = [0x48, 0x8d, 0x35, 0x45, 0x23, 0x01, 0x00];
    let site = same("lea", &code(&[&MOV_NUMBER, &lea, &SYSCALL, &RET]), Trust::LibC);
    assert_eq!((site.form, site.before), (Form::Before, 7));
    let compare = [0x83, 0x3d, 0xf4, 0xff, 0xff, 0xff, 0x05];
    let set = [0x0f, 0x92, 0xc2];
    let site = same("cmpl", &code(&[&MOV_NUMBER, &compare, &SYSCALL, &set, &RET]), Trust::LibC);
    assert_eq!((site.form, site.before), (Form::Before, 7));
}

#[test]
fn stack_and_red_zone() {
    // mov %rbx,-8(%rsp); mov %rdx,-128(%rsp); push and pop around the system call
    let store: [u8; 10] = [0x48, 0x89, 0x5c, 0x24, 0xf8, 0x48, 0x89, 0x54, 0x24, 0x80];
    let load: [u8; 10] = [0x48, 0x8b, 0x74, 0x24, 0xf8, 0x48, 0x8b, 0x7c, 0x24, 0x80];
    same("red zone", &code(&[&store, &MOV_NUMBER, &SYSCALL, &load, &RET]), Trust::LibC);
    // mov $NUMBER,%eax; push %rbx; push %rdx; pushq $3; syscall; pop …
    let push: [u8; 4] = [0x53, 0x52, 0x6a, 0x03];
    let pop: [u8; 3] = [0x5d, 0x5e, 0x5f];
    same("push", &code(&[&MOV_NUMBER, &NOP, &push, &SYSCALL, &pop, &RET]), Trust::LibC);
}

#[test]
fn compare_after() {
    // The label keeps what stands before out: syscall; cmp; setae %dl
    let set = [0x0f, 0x93, 0xc2];
    let site = same("cmp", &code(&[&MOV_NUMBER, &LABEL, &SYSCALL, &COMPARE, &set, &RET]), Trust::LibC);
    assert_eq!((site.form, site.before, site.after, site.number), (Form::After, 0, 6, None));
}

#[test]
fn branch_after() {
    // syscall; test %eax,%eax; js 1f; mov $1,%edx; 1: ret
    let parts: [&[u8]; 6] = [&MOV_NUMBER, &LABEL, &SYSCALL, &[0x85, 0xc0, 0x78, 0x05], &[0xba, 1, 0, 0, 0], &RET];
    let site = same("js taken", &code(&parts), Trust::LibC);
    assert_eq!((site.form, site.after), (Form::After, 4));
    // The same with jns, which is not taken, and in its long form.
    let parts: [&[u8]; 6] = [&MOV_NUMBER, &LABEL, &SYSCALL, &[0x85, 0xc0, 0x79, 0x05], &[0xba, 1, 0, 0, 0], &RET];
    same("jns not taken", &code(&parts), Trust::LibC);
    let parts: [&[u8]; 6] = [&MOV_NUMBER, &LABEL, &SYSCALL, &[0x0f, 0x88, 5, 0, 0, 0], &[0xba, 1, 0, 0, 0], &RET];
    let site = same("long js", &code(&parts), Trust::LibC);
    assert_eq!((site.form, site.after), (Form::After, 6));
}

#[test]
fn jump_after() {
    // syscall; xor %edx,%edx; jmp over a trap; ret
    let parts: [&[u8]; 6] = [&MOV_NUMBER, &LABEL, &SYSCALL, &[0x31, 0xd2, 0xeb, 0x01], &[0xcc], &RET];
    let site = same("jmp", &code(&parts), Trust::LibC);
    assert_eq!((site.form, site.after), (Form::After, 4));
}

#[test]
fn return_after() {
    // syscall; mov %eax,%edx; ret
    let site = same("ret", &code(&[&MOV_NUMBER, &LABEL, &SYSCALL, &[0x89, 0xc2], &RET]), Trust::LibC);
    assert_eq!((site.form, site.after), (Form::After, 3));
}

#[test]
fn both_sides() {
    // mov $NUMBER,%ebp; label: mov %ebp,%eax; syscall; test %eax,%eax; pause, which stays
    let parts: [&[u8]; 6] =
        [&[0xbd, 0x77, 0x77, 0, 0], &LABEL, &[0x89, 0xe8], &SYSCALL, &[0x85, 0xc0, 0xf3, 0x90], &RET];
    let site = same("both", &code(&parts), Trust::LibC);
    assert_eq!((site.form, site.before, site.after), (Form::Around, 2, 2));
}

#[test]
fn two_neighbours() {
    let _lock = lock();
    let machine = Machine::new();
    let code = code(&[&MOV_NUMBER, &SYSCALL, &MOV_NUMBER, &SYSCALL, &MOV_NUMBER, &SYSCALL, &RET]);
    machine.load(&code, &[]);
    let sites = machine.plan(&code, Trust::LibC);
    assert_eq!(sites.len(), 3);
    machine.patch(&code, &sites);
    let (after, arrivals) = machine.run_patched(0, pattern());
    assert_eq!((arrivals.len(), after[RAX]), (3, ENOSYS));
    assert_eq!(after[RBX], pattern()[RBX]);
}

/// Instructions that may stand anywhere: they write neither rax, rcx, r11 nor rsp and
/// touch no memory but the red zone.
const POOL: &[&[u8]] = &[
    &[0x31, 0xff],                               // xor %edi,%edi
    &[0x48, 0x89, 0xfe],                         // mov %rdi,%rsi
    &[0x45, 0x31, 0xd2],                         // xor %r10d,%r10d
    &[0x40, 0x80, 0xf6, 0x81],                   // xor $0x81,%sil
    &[0xba, 0x78, 0x56, 0x34, 0x12],             // mov $0x12345678,%edx
    &[0x48, 0x83, 0xc7, 0x01],                   // add $1,%rdi
    &[0x48, 0x39, 0xd7],                         // cmp %rdx,%rdi
    &[0x48, 0x0f, 0x46, 0xf7],                   // cmovbe %rdi,%rsi
    &[0x0f, 0x95, 0xc3],                         // setne %bl
    &[0x48, 0x8d, 0x35, 0x10, 0x00, 0x00, 0x00], // lea 16(%rip),%rsi
    &[0x48, 0x03, 0x15, 0x20, 0x90, 0x00, 0x00], // add 0x9020(%rip),%rdx: the data
    &[0x48, 0x89, 0x5c, 0x24, 0xf0],             // mov %rbx,-16(%rsp)
    &[0x4c, 0x8b, 0x64, 0x24, 0xf0],             // mov -16(%rsp),%r12
    &[0x49, 0xbd, 1, 2, 3, 4, 5, 0x0f, 0x05, 8], // movabs $…,%r13, which holds 0f 05
    &[0x41, 0xc1, 0xe1, 0x07],                   // shl $7,%r9d
    &[0x48, 0x0f, 0xaf, 0xda],                   // imul %rdx,%rbx
    &[0x48, 0x11, 0xdd],                         // adc %rbx,%rbp: reads flags
    &[0x0f, 0xb6, 0xd2],                         // movzbl %dl,%edx
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],       // nopw
];

#[derive(Clone, Debug)]
enum Part {
    Plain(usize),
    /// A conditional forward branch (condition, instructions skipped).
    Branch(u8, usize),
    Syscall,
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        6 => (0..POOL.len()).prop_map(Part::Plain),
        1 => (0..16u8, 0..4usize).prop_map(|(condition, skip)| Part::Branch(condition, skip)),
    ]
}

/// The parts' bytes with short branches filled in.
fn assemble(parts: &[Vec<u8>], branches: &[Option<usize>]) -> Vec<u8> {
    let mut starts = vec![0];
    for part in parts {
        starts.push(starts.last().unwrap() + part.len());
    }
    let mut bytes = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        bytes.extend_from_slice(part);
        if let Some(skip) = branches[index] {
            let target = (index + 1 + skip).min(parts.len() - 1);
            *bytes.last_mut().unwrap() = (starts[target] - starts[index + 1]) as u8;
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random neighbours, with branches in between: whatever the planner makes of them,
    /// the registers come out the same.
    #[test]
    fn any_neighbours(
        before in proptest::collection::vec(part(), 0..7),
        after in proptest::collection::vec(part(), 0..6),
        number_at in 0..8usize,
        mut registers in any::<Registers>(),
    ) {
        // First something that may be read back: mov %rbx,-16(%rsp).
        let mut parts = vec![vec![0x48, 0x89, 0x5c, 0x24, 0xf0]];
        let mut branches = vec![None];
        let mut add = |part: &Part| {
            let (bytes, branch) = match part {
                Part::Plain(index) => (POOL[*index].to_vec(), None),
                Part::Branch(condition, skip) => (vec![0x70 | condition, 0], Some(*skip)),
                Part::Syscall => (SYSCALL.to_vec(), None),
            };
            parts.push(bytes);
            branches.push(branch);
        };
        before.iter().for_each(&mut add);
        add(&Part::Syscall);
        after.iter().for_each(&mut add);
        let number_at = (number_at + 1).min(before.len() + 1);
        parts.insert(number_at, MOV_NUMBER.to_vec());
        branches.insert(number_at, None);
        parts.push(RET.to_vec());
        branches.push(None);
        let code = assemble(&parts, &branches);
        // The number's move may be jumped over.
        registers[RAX] = NUMBER as u64;

        let _lock = lock();
        let machine = Machine::new();
        let data: Vec<u8> = (0..512u32).map(|at| ((at * 37) >> 2) as u8).collect();
        machine.load(&code, &data);
        let sites = machine.plan(&code, Trust::LibC);
        let mut expected = machine.run(0, registers);
        machine.patch(&code, &sites);
        let (mut got, arrivals) = machine.run_patched(0, registers);
        prop_assert!(sites.len() <= 1);
        prop_assert!(arrivals.len() <= sites.len());
        for scratch in [RCX, R11] {
            (expected[scratch], got[scratch]) = (0, 0);
        }
        prop_assert_eq!(got, expected);
        for (arrival, site) in arrivals.iter().zip(&sites) {
            prop_assert!(site.number.is_none_or(|number| number as u64 == arrival.registers[RAX]));
        }
    }
}
