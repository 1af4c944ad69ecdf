//! A copy of the C library with its system calls already replaced, in a file that the command has left beside the image
//! ([`patch::make_ready`]). It is mapped in place of the code that the dynamic linker has mapped.
//!
//! The file is in the image's folder, which only this user can change. It is used only if it belongs to this user, is
//! as the command has left it, and is for exactly this library. Otherwise the library is patched in memory.

use crate::libraries::{file_name, take_number};
use crate::plans;
use crate::stub_area::{PAGE, write_slots};
use crate::text::map_over;
use abi::args::{MAP_FIXED_NOREPLACE, MAP_PRIVATE_ANONYMOUS, O_NOFOLLOW, PROT_READ, PROT_READ_WRITE};
use arch::syscall;
use host::os;
use patch::elf::Object;
use patch::{Part, Places, Ready, TRAILER_LEN};

/// Maps the file in the library's place. False if it is missing or for another library, or the host refuses: nothing
/// has changed then.
///
/// # Safety
/// The library has been mapped for good, and its code has not run.
pub unsafe fn take(library: &Object<'_>, name: &[u8]) -> bool {
    let Some(build_id) = library.build_id().filter(|_| patch::is_kept_ready(name)) else { return false };
    let Ok(fd) = os::open(&plans::beside(&patch::ready_suffix(build_id, file_name(name))), O_NOFOLLOW, 0) else {
        return false;
    };
    // SAFETY: as the caller promises.
    let taken = check(fd, library, build_id)
        .is_some_and(|ready| take_number(patch::NUMBER, name) && unsafe { map(fd, library, &ready) });
    os::close(fd);
    taken
}

/// The file's content, if the command wrote it and it fits.
fn check(fd: i32, library: &Object<'_>, build_id: &[u8]) -> Option<Ready> {
    let len = os::sealed_len(fd)?;
    let mut trailer = [0; TRAILER_LEN];
    let at = len.checked_sub(TRAILER_LEN as u64)?;
    // SAFETY: the host fills our bytes.
    let read = unsafe { syscall!(abi::nr::PREAD64, fd, trailer.as_mut_ptr(), TRAILER_LEN, at) };
    let ready = Ready::read(&trailer, build_id, len).filter(|_| read == TRAILER_LEN as isize)?;
    let mut all = library.code();
    let (code, None) = (all.next()?, all.next()) else { return None };
    let start = library.bias().wrapping_add(ready.text.address);
    let pages = (code.address & !(PAGE - 1), (code.address + code.bytes.len() as u64).next_multiple_of(PAGE));
    (pages == (start, start + ready.text.len)).then_some(ready)
}

/// Maps the stubs first, then the code.
unsafe fn map(fd: i32, library: &Object<'_>, ready: &Ready) -> bool {
    let bias = library.bias();
    let stubs = bias.wrapping_add(ready.stubs.address);
    let area = stubs.wrapping_sub(PAGE);
    const NEW: u64 = MAP_PRIVATE_ANONYMOUS | MAP_FIXED_NOREPLACE;
    // SAFETY: only takes places that are free; the page is ours then.
    unsafe {
        let at = syscall!(abi::nr::MMAP, area, PAGE + ready.stubs.len, PROT_READ_WRITE, NEW, usize::MAX, 0);
        if at != area as isize {
            if at > 0 {
                // An old host ignores the flag and maps elsewhere.
                os::unmap(at as *mut u8, (PAGE + ready.stubs.len) as usize);
            }
            return false;
        }
        write_slots(area);
        let sealed = syscall!(abi::nr::MPROTECT, area, PAGE, PROT_READ) == 0;
        let done = sealed && replace(fd, &ready.stubs, bias) && replace(fd, &ready.text, bias);
        if !done {
            os::unmap(area as *mut u8, (PAGE + ready.stubs.len) as usize);
            return false;
        }
    }
    let (at, len) = ready.records;
    // SAFETY: within what was mapped, for good.
    let records = unsafe { core::slice::from_raw_parts((stubs + at) as *const u8, len as usize) };
    let text = library.code().next().map_or(0, |code| code.address);
    host::sites::add(Places::recorded(text, area, records));
    true
}

/// Maps a part of the file over what is at its address.
unsafe fn replace(fd: i32, part: &Part, bias: u64) -> bool {
    // SAFETY: pages of the library or of ours, which nobody uses now.
    unsafe { map_over(fd, bias.wrapping_add(part.address), part.len, part.offset) == 0 }
}
