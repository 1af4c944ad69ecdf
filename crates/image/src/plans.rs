//! Which system calls of an object are replaced: from the plan that the command has left beside the image or, for an
//! object that the command did not know, by examining the code.

use abi::args::O_NOFOLLOW;
use alloc::vec::Vec;
use host::os;
use patch::elf::Object;
use patch::{Code, Site, Trust, plan, plan_suffix, recall};
use sync::Lock;

/// The image's own path.
static IMAGE: Lock<Vec<u8>> = Lock::new(Vec::new());

/// Sets the image's path, beside which plans are stored.
pub fn look_beside(path: &[u8]) {
    *IMAGE.lock() = path.to_vec();
}

/// The recorded plan of an object; empty if there is none.
pub fn recorded(object: &Object<'_>) -> Vec<u8> {
    let Some(build_id) = object.build_id() else { return Vec::new() };
    read(&beside(&plan_suffix(build_id))).unwrap_or_default()
}

/// The path of the file beside the image with this suffix, with a zero at the end.
pub fn beside(suffix: &str) -> Vec<u8> {
    [&IMAGE.lock()[..], suffix.as_bytes(), &[0]].concat()
}

/// The sites of a piece of an object's code.
pub fn sites(recorded: &[u8], object: &Object<'_>, code: &Code<'_>) -> Vec<Site> {
    let mut sites = Vec::new();
    let build_id = object.build_id().unwrap_or_default();
    if matches!(recall(recorded, build_id, object.bias(), code, &mut sites), Ok(Some(()))) {
        return sites;
    }
    match plan(code, Trust::LibC, &mut sites) {
        Ok(_) => sites,
        Err(_) => Vec::new(),
    }
}

/// A whole file, by its path with a zero at the end.
fn read(path: &[u8]) -> Option<Vec<u8>> {
    /// The longest plan that is read: some six times that of a C library.
    const LEN_MAX: u64 = 64 * 1024;
    let fd = os::open(path, O_NOFOLLOW, 0).ok()?;
    let len = os::len_of(fd).map_or(0, |len| len.min(LEN_MAX) as usize);
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(len).is_ok() {
        bytes.resize(len, 0);
        let read = os::read(fd, &mut bytes);
        bytes.truncate(read);
    }
    os::close(fd);
    Some(bytes)
}
