//! Whether the image can enter what is executed. The rule about files is [`program::inspect`], which `entresol run`
//! uses as well; here it is applied by a process that may have changed its user, and in the middle of a call.

use crate::base::catch;
use crate::base::handover::Handover;
use crate::base::natives::Reason;
use crate::base::os::{self, nr};
use crate::base::report::Text;
use abi::Errno;
use abi::args::{
    AT_EACCESS, AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, F_GETFD, FD_CLOEXEC, O_CLOEXEC, O_NOCTTY, O_NOFOLLOW,
    O_NONBLOCK, O_PATH, PR_GET_NO_NEW_PRIVS, R_OK, S_IFMT, S_IFREG,
};
use alloc::vec::Vec;
use arch::{syscall, user};
use core::fmt::Write;
use kernel::Call;
use patch::program::{self, Door, Layout};

/// How many bytes of a file are read at once: its headers and, where linkers put them, its notes and its loader's name.
const START_LEN: usize = 1024;
const F_OK: u64 = 0;
const X_OK: u64 = 1;
/// The most bytes of a path, with its zero.
const PATH_MAX: usize = 4096;
/// The most bytes of a name shown to the user.
const NAME_MAX: usize = 400;

/// The outcome of an exec.
#[derive(Debug)]
pub(crate) enum Way {
    /// The image enters the program, unless the host refuses the call.
    In,
    /// The image is executed in the program's place and loads it.
    Load(Load),
    /// The program runs natively.
    Around(Obstacle),
    /// The caller may not execute it: the host returns the error.
    Nowhere,
    /// Neither an ELF file nor a script: the host refuses it with this error, unless `binfmt_misc` has an interpreter for it.
    Unknown(Errno),
    /// The file could not be examined for lack of a descriptor or memory.
    Unseen(Errno),
}

/// Why the image cannot enter, and because of which file.
#[derive(Debug)]
pub(crate) struct Obstacle {
    pub reason: Reason,
    pub file: Vec<u8>,
}

/// A program for the image to load.
#[derive(Debug)]
pub(crate) struct Load {
    /// The open file. Closed by the next program, or by the caller if the exec fails.
    pub fd: i32,
    /// The words by which Linux replaces the first argument of a script, each with a final zero, in reverse order: the
    /// script, its interpreter's argument, its interpreter. Empty for a program.
    pub words: Vec<Vec<u8>>,
}

/// A file as named by a call.
pub(crate) struct File {
    dir: isize,
    path: u64,
    /// `dir` itself is the file.
    empty_path: bool,
    /// AT_SYMLINK_NOFOLLOW.
    no_follow: bool,
    /// The call has flags that are invalid or unknown to us: the host judges them before it looks up the file.
    other_flags: bool,
}

/// The flags of `execveat(2)` that say how the file is found.
const KNOWN_FLAGS: u64 = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;

impl File {
    /// The file that an `execve` or `execveat` names.
    pub(crate) fn of(call: &Call) -> File {
        match call.nr {
            nr::EXECVE => File::named(call.args[0]),
            _ => {
                let (path, mut first) = (call.args[1], [0]);
                let is_empty = user::read(path, &mut first).is_ok() && first == [0];
                let empty_path = is_empty && call.args[4] & AT_EMPTY_PATH != 0;
                let no_follow = call.args[4] & AT_SYMLINK_NOFOLLOW != 0;
                // The host takes an `int`.
                let other_flags = u64::from(call.args[4] as u32) & !KNOWN_FLAGS != 0;
                File { dir: call.args[0] as i32 as isize, path, empty_path, no_follow, other_flags }
            }
        }
    }

    /// An interpreter's file; the path ends with a zero.
    fn at(path: &[u8]) -> File {
        File::named(path.as_ptr() as u64)
    }

    fn named(path: u64) -> File {
        File { dir: AT_FDCWD as isize, path, empty_path: false, no_follow: false, other_flags: false }
    }

    /// Whether only the host can interpret the flags: it refuses them, or executes nothing (`AT_EXECVE_CHECK`).
    pub(crate) fn is_for_host(&self) -> bool {
        self.other_flags
    }

    /// Whether the caller may execute it. If not, the host returns the error.
    fn is_executable(&self) -> bool {
        // SAFETY: the path is the program's, or a string of ours.
        self.empty_path || unsafe { syscall!(nr::FACCESSAT, self.dir, self.path, X_OK) == 0 }
    }

    /// As [`may_be_executed`], of a file that need not be readable.
    fn may_be_executed(&self) -> bool {
        if self.empty_path {
            return may_be_executed(self.dir as i32);
        }
        let flags = O_PATH | O_CLOEXEC | if self.no_follow { O_NOFOLLOW } else { 0 };
        // SAFETY: the path is the program's, or a string of ours.
        let fd = unsafe { syscall!(nr::OPENAT, self.dir, self.path, flags, 0) };
        let allowed = fd >= 0 && may_be_executed(fd as i32);
        if fd >= 0 {
            os::close(fd as i32);
        }
        allowed
    }

    /// The host's error if there is no such file. `execvp(3)` tries one in each folder of its path, and this answers it
    /// without preparations.
    pub(crate) fn missing(&self) -> Option<isize> {
        if self.empty_path || self.no_follow || self.other_flags {
            return None;
        }
        // SAFETY: the path is the program's.
        let found = unsafe { syscall!(nr::FACCESSAT2, self.dir, self.path, F_OK, AT_EACCESS) };
        [Errno::ENOENT, Errno::ENOTDIR].into_iter().map(Errno::to_ret).find(|&error| error == found)
    }

    /// Opens the file, or returns the host's error.
    fn open(&self) -> Result<i32, isize> {
        // Does not wait for a FIFO, nor make a terminal the controlling one.
        const FLAGS: u64 = O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
        if self.empty_path {
            return os::open(self.link().as_bytes(), FLAGS, 0);
        }
        // SAFETY: the path is the program's, or a string of ours.
        let fd = unsafe {
            syscall!(nr::OPENAT, self.dir, self.path, FLAGS | if self.no_follow { O_NOFOLLOW } else { 0 }, 0)
        };
        if fd < 0 { Err(fd) } else { Ok(fd as i32) }
    }

    /// If the image was executed in a program's place and this file names the image for the host: the program's path,
    /// with a final zero.
    pub(crate) fn behind(&self, handover: &Handover) -> Option<Vec<u8>> {
        let flag = |wanted, flag| if wanted { flag } else { 0 };
        let flags = flag(self.empty_path, AT_EMPTY_PATH) | flag(self.no_follow, AT_SYMLINK_NOFOLLOW);
        handover.behind(self.dir, self.path as *const u8, flags)
    }

    /// The path in `/proc` of an open file, which may be unreadable (O_PATH).
    fn link(&self) -> Text<40> {
        let mut link = Text::default();
        let _ = write!(link, "/proc/self/fd/{}\0", self.dir);
        link
    }

    /// The name that the host gives the file (`alloc_bprm`), with a final zero; `None` if it could not be opened under
    /// it after the exec, because the descriptor is closed then.
    pub(crate) fn whole_name(&self, survives: bool) -> Option<Vec<u8>> {
        let mut path = Vec::new();
        let mut byte = [0];
        while user::read(self.path + path.len() as u64, &mut byte).is_ok() && byte != [0] && path.len() < PATH_MAX {
            path.push(byte[0]);
        }
        if self.dir != AT_FDCWD as isize && path.first() != Some(&b'/') {
            // SAFETY: only asks.
            if survives && unsafe { syscall!(nr::FCNTL, self.dir, F_GETFD) } & FD_CLOEXEC as isize != 0 {
                return None;
            }
            let mut folder = Text::<40>::default();
            let _ = write!(folder, "/dev/fd/{}", self.dir);
            let slash: &[u8] = if self.empty_path { b"" } else { b"/" };
            path = [folder.as_bytes(), slash, &path].concat();
        }
        path.push(0);
        Some(path)
    }

    /// The process's name after executing the file (`comm`), cut off at its maximum length.
    pub(crate) fn process_name(&self) -> Vec<u8> {
        const NAME_MAX: usize = 15;
        let path = if self.empty_path { self.name() } else { self.whole_name(false).unwrap_or_default() };
        let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        name[..name.len().min(NAME_MAX)].to_vec()
    }

    pub(crate) fn name(&self) -> Vec<u8> {
        let mut name = [0; NAME_MAX];
        let len = if self.empty_path {
            // SAFETY: a string and a buffer of ours.
            unsafe { syscall!(nr::READLINK, self.link().as_bytes().as_ptr(), name.as_mut_ptr(), NAME_MAX) }
        } else {
            let ends = |i: &usize| user::read(self.path + *i as u64, &mut name[*i..=*i]).is_err() || name[*i] == 0;
            (0..NAME_MAX).find(ends).unwrap_or(NAME_MAX) as isize
        };
        name[..usize::try_from(len).unwrap_or(0)].to_vec()
    }
}

/// The outcome of the exec of a file.
pub(crate) fn look(handover: &Handover, file: &File) -> Way {
    match of_caller(handover) {
        // The rules that forbid the image may forbid the program as well.
        Some(Reason::ImageForbidden) if !file.may_be_executed() => Way::Nowhere,
        Some(reason) if file.is_executable() => Way::Around(Obstacle { reason, file: file.name() }),
        Some(_) => Way::Nowhere,
        None => of_file(file, Vec::new(), 0),
    }
}

/// Why the image cannot enter any program that the caller executes.
fn of_caller(handover: &Handover) -> Option<Reason> {
    if is_privileged() {
        return Some(Reason::Secure);
    }
    // The dynamic linker would print a complaint about an image that it cannot open. What is executed need not be read.
    let (path, is_executed) = (executed(handover), catch::way().outlives_exec());
    // SAFETY: the path ends with a zero.
    match unsafe { syscall!(nr::ACCESS, path.as_ptr(), if is_executed { X_OK } else { R_OK }) } {
        0 if is_executed => None,
        // Rules of Landlock forbid it only here, where another error says nothing about the image.
        0 => {
            let opened = os::open(path, O_CLOEXEC, 0).map(os::close);
            (opened == Err(Errno::EACCES.to_ret())).then_some(Reason::ImageForbidden)
        }
        error if error == Errno::ENOENT.to_ret() => Some(Reason::ImageMissing),
        _ => Some(Reason::ImageForbidden),
    }
}

/// The image's path as a program is to be entered by it, with a final zero. Where the image is what every program
/// executes, the link leads to it even if this user may not go to its folder, or it has been removed.
pub(crate) fn executed(handover: &Handover) -> &[u8] {
    const LINK: &[u8] = b"/proc/self/exe\0";
    // SAFETY: a string of ours.
    let linked = catch::way().outlives_exec() && unsafe { syscall!(nr::ACCESS, LINK.as_ptr(), X_OK) } == 0;
    if linked { LINK } else { handover.image() }
}

/// Whether any program of this caller runs in secure-execution mode: it would find our options in its environment.
fn is_privileged() -> bool {
    let (mut users, mut groups) = ([0u32; 3], [0u32; 3]);
    // SAFETY: the host fills our words.
    unsafe {
        let [real, effective, saved] = users.each_mut().map(|id| &raw mut *id);
        syscall!(nr::GETRESUID, real, effective, saved);
        let [real, effective, saved] = groups.each_mut().map(|id| &raw mut *id);
        syscall!(nr::GETRESGID, real, effective, saved);
    }
    program::is_secure([users[0], users[1]], [groups[0], groups[1]])
}

/// The outcome of an exec by a caller that can be entered. It depends on the file or on the interpreter of a script.
/// `words` are as in [`Load`].
fn of_file(file: &File, words: Vec<Vec<u8>>, depth: usize) -> Way {
    let around =
        |reason| if file.is_executable() { Way::Around(Obstacle { reason, file: file.name() }) } else { Way::Nowhere };
    let fd = match file.open() {
        Ok(fd) => fd,
        Err(error) if error == Errno::EACCES.to_ret() => return around(Reason::Unreadable),
        Err(error) => {
            let scarce = [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM].into_iter().find(|e| e.to_ret() == error);
            return scarce.map_or(Way::Nowhere, Way::Unseen);
        }
    };
    let found = inspect(fd);
    if let Found::Program(Ok(Door::Image)) = found
        && may_be_executed(fd)
    {
        return Way::Load(Load { fd, words });
    }
    let way = match found {
        Found::Program(Ok(Door::Linker)) => Way::In,
        Found::Program(Ok(Door::Image)) => Way::Nowhere,
        Found::Program(Err(reason)) => around(reason),
        Found::Script(interpreter, argument) if depth < program::SCRIPT_DEPTH_MAX => {
            match of_interpreter(file, interpreter, argument, words, depth) {
                // The host does not check a script whose interpreter the image loads.
                Way::Load(load) if !may_be_executed(fd) => {
                    os::close(load.fd);
                    Way::Nowhere
                }
                way => way,
            }
        }
        // The host returns ELOOP.
        Found::Script(..) => Way::Nowhere,
        // The host returns EACCES.
        Found::Other if !may_be_executed(fd) => Way::Nowhere,
        Found::Other => Way::Unknown(Errno::ENOEXEC),
    };
    os::close(fd);
    way
}

/// The outcome of the exec of a script.
fn of_interpreter(
    script: &File,
    interpreter: Vec<u8>,
    argument: Option<Vec<u8>>,
    mut words: Vec<Vec<u8>>,
    depth: usize,
) -> Way {
    if depth == 0 {
        let Some(script) = script.whole_name(true) else { return Way::Nowhere };
        words.push(script);
    }
    words.extend(argument);
    words.push(interpreter.clone());
    of_file(&File::at(&interpreter), words, depth + 1)
}

/// Whether the host would execute an open file, as far as it can be asked.
fn may_be_executed(fd: i32) -> bool {
    const CHECK: u64 = 0x10000;
    const ST_NOEXEC: u64 = 8;
    if os::status(fd).is_none_or(|stat| stat[3] as u32 & S_IFMT != S_IFREG) {
        return false;
    }
    let (name, arguments, environment) = (c"", [c"".as_ptr() as u64, 0], [0u64]);
    // SAFETY: strings and arrays of ours; the host only checks the file (`AT_EXECVE_CHECK`), or, before Linux 6.14,
    // refuses the flag.
    let checked = unsafe {
        let (arguments, environment) = (arguments.as_ptr(), environment.as_ptr());
        syscall!(nr::EXECVEAT, fd, name.as_ptr(), arguments, environment, AT_EMPTY_PATH | CHECK)
    };
    // A seccomp filter may refuse the call or the flag, which says nothing about the file.
    let unknown = [Errno::EINVAL, Errno::ENOSYS, Errno::EPERM];
    if !unknown.iter().any(|error| checked == error.to_ret()) {
        return checked == 0;
    }
    let mut system = [0u64; 15];
    // SAFETY: a string of ours; `struct statfs` has 120 bytes, `f_flags` is its eleventh word.
    unsafe {
        let allowed = syscall!(nr::FACCESSAT2, fd, name.as_ptr(), X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
        allowed && syscall!(nr::FSTATFS, fd, system.as_mut_ptr()) == 0 && system[10] & ST_NOEXEC == 0
    }
}

enum Found {
    Program(Result<Door, Reason>),
    /// The interpreter's path, and its argument, with a zero at the end of each.
    Script(Vec<u8>, Option<Vec<u8>>),
    Other,
}

fn inspect(fd: i32) -> Found {
    let host = |at: u64, to: &mut [u8]| {
        // SAFETY: the buffer is ours and as long as said.
        let n = unsafe { syscall!(nr::PREAD64, fd, to.as_mut_ptr(), to.len(), at) };
        usize::try_from(n).unwrap_or(0)
    };
    // One read nearly always covers all that is asked for in small pieces.
    let mut start = [0; START_LEN];
    let len = host(0, &mut start);
    let start = &start[..len];
    let mut read = |at: u64, to: &mut [u8]| {
        let there = usize::try_from(at).ok().and_then(|at| start.get(at..at.checked_add(to.len())?));
        match there {
            Some(bytes) => {
                to.copy_from_slice(bytes);
                to.len()
            }
            None => host(at, to),
        }
    };
    let string = |bytes: &[u8]| [bytes, &[0]].concat();
    match program::content(&start[..len.min(program::HEAD_LEN)]) {
        program::Content::Elf if gives_rights(fd) => Found::Program(Err(Reason::Privileged)),
        program::Content::Elf => {
            let mut found = program::inspect(&mut read).map(|program| program.door);
            // The dynamic linker's own calls would end the program before it has loaded the image.
            if found == Ok(Door::Linker) && catch::way().outlives_exec() {
                found = Layout::read(&mut read).map(|_| Door::Image);
            }
            Found::Program(found.map_err(|obstacle| obstacle.reason()))
        }
        program::Content::Script(name, argument) => Found::Script(string(name), argument.map(string)),
        program::Content::Other => Found::Other,
    }
}

/// Whether a file gives its executor rights: by its mode, or by file capabilities (`capabilities(7)`), if they count
/// here (`mnt_may_suid` and `no_new_privs` in fs/exec.c). Root gains nothing by either.
fn gives_rights(fd: i32) -> bool {
    const ST_NOSUID: u64 = 2;
    let Some(stat) = os::status(fd) else { return false };
    let (mode, owner, group) = (stat[3] as u32, (stat[3] >> 32) as u32, stat[4] as u32);
    // SAFETY: a string of ours; the value's size is asked for only.
    let (me, mine) = unsafe { (syscall!(nr::GETUID) as u32, syscall!(nr::GETGID) as u32) };
    let marked = program::set_id_mark(mode, (owner, group), (me, mine)).is_some();
    // SAFETY: a string of ours; the value's size is asked for only.
    let capable = || unsafe { syscall!(nr::FGETXATTR, fd, c"security.capability".as_ptr(), 0, 0) } > 0;
    if !marked && (me == 0 || !capable()) {
        return false;
    }
    let mut system = [0u64; 15];
    // SAFETY: `struct statfs` has 120 bytes; `f_flags` is its eleventh word.
    let (found, bound) = unsafe {
        (syscall!(nr::FSTATFS, fd, system.as_mut_ptr()), syscall!(nr::PRCTL, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))
    };
    bound != 1 && !(found == 0 && system[10] & ST_NOSUID != 0)
}
