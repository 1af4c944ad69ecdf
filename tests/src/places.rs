//! Where things lie: the corpus, the build folder, and a folder that user nobody can read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The corpus of programs: in the package's folder, which cargo names to the tests that it runs. A copy of this test on another
/// machine is told by the same variable where its copy of the corpus lies.
#[must_use]
pub fn programs() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).join("programs")
}

/// The folder of the running profile, `target/debug` or `target/release`: a test binary lies in its `deps`.
///
/// # Panics
/// When the test binary was moved out of a cargo target folder.
#[must_use]
pub fn profile_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let exe = std::env::current_exe().expect("the test binary has a path");
        let dir = exe.ancestors().nth(2).expect("the test binary lies in PROFILE/deps");
        dir.to_path_buf()
    })
}

/// Compiled programs and scratch files, kept between runs.
#[must_use]
pub fn build_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| ensure(profile_dir().join("corpus")))
}

/// A folder below the build folder, created when missing.
#[must_use]
pub fn scratch(name: &str) -> PathBuf {
    ensure(build_dir().join(name))
}

/// A copy of `file` at a path that every user may read and execute: a target folder below a private home
/// folder is closed to user nobody.
///
/// # Errors
/// When the copy cannot be written.
pub fn public_copy(file: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    let dir = DIR.get_or_init(|| ensure(std::env::temp_dir().join(format!("entresol-tests-{}", std::process::id()))));
    let stamp = file.metadata()?.modified()?.duration_since(std::time::UNIX_EPOCH).map_or(0, |age| age.as_nanos());
    let copy_dir = dir.join(format!("{stamp:x}"));
    let copy = copy_dir.join(file.file_name().unwrap_or_default());
    if !copy.exists() {
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::create_dir_all(&copy_dir)?;
        for place in [dir, &copy_dir] {
            std::fs::set_permissions(place, open.clone())?;
        }
        // Written beside and renamed: another test may be about to execute the same copy.
        let part = copy_dir.join(format!("part-{:?}", std::thread::current().id()));
        copy_by_a_child(file, &part)?;
        std::fs::set_permissions(&part, open)?;
        std::fs::rename(&part, &copy)?;
    }
    Ok(copy)
}

/// Copies in a process of its own. While this one had the copy open for writing, another of its threads might start a
/// program, whose process has the descriptor, too, until its `execve`: to execute the copy meanwhile is refused (ETXTBSY).
fn copy_by_a_child(from: &Path, to: &Path) -> io::Result<()> {
    let status = std::process::Command::new("cp").arg("--").arg(from).arg(to).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("cp: {status}"))) }
}

/// Removes what [`public_copy`] left.
pub fn clean() {
    let dir = std::env::temp_dir().join(format!("entresol-tests-{}", std::process::id()));
    // Nothing to remove is the usual case.
    drop(std::fs::remove_dir_all(dir));
}

fn ensure(dir: PathBuf) -> PathBuf {
    std::fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("cannot create {}: {error}", dir.display()));
    dir
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering::*};

    /// A program is copied and executed at once, while other threads start programs.
    #[test]
    fn a_copy_can_be_executed_at_once() {
        let folder = std::env::temp_dir().join(format!("entresol-copies-{}", std::process::id()));
        let folder = ensure(folder);
        let done = AtomicBool::new(false);
        let busy: Vec<bool> = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Relaxed) {
                        Command::new("true").status().unwrap();
                    }
                });
            }
            let copy_and_run = |n: u32| {
                let copy = folder.join(format!("true-{n}"));
                copy_by_a_child(Path::new("/bin/true"), &copy).unwrap();
                !Command::new(&copy).status().is_ok_and(|status| status.success())
            };
            let busy = (0..100).map(copy_and_run).collect();
            done.store(true, Relaxed);
            busy
        });
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(busy.iter().filter(|&&busy| busy).count(), 0);
    }
}
