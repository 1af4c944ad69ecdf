//! Runs a program, natively or under Entresol, and never for longer than its time.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::hardened::Hardening;
use crate::outcome::{End, Outcome};
use crate::{catch, entresol, hang, places};

/// A program and how to run it.
#[derive(Clone, Debug)]
pub struct Run {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables added to its environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its output goes to this file and not into the outcome.
    pub output: Option<PathBuf>,
    /// What the host forbids both ways.
    pub hardening: Option<Hardening>,
    /// After this it counts as hung.
    pub timeout: Duration,
}

impl Run {
    /// A program without arguments that may take a minute.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            output: None,
            hardening: None,
            timeout: Duration::from_secs(60),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item: Into<OsString>>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the longest time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends the output to a file.
    #[must_use]
    pub fn output(mut self, file: impl Into<PathBuf>) -> Self {
        self.output = Some(file.into());
        self
    }

    /// Runs it directly.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn natively(&self) -> Result<Outcome, String> {
        self.finish(self.begin(&self.program)?)
    }

    /// Runs it under `entresol run OPTIONS --`.
    ///
    /// # Errors
    /// When there is no `entresol`, or it cannot be started.
    pub fn under_entresol(&self, options: &[&str]) -> Result<Outcome, String> {
        let mut command = self.begin(entresol::command()?)?;
        command.arg("run").args(catch::options()?).args(options).arg("--").arg(&self.program);
        self.finish(command)
    }

    /// Like [`Run::under_entresol`], as user nobody when the caller is root. `ENTRESOL_TESTS_AS=root` keeps the
    /// rights: a stand-in that runs natively needs them.
    ///
    /// # Errors
    /// As there, and when the files cannot be made readable for nobody.
    pub fn under_entresol_as_nobody(&self, options: &[&str]) -> Result<Outcome, String> {
        let Some(mut command) = self.begin_as_nobody(entresol::command()?)? else {
            return self.under_entresol(options);
        };
        command.arg("run").args(catch::options()?).args(options).arg("--").arg(public(&self.program)?);
        self.finish(command)
    }

    /// Like [`Run::natively`], as the user of [`Run::under_entresol_as_nobody`].
    ///
    /// # Errors
    /// As there.
    pub fn natively_as_nobody(&self) -> Result<Outcome, String> {
        match self.begin_as_nobody(&self.program)? {
            Some(command) => self.finish(command),
            None => self.natively(),
        }
    }

    /// The beginning of a command: this program, on a host as it is to be.
    fn begin(&self, program: &Path) -> Result<Command, String> {
        let Some(hardening) = self.hardening else { return Ok(Command::new(program)) };
        let mut command = Command::new(Hardening::launcher()?);
        command.arg(hardening.name()).arg(program);
        Ok(command)
    }

    /// The same as user nobody, if there are rights to be given up.
    fn begin_as_nobody(&self, program: &Path) -> Result<Option<Command>, String> {
        const NOBODY: u32 = 65_534;
        let keep = std::env::var_os("ENTRESOL_TESTS_AS").is_some_and(|user| user == "root");
        if keep || !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let program = public(program)?;
        let mut command = match self.hardening {
            None => Command::new(program),
            Some(hardening) => {
                let mut command = Command::new(public(&Hardening::launcher()?)?);
                command.arg(hardening.name()).arg(program);
                command
            }
        };
        // The standard library drops root's other groups, too.
        command.uid(NOBODY).gid(NOBODY);
        Ok(Some(command))
    }

    fn finish(&self, mut command: Command) -> Result<Outcome, String> {
        let started = format!("{command:?}");
        let outcome = self.try_finish(command.args(&self.args).envs(self.env.iter().cloned()));
        outcome.map_err(|error| format!("{started}: {error}"))
    }

    /// The streams are files, not pipes: a descendant that outlives the program cannot keep us waiting.
    fn try_finish(&self, command: &mut Command) -> io::Result<Outcome> {
        let mut stdout = match &self.output {
            Some(path) => File::create(path)?,
            None => nameless_file()?,
        };
        let mut stderr = nameless_file()?;
        let mut child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .spawn()?;
        let end = wait(&mut child, self.timeout)?;
        let stdout = if self.output.is_some() { Vec::new() } else { contents(&mut stdout)? };
        Ok(Outcome { end, stdout, stderr: contents(&mut stderr)? })
    }
}

pub(crate) fn public(file: &Path) -> Result<PathBuf, String> {
    places::public_copy(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// Waits for the end of `child`; when its time is over, reports and kills its whole process group.
fn wait(child: &mut Child, timeout: Duration) -> io::Result<End> {
    let pid = Pid::from_child(child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
            Ok(0) => break,
            Ok(_) => {
                // Ended but not reaped, so the group's number is still its own: what it left behind goes too.
                kill_group(pid)?;
                return Ok(End::Status(child.wait()?));
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let threads = hang::report(pid);
    kill_group(pid)?;
    child.wait()?;
    Ok(End::Hung(threads))
}

fn kill_group(leader: Pid) -> io::Result<()> {
    match kill_process_group(leader, Signal::KILL) {
        // Nobody left, or (as an ordinary user) nobody left but someone else's zombie.
        Ok(()) | Err(rustix::io::Errno::SRCH | rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn nameless_file() -> io::Result<File> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("stream-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = places::scratch("streams").join(name);
    let file = File::options().read(true).append(true).create_new(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

fn contents(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
