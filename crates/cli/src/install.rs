//! Puts the embedded image where the dynamic linker can load it.
//!
//! A file, not a memfd: launchers that close descriptors would lose a memfd, and what they start would then run
//! natively without a word. The file is named by its content, lies in a folder that only this user can enter, and
//! is renamed into place, so that any number of commands of any versions can do this at the same time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{env, process, ptr};

use thiserror::Error;

use crate::embedded;
use tool::machine::user;

/// No folder would do.
#[derive(Debug, Error)]
#[error(
    "Entresol's library can be put nowhere: {tried}. Set XDG_CACHE_HOME to a folder of yours where files may be \
     executed, without a space, colon, semicolon or dollar sign in its path"
)]
pub struct InstallError {
    tried: String,
}

/// Why one folder would not do.
#[derive(Debug, Error)]
enum Unsuitable {
    #[error("its path has a character that the dynamic linker or our options give a meaning to")]
    Path,
    #[error("it belongs to another user")]
    Owner,
    #[error("other users may write to it")]
    Mode,
    #[error("files there may not be executed (noexec)")]
    NoExec,
    #[error("{0}")]
    Host(#[from] io::Error),
}

/// Where the image lies, after putting it there if necessary.
pub fn install() -> Result<PathBuf, InstallError> {
    let name = format!("libentresol-{}.so", embedded::HASH);
    let mut tried = Vec::new();
    for folder in candidates() {
        match install_in(&folder, &name, embedded::IMAGE) {
            Ok(file) => return Ok(file),
            Err(why) => tried.push(format!("{}: {why}", folder.display())),
        }
    }
    Err(InstallError { tried: tried.join("; ") })
}

/// Folders in order: the user's cache, the user's runtime folder, /tmp.
fn candidates() -> Vec<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = user();
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let runtime = absolute("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{user}").into());
    let mut folders: Vec<PathBuf> = cache.into_iter().chain([runtime]).map(|base| base.join("entresol")).collect();
    folders.push(format!("/tmp/entresol-{user}").into());
    folders
}

fn install_in(folder: &Path, name: &str, image: &[u8]) -> Result<PathBuf, Unsuitable> {
    // LD_AUDIT is a list with colons, LD_PRELOAD also with spaces; the linker expands $ORIGIN; our options end at ;.
    if folder.as_os_str().as_bytes().iter().any(|byte| b" :;$".contains(byte) || byte.is_ascii_control()) {
        return Err(Unsuitable::Path);
    }
    prepare_folder(folder)?;
    let file = folder.join(name);
    if !is_installed(&file, image.len())? {
        write(&file, image, 0o500)?;
        if !is_installed(&file, image.len())? {
            return Err(Unsuitable::Owner);
        }
    }
    Ok(file)
}

/// Makes the folder if it is missing and its parent is ours (or is /tmp), and trusts it only if nobody else can
/// have put something there.
fn prepare_folder(folder: &Path) -> Result<(), Unsuitable> {
    if fs::symlink_metadata(folder).is_err() {
        let parent = folder.parent().unwrap_or(folder);
        // A home folder of somebody else (as after sudo) is not the place for a folder of ours.
        let home = parent.parent().unwrap_or(parent);
        if !parent.exists() && fs::metadata(home)?.uid() == user() {
            tolerate_existing(DirBuilder::new().mode(0o700).create(parent))?;
        }
        if parent != Path::new("/tmp") && fs::metadata(parent)?.uid() != user() {
            return Err(Unsuitable::Owner);
        }
        tolerate_existing(DirBuilder::new().mode(0o700).create(folder))?;
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != user() {
        return Err(Unsuitable::Owner);
    }
    if found.mode() & 0o022 != 0 {
        return Err(Unsuitable::Mode);
    }
    Ok(())
}

/// Another command may have made it meanwhile.
fn tolerate_existing(made: io::Result<()>) -> io::Result<()> {
    made.or_else(|why| if why.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(why) })
}

/// Whether the file is there, ours and whole; a folder where it could never be executed is an error.
fn is_installed(file: &Path, len: usize) -> Result<bool, Unsuitable> {
    let opened = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(file) {
        Ok(opened) => opened,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(why) => return Err(why.into()),
    };
    let found = opened.metadata()?;
    let whole = found.is_file() && found.uid() == user() && found.len() == len as u64 && found.mode() & 0o777 == 0o500;
    if whole && !may_be_executed(&opened) {
        return Err(Unsuitable::NoExec);
    }
    Ok(whole)
}

/// Maps the file as the dynamic linker will; a folder that is mounted noexec refuses it.
fn may_be_executed(file: &File) -> bool {
    const LEN: usize = 4096;
    // SAFETY: a new private mapping at an address of the kernel's choice; it is not accessed and removed at once.
    unsafe {
        let map =
            libc::mmap(ptr::null_mut(), LEN, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        map != libc::MAP_FAILED && libc::munmap(map, LEN) == 0
    }
}

/// Puts a file in place, whole or not at all.
pub fn write(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let draft = file.with_file_name(format!(".draft-{name}-{}", process::id()));
    // Left over by a command of the same process id that was killed.
    let _ = fs::remove_file(&draft);
    let written = (|| {
        let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        target.write_all(content)?;
        target.set_permissions(fs::Permissions::from_mode(mode))?;
        // The size is the proof of wholeness, so the content must not reach the disk after the name does.
        target.sync_data()?;
        fs::rename(&draft, file)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &[u8] = b"not really an image, but as good as one here";

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("cache").join("entresol");
        (scratch, folder)
    }

    #[test]
    fn installs_once_for_this_user_only() {
        let (_scratch, folder) = folder();
        let file = install_in(&folder, "image.so", IMAGE).unwrap();
        assert_eq!(fs::read(&file).unwrap(), IMAGE);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o500);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        let before = fs::metadata(&file).unwrap().ino();
        assert_eq!(install_in(&folder, "image.so", IMAGE).unwrap(), file);
        assert_eq!(fs::metadata(&file).unwrap().ino(), before, "an intact file is not written again");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no draft stays behind");
    }

    #[test]
    fn a_torn_file_is_replaced() {
        let (_scratch, folder) = folder();
        let file = install_in(&folder, "image.so", IMAGE).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&file, &IMAGE[..5]).unwrap();
        assert_eq!(fs::read(install_in(&folder, "image.so", IMAGE).unwrap()).unwrap(), IMAGE);
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_not_trusted() {
        let (_scratch, folder) = folder();
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(install_in(&folder, "image.so", IMAGE), Err(Unsuitable::Mode)));
    }

    #[test]
    fn a_link_is_followed_nowhere() {
        let (scratch, folder) = folder();
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        let elsewhere = scratch.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
        assert!(matches!(install_in(&folder, "image.so", IMAGE), Err(Unsuitable::Owner)));
    }

    #[test]
    fn characters_with_a_meaning_to_the_linker_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["a b", "a:b", "a;b", "$LIB", "a\nb"] {
            let folder = scratch.path().join(name).join("entresol");
            assert!(matches!(install_in(&folder, "image.so", IMAGE), Err(Unsuitable::Path)), "{name:?}");
        }
    }

    #[test]
    fn many_at_once_agree() {
        let (_scratch, folder) = folder();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    // Threads share a process id, so they also share the draft: only "somebody succeeds" holds.
                    let _ = install_in(&folder, "image.so", IMAGE);
                });
            }
        });
        assert_eq!(fs::read(install_in(&folder, "image.so", IMAGE).unwrap()).unwrap(), IMAGE);
    }
}
