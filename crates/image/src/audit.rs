//! The dynamic linker's auditing interface, see `man 7 rtld-audit`.

use crate::link_map::LinkMap;
use host::carrier::Carrier;

/// The program's own namespace, see `man 3 dlmopen`.
const LM_ID_BASE: i64 = 0;

const LA_ACT_CONSISTENT: u32 = 0;

/// Answers the dynamic linker's offered version of the interface with the one that we use.
///
/// # Safety
/// Called by the dynamic linker only.
pub unsafe fn version(offered: u32) -> u32 {
    offered
}

/// An object was mapped. Returning 0 requests no symbol-binding calls, so PLT calls cost no more than natively.
///
/// # Safety
/// `map` and `cookie` are the dynamic linker's own and valid.
pub unsafe fn objopen(map: *mut LinkMap, namespace: i64, _cookie: *mut usize) -> u32 {
    if crate::boot::is_up() {
        // SAFETY: the linker's own structure; the object's code has not run yet.
        unsafe { crate::libraries::mapped((*map).base as u64, (*map).name) };
        // SAFETY: as above.
        unsafe { crate::points::mapped(&*map) };
        if namespace == LM_ID_BASE {
            // SAFETY: as above.
            unsafe { crate::restart::mapped(&*map) };
        }
    }
    0
}

/// The list of objects is changing (`LA_ACT_ADD`, `LA_ACT_DELETE`) or consistent again. It is consistent for the first
/// time when the program and its libraries have been loaded and relocated, and none of their code has run. `la_preinit`
/// would be too late for Go: only the C library's start code calls it, and programs of Go's own linker do not use that.
///
/// # Safety
/// `cookie` is the dynamic linker's own and valid.
pub unsafe fn activity(_cookie: *mut usize, flag: u32) {
    if crate::boot::is_up() {
        if flag == LA_ACT_CONSISTENT {
            // SAFETY: as above; the second call does nothing.
            unsafe { crate::libraries::patch_go_program() };
        }
        Carrier::my_process().m.records.code_changed();
    }
}

/// All objects are loaded; the program's code runs next.
///
/// # Safety
/// `cookie` is the dynamic linker's own and valid.
pub unsafe fn preinit(_cookie: *mut usize) {
    crate::restart::end();
}
