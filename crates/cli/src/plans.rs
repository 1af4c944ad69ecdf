//! The analysis of the C library and its loader, made once and kept beside the image.
//!
//! This command has the same two as nearly every program that it starts, so it looks at its own, in the files that
//! they came from: in memory a debugger may have put breakpoints. A program with another C library has it analysed
//! at each start, which takes a millisecond longer. Nothing here can fail in a way that matters.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io, slice};

use patch::elf::Object;
use patch::{Trust, record};

use crate::install;

/// An object of this process.
struct Loaded {
    path: PathBuf,
    build_id: Vec<u8>,
}

/// Makes the plans that are missing beside the image.
pub fn prepare(image: &Path) {
    for object in loaded().into_iter().filter(|object| is_c_library(&object.path)) {
        let file = beside(image, &object.build_id);
        if fs::symlink_metadata(&file).is_err() {
            // The image does without.
            let _ = make(&object, &file);
        }
    }
}

/// As the image looks for it.
fn beside(image: &Path, build_id: &[u8]) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(patch::plan_suffix(build_id));
    name.into()
}

fn make(object: &Loaded, file: &Path) -> io::Result<()> {
    let bytes = fs::read(&object.path)?;
    let library = Object::of_file(&bytes, 0).map_err(io::Error::other)?;
    if library.build_id() != Some(&object.build_id) {
        // Replaced since it was loaded.
        return Ok(());
    }
    match record(&library, Trust::LibC).map_err(io::Error::other)? {
        Some(plan) => install::write(file, &plan, 0o400),
        None => Ok(()),
    }
}

fn is_c_library(path: &Path) -> bool {
    path.file_name().is_some_and(|name| patch::is_c_library(name.as_bytes()))
}

/// The objects of this process that have a file and a build id.
fn loaded() -> Vec<Loaded> {
    let mut found = Vec::new();
    // SAFETY: the callback has the promised form, and gets the vector back.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: as the C library promises: the object's name and program headers, which live while it is loaded; and
    // the vector of `loaded`.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Loaded>>()) };
    if info.dlpi_name.is_null() || info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: as above.
    let (name, headers) = unsafe {
        (CStr::from_ptr(info.dlpi_name), slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
    };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    let build_id = headers.iter().filter(|header| header.p_type == libc::PT_NOTE).find_map(|header| {
        // SAFETY: notes lie in a loaded segment.
        let notes =
            unsafe { slice::from_raw_parts((info.dlpi_addr + header.p_vaddr) as *const u8, header.p_memsz as usize) };
        patch::elf::build_id(notes)
    });
    if let Some(build_id) = build_id {
        found.push(Loaded { path, build_id: build_id.to_owned() });
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_and_its_loader_are_prepared_once() {
        let scratch = tempfile::tempdir().unwrap();
        let image = scratch.path().join("image.so");
        prepare(&image);
        let names = || {
            let files = fs::read_dir(scratch.path()).unwrap();
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let first = names();
        assert_eq!(first.len(), 2, "{first:?}");
        assert!(first.iter().all(|name| name.starts_with("image.so.") && name.ends_with(".plan")), "{first:?}");
        prepare(&image);
        assert_eq!(names().len(), 2, "nothing is written twice and no draft stays");
    }

    #[test]
    fn a_folder_that_is_gone_stops_nobody() {
        prepare(Path::new("/nowhere/at/all/image.so"));
    }
}
