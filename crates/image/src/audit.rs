//! The dynamic linker's auditing interface, see `man 7 rtld-audit`.

use crate::link_map::LinkMap;
use host::carrier::Carrier;

/// The program's own namespace, see `man 3 dlmopen`.
const LM_ID_BASE: i64 = 0;

const LA_ACT_CONSISTENT: u32 = 0;

/// The dynamic linker offers its version of the interface; we answer with the one that we speak.
///
/// # Safety
/// Called by the dynamic linker only.
pub unsafe fn version(offered: u32) -> u32 {
    offered
}

/// An object was mapped. Answering 0 asks for no symbol-binding calls, so PLT calls cost no more than without us.
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

/// The list of objects changes (`LA_ACT_ADD`, `LA_ACT_DELETE`) or is consistent again. The first time it is so when the program
/// and its libraries have been loaded and relocated, and none of their code has run. `la_preinit` would come too late for Go: only
/// the C library's start calls it, and programs of Go's own linker do not begin there.
///
/// # Safety
/// `cookie` is the dynamic linker's own and valid.
pub unsafe fn activity(_cookie: *mut usize, flag: u32) {
    if crate::boot::is_up() {
        if flag == LA_ACT_CONSISTENT {
            // SAFETY: as above; it does nothing the second time.
            unsafe { crate::libraries::patch_go_program() };
        }
        Carrier::my_process().m.records.code_changed();
    }
}

/// All objects are loaded; control goes to the program next.
///
/// # Safety
/// `cookie` is the dynamic linker's own and valid.
pub unsafe fn preinit(_cookie: *mut usize) {
    crate::restart::end();
}
