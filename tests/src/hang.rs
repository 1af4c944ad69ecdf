//! What a program that does not end is doing: the state of every host thread in its process group.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rustix::process::Pid;

/// One line a thread: name, state, where it waits in the host, its system call.
#[must_use]
pub fn report(group: Pid) -> String {
    let mut text = String::new();
    for process in numbered_entries(Path::new("/proc")) {
        if process_group(&process) != Some(group.as_raw_nonzero().get()) {
            continue;
        }
        let command = fs::read(process.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let _ = writeln!(text, "{} {command}", process.display());
        for thread in numbered_entries(&process.join("task")) {
            let read = |name: &str| fs::read_to_string(thread.join(name)).unwrap_or_default().trim().to_owned();
            let status = read("status");
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or("").trim().to_owned()
            };
            let id = thread.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let _ = writeln!(
                text,
                "  thread {id} {:?} {} wchan {} syscall {} | pending {} blocked {} | switches {} voluntary, {} not",
                read("comm"),
                field("State:"),
                read("wchan"),
                read("syscall"),
                field("SigPnd:"),
                field("SigBlk:"),
                field("voluntary_ctxt_switches:"),
                field("nonvoluntary_ctxt_switches:"),
            );
        }
    }
    text
}

fn numbered_entries(dir: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let numbered = |path: &std::path::PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries.filter_map(Result::ok).map(|entry| entry.path()).filter(numbered).collect()
}

/// Field 5 of `stat`, counted behind the command name, which may hold anything.
fn process_group(process: &Path) -> Option<i32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(2)?.parse().ok()
}
