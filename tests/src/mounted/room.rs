//! A place for one test: a runtime folder, a program, a mount.

use crate::{entresol, places};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What `entresol ps` says of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// As Linux's tools write it: whoever could run is `R`.
    pub state: char,
    /// Its policy, as ps(1) writes it.
    pub policy: String,
    /// User and system time in nanoseconds.
    pub times: [u64; 2],
}

impl Thread {
    /// CPU time in ticks as `stat` has them.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.times.iter().map(|ns| ns / 10_000_000).sum()
    }
}

/// By their ids.
pub type Threads = BTreeMap<i32, Thread>;

/// Folders of one test, gone with it.
#[derive(Debug)]
pub struct Room {
    folder: PathBuf,
}

/// As many seconds as anything here may take on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

impl Room {
    /// A runtime folder and a folder to mount on, both empty.
    ///
    /// # Errors
    /// Those of making them.
    pub fn new() -> Result<Room, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("entresol-mount-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let folder = Path::new("/dev/shm").join(name);
        let make = |path: &Path, mode| {
            fs::create_dir(path).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        };
        make(&folder, 0o755).map_err(|e| e.to_string())?;
        let room = Room { folder };
        make(&room.mount(), 0o755).and_then(|()| make(&room.runtime(), 0o700)).map_err(|e| e.to_string())?;
        Ok(room)
    }

    /// Where to mount.
    #[must_use]
    pub fn mount(&self) -> PathBuf {
        self.folder.join("proc")
    }

    fn runtime(&self) -> PathBuf {
        self.folder.join("run")
    }

    /// Where the state pages lie.
    #[must_use]
    pub fn pages(&self) -> PathBuf {
        self.runtime().join("entresol")
    }

    /// For a file of the test's.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// `entresol`, with the runtime folder.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn entresol(&self) -> Result<Command, String> {
        let mut command = Command::new(entresol::command()?);
        command.env("XDG_RUNTIME_DIR", self.runtime()).stdin(Stdio::null());
        Ok(command)
    }

    /// A command with the tree over its /proc; what it writes, which must succeed.
    ///
    /// # Errors
    /// What it says when it fails.
    pub fn over_proc(&self, command: &[&str]) -> Result<String, String> {
        let output = self.entresol()?.args(["proc", "--"]).args(command).env("COLUMNS", "200").output();
        succeeded(command, output)
    }

    /// What `entresol ps` says of a process.
    ///
    /// # Errors
    /// What it says when it fails.
    pub fn ps(&self, pid: u32) -> Result<Threads, String> {
        let columns = "tid,state,policy,utime,stime,name";
        let mut command = self.entresol()?;
        let output = command.args(["ps", "--json", "-o", columns, "-p"]).arg(pid.to_string());
        let text = succeeded(&["entresol ps"], output.output())?;
        text.lines()
            .filter(|line| line.starts_with('{'))
            .map(|line| thread(line).ok_or_else(|| line.to_owned()))
            .collect()
    }

    /// Mounts with these options.
    ///
    /// # Errors
    /// What the command says.
    pub fn mounted(&self, options: &[&str]) -> Result<Mounted, String> {
        let output = self.entresol()?.arg("mount").args(options).arg(self.mount()).output();
        succeeded(&["entresol mount"], output)?;
        Ok(Mounted(self.mount()))
    }

    /// What somebody else has mounted there, to be unmounted.
    #[must_use]
    pub fn mounted_already(&self) -> Mounted {
        Mounted(self.mount())
    }

    /// Starts the program under Entresol; `argument`: without the thread that never stops.
    ///
    /// # Errors
    /// It cannot be built or started.
    pub fn start(&self, argument: &[&str]) -> Result<Watched, String> {
        let mut command = self.entresol()?;
        command.args(["run", "--cpus", "2", "--"]).arg(watched()?).args(argument);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|e| format!("entresol run: {e}"))?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let mut watched = Watched { child, threads: BTreeMap::new() };
        for line in lines.by_ref() {
            let line = line.map_err(|e| e.to_string())?;
            let Some((tid, name)) = line.split_once(' ') else { break };
            watched.threads.insert(tid.parse().map_err(|_| line.clone())?, name.to_owned());
        }
        Ok(watched)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A mount, unmounted with its test.
#[derive(Debug)]
pub struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let is_root = rustix::process::geteuid().is_root();
        let _ = match is_root {
            true => Command::new("umount").arg("-l").arg(&self.0).output(),
            false => Command::new("fusermount3").args(["-u", "-z"]).arg(&self.0).output(),
        };
    }
}

/// The program, ended with its test.
#[derive(Debug)]
pub struct Watched {
    child: Child,
    /// Ids and names as its threads have told.
    pub threads: BTreeMap<i32, String>,
}

impl Watched {
    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The id of the thread that ends when it is told to.
    ///
    /// # Errors
    /// There is none.
    pub fn brief(&self) -> Result<i32, String> {
        let found = self.threads.iter().find(|(_, name)| *name == "brief");
        found.map(|(&tid, _)| tid).ok_or_else(|| "no brief thread".to_owned())
    }

    /// Tells it.
    ///
    /// # Errors
    /// The program is gone.
    pub fn end_brief(&mut self) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        input.write_all(b"x").and_then(|()| input.flush()).map_err(|e| e.to_string())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command has written, if it succeeded.
///
/// # Errors
/// What it has written to its error stream.
pub fn succeeded(what: &[&str], output: std::io::Result<Output>) -> Result<String, String> {
    let output = output.map_err(|e| format!("{what:?}: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{what:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

/// Asks until there is an answer.
///
/// # Errors
/// The last reason why there was none.
pub fn eventually<T>(mut ask: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let since = Instant::now();
    loop {
        match ask() {
            Err(why) if since.elapsed() > PATIENCE => return Err(why),
            Err(_) => sleep(Duration::from_millis(20)),
            answer => return answer,
        }
    }
}

/// A line of `entresol ps --json`: the values come in the order of the columns asked for, or by their names.
fn thread(line: &str) -> Option<(i32, Thread)> {
    let field = |name: &str| {
        let rest = line.split_once(&format!("\"{name}\":"))?.1;
        match rest.strip_prefix('"') {
            Some(text) => text.split_once('"').map(|(text, _)| text),
            None => rest.split([',', '}']).next(),
        }
    };
    let state = if matches!(field("state")?, "R" | "Q") { 'R' } else { 'S' };
    let times = [field("utime")?.parse().ok()?, field("stime")?.parse().ok()?];
    let (name, policy) = (field("name")?.to_owned(), field("policy")?.to_owned());
    Some((field("tid")?.parse().ok()?, Thread { name, state, policy, times }))
}

/// The program, built once.
///
/// # Errors
/// The compiler's.
pub fn watched() -> Result<&'static Path, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let program = places::scratch("watched");
        fs::create_dir_all(&program).map_err(|e| e.to_string())?;
        let program = program.join("watched");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mounted/watched.c");
        let output = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).output();
        succeeded(&["cc"], output).map(|_| program)
    });
    built.as_deref().map_err(Clone::clone)
}
