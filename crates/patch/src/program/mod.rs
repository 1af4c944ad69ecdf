//! Can the image enter a program? The one rule for it: `entresol run` refuses a program by it, and `execve` in a program
//! that already runs under Entresol starts such a program natively.
//!
//! The caller reads the file; nothing here touches a host. There are two doors ([`Door`]): glibc's dynamic linker loads the image
//! by LD_AUDIT or LD_PRELOAD, and all other programs are loaded by the image, which is executed in their place and maps them as
//! the host would ([`Layout`]).

mod frames;
mod layout;

pub use frames::frames;
pub use layout::{Layout, Segment};

use alloc::vec::Vec;

/// The number of scripts that name scripts which Linux follows (`exec_binprm` in fs/exec.c).
pub const SCRIPT_DEPTH_MAX: usize = 4;
/// The number of bytes that Linux reads to identify a file (`BINPRM_BUF_SIZE`).
pub const HEAD_LEN: usize = 256;

const HEADER_LEN: usize = 64;
const SEGMENT_LEN: usize = 56;
const ELFCLASS32: u8 = 1;
const ELFDATA2LSB: u8 = 1;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
/// PF_X and PF_W.
const WRITE_EXECUTE: u32 = 3;
/// The part of an interpreter's name that identifies glibc's.
const LOADER_LEN: usize = 255;

/// Why the image cannot enter an ELF file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// A 32-bit program.
    ThirtyTwoBit,
    /// Not for x86-64.
    OtherProcessor,
    /// The file's headers make no sense, and why.
    Malformed(&'static str),
}

impl Obstacle {
    /// The reason without its details.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Obstacle::ThirtyTwoBit => Reason::ThirtyTwoBit,
            Obstacle::OtherProcessor => Reason::OtherProcessor,
            Obstacle::Malformed(_) => Reason::Malformed,
        }
    }
}

/// Why what is executed cannot be entered: by its file ([`Obstacle::reason`]), by the rights that it would get, or by the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "`words` says what each means")]
pub enum Reason {
    ThirtyTwoBit,
    OtherProcessor,
    Malformed,
    Privileged,
    Unreadable,
    Secure,
    ImageForbidden,
    ImageMissing,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 8] = [
        Reason::ThirtyTwoBit,
        Reason::OtherProcessor,
        Reason::Malformed,
        Reason::Privileged,
        Reason::Unreadable,
        Reason::Secure,
        Reason::ImageForbidden,
        Reason::ImageMissing,
    ];

    /// In words, for a sentence or a list.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Reason::ThirtyTwoBit => "32-bit",
            Reason::OtherProcessor => "made for another processor",
            Reason::Malformed => "not a proper ELF program",
            Reason::Privileged => "set-user-ID, set-group-ID or with capabilities of its own",
            Reason::Unreadable => "executable, but not readable",
            Reason::Secure => "executed with an effective user or group that is not the real one",
            Reason::ImageForbidden => "Entresol's library may not be read or executed here",
            Reason::ImageMissing => "Entresol's library is gone, or not below this root folder",
        }
    }
}

/// Whether programs run in secure-execution mode (AT_SECURE) if a process with these users and groups, each a real and
/// an effective one, executes them (`cap_bprm_creds_from_file`). The dynamic linker ignores the image then.
#[must_use]
pub fn is_secure(user: [u32; 2], group: [u32; 2]) -> bool {
    user[0] != user[1] || group[0] != group[1]
}

/// The first bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// An ELF file.
    Elf,
    /// A script: the interpreter that its first line names, and the rest of the line, which is one argument.
    Script(&'a [u8], Option<&'a [u8]>),
    /// Neither: execve refuses it, and execvp gives it to /bin/sh.
    Other,
}

/// The kind of a file by its first [`HEAD_LEN`] bytes (`load_script` in fs/binfmt_script.c).
#[must_use]
pub fn content(head: &[u8]) -> Content<'_> {
    if head.starts_with(b"\x7fELF") {
        return Content::Elf;
    }
    let is_space = |byte: &u8| b" \t".contains(byte);
    let line = head.strip_prefix(b"#!").and_then(|rest| rest.split(|&byte| byte == b'\n').next());
    let line = line.and_then(|line| line.split(|&byte| byte == 0).next()).unwrap_or_default();
    let Some(start) = line.iter().position(|byte| !is_space(byte)) else { return Content::Other };
    let line = &line[start..];
    let end = line.iter().rposition(|byte| !is_space(byte)).map_or(0, |last| last + 1);
    let (name, rest) = line[..end].split_at(line[..end].iter().position(is_space).unwrap_or(end));
    let argument = rest.iter().position(|byte| !is_space(byte)).map(|at| &rest[at..]);
    Content::Script(name, argument)
}

/// The way into a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// glibc's dynamic linker loads the image.
    Linker,
    /// The image is executed and loads the program.
    Image,
}

/// Facts about a program that can be entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program {
    /// How.
    pub door: Door,
    /// Some of its text is writable from the start.
    pub writable_text: bool,
}

/// Whether and how the image can enter an ELF file, of which `read` gives bytes from an offset on: as many as there are.
///
/// # Errors
/// The first obstacle.
pub fn inspect(read: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> Result<Program, Obstacle> {
    let header = header(read)?;
    let (start, count) = (word(&header, 32), half(&header, 56));
    let (mut loader, mut writable_text) = (None, false);
    for at in 0..u64::from(count) {
        let mut segment = [0; SEGMENT_LEN];
        let at = start.checked_add(at * SEGMENT_LEN as u64).ok_or(TOO_SHORT)?;
        whole(read, at, &mut segment)?;
        let (kind, flags) = (half_word(&segment, 0), half_word(&segment, 4));
        let (offset, len) = (word(&segment, 8), word(&segment, 32));
        match kind {
            PT_INTERP => loader = Some(loader_name(read, offset, len)?),
            PT_LOAD => writable_text |= flags & WRITE_EXECUTE == WRITE_EXECUTE,
            _ => {}
        }
    }
    let door = if loader.is_some_and(|loader| is_glibc(&loader)) { Door::Linker } else { Door::Image };
    if door == Door::Image {
        Layout::read(read)?;
    }
    Ok(Program { door, writable_text })
}

/// The ELF header, if it is one for this processor.
fn header(read: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> Result<[u8; HEADER_LEN], Obstacle> {
    let mut header = [0; HEADER_LEN];
    let len = read(0, &mut header);
    // First of all, because a 32-bit file's header has another form.
    if len > 4 && header[4] == ELFCLASS32 {
        return Err(Obstacle::ThirtyTwoBit);
    }
    if len < HEADER_LEN {
        return Err(Obstacle::Malformed("the file is too short"));
    }
    if !header.starts_with(b"\x7fELF") {
        return Err(Obstacle::Malformed("it does not begin as an ELF file does"));
    }
    if header[5] != ELFDATA2LSB || half(&header, 18) != EM_X86_64 {
        return Err(Obstacle::OtherProcessor);
    }
    if usize::from(half(&header, 54)) != SEGMENT_LEN {
        return Err(Obstacle::Malformed("its program headers have another size"));
    }
    Ok(header)
}

const TOO_SHORT: Obstacle = Obstacle::Malformed("its headers point behind its end");

fn whole(read: &mut dyn FnMut(u64, &mut [u8]) -> usize, at: u64, to: &mut [u8]) -> Result<(), Obstacle> {
    if read(at, to) == to.len() { Ok(()) } else { Err(TOO_SHORT) }
}

fn loader_name(read: &mut dyn FnMut(u64, &mut [u8]) -> usize, offset: u64, len: u64) -> Result<Vec<u8>, Obstacle> {
    let mut bytes = [0; LOADER_LEN];
    let bytes = &mut bytes[..usize::try_from(len).unwrap_or(LOADER_LEN).min(LOADER_LEN)];
    whole(read, offset, bytes)?;
    Ok(bytes.split(|&byte| byte == 0).next().unwrap_or_default().to_vec())
}

/// Whether a program's interpreter is glibc's dynamic linker, by its path.
#[must_use]
pub fn is_glibc(loader: &[u8]) -> bool {
    let name = loader.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name.starts_with(b"ld-linux-x86-64.so")
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn half_word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The mark by which a file's program runs as another user or group than the caller's. Under it the dynamic linker ignores
/// LD_AUDIT (`bprm_fill_uid` in fs/exec.c). Without permission for the group to execute it, setgid means mandatory locking
/// and nothing here.
#[must_use]
pub fn set_id_mark(mode: u32, (owner, owner_group): (u32, u32), (user, group): (u32, u32)) -> Option<&'static str> {
    const S_ISUID: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    if mode & S_ISUID != 0 && owner != user {
        Some("setuid")
    } else if mode & SET_GROUP == SET_GROUP && owner_group != group {
        Some("setgid")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    const GLIBC: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";

    /// A minimal ELF64 header with one program header of the given type, flags and content.
    fn tiny_elf(class: u8, machine: u16, kind: u32, flags: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', class, 1, 1, 0];
        bytes.resize(16, 0);
        for half in [2_u16, machine] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend(1_u32.to_le_bytes());
        for wide in [0_u64, 64, 0] {
            bytes.extend(wide.to_le_bytes());
        }
        bytes.extend(0_u32.to_le_bytes());
        for half in [64_u16, 56, 1, 0, 0, 0] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend(kind.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        for wide in [120_u64, 0, 0, content.len() as u64, content.len() as u64, 4] {
            bytes.extend(wide.to_le_bytes());
        }
        bytes.extend(content);
        bytes
    }

    fn inspected(file: &[u8]) -> Result<Door, Obstacle> {
        let program = inspect(&mut |at, to| {
            let rest = usize::try_from(at).ok().and_then(|at| file.get(at..)).unwrap_or_default();
            let len = rest.len().min(to.len());
            to[..len].copy_from_slice(&rest[..len]);
            len
        });
        program.map(|program| program.door)
    }

    #[test]
    fn glibc_loads_it() {
        assert_eq!(inspected(&tiny_elf(2, EM_X86_64, PT_INTERP, 4, GLIBC)), Ok(Door::Linker));
        assert_eq!(inspected(&std::fs::read("/bin/true").unwrap()), Ok(Door::Linker));
    }

    #[test]
    fn each_kind_has_its_own_door_or_obstacle() {
        let of = |class, machine, kind, content| inspected(&tiny_elf(class, machine, kind, 5, content)).unwrap_err();
        let mut own = tiny_elf(2, EM_X86_64, PT_LOAD, 5, b"text");
        // At the address that is as far from a page's beginning as the place in the file.
        own[80..88].copy_from_slice(&0x40_0078_u64.to_le_bytes());
        own[24..32].copy_from_slice(&0x40_0078_u64.to_le_bytes());
        assert_eq!(inspected(&own), Ok(Door::Image));
        assert_eq!(of(1, 3, PT_INTERP, GLIBC), Obstacle::ThirtyTwoBit);
        assert_eq!(of(2, 183, PT_INTERP, GLIBC), Obstacle::OtherProcessor);
        assert!(matches!(of(2, EM_X86_64, PT_INTERP, b"/lib/ld-musl-x86_64.so.1\0"), Obstacle::Malformed(_)));
    }

    #[test]
    fn damaged_files_have_an_obstacle_at_every_length() {
        let file = tiny_elf(2, EM_X86_64, PT_INTERP, 4, GLIBC);
        for len in 0..file.len() {
            assert!(matches!(inspected(&file[..len]), Err(Obstacle::Malformed(_))), "length {len}");
        }
        let mut far = file;
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(inspected(&far), Err(Obstacle::Malformed(_))));
    }

    #[test]
    fn first_lines_are_read_as_linux_reads_them() {
        assert_eq!(content(b"#!/bin/sh"), Content::Script(b"/bin/sh", None));
        assert_eq!(content(b"#!\t /usr/bin/env python3\n"), Content::Script(b"/usr/bin/env", Some(b"python3")));
        assert_eq!(content(b"#!/bin/sh \t -e  -x \t\nrest"), Content::Script(b"/bin/sh", Some(b"-e  -x")));
        assert_eq!(content(b"#!/bin/sh\0-e"), Content::Script(b"/bin/sh", None));
        assert_eq!(content(b"#!  \t\n/bin/sh"), Content::Other);
        assert_eq!(content(b"#!\n/bin/sh"), Content::Other);
        assert_eq!(content(b"# /bin/sh"), Content::Other);
        assert_eq!(content(b"\x7fELF"), Content::Elf);
    }

    #[test]
    fn set_id_marks_count_when_they_change_something() {
        assert_eq!(set_id_mark(0o4755, (0, 0), (1000, 1000)), Some("setuid"));
        assert_eq!(set_id_mark(0o4755, (1000, 0), (1000, 1000)), None);
        assert_eq!(set_id_mark(0o2755, (0, 5), (1000, 1000)), Some("setgid"));
        assert_eq!(set_id_mark(0o2755, (0, 1000), (1000, 1000)), None);
        assert_eq!(set_id_mark(0o2745, (0, 5), (1000, 1000)), None);
        assert_eq!(set_id_mark(0o0755, (0, 0), (1000, 1000)), None);
    }
}
