//! Restarts a program whose libraries have thread-local storage for which an audited one has no room.
//!
//! The dynamic linker lays out the main thread's block before it loads an auditing library, so the libraries' needs
//! must fit into a fixed reserve of 1.5 KiB, of which glibc's `rtld.optional_static_tls` is a part
//! (`_dl_tls_static_surplus_init` in elf/dl-tls.c). Natively the block is laid out after they are mapped and has room
//! for them all. libtsan needs 768 KiB.
//!
//! So the needs of objects are added up as they are mapped, and if they exceed the reserve, the process execs its
//! program once more with a larger one. No code of the program has run by then. The new image removes the setting from
//! the environment, so that other programs do not inherit it: the reserve is taken from every thread's stack.
//!
//! Libraries that do not declare the need get their storage when a thread first uses it, from `malloc`. That is no way
//! for one that provides `malloc` itself and uses its storage there: each call would make another, without end. Such a
//! program is executed once more with the image in `LD_PRELOAD` instead, where the block has room as it has natively.

use crate::auxv::Auxiliary;
use crate::boot::PRELOAD;
use crate::libraries;
use crate::link_map::LinkMap;
use crate::options::Options;
use abi::args::{AT_FDCWD, O_CLOEXEC, PR_GET_NAME, PR_SET_NAME};
use alloc::vec::Vec;
use arch::syscall;
use core::ffi::{CStr, c_char};
use core::fmt::Write;
use host::carrier::Carrier;
use host::exec;
use host::handover::Handover;
use host::report::Text;
use kernel::Call;
use patch::elf::ProgramHeader;
use sync::Lock;
use sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// glibc's variable for settings of this kind.
pub const TUNABLES: &[u8] = b"GLIBC_TUNABLES=";
const SETTING: &str = "glibc.rtld.optional_static_tls";
/// The smallest reserve of all glibc versions, apart from what it needs itself, in bytes.
const RESERVE: u64 = 1024;
/// In place of a reserve: the process was executed once more without one.
const NO_RESERVE: u64 = 1;
/// A larger reserve would be a mistake, ours or the program's; bytes.
const RESERVE_MAX: u64 = 256 << 20;

/// Bytes that the objects mapped so far need.
static NEEDED: AtomicU64 = AtomicU64::new(0);
/// The program's code may have run: later objects are loaded late, with the same room as natively.
static STARTED: AtomicBool = AtomicBool::new(false);

/// How this process was started.
struct Start {
    argv: *const *const c_char,
    envp: *const *const c_char,
    file: *const c_char,
    reserve: u64,
}

// SAFETY: the addresses of strings that stay where the host has put them.
unsafe impl Send for Start {}

static START: Lock<Option<Start>> = Lock::new(None);

/// Records how the process was started, and restores the program's name after a restart.
pub fn begin(argv: *const *const c_char, envp: *const *const c_char, aux: &Auxiliary, options: &Options<'_>) {
    if let Some(name) = options.name {
        // SAFETY: the host reads sixteen bytes.
        unsafe { syscall!(abi::nr::PRCTL, PR_SET_NAME, name.as_ptr()) };
    }
    let file = aux.file as *const c_char;
    *START.lock() = Some(Start { argv, envp, file, reserve: options.reserve.max(RESERVE) });
}

/// The program is completely loaded.
pub fn end() {
    STARTED.store(true, Relaxed);
}

/// How a program is executed once more.
#[derive(Clone, Copy)]
enum Again {
    /// With a reserve of so many bytes.
    Reserving(u64),
    /// With the image in `LD_PRELOAD`.
    Preloaded,
}

/// An object was mapped. Restarts the program if the linker has no room for its storage.
///
/// # Safety
/// Called by the dynamic linker, with an object that it has just mapped.
pub unsafe fn mapped(map: &LinkMap) {
    if STARTED.load(Relaxed) {
        return;
    }
    // SAFETY: as the caller promises.
    let Some(block) = (unsafe { storage(map) }) else { return };
    let start = START.lock();
    let Some(start) = start.as_ref() else { return };
    let again = if block.is_static {
        let needed = NEEDED.fetch_add(block.len, Relaxed) + block.len;
        (needed > start.reserve && needed < RESERVE_MAX).then_some(Again::Reserving(needed + RESERVE))
    } else {
        // SAFETY: as the caller promises.
        let object = unsafe { libraries::object(map.base as u64, map.base as u64) };
        object.is_some_and(|object| object.symbol(b"malloc").is_some()).then_some(Again::Preloaded)
    };
    if let Some(again) = again {
        // SAFETY: the host's strings; nothing of the program has run.
        unsafe { execute(start, again) };
    }
}

/// The part of every thread's block that an object needs.
struct Storage {
    /// In bytes.
    len: u64,
    /// It declares the need (DF_STATIC_TLS).
    is_static: bool,
}

/// The storage that an object needs. The linker has counted the program and the C library itself.
unsafe fn storage(map: &LinkMap) -> Option<Storage> {
    const DT_FLAGS: u64 = 30;
    const DF_STATIC_TLS: u64 = 0x10;
    const PAGE: usize = 4096;
    if map.base == 0 || map.dynamic.is_null() || map.name.is_null() {
        return None;
    }
    // SAFETY: as the caller promises: the dynamic section ends with a null entry, the headers lie in the first page.
    unsafe {
        let name = libraries::file_name(CStr::from_ptr(map.name).to_bytes());
        if name.is_empty() || patch::is_c_library(name) {
            return None;
        }
        let mut entry = map.dynamic.cast::<[u64; 2]>();
        while (*entry)[0] != 0 && (*entry)[0] != DT_FLAGS {
            entry = entry.add(1);
        }
        let is_static = (*entry)[1] & DF_STATIC_TLS != 0;
        let head = core::slice::from_raw_parts(map.base as *const u8, PAGE);
        let far = far_headers(head, map.name);
        let headers = patch::elf::headers(far.as_deref().unwrap_or(head));
        let block = headers.ok().and_then(|mut all| all.find(|h| h.kind == ProgramHeader::TLS));
        // The alignment costs at most a cache line in practice.
        block.map(|h| Storage { len: h.memory_len + 64, is_static })
    }
}

/// Tools that rewrite a finished library put its program headers at the end (BOLT, as for rustc's driver). If they are
/// not in `head`, the beginning of the file, reads them and returns a beginning that has them behind the ELF header.
fn far_headers(head: &[u8], file: *const c_char) -> Option<Vec<u8>> {
    const ELF_HEADER: usize = 64;
    let offset = u64::from_le_bytes(head.get(32..40)?.try_into().ok()?);
    let count = u16::from_le_bytes(head.get(56..58)?.try_into().ok()?);
    let size = ProgramHeader::LEN * usize::from(count);
    if offset.checked_add(size as u64)? <= head.len() as u64 {
        return None;
    }
    let mut bytes = head.get(..ELF_HEADER)?.to_vec();
    bytes[32..40].copy_from_slice(&(ELF_HEADER as u64).to_le_bytes());
    bytes.resize(ELF_HEADER + size, 0);
    // SAFETY: the linker's own name of the file; the buffer is ours and as long as said.
    let read = unsafe {
        let fd = syscall!(abi::nr::OPENAT, AT_FDCWD, file, O_CLOEXEC, 0);
        if fd < 0 {
            return None;
        }
        let read = syscall!(abi::nr::PREAD64, fd, bytes[ELF_HEADER..].as_mut_ptr(), size, offset);
        syscall!(abi::nr::CLOSE, fd);
        read
    };
    (read == size as isize).then_some(bytes)
}

/// Executes the same program again. Returns only if the host refuses; the linker then reports what is missing.
unsafe fn execute(start: &Start, again: Again) {
    let k = Carrier::my_process();
    let mut name = [0u8; 16];
    // SAFETY: the host fills the name.
    unsafe { syscall!(abi::nr::PRCTL, PR_GET_NAME, name.as_mut_ptr()) };
    let handover = &k.m.handover;
    let (reserve, loader) = match again {
        Again::Reserving(reserve) => (reserve, handover.loader.clone()),
        Again::Preloaded => (NO_RESERVE, [PRELOAD, handover.image()].concat()),
    };
    let mut options = handover.options.clone();
    options.pop();
    let mut text = Text::<96>::default();
    let _ = write!(text, ";reserve={reserve};name=");
    for byte in name.iter().take_while(|&&byte| byte != 0) {
        let _ = write!(text, "{byte:02x}");
    }
    options.extend_from_slice(text.as_bytes());
    options.push(0);
    let handover = Handover { loader, options, executable: None };

    let mut entries = Vec::new();
    let (mut tunables, mut place) = (TUNABLES.to_vec(), None);
    let mut at = start.envp;
    // SAFETY: the environment, up to its null.
    unsafe {
        while !(*at).is_null() {
            let entry = CStr::from_ptr(*at).to_bytes();
            if entry.starts_with(TUNABLES) {
                (tunables, place) = (entry.to_vec(), Some(entries.len()));
            }
            entries.push(*at);
            at = at.add(1);
        }
    }
    if let Again::Reserving(reserve) = again {
        tunables.extend_from_slice(setting(reserve).as_bytes());
        tunables.push(0);
        match place {
            Some(place) => entries[place] = tunables.as_ptr().cast(),
            None => entries.push(tunables.as_ptr().cast()),
        }
    }
    entries.push(core::ptr::null());

    let own = c"/proc/self/exe";
    // SAFETY: strings that end with a zero byte.
    let file = if unsafe { same_file(start.file, own.as_ptr()) } { start.file } else { own.as_ptr() };
    let args = [file as u64, start.argv as u64, entries.as_ptr() as u64, 0, 0, 0];
    let main = k.current(Carrier::my_cpu());
    exec::by_thread(&handover, main, &Call { nr: abi::nr::EXECVE, args });
}

/// The text appended to the variable's value: after the program's own settings, so that it takes effect.
fn setting(reserve: u64) -> Text<64> {
    let mut text = Text::default();
    let _ = write!(text, ":{SETTING}={reserve}");
    text
}

/// How much of the variable's value is the program's own; `None` if it was not there at all.
pub fn without_setting(value: &[u8], reserve: u64) -> Option<usize> {
    match value.strip_suffix(setting(reserve).as_bytes()) {
        Some(b"") => None,
        Some(own) => Some(own.len()),
        None => Some(value.len()),
    }
}

/// Whether two paths lead to the same file. A script's path does not lead to its interpreter.
unsafe fn same_file(a: *const c_char, b: *const c_char) -> bool {
    let identity = |path: *const c_char| {
        let mut stat = [0u64; 18];
        // SAFETY: the host reads the path and fills the words.
        let r = unsafe { syscall!(abi::nr::STAT, path, stat.as_mut_ptr()) };
        (r == 0).then_some((stat[0], stat[1]))
    };
    !a.is_null() && identity(a).is_some_and(|a| Some(a) == identity(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_setting_goes_and_theirs_stay() {
        let none = b":glibc.rtld.optional_static_tls=9000";
        assert_eq!(without_setting(none, 9000), None);
        let theirs = b"glibc.malloc.check=1:glibc.rtld.optional_static_tls=9000";
        assert_eq!(without_setting(theirs, 9000), Some(20));
        // Another number is the program's own, and so is everything where we have added nothing.
        assert_eq!(without_setting(theirs, 800), Some(theirs.len()));
        assert_eq!(without_setting(b"", 9000), Some(0));
    }
}
