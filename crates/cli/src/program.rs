//! Checks a program's file: can the image enter it?
//!
//! A program that the image cannot enter would run natively without a word, so this is decided before execve, and each
//! [`Obstacle`] is a sentence that says what to do. The rule itself is [`patch::program`], by which `execve` inside
//! decides, too.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use patch::program::{self, Door, HEAD_LEN, Reason, SCRIPT_DEPTH_MAX, set_id_mark};
use thiserror::Error;
use tool::resolve::executable;

/// Why the image cannot enter a program.
#[derive(Debug, Error)]
pub enum Obstacle {
    /// ELFCLASS32.
    #[error("{} is a 32-bit program, and Entresol knows 64-bit ones only. Use a 64-bit build of it", .0.display())]
    ThirtyTwoBit(PathBuf),
    /// Not for x86-64.
    #[error("{} is made for another processor than x86-64", .0.display())]
    OtherProcessor(PathBuf),
    /// The file changes user or group, or gains capabilities, when it is executed.
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
    /// The caller's effective ids are not its real ones.
    #[error(
        "{} would run with an effective user or group that is not the real one, so the dynamic linker does not let Entresol \
         in. Change the real one, too",
        .0.display()
    )]
    Secure(PathBuf),
    /// We may execute it but not read it.
    #[error("{} cannot be read ({why}), so Entresol cannot tell whether it could enter it", path.display())]
    Unreadable {
        /// The program.
        path: PathBuf,
        /// The host's reason.
        why: io::Error,
    },
    /// A script whose interpreter is no file that may be executed.
    #[error(
        "{} asks for the interpreter {}, which is not a file that may be executed",
        script.display(),
        interpreter.display()
    )]
    InterpreterRefused {
        /// The script.
        script: PathBuf,
        /// The interpreter that its first line names.
        interpreter: PathBuf,
    },
    /// A script whose interpreter is not there.
    #[error("{} asks for the interpreter {}, which does not exist", script.display(), interpreter.display())]
    NoInterpreter {
        /// The script.
        script: PathBuf,
        /// The interpreter that its first line names.
        interpreter: PathBuf,
    },
    /// An ELF file that makes no sense.
    #[error("{} is not a proper ELF program ({why})", path.display())]
    Malformed {
        /// The program.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// Scripts that name scripts, too often.
    #[error("{} is a script whose interpreter is a script, and so on: Linux gives up too", .0.display())]
    ScriptTooDeep(PathBuf),
}

impl Obstacle {
    /// The reason without its details; `None` if Linux cannot execute the file either.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        Some(match self {
            Self::ThirtyTwoBit(_) => Reason::ThirtyTwoBit,
            Self::OtherProcessor(_) => Reason::OtherProcessor,
            Self::Privileged { .. } => Reason::Privileged,
            Self::Secure(_) => Reason::Secure,
            Self::Unreadable { .. } => Reason::Unreadable,
            Self::NoInterpreter { .. }
            | Self::InterpreterRefused { .. }
            | Self::Malformed { .. }
            | Self::ScriptTooDeep(_) => return None,
        })
    }
}

/// Facts about a program that the image can enter.
#[derive(Debug)]
pub struct Program {
    /// The ELF file that execve loads in the end: the interpreter, for a script.
    pub binary: PathBuf,
    /// The file is neither ELF nor names an interpreter: execvp gives it to /bin/sh.
    pub by_shell: bool,
    /// Part of its text is writable at start, or it needs text relocations.
    pub writable_text: bool,
    /// How the image enters it.
    pub door: Door,
    /// That file, as it was when it was inspected.
    pub file: File,
    /// The words by which Linux replaces the first one of the command, for a script: its interpreter, that one's argument, the
    /// script. Empty for a program.
    pub words: Vec<OsString>,
}

/// The kind of a file, by its first bytes.
enum Content {
    Elf,
    Script(PathBuf, Option<OsString>),
    Other,
}

/// Looks at the file, and for a script at its interpreter.
pub fn inspect(path: &Path) -> Result<Program, Obstacle> {
    let mut binary = path.to_owned();
    let (mut by_shell, mut words) = (false, vec![]);
    for _ in 0..=SCRIPT_DEPTH_MAX {
        match content(&binary).map_err(|why| Obstacle::Unreadable { path: binary.clone(), why })? {
            Content::Elf => {
                let (file, program::Program { door, writable_text }) = inspect_elf(&binary)?;
                return Ok(Program { binary, by_shell, writable_text, door, file, words });
            }
            Content::Script(interpreter, argument) => {
                if let Err(why) = executable(&interpreter) {
                    return Err(match why.raw_os_error() {
                        Some(libc::ENOENT | libc::ENOTDIR) => Obstacle::NoInterpreter { script: binary, interpreter },
                        _ => Obstacle::InterpreterRefused { script: binary, interpreter },
                    });
                }
                if words.is_empty() {
                    words.push(binary.into_os_string());
                }
                let interpreted = [interpreter.clone().into_os_string()].into_iter().chain(argument);
                words.splice(..0, interpreted);
                binary = interpreter;
            }
            Content::Other => {
                by_shell = true;
                words = vec!["/bin/sh".into(), path.as_os_str().to_owned()];
                binary = "/bin/sh".into();
            }
        }
    }
    Err(Obstacle::ScriptTooDeep(path.to_owned()))
}

fn content(path: &Path) -> io::Result<Content> {
    let mut head = Vec::with_capacity(HEAD_LEN);
    File::open(path)?.take(HEAD_LEN as u64).read_to_end(&mut head)?;
    Ok(match program::content(&head) {
        program::Content::Elf => Content::Elf,
        program::Content::Script(interpreter, argument) => {
            let argument = argument.map(|bytes| OsStr::from_bytes(bytes).into());
            Content::Script(OsStr::from_bytes(interpreter).into(), argument)
        }
        program::Content::Other => Content::Other,
    })
}

fn inspect_elf(path: &Path) -> Result<(File, program::Program), Obstacle> {
    let unreadable = |why| Obstacle::Unreadable { path: path.to_owned(), why };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let mut failure = None;
    let read = &mut |at, to: &mut [u8]| {
        read_at(&file, at, to).unwrap_or_else(|why| {
            failure = Some(why);
            0
        })
    };
    let inspected = program::inspect(read);
    if let Some(why) = failure {
        return Err(unreadable(why));
    }
    let inspected = inspected.map_err(|why| Obstacle::of(path, why))?;
    // SAFETY: these calls read the process's own state.
    let (user, group) = unsafe { ([libc::getuid(), libc::geteuid()], [libc::getgid(), libc::getegid()]) };
    if program::is_secure(user, group) {
        return Err(Obstacle::Secure(path.to_owned()));
    }
    if let Some(what) = gained_privilege(path, &metadata) {
        return Err(Obstacle::Privileged { path: path.to_owned(), what });
    }
    Ok((file, inspected))
}

/// As many bytes as the file has there.
fn read_at(file: &File, at: u64, to: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < to.len() {
        match file.read_at(&mut to[len..], at.saturating_add(len as u64)) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            // An offset that no file has.
            Err(why) if why.kind() == io::ErrorKind::InvalidInput => break,
            Err(why) => return Err(why),
        }
    }
    Ok(len)
}

/// The image is executed in the program's place, whatever loads it otherwise, if its file can be mapped.
pub fn take_place(program: &mut Program) -> Result<(), Obstacle> {
    let mut read = |at, to: &mut [u8]| read_at(&program.file, at, to).unwrap_or(0);
    program::Layout::read(&mut read).map_err(|why| Obstacle::of(&program.binary, why))?;
    program.door = Door::Image;
    Ok(())
}

impl Obstacle {
    fn of(path: &Path, why: program::Obstacle) -> Self {
        let path = path.to_owned();
        match why {
            program::Obstacle::ThirtyTwoBit => Self::ThirtyTwoBit(path),
            program::Obstacle::OtherProcessor => Self::OtherProcessor(path),
            program::Obstacle::Malformed(why) => Self::Malformed { path, why },
        }
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

    fn inspected(bytes: &[u8]) -> Result<Program, Obstacle> {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("program");
        std::fs::write(&path, bytes).unwrap();
        inspect(&path)
    }

    #[test]
    fn accepts_what_glibc_loads() {
        let program = inspect("/bin/true".as_ref()).unwrap();
        assert_eq!((program.binary.as_path(), program.door), ("/bin/true".as_ref(), Door::Linker));
        assert!(!program.by_shell && !program.writable_text && program.words.is_empty());
    }

    #[test]
    fn says_why_not() {
        let whole = std::fs::read("/bin/true").unwrap();
        assert!(matches!(inspected(&whole[..100]), Err(Obstacle::Malformed { .. })));
        let mut other = whole.clone();
        other[18] = 183;
        assert!(matches!(inspected(&other), Err(Obstacle::OtherProcessor(_))));
        other[4] = 1;
        assert!(matches!(inspected(&other), Err(Obstacle::ThirtyTwoBit(_))));
    }

    #[test]
    fn a_script_is_what_its_interpreter_is() {
        let program = inspected(b"#! /bin/sh -e\necho\n").unwrap();
        assert_eq!((program.binary.as_path(), program.by_shell), ("/bin/sh".as_ref(), false));
        assert_eq!(program.words[..2], ["/bin/sh", "-e"]);
        assert!(program.words[2].to_string_lossy().ends_with("/program"));
        assert!(inspected(b"echo no first line\n").unwrap().by_shell);
        assert!(matches!(inspected(b"#!/does/not/exist\n"), Err(Obstacle::NoInterpreter { .. })));
    }

    #[test]
    fn a_script_that_interprets_itself_ends() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("self");
        std::fs::write(&path, format!("#!{}\n", path.display())).unwrap();
        assert!(matches!(inspect(&path), Err(Obstacle::InterpreterRefused { .. })));
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert!(matches!(inspect(&path), Err(Obstacle::ScriptTooDeep(_))));
    }
}
