//! Runs a program by the interpreter, natively or under Entresol, and compares what it told.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A program that has not ended by then hangs: natively it takes milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

/// How Entresol is told to run it.
pub const SETTINGS: [&[&str]; 4] =
    [&["--cpus", "1"], &["--cpus", "2"], &["--cpus", "4", "--hz", "250"], &["--cpus", "3", "--hz", "4000"]];

/// What a run told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// How it ended.
    pub end: String,
    /// The observations, a line each.
    pub lines: Vec<String>,
    /// What was written to the error stream, by Entresol above all.
    pub errors: String,
}

/// The interpreter and the command.
pub struct Runner {
    /// The interpreter.
    pub interpreter: PathBuf,
    /// The command under test.
    pub entresol: PathBuf,
}

impl Runner {
    /// Compiles the interpreter into `folder`.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn new(folder: &Path, entresol: PathBuf) -> Result<Self, String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("interpreter");
        let interpreter = folder.join("interpreter");
        let mut files: Vec<_> = std::fs::read_dir(&sources)
            .map_err(|error| format!("{}: {error}", sources.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
            .collect();
        files.sort();
        let flags = ["-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Wno-infinite-recursion", "-o"];
        let answer = Command::new("cc").args(flags).arg(&interpreter).args(files).arg("-lrt").output();
        let answer = answer.map_err(|error| format!("cc: {error}"))?;
        if !answer.status.success() {
            return Err(String::from_utf8_lossy(&answer.stderr).into_owned());
        }
        Ok(Self { interpreter, entresol })
    }

    /// The operations that there are.
    ///
    /// # Errors
    /// If the interpreter cannot be run.
    pub fn ops(&self) -> Result<String, String> {
        let answer = Command::new(&self.interpreter).arg("--ops").output().map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
    }

    /// Runs it: natively, or with these options.
    ///
    /// # Panics
    /// If no process can be started at all.
    #[must_use]
    pub fn run(&self, program: &str, setting: Option<&[&str]>) -> Told {
        self.execute(program, setting, None, LIMIT)
    }

    /// Runs it under Entresol with a fault planted.
    ///
    /// # Panics
    /// As [`Self::run`].
    #[must_use]
    pub fn run_planted(&self, program: &str, setting: &[&str], fault: &str) -> Told {
        self.execute(program, Some(setting), Some(fault), LIMIT)
    }

    /// The same with another limit.
    ///
    /// # Panics
    /// As [`Self::run`].
    #[must_use]
    pub fn run_planted_within(&self, limit: Duration, program: &str, setting: &[&str], fault: &str) -> Told {
        self.execute(program, Some(setting), Some(fault), limit)
    }

    fn execute(&self, program: &str, setting: Option<&[&str]>, fault: Option<&str>, limit: Duration) -> Told {
        let folder = tempfile::tempdir().expect("a folder for the run");
        let path = folder.path().join("program");
        std::fs::write(&path, program).expect("the program is written");
        let mut command = match setting {
            None => Command::new(&self.interpreter),
            Some(options) => {
                // Where host calls fail a program may take an error for a process id and signal everybody: it has a
                // namespace of processes of its own.
                let mut command = match fault.is_some_and(|fault| fault.contains('=')) {
                    false => Command::new(&self.entresol),
                    true => {
                        let mut command = Command::new("unshare");
                        command.args(["--user", "--map-current-user", "--pid", "--fork", "--kill-child"]);
                        command.arg("--mount-proc").arg(&self.entresol);
                        command
                    }
                };
                command.arg("run").args(options).arg("--").arg(&self.interpreter);
                command
            }
        };
        if let Some(fault) = fault {
            command.env("ENTRESOL_PLANT", fault);
        }
        let (out, errors) = (folder.path().join("out"), folder.path().join("errors"));
        let file = |path: &Path| File::options().append(true).create(true).open(path).expect("an output file");
        command.arg(&path).current_dir(folder.path()).stdin(Stdio::null()).stdout(file(&out)).stderr(file(&errors));
        let mut child = command.spawn().expect("the program is started");
        let begin = Instant::now();
        let (mut pause, mut survey) = (Duration::from_micros(500), String::new());
        let end = loop {
            if let Some(status) = child.try_wait().expect("the program can be waited for") {
                break status.code().map_or_else(
                    || format!("signal {}", status.signal().unwrap_or(0)),
                    |code| format!("status {code}"),
                );
            }
            if begin.elapsed() > limit {
                survey = host_threads(child.id());
                break "hung".to_owned();
            }
            std::thread::sleep(pause);
            pause = (pause * 5 / 4).min(Duration::from_millis(20));
        };
        // The program is a session of its own; children that it left behind go with it.
        // SAFETY: signals only that group, which is named by our child's id.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        if end == "hung" {
            drop(child.kill());
            drop(child.wait());
        }
        let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        Told { end, lines: read(&out).lines().map(str::to_owned).collect(), errors: survey + &read(&errors) }
    }
}

/// Where the host threads of a process that hangs are, in one line: id, state, system call.
fn host_threads(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let told = tasks.map(|task| {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let (stat, call) = (read("stat"), read("syscall"));
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
        format!("[{} {state} {}] ", task.file_name().to_string_lossy(), call.trim())
    });
    told.collect::<String>()
}

/// The first observation that differs, natively and under Entresol.
#[must_use]
pub fn difference(native: &Told, ours: &Told) -> Option<(String, String)> {
    let longest = native.lines.len().max(ours.lines.len());
    let line = |told: &Told, at: usize| {
        told.lines.get(at).cloned().unwrap_or_else(|| {
            let errors = told.errors.lines().next().unwrap_or_default();
            format!("({}) {errors}", told.end)
        })
    };
    (0..longest)
        .map(|at| (line(native, at), line(ours, at)))
        .find(|(native, ours)| native != ours)
        .or_else(|| (native.end != ours.end).then(|| (native.end.clone(), line(ours, ours.lines.len()))))
}
