//! The dynamic linker's record of a loaded object.

use core::ffi::{c_char, c_void};

/// The public head of glibc's `struct link_map`.
#[repr(C)]
pub struct LinkMap {
    /// Difference between the addresses in the file and in memory.
    pub base: usize,
    /// Absolute path of the object; empty for the program itself.
    pub name: *const c_char,
    /// The object's dynamic section.
    pub dynamic: *const c_void,
    /// Next object in load order.
    pub next: *mut LinkMap,
    /// Previous object in load order.
    pub previous: *mut LinkMap,
}
