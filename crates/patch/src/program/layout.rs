//! The layout of a program in memory: what `execve` reads of an ELF file (`load_elf_binary` in fs/binfmt_elf.c).
//!
//! A layout is checked as a whole, so mapping it needs no further arithmetic that could overflow. It is stricter than
//! Linux in ways that matter to no linker: segments are in the order of their addresses and do not overlap, the file
//! has all the bytes that they name, and the program begins in one of them.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Obstacle, PT_INTERP, PT_LOAD, SEGMENT_LEN, TOO_SHORT, half, half_word, whole, word};

const PT_GNU_STACK: u32 = 0x6474_e551;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const PAGE: u64 = 4096;
/// The first address that no program has (`TASK_SIZE`).
const END: u64 = (1 << 47) - PAGE;
/// The most bytes of program headers (`load_elf_phdrs`).
const HEADERS_MAX: usize = 65_536;
/// The most bytes of an interpreter's name, with its zero (PATH_MAX).
const LOADER_MAX: u64 = 4096;
/// `PF_X`.
const EXECUTE: u32 = 1;

/// A segment that is mapped (PT_LOAD). Its last address is below 2 to the power of 47, whatever the bias of a layout that fits there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// `PF_…`.
    pub flags: u32,
    /// Where it begins in the file, bytes; so far from a page's beginning as its address is.
    pub offset: u64,
    /// Its address before the bias.
    pub address: u64,
    /// How many bytes the file has of it.
    pub file_len: u64,
    /// How many it has in memory: zeroes follow. Never 0.
    pub memory_len: u64,
}

impl Segment {
    /// Its pages, before the bias.
    #[must_use]
    pub fn pages(&self) -> Range<u64> {
        self.address & !(PAGE - 1)..(self.address + self.memory_len).next_multiple_of(PAGE)
    }
}

/// A program or an interpreter as it must be mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// At least one, in the order of their addresses.
    pub segments: Vec<Segment>,
    /// Where it begins, before the bias.
    pub entry: u64,
    /// Where its program headers lie in memory, before the bias; 0 if they do not.
    pub headers: u64,
    /// How many program headers there are.
    pub header_count: u16,
    /// It belongs at its addresses and nowhere else (ET_EXEC).
    pub is_fixed: bool,
    /// The bias is a multiple of this, a power of two of at least a page.
    pub align: u64,
    /// It asks for a stack that can be executed.
    pub executable_stack: bool,
    /// Its interpreter's path, without a zero.
    pub loader: Option<Vec<u8>>,
}

impl Layout {
    /// Reads it from a file, of which `read` gives bytes from an offset on: as many as there are.
    ///
    /// # Errors
    /// [`Obstacle::Malformed`], or the file is for another processor.
    pub fn read(read: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> Result<Layout, Obstacle> {
        let header = super::header(read)?;
        let (start, count) = (word(&header, 32), half(&header, 56));
        let kind = half(&header, 16);
        if ![ET_EXEC, ET_DYN].contains(&kind) {
            return Err(Obstacle::Malformed("it is neither a program nor a shared object"));
        }
        if count == 0 || usize::from(count) * SEGMENT_LEN > HEADERS_MAX {
            return Err(Obstacle::Malformed("it has no program headers, or too many"));
        }
        let mut layout = Layout {
            segments: Vec::new(),
            entry: word(&header, 24),
            headers: 0,
            header_count: count,
            is_fixed: kind == ET_EXEC,
            align: PAGE,
            executable_stack: false,
            loader: None,
        };
        for at in 0..u64::from(count) {
            let mut bytes = [0; SEGMENT_LEN];
            whole(read, start.checked_add(at * SEGMENT_LEN as u64).ok_or(TOO_SHORT)?, &mut bytes)?;
            let flags = half_word(&bytes, 4);
            match half_word(&bytes, 0) {
                PT_LOAD => layout.add(read, &bytes, start)?,
                PT_INTERP if layout.loader.is_none() => layout.loader = Some(loader(read, &bytes)?),
                PT_GNU_STACK => layout.executable_stack = flags & EXECUTE != 0,
                _ => {}
            }
        }
        if layout.segments.is_empty() {
            return Err(Obstacle::Malformed("it has nothing to load"));
        }
        if !layout.span().contains(&layout.entry) {
            return Err(Obstacle::Malformed("it begins outside of itself"));
        }
        Ok(layout)
    }

    /// Adds the segment of a program header. The file's program headers begin at `headers`.
    fn add(
        &mut self,
        read: &mut dyn FnMut(u64, &mut [u8]) -> usize,
        bytes: &[u8; SEGMENT_LEN],
        headers: u64,
    ) -> Result<(), Obstacle> {
        let segment = Segment {
            flags: half_word(bytes, 4),
            offset: word(bytes, 8),
            address: word(bytes, 16),
            file_len: word(bytes, 32),
            memory_len: word(bytes, 40),
        };
        if segment.memory_len == 0 && segment.file_len == 0 {
            return Ok(());
        }
        let fits = segment.address.checked_add(segment.memory_len).is_some_and(|end| end <= END);
        if segment.file_len > segment.memory_len || !fits {
            return Err(Obstacle::Malformed("a segment does not fit into memory"));
        }
        if !(segment.offset ^ segment.address).is_multiple_of(PAGE) {
            return Err(Obstacle::Malformed("a segment lies askew in the file"));
        }
        if self.segments.last().is_some_and(|last| last.address + last.memory_len > segment.address) {
            return Err(Obstacle::Malformed("its segments overlap, or are not in order"));
        }
        if segment.file_len > 0 {
            let last = segment.offset.checked_add(segment.file_len - 1).ok_or(TOO_SHORT)?;
            whole(read, last, &mut [0])?;
        }
        let align = word(bytes, 48);
        if align.is_power_of_two() && align < END {
            self.align = self.align.max(align);
        }
        let within = headers.checked_sub(segment.offset).filter(|&from| from < segment.file_len);
        if let Some(from) = within
            && self.headers == 0
        {
            self.headers = segment.address + from;
        }
        self.segments.try_reserve(1).map_err(|_| Obstacle::Malformed("there is no memory for its segments"))?;
        self.segments.push(segment);
        Ok(())
    }

    /// Its pages from the first to the last, before the bias.
    #[must_use]
    pub fn span(&self) -> Range<u64> {
        let start = self.segments.first().map_or(0, |first| first.pages().start);
        start..self.segments.last().map_or(start, |last| last.pages().end)
    }
}

/// An interpreter's name ends with a zero, and nothing follows.
fn loader(read: &mut dyn FnMut(u64, &mut [u8]) -> usize, bytes: &[u8; SEGMENT_LEN]) -> Result<Vec<u8>, Obstacle> {
    const BAD: Obstacle = Obstacle::Malformed("its interpreter has no proper name");
    let (offset, len) = (word(bytes, 8), word(bytes, 32));
    if !(2..=LOADER_MAX).contains(&len) {
        return Err(BAD);
    }
    let mut name = Vec::new();
    name.try_reserve_exact(len as usize).map_err(|_| BAD)?;
    name.resize(len as usize, 0);
    whole(read, offset, &mut name)?;
    if name.pop() != Some(0) {
        return Err(BAD);
    }
    // Linux takes what stands before the first zero.
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    name.truncate(end);
    if name.is_empty() { Err(BAD) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    /// A program with these segments: flags, offset, address, bytes in the file and in memory. It begins with the first of them.
    fn program(segments: &[[u64; 5]]) -> Vec<u8> {
        let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
        file.resize(0x3000, 0);
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(16, &ET_DYN.to_le_bytes());
        put(18, &62_u16.to_le_bytes());
        put(24, &segments.first().map_or(0, |first| first[2]).to_le_bytes());
        put(32, &64_u64.to_le_bytes());
        put(54, &56_u16.to_le_bytes());
        put(56, &(segments.len() as u16).to_le_bytes());
        for (i, [flags, offset, address, file_len, memory_len]) in segments.iter().enumerate() {
            let at = 64 + i * SEGMENT_LEN;
            put(at, &PT_LOAD.to_le_bytes());
            put(at + 4, &(*flags as u32).to_le_bytes());
            for (field, value) in [(8, offset), (16, address), (32, file_len), (40, memory_len)] {
                put(at + field, &value.to_le_bytes());
            }
        }
        file
    }

    fn layout(file: &[u8]) -> Result<Layout, Obstacle> {
        Layout::read(&mut |at, to| {
            let rest = usize::try_from(at).ok().and_then(|at| file.get(at..)).unwrap_or_default();
            let len = rest.len().min(to.len());
            to[..len].copy_from_slice(&rest[..len]);
            len
        })
    }

    #[test]
    fn parts_are_where_the_file_says() {
        let found = layout(&program(&[[5, 0, 0x1000, 0x900, 0x900], [6, 0xa10, 0x2a10, 0x20, 0x5000]])).unwrap();
        assert_eq!((found.span(), found.entry, found.headers), (0x1000..0x8000, 0x1000, 0x1040));
        assert_eq!(found.segments[1].pages(), 0x2000..0x8000);
        assert!(!found.is_fixed && !found.executable_stack && found.loader.is_none());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let bad = |segments: &[[u64; 5]]| assert!(matches!(layout(&program(segments)), Err(Obstacle::Malformed(_))));
        bad(&[]);
        // Empty; more in the file than in memory; beyond the last address, and around it; askew; beyond the file's end.
        bad(&[[5, 0, 0x1000, 0, 0]]);
        bad(&[[5, 0, 0x1000, 0x200, 0x100]]);
        bad(&[[5, 0, END - 0x1000, 0x100, 0x1001]]);
        bad(&[[5, 0, !0xfff, 0x100, 0x1000]]);
        bad(&[[5, 0, 0x1000, 0x100, u64::MAX]]);
        bad(&[[5, 8, 0x1000, 0x100, 0x100]]);
        bad(&[[5, 0x2000, 0x1000, 0x1001, 0x1001]]);
        bad(&[[5, !0xfff, 0x1000, 0x1001, 0x1001]]);
        // Out of order, and one over the other.
        bad(&[[5, 0, 0x2000, 0x100, 0x100], [5, 0, 0x1000, 0x100, 0x100]]);
        bad(&[[5, 0, 0x1000, 0x100, 0x1001], [5, 0, 0x2000, 0x100, 0x100]]);
    }

    #[test]
    fn it_begins_in_itself() {
        let mut file = program(&[[5, 0, 0x1000, 0x100, 0x100]]);
        file[24..32].copy_from_slice(&0x2000_u64.to_le_bytes());
        assert!(matches!(layout(&file), Err(Obstacle::Malformed(_))));
        file[24..32].copy_from_slice(&0x1fff_u64.to_le_bytes());
        assert!(layout(&file).is_ok());
    }
}
