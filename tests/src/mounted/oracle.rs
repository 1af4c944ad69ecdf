//! Names, errors and texts: the same natively and on the mount. `%` stands for a process of the host's.

use super::room::{Room, Watched, eventually};
use std::fmt::Debug;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Read as a whole, in pieces, from the middle and behind the end; and what `stat` says.
const TEXTS: &[&str] = &[
    "%/stat",
    "%/statm",
    "%/status",
    "%/comm",
    "%/cmdline",
    "%/environ",
    "%/limits",
    "%/maps",
    "%/cgroup",
    "%/cpuset",
    "%/oom_score",
    "%/oom_score_adj",
    "%/mountinfo",
    "%/mounts",
    "%/wchan",
    "%/personality",
    "%/loginuid",
    "%/sessionid",
    "%/auxv",
    "%/uid_map",
    "%/gid_map",
    "%/setgroups",
    "%/timers",
    "%/timerslack_ns",
    "%/io",
    "%/smaps_rollup",
    "%/coredump_filter",
    "%/schedstat",
    "%/sched",
    "%/syscall",
    "%/stack",
    "%/task/%/comm",
    "%/task/%/stat",
    "%/task/%/children",
    "%/fdinfo/0",
    "version",
    "cmdline",
    "filesystems",
    "partitions",
    "swaps",
    "devices",
    "misc",
    "modules",
    "sys/kernel/ostype",
    "sys/kernel/osrelease",
    "sys/kernel/threads-max",
    "sys/vm/overcommit_memory",
];
/// Listed.
const FOLDERS: &[&str] =
    &["%", "%/task", "%/task/%", "%/fd", "%/fdinfo", "%/ns", "%/attr", "sys", "sys/kernel", "sys/net"];
/// Asked for by `readlink`.
const LINKS: &[&str] =
    &["%/exe", "%/cwd", "%/root", "%/fd/0", "%/fd/1", "%/ns/mnt", "%/ns/pid", "%/task/%/exe", "mounts", "net"];
/// Names that are none, or not such.
const NAMES: &[&str] = &[
    "0",
    "01",
    "+1",
    "-1",
    "1 ",
    "2147483647",
    "2147483648",
    "4294967296",
    "99999999999999999999",
    "nobody",
    "%/nobody",
    "%/task/1",
    "%/task/0%",
    "%/task/%/task",
    "%/stat/",
    "%/stat/x",
    "%/stat/.",
    "%/comm/..",
    "%/fd/999",
    "%/fd/00",
    "%/fdinfo/999",
    "%/exe/x",
    "%/../%/comm",
    "./%/./comm",
    "%//comm",
    "%/task/%/../%/comm",
    "self/nobody",
    "%/",
    "%/.",
    "sys/kernel/nobody",
    "sys/kernel/ostype/",
    "stat/",
    "version/x",
];

/// What a call has said, for comparing.
fn said<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.raw_os_error().map_or(error.to_string(), |n| n.to_string()),
    }
}

/// Without the lines that change while the process stands still: how long reading the clock takes (`proc_sched_show_task`), and its
/// share of pages that others map, too (proc_pid_smaps(5)).
fn steady(text: Vec<u8>) -> Vec<u8> {
    text.split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !line.starts_with(b"clock-delta") && !line.starts_with(b"Pss"))
        .flatten()
        .copied()
        .collect()
}

fn attributes(path: &Path) -> String {
    said(fs::symlink_metadata(path).map(|m| (m.mode(), m.uid(), m.gid(), m.len(), m.nlink())))
}

fn in_pieces(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut all, mut piece) = (fs::File::open(path)?, vec![], [0; 7]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(all),
            n => all.extend_from_slice(&piece[..n]),
        }
    }
}

fn from_the_middle(path: &Path) -> io::Result<(usize, [u8; 3], usize, u64)> {
    let (mut file, mut three, mut far) = (fs::File::open(path)?, [0; 3], [0; 8]);
    let read = file.read_at(&mut three, 2)?;
    let behind = file.read_at(&mut far, 1 << 20)?;
    let at = file.seek(SeekFrom::Start(5))?;
    Ok((read, three, behind, at))
}

fn listing(path: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(path)?
        .map(|entry| entry.map(|entry| format!("{} {:?}", entry.file_name().display(), entry.file_type().ok())))
        .collect()
}

/// What must not change anything, and how it fails.
fn attempts(path: &Path) -> Vec<String> {
    let open = |options: &mut OpenOptions| said(options.open(path).map(|_| ()));
    vec![
        said(fs::read(path)),
        attributes(path),
        open(OpenOptions::new().write(true)),
        open(OpenOptions::new().read(true).custom_flags(libc_flags::DIRECTORY)),
        open(OpenOptions::new().read(true).custom_flags(libc_flags::NOFOLLOW)),
        said(fs::read_link(path)),
        said(listing(path)),
    ]
}

/// Calls that would make, take away or change.
fn changes(path: &Path) -> Vec<String> {
    vec![
        said(fs::create_dir(path.join("new"))),
        said(fs::File::create(path.join("new")).map(|_| ())),
        said(fs::remove_file(path.join("comm"))),
        said(fs::remove_dir(path.join("task"))),
        said(fs::rename(path.join("comm"), path.join("new"))),
        said(fs::hard_link(path.join("comm"), path.join("new"))),
        said(std::os::unix::fs::symlink("x", path.join("new"))),
        said(fs::set_permissions(path.join("comm"), std::os::unix::fs::PermissionsExt::from_mode(0o777))),
        said(std::os::unix::fs::chown(path.join("comm"), Some(1), Some(1))),
        said(OpenOptions::new().write(true).open(path.join("comm")).and_then(|mut file| file.write(b"other"))),
        said(OpenOptions::new().write(true).open(path.join("stat")).and_then(|mut file| file.write(b"x"))),
        said(fs::write(path.join("oom_score_adj"), "77")),
        said(fs::read_to_string(path.join("oom_score_adj"))),
        said(fs::write(path.join("oom_score_adj"), "7777")),
        said(fs::write(path.join("comm"), vec![b'x'; 40])),
    ]
}

/// Flags of Linux on x86-64, in octal as its headers have them.
mod libc_flags {
    pub const DIRECTORY: i32 = 0o200_000;
    pub const NOFOLLOW: i32 = 0o400_000;
}

/// A process that does nothing, with descriptors that do not change.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Result<Sleeper, String> {
        let mut command = Command::new("sleep");
        let child = command.arg("1000").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env("A", "b");
        let sleeper = Sleeper(child.spawn().map_err(|e| e.to_string())?);
        // It sleeps, and so its times and its place stand still.
        eventually(|| match fs::read_to_string(format!("/proc/{}/wchan", sleeper.0.id())) {
            Ok(place) if place.contains("nanosleep") => Ok(()),
            other => Err(format!("sleep does not sleep: {other:?}")),
        })?;
        Ok(sleeper)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// For what is the host's the mount says what the host says.
///
/// # Errors
/// All cases that differ.
pub fn host() -> Result<(), String> {
    let (room, sleeper) = (Room::new()?, Sleeper::new()?);
    let _mounted = room.mounted(&[])?;
    let (native, ours) = (Path::new("/proc").to_owned(), room.mount());
    let pid = sleeper.0.id().to_string();
    let mut cases = 0;
    let mut faults = vec![];
    let mut compare = |what: &str, path: &str, ask: &dyn Fn(&Path) -> String| {
        let name = path.replace('%', &pid);
        let on = |root: &Path| ask(&root.join(&name)).replace(&*root.to_string_lossy(), "ROOT");
        // What the host changes by itself between two looks is looked at again.
        let (mut theirs, mut mine) = (on(&native), on(&ours));
        for _ in 0..3 {
            if theirs == mine {
                break;
            }
            (theirs, mine) = (on(&native), on(&ours));
        }
        cases += 1;
        if theirs != mine {
            faults.push(format!("{what} {path}:\n  natively     {theirs}\n  on the mount {mine}"));
        }
    };
    for path in TEXTS {
        compare("stat", path, &attributes);
        compare("read", path, &|path| said(fs::read(path).map(steady)));
        compare("in pieces", path, &|path| said(in_pieces(path).map(steady)));
        compare("from the middle", path, &|path| said(from_the_middle(path)));
    }
    for path in FOLDERS {
        compare("stat", path, &attributes);
        compare("list", path, &|path| said(listing(path)));
    }
    for path in LINKS {
        compare("stat", path, &attributes);
        compare("link", path, &|path| said(fs::read_link(path)));
    }
    for path in NAMES {
        compare("attempts", path, &|path| attempts(path).join(" "));
    }
    compare("changes", "%", &|path| changes(path).join(" "));
    compare("self", "self", &|path| said(fs::read_link(path)));
    compare("own", "self/comm", &|path| said(fs::read(path)));
    compare("own thread", "thread-self", &|path| said(fs::read_link(path)));
    // All processes, and all else at the top; who comes or goes meanwhile is in one listing only.
    let names = |root: &Path| listing(root).map_err(|e| e.to_string());
    let (before, shown, after) = (names(&native)?, names(&ours)?, names(&native)?);
    let missing = before.iter().filter(|name| after.contains(name) && !shown.contains(name)).collect::<Vec<_>>();
    if !missing.is_empty() {
        faults.push(format!("not listed: {missing:?}"));
    }
    println!("{cases} cases, {} differ", faults.len());
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// What the mount says of threads under Entresol is what the program itself reads, where that does not change.
///
/// # Errors
/// All that differs.
pub fn threads() -> Result<(), String> {
    let room = Room::new()?;
    let _mounted = room.mounted(&[])?;
    let program = room.start(&["quiet"])?;
    eventually(|| described(&room, &program))
}

fn described(room: &Room, program: &Watched) -> Result<(), String> {
    let (process, pid) = (room.mount().join(program.pid().to_string()), program.pid() as i32);
    let threads = room.ps(program.pid())?;
    if threads.len() != program.threads.len() || threads.values().any(|thread| thread.state != 'S') {
        return Err(format!("not all wait: {threads:?}"));
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let expect = |what: &str, holds: bool, text: &str| {
        if holds { Ok(()) } else { Err(format!("{what}: {text}")) }
    };
    let listed: Vec<i32> = listing(&process.join("task"))
        .map_err(|e| e.to_string())?
        .iter()
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect();
    let leader_first = listed.first() == Some(&pid) && listed.get(1..).is_some_and(|rest| rest.is_sorted());
    expect("listing", listed.len() == threads.len() && leader_first, &format!("{listed:?}"))?;
    let links = fs::metadata(process.join("task")).map_err(|e| e.to_string())?.nlink();
    expect("links", links == 2 + threads.len() as u64, &links.to_string())?;
    for (tid, thread) in &threads {
        let folder = process.join(format!("task/{tid}"));
        let (stat, status) = (read(&folder.join("stat"))?, read(&folder.join("status"))?);
        expect("stat", stat.starts_with(&format!("{tid} ({}) S ", thread.name)), &stat)?;
        let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
        expect("52 fields", fields.len() == 50, &stat)?;
        let number = |field: usize| fields.get(field - 3).and_then(|word| word.parse::<i64>().ok());
        expect("threads", number(20) == Some(threads.len() as i64), &stat)?;
        let times = thread.times.map(|ns| Some((ns / 10_000_000) as i64));
        expect("times", [number(14), number(15)] == times, &stat)?;
        let is_fifo = thread.policy == "FF";
        let wanted = if is_fifo { [Some(-34), Some(33), Some(1)] } else { [Some(20), Some(0), Some(0)] };
        expect("priority", [number(18), number(40), number(41)] == wanted, &stat)?;
        let line = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let own = tid.to_string();
        expect("Pid", line("Pid:") == Some(&own) && line("Tgid:") == Some(&pid.to_string()), &status)?;
        expect("Name", line("Name:") == Some(&thread.name) && line("State:") == Some("S (sleeping)"), &status)?;
        expect("comm", read(&folder.join("comm"))? == format!("{}\n", thread.name), &own)?;
        let place = read(&folder.join("wchan"))?;
        let wanted = match thread.name.as_str() {
            "watched" => "wait_woken",
            "fifo" => "sigsuspend",
            _ => "futex_do_wait",
        };
        expect("wchan", place == wanted, &place)?;
        expect("stack", read(&folder.join("stack"))? == format!("[<0>] {wanted}\n"), &own)?;
        let runtime: u64 = thread.times.iter().sum();
        let schedstat = read(&folder.join("schedstat"))?;
        expect("schedstat", schedstat.starts_with(&format!("{runtime} ")), &schedstat)?;
        expect(
            "sched",
            read(&folder.join("sched"))?.starts_with(&format!("{} ({tid}, #threads: 5)\n", thread.name)),
            &own,
        )?;
        // By its own name at the top, which is not listed.
        let top = read(&room.mount().join(&own).join("status"))?;
        expect("at the top", top.contains(&format!("\nPid:\t{tid}\n")), &top)?;
        // What all share is the process's.
        let shared = [folder.join("maps"), process.join("maps")].map(|path| read(&path));
        expect("maps", shared[0] == shared[1] && shared[0].is_ok(), &own)?;
    }
    let carriers = listing(&Path::new("/proc").join(pid.to_string()).join("task")).map_err(|e| e.to_string())?;
    for carrier in carriers.iter().filter_map(|line| line.split(' ').next()).filter(|tid| **tid != pid.to_string()) {
        let found = fs::metadata(process.join("task").join(carrier)).map(|_| ());
        expect("carriers do not show", said(found) == "2", carrier)?;
    }
    let mut comm = OpenOptions::new().write(true).open(process.join("comm")).map_err(|e| e.to_string())?;
    expect("names of others are not written", said(comm.write(b"x")) == "22", "comm")?;
    Ok(())
}
