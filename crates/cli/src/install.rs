//! Puts the embedded image where the dynamic linker can load it.
//!
//! A file, not a memfd: a launcher that closes descriptors would close the memfd, and the programs that it starts would
//! run natively without any message. The file is named by its content, lies in a folder that only this user can change
//! ([`tool::folders`]), and is renamed into place, so that any number of commands of any versions can do this at the
//! same time. Before use, the whole file is compared with the image in this command, unless its seal holds (`seal`).
//! Where this user has no such folder, root may have put the image beside the command; its content is not compared.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{process, ptr};

use thiserror::Error;
use tool::folders::{self, Unsuitable};
use tool::machine::user;

use crate::{embedded, seal};

/// The image's mode: it is this user's.
const MODE: u32 = 0o500;
/// The mode of an image that other users execute: a program that has changed its user, or everybody if root has put it
/// beside the command.
const MODE_FOR_ALL: u32 = 0o555;

/// No folder would do.
#[derive(Debug, Error)]
#[error(
    "Entresol's library can be put nowhere: {tried}. Set XDG_CACHE_HOME to a folder of yours where files may be \
     executed, without a space, colon, semicolon or dollar sign in its path; for a container, mount one (--tmpfs \
     /tmp:exec, an emptyDir), or have root put it beside the command beforehand (`entresol image --folder \
     /usr/local/lib/entresol` if the command lies in /usr/local/bin)"
)]
pub struct InstallError {
    tried: String,
}

/// Where the image lies, after putting it there if necessary.
pub fn install() -> Result<PathBuf, InstallError> {
    install_as(&name(), embedded::IMAGE, MODE)
}

/// The same for the image at fixed addresses, which only a filter needs.
pub fn install_fixed() -> Result<PathBuf, InstallError> {
    install_as(&name_fixed(), &fixed(), MODE_FOR_ALL)
}

/// Writes the images to a folder, which is made if it is missing, for whoever packages the command: it finds them in
/// `PREFIX/lib/entresol` if it lies in `PREFIX/bin` and has no folder to write to.
pub fn install_into(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    write(&folder.join(name()), embedded::IMAGE, MODE_FOR_ALL)?;
    write(&folder.join(name_fixed()), &fixed(), MODE_FOR_ALL)
}

fn name() -> String {
    format!("libentresol-{}.so", embedded::HASH)
}

fn name_fixed() -> String {
    format!("libentresol-{}-fixed.so", embedded::HASH)
}

fn fixed() -> Vec<u8> {
    patch::at_fixed_addresses(embedded::IMAGE).expect("the image is a shared object of this form")
}

fn install_as(name: &str, image: &[u8], mode: u32) -> Result<PathBuf, InstallError> {
    let mut tried = Vec::new();
    let mut is_taken = false;
    for folder in folders::for_images() {
        match install_in(&folder, name, image, mode) {
            Ok(file) => return Ok(file),
            Err(why) => {
                is_taken |= folder.starts_with("/tmp") && matches!(why, Unsuitable::Owner(_));
                tried.push(format!("{}: {why}", folder.display()));
            }
        }
    }
    // Another user has created the folder with our name; nobody else can have created the one tried here.
    if is_taken && let Ok(file) = install_in(&folders::unguessed_in_tmp(), name, image, mode) {
        return Ok(file);
    }
    match folders::beside_command().map(|folder| packaged_in(&folder, name, image)) {
        Some(Ok(file)) => return Ok(file),
        // Most commands are installed without one.
        Some(Err(Unsuitable::Host(why))) if why.kind() == io::ErrorKind::NotFound => {}
        Some(Err(why)) => tried.push(why.to_string()),
        None => {}
    }
    Err(InstallError { tried: tried.join("; ") })
}

/// The image that was installed with the command. Nobody but root can change the file or its folder, and its name tells
/// its content, so it is trusted as other libraries of the system are.
fn packaged_in(folder: &Path, name: &str, image: &[u8]) -> Result<PathBuf, Unsuitable> {
    let folder = folders::open_of_root(folder)?.path;
    check_characters(&folder)?;
    let file = folder.join(name);
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&file)?;
    let found = opened.metadata()?;
    match &found {
        _ if !found.is_file() || found.uid() != folder.metadata()?.uid() => Err(Unsuitable::Owner(file)),
        _ if found.mode() & 0o022 != 0 => Err(Unsuitable::Mode(file)),
        _ if found.len() != image.len() as u64 => {
            let why = format!("{} has another length than the image", file.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, why).into())
        }
        _ if !may_be_executed(&opened) => Err(Unsuitable::NoExec),
        _ => Ok(file),
    }
}

fn install_in(folder: &Path, name: &str, image: &[u8], mode: u32) -> Result<PathBuf, Unsuitable> {
    let folder = folders::open(folder, true)?.path;
    check_characters(&folder)?;
    let file = folder.join(name);
    if !is_installed(&file, image, mode)? {
        write(&file, image, mode)?;
        if !is_installed(&file, image, mode)? {
            return Err(Unsuitable::Owner(file));
        }
    }
    Ok(file)
}

/// LD_AUDIT is a list with colons, LD_PRELOAD also with spaces; the linker expands $ORIGIN; our options end at ;.
fn check_characters(folder: &Path) -> Result<(), Unsuitable> {
    let has_meaning = |byte: &u8| b" :;$".contains(byte) || byte.is_ascii_control();
    if folder.as_os_str().as_bytes().iter().any(has_meaning) { Err(Unsuitable::Path) } else { Ok(()) }
}

/// Whether the file is there, ours and the image; a folder where it could never be executed is an error.
fn is_installed(file: &Path, image: &[u8], mode: u32) -> Result<bool, Unsuitable> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opened = match OpenOptions::new().read(true).custom_flags(flags).open(file) {
        Ok(opened) => opened,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
        // A link is replaced.
        Err(why) if why.raw_os_error() == Some(libc::ELOOP) => return Ok(false),
        Err(why) => return Err(why.into()),
    };
    let found = opened.metadata()?;
    let is_ours = found.is_file() && found.uid() == user() && found.mode() & 0o7777 == mode;
    let whole = is_ours
        && found.len() == image.len() as u64
        && (seal::holds(file, &found) || compare(file, &found, &opened, image)?);
    if whole && !may_be_executed(&opened) {
        return Err(Unsuitable::NoExec);
    }
    Ok(whole)
}

/// Whether the file has this content, which is then sealed.
fn compare(file: &Path, found: &fs::Metadata, opened: &File, image: &[u8]) -> io::Result<bool> {
    let equal = is_equal(opened, image)?;
    if equal {
        seal::put(file, found);
    }
    Ok(equal)
}

/// Whether the file has this content, to the last byte.
fn is_equal(file: &File, image: &[u8]) -> io::Result<bool> {
    const PART: usize = 64 << 10;
    let mut bytes = vec![0; PART];
    for (i, part) in image.chunks(PART).enumerate() {
        let bytes = &mut bytes[..part.len()];
        file.read_exact_at(bytes, (i * PART) as u64)?;
        if bytes != part {
            return Ok(false);
        }
    }
    Ok(true)
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
        // After a crash the name must not be there without the content.
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
        let file = install_in(&folder, "image.so", IMAGE, MODE).unwrap();
        assert_eq!(fs::read(&file).unwrap(), IMAGE);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o500);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        let before = fs::metadata(&file).unwrap().ino();
        assert_eq!(install_in(&folder, "image.so", IMAGE, MODE).unwrap(), file);
        assert_eq!(fs::metadata(&file).unwrap().ino(), before, "an intact file is not written again");
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| name == "image.so" || name == "image.so.seal"), "no draft stays behind");
    }

    #[test]
    fn a_torn_file_is_replaced() {
        let (_scratch, folder) = folder();
        let file = install_in(&folder, "image.so", IMAGE, MODE).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&file, &IMAGE[..5]).unwrap();
        assert_eq!(fs::read(install_in(&folder, "image.so", IMAGE, MODE).unwrap()).unwrap(), IMAGE);
    }

    /// In the same inode, with the times of before.
    #[test]
    fn what_was_changed_in_place_is_put_right() {
        let (_scratch, folder) = folder();
        let file = install_in(&folder, "image.so", IMAGE, MODE).unwrap();
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
        let opened = OpenOptions::new().write(true).open(&file).unwrap();
        opened.write_all_at(b"NOT", 0).unwrap();
        opened.set_modified(modified).unwrap();
        opened.set_permissions(fs::Permissions::from_mode(0o500)).unwrap();
        assert_eq!(fs::read(install_in(&folder, "image.so", IMAGE, MODE).unwrap()).unwrap(), IMAGE);
    }

    /// Size and mode say nothing: what was changed since is put right.
    #[test]
    fn a_file_of_the_same_size_is_not_taken_for_the_image() {
        let (_scratch, folder) = folder();
        let file = install_in(&folder, "image.so", IMAGE, MODE).unwrap();
        for at in [0, IMAGE.len() - 1] {
            let mut forged = IMAGE.to_vec();
            forged[at] ^= 1;
            fs::remove_file(&file).unwrap();
            fs::write(&file, &forged).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o500)).unwrap();
            assert_eq!(fs::read(install_in(&folder, "image.so", IMAGE, MODE).unwrap()).unwrap(), IMAGE);
        }
    }

    #[test]
    fn a_link_in_the_files_place_is_replaced() {
        let (scratch, folder) = folder();
        let file = install_in(&folder, "image.so", IMAGE, MODE).unwrap();
        let elsewhere = scratch.path().join("elsewhere");
        fs::rename(&file, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        install_in(&folder, "image.so", IMAGE, MODE).unwrap();
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
    }

    #[test]
    fn characters_with_a_meaning_to_the_linker_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["a b", "a:b", "a;b", "$LIB", "a\nb"] {
            let folder = scratch.path().join(name).join("entresol");
            assert!(matches!(install_in(&folder, "image.so", IMAGE, MODE), Err(Unsuitable::Path)), "{name:?}");
        }
    }

    #[test]
    fn many_at_once_agree() {
        let (_scratch, folder) = folder();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    // Threads share a process id, so they also share the draft: only "somebody succeeds" holds.
                    let _ = install_in(&folder, "image.so", IMAGE, MODE);
                });
            }
        });
        assert_eq!(fs::read(install_in(&folder, "image.so", IMAGE, MODE).unwrap()).unwrap(), IMAGE);
    }
}
