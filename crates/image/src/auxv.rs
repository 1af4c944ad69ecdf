//! The auxiliary vector, see `man 3 getauxval`.

use core::ffi::c_char;

/// The entries of the auxiliary vector that the image uses.
#[derive(Debug, Default)]
pub struct Auxiliary {
    /// Base address of the dynamic linker.
    pub loader: u64,
    /// The path that was executed.
    pub file: u64,
    /// Base address of the vDSO.
    pub vdso: u64,
    /// The program's headers.
    pub headers: u64,
    /// Sixteen random bytes.
    pub random: u64,
}

/// Reads the vector, which follows the environment on the initial stack.
///
/// # Safety
/// `envp` is the process's initial environment vector.
pub unsafe fn read(envp: *const *const c_char) -> Auxiliary {
    const AT_PHDR: u64 = 3;
    const AT_BASE: u64 = 7;
    const AT_SYSINFO_EHDR: u64 = 33;
    const AT_RANDOM: u64 = 25;
    const AT_EXECFN: u64 = 31;
    let mut aux = Auxiliary::default();
    // SAFETY: the caller's promise; the kernel ends both vectors with null (`create_elf_tables`).
    unsafe {
        let mut at = envp;
        while !(*at).is_null() {
            at = at.add(1);
        }
        let mut pair = at.add(1).cast::<[u64; 2]>();
        while (*pair)[0] != 0 {
            let [kind, value] = *pair;
            match kind {
                AT_PHDR => aux.headers = value,
                AT_BASE => aux.loader = value,
                AT_RANDOM => aux.random = value,
                AT_EXECFN => aux.file = value,
                AT_SYSINFO_EHDR => aux.vdso = value,
                _ => {}
            }
            pair = pair.add(1);
        }
    }
    aux
}
