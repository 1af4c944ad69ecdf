//! The objects of a program whose dynamic linker the image has loaded, and which nobody audits.
//!
//! glibc's linker keeps a list of them for debuggers, and calls an empty function whenever the list changes (`r_brk` in
//! `<link.h>`). That function becomes a private call, so that the image learns of the C library before the program's first
//! constructor runs.

use crate::libraries::{self, change, redirect};
use crate::link_map::LinkMap;
use crate::points;
use alloc::vec::Vec;
use arch::user;
use host::carrier::Carrier;
use kernel::PRIVATE_OBJECTS;
use patch::elf::Object;
use sync::Lock;
use sync::atomic::{AtomicU64, Ordering::*};

/// The function that the linker calls. Nothing but a return, and room behind it.
const FUNCTION: &[u8] = b"_dl_debug_state";
/// The list's head.
const LIST: &[u8] = b"_r_debug";

/// `struct r_debug`: the offsets of its first object and of its state, and the state in which it is complete.
const FIRST: u64 = 8;
const STATE: u64 = 24;
const RT_CONSISTENT: u64 = 0;
/// The most objects that are looked at.
const OBJECTS_MAX: usize = 1 << 16;

/// The address of the list's head; 0: there is none.
static HEAD: AtomicU64 = AtomicU64::new(0);
/// The objects of the list that were there before, by the addresses of their records and of their dynamic sections.
static KNOWN: Lock<Vec<[u64; 2]>> = Lock::new(Vec::new());

/// Has the linker tell when its list changes, if it is glibc's.
///
/// # Safety
/// The linker is mapped for good, and its code has not run.
pub(crate) unsafe fn watch(linker: &Object<'_>) {
    let (Some(head), Some(function)) = (linker.symbol(LIST), linker.symbol(FUNCTION)) else { return };
    let has_room = linker.code().filter(|code| code.contains(function.address)).any(|code| {
        let at = (function.address - code.address) as usize;
        is_empty_function(&code.bytes[at..])
    });
    if has_room {
        HEAD.store(head.address, Relaxed);
        let mut all = Vec::new();
        redirect(linker, FUNCTION, PRIVATE_OBJECTS, &[], &mut all);
        // SAFETY: as the caller promises.
        unsafe { change(&all) };
    }
}

/// Whether code begins with a function that only returns and that a jump may replace: nothing else lies in its bytes.
fn is_empty_function(code: &[u8]) -> bool {
    const JUMP_LEN: usize = 5;
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    const RET: u8 = 0xc3;
    // Compilers fill the space between functions with these: the bytes of `nop` in its many forms, and breakpoints.
    const PADDING: &[u8] = &[0x90, 0xcc, 0x66, 0x2e, 0x0f, 0x1f, 0x00, 0x40, 0x44, 0x80, 0x84];
    let marked = if code.starts_with(ENDBR64) { ENDBR64.len() } else { 0 };
    let Some(jump) = code.get(..JUMP_LEN) else { return false };
    jump.get(marked) == Some(&RET) && jump[marked + 1..].iter().all(|byte| PADDING.contains(byte))
}

/// The list has changed. Called in the kernel, for the thread that has changed it.
pub fn changed() {
    let head = HEAD.load(Relaxed);
    let read = |at: u64| user::load_u64(at).ok();
    if head == 0 || read(head + STATE).is_none_or(|state| state as u32 != RT_CONSISTENT as u32) {
        return;
    }
    // The linker calls one thread at a time. In a child that was forked meanwhile, libraries go by dispatch.
    let Some(mut known) = KNOWN.try_lock() else { return };
    let mut present = Vec::new();
    let mut at = read(head + FIRST).unwrap_or(0);
    while at != 0 && present.len() < OBJECTS_MAX {
        let fields = [0, 1, 2, 3].map(|word| read(at + 8 * word));
        let [Some(base), Some(name), Some(dynamic), Some(next)] = fields else { break };
        present.push([at, dynamic]);
        if !known.contains(&[at, dynamic]) {
            let null = core::ptr::null_mut();
            let (name, dynamic) = (name as *const _, dynamic as *const _);
            let map = LinkMap { base: base as usize, name, dynamic, next: null, previous: null };
            // SAFETY: the linker's own record; it lists an object before any of its constructors runs.
            unsafe {
                libraries::mapped(base, map.name);
                points::mapped(&map);
            }
        }
        at = next;
    }
    *known = present;
    Carrier::my_process().m.records.code_changed();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_function_with_room_is_replaced() {
        assert!(is_empty_function(&[0xc3, 0x66, 0x66, 0x2e, 0x0f, 0x1f]));
        assert!(is_empty_function(&[0xf3, 0x0f, 0x1e, 0xfa, 0xc3, 0x55]));
        assert!(!is_empty_function(&[0xc3, 0x55, 0x48, 0x89, 0xe5]));
        assert!(!is_empty_function(&[0xc3, 0x90]));
        assert!(!is_empty_function(&[0x55, 0xc3, 0x90, 0x90, 0x90]));
    }
}
