//! The only code that touches the program's memory on its behalf.
//!
//! The program's pointers are in our own address space and may have any value. Every access
//! below is one labelled instruction; the table in section `entresol_ex` says where to continue
//! when it faults. The host's fault handler calls [`fixup`].

use core::arch::asm;

/// The program's address cannot be read or written: EFAULT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// The highest address a program can own (one past it).
pub const USER_END: u64 = 1 << 47;

/// A copy of zero bytes accepts any address (`copy_from_user`).
#[inline(always)]
fn check(addr: u64, len: usize) -> Result<(), Fault> {
    if len == 0 || addr < USER_END && (len as u64) <= USER_END - addr { Ok(()) } else { Err(Fault) }
}

macro_rules! guarded {
    ($insn:literal, $failed:ident, $($operands:tt)*) => {
        asm!(
            concat!("2: ", $insn),
            "3:",
            ".pushsection .text.entresol_fixup,\"ax\",@progbits",
            "4: mov {failed:e}, 1",
            "jmp 3b",
            ".popsection",
            ".pushsection entresol_ex,\"aR\",@progbits",
            ".p2align 2",
            ".long 2b - .",
            ".long 4b - .",
            ".popsection",
            failed = inout(reg) $failed,
            $($operands)*
        )
    };
}

#[inline(always)]
fn answer<T>(failed: u32, value: T) -> Result<T, Fault> {
    if failed == 0 { Ok(value) } else { Err(Fault) }
}

/// Loads a 32-bit word, atomically if it is aligned.
#[inline(always)]
pub fn load_u32(addr: u64) -> Result<u32, Fault> {
    check(addr, 4)?;
    let mut failed = 0u32;
    let value: u32;
    // SAFETY: a read that faults is fixed up; what is read has no meaning to Rust.
    unsafe { guarded!("mov {v:e}, [{a}]", failed, v = out(reg) value, a = in(reg) addr, options(nostack)) };
    answer(failed, value)
}

/// Loads a 64-bit word.
#[inline(always)]
pub fn load_u64(addr: u64) -> Result<u64, Fault> {
    check(addr, 8)?;
    load_word(addr)
}

/// The address may be the program's.
#[inline(always)]
fn load_word(addr: u64) -> Result<u64, Fault> {
    let mut failed = 0u32;
    let value: u64;
    // SAFETY: as in `load_u32`.
    unsafe { guarded!("mov {v}, [{a}]", failed, v = out(reg) value, a = in(reg) addr, options(nostack)) };
    answer(failed, value)
}

/// Stores a 32-bit word, atomically if it is aligned.
#[inline(always)]
pub fn store_u32(addr: u64, value: u32) -> Result<(), Fault> {
    check(addr, 4)?;
    let mut failed = 0u32;
    // SAFETY: the program asked for this store to its own memory.
    unsafe { guarded!("mov [{a}], {v:e}", failed, v = in(reg) value, a = in(reg) addr, options(nostack)) };
    answer(failed, ())
}

/// Stores a 64-bit word.
#[inline(always)]
pub fn store_u64(addr: u64, value: u64) -> Result<(), Fault> {
    check(addr, 8)?;
    store_word(addr, value)
}

/// The address may be the program's.
#[inline(always)]
fn store_word(addr: u64, value: u64) -> Result<(), Fault> {
    let mut failed = 0u32;
    // SAFETY: as in `store_u32`.
    unsafe { guarded!("mov [{a}], {v}", failed, v = in(reg) value, a = in(reg) addr, options(nostack)) };
    answer(failed, ())
}

/// Compares and exchanges a 32-bit word; gives what was there.
#[inline(always)]
pub fn cas_u32(addr: u64, old: u32, new: u32) -> Result<u32, Fault> {
    check(addr, 4)?;
    let mut failed = 0u32;
    let mut found = old;
    // SAFETY: as in `store_u32`.
    unsafe {
        guarded!("lock cmpxchg [{a}], {n:e}", failed, n = in(reg) new, a = in(reg) addr,
            inout("eax") found, options(nostack))
    };
    answer(failed, found)
}

/// Up to this many bytes are copied by words, the last of which may overlap the one before: `rep movsb` takes 30 cycles
/// to start.
const WORDS_MAX: usize = 256;

/// Copies from the program. On a fault nothing is promised about `to`.
pub fn read(addr: u64, to: &mut [u8]) -> Result<(), Fault> {
    check(addr, to.len())?;
    let len = to.len();
    if (8..=WORDS_MAX).contains(&len) {
        let mut from = addr;
        for word in to.as_chunks_mut().0 {
            *word = load_word(from)?.to_ne_bytes();
            from += 8;
        }
        if let Some(last) = to.last_chunk_mut().filter(|_| !len.is_multiple_of(8)) {
            *last = load_word(addr + len as u64 - 8)?.to_ne_bytes();
        }
        return Ok(());
    }
    // SAFETY: `to` is ours; the source may fault.
    unsafe { copy(to.as_mut_ptr() as u64, addr, to.len()) }
}

/// Copies to the program. On a fault a prefix may have been written.
pub fn write(addr: u64, from: &[u8]) -> Result<(), Fault> {
    check(addr, from.len())?;
    let len = from.len();
    if (8..=WORDS_MAX).contains(&len) {
        let mut to = addr;
        for word in from.as_chunks().0 {
            store_word(to, u64::from_ne_bytes(*word))?;
            to += 8;
        }
        if let Some(last) = from.last_chunk().filter(|_| !len.is_multiple_of(8)) {
            store_word(addr + len as u64 - 8, u64::from_ne_bytes(*last))?;
        }
        return Ok(());
    }
    // SAFETY: `from` is ours; the destination is the program's.
    unsafe { copy(addr, from.as_ptr() as u64, from.len()) }
}

unsafe fn copy(to: u64, from: u64, len: usize) -> Result<(), Fault> {
    let mut failed = 0u32;
    // SAFETY: the caller vouches for our side; `rep movsb` stops exactly at a fault.
    unsafe {
        guarded!("rep movsb", failed, inout("rdi") to => _, inout("rsi") from => _, inout("rcx") len => _,
            options(nostack))
    };
    answer(failed, ())
}

unsafe extern "C" {
    #[link_name = "__start_entresol_ex"]
    static EX_START: [i32; 2];
    #[link_name = "__stop_entresol_ex"]
    static EX_END: [i32; 2];
}

/// Where to continue after a fault at `rip`, if `rip` is an access of this module.
pub fn fixup(rip: u64) -> Option<u64> {
    let mut entry = (&raw const EX_START).cast::<i32>();
    let end = (&raw const EX_END).cast::<i32>();
    while entry < end {
        // SAFETY: the section holds pairs of 32-bit words between its two bounds; each
        // word is relative to its own place.
        let (insn, fix) = unsafe {
            let second = entry.add(1);
            (
                (entry as u64).wrapping_add_signed(i64::from(*entry)),
                (second as u64).wrapping_add_signed(i64::from(*second)),
            )
        };
        if insn == rip {
            return Some(fix);
        }
        // SAFETY: still within or one past the section.
        entry = unsafe { entry.add(2) };
    }
    None
}
