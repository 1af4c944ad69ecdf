//! Looks at a program's file: can the image enter it?
//!
//! Whatever the image cannot enter would run natively without a word, so this is decided before execve, and each
//! [`Obstacle`] is a sentence that says what to do.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};
use thiserror::Error;

/// Scripts may name scripts; Linux follows four such steps (`exec_binprm` in fs/exec.c).
const SCRIPT_DEPTH_MAX: usize = 4;
/// What Linux reads of a file's first line (`BINPRM_BUF_SIZE`).
const HEAD_LEN: usize = 256;

/// Flags of a segment whose code may change while it runs.
const WRITE_EXECUTE: u32 = elf::PF_W.0 | elf::PF_X.0;

/// Why the image cannot enter a program.
#[derive(Debug, Error)]
pub enum Obstacle {
    /// No PT_INTERP.
    #[error(
        "{} is statically linked: it loads no library, so Entresol has no way in. Use a dynamically linked build of it",
        .0.display()
    )]
    Static(PathBuf),
    /// ELFCLASS32.
    #[error("{} is a 32-bit program, and Entresol knows 64-bit ones only. Use a 64-bit build of it", .0.display())]
    ThirtyTwoBit(PathBuf),
    /// Not for x86-64.
    #[error("{} is made for another processor than x86-64", .0.display())]
    OtherProcessor(PathBuf),
    /// Its interpreter is musl's.
    #[error(
        "{} is linked with the musl C library, which cannot load Entresol. Use a build of it that is linked with glibc",
        .0.display()
    )]
    Musl(PathBuf),
    /// An interpreter that we do not know.
    #[error("{} is loaded by {loader}, which is not glibc's dynamic linker", path.display())]
    OtherLoader {
        /// The program.
        path: PathBuf,
        /// Its PT_INTERP.
        loader: String,
    },
    /// Built by the Go compiler.
    #[error(
        "{} is a Go program: Go's runtime schedules threads of its own without glibc and gains nothing here. Run it \
         natively",
        .0.display()
    )]
    Go(PathBuf),
    /// It changes its user or group, or gains capabilities.
    #[error(
        "{} gains privileges when it starts ({what}), so the dynamic linker does not let Entresol in. Run it natively, \
         or a copy of it without that mark",
        path.display()
    )]
    Privileged {
        /// The program.
        path: PathBuf,
        /// Which mark: "setuid", "setgid" or "file capabilities".
        what: &'static str,
    },
    /// We may execute it but not read it.
    #[error("{} cannot be read ({why}), so Entresol cannot tell whether it could enter it", path.display())]
    Unreadable {
        /// The program.
        path: PathBuf,
        /// The host's reason.
        why: io::Error,
    },
    /// A script whose interpreter is not there.
    #[error("{} asks for the interpreter {}, which does not exist", script.display(), interpreter.display())]
    NoInterpreter {
        /// The script.
        script: PathBuf,
        /// What its first line names.
        interpreter: PathBuf,
    },
    /// An ELF file that makes no sense.
    #[error("{} is not a proper ELF program ({why})", path.display())]
    Malformed {
        /// The program.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Scripts that name scripts, too often.
    #[error("{} is a script whose interpreter is a script, and so on: Linux gives up too", .0.display())]
    ScriptTooDeep(PathBuf),
}

/// What there is to know about a program that the image can enter.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The ELF file that execve loads in the end: the interpreter, for a script.
    pub binary: PathBuf,
    /// The file is neither ELF nor names an interpreter: execvp gives it to /bin/sh.
    pub by_shell: bool,
    /// Part of its text is writable at start, or it needs text relocations.
    pub writable_text: bool,
}

/// What a file's first bytes say.
enum Content {
    Elf,
    Script(PathBuf),
    Other,
}

/// Looks at the file, and for a script at its interpreter.
pub fn inspect(path: &Path) -> Result<Program, Obstacle> {
    let mut binary = path.to_owned();
    let mut by_shell = false;
    for _ in 0..=SCRIPT_DEPTH_MAX {
        match content(&binary).map_err(|why| Obstacle::Unreadable { path: binary.clone(), why })? {
            Content::Elf => {
                let writable_text = inspect_elf(&binary)?;
                return Ok(Program { binary, by_shell, writable_text });
            }
            Content::Script(interpreter) if !interpreter.exists() => {
                return Err(Obstacle::NoInterpreter { script: binary, interpreter });
            }
            Content::Script(interpreter) => binary = interpreter,
            Content::Other => {
                by_shell = true;
                binary = "/bin/sh".into();
            }
        }
    }
    Err(Obstacle::ScriptTooDeep(path.to_owned()))
}

fn content(path: &Path) -> io::Result<Content> {
    let mut head = Vec::with_capacity(HEAD_LEN);
    File::open(path)?.take(HEAD_LEN as u64).read_to_end(&mut head)?;
    if head.starts_with(&elf::ELFMAG) {
        return Ok(Content::Elf);
    }
    Ok(interpreter(&head).map_or(Content::Other, Content::Script))
}

/// The interpreter that a script's first line names (`load_script` in fs/binfmt_script.c).
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let name = line.split(|byte| b" \t\0".contains(byte)).find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(name).into())
}

/// Answers whether the program's text is writable at start.
fn inspect_elf(path: &Path) -> Result<bool, Obstacle> {
    let unreadable = |why| Obstacle::Unreadable { path: path.to_owned(), why };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let data = ReadCache::new(file);

    // Looked at first, because a 32-bit file's header has another form.
    let class = data.read_bytes_at(4, 1).map_err(|()| malformed(path, &"the file is too short"))?;
    if class[0] == elf::ELFCLASS32.0 {
        return Err(Obstacle::ThirtyTwoBit(path.to_owned()));
    }
    let header = FileHeader64::<Endianness>::parse(&data).map_err(|why| malformed(path, &why))?;
    let endian = header.endian().map_err(|why| malformed(path, &why))?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err(Obstacle::OtherProcessor(path.to_owned()));
    }

    let mut loader = None;
    let mut writable_text = false;
    for segment in header.program_headers(endian, &data).map_err(|why| malformed(path, &why))? {
        if let Some(name) = segment.interpreter(endian, &data).map_err(|why| malformed(path, &why))? {
            loader = Some(String::from_utf8_lossy(name).into_owned());
        }
        if is_go_note(segment, endian, &data) {
            return Err(Obstacle::Go(path.to_owned()));
        }
        let flags = segment.p_flags(endian).0;
        writable_text |= segment.p_type(endian) == elf::PT_LOAD && flags & WRITE_EXECUTE == WRITE_EXECUTE;
    }
    let loader = loader.ok_or_else(|| Obstacle::Static(path.to_owned()))?;
    check_loader(path, loader)?;
    if let Some(what) = gained_privilege(path, &metadata) {
        return Err(Obstacle::Privileged { path: path.to_owned(), what });
    }
    Ok(writable_text)
}

fn malformed(path: &Path, why: &dyn ToString) -> Obstacle {
    Obstacle::Malformed { path: path.to_owned(), why: why.to_string() }
}

/// Go's linker leaves a note of the name "Go" with the build's id.
fn is_go_note(segment: &elf::ProgramHeader64<Endianness>, endian: Endianness, data: &ReadCache<File>) -> bool {
    let Ok(Some(mut notes)) = segment.notes(endian, data) else { return false };
    while let Ok(Some(note)) = notes.next() {
        if note.name() == b"Go" {
            return true;
        }
    }
    false
}

fn check_loader(path: &Path, loader: String) -> Result<(), Obstacle> {
    let name = loader.rsplit('/').next().unwrap_or_default();
    if name.starts_with("ld-linux-x86-64.so") {
        Ok(())
    } else if name.starts_with("ld-musl-") {
        Err(Obstacle::Musl(path.to_owned()))
    } else {
        Err(Obstacle::OtherLoader { path: path.to_owned(), loader })
    }
}

/// Whether execve would set AT_SECURE, under which the dynamic linker ignores LD_AUDIT
/// (`bprm_fill_uid` in fs/exec.c, `cap_bprm_creds_from_file` in security/commoncap.c).
fn gained_privilege(path: &Path, metadata: &std::fs::Metadata) -> Option<&'static str> {
    // SAFETY: these calls read the process's own state.
    let (user, group, no_new_privileges) =
        unsafe { (libc::getuid(), libc::getgid(), libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) };
    if no_new_privileges || mounted_nosuid(path) {
        return None;
    }
    if let Some(mark) = set_id_mark(metadata.mode(), (metadata.uid(), metadata.gid()), (user, group)) {
        return Some(mark);
    }
    (user != 0 && has_capabilities(path)).then_some("file capabilities")
}

/// The mark that makes a file's program run as another user or group than ours. Without permission for the group to
/// execute it, setgid means mandatory locking and nothing here.
fn set_id_mark(mode: u32, (owner, owner_group): (u32, u32), (user, group): (u32, u32)) -> Option<&'static str> {
    let group_mark = libc::S_ISGID | libc::S_IXGRP;
    if mode & libc::S_ISUID != 0 && owner != user {
        Some("setuid")
    } else if mode & group_mark == group_mark && owner_group != group {
        Some("setgid")
    } else {
        None
    }
}

fn mounted_nosuid(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: all-zero bytes are a valid statvfs; `name` ends with a zero byte.
    unsafe {
        let mut mount: libc::statvfs = std::mem::zeroed();
        libc::statvfs(name.as_ptr(), &mut mount) == 0 && mount.f_flag & libc::ST_NOSUID != 0
    }
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names end with a zero byte; size 0 asks for the length only.
    unsafe { libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minimal ELF64 header with one program header of the given type and content.
    fn tiny_elf(class: u8, machine: elf::Machine, segment: elf::ProgramType, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', class, 1, 1, 0];
        bytes.resize(16, 0);
        for half in [2u16, machine.0] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend(1u32.to_le_bytes());
        for wide in [0u64, 64, 0] {
            bytes.extend(wide.to_le_bytes());
        }
        bytes.extend(0u32.to_le_bytes());
        for half in [64u16, 56, 1, 0, 0, 0] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend(segment.0.to_le_bytes());
        bytes.extend(elf::PF_R.0.to_le_bytes());
        for wide in [120u64, 0, 0, content.len() as u64, content.len() as u64, 4] {
            bytes.extend(wide.to_le_bytes());
        }
        bytes.extend(content);
        bytes
    }

    fn inspected(bytes: &[u8]) -> Result<Program, Obstacle> {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("program");
        std::fs::write(&path, bytes).unwrap();
        inspect(&path)
    }

    const GLIBC: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";

    #[test]
    fn accepts_what_glibc_loads() {
        let program = inspected(&tiny_elf(2, elf::EM_X86_64, elf::PT_INTERP, GLIBC)).unwrap();
        assert!(!program.by_shell && !program.writable_text);
        assert_eq!(inspect("/bin/true".as_ref()).unwrap().binary, Path::new("/bin/true"));
    }

    #[test]
    fn refuses_each_kind_for_its_own_reason() {
        let musl = b"/lib/ld-musl-x86_64.so.1\0";
        let other = b"/opt/loader\0";
        let note = b"\x03\0\0\0\x04\0\0\0\x04\0\0\0Go\0\0abcd";
        let x86 = elf::EM_X86_64;
        assert!(matches!(inspected(&tiny_elf(2, x86, elf::PT_LOAD, b"")), Err(Obstacle::Static(_))));
        assert!(matches!(inspected(&tiny_elf(1, elf::EM_386, elf::PT_INTERP, GLIBC)), Err(Obstacle::ThirtyTwoBit(_))));
        let arm = tiny_elf(2, elf::EM_AARCH64, elf::PT_INTERP, GLIBC);
        assert!(matches!(inspected(&arm), Err(Obstacle::OtherProcessor(_))));
        assert!(matches!(inspected(&tiny_elf(2, x86, elf::PT_INTERP, musl)), Err(Obstacle::Musl(_))));
        assert!(matches!(inspected(&tiny_elf(2, x86, elf::PT_INTERP, other)), Err(Obstacle::OtherLoader { .. })));
        assert!(matches!(inspected(&tiny_elf(2, x86, elf::PT_NOTE, note)), Err(Obstacle::Go(_))));
    }

    #[test]
    fn damaged_files_are_refused_at_every_length() {
        let whole = tiny_elf(2, elf::EM_X86_64, elf::PT_INTERP, GLIBC);
        for len in 4..whole.len() {
            let answer = inspected(&whole[..len]);
            assert!(
                matches!(answer, Err(Obstacle::Malformed { .. } | Obstacle::Static(_))),
                "length {len}: {answer:?}"
            );
        }
    }

    #[test]
    fn a_script_is_what_its_interpreter_is() {
        let program = inspected(b"#! /bin/sh -e\necho\n").unwrap();
        assert_eq!(program, Program { binary: "/bin/sh".into(), by_shell: false, writable_text: false });
        assert!(inspected(b"echo no first line\n").unwrap().by_shell);
        assert!(matches!(inspected(b"#!/does/not/exist\n"), Err(Obstacle::NoInterpreter { .. })));
    }

    #[test]
    fn a_script_that_interprets_itself_ends() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("self");
        std::fs::write(&path, format!("#!{}\n", path.display())).unwrap();
        assert!(matches!(inspect(&path), Err(Obstacle::ScriptTooDeep(_))));
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

    #[test]
    fn first_lines_are_read_as_linux_reads_them() {
        assert_eq!(interpreter(b"#!/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(interpreter(b"#!\t /usr/bin/env python3\n"), Some("/usr/bin/env".into()));
        assert_eq!(interpreter(b"#!\n/bin/sh"), None);
        assert_eq!(interpreter(b"# /bin/sh"), None);
    }
}
