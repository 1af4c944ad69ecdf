//! Files that have been checked once and need not be read again.
//!
//! Linux sets a file's `st_ctime` when the content changes, and no program can set it otherwise. So a file that was
//! checked is still right while its device, inode, length and both times are unchanged: a replaced file, a restored
//! copy or a damaged file differs in one of them. The *seal*, a note of these values, lies beside the file in a folder
//! that only this user can change. It does not protect against this user; nothing could.

use std::fs::{self, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tool::machine::user;

use crate::install;

/// Longer than any seal.
const LEN_MAX: u64 = 256;

/// Whether the file, whose metadata are `found`, is unchanged since it was sealed.
pub fn holds(file: &Path, found: &Metadata) -> bool {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let Ok(seal) = OpenOptions::new().read(true).custom_flags(flags).open(beside(file)) else { return false };
    let is_ours =
        seal.metadata().is_ok_and(|found| found.is_file() && found.uid() == user() && found.mode() & 0o7777 == 0o400);
    let mut text = String::new();
    is_ours && seal.take(LEN_MAX).read_to_string(&mut text).is_ok() && text == of(found)
}

/// Seals the file, which has been checked and which nobody else has written to since `found` was read.
pub fn put(file: &Path, found: &Metadata) {
    // Without a seal the file is compared again.
    let _ = install::write(&beside(file), of(found).as_bytes(), 0o400);
}

/// Takes the seal away, if there is one.
pub fn remove(file: &Path) {
    let _ = fs::remove_file(beside(file));
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".seal");
    name.into()
}

fn of(found: &Metadata) -> String {
    let [changed, written] = [(found.ctime(), found.ctime_nsec()), (found.mtime(), found.mtime_nsec())]
        .map(|(s, ns)| format!("{s}.{ns:09}"));
    format!("entresol seal 1\n{} {} {} {changed} {written}\n", found.dev(), found.ino(), found.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sealed() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        fs::write(&file, b"as it should be").unwrap();
        let found = fs::metadata(&file).unwrap();
        assert!(!holds(&file, &found), "without a seal");
        put(&file, &found);
        assert!(holds(&file, &found));
        (scratch, file)
    }

    #[test]
    fn it_breaks_with_the_content_even_if_the_times_are_put_back() {
        let (_scratch, file) = sealed();
        let before = fs::metadata(&file).unwrap();
        // Longer than the host's clock needs to advance.
        std::thread::sleep(Duration::from_millis(20));
        let handle = OpenOptions::new().write(true).open(&file).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&handle, b"AS", 0).unwrap();
        handle.set_modified(before.modified().unwrap()).unwrap();
        let found = fs::metadata(&file).unwrap();
        assert_eq!((found.len(), found.mtime_nsec()), (before.len(), before.mtime_nsec()));
        assert!(!holds(&file, &found));
    }

    #[test]
    fn it_breaks_with_another_file_in_the_place() {
        let (_scratch, file) = sealed();
        let copy = file.with_extension("copy");
        fs::copy(&file, &copy).unwrap();
        fs::rename(&copy, &file).unwrap();
        assert!(!holds(&file, &fs::metadata(&file).unwrap()));
    }

    #[test]
    fn a_seal_that_others_could_have_written_is_none() {
        use std::os::unix::fs::PermissionsExt;
        let (_scratch, file) = sealed();
        let found = fs::metadata(&file).unwrap();
        fs::set_permissions(beside(&file), fs::Permissions::from_mode(0o444)).unwrap();
        assert!(!holds(&file, &found));
        remove(&file);
        std::os::unix::fs::symlink("/dev/null", beside(&file)).unwrap();
        assert!(!holds(&file, &found));
    }
}
