//! Ends: of threads and processes that are read, of the mount, and of the attempt where there is no FUSE.

use super::room::{Room, eventually, succeeded};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;

/// The error of reading a file from its beginning.
fn read_again(file: &mut File) -> Result<Option<i32>, String> {
    file.rewind().map_err(|e| e.to_string())?;
    match file.read(&mut [0; 4096]) {
        // However much there is.
        Ok(0..) => Ok(None),
        Err(error) => Ok(error.raw_os_error()),
    }
}

fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// A thread ends while its files are open, then the process.
///
/// # Errors
/// A record of somebody else, or another error than Linux's.
pub fn dead() -> Result<(), String> {
    let room = Room::new()?;
    let _mounted = room.mounted(&[])?;
    let mut program = room.start(&["quiet"])?;
    let process = room.mount().join(program.pid().to_string());
    let folder = process.join(format!("task/{}", program.brief()?));
    let names = ["stat", "status", "comm", "sched", "schedstat", "wchan"];
    let mut of_thread = names.iter().map(|name| open(&folder.join(name))).collect::<Result<Vec<_>, _>>()?;
    let names = ["stat", "status", "comm", "cmdline", "limits", "maps"];
    let mut of_process = names.iter().map(|name| open(&process.join(name))).collect::<Result<Vec<_>, _>>()?;
    let kept = open(&folder)?;
    for file in of_thread.iter_mut().chain(&mut of_process) {
        if let Some(error) = read_again(file)? {
            return Err(format!("{error} while it lives"));
        }
    }
    program.end_brief()?;
    for file in &mut of_thread {
        eventually(|| match read_again(file)? {
            Some(ESRCH) => Ok(()),
            other => Err(format!("{other:?} of a thread that has ended")),
        })?;
    }
    let gone = fs::metadata(folder.join("stat")).err().and_then(|e| e.raw_os_error());
    if gone != Some(ENOENT) {
        return Err(format!("{gone:?} by the path of a thread that has ended"));
    }
    drop(kept);
    if let Some(error) =
        of_process.iter_mut().map(read_again).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().next()
    {
        return Err(format!("{error} of the process, which lives"));
    }
    drop(program);
    for (file, name) in of_process.iter_mut().zip(names) {
        // What is open natively of a process's memory is empty then.
        let expected = if name == "maps" || name == "cmdline" { [None, Some(ESRCH)] } else { [Some(ESRCH); 2] };
        eventually(|| match read_again(file)? {
            error if expected.contains(&error) => Ok(()),
            other => Err(format!("{other:?} of {name} of a dead process")),
        })?;
    }
    let gone = fs::metadata(&process).err().and_then(|e| e.raw_os_error());
    if gone == Some(ENOENT) { Ok(()) } else { Err(format!("{gone:?} by the path of a dead process")) }
}

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

/// By `umount`, by SIGTERM and by SIGINT; in the foreground and in the background, also while somebody is inside.
///
/// # Errors
/// What is left.
pub fn unmounting() -> Result<(), String> {
    let room = Room::new()?;
    let folder = room.mount();
    for (signal, busy) in [("TERM", false), ("INT", false), ("HUP", true)] {
        let mut command = room.entresol()?;
        let mut server = command.args(["mount", "--foreground"]).arg(&folder).spawn().map_err(|e| e.to_string())?;
        eventually(|| if is_mounted(&folder) { Ok(()) } else { Err("not mounted".to_owned()) })?;
        let inside = busy.then(|| open(&folder.join("self/status"))).transpose()?;
        succeeded(&["kill"], Command::new("kill").args(["-s", signal, &server.id().to_string()]).output())?;
        let status = server.wait().map_err(|e| e.to_string())?;
        drop(inside);
        if !status.success() || is_mounted(&folder) {
            return Err(format!("SIG{signal}: {status}, mounted: {}", is_mounted(&folder)));
        }
    }
    let mut command = room.entresol()?;
    let mut server = command.args(["mount", "--foreground"]).arg(&folder).spawn().map_err(|e| e.to_string())?;
    eventually(|| if is_mounted(&folder) { Ok(()) } else { Err("not mounted".to_owned()) })?;
    drop(room.mounted_already());
    let status = server.wait().map_err(|e| e.to_string())?;
    if !status.success() {
        return Err(format!("umount: {status}"));
    }
    // Not over what the command itself needs, nor over what is no folder.
    for (path, words) in [("/proc", "the host's"), ("/proc/self/stat", "the host's"), ("/nowhere", "cannot mount on")] {
        let output = room.entresol()?.args(["mount", path]).output().map_err(|e| e.to_string())?;
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(1) || !complaint.contains(words) {
            return Err(format!("{path}: {}: {complaint}", output.status));
        }
    }
    // The command's own status.
    for (script, expected) in [("exit 3", 3), ("kill -TERM $$", 143)] {
        let status = room.entresol()?.args(["proc", "--", "sh", "-c", script]).status().map_err(|e| e.to_string())?;
        if status.code() != Some(expected) {
            return Err(format!("{script}: {status}"));
        }
    }
    let mut missing = room.entresol()?;
    let status = missing.args(["proc", "--", "/nowhere"]).stderr(Stdio::null()).status().map_err(|e| e.to_string())?;
    if status.code() == Some(127) { Ok(()) } else { Err(format!("a command that is not there: {status}")) }
}

/// Unmounted as soon as the mount exists, mostly before its server has read the kernel's first request: that is an end
/// like any other.
///
/// # Errors
/// The server's status.
pub fn unmounted_at_once() -> Result<(), String> {
    const TIMES: usize = 10;
    let room = Room::new()?;
    let folder = room.mount();
    for time in 0..TIMES {
        let mut command = room.entresol()?;
        let mut server = command.args(["mount", "--foreground"]).arg(&folder).spawn().map_err(|e| e.to_string())?;
        while unmount(&folder, UnmountFlags::DETACH).is_err() {
            if let Some(status) = server.try_wait().map_err(|e| e.to_string())? {
                return Err(format!("the server ended by itself: {status}"));
            }
        }
        let status = server.wait().map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("unmounted for the {time}th time: {status}"));
        }
    }
    Ok(())
}

/// Whoever served the last mount ends late, unmounted by somebody else or asked to end: the next mount at its place stays.
///
/// # Errors
/// It went, or the one that served does not end.
pub fn mounted_again() -> Result<(), String> {
    let room = Room::new()?;
    let folder = room.mount();
    for asked in [false, true] {
        let mut command = room.entresol()?;
        let mut late = command.args(["mount", "--foreground"]).arg(&folder).spawn().map_err(|e| e.to_string())?;
        eventually(|| fs::read_link(folder.join("self")).map_err(|e| format!("not served: {e}")))?;
        let process = Pid::from_child(&late);
        kill_process(process, Signal::STOP).map_err(|e| e.to_string())?;
        unmount(&folder, UnmountFlags::DETACH).map_err(|e| e.to_string())?;
        let next = room.mounted(&[])?;
        if asked {
            kill_process(process, Signal::TERM).map_err(|e| e.to_string())?;
        }
        kill_process(process, Signal::CONT).map_err(|e| e.to_string())?;
        let status = late.wait().map_err(|e| e.to_string())?;
        let own = fs::read_link(folder.join("self")).map_err(|e| format!("asked {asked}: {e}"))?;
        if !status.success() || own.to_str() != Some(&std::process::id().to_string()) {
            return Err(format!("asked {asked}: {status}, self is {}", own.display()));
        }
        drop(next);
    }
    Ok(())
}

/// A machine without `/dev/fuse`: a sentence, and the status of each command.
///
/// # Errors
/// Another sentence.
pub fn without_fuse() -> Result<(), String> {
    let room = Room::new()?;
    let command = room.entresol()?;
    let command = command.get_program().display().to_string();
    let hidden = room.file("dev").display().to_string();
    fs::create_dir(&hidden).map_err(|e| e.to_string())?;
    for (rest, status, words) in [
        ("mount /mnt", 1, "there is no /dev/fuse: load the kernel's module"),
        ("proc -- true", 125, "there is no /dev/fuse: load the kernel's module"),
        ("ps", 0, ""),
    ] {
        let script = format!("mount --bind {hidden} /dev && {command} {rest} 2>&1; echo $? >&2");
        let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().map_err(|e| e.to_string())?;
        let (said, code) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if code.trim() != status.to_string() || !said.contains(words) {
            return Err(format!("{rest}: {code}: {said}"));
        }
    }
    Ok(())
}
