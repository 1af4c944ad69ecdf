//! Maps a program or an interpreter as the host does (`elf_load` in fs/binfmt_elf.c).
//!
//! | | lies |
//! |---|---|
//! | ET_EXEC | at its own addresses |
//! | ET_DYN with an interpreter | at a random place below [`PROGRAMS`], and below an image at fixed addresses, independent of all libraries |
//! | ET_DYN without one (static-pie), interpreters | at an address of the host's choice, which is random |
//!
//! Natively the second lies at or above [`PROGRAMS`]. There the host has put our heap (`brk`), as it does for programs
//! without an interpreter, and a heap must be able to grow.

use super::NotDone;
use crate::libraries;
use abi::args::{
    ADDR_NO_RANDOMIZE, GRND_INSECURE, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE,
    MAP_PRIVATE_ANONYMOUS, PROT_NONE, PROT_READ_WRITE,
};
use arch::syscall;
use core::ops::Range;
use host::os;
use patch::elf::{Object, ProgramHeader, Segments};
use patch::program::{Layout, Segment};

const PAGE: u64 = 4096;
/// The address of programs without randomization (`ELF_ET_DYN_BASE`).
const PROGRAMS: u64 = 0x5555_5555_4000;
/// Bits of a random page number: the most that `vm.mmap_rnd_bits` allows.
const RANDOM_BITS: u32 = 32;
/// The same below an image at fixed addresses.
const RANDOM_BITS_BELOW_IMAGE: u32 = 26;
/// The number of random addresses tried before leaving the choice to the host.
const ATTEMPTS: usize = 16;
/// The most bytes of program headers within the first pages.
const HEADERS_LEN: u64 = PAGE;

/// An object in memory.
pub(crate) struct Mapped {
    pub layout: Layout,
    /// The difference between its addresses in memory and in the file.
    pub bias: u64,
}

impl Mapped {
    /// Maps the file.
    ///
    /// # Safety
    /// Nothing of the program runs.
    pub unsafe fn of(fd: i32, layout: Layout, has_loader: bool) -> Result<Mapped, NotDone> {
        // SAFETY: as the caller promises: only places that are free are taken.
        unsafe {
            let bias = if layout.is_fixed {
                reserve_fixed(&layout)?;
                0
            } else {
                reserve_anywhere(&layout, has_loader)?
            };
            for segment in &layout.segments {
                map_segment(fd, segment, bias)?;
            }
            if !layout.is_fixed {
                release_gaps(&layout, bias);
            }
            Ok(Mapped { layout, bias })
        }
    }

    /// The address of its first instruction.
    pub fn entry(&self) -> u64 {
        self.bias.wrapping_add(self.layout.entry)
    }

    /// The address of its program headers.
    pub fn headers(&self) -> u64 {
        self.bias.wrapping_add(self.layout.headers)
    }

    /// The object's code, for patching; `None` if its headers are not mapped.
    pub fn code(&self) -> Option<Object<'static>> {
        const PF_R: u32 = 4;
        let mut segments = Segments::new();
        for segment in self.layout.segments.iter().filter(|segment| segment.flags & PF_R != 0) {
            let at = self.bias.wrapping_add(segment.address);
            // A slice cannot begin at address 0, where root may have a segment.
            if at == 0 {
                continue;
            }
            // SAFETY: mapped for good, and the file has had all of it.
            segments.push(at, unsafe { core::slice::from_raw_parts(at as *const u8, segment.file_len as usize) });
        }
        let first = self.layout.segments.first().filter(|first| first.offset == 0 && first.flags & PF_R != 0)?;
        let at = self.bias.wrapping_add(first.address);
        if at == 0 {
            return None;
        }
        let len = first.file_len.min(HEADERS_LEN) as usize;
        // SAFETY: as above.
        let head = unsafe { core::slice::from_raw_parts(at as *const u8, len) };
        Object::new(self.bias, head, segments).ok()
    }
}

/// Reserves the pages of each segment, but not the gaps between them.
unsafe fn reserve_fixed(layout: &Layout) -> Result<(), NotDone> {
    let mut end = 0;
    for segment in &layout.segments {
        let pages = segment.pages();
        let start = pages.start.max(end);
        if start < pages.end {
            // SAFETY: takes only what is free.
            let at = unsafe { reserve(start, pages.end - start, MAP_FIXED_NOREPLACE) };
            if at != start as isize {
                let why = if at < 0 { at } else { abi::Errno::EEXIST.to_ret() };
                return Err(NotDone { what: "its addresses cannot be had", why });
            }
        }
        end = pages.end;
    }
    Ok(())
}

/// Reserves everything from the first page to the last; returns the bias.
unsafe fn reserve_anywhere(layout: &Layout, is_program: bool) -> Result<u64, NotDone> {
    let Range { start, end } = layout.span();
    let (len, slack) = (end - start, layout.align - PAGE);
    let Some(all) = len.checked_add(slack) else {
        return Err(NotDone { what: "it is too large", why: abi::Errno::ENOMEM.to_ret() });
    };
    // SAFETY: takes only what is free.
    let mut at = if is_program { unsafe { reserve_at_random(all) } } else { -1 };
    if at < 0 {
        // SAFETY: as above.
        at = unsafe { reserve(0, all, 0) };
    }
    let Ok(at) = u64::try_from(at) else { return Err(NotDone { what: "there is no room for it", why: at }) };
    // The first address with the same offset from a multiple of the alignment as in the file.
    let first = at + (start.wrapping_sub(at) & slack);
    // SAFETY: part of the reservation, outside the program.
    unsafe {
        unmap(at..first);
        unmap(first + len..at + all);
    }
    Ok(first.wrapping_sub(start))
}

unsafe fn reserve_at_random(len: u64) -> isize {
    let (is_random, (end, bits)) = (is_random(), programs_end());
    for _ in 0..if is_random { ATTEMPTS } else { 1 } {
        let pages = if is_random { random() >> (64 - bits) } else { 0 };
        let Some(start) = end.checked_sub(len).and_then(|last| last.checked_sub(pages * PAGE)) else {
            break;
        };
        // SAFETY: takes only what is free.
        let at = unsafe { reserve(start, len, MAP_FIXED_NOREPLACE) };
        if at == start as isize {
            return at;
        }
        if at > 0 {
            // SAFETY: mapped just now, elsewhere.
            unsafe { unmap(at as u64..at as u64 + len) };
        }
    }
    -1
}

/// The first address that no program at a random place has, and the random bits of its page number. Behind an image at
/// fixed addresses lies the heap, and ThreadSanitizer takes nothing below 0x550000000000 for a program.
fn programs_end() -> (u64, u32) {
    if libraries::is_fixed() { (patch::FIXED_RANGE.start, RANDOM_BITS_BELOW_IMAGE) } else { (PROGRAMS, RANDOM_BITS) }
}

/// Whether the host gives random addresses (`personality(2)`, `kernel.randomize_va_space`).
fn is_random() -> bool {
    const ASK: u32 = u32::MAX;
    // SAFETY: only asks.
    let persona = unsafe { syscall!(abi::nr::PERSONALITY, ASK) };
    let mut text = [0; 8];
    let setting = os::read_file(b"/proc/sys/kernel/randomize_va_space\0", &mut text);
    persona as u64 & ADDR_NO_RANDOMIZE == 0 && setting.first() != Some(&b'0')
}

fn random() -> u64 {
    // GRND_INSECURE does not wait for the host's entropy pool; Linux does not either for addresses.
    let mut word = 0u64;
    // SAFETY: the host fills our word.
    let len = unsafe { syscall!(abi::nr::GETRANDOM, &raw mut word, 8, GRND_INSECURE) };
    if len == 8 { word } else { arch::base::tsc().wrapping_mul(0x9e37_79b9_7f4a_7c15) }
}

unsafe fn reserve(at: u64, len: u64, flag: u64) -> isize {
    let flags = MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE | flag;
    // SAFETY: as the caller promises.
    unsafe { syscall!(abi::nr::MMAP, at, len, PROT_NONE, flags, usize::MAX, 0) }
}

unsafe fn unmap(pages: Range<u64>) {
    if pages.start < pages.end {
        // SAFETY: as the caller promises.
        unsafe { os::unmap(pages.start as *mut u8, (pages.end - pages.start) as usize) };
    }
}

/// Maps a segment into its reserved place.
unsafe fn map_segment(fd: i32, segment: &Segment, bias: u64) -> Result<(), NotDone> {
    let start = bias.wrapping_add(segment.pages().start);
    let end = bias.wrapping_add(segment.pages().end);
    let file_end = bias.wrapping_add(segment.address + segment.file_len);
    let mut zeroes = start;
    if segment.file_len > 0 {
        zeroes = file_end.next_multiple_of(PAGE);
        let offset = segment.offset - segment.address % PAGE;
        let (protection, flags) = (protection(segment.flags), MAP_PRIVATE | MAP_FIXED);
        // SAFETY: within the reservation; a page shared with the last segment belongs to this one.
        let at = unsafe { syscall!(abi::nr::MMAP, start, zeroes - start, protection, flags, fd, offset) };
        mapped(at, start)?;
        if segment.memory_len > segment.file_len && segment.flags & ProgramHeader::WRITE != 0 {
            // SAFETY: writable, and the file has the page's beginning.
            unsafe { core::ptr::write_bytes(file_end as *mut u8, 0, (zeroes - file_end) as usize) };
        }
    }
    if zeroes < end {
        // Like the host (`vm_brk_flags`): writable, whatever the segment says.
        let protection = PROT_READ_WRITE | protection(segment.flags & ProgramHeader::EXECUTE);
        let flags = MAP_PRIVATE_ANONYMOUS | MAP_FIXED;
        // SAFETY: as above.
        let at = unsafe { syscall!(abi::nr::MMAP, zeroes, end - zeroes, protection, flags, usize::MAX, 0) };
        mapped(at, zeroes)?;
    }
    Ok(())
}

fn mapped(at: isize, wanted: u64) -> Result<(), NotDone> {
    if at == wanted as isize { Ok(()) } else { Err(NotDone { what: "a segment cannot be mapped", why: at }) }
}

/// `PF_…` as `PROT_…`: the same bits in the other order.
fn protection(flags: u32) -> u64 {
    u64::from(flags >> 2 & 1 | flags & 2 | (flags & 1) << 2)
}

/// Unmaps the gaps between segments, which the program does not own (`elf_map`).
unsafe fn release_gaps(layout: &Layout, bias: u64) {
    for pair in layout.segments.windows(2) {
        let gap = pair[0].pages().end..pair[1].pages().start;
        // SAFETY: reserved, and no segment's.
        unsafe { unmap(bias.wrapping_add(gap.start)..bias.wrapping_add(gap.end)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_translated() {
        assert_eq!([4, 5, 6, 7, 1, 0].map(protection), [1, 5, 3, 7, 4, 0]);
    }
}
