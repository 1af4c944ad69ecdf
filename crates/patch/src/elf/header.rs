//! The ELF header and the program headers.

use core::fmt;

use super::read;

/// Why bytes are not an ELF object that can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadElf {
    /// The bytes do not begin with the ELF magic number.
    NotElf,
    /// A table named in the header lies outside the bytes, or has entries of another size.
    Truncated,
    /// Not 64-bit, not little-endian, or not for x86-64.
    Foreign,
}

impl fmt::Display for BadElf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotElf => "not an ELF file",
            Self::Truncated => "the ELF file is cut short or damaged",
            Self::Foreign => "the ELF file is not for 64-bit x86",
        })
    }
}

impl core::error::Error for BadElf {}

/// `e_machine` of x86-64.
pub(super) const EM_X86_64: u16 = 62;

/// Checks that `bytes` begin with the header of an object for this machine.
pub(super) fn check(bytes: &[u8]) -> Result<(), BadElf> {
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    if !bytes.starts_with(b"\x7fELF") {
        return Err(BadElf::NotElf);
    }
    let machine = read::u16(bytes, 18).ok_or(BadElf::Truncated)?;
    if bytes[4..6] != [CLASS_64, LITTLE_ENDIAN] || machine != EM_X86_64 {
        return Err(BadElf::Foreign);
    }
    Ok(())
}

/// One program header: a segment, or a pointer to something inside one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramHeader {
    /// `PT_…`.
    pub kind: u32,
    /// `PF_…`.
    pub flags: u32,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Address as linked: add the bias for the run-time address.
    pub address: u64,
    /// Length in the file, bytes.
    pub file_len: u64,
    /// Length in memory, bytes.
    pub memory_len: u64,
}

impl ProgramHeader {
    /// `PT_LOAD`: a segment that is mapped.
    pub const LOAD: u32 = 1;
    /// `PT_DYNAMIC`.
    pub const DYNAMIC: u32 = 2;
    /// `PT_NOTE`.
    pub const NOTE: u32 = 4;
    /// `PT_PHDR`: the program headers themselves.
    pub const HEADERS: u32 = 6;
    /// `PT_TLS`: the initial content of the object's thread-local storage.
    pub const TLS: u32 = 7;
    /// `PT_GNU_EH_FRAME`: the search table of the exception frames.
    pub const EH_FRAME: u32 = 0x6474_e550;
    /// `PF_X`.
    pub const EXECUTE: u32 = 1;
    /// `PF_W`.
    pub const WRITE: u32 = 2;

    /// Bytes of one in a file.
    pub const LEN: usize = 56;

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            kind: read::u32(bytes, 0)?,
            flags: read::u32(bytes, 4)?,
            offset: read::u64(bytes, 8)?,
            address: read::u64(bytes, 16)?,
            file_len: read::u64(bytes, 32)?,
            memory_len: read::u64(bytes, 40)?,
        })
    }

    /// Whether it is mapped with this right (`EXECUTE`, `WRITE`).
    pub fn allows(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// The program headers of the object that begins with `bytes`. In memory, the first page
/// of an object holds them.
///
/// # Errors
/// It is no ELF object for this machine, or the headers lie outside `bytes`.
pub fn headers(bytes: &[u8]) -> Result<impl Iterator<Item = ProgramHeader> + Clone + '_, BadElf> {
    check(bytes)?;
    let number = |at| read::u16(bytes, at).ok_or(BadElf::Truncated);
    let (size, count) = (number(54)? as usize, number(56)? as usize);
    let offset = read::u64(bytes, 32).ok_or(BadElf::Truncated)?;
    if count > 0 && size != ProgramHeader::LEN {
        return Err(BadElf::Truncated);
    }
    let table = if count == 0 { Some(&[][..]) } else { read::range(bytes, offset, (size * count) as u64) };
    let table = table.ok_or(BadElf::Truncated)?;
    Ok(table.chunks_exact(ProgramHeader::LEN).filter_map(ProgramHeader::read))
}
