//! Files that a test executes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Makes an executable file by a process of its own. While this one had the file open for writing, another test might
/// start a program, whose process has the descriptor, too, until its `execve`: to execute the file meanwhile is refused
/// (ETXTBSY).
#[track_caller]
pub fn write(file: &Path, content: impl AsRef<[u8]>) {
    let part = file.with_extension("part");
    fs::write(&part, content).unwrap();
    let copied = Command::new("cp").args(["--remove-destination", "--"]).arg(&part).arg(file).status().unwrap();
    assert!(copied.success(), "cp: {copied}");
    fs::remove_file(part).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}
