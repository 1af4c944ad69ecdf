//! The mount over pages that are made to harm it: every read ends, and the server stays small.

use super::room::{Room, eventually};
use ids::Nanos;
use state::{Header, page_words};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Of processors for all reads over one page, and of memory at any time.
const CPU_MAX: Duration = Duration::from_secs(1);
const MEMORY_MAX_KIB: u64 = 64 << 10;

/// The files that are read of a process and of its threads.
const FILES: [&str; 9] = ["stat", "status", "comm", "sched", "schedstat", "wchan", "limits", "cmdline", "children"];

/// A process that has nothing to do with Entresol.
struct Bystander(Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Forgery = (&'static str, fn(&Path, &Header) -> std::io::Result<()>);

const FORGERIES: [Forgery; 8] = [
    ("no snapshot", |page, header| page_of(page, header, 2, 0, 0)),
    ("no thread", |page, header| page_of(page, header, 2, 64, 0)),
    ("as many threads as there can be", |page, header| page_of(page, header, 2, ids::THREADS_MAX, ids::THREADS_MAX)),
    ("as many CPUs", |page, header| page_of(page, header, ids::CPUS_MAX, 1, 1)),
    ("more threads than room", |page, header| page_of(page, header, 1, 64, 65)),
    ("ones", |page, _| fs::write(page, vec![0xff; 1 << 20])),
    ("a device", |page, _| symlink("/dev/zero", page)),
    ("a folder", |page, _| fs::create_dir(page)),
];

/// A page with a snapshot of zeros that says how many threads it has.
fn page_of(page: &Path, header: &Header, cpus: usize, capacity: usize, threads: usize) -> std::io::Result<()> {
    const DONE: [(u64, u64); 2] = [(5 * 8, 1), (6 * 8, 1)];
    let header = Header { cpus, capacity, ..*header };
    fs::write(page, header.encode().map(u64::to_ne_bytes).concat())?;
    let file = fs::OpenOptions::new().write(true).open(page)?;
    file.set_len(8 * page_words(cpus, capacity) as u64)?;
    if capacity > 0 {
        for (at, word) in DONE {
            file.write_all_at(&word.to_ne_bytes(), at)?;
        }
        // The area of odd snapshots ends the page, and its fourth word is the number of threads.
        let area = page_words(cpus, capacity) - state::area_words(cpus, capacity);
        file.write_all_at(&(threads as u64).to_ne_bytes(), 8 * (area as u64 + 3))?;
    }
    Ok(())
}

/// Every read over every page.
///
/// # Errors
/// The server has taken too much, or the bystander has ended.
pub fn pages() -> Result<(), String> {
    let room = Room::new()?;
    let _mounted = room.mounted(&[])?;
    let server = eventually(|| server(&room.mount()))?;
    let child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().map_err(|e| e.to_string())?;
    let mut bystander = Bystander(child);
    let pid = bystander.0.id();
    let folder = room.pages();
    fs::create_dir_all(&folder)
        .and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)))
        .map_err(|e| e.to_string())?;
    let page = folder.join(format!("state-{pid}"));
    let namespace = fs::metadata("/proc/self/ns/pid").map_err(|e| e.to_string())?.ino();
    let created = Nanos(u64::MAX / 2);
    let header = Header { pid: pid as i32, namespace, service: pid as i32, created, cpus: 2, capacity: 0 };
    for (what, forge) in FORGERIES {
        forge(&page, &header).map_err(|e| format!("{what}: {e}"))?;
        let before = consumed(server)?;
        let process = room.mount().join(pid.to_string());
        let read = read_all(&process);
        let spent = consumed(server)? - before;
        println!("{what}: {read} files, {spent:?}");
        if spent > CPU_MAX {
            return Err(format!("{what}: the server took {spent:?}"));
        }
        let _ = fs::remove_file(&page).or_else(|_| fs::remove_dir(&page));
    }
    let peak = status(server, "VmHWM:")?;
    println!("{peak} KiB at most");
    match bystander.0.try_wait() {
        _ if peak > MEMORY_MAX_KIB => Err(format!("the server took {peak} KiB")),
        Ok(None) => Ok(()),
        ended => Err(format!("the bystander has ended: {ended:?}")),
    }
}

/// Reads all that there is of a process and of its threads; how many files could be read.
fn read_all(process: &Path) -> usize {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let folders = threads.map(|thread| thread.path()).take(1000).chain([process.to_owned()]);
    folders.flat_map(|folder| FILES.map(|file| folder.join(file))).filter(|file| fs::read(file).is_ok()).count()
}

/// The process that serves the mount.
fn server(mount: &Path) -> Result<u32, String> {
    let name = mount.to_str().ok_or("a path that is no text")?;
    let all = fs::read_dir("/proc").map_err(|e| e.to_string())?.flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let serves = |&pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = words.split(|&byte| byte == 0);
        words.any(|word| word == b"mount") && words.any(|word| word == name.as_bytes())
    };
    pids.into_iter().find(serves).ok_or_else(|| "nobody serves the mount".to_owned())
}

/// A number of `status`.
fn status(pid: u32, field: &str) -> Result<u64, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|e| e.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)).ok_or(field)?;
    line.split_whitespace().next().and_then(|word| word.parse().ok()).ok_or_else(|| line.to_owned())
}

/// CPU time of a process.
fn consumed(pid: u32) -> Result<Duration, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|e| e.to_string())?;
    let (_, fields) = text.rsplit_once(')').ok_or("no name")?;
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(10 * ticks))
}
