//! The tools over pages and processes that are made to harm them, or others by them.

mod executable;

use ids::Nanos;
use state::{Header, RECORD_WORDS, page_words};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// What a tool may take, of processors and of memory.
const CPU_MAX: Duration = Duration::from_secs(1);
const MEMORY_MAX_KIB: i64 = 64 << 10;
/// A tool that waits for something is ended after so long. On a machine that is busy elsewhere a second may pass quickly.
const PATIENCE_S: u32 = 20;

/// A runtime folder of its own.
struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Room {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::create_dir(folder.path().join("entresol")).unwrap();
        fs::set_permissions(folder.path().join("entresol"), fs::Permissions::from_mode(0o700)).unwrap();
        Room(folder)
    }

    fn page(&self, pid: u32) -> PathBuf {
        self.0.path().join(format!("entresol/state-{pid}"))
    }

    /// A page without a snapshot.
    fn forge(&self, pid: u32, header: Header) -> PathBuf {
        let words = header.encode();
        fs::write(self.page(pid), words.map(u64::to_ne_bytes).concat()).unwrap();
        self.page(pid)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE_S.to_string()).arg(env!("CARGO_BIN_EXE_entresol")).args(arguments);
        command.env("XDG_RUNTIME_DIR", self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs a tool, which must end within its limits, however it ends.
    fn run(&self, arguments: &[&str]) -> ExitStatus {
        let mut command = self.command(arguments);
        #[expect(clippy::zombie_processes, reason = "wait4 below waits for it and also says what it used")]
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (mut status, mut usage) = (0, no_usage());
        // SAFETY: the host fills our words; the child is ours.
        let waited = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
        assert_eq!(waited, child.id() as i32);
        let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
        let spent = time(usage.ru_utime) + time(usage.ru_stime);
        let status = std::os::unix::process::ExitStatusExt::from_raw(status);
        assert_ne!(ExitStatus::code(&status), Some(124), "{arguments:?} has not come to an end");
        assert!(spent < CPU_MAX, "{arguments:?} took {spent:?} of processors");
        assert!(usage.ru_maxrss < MEMORY_MAX_KIB, "{arguments:?} took {} KiB", usage.ru_maxrss);
        status
    }

    /// All tools that look at a process.
    fn run_all(&self, pid: u32) {
        let pid = pid.to_string();
        let all: [&[&str]; 10] = [
            &["ps"],
            &["ps", "--json"],
            &["ps", "-p", &pid],
            &["threads", &pid],
            &["threads", "--stack", &pid],
            &["timers", &pid],
            &["export"],
            &["export", "--processes"],
            &["top", "--once", "--interval", "0.01"],
            &["top", "--json", "--interval", "0.01", "-p", &pid],
        ];
        for arguments in all {
            self.run(arguments);
        }
    }
}

fn no_usage() -> libc::rusage {
    // SAFETY: zeros are a valid one.
    unsafe { std::mem::zeroed() }
}

/// A process that has nothing to do with Entresol, ended with its test.
struct Bystander(Child);

impl Bystander {
    fn start(script: &str) -> Bystander {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Bystander::of(command)
    }

    /// A command that says when it is ready.
    fn of(mut command: Command) -> Bystander {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Bystander(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").unwrap().ino()
}

/// What the page of a process that is there and waits to be asked would say.
fn header(pid: u32) -> Header {
    let created = Nanos(u64::MAX / 2);
    Header { pid: pid as i32, namespace: namespace(), service: pid as i32, created, cpus: 2, capacity: 0 }
}

#[test]
fn a_process_without_the_image_is_sent_nothing() {
    let room = Room::new();
    // All that can be sent would be seen: signal 33 ends it, and so does SIGURG here.
    let mut bystander = Bystander::start("trap 'exit 3' URG; echo ready; while :; do read x || sleep 1; done");
    room.forge(bystander.pid(), header(bystander.pid()));
    for _ in 0..3 {
        room.run_all(bystander.pid());
    }
    assert!(bystander.lives());
    assert!(room.page(bystander.pid()).exists());
}

#[test]
fn only_pages_of_processes_that_are_gone_are_removed() {
    let room = Room::new();
    let named = Bystander::start("printf '\\377) \\376' > /proc/$$/comm; echo ready; read x");
    let name = fs::read(format!("/proc/{}/comm", named.pid())).unwrap();
    assert_eq!(name, b"\xff) \xfe\n", "a name that is no text");
    let of_named = room.forge(named.pid(), header(named.pid()));
    // Above all ids that the host gives, so nobody's.
    const NOBODY: u32 = (1 << 22) + 1;
    let elsewhere = room.forge(NOBODY, Header { namespace: namespace() + 1, ..header(NOBODY) });
    let untold = room.forge(NOBODY + 1, Header { namespace: 0, ..header(NOBODY + 1) });
    let gone = room.forge(NOBODY + 2, header(NOBODY + 2));
    let damaged = room.page(NOBODY + 3);
    fs::write(&damaged, "entresol, but for the rest").unwrap();
    room.run(&["ps"]);
    for kept in [of_named, elsewhere, untold, damaged] {
        assert!(kept.exists(), "{}", kept.display());
    }
    assert!(!gone.exists());
}

#[test]
fn every_tool_ends_over_every_page() {
    let room = Room::new();
    let mut bystander = Bystander::start("trap '' URG; echo ready; read x");
    let pid = bystander.pid();
    let page = room.page(pid);
    let sizes = |cpus: usize, capacity: usize| {
        room.forge(pid, Header { cpus, capacity, ..header(pid) });
        let file = fs::OpenOptions::new().write(true).open(&page).unwrap();
        file.set_len(8 * page_words(cpus, capacity) as u64).unwrap();
        // A snapshot has been made, of zeros.
        std::os::unix::fs::FileExt::write_all_at(&file, &1_u64.to_ne_bytes(), 5 * 8).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &1_u64.to_ne_bytes(), 6 * 8).unwrap();
    };
    type Forgery<'a> = (&'a str, Box<dyn Fn() + 'a>);
    let forgeries: Vec<Forgery<'_>> = vec![
        ("as many threads as there can be", Box::new(|| sizes(2, ids::THREADS_MAX))),
        ("as many CPUs", Box::new(|| sizes(ids::CPUS_MAX, 1))),
        (
            "one word short",
            Box::new(|| {
                sizes(1, 64);
                let file = fs::OpenOptions::new().write(true).open(&page).unwrap();
                file.set_len(8 * page_words(1, 64) as u64 - 8).unwrap();
            }),
        ),
        (
            "a terabyte",
            Box::new(|| {
                sizes(1, 64);
                // The file system may not have files of that size.
                let _ = fs::OpenOptions::new().write(true).open(&page).unwrap().set_len(1 << 40);
            }),
        ),
        ("ones", Box::new(|| fs::write(&page, vec![0xff; 8 * RECORD_WORDS * 100]).unwrap())),
        ("nothing", Box::new(|| fs::write(&page, b"").unwrap())),
        ("a device", Box::new(|| symlink("/dev/zero", &page).unwrap())),
        ("a folder", Box::new(|| fs::create_dir(&page).unwrap())),
        (
            "a pipe",
            Box::new(|| {
                assert!(Command::new("mkfifo").arg(&page).status().unwrap().success());
            }),
        ),
    ];
    for (what, forge) in &forgeries {
        let _ = fs::remove_file(&page);
        forge();
        println!("{what}");
        room.run_all(pid);
        let _ = fs::remove_dir(&page);
    }
    assert!(bystander.lives());
}

/// Mapped files may have any name: a pipe in the place of one is not waited for, a device not read to its end.
#[test]
fn files_that_a_process_names_are_regular_or_not_opened() {
    let room = Room::new();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    executable::write(&program, fs::read("/bin/cat").unwrap());
    for trap in ["pipe", "device"] {
        let mut command = room.command(&["run", "--cpus", "1", "--"]);
        let mut child = command.arg(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let pid = child_of(child.id());
        // So the host calls a file that is gone.
        let kept = folder.path().join("kept");
        executable::write(&kept, fs::read(&program).unwrap());
        fs::remove_file(&program).unwrap();
        let bait = folder.path().join("program (deleted)");
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        assert!(maps.contains(bait.to_str().unwrap()), "{maps}");
        match trap {
            "pipe" => assert!(Command::new("mkfifo").arg(&bait).status().unwrap().success()),
            _ => symlink("/dev/zero", &bait).unwrap(),
        }
        let status = room.run(&["threads", "--stack", &pid.to_string()]);
        assert!(status.success(), "{trap}: {status}");
        drop(child.stdin.take());
        child.wait().unwrap();
        fs::remove_file(&bait).unwrap();
        fs::rename(&kept, &program).unwrap();
    }
}

/// The program that `timeout` has started.
fn child_of(pid: u32) -> u32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    assert!(Path::new(&path).exists());
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// A process that has, by the name of the image, a table for gdb in which threads or objects never end, or that is no table.
const FORGED_TABLE: &str = r#"
import ctypes, mmap, os, struct, sys
file = os.open(sys.argv[1] + "/libentresol-forged.so", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 1 << 16)
room = mmap.mmap(file, 1 << 16, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
base = ctypes.addressof(ctypes.c_char.from_buffer(room))
chunks, contexts, first, node = base + 0x1000, base + 0x2000, base + 0x3000, base + 0x4000
# Each chunk of threads and of contexts is the same, without end.
for at in range(0, 0x1000, 8):
    room[0x1000 + at:0x1008 + at] = struct.pack("<Q", base + 0x8000)
    room[0x2000 + at:0x2008 + at] = struct.pack("<Q", base + 0x8000)
room[0x3000:0x3008] = struct.pack("<Q", node)
follower = node if sys.argv[2] == "circle" else 0
room[0x4000:0x4028] = struct.pack("<5Q", 0, 0, 0, 0, follower)
chunk = {"circle": 16, "chunks": 1 << 63, "none": 0}[sys.argv[2]]
table = struct.pack("<16Q", 1, contexts, 16, 512, 0, 128, 136, chunks, chunk, 512, 200, 208, 224, first, 0, 0)
room[0:144] = b"entresol" + b"debugger" + table
print("ready", flush=True)
sys.stdin.read()
"#;

#[test]
fn gdb_ends_over_every_table() {
    if Command::new("gdb").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: 1 (gdb is not installed)");
        return;
    }
    let room = Room::new();
    let folder = tempfile::tempdir().unwrap();
    for forgery in ["circle", "chunks", "none"] {
        let mut command = Command::new("python3");
        command.args(["-c", FORGED_TABLE]).arg(folder.path()).arg(forgery);
        let mut bystander = Bystander::of(command);
        room.forge(bystander.pid(), header(bystander.pid()));
        let pid = bystander.pid().to_string();
        let mut gdb = room.command(&["gdb", &pid, "--", "-nx", "-batch", "-ex", "entresol threads"]);
        let output = gdb.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        println!("{forgery}: {}", said.lines().last().unwrap_or_default());
        assert_ne!(output.status.code(), Some(124), "{forgery}: gdb has not come to an end");
        assert!(said.contains("damaged"), "{forgery}: {said}");
        assert!(bystander.lives(), "{forgery}");
    }
}
