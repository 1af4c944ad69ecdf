//! The analysis of the C library, its loader and the vDSO, made once and kept beside the image; and a copy of the C
//! library that is patched accordingly, which the image maps instead.
//!
//! Nearly every program uses the same two libraries as this command, so this command analyses its own. It reads their
//! files, because a debugger may have put breakpoints into memory. A program with another C library has it analysed at
//! each start, which takes a millisecond longer. Errors here are ignored: the image works without these files.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io, slice};

use patch::elf::{Object, ProgramHeader};
use patch::{Trust, record};

use crate::{install, seal};
use tool::machine;

/// An object of this process.
struct Loaded {
    path: PathBuf,
    build_id: Vec<u8>,
}

/// Makes the files that are missing beside the image: plans, and the patched C library.
pub fn prepare(image: &Path) {
    for object in loaded().into_iter().filter(|object| is_c_library(&object.path)) {
        let file = beside(image, &patch::plan_suffix(&object.build_id));
        // The image works without it.
        let _ = make(&object, &file);
        let name = object.path.file_name().unwrap_or_default().as_bytes();
        if patch::is_kept_ready(name) {
            let _ = make_ready(&object, &beside(image, &patch::ready_suffix(&object.build_id, name)));
        }
    }
    let _ = plan_vdso(image);
}

/// The name by which the image looks for the file.
fn beside(image: &Path, suffix: &str) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn is_missing(file: &Path) -> bool {
    fs::symlink_metadata(file).is_err()
}

fn make(object: &Loaded, file: &Path) -> io::Result<()> {
    if is_missing(file) {
        let bytes = fs::read(&object.path)?;
        write_plan(&Object::of_file(&bytes, 0).map_err(io::Error::other)?, &object.build_id, file)?;
    }
    Ok(())
}

fn write_plan(library: &Object<'_>, build_id: &[u8], file: &Path) -> io::Result<()> {
    if library.build_id() != Some(build_id) {
        // Replaced since it was loaded.
        return Ok(());
    }
    match record(library, Trust::LibC).map_err(io::Error::other)? {
        Some(plan) => install::write(file, &plan, 0o400),
        None => Ok(()),
    }
}

/// Makes a file that the image executes, unless it exists and its seal holds.
fn make_ready(object: &Loaded, file: &Path) -> io::Result<()> {
    if fs::symlink_metadata(file).is_ok_and(|found| seal::holds(file, &found)) {
        return Ok(());
    }
    // Until it is sealed again nothing says that it is right.
    seal::remove(file);
    let bytes = fs::read(&object.path)?;
    let library = Object::of_file(&bytes, 0).map_err(io::Error::other)?;
    if library.build_id() != Some(&object.build_id) {
        return fs::remove_file(file);
    }
    if let Some(ready) = patch::make_ready(&bytes).map_err(io::Error::other)? {
        install::write(file, &ready, 0o500)?;
        seal::put(file, &fs::symlink_metadata(file)?);
    }
    Ok(())
}

/// The vDSO's plan. It has no file, and inside Entresol its code in memory is patched.
fn plan_vdso(image: &Path) -> io::Result<()> {
    const PAGE: usize = 4096;
    // SAFETY: reads the auxiliary vector.
    let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as *const u8;
    if base.is_null() {
        return Ok(());
    }
    // SAFETY: its headers lie in its first page, and it stays where the host has mapped it.
    let head = unsafe { slice::from_raw_parts(base, PAGE) };
    let loaded = patch::elf::headers(head).map_err(io::Error::other)?.filter(|h| h.kind == ProgramHeader::LOAD);
    let len = loaded.map(|h| h.address.saturating_add(h.file_len)).max().unwrap_or(0);
    // SAFETY: as above, all that is loaded of it.
    let bytes = unsafe { slice::from_raw_parts(base, usize::try_from(len).map_err(io::Error::other)?) };
    let vdso = Object::of_file(bytes, 0).map_err(io::Error::other)?;
    let Some(build_id) = vdso.build_id() else { return Ok(()) };
    let file = beside(image, &patch::plan_suffix(build_id));
    if is_missing(&file) && machine::inside().is_none() {
        write_plan(&vdso, build_id, &file)?;
    }
    Ok(())
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
        let count =
            |end: &str| first.iter().filter(|name| name.starts_with("image.so.") && name.ends_with(end)).count();
        // The vDSO may have no system call that can be replaced, and inside Entresol it is not looked at.
        assert!([2, 3].contains(&count(".plan")), "{first:?}");
        assert_eq!((count(".libc.so.6"), count(".libc.so.6.seal")), (1, 1), "{first:?}");
        assert_eq!(first.len(), count(".plan") + 2, "no draft stays: {first:?}");
        prepare(&image);
        assert_eq!(names().len(), first.len(), "nothing is written twice");
    }

    #[test]
    fn a_library_that_was_changed_is_made_anew() {
        let scratch = tempfile::tempdir().unwrap();
        let image = scratch.path().join("image.so");
        prepare(&image);
        let files = fs::read_dir(scratch.path()).unwrap().map(|file| file.unwrap().path());
        let ready = files.into_iter().find(|file| file.as_os_str().as_bytes().ends_with(b".libc.so.6")).unwrap();
        let whole = fs::read(&ready).unwrap();
        let mut forged = whole.clone();
        forged[whole.len() / 2] ^= 1;
        fs::remove_file(&ready).unwrap();
        install::write(&ready, &forged, 0o500).unwrap();
        prepare(&image);
        assert!(fs::read(&ready).unwrap() == whole);
    }

    #[test]
    fn a_folder_that_is_gone_stops_nobody() {
        prepare(Path::new("/nowhere/at/all/image.so"));
    }
}
