//! memcpy, memmove, memset, memcmp, bcmp and strlen, which compiled code calls and no libc provides here.
//!
//! In assembly, not Rust, for three reasons: the compiler would turn the loops back into calls of themselves; the
//! routines must be `.hidden`, or they would replace the program's own; and they use only general registers, so the
//! kernel's paths stay free of vector registers.

/// Defines the memory routines, each name behind a prefix (empty in the image, a test's own in tests).
#[doc(hidden)]
#[macro_export]
macro_rules! memory_routines {
    ($prefix:literal) => {
        core::arch::global_asm!(
            ".pushsection .text.entresol_memory, \"ax\", @progbits",
            // memmove(rdi: to, rsi: from, rdx: count): forward unless `to` lies inside the source.
            $crate::memory_symbol!($prefix, "memmove"),
            "cmp rdx, 16",
            "jb 40f",
            "mov rcx, rdi",
            "sub rcx, rsi",
            "cmp rcx, rdx",
            "jae 41f",
            // Backward: the first sixteen bytes are read before anything is written.
            "mov rax, rdi",
            "mov r8, [rsi]",
            "mov r9, [rsi + 8]",
            "20:",
            "mov rcx, [rsi + rdx - 8]",
            "mov r11, [rsi + rdx - 16]",
            "mov [rdi + rdx - 8], rcx",
            "mov [rdi + rdx - 16], r11",
            "sub rdx, 16",
            "cmp rdx, 16",
            "ja 20b",
            "mov [rdi], r8",
            "mov [rdi + 8], r9",
            "ret",
            // memcpy(rdi: to, rsi: from, rdx: count); also correct for overlapping blocks with to < from.
            $crate::memory_symbol!($prefix, "memcpy"),
            "cmp rdx, 16",
            "jb 40f",
            "41:",
            "mov rax, rdi",
            "cmp rdx, 512",
            "ja 50f",
            "mov r8, [rsi + rdx - 16]",
            "mov r9, [rsi + rdx - 8]",
            "lea r10, [rdi + rdx - 16]",
            "21:",
            "mov rcx, [rsi]",
            "mov r11, [rsi + 8]",
            "mov [rdi], rcx",
            "mov [rdi + 8], r11",
            "add rsi, 16",
            "add rdi, 16",
            "cmp rdi, r10",
            "jb 21b",
            "mov [r10], r8",
            "mov [r10 + 8], r9",
            "ret",
            "50:",
            "mov rcx, rdx",
            "rep movsb",
            "ret",
            // Under sixteen bytes: everything is read before anything is written, so overlap does not matter.
            "40:",
            "mov rax, rdi",
            "cmp edx, 8",
            "jb 42f",
            "mov rcx, [rsi]",
            "mov r8, [rsi + rdx - 8]",
            "mov [rdi], rcx",
            "mov [rdi + rdx - 8], r8",
            "ret",
            "42:",
            "cmp edx, 4",
            "jb 43f",
            "mov ecx, [rsi]",
            "mov r8d, [rsi + rdx - 4]",
            "mov [rdi], ecx",
            "mov [rdi + rdx - 4], r8d",
            "ret",
            // One to three bytes: first, middle and last, which may be the same.
            "43:",
            "test edx, edx",
            "jz 44f",
            "mov r10, rdx",
            "shr r10, 1",
            "movzx ecx, byte ptr [rsi]",
            "movzx r8d, byte ptr [rsi + r10]",
            "movzx r9d, byte ptr [rsi + rdx - 1]",
            "mov [rdi], cl",
            "mov [rdi + r10], r8b",
            "mov [rdi + rdx - 1], r9b",
            "44:",
            "ret",
            // memset(rdi: to, esi: byte, rdx: count)
            $crate::memory_symbol!($prefix, "memset"),
            "mov rax, rdi",
            "movzx ecx, sil",
            "mov r8, 0x0101010101010101",
            "imul rcx, r8",
            "cmp rdx, 8",
            "jb 61f",
            "cmp rdx, 512",
            "ja 60f",
            "lea r10, [rdi + rdx - 8]",
            "22:",
            "mov [rdi], rcx",
            "add rdi, 8",
            "cmp rdi, r10",
            "jb 22b",
            "mov [r10], rcx",
            "ret",
            "60:",
            "mov r8, rax",
            "mov eax, ecx",
            "mov rcx, rdx",
            "rep stosb",
            "mov rax, r8",
            "ret",
            "61:",
            "test edx, edx",
            "jz 62f",
            "23:",
            "mov [rdi + rdx - 1], cl",
            "dec edx",
            "jnz 23b",
            "62:",
            "ret",
            // memcmp(rdi, rsi, rdx: count); also serves as bcmp.
            $crate::memory_symbol!($prefix, "bcmp"),
            $crate::memory_symbol!($prefix, "memcmp"),
            "cmp rdx, 8",
            "jb 71f",
            "24:",
            "mov rax, [rdi]",
            "mov rcx, [rsi]",
            "cmp rax, rcx",
            "jne 72f",
            "add rdi, 8",
            "add rsi, 8",
            "sub rdx, 8",
            "cmp rdx, 8",
            "jae 24b",
            "71:",
            "test edx, edx",
            "jz 73f",
            "25:",
            "movzx eax, byte ptr [rdi]",
            "movzx ecx, byte ptr [rsi]",
            "sub eax, ecx",
            "jne 74f",
            "inc rdi",
            "inc rsi",
            "dec edx",
            "jnz 25b",
            "73:",
            "xor eax, eax",
            "74:",
            "ret",
            // The lowest differing byte decides: in big-endian order it is the highest.
            "72:",
            "bswap rax",
            "bswap rcx",
            "cmp rax, rcx",
            "sbb eax, eax",
            "or eax, 1",
            "ret",
            // strlen(rdi)
            $crate::memory_symbol!($prefix, "strlen"),
            "xor eax, eax",
            "26:",
            "cmp byte ptr [rdi + rax], 0",
            "je 27f",
            "inc rax",
            "jmp 26b",
            "27:",
            "ret",
            ".popsection",
        );
    };
}

/// The head of one routine: aligned, visible to the linker, hidden from other libraries.
#[doc(hidden)]
#[macro_export]
macro_rules! memory_symbol {
    ($prefix:literal, $name:literal) => {
        concat!(
            ".globl ",
            $prefix,
            $name,
            "\n.hidden ",
            $prefix,
            $name,
            "\n.type ",
            $prefix,
            $name,
            ", @function\n",
            ".p2align 4\n",
            $prefix,
            $name,
            ":"
        )
    };
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::cmp::Ordering;
    use std::vec::Vec;

    crate::memory_routines!("entresol_test_");

    unsafe extern "C" {
        fn entresol_test_memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8;
        fn entresol_test_memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8;
        fn entresol_test_memset(to: *mut u8, byte: i32, count: usize) -> *mut u8;
        fn entresol_test_memcmp(a: *const u8, b: *const u8, count: usize) -> i32;
        fn entresol_test_bcmp(a: *const u8, b: *const u8, count: usize) -> i32;
        fn entresol_test_strlen(text: *const u8) -> usize;
    }

    /// Every size up to past the small cases, and some around the switch to string instructions.
    fn sizes() -> impl Iterator<Item = usize> {
        (0..80).chain([255, 256, 511, 512, 513, 514, 1000, 4097])
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + i / 7 + 1) as u8).collect()
    }

    #[test]
    fn copies_exactly_the_bytes_asked_for() {
        for size in sizes() {
            let from = pattern(size);
            let mut to = std::vec![0xEE; size + 32];
            // SAFETY: both blocks are at least `size` long.
            let answer = unsafe { entresol_test_memcpy(to.as_mut_ptr().add(16), from.as_ptr(), size) };
            assert_eq!(answer, to[16..].as_mut_ptr());
            assert_eq!(to[16..16 + size], from[..]);
            assert!(to[..16].iter().chain(&to[16 + size..]).all(|&b| b == 0xEE), "size {size}");
        }
    }

    #[test]
    fn moves_overlapping_blocks_both_ways() {
        for size in sizes() {
            for (from, to) in [(0, 1), (1, 0), (0, 7), (7, 0), (0, 16), (17, 0), (0, 40), (40, 0), (3, 3)] {
                let mut block = pattern(size + 64);
                let mut expected = block.clone();
                expected.copy_within(from..from + size, to);
                // SAFETY: `from + size` and `to + size` are inside the block.
                unsafe { entresol_test_memmove(block.as_mut_ptr().add(to), block.as_ptr().add(from), size) };
                assert_eq!(block, expected, "size {size} from {from} to {to}");
            }
        }
    }

    #[test]
    fn sets_exactly_the_bytes_asked_for() {
        for size in sizes() {
            let mut to = std::vec![0xEE; size + 32];
            // SAFETY: the block is `size + 32` long. Only the low byte of the argument counts.
            let answer = unsafe { entresol_test_memset(to.as_mut_ptr().add(16), 0x1A5, size) };
            assert_eq!(answer, to[16..].as_mut_ptr());
            assert!(to[16..16 + size].iter().all(|&b| b == 0xA5), "size {size}");
            assert!(to[..16].iter().chain(&to[16 + size..]).all(|&b| b == 0xEE), "size {size}");
        }
    }

    #[test]
    fn compares_as_unsigned_bytes_in_memory_order() {
        for size in sizes() {
            let a = pattern(size);
            // SAFETY: equal blocks of `size` bytes.
            assert_eq!(unsafe { entresol_test_memcmp(a.as_ptr(), a.clone().as_ptr(), size) }, 0);
            for at in 0..size {
                let mut b = a.clone();
                b[at] ^= 0x80;
                if at + 1 < size {
                    b[at + 1] = !b[at + 1];
                }
                // SAFETY: both blocks are `size` long.
                let (order, equal) = unsafe {
                    (
                        entresol_test_memcmp(a.as_ptr(), b.as_ptr(), size),
                        entresol_test_bcmp(a.as_ptr(), b.as_ptr(), size),
                    )
                };
                let expected = match a.cmp(&b) {
                    Ordering::Less => -1,
                    Ordering::Equal => 0,
                    Ordering::Greater => 1,
                };
                assert_eq!(order.signum(), expected, "size {size} at {at}");
                assert_ne!(equal, 0);
            }
        }
    }

    #[test]
    fn measures_strings() {
        for size in sizes() {
            let mut text = std::vec![b'x'; size];
            text.extend([0, b'y']);
            // SAFETY: the text ends with a zero byte.
            assert_eq!(unsafe { entresol_test_strlen(text.as_ptr()) }, size);
        }
    }
}
