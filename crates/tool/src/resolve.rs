//! Finds the file that execvp would execute.

use std::env;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Where glibc's execvp looks when PATH is not set (`confstr(_CS_PATH)`).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why there is nothing to execute.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// No file of that name.
    #[error("{name}: there is no such program")]
    Missing {
        /// As it was asked for.
        name: String,
    },
    /// A file that may not be executed.
    #[error("{}: it cannot be executed ({why})", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// In the host's words.
        why: String,
    },
}

/// The file that `execvp(name)` would execute.
pub fn resolve(name: &OsStr) -> Result<PathBuf, ResolveError> {
    let missing = || ResolveError::Missing { name: name.to_string_lossy().into_owned() };
    if name.as_bytes().contains(&b'/') {
        return executable(Path::new(name)).map(|()| name.into()).map_err(|why| match why.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => missing(),
            _ => ResolveError::NotExecutable { path: name.into(), why: plain(&why) },
        });
    }
    if name.is_empty() {
        return Err(missing());
    }
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    search(name, &path).map_err(|refused| refused.unwrap_or_else(missing))
}

/// Looks in every folder of `path`. As execvp does, a file that may not be executed does not end the search, but
/// is remembered as the reason when nothing better follows.
fn search(name: &OsStr, path: &OsStr) -> Result<PathBuf, Option<ResolveError>> {
    let mut refused = None;
    for folder in path.as_bytes().split(|&byte| byte == b':') {
        let folder = if folder.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(folder)) };
        let file = folder.join(name);
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(why) if why.raw_os_error() == Some(libc::EACCES) => {
                refused.get_or_insert(ResolveError::NotExecutable { path: file, why: plain(&why) });
            }
            Err(_) => {}
        }
    }
    Err(refused)
}

/// Whether execve would get as far as reading the file: a regular file with execute permission for us.
///
/// # Errors
/// The host's.
pub fn executable(file: &Path) -> io::Result<()> {
    let name = CString::new(file.as_os_str().as_bytes())?;
    let result = |answer| if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: `name` is a string that ends with a zero byte.
    let effective = result(unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::X_OK, libc::AT_EACCESS) });
    match effective {
        // The call is newer than some sandboxes (`faccessat2(2)`, Linux 5.8). The ids differ only in programs that gain rights.
        Err(why) if [Some(libc::ENOSYS), Some(libc::EPERM)].contains(&why.raw_os_error()) => {
            // SAFETY: as above.
            result(unsafe { libc::access(name.as_ptr(), libc::X_OK) })?;
        }
        answer => answer?,
    }
    // execve answers EACCES for folders and devices.
    if file.metadata()?.is_file() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EACCES)) }
}

/// The host's words without Rust's "(os error 13)".
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn file(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, b"#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_first_executable_on_the_path_wins() {
        let scratch = tempfile::tempdir().unwrap();
        let [one, two, three] = ["one", "two", "three"].map(|name| scratch.path().join(name));
        for folder in [&one, &two, &three] {
            fs::create_dir(folder).unwrap();
        }
        fs::create_dir(one.join("tool")).unwrap();
        file(&two, "tool", 0o644);
        let wanted = file(&three, "tool", 0o755);
        let path = env::join_paths([&one, &two, &three]).unwrap();
        assert_eq!(search("tool".as_ref(), &path).unwrap(), wanted);

        let path = env::join_paths([&one, &two]).unwrap();
        let Err(Some(ResolveError::NotExecutable { .. })) = search("tool".as_ref(), &path) else {
            panic!("a file without execute permission is the reason");
        };
        assert!(matches!(search("other".as_ref(), &path), Err(None)));
    }

    #[test]
    fn names_with_a_slash_are_not_searched_for() {
        assert!(matches!(resolve("/bin/true".as_ref()), Ok(path) if path == Path::new("/bin/true")));
        assert!(matches!(resolve("./true".as_ref()), Err(ResolveError::Missing { .. })));
        assert!(matches!(resolve("/bin/true/x".as_ref()), Err(ResolveError::Missing { .. })));
        assert!(matches!(resolve("/bin".as_ref()), Err(ResolveError::NotExecutable { .. })));
        assert!(matches!(resolve("".as_ref()), Err(ResolveError::Missing { .. })));
    }
}
