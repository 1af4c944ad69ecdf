//! Runs pieces of machine code with chosen registers, with real system calls or with a
//! fake kernel behind the patched ones.

use std::arch::global_asm;

use patch::{Code, Function, Functions, Site, Slots, Stub, Trust, emit_jump, emit_stub, plan};

/// The general registers but rsp, in this order: rax, rbx, rcx, rdx, rsi, rdi, rbp, r8 to
/// r15, flags.
pub type Registers = [u64; 16];
pub const RAX: usize = 0;
pub const RBX: usize = 1;
pub const RCX: usize = 2;
pub const R11: usize = 10;
pub const FLAGS: usize = 15;

/// Carry, parity, zero, sign and overflow: what instructions leave behind.
const ARITHMETIC_FLAGS: u64 = 0x8c5;

/// A number that no kernel knows: every such call gives ENOSYS and does nothing.
pub const NUMBER: u32 = 0x7777;
pub const ENOSYS: u64 = -38i64 as u64;

unsafe extern "C" {
    /// Calls `code` with `registers`, and writes them back as `code` leaves them.
    fn patch_test_run(code: *const u8, registers: *mut Registers);
    /// What a patched site arrives at: records the registers and gives ENOSYS.
    fn patch_test_entry();
    /// As above; the other entry.
    fn patch_test_entry_live();
    /// The registers at the last arrival; flags hold the arithmetic ones only.
    static mut patch_test_record: Registers;
    /// How often each entry was reached.
    static mut patch_test_arrivals: [u64; 2];
}

global_asm!(
    "
    .text
patch_test_run:
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    push rsi
    push rdi
    push qword ptr [rsi + 120]
    popfq
    mov rax, [rsi]
    mov rbx, [rsi + 8]
    mov rcx, [rsi + 16]
    mov rdx, [rsi + 24]
    mov rdi, [rsi + 40]
    mov rbp, [rsi + 48]
    mov r8, [rsi + 56]
    mov r9, [rsi + 64]
    mov r10, [rsi + 72]
    mov r11, [rsi + 80]
    mov r12, [rsi + 88]
    mov r13, [rsi + 96]
    mov r14, [rsi + 104]
    mov r15, [rsi + 112]
    mov rsi, [rsi + 32]
    call [rsp]
    pushfq
    push rsi
    mov rsi, [rsp + 24]
    mov [rsi], rax
    mov [rsi + 8], rbx
    mov [rsi + 16], rcx
    mov [rsi + 24], rdx
    pop qword ptr [rsi + 32]
    mov [rsi + 40], rdi
    mov [rsi + 48], rbp
    mov [rsi + 56], r8
    mov [rsi + 64], r9
    mov [rsi + 72], r10
    mov [rsi + 80], r11
    mov [rsi + 88], r12
    mov [rsi + 96], r13
    mov [rsi + 104], r14
    mov [rsi + 112], r15
    pop qword ptr [rsi + 120]
    pop rdi
    pop rsi
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    cld
    ret

.macro patch_test_arrive which
    mov [rip + patch_test_record], rax
    lahf
    seto al
    mov [rip + patch_test_flags], ax
    mov qword ptr [rip + patch_test_which], \\which
.endm

    // Flags must come back as they were, like from a real system call; nothing may be
    // pushed.
patch_test_entry:
    patch_test_arrive 0
    jmp 2f
patch_test_entry_live:
    patch_test_arrive 1
2:
    mov [rip + patch_test_record + 8], rbx
    mov [rip + patch_test_record + 16], rcx
    mov [rip + patch_test_record + 24], rdx
    mov [rip + patch_test_record + 32], rsi
    mov [rip + patch_test_record + 40], rdi
    mov [rip + patch_test_record + 48], rbp
    mov [rip + patch_test_record + 56], r8
    mov [rip + patch_test_record + 64], r9
    mov [rip + patch_test_record + 72], r10
    mov [rip + patch_test_record + 80], r11
    mov [rip + patch_test_record + 88], r12
    mov [rip + patch_test_record + 96], r13
    mov [rip + patch_test_record + 104], r14
    mov [rip + patch_test_record + 112], r15
    lea r11, [rip + patch_test_arrivals]
    mov rax, [rip + patch_test_which]
    inc qword ptr [r11 + rax * 8]
    mov ax, [rip + patch_test_flags]
    // 0x7f + 1 overflows.
    add al, 0x7f
    sahf
    mov rax, -38
    jmp rcx

    .bss
    .balign 8
patch_test_record: .zero 128
patch_test_flags: .zero 8
patch_test_which: .zero 8
patch_test_arrivals: .zero 16
    .text
    "
);

/// A few pages that hold code, stubs, slots and read-only data.
pub struct Machine {
    base: *mut u8,
}

const LEN: usize = 0x10000;
const STUBS: usize = 0x4000;
const SLOTS: usize = 0x8000;
/// Where [`Machine::load`] puts the data.
pub const DATA: usize = 0x9000;
/// The library number that the stubs carry.
pub const LIBRARY: u32 = 0x8765_4321;

/// What arrived at the fake kernel.
pub struct Arrival {
    pub registers: Registers,
    pub vectors_dead: bool,
}

impl Machine {
    pub fn new() -> Self {
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping at a place that the kernel chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), LEN, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Self { base: base.cast() }
    }

    pub fn address(&self) -> u64 {
        self.base as u64
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= LEN);
        // SAFETY: inside the mapping, which nobody else knows.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) };
    }

    /// Puts code at the beginning and data at [`DATA`].
    pub fn load(&self, code: &[u8], data: &[u8]) {
        assert!(code.len() <= STUBS);
        self.write(0, code);
        self.write(DATA, data);
    }

    /// Finds the sites of `code`, loaded here as one function.
    pub fn plan(&self, code: &[u8], trust: Trust) -> Vec<Site> {
        let mut sites = Vec::new();
        plan(&self.code(code, &self.function(code)), trust, &mut sites).unwrap();
        sites
    }

    #[allow(clippy::single_range_in_vec_init, reason = "one function is what there is")]
    fn function(&self, code: &[u8]) -> [Function; 1] {
        [self.address()..self.address() + code.len() as u64]
    }

    fn code<'a>(&self, bytes: &'a [u8], functions: &'a dyn Functions) -> Code<'a> {
        Code { bytes, address: self.address(), functions, data: &[] }
    }

    /// Patches the sites and returns their stubs.
    pub fn patch(&self, code: &[u8], sites: &[Site]) -> Vec<Stub> {
        let entries = [patch_test_entry as *const () as u64, patch_test_entry_live as *const () as u64];
        self.write(SLOTS, &entries.map(u64::to_le_bytes).concat());
        let slots =
            Slots { vectors_dead: self.address() + SLOTS as u64, vectors_live: self.address() + SLOTS as u64 + 8 };
        let mut stub_at = STUBS;
        let mut stubs = Vec::new();
        for site in sites {
            let mut out = [0xcc; patch::STUB_LEN_MAX];
            let stub_address = self.address() + stub_at as u64;
            let stub = emit_stub(site, &self.code(code, &self.function(code)), stub_address, slots, LIBRARY, &mut out)
                .unwrap();
            self.write(stub_at, &out);
            let mut jump = [0; patch::STUB_LEN_MAX];
            emit_jump(site, stub_address, &mut jump).unwrap();
            self.write((site.address - self.address()) as usize, &jump[..site.len()]);
            stub_at += out.len();
            stubs.push(stub);
        }
        stubs
    }

    /// Calls the code at `offset` with these registers.
    pub fn run(&self, offset: usize, mut registers: Registers) -> Registers {
        registers[FLAGS] = registers[FLAGS] & ARITHMETIC_FLAGS | 2;
        // SAFETY: the tests load code that ends with `ret` and touches only its registers
        // and its own red zone.
        unsafe { patch_test_run(self.base.add(offset), &mut registers) };
        registers[FLAGS] &= ARITHMETIC_FLAGS;
        registers
    }

    /// Runs as above and also says what arrived at the fake kernel.
    pub fn run_patched(&self, offset: usize, registers: Registers) -> (Registers, Vec<Arrival>) {
        // SAFETY: callers hold the machine's lock, see `lock`, and the entries run on this
        // thread only.
        let before = unsafe { patch_test_arrivals };
        let after = self.run(offset, registers);
        // SAFETY: as above.
        let (now, record) = unsafe { (patch_test_arrivals, patch_test_record) };
        let mut arrivals = Vec::new();
        for (which, vectors_dead) in [(0, true), (1, false)] {
            for _ in before[which]..now[which] {
                arrivals.push(Arrival { registers: record, vectors_dead });
            }
        }
        (after, arrivals)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing of it is in use any more.
        unsafe { libc::munmap(self.base.cast(), LEN) };
    }
}

/// The fake kernel records into one place: one test at a time.
pub fn lock() -> std::sync::MutexGuard<'static, ()> {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Registers with recognizable contents.
pub fn pattern() -> Registers {
    std::array::from_fn(|index| 0x1111_1111_1111_1111u64.wrapping_mul(index as u64 + 1) ^ 0x0123_4567_89ab_cdef)
}
