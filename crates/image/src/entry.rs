//! The parts that only a final binary may have.

/// Makes the invoking crate the image: constructor, entry point, auditing entry points, allocator, panic handler and
/// the memory routines that compiled code calls.
///
/// The auditing entry points are the only symbols that the library exports: anything else would replace
/// the program's own when the image enters by `LD_PRELOAD`.
#[macro_export]
macro_rules! image {
    () => {
        // In the macro and not in the library, so that a command built for the machine's own processor still builds.
        #[cfg(target_feature = "avx")]
        compile_error!("the image saves sixteen-byte vector registers only: build it with -Ctarget-cpu=x86-64");

        $crate::memory_routines!("");

        // The precompiled core library refers to the unwinder; with panic=abort nothing ever calls it.
        core::arch::global_asm!(
            ".globl rust_eh_personality",
            ".hidden rust_eh_personality",
            ".type rust_eh_personality, @function",
            "rust_eh_personality:",
            ".globl _Unwind_Resume",
            ".hidden _Unwind_Resume",
            ".type _Unwind_Resume, @function",
            "_Unwind_Resume:",
            "ud2",
        );

        #[global_allocator]
        static HEAP: $crate::heap::Heap = $crate::heap::Heap;

        #[panic_handler]
        fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
            $crate::panic::die(info)
        }

        #[used]
        #[unsafe(link_section = ".init_array")]
        static INIT: unsafe extern "C" fn(
            core::ffi::c_int,
            *const *const core::ffi::c_char,
            *const *const core::ffi::c_char,
        ) = $crate::init;

        // The file's entry point, for a program that the image loads itself. Nothing has been relocated yet: each entry
        // of DT_RELA is R_X86_64_RELATIVE (8), which `.ci/check-image.sh` checks.
        core::arch::global_asm!(
            ".pushsection .text.entresol_start, \"ax\", @progbits",
            ".globl entresol_start",
            ".hidden entresol_start",
            ".hidden _DYNAMIC",
            ".hidden __ehdr_start",
            ".type entresol_start, @function",
            "entresol_start:",
            "xor ebp, ebp",
            "mov rdi, rsp",
            "lea rsi, [rip + __ehdr_start]",
            "lea rdx, [rip + _DYNAMIC]",
            "xor r8d, r8d",
            "xor r9d, r9d",
            "20:",
            "mov rax, [rdx]",
            "test rax, rax",
            "jz 21f",
            // DT_RELA and DT_RELASZ.
            "cmp rax, 7",
            "cmove r8, [rdx + 8]",
            "cmp rax, 8",
            "cmove r9, [rdx + 8]",
            "add rdx, 16",
            "jmp 20b",
            "21:",
            "add r8, rsi",
            "add r9, r8",
            "22:",
            "cmp r8, r9",
            "jae 23f",
            "cmp dword ptr [r8 + 8], 8",
            "jne 24f",
            "mov rax, [r8]",
            "mov rcx, [r8 + 16]",
            "add rcx, rsi",
            "mov [rsi + rax], rcx",
            "add r8, 24",
            "jmp 22b",
            "23:",
            "mov rbx, rsp",
            "and rsp, -16",
            "call {load}",
            // Like the host's entry into a program: no function to call at its end, and nothing of ours in a register or
            // a flag.
            "mov rsp, rbx",
            "push rax",
            "push 0x202",
            "xor eax, eax",
            "xor ebx, ebx",
            "xor ecx, ecx",
            "xor edx, edx",
            "xor esi, esi",
            "xor edi, edi",
            "xor ebp, ebp",
            "xor r8d, r8d",
            "xor r9d, r9d",
            "xor r10d, r10d",
            "xor r11d, r11d",
            "xor r12d, r12d",
            "xor r13d, r13d",
            "xor r14d, r14d",
            "xor r15d, r15d",
            "popfq",
            "ret",
            "24:",
            "ud2",
            ".popsection",
            load = sym $crate::loader::load,
        );

        #[unsafe(no_mangle)]
        unsafe extern "C" fn la_version(offered: u32) -> u32 {
            // SAFETY: forwarded from the dynamic linker unchanged.
            unsafe { $crate::audit::version(offered) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn la_objopen(
            map: *mut $crate::link_map::LinkMap,
            namespace: i64,
            cookie: *mut usize,
        ) -> u32 {
            // SAFETY: forwarded from the dynamic linker unchanged.
            unsafe { $crate::audit::objopen(map, namespace, cookie) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn la_activity(cookie: *mut usize, flag: u32) {
            // SAFETY: forwarded from the dynamic linker unchanged.
            unsafe { $crate::audit::activity(cookie, flag) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn la_preinit(cookie: *mut usize) {
            // SAFETY: forwarded from the dynamic linker unchanged.
            unsafe { $crate::audit::preinit(cookie) }
        }
    };
}
