//! The way in and the way out.
//!
//! ```text
//!   user code                        kernel stack of the carrier (empty at every entry)
//!   ─────────                        ─────────
//!   stub:  r11 = library
//!          rcx = where to go on
//!          jmp entry_call ─────────► registers → Context (through %gs:16)
//!                                    rsp = %gs:24, jmp to the machine's handler
//!                                        │ ends with the Context to resume
//!   continues ◄───────────────────── resume: registers ← Context
//! ```
//!
//! Not one instruction here writes to the user's stack (law 3).
//!
//! **Two windows.** A host signal (tick, kick) that arrives while the instruction pointer
//! is in the image only sets a bit in `Gs::pending`. `resume` checks these bits first; nothing
//! would check them again between that and the last `jmp`. So a signal that finds the instruction
//! pointer in [`resume_start`]..[`resume_end`] restarts at [`again`]. That is allowed because
//! everything up to the jump is loaded from the `Context`, which is still intact.
//! The other window is that of a waiting host call, see [`host_call`].

use crate::context::{Context, Gs, flag};
use core::arch::global_asm;
use core::sync::atomic::{AtomicPtr, Ordering};

global_asm!(
    // rsp = the Context: the registers go there, rdi = Context, rsp = the kernel stack.
    ".macro entresol_to_context kind",
    "mov dword ptr [rsp + 168], \\kind",
    "mov [rsp + 0], rax",
    "mov [rsp + 188], eax",
    "mov [rsp + 64], rbx",
    "mov [rsp + 24], rdx",
    "mov [rsp + 16], rsi",
    "mov [rsp + 8], rdi",
    "mov [rsp + 80], rbp",
    "mov [rsp + 40], r8",
    "mov [rsp + 48], r9",
    "mov [rsp + 32], r10",
    "mov [rsp + 96], r12",
    "mov [rsp + 104], r13",
    "mov [rsp + 112], r14",
    "mov [rsp + 120], r15",
    "mov [rsp + 128], rcx",
    "mov [rsp + 176], r11d",
    "mov rax, gs:[8]",
    "mov [rsp + 56], rax",
    "mov rdi, rsp",
    "mov rsp, gs:[24]",
    ".endm",
    // rdi = Context: jumps to the function for its call, which also leaves by a jump. A call would make the processor
    // predict a return that never comes, and some processors mispredict returns after a host call.
    ".macro entresol_handle_call",
    "sub rsp, 8",
    "cmp dword ptr [rdi], {sched_yield}",
    "je 1f",
    "cmp dword ptr [rdi], {futex}",
    "je 2f",
    "jmp qword ptr [rip + {handlers} + 0]",
    "1: jmp qword ptr [rip + {handlers} + 32]",
    "2: jmp qword ptr [rip + {handlers} + 40]",
    ".endm",
    // ---- entry by a system call, no vector register live ------------------------------
    ".globl entresol_entry_call",
    ".hidden entresol_entry_call",
    ".p2align 6",
    "entresol_entry_call:",
    "mov gs:[8], rsp",
    ".globl entresol_entry_call_begun",
    ".hidden entresol_entry_call_begun",
    "entresol_entry_call_begun:",
    // Library functions are called with the direction flag clear; the kernel cannot rely on it.
    "cld",
    "mov rsp, gs:[16]",
    "entresol_to_context 0",
    "entresol_handle_call",
    // ---- entry by a system call from anywhere: keep xmm0-15 and the flags -------------
    ".globl entresol_entry_vectors",
    ".hidden entresol_entry_vectors",
    ".p2align 6",
    "entresol_entry_vectors:",
    "mov gs:[8], rsp",
    ".globl entresol_entry_vectors_begun",
    ".hidden entresol_entry_vectors_begun",
    "entresol_entry_vectors_begun:",
    "mov rsp, gs:[40]",
    "movaps [rsp + 64], xmm0",
    "movaps [rsp + 80], xmm1",
    "movaps [rsp + 96], xmm2",
    "movaps [rsp + 112], xmm3",
    "movaps [rsp + 128], xmm4",
    "movaps [rsp + 144], xmm5",
    "movaps [rsp + 160], xmm6",
    "movaps [rsp + 176], xmm7",
    "movaps [rsp + 192], xmm8",
    "movaps [rsp + 208], xmm9",
    "movaps [rsp + 224], xmm10",
    "movaps [rsp + 240], xmm11",
    "movaps [rsp + 256], xmm12",
    "movaps [rsp + 272], xmm13",
    "movaps [rsp + 288], xmm14",
    "movaps [rsp + 304], xmm15",
    "mov rsp, gs:[16]",
    "entresol_to_context 1",
    "pushfq",
    "pop qword ptr [rdi + 136]",
    "cld",
    "entresol_handle_call",
    // ---- entry from a host signal that found user code --------------------------------
    // The handler has filled the Context and returned here, on the empty kernel stack.
    ".globl entresol_entry_preempt",
    ".hidden entresol_entry_preempt",
    ".p2align 4",
    "entresol_entry_preempt:",
    "mov rsp, gs:[24]",
    "mov rdi, gs:[16]",
    "mov rsi, gs:[40]",
    "call qword ptr [rip + {handlers} + 8]",
    "mov rdi, rax",
    "jmp entresol_resume",
    // ---- entry by a system call that the handler of a host signal has copied out --------
    // The Context is as after the call, except for the result.
    ".globl entresol_entry_copied",
    ".hidden entresol_entry_copied",
    ".p2align 4",
    "entresol_entry_copied:",
    "mov rsp, gs:[24]",
    "mov rdi, gs:[16]",
    "sub rsp, 8",
    "jmp qword ptr [rip + {handlers} + 48]",
    // ---- a new carrier begins ---------------------------------------------------------
    ".globl entresol_entry_carrier",
    ".hidden entresol_entry_carrier",
    "entresol_entry_carrier:",
    // A host thread begins with the x87 registers of the one that made it, which may have been in a call of a thread that uses them.
    "fninit",
    "mov rsp, gs:[24]",
    "mov rdi, gs:[40]",
    "call qword ptr [rip + {handlers} + 16]",
    "mov rdi, rax",
    // ---- the way out: rdi = Context ---------------------------------------------------
    ".globl entresol_resume",
    ".hidden entresol_resume",
    ".p2align 6",
    "entresol_resume:",
    "cmp dword ptr gs:[32], 0",
    "jne entresol_again",
    "cmp dword ptr [rdi + 168], 0",
    "jne 4f",
    "3:",
    "mov rbx, [rdi + 64]",
    "mov rdx, [rdi + 24]",
    "mov rsi, [rdi + 16]",
    "mov rbp, [rdi + 80]",
    "mov r8, [rdi + 40]",
    "mov r9, [rdi + 48]",
    "mov r10, [rdi + 32]",
    "mov r12, [rdi + 96]",
    "mov r13, [rdi + 104]",
    "mov r14, [rdi + 112]",
    "mov r15, [rdi + 120]",
    "mov rsp, [rdi + 56]",
    // Jumps that keep the flags: is this another thread than the one that entered?
    "mov ecx, gs:[320]",
    "jrcxz 6f",
    "mov rax, [rdi + 144]",
    "wrfsbase rax",
    "mov dword ptr gs:[320], 0",
    "6:",
    "mov rcx, [rdi + 128]",
    "mov rax, [rdi + 0]",
    "mov rdi, [rdi + 8]",
    "jmp rcx",
    // vectors from the carrier's block and the flags, the rest as above
    "4:",
    "cmp dword ptr [rdi + 168], 1",
    "jne 5f",
    "mov rax, gs:[40]",
    "movaps xmm0, [rax + 64]",
    "movaps xmm1, [rax + 80]",
    "movaps xmm2, [rax + 96]",
    "movaps xmm3, [rax + 112]",
    "movaps xmm4, [rax + 128]",
    "movaps xmm5, [rax + 144]",
    "movaps xmm6, [rax + 160]",
    "movaps xmm7, [rax + 176]",
    "movaps xmm8, [rax + 192]",
    "movaps xmm9, [rax + 208]",
    "movaps xmm10, [rax + 224]",
    "movaps xmm11, [rax + 240]",
    "movaps xmm12, [rax + 256]",
    "movaps xmm13, [rax + 272]",
    "movaps xmm14, [rax + 288]",
    "movaps xmm15, [rax + 304]",
    "mov r11, [rdi + 136]",
    "push r11",
    "popfq",
    "jmp 3b",
    // everything: extended state, flags, all general registers, jump through memory
    "5:",
    "cmp dword ptr gs:[320], 0",
    "je 7f",
    "mov rax, [rdi + 144]",
    "wrfsbase rax",
    "mov dword ptr gs:[320], 0",
    "7:",
    "mov rcx, [rdi + 160]",
    "mov eax, -1",
    "mov edx, -1",
    "xrstor64 [rcx]",
    "test dword ptr [rdi + 136], {single_step}",
    "jnz 8f",
    "mov rax, [rdi + 128]",
    "mov gs:[0], rax",
    "push qword ptr [rdi + 136]",
    "popfq",
    "mov rax, [rdi + 0]",
    "mov rbx, [rdi + 64]",
    "mov rcx, [rdi + 72]",
    "mov rdx, [rdi + 24]",
    "mov rsi, [rdi + 16]",
    "mov rbp, [rdi + 80]",
    "mov r8, [rdi + 40]",
    "mov r9, [rdi + 48]",
    "mov r10, [rdi + 32]",
    "mov r11, [rdi + 88]",
    "mov r12, [rdi + 96]",
    "mov r13, [rdi + 104]",
    "mov r14, [rdi + 112]",
    "mov r15, [rdi + 120]",
    "mov rsp, [rdi + 56]",
    "mov rdi, [rdi + 8]",
    "jmp qword ptr gs:[0]",
    // The thread single-steps: after `popfq` the trap would come here, after `iretq` it comes one instruction into user code.
    "8:",
    // `iretq` faults while the flag of nested tasks is set, which any program may set.
    "push 2",
    "popfq",
    "mov eax, ss",
    "push rax",
    "push qword ptr [rdi + 56]",
    "push qword ptr [rdi + 136]",
    "mov eax, cs",
    "push rax",
    "push qword ptr [rdi + 128]",
    "mov rax, [rdi + 0]",
    "mov rbx, [rdi + 64]",
    "mov rcx, [rdi + 72]",
    "mov rdx, [rdi + 24]",
    "mov rsi, [rdi + 16]",
    "mov rbp, [rdi + 80]",
    "mov r8, [rdi + 40]",
    "mov r9, [rdi + 48]",
    "mov r10, [rdi + 32]",
    "mov r11, [rdi + 88]",
    "mov r12, [rdi + 96]",
    "mov r13, [rdi + 104]",
    "mov r14, [rdi + 112]",
    "mov r15, [rdi + 120]",
    "mov rdi, [rdi + 8]",
    "iretq",
    ".globl entresol_resume_end",
    ".hidden entresol_resume_end",
    "entresol_resume_end:",
    // ---- a host signal arrived before the thread was back: check again ----------------
    ".globl entresol_again",
    ".hidden entresol_again",
    "entresol_again:",
    "cld",
    "mov rsp, gs:[24]",
    "mov rdi, gs:[16]",
    "mov rsi, gs:[40]",
    "call qword ptr [rip + {handlers} + 24]",
    "mov rdi, rax",
    "jmp entresol_resume",
    // ---- a host call that may wait ----------------------------------------------------
    // rdi = &[nr, a0..a5]. Between the check of Gs::interrupt and the instruction after `syscall`, an interrupt signal
    // moves us to the label that returns -ERESTARTNOINTR, so that an interrupt requested just before the call is never
    // lost.
    ".globl entresol_host_call",
    ".hidden entresol_host_call",
    ".p2align 4",
    "entresol_host_call:",
    "mov rax, [rdi + 0]",
    "mov rsi, [rdi + 16]",
    "mov rdx, [rdi + 24]",
    "mov r10, [rdi + 32]",
    "mov r8, [rdi + 40]",
    "mov r9, [rdi + 48]",
    "mov rdi, [rdi + 8]",
    ".globl entresol_host_window",
    ".hidden entresol_host_window",
    "entresol_host_window:",
    "cmp dword ptr gs:[36], 0",
    "jne entresol_host_interrupted",
    "syscall",
    ".globl entresol_host_window_end",
    ".hidden entresol_host_window_end",
    "entresol_host_window_end:",
    "ret",
    ".globl entresol_host_interrupted",
    ".hidden entresol_host_interrupted",
    "entresol_host_interrupted:",
    "mov rax, -513",
    "ret",
    // ---- the restorer of our own handlers, byte for byte what debuggers look for -------
    ".globl entresol_restorer",
    ".hidden entresol_restorer",
    ".p2align 4",
    "nop",
    "entresol_restorer:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05",
    "ud2",
    // ---- a new host thread, by clone or clone3, on a stack given there ------------------
    // rdi, rsi, rdx, rcx, r8 = the call's arguments, r9 = Gs, the call's number on the stack.
    // The child takes its GS base before anything else can happen to it.
    ".globl entresol_clone",
    ".hidden entresol_clone",
    "entresol_clone:",
    "mov r10, rcx",
    "mov rax, [rsp + 8]",
    "syscall",
    "test rax, rax",
    "jz 6f",
    "ret",
    "6:",
    "wrgsbase r9",
    "jmp entresol_entry_carrier",
    handlers = sym HANDLERS,
    sched_yield = const SCHED_YIELD,
    futex = const FUTEX,
    single_step = const flag::TF,
);

/// The system calls that have a handler of their own, by their numbers.
pub const SCHED_YIELD: usize = 24;
/// As above.
pub const FUTEX: usize = 202;
/// `clone(2)`.
const CLONE: usize = 56;

/// The functions that the entries jump to, in the order call, preempt, carrier, again, yield, futex, copied; then both
/// handlers of futex calls, one of which is copied to the place of futex. They are words and not symbols, so that the
/// image exports nothing.
static HANDLERS: [AtomicPtr<()>; 9] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 9];

/// The functions that the entries call. Those of system calls leave by [`resume`], the others return the context to resume.
#[derive(Debug, Clone, Copy)]
pub struct Handlers {
    /// Any system call except those below, with the thread's context.
    pub call: extern "C" fn(*mut Context) -> !,
    /// `sched_yield(2)`.
    pub sched_yield: extern "C" fn(*mut Context) -> !,
    /// `futex(2)`.
    pub futex: extern "C" fn(*mut Context) -> !,
    /// `futex(2)` while other processes wait for words of ours ([`share_futex_words`]).
    pub shared_futex: extern "C" fn(*mut Context) -> !,
    /// Any system call whose [`Context`] the handler of a host signal has filled.
    pub copied: extern "C" fn(*mut Context) -> !,
    /// A host signal found user code.
    pub preempt: extern "C" fn(*mut Context, *mut Gs) -> *mut Context,
    /// A new carrier begins.
    pub carrier: extern "C" fn(*mut Gs) -> *mut Context,
    /// A host signal arrived while the thread was on its way out ([`Gs::pending`]).
    pub again: extern "C" fn(*mut Context, *mut Gs) -> *mut Context,
}

/// Sets the functions that the entries jump to, before the first trap. A second call changes nothing.
pub fn set_handlers(h: &Handlers) {
    if !HANDLERS[0].load(Ordering::Relaxed).is_null() {
        return;
    }
    let calls = [h.call, h.sched_yield, h.futex, h.copied, h.shared_futex].map(|f| f as *mut ());
    let [call, sched_yield, futex, copied, shared] = calls;
    let others = [h.preempt as *mut (), h.carrier as *mut (), h.again as *mut ()];
    let all = [call, others[0], others[1], others[2], sched_yield, futex, copied, futex, shared];
    for (word, f) in HANDLERS.iter().zip(all) {
        word.store(f, Ordering::Release);
    }
}

unsafe extern "C" {
    /// Where stubs jump to when no vector register is live.
    pub fn entresol_entry_call();
    /// Where stubs and dispatch go otherwise.
    pub fn entresol_entry_vectors();
    fn entresol_entry_call_begun();
    fn entresol_entry_vectors_begun();
    /// Where a handler that has copied a system call out returns to.
    pub fn entresol_entry_copied();
    /// Where a preempting handler returns to.
    pub fn entresol_entry_preempt();
    fn entresol_resume();
    fn entresol_resume_end();
    fn entresol_again();
    fn entresol_host_call(call: *const [u64; 7]) -> isize;
    fn entresol_host_window();
    fn entresol_host_window_end();
    fn entresol_host_interrupted();
    /// The restorer of every handler of ours.
    pub fn entresol_restorer();
    fn entresol_clone(a: u64, b: u64, c: u64, d: u64, e: u64, gs: *mut Gs, nr: usize) -> isize;
}

/// Whether a thread at `rip` is at an entry for system calls with its own registers unchanged: a single-stepping thread
/// traps there when it comes from its stub, or after the first instruction when a call is restarted.
pub fn begins_call(rip: u64) -> bool {
    let call = entresol_entry_call as *const () as u64..=entresol_entry_call_begun as *const () as u64;
    let vectors = entresol_entry_vectors as *const () as u64..=entresol_entry_vectors_begun as *const () as u64;
    call.contains(&rip) || vectors.contains(&rip)
}

/// The first address of the way out.
pub fn resume_start() -> u64 {
    entresol_resume as *const () as u64
}

/// One past the last address of the way out.
pub fn resume_end() -> u64 {
    entresol_resume_end as *const () as u64
}

/// Where a signal in the way out continues.
pub fn again() -> u64 {
    entresol_again as *const () as u64
}

/// Where an interrupt that finds the instruction pointer at `rip` must continue instead:
/// `Some` if it is in the window of [`host_call`].
pub fn interrupted(rip: u64) -> Option<u64> {
    let window = entresol_host_window as *const () as u64..entresol_host_window_end as *const () as u64;
    window.contains(&rip).then_some(entresol_host_interrupted as *const () as u64)
}

/// Makes a host call that may wait: `[number, six arguments]`. An interrupt asked for
/// through [`Gs::interrupt`] and the interrupt signal ends it with `-EINTR`, whenever it comes, or with `-ERESTARTNOINTR` if it
/// has not begun.
///
/// # Safety
/// As for [`crate::raw::syscall`]; the GS base must be a carrier's.
pub unsafe fn host_call(call: &[u64; 7]) -> isize {
    #[cfg(feature = "planted")]
    if crate::planted::leaves_out(call[0] as usize, &core::array::from_fn(|i| call[i + 1] as usize)) {
        return 0;
    }
    // SAFETY: as the caller promises.
    unsafe { entresol_host_call(call) }
}

/// Clones a host thread that begins in the machine's carrier handler with the GS base `gs`.
///
/// # Safety
/// `gs` must be complete (kernel stack, `this`) and live as long as the thread.
pub unsafe fn clone_carrier(flags: u64, gs: *mut Gs, ptid: *mut u32) -> isize {
    // SAFETY: the child runs on the kernel stack in `gs` alone.
    unsafe { clone_lent(CLONE, [flags, (*gs).kernel_stack, ptid as u64, 0, 0], gs) }
}

/// Clones a host thread by this call, `clone(2)` or `clone3(2)`, with these arguments. It begins in the machine's carrier
/// handler with the GS base `gs`.
///
/// # Safety
/// As for [`clone_carrier`]; the arguments must name the kernel stack in `gs`.
pub unsafe fn clone_lent(nr: usize, [a, b, c, d, e]: [u64; 5], gs: *mut Gs) -> isize {
    // SAFETY: as the caller promises.
    unsafe { entresol_clone(a, b, c, d, e, gs, nr) }
}

/// Leaves by the host's `rt_sigreturn`, with the frame that begins at `frame`.
///
/// # Safety
/// The frame must be complete, and nothing on the stack may be to be dropped.
pub unsafe fn sigreturn(frame: *const u8) -> ! {
    const PRETCODE: usize = 8;
    // SAFETY: as the caller promises. Its return address counts as taken.
    unsafe {
        core::arch::asm!("mov rsp, {}", "mov eax, 15", "syscall", "ud2", in(reg) frame.add(PRETCODE), options(noreturn))
    }
}

/// From here to [`entry_end`] a thread's registers go from the processor to its context.
pub fn entry_start() -> u64 {
    entresol_entry_call as *const () as u64
}

/// As above.
pub fn entry_end() -> u64 {
    entresol_entry_preempt as *const () as u64
}

/// Whether this is the first instruction of an entry, where all registers are still the program's.
pub fn is_entry(rip: u64) -> bool {
    [entresol_entry_call as *const () as u64, entresol_entry_vectors as *const () as u64].contains(&rip)
}

/// Whether other processes wait for futex words of ours from now on.
pub fn share_futex_words(shared: bool) {
    let handler = HANDLERS[FUTEX_HANDLERS + usize::from(shared)].load(Ordering::Relaxed);
    HANDLERS[FUTEX_HANDLER].store(handler, Ordering::Release);
}

/// The place of the `futex(2)` handler in [`HANDLERS`].
const FUTEX_HANDLER: usize = 5;
const FUTEX_HANDLERS: usize = 7;

/// Resumes a thread and never returns: the stack is abandoned, and the next trap begins at its top.
///
/// # Safety
/// `context` must be claimed by this carrier and loaded, and nothing on the stack may need to be dropped.
#[inline(always)]
pub unsafe fn resume(context: *mut Context) -> ! {
    // SAFETY: as the caller promises.
    unsafe { core::arch::asm!("jmp entresol_resume", in("rdi") context, options(noreturn)) }
}
