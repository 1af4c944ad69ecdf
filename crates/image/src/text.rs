//! Changes text: writes jumps in place of system calls, and makes the stubs that they lead to executable.
//!
//! Where the host allows it, both are written in place and protected again. A hardened host makes no memory executable
//! that was writable (`PR_SET_MDWE`, systemd's MemoryDenyWriteExecute, SELinux's execmem and execmod). There, both come
//! from a sealed anonymous file, which is mapped executable and was never writable in memory. That is the second
//! choice, because the code loses its name: `maps` shows the file instead of the vDSO or the library.
//!
//! Where that is refused as well, nothing changes and the system calls are caught by dispatch.

use crate::stub_area::{PAGE, StubArea};
use abi::Errno;
use abi::args::{
    F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE, MAP_FIXED, MAP_PRIVATE, MAP_SHARED,
    MFD_ALLOW_SEALING, MFD_CLOEXEC, MFD_NOEXEC_SEAL, PROT_READ_EXECUTE, PROT_READ_WRITE, RLIMIT_FSIZE,
};
use arch::syscall;
use core::ops::Range;
use host::os;
use patch::Code;
use sync::atomic::{AtomicBool, Ordering::*};

/// The host has refused to make writable memory executable, and would do so again.
static HARDENED: AtomicBool = AtomicBool::new(false);

/// Makes the stubs executable and writes the jumps, each at its address. False if the host refuses: nothing has changed
/// then. An area that serves several pieces of code has all their stubs before the first of them is changed.
///
/// # Safety
/// The code is mapped for good, and nobody executes what is replaced.
pub(crate) unsafe fn change<J: AsRef<[u8]>>(
    code: &Code<'_>,
    stubs: &mut StubArea,
    jumps: impl Iterator<Item = (u64, J)> + Clone,
) -> bool {
    let refused = match HARDENED.load(Relaxed) {
        true => Refused::Before,
        // SAFETY: as the caller promises.
        false => match unsafe { in_place(code, stubs, jumps.clone()) } {
            Ok(()) => {
                stubs.is_led_to = true;
                return true;
            }
            Err(refused) => refused,
        },
    };
    let part = match refused {
        Refused::Before => span(jumps.clone()),
        // All of it must become executable again.
        Refused::Between(_) => None,
    };
    // SAFETY: as the caller promises.
    if unsafe { by_file(part, code, stubs, jumps) } {
        stubs.is_led_to = true;
        return true;
    }
    if let Refused::Between(why) = refused {
        host::report::fatal(format_args!("the host refused to make a library executable again (error {why})"));
    }
    false
}

/// At which step the host refused to change text in place.
enum Refused {
    /// The text is as it was.
    Before,
    /// The text is writable and no longer executable, because of this error.
    Between(isize),
}

unsafe fn in_place<J: AsRef<[u8]>>(
    code: &Code<'_>,
    stubs: &mut StubArea,
    jumps: impl Iterator<Item = (u64, J)>,
) -> Result<(), Refused> {
    if !stubs.is_sealed && protect(&stubs.pages(), PROT_READ_EXECUTE) != 0 {
        HARDENED.store(true, Relaxed);
        return Err(Refused::Before);
    }
    stubs.is_sealed = true;
    let text = lengths(code).find(|text| protect(text, PROT_READ_WRITE) == 0).ok_or(Refused::Before)?;
    for (address, jump) in jumps {
        let jump = jump.as_ref();
        // SAFETY: within the text just made writable; nobody executes it now.
        unsafe { core::ptr::copy_nonoverlapping(jump.as_ptr(), address as *mut u8, jump.len()) };
    }
    match protect(&text, PROT_READ_EXECUTE) {
        0 => Ok(()),
        why => {
            HARDENED.store(true, Relaxed);
            Err(Refused::Between(-why))
        }
    }
}

/// Returns the host's result.
fn protect(pages: &Range<u64>, protection: u64) -> isize {
    // SAFETY: stubs, or text of an object that is put back.
    unsafe { syscall!(abi::nr::MPROTECT, pages.start, pages.end - pages.start, protection) }
}

/// The pages of the code. The vDSO's mapping may be longer than its code, and can only be changed as a whole
/// (`special_mapping_split`), so it is tried with more of them.
fn lengths(code: &Code<'_>) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = pages(code.address..code.address + code.bytes.len() as u64);
    (0..8).map(move |more| start..end + more * PAGE)
}

fn pages(bytes: Range<u64>) -> Range<u64> {
    bytes.start & !(PAGE - 1)..bytes.end.next_multiple_of(PAGE)
}

/// Replaces this part of the code if possible, otherwise all of it.
unsafe fn by_file<J: AsRef<[u8]>>(
    part: Option<Range<u64>>,
    code: &Code<'_>,
    stubs: &StubArea,
    jumps: impl Iterator<Item = (u64, J)> + Clone,
) -> bool {
    let spans = part.into_iter().chain(lengths(code));
    // SAFETY: as the caller promises.
    let results = spans.map(|text| unsafe { replace(&text, stubs, jumps.clone()) });
    results.into_iter().find(|&result| !result.is_err_and(takes_only_whole_mappings)) == Some(Ok(()))
}

/// Whether this error of `mmap` can mean that only the whole mapping may be replaced. Before Linux 6.12 every failure to
/// remove the old one is ENOMEM (`mmap_region`).
fn takes_only_whole_mappings(error: isize) -> bool {
    [Errno::EINVAL, Errno::ENOMEM].iter().any(|one| one.to_ret() == error)
}

/// The pages from the first jump to the last one.
fn span<J: AsRef<[u8]>>(jumps: impl Iterator<Item = (u64, J)>) -> Option<Range<u64>> {
    let places = jumps.map(|(at, jump)| at..at + jump.as_ref().len() as u64);
    places.reduce(|all, place| all.start.min(place.start)..all.end.max(place.end)).map(pages)
}

/// Maps a file over the stubs and the text; on the host's refusal, nothing has changed.
unsafe fn replace<J: AsRef<[u8]>>(
    text: &Range<u64>,
    stubs: &StubArea,
    jumps: impl Iterator<Item = (u64, J)>,
) -> Result<(), isize> {
    let area = stubs.pages();
    let len = text.end - text.start;
    let file = File::new(len + area.end - area.start)?;
    file.write(text, 0)?;
    file.write(&area, len)?;
    file.change(len, |copy| {
        for (address, jump) in jumps {
            let at = (address - text.start) as usize;
            copy[at..at + jump.as_ref().len()].copy_from_slice(jump.as_ref());
        }
    })?;
    file.seal()?;
    // SAFETY: stubs that nothing leads to yet, or the same ones again if other code shares them; then text that only
    // differs in the jumps.
    unsafe {
        done(map_over(file.0, area.start, area.end - area.start, len))?;
        done(map_over(file.0, text.start, len, 0))
    }
}

/// Maps a part of a file over what is at an address, executable. Returns the host's error, or 0.
///
/// # Safety
/// The old mapping is discarded; the new one may be executed.
pub(crate) unsafe fn map_over(fd: i32, at: u64, len: u64, offset: u64) -> isize {
    // SAFETY: as the caller promises.
    let mapped = unsafe { syscall!(abi::nr::MMAP, at, len, PROT_READ_EXECUTE, MAP_PRIVATE | MAP_FIXED, fd, offset) };
    if mapped == at as isize { 0 } else { mapped }
}

fn done(answer: isize) -> Result<(), isize> {
    if answer == 0 { Ok(()) } else { Err(answer) }
}

/// An anonymous file, closed on drop.
struct File(i32);

impl File {
    /// Creates a file that may have this length.
    fn new(len: u64) -> Result<File, isize> {
        // A write beyond RLIMIT_FSIZE would send a signal that the program sees (`setrlimit(2)`).
        if os::soft_limit(RLIMIT_FSIZE)? < len {
            return Err(Errno::EFBIG.to_ret());
        }
        // SAFETY: a new descriptor; the name is a string.
        let create = |flags| unsafe { syscall!(abi::nr::MEMFD_CREATE, c"entresol-text".as_ptr(), flags) };
        let fd = match create(MFD_CLOEXEC | MFD_NOEXEC_SEAL) {
            // Before Linux 6.3, which may forbid all other anonymous files (`vm.memfd_noexec`).
            why if why == Errno::EINVAL.to_ret() => create(MFD_CLOEXEC | MFD_ALLOW_SEALING),
            fd => fd,
        };
        if fd < 0 { Err(fd) } else { Ok(File(fd as i32)) }
    }

    /// Writes the memory of that range to the file, if it can be read.
    fn write(&self, from: &Range<u64>, at: u64) -> Result<(), isize> {
        let len = from.end - from.start;
        // SAFETY: the host only reads, and reports unreadable memory.
        let written = unsafe { syscall!(abi::nr::PWRITE64, self.0, from.start, len, at) };
        match written {
            n if n == len as isize => Ok(()),
            n if n < 0 => Err(n),
            _ => Err(Errno::ENOSPC.to_ret()),
        }
    }

    /// Passes the first `len` bytes to `change`.
    fn change(&self, len: u64, change: impl FnOnce(&mut [u8])) -> Result<(), isize> {
        // SAFETY: a new mapping of a file that nobody else has, of at least this length; it is removed at once.
        unsafe {
            let at = syscall!(abi::nr::MMAP, 0, len, PROT_READ_WRITE, MAP_SHARED, self.0, 0);
            if at < 0 {
                return Err(at);
            }
            change(core::slice::from_raw_parts_mut(at as *mut u8, len as usize));
            os::unmap(at as *mut u8, len as usize);
        }
        Ok(())
    }

    /// Seals the file against all changes.
    fn seal(&self) -> Result<(), isize> {
        let seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
        // SAFETY: only affects this file.
        done(unsafe { syscall!(abi::nr::FCNTL, self.0, F_ADD_SEALS, seals) })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        os::close(self.0);
    }
}
