//! `entresol run`: becomes the program.

use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::args::{CatchOption, Fallback, RunArguments};
use crate::install::InstallError;
use crate::program::Obstacle;
use crate::{STATUS_REFUSED, environment, inherited, install, limits, load, plans, program, trace};
use patch::program::Door;
use tool::machine::{Catch, Lack, Wish};
use tool::resolve::{ResolveError, resolve};
use tool::{machine, style};

/// Exit status of a program that is not there, as shells use it.
const STATUS_MISSING: i32 = 127;
/// Exit status of a program that cannot be executed, as shells use it.
const STATUS_NOT_EXECUTABLE: i32 = 126;

/// Why the program was not started.
#[derive(Debug, Error)]
pub enum RunError {
    /// Limits that make no sense together.
    #[error("{0}")]
    Limits(String),
    /// The name leads to no file that can be executed.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The image cannot enter it.
    #[error(transparent)]
    Program(#[from] Obstacle),
    /// This machine lacks something.
    #[error(transparent)]
    Machine(#[from] Lack),
    /// The image can be put nowhere.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The host executes the program, but not the image in its place.
    #[error(
        "{} may not be executed here ({why}), and Entresol executes it in the place of such programs. Allow it in the \
         sandbox, or run the program natively",
        image.display()
    )]
    Image {
        /// Where the image lies.
        image: PathBuf,
        /// The host's reason.
        why: io::Error,
    },
    /// The host refused.
    #[error("{program}: {why}")]
    Execute {
        /// As it was asked for.
        program: String,
        /// The host's reason.
        why: io::Error,
    },
}

impl RunError {
    /// The corresponding exit status.
    #[must_use]
    pub fn status(&self) -> i32 {
        match self {
            Self::Resolve(ResolveError::Missing { .. }) | Self::Program(Obstacle::NoInterpreter { .. }) => {
                STATUS_MISSING
            }
            Self::Resolve(ResolveError::NotExecutable { .. }) | Self::Program(Obstacle::InterpreterRefused { .. }) => {
                STATUS_NOT_EXECUTABLE
            }
            Self::Program(_) | Self::Machine(_) | Self::Install(_) | Self::Image { .. } | Self::Limits(_) => {
                STATUS_REFUSED
            }
            Self::Execute { why, .. } if why.raw_os_error() == Some(libc::ENOENT) => STATUS_MISSING,
            Self::Execute { .. } => STATUS_NOT_EXECUTABLE,
        }
    }

    /// Whether the program could still run without Entresol.
    fn runs_natively(&self) -> bool {
        self.status() == STATUS_REFUSED && !matches!(self, Self::Limits(_))
    }
}

/// Becomes the program; returns an exit status only if that fails.
#[must_use]
pub fn run(request: &RunArguments) -> i32 {
    if let (Some(file), None) = (&request.trace, &request.records) {
        return trace::run(request, file);
    }
    let Err(error) = execute(request);
    if error.runs_natively() && request.fallback == Some(Fallback::Native) {
        style::remark(&format!("running natively, because {error}"));
        let Err(error) = execute_natively(request);
        style::complain(&error.to_string());
        return error.status();
    }
    style::complain(&error.to_string());
    error.status()
}

/// Exec returns only the reason of its failure.
type Never = std::convert::Infallible;

fn execute(request: &RunArguments) -> Result<Never, RunError> {
    let (cpus, quota) = request.cpus.map_or_else(machine::default_cpus, |cpus| (cpus as usize, None));
    let limits =
        limits::options(&request.cpu_limit, &request.group, &request.cpuset, cpus).map_err(RunError::Limits)?;
    let path = resolve(&request.command[0])?;
    let mut program = program::inspect(&path)?;
    let catch = machine::check_for(wish(request))?;
    let image = match catch {
        Catch::Dispatch => install::install()?,
        Catch::Filter { is_there } => {
            if let (Err(why), false, false) =
                (machine::dispatch(), is_there || wish(request).is_some(), request.no_note)
            {
                style::remark(&filter_remark(why));
            }
            program::take_place(&mut program)?;
            install::install_fixed()?
        }
    };
    plans::prepare(&image);
    // Inside Entresol the same is done: the image around us reads the new options at execve.
    let own_path = std::env::current_exe().ok();
    // Handed on, because programs give their children a folder of their own, in which nothing of ours may lie.
    let runtime = std::env::var_os("XDG_RUNTIME_DIR");
    let cpus = quota.map(|quota| quota.cpus());
    let options = environment::options(request, cpus, &limits, runtime.as_deref(), &image, own_path.as_deref());
    let with_image = |options: &[u8]| environment::with_image(environment::current(), request.enter, &image, options);
    match program.door {
        Door::Linker => become_program(&path, program.by_shell, &request.command, &with_image(&options)),
        Door::Image => {
            let refused = |why| RunError::Execute { program: path.display().to_string(), why };
            load::check(&program).map_err(refused)?;
            let executed = if program.by_shell { Path::new("/bin/sh") } else { &path };
            let mut entries = with_image(&[&options, load::options(&program, executed, catch).as_bytes()].concat());
            entries.push(load::file(executed));
            load::hand_on(&program);
            let Err(error) = execute_file(&image, &path, &load::arguments(&program, &request.command), &entries);
            Err(match error {
                RunError::Execute { why, .. } if is_about_image(&why) => RunError::Image { image, why },
                error => error,
            })
        }
    }
}

/// Whether this error of execve is about the file that is executed, and not about its arguments or the process.
fn is_about_image(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// A filter takes rights away, of which the user is told unless he has asked for it.
fn filter_remark(why: machine::NoDispatch) -> String {
    let rights = if machine::filters_with_rights() { "" } else { " (no_new_privs)" };
    format!(
        "system calls are caught by a seccomp filter, because {why}. Nothing that is executed gains rights{rights}, and \
         what Entresol cannot enter fails with EPERM (--catch=seccomp or --no-note hides this)"
    )
}

/// The way to catch that the user insists on.
fn wish(request: &RunArguments) -> Option<Wish> {
    match request.catch {
        None | Some(CatchOption::Auto) => None,
        Some(CatchOption::Sud) => Some(Wish::Dispatch),
        Some(CatchOption::Seccomp) => Some(Wish::Filter),
    }
}

fn execute_natively(request: &RunArguments) -> Result<Never, RunError> {
    let path = resolve(&request.command[0])?;
    let by_shell = program::inspect(&path).is_ok_and(|program| program.by_shell);
    become_program(&path, by_shell, &request.command, &environment::current())
}

/// Calls execve, for a file without a known form through /bin/sh as execvp does.
fn become_program(path: &Path, by_shell: bool, command: &[OsString], entries: &[CString]) -> Result<Never, RunError> {
    let file = environment::c_string(path.as_os_str());
    let mut arguments: Vec<CString> = command.iter().map(|word| environment::c_string(word)).collect();
    let mut loaded = file.clone();
    if by_shell {
        loaded = c"/bin/sh".to_owned();
        arguments.splice(..1, [loaded.clone(), file]);
    }
    execute_file(Path::new(OsStr::from_bytes(loaded.to_bytes())), path, &arguments, entries)
}

/// Calls execve; `asked` is the program for which that is done.
fn execute_file(file: &Path, asked: &Path, arguments: &[CString], entries: &[CString]) -> Result<Never, RunError> {
    let file = environment::c_string(file.as_os_str());
    let (arguments, entries) = (pointers(arguments), pointers(entries));
    inherited::close_streams();
    // SAFETY: all are strings that end with a zero byte, in arrays that end with null.
    unsafe { libc::execve(file.as_ptr(), arguments.as_ptr(), entries.as_ptr()) };
    let why = io::Error::last_os_error();
    Err(RunError::Execute { program: asked.display().to_string(), why })
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}
