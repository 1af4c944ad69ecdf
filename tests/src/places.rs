//! Where things lie: the corpus, the build folder, and a folder that user nobody can read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The corpus of programs.
#[must_use]
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
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
        std::fs::copy(file, &part)?;
        std::fs::set_permissions(&part, open)?;
        std::fs::rename(&part, &copy)?;
    }
    Ok(copy)
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
