//! Folders into which no other user can have put anything.
//!
//! A path means what the owners of its folders want it to mean. So every folder on the way must belong to root or to
//! this user, and may be written to by no other; or, if it has the sticky bit, by others who cannot rename what is
//! this user's. The walk goes by descriptors and follows no link. A path that has passed leads to the same file
//! whenever it is used later, by the dynamic linker, say: only root and this user could change that.

use crate::machine::user;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fs};
use thiserror::Error;

/// Why a folder would not do.
#[derive(Debug, Error)]
pub enum Unsuitable {
    /// Its path has characters that cannot be passed on.
    #[error("its path has a character that the dynamic linker or our options give a meaning to")]
    Path,
    /// It, or a folder above it, belongs to another user.
    #[error("{} belongs to another user", .0.display())]
    Owner(PathBuf),
    /// It, or one above it, is everybody's.
    #[error("other users may write to {}", .0.display())]
    Mode(PathBuf),
    /// Nothing there may be executed.
    #[error("files there may not be executed (noexec)")]
    NoExec,
    /// The host's reason.
    #[error("{0}")]
    Host(#[from] std::io::Error),
}

impl From<Errno> for Unsuitable {
    fn from(error: Errno) -> Unsuitable {
        Unsuitable::Host(error.into())
    }
}

/// A folder that has passed.
#[derive(Debug)]
pub struct Folder {
    /// The folder.
    pub descriptor: OwnedFd,
    /// Where it is, without links.
    pub path: PathBuf,
}

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;
/// The number of missing folders that are created: the cache, and ours in it.
const MADE_MAX: usize = 2;
/// The number of names in `/tmp` that are examined.
const NAMES_MAX: usize = 4096;

/// Opens a folder of this user's; with `make`, one that is missing is made if the one above it is this user's, or lets
/// everybody make one.
///
/// # Errors
/// [`Unsuitable`].
pub fn open(path: &Path, make: bool) -> Result<Folder, Unsuitable> {
    walk(path, make, user())
}

/// Opens a folder of root's, into which nobody else can put anything.
///
/// # Errors
/// [`Unsuitable`].
pub fn open_of_root(path: &Path) -> Result<Folder, Unsuitable> {
    walk(path, false, ROOT)
}

/// Opens a folder of `owner`'s.
fn walk(path: &Path, make: bool, owner: u32) -> Result<Folder, Unsuitable> {
    // Links on the way are gone through once, but not one in the place of the folder itself.
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Err(Unsuitable::Owner(path.to_owned()));
    }
    let (there, missing) = existing(path)?;
    if missing.len() > if make { MADE_MAX } else { 0 } {
        return Err(Errno::NOENT.into());
    }
    let mut path = PathBuf::from("/");
    let mut descriptor = rustix::fs::openat(CWD, &path, FOLDER, Mode::empty())?;
    let mut found = rustix::fs::fstat(&descriptor)?;
    // The owner of the root could replace the dynamic linker as well. In a namespace of users it may not be root.
    let roots = [ROOT, found.st_uid];
    let is_owner = |uid| uid == owner || (owner == ROOT && roots.contains(&uid));
    let there: Vec<&OsStr> = there.iter().skip(1).collect();
    for (i, name) in there.iter().copied().chain(missing.iter().map(OsString::as_os_str)).enumerate() {
        if i >= there.len() {
            let is_everybodys = found.st_mode & STICKY != 0 && found.st_mode & 0o002 != 0;
            if found.st_uid != owner && !is_everybodys {
                return Err(Unsuitable::Owner(path));
            }
            match rustix::fs::mkdirat(&descriptor, name, Mode::RWXU) {
                // Another command has created it meanwhile.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        descriptor = rustix::fs::openat(&descriptor, name, FOLDER, Mode::empty())?;
        path.push(name);
        found = rustix::fs::fstat(&descriptor)?;
        if !is_owner(found.st_uid) && !roots.contains(&found.st_uid) {
            return Err(Unsuitable::Owner(path));
        }
        if found.st_mode & GROUP_OR_OTHERS_WRITE != 0 && found.st_mode & STICKY == 0 {
            return Err(Unsuitable::Mode(path));
        }
    }
    match found {
        _ if !is_owner(found.st_uid) => Err(Unsuitable::Owner(path)),
        _ if found.st_mode & GROUP_OR_OTHERS_WRITE != 0 => Err(Unsuitable::Mode(path)),
        _ => Ok(Folder { descriptor, path }),
    }
}

/// The part of a path that is there, without links, and the names that are missing behind it.
fn existing(path: &Path) -> Result<(PathBuf, Vec<OsString>), Unsuitable> {
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        match there.canonicalize() {
            Ok(found) => {
                missing.reverse();
                return Ok((found, missing));
            }
            // A link that leads nowhere is not made to lead anywhere.
            Err(_) if fs::symlink_metadata(there).is_err_and(|error| error.kind() == ErrorKind::NotFound) => {
                let (Some(parent), Some(name)) = (there.parent(), there.file_name()) else {
                    return Err(Errno::NOENT.into());
                };
                missing.push(name.to_owned());
                there = parent;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Where the image that was installed with the command lies: in `PREFIX/lib/entresol` beside `PREFIX/bin`.
pub fn beside_command() -> Option<PathBuf> {
    let command = env::current_exe().ok()?.canonicalize().ok()?;
    let folder = command.parent().filter(|folder| folder.ends_with("bin"))?;
    Some(folder.with_file_name("lib").join("entresol"))
}

/// Where this user's images may lie, in the order of preference: the cache, the runtime folder, `/tmp`.
///
/// In `/tmp` somebody else may have made the folder that has the usual name. Then it is one with another name that begins
/// like it, and the last of all is a name that nobody can have guessed.
pub fn for_images() -> impl Iterator<Item = PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = user();
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let runtimes = [absolute("XDG_RUNTIME_DIR"), Some(format!("/run/user/{user}").into())];
    let mut folders: Vec<PathBuf> =
        cache.into_iter().chain(runtimes.into_iter().flatten()).map(|base| base.join("entresol")).collect();
    let usual = format!("entresol-{user}");
    folders.push(Path::new("/tmp").join(&usual));
    folders.dedup();
    // `/tmp` may have many names, and is looked through only if no folder before is suitable.
    folders.into_iter().chain(std::iter::once_with(move || others_in_tmp(&format!("{usual}-"), user)).flatten())
}

/// Folders of this user's in `/tmp` whose names begin so.
fn others_in_tmp(start: &str, user: u32) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let Ok(names) = fs::read_dir("/tmp") else { return Vec::new() };
    let ours = |entry: &fs::DirEntry| {
        entry.file_name().as_bytes().starts_with(start.as_bytes())
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user)
    };
    let mut found: Vec<PathBuf> = names.take(NAMES_MAX).flatten().filter(ours).map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// A name in `/tmp` for a folder that cannot be there yet.
#[must_use]
pub fn unguessed_in_tmp() -> PathBuf {
    use std::hash::{BuildHasher, RandomState};
    let number = RandomState::new().hash_one(std::process::id());
    format!("/tmp/entresol-{}-{number:016x}", user()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_missing_is_made_for_this_user_only() {
        let scratch = tempfile::tempdir().unwrap();
        let wanted = scratch.path().join("cache/entresol");
        assert!(open(&wanted, false).is_err());
        let folder = open(&wanted, true).unwrap();
        assert_eq!(fs::metadata(&folder.path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(open(&wanted, false).is_ok());
        assert!(open(&scratch.path().join("a/b/c"), true).is_err(), "no more than two are made");
    }

    #[test]
    fn a_folder_that_others_can_write_to_spoils_all_below() {
        let scratch = tempfile::tempdir().unwrap();
        let wanted = scratch.path().join("open/inner/entresol");
        fs::create_dir_all(&wanted).unwrap();
        assert!(open(&wanted, false).is_ok());
        for spoiled in ["open", "open/inner", "open/inner/entresol"] {
            let spoiled = scratch.path().join(spoiled);
            for bits in [0o777, 0o775] {
                mode(&spoiled, bits);
                assert!(matches!(open(&wanted, false), Err(Unsuitable::Mode(at)) if at == spoiled), "{bits:o}");
            }
            mode(&spoiled, 0o755);
        }
        mode(&scratch.path().join("open"), 0o1777);
        assert!(open(&wanted, false).is_ok(), "as in /tmp: others can make folders, and not rename ours");
        mode(&wanted, 0o1777);
        assert!(matches!(open(&wanted, false), Err(Unsuitable::Mode(_))), "but it must be ours alone");
    }

    #[test]
    fn a_folder_of_somebody_elses_spoils_all_below() {
        let scratch = tempfile::tempdir().unwrap();
        let wanted = scratch.path().join("theirs/cache/entresol");
        fs::create_dir_all(&wanted).unwrap();
        for theirs in ["theirs", "theirs/cache", "theirs/cache/entresol"] {
            let theirs = scratch.path().join(theirs);
            if std::os::unix::fs::chown(&theirs, Some(65534), None).is_err() {
                println!("skipped: only root can give folders away");
                return;
            }
            assert!(matches!(open(&wanted, true), Err(Unsuitable::Owner(at)) if at == theirs));
            std::os::unix::fs::chown(&theirs, Some(0), None).unwrap();
        }
    }

    #[test]
    fn links_are_gone_through_once() {
        let scratch = tempfile::tempdir().unwrap();
        let real = scratch.path().join("real");
        fs::create_dir(&real).unwrap();
        symlink(&real, scratch.path().join("link")).unwrap();
        let folder = open(&scratch.path().join("link/entresol"), true).unwrap();
        assert_eq!(folder.path, real.canonicalize().unwrap().join("entresol"));
        symlink(scratch.path().join("nowhere"), scratch.path().join("dangling")).unwrap();
        assert!(open(&scratch.path().join("dangling/entresol"), true).is_err());
        assert!(matches!(open(&scratch.path().join("link"), true), Err(Unsuitable::Owner(_))));
    }
}
