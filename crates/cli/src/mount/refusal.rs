//! Why nothing can be mounted here, and what to do.

use anyhow::anyhow;
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// The kernel's FUSE device.
pub const DEVICE: &str = "/dev/fuse";

/// Looks whether this user can mount at all.
///
/// # Errors
/// A sentence that says what is missing and what to do.
pub fn look(user: u32) -> anyhow::Result<()> {
    device()?;
    if user != 0 && !has_helper() {
        return Err(anyhow!(
            "fusermount3 is missing, which mounts for users: `apt-get install fuse3` (other distributions: fuse3, or fuse); \
             `entresol proc -- COMMAND` does without"
        ));
    }
    Ok(())
}

/// Looks whether the kernel serves FUSE to this user.
///
/// # Errors
/// As [`look`].
pub fn device() -> anyhow::Result<()> {
    match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => Ok(()),
        Err(error) => Err(why_closed(&error)),
    }
}

fn why_closed(error: &Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "there is no {DEVICE}: load the kernel's module (`modprobe fuse`), or start the container with it \
             (`--device {DEVICE}`); `entresol ps` and `entresol top` do without"
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "{DEVICE} may not be opened ({error}): `chmod 666 {DEVICE}` is usual; `entresol ps` and `entresol top` do without"
        ),
        _ => anyhow!("{DEVICE}: {error} (`modprobe fuse`?); `entresol ps` and `entresol top` do without"),
    }
}

fn has_helper() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var_os("FUSERMOUNT_PATH").is_some();
    let folders = std::env::split_paths(&path).chain(["/bin".into(), "/sbin".into()]);
    named
        || folders.into_iter().any(|folder| ["fusermount3", "fusermount"].iter().any(|name| folder.join(name).exists()))
}

/// An error of mounting, in words.
#[must_use]
pub fn explain(error: &Error, folder: &Path) -> anyhow::Error {
    let folder = folder.display();
    match error.kind() {
        ErrorKind::PermissionDenied => anyhow!(
            "cannot mount on {folder}: {error}. It must be your own folder, and in a container mounting may be forbidden \
             altogether (`--cap-add SYS_ADMIN`)"
        ),
        _ => anyhow!("cannot mount on {folder}: {}", error.to_string().trim_end()),
    }
}
