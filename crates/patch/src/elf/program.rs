//! The kind of program that a file contains.

use super::header::{self, BadElf, EM_X86_64, ET_DYN, ET_EXEC, ProgramHeader, headers};
use super::object::Object;
use super::read;

/// How a program gets its C library, and so whether we can enter it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramKind {
    /// Started by glibc's dynamic loader: we can enter it.
    Glibc,
    /// glibc's dynamic loader itself, given as a program.
    GlibcLoader,
    /// Started by musl's dynamic loader.
    Musl,
    /// Started by another dynamic loader.
    OtherLoader,
    /// Without a dynamic loader.
    Static,
    /// 32-bit code, or x86-64 code with 32-bit pointers.
    Bits32,
    /// For another machine: the number is `e_machine`.
    OtherMachine(u16),
    /// An ELF file that is no program: an object file or a core dump.
    NotProgram,
}

/// The result of [`classify`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program<'a> {
    /// Its kind.
    pub kind: ProgramKind,
    /// The path of its dynamic loader.
    pub interpreter: Option<&'a [u8]>,
    /// Built by the Go tool chain, whose runtime makes system calls by itself.
    pub is_go: bool,
}

/// Looks at the contents of a file that somebody wants to execute. That a file is
/// privileged (set-user-ID) is not written in it.
///
/// # Errors
/// It is no ELF file (perhaps a script), or so damaged that the kernel would refuse it.
/// [`BadElf::Foreign`] is not among them: see [`ProgramKind::OtherMachine`].
pub fn classify(file: &[u8]) -> Result<Program<'_>, BadElf> {
    let ident = header::ident(file)?;
    let plain = |kind| Ok(Program { kind, interpreter: None, is_go: false });
    if !ident.is_little_endian || !matches!(ident.machine, EM_386 | EM_X86_64) {
        return plain(ProgramKind::OtherMachine(ident.machine));
    }
    if !ident.is_64_bit || ident.machine == EM_386 {
        return plain(ProgramKind::Bits32);
    }
    if ident.kind != ET_EXEC && ident.kind != ET_DYN {
        return plain(ProgramKind::NotProgram);
    }
    let interpreter = match headers(file)?.find(|header| header.kind == ProgramHeader::INTERPRETER) {
        None => None,
        Some(header) => Some(interpreter(file, &header).ok_or(BadElf::Truncated)?),
    };
    let kind = match interpreter {
        Some(path) => loader_kind(path),
        None if soname(file) == Some(GLIBC_LOADER) => ProgramKind::GlibcLoader,
        None => ProgramKind::Static,
    };
    Ok(Program { kind, interpreter, is_go: is_go(file) })
}

const EM_386: u16 = 3;
const GLIBC_LOADER: &[u8] = b"ld-linux-x86-64.so.2";

fn interpreter<'a>(file: &'a [u8], header: &ProgramHeader) -> Option<&'a [u8]> {
    read::string(read::range(file, header.offset, header.file_len)?, 0)
}

/// By the last part of the path: distributions put loaders into different folders.
fn loader_kind(path: &[u8]) -> ProgramKind {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    match name {
        GLIBC_LOADER => ProgramKind::Glibc,
        _ if name.starts_with(b"ld-musl-") => ProgramKind::Musl,
        _ => ProgramKind::OtherLoader,
    }
}

fn soname(file: &[u8]) -> Option<&[u8]> {
    Object::of_file(file, 0).ok()?.soname()
}

/// Go marks its programs by a note or by a section; `-buildid=` and `strip` each remove
/// one of them.
fn is_go(file: &[u8]) -> bool {
    const GO_BUILD_ID: u32 = 4;
    let noted = Object::of_file(file, 0).is_ok_and(|object| object.note(b"Go\0\0", GO_BUILD_ID).is_some());
    noted || section_names(file).is_some_and(|mut names| names.any(|name| name == b".go.buildinfo"))
}

/// The names of the sections, if the file has a section table.
fn section_names(file: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    const SECTION_LEN: usize = 64;
    // Longer ones are of no interest here.
    const NAME_LEN_MAX: usize = 64;
    let table_at = read::u64(file, 40)?;
    let (size, count, names) = (read::u16(file, 58)?, read::u16(file, 60)?, read::u16(file, 62)?);
    if size as usize != SECTION_LEN {
        return None;
    }
    let table = read::range(file, table_at, count as u64 * SECTION_LEN as u64)?;
    let strings = table.chunks_exact(SECTION_LEN).nth(names as usize)?;
    let strings = read::range(file, read::u64(strings, 24)?, read::u64(strings, 32)?)?;
    Some(table.chunks_exact(SECTION_LEN).filter_map(move |section| {
        let rest = strings.get(read::u32(section, 0)? as usize..)?;
        read::string(&rest[..rest.len().min(NAME_LEN_MAX)], 0)
    }))
}
