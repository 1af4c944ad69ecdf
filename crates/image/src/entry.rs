//! The parts that only a final binary may have.

/// Makes the invoking crate the image: constructor, auditing entry points, allocator, panic handler and
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
