//! FS base (the thread's local storage) and GS base (the carrier).

use core::arch::asm;

/// The FS base: the current thread's own.
#[inline(always)]
pub fn fs_base() -> u64 {
    let v;
    // SAFETY: reads a register; FSGSBASE was probed at start.
    unsafe { asm!("rdfsbase {}", out(reg) v, options(nomem, nostack, preserves_flags)) };
    v
}

/// Sets the FS base.
///
/// # Safety
/// The value must be the one of the thread that is about to run on this carrier.
#[inline(always)]
pub unsafe fn set_fs_base(v: u64) {
    // SAFETY: the image has no thread-local storage of its own that could move away.
    unsafe { asm!("wrfsbase {}", in(reg) v, options(nomem, nostack, preserves_flags)) };
}

/// Sets the GS base: which carrier this host thread is.
///
/// # Safety
/// `v` must point to a [`crate::Gs`] that lives as long as the host thread.
#[inline(always)]
pub unsafe fn set_gs_base(v: *const crate::Gs) {
    // SAFETY: as the caller promises.
    unsafe { asm!("wrgsbase {}", in(reg) v, options(nostack, preserves_flags)) };
}

/// This host thread's block.
#[inline(always)]
pub fn gs() -> *mut crate::Gs {
    let v;
    // SAFETY: every host thread of ours has a GS base that points to its block, whose
    // field `this` is at offset 40.
    unsafe { asm!("mov {}, gs:[40]", out(reg) v, options(nostack, preserves_flags, readonly)) };
    v
}

/// A word of this host thread's block, `AT` bytes from its beginning: a load sooner than through [`gs`].
///
/// # Safety
/// A field of four bytes must be there, which only this host thread writes or which is atomic.
#[inline(always)]
pub unsafe fn own_word<const AT: usize>() -> u32 {
    let v;
    // SAFETY: as the caller promises.
    unsafe { asm!("mov {:e}, gs:[{}]", out(reg) v, const AT, options(nostack, preserves_flags, readonly)) };
    v
}

/// A pointer of this host thread's block, as in [`own_word`]; it never changes.
///
/// # Safety
/// A field of eight bytes must be there, set before the block is used.
#[inline(always)]
pub unsafe fn own_pointer<const AT: usize>() -> *const () {
    let v;
    // SAFETY: as the caller promises.
    unsafe { asm!("mov {}, gs:[{}]", out(reg) v, const AT, options(nostack, preserves_flags, readonly)) };
    v
}

/// Whether this host thread has a block at all.
#[inline(always)]
pub fn has_gs() -> bool {
    let v: u64;
    // SAFETY: reads a register; FSGSBASE was probed at start.
    unsafe { asm!("rdgsbase {}", out(reg) v, options(nomem, nostack, preserves_flags)) };
    v != 0
}

/// Lets misaligned accesses pass. The host clears the direction and single-step flags for a signal handler, but not
/// EFLAGS.AC, which the interrupted program may have set.
#[inline(always)]
pub fn allow_misaligned() {
    // SAFETY: clears AC only; compiled code relies on it being clear.
    unsafe { asm!("pushfq", "and dword ptr [rsp], {keep}", "popfq", keep = const !(crate::context::flag::AC as i32)) };
}

/// The processor's time-stamp counter.
#[inline(always)]
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}
