//! Extended state: x87, SSE, AVX and whatever else the processor and the host agree on.

use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};

static SIZE: AtomicU32 = AtomicU32::new(0);
/// The results of [`length`]: without [`ON_REQUEST`], and with it.
static LENGTHS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// The components that Linux gives a process only on request: the tiles of AMX, 8 KiB (`XFEATURE_MASK_USER_DYNAMIC`).
pub const ON_REQUEST: u64 = 1 << 18;

/// The size of an extended-state buffer in bytes, a multiple of 64.
pub fn size() -> usize {
    let known = SIZE.load(Ordering::Relaxed);
    if known != 0 {
        return known as usize;
    }
    // Leaf 0xd, subleaf 0: ebx is what the enabled features need, in the standard format.
    let need = __cpuid_count(0xd, 0).ebx;
    let size = (need.max(576) + 63) & !63;
    SIZE.store(size, Ordering::Relaxed);
    size as usize
}

/// The exact length of a state in the standard format with all enabled components, or with all but [`ON_REQUEST`]. The
/// processor is asked once: virtual machines leave for that.
pub fn length(with_requested: bool) -> usize {
    let known = LENGTHS[usize::from(with_requested)].load(Ordering::Relaxed);
    if known != 0 {
        return known as usize;
    }
    let without = end_of(features() & !ON_REQUEST);
    let lengths = [without, without.max(end_of(features() & ON_REQUEST))];
    for (cell, length) in LENGTHS.iter().zip(lengths) {
        cell.store(length, Ordering::Relaxed);
    }
    lengths[usize::from(with_requested)] as usize
}

/// The end of the last of these components, in bytes from the beginning of the state.
fn end_of(features: u64) -> u32 {
    const LEGACY_AND_HEADER: u32 = 576;
    let extended = (2..63).filter(|&component| features & 1 << component != 0);
    let ends = extended.map(|component| {
        let leaf = __cpuid_count(0xd, component);
        leaf.eax + leaf.ebx
    });
    ends.fold(LEGACY_AND_HEADER, u32::max)
}

/// Saves the whole extended state in the standard format.
///
/// # Safety
/// `to` must be 64-byte aligned and hold [`size`] bytes.
pub unsafe fn save(to: *mut u8) {
    // SAFETY: the caller vouches for the buffer. XSAVE leaves the reserved part of the
    // header alone, so it is cleared first: XRSTOR insists on zeros there.
    unsafe {
        core::ptr::write_bytes(to.add(512), 0, 64);
        asm!("xsave64 [{}]", in(reg) to, in("eax") -1, in("edx") -1, options(nostack));
    }
}

/// Saves the extended state of a thread that trapped, for a switch: xmm0–15 come from the carrier's block, all else is
/// still live. Leaves the registers in their initial state, as a thread that gave up the CPU by a plain call expects
/// them.
///
/// # Safety
/// As for [`save`]; `xmm` must be a carrier's vector area.
pub unsafe fn save_trap(to: *mut u8, xmm: *const [u128; 16]) {
    // SAFETY: as the caller promises; one asm block, so that nothing comes between loading and saving.
    unsafe {
        core::ptr::write_bytes(to.add(512), 0, 64);
        asm!(
            "movaps xmm0, [{p}]", "movaps xmm1, [{p} + 16]", "movaps xmm2, [{p} + 32]", "movaps xmm3, [{p} + 48]",
            "movaps xmm4, [{p} + 64]", "movaps xmm5, [{p} + 80]", "movaps xmm6, [{p} + 96]", "movaps xmm7, [{p} + 112]",
            "movaps xmm8, [{p} + 128]", "movaps xmm9, [{p} + 144]", "movaps xmm10, [{p} + 160]",
            "movaps xmm11, [{p} + 176]", "movaps xmm12, [{p} + 192]", "movaps xmm13, [{p} + 208]",
            "movaps xmm14, [{p} + 224]", "movaps xmm15, [{p} + 240]",
            "xsave64 [{to}]",
            "fninit",
            p = in(reg) xmm, to = in(reg) to, in("eax") -1, in("edx") -1, options(nostack),
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _,
            out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _,
            out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
}

/// Empties the x87 register stack; [`set_control_words`] sets the control words.
pub fn empty_x87() {
    // SAFETY: touches x87 state only, which the kernel itself never uses.
    unsafe { asm!("fninit", options(nomem, nostack)) };
}

/// Saves the live extended state of a thread that came by a plain call, for a signal frame.
///
/// # Safety
/// As for [`save`].
pub unsafe fn save_live(to: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe { save(to) }
}

/// The SSE and x87 control words.
#[inline(always)]
pub fn control_words() -> (u32, u32) {
    let (mut mxcsr, mut fcw) = (MaybeUninit::<u32>::uninit(), MaybeUninit::<u16>::uninit());
    // SAFETY: both store to locals, which have a value then.
    unsafe {
        asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) mxcsr.as_mut_ptr(), in(reg) fcw.as_mut_ptr(),
            options(nostack, preserves_flags));
        (mxcsr.assume_init(), u32::from(fcw.assume_init()))
    }
}

/// Stores the SSE and x87 control words (the latter into the low half of `fcw`) and returns both, `mxcsr` in the low
/// half.
#[inline(always)]
pub fn store_control_words(mxcsr: &mut u32, fcw: &mut u32) -> u64 {
    let fcw: *mut u16 = core::ptr::from_mut(fcw).cast();
    // SAFETY: both words are the caller's. What was written as two bytes is read as two: for four the processor would
    // have to wait until they have left its store buffer.
    unsafe {
        asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut *mxcsr, in(reg) fcw, options(nostack, preserves_flags));
        u64::from(fcw.read()) << 32 | u64::from(*mxcsr)
    }
}

/// Loads the SSE and x87 control words.
///
/// # Safety
/// They must be values that [`control_words`] returned or the architecture's initial ones.
#[inline(always)]
pub unsafe fn set_control_words(mxcsr: u32, fcw: u32) {
    let fcw = fcw as u16;
    // SAFETY: reserved bits are clear, as the caller promises.
    unsafe {
        asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const mxcsr, in(reg) &raw const fcw,
            options(nostack, preserves_flags, readonly));
    }
}

/// The components that the host has enabled (XCR0).
pub fn features() -> u64 {
    let (lo, hi): (u32, u32);
    // SAFETY: the host enables XSAVE on every processor that we start on.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") lo, out("edx") hi, options(nomem, nostack)) };
    u64::from(hi) << 32 | u64::from(lo)
}

const HEADER: usize = 512;

/// Sets a buffer to the initial state.
pub fn init(buffer: &mut [u8]) {
    buffer[..HEADER + 64].fill(0);
    buffer[0..2].copy_from_slice(&0x37fu16.to_le_bytes());
    buffer[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
}

/// The component of protection keys.
const PKRU: u32 = 9;

/// Sets a buffer to the state with which a handler begins: the initial one, with the host's default rights for
/// protection keys, which allow key 0 only (`init_pkru_value`).
pub fn init_for_handler(buffer: &mut [u8]) {
    const KEY_0_ALONE: u32 = 0x5555_5554;
    init(buffer);
    if features() & 1 << PKRU != 0 {
        let at = offset_of_rights();
        buffer[at..at + 4].copy_from_slice(&KEY_0_ALONE.to_le_bytes());
        claim_components(buffer, 1 << PKRU);
    }
}

/// Where the rights for protection keys are in a buffer. The processor is asked once: virtual machines leave for that.
fn offset_of_rights() -> usize {
    static OFFSET: AtomicU32 = AtomicU32::new(0);
    let known = OFFSET.load(Ordering::Relaxed);
    if known != 0 {
        return known as usize;
    }
    let offset = __cpuid_count(0xd, PKRU).ebx;
    OFFSET.store(offset, Ordering::Relaxed);
    offset as usize
}

/// Which components a buffer holds.
pub fn components(buffer: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&buffer[HEADER..HEADER + 8]);
    u64::from_le_bytes(word)
}

/// Says which components a buffer holds; the others start afresh.
pub fn claim_components(buffer: &mut [u8], components: u64) {
    buffer[HEADER..HEADER + 8].copy_from_slice(&components.to_le_bytes());
}

/// Limits a buffer that a program has written to the components `wanted`. False if XRSTOR would fault on reserved bits:
/// in mxcsr, of components that are not enabled, or in the next two words of the header.
#[must_use]
pub fn admit(buffer: &mut [u8], wanted: u64) -> bool {
    let mut mxcsr = [0; 4];
    mxcsr.copy_from_slice(&buffer[24..28]);
    let claimed = components(buffer);
    let reserved = u32::from_le_bytes(mxcsr) >> 16 != 0
        || claimed & !features() != 0
        || buffer[HEADER + 8..HEADER + 24].iter().any(|&byte| byte != 0);
    buffer[HEADER..HEADER + 64].fill(0);
    claim_components(buffer, claimed & wanted);
    !reserved
}
