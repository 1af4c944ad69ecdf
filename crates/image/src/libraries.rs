//! The objects of the program: which are patched, where their stubs lie, what they are called
//! in the counts.

use crate::auxv::Auxiliary;
use crate::plans;
use abi::args::{MAP_FIXED_NOREPLACE, MAP_PRIVATE_ANONYMOUS, PROT_READ_WRITE};
use alloc::vec::Vec;
use arch::{entry, syscall};
use core::ffi::{CStr, c_char};
use host::{dispositions, os};
use patch::elf::{Object, ProgramHeader, Segments};
use patch::{Code, Places, STUB_LEN_MAX, Site, Slots, emit_jump, emit_stub, is_c_library};
use sync::Lock;

const PAGE: u64 = 4096;
const PF_R: u32 = 4;
const PROT_RX: usize = 5;

/// The names by library number; number 0 is what came by dispatch.
pub static NAMES: Lock<Vec<Vec<u8>>> = Lock::new(Vec::new());

/// Bases of the objects that were looked at.
static SEEN: Lock<Vec<u64>> = Lock::new(Vec::new());

unsafe extern "C" {
    /// The image's own ELF header, from the linker.
    #[link_name = "__ehdr_start"]
    static IMAGE: [u8; 64];
}

/// An object in memory, by its ELF header.
///
/// # Safety
/// An object must be mapped there for good.
unsafe fn object(base: u64, bias: u64) -> Option<Object<'static>> {
    // SAFETY: as the caller promises; headers lie within the first page.
    let head = unsafe { core::slice::from_raw_parts(base as *const u8, PAGE as usize) };
    let mut segments = Segments::new();
    for h in patch::elf::headers(head).ok()?.filter(|h| h.kind == ProgramHeader::LOAD && h.allows(PF_R)) {
        let at = bias.wrapping_add(h.address);
        // SAFETY: a loaded segment.
        segments.push(at, unsafe { core::slice::from_raw_parts(at as *const u8, h.file_len as usize) });
    }
    Object::new(bias, head, segments).ok()
}

/// Tells the handlers where the image's text lies.
pub fn find_text() {
    let base = &raw const IMAGE as u64;
    // SAFETY: the image itself.
    let image = unsafe { object(base, base) };
    let text = image.as_ref().and_then(|i| i.code().next().map(|c| (c.address, c.address + c.bytes.len() as u64)));
    let Some((start, end)) = text else { host::report::fatal(format_args!("the image has no text")) };
    dispositions::set_text(start, end);
}

/// The vDSO and the dynamic loader, which are there before us.
///
/// # Safety
/// Single-threaded; the addresses are the auxiliary vector's.
pub unsafe fn patch_early(aux: &Auxiliary) {
    // SAFETY: as the caller promises.
    unsafe {
        if aux.vdso != 0
            && first_time(aux.vdso)
            && let Some(vdso) = object(aux.vdso, aux.vdso)
        {
            patch_object(&vdso, b"vdso");
            redirect_getcpu(&vdso);
        }
        if aux.loader != 0
            && first_time(aux.loader)
            && let Some(loader) = object(aux.loader, aux.loader)
        {
            patch_object(&loader, b"ld.so");
        }
    }
}

fn first_time(base: u64) -> bool {
    let mut seen = SEEN.lock();
    let new = !seen.contains(&base);
    if new {
        seen.push(base);
    }
    new
}

/// An object has been mapped: the C library is patched, everything else goes by dispatch.
///
/// # Safety
/// Called by the dynamic loader with an object's load bias and name, before its code runs.
pub unsafe fn mapped(bias: u64, name: *const c_char) {
    if name.is_null() || bias == 0 {
        return;
    }
    // SAFETY: the loader's string.
    let file = file_name(unsafe { CStr::from_ptr(name) }.to_bytes());
    if !is_c_library(file) || !first_time(bias) {
        return;
    }
    // SAFETY: mapped just now; its first segment begins at the bias.
    if let Some(library) = unsafe { object(bias, bias) } {
        // SAFETY: its code has not run yet.
        unsafe { patch_object(&library, file) };
    }
}

/// The last part of a path.
pub fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// Replaces the system calls of an object by jumps.
unsafe fn patch_object(object: &Object<'_>, name: &[u8]) {
    let number = {
        let mut names = NAMES.lock();
        if names.is_empty() {
            names.push(b"by dispatch".to_vec());
        }
        names.push(name.to_vec());
        names.len() as u32 - 1
    };
    let recorded = plans::recorded(object);
    for code in object.code() {
        // SAFETY: as the caller promises.
        unsafe { patch_code(&code, &plans::sites(&recorded, object, &code), number) };
    }
}

unsafe fn patch_code(code: &Code<'_>, sites: &[Site], number: u32) {
    if sites.is_empty() {
        return;
    }
    let Some(mut stubs) = StubArea::near(code, sites.len()) else { return };
    let Ok(mut places) = Places::new(code.address, stubs.base, sites.len()) else { return };
    // All stubs first, from the bytes as they are; then the jumps.
    let mut placed = Vec::new();
    if placed.try_reserve_exact(sites.len()).is_err() {
        return;
    }
    let mut jump = [0u8; 64];
    for site in sites {
        let mut bytes = [0u8; STUB_LEN_MAX];
        let at = stubs.next();
        let Ok(stub) = emit_stub(site, code, at, stubs.slots(), number, &mut bytes) else { continue };
        if emit_jump(site, at, &mut jump[..site.len()]).is_ok() && places.add(site, at, &stub) {
            stubs.put(&bytes[..stub.len]);
            placed.push((site, at));
        }
    }
    if !stubs.seal() {
        return;
    }
    let Some(text) = Writable::new(code) else { return };
    host::sites::add(places);
    for (site, at) in placed {
        let jump = &mut jump[..site.len()];
        if emit_jump(site, at, jump).is_ok() {
            // SAFETY: within the text just made writable; nobody executes it now.
            unsafe { core::ptr::copy_nonoverlapping(jump.as_ptr(), site.address as *mut u8, jump.len()) };
        }
    }
    drop(text);
}

/// Text that is writable for a while. Where writable text is forbidden, everything stays on dispatch.
struct Writable {
    start: u64,
    len: u64,
}

impl Writable {
    fn new(code: &Code<'_>) -> Option<Writable> {
        let start = code.address & !(PAGE - 1);
        let len = (code.address + code.bytes.len() as u64).next_multiple_of(PAGE) - start;
        // The vDSO's mapping may be longer than its code, and can only be changed as a whole.
        (0..8).map(|more| len + more * PAGE).find_map(|len| {
            // SAFETY: text of an object; it is put back when this is dropped.
            let r = unsafe { syscall!(abi::nr::MPROTECT, start, len, PROT_READ_WRITE) };
            (r == 0).then_some(Writable { start, len })
        })
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        // SAFETY: as it was before.
        let r = unsafe { syscall!(abi::nr::MPROTECT, self.start, self.len, PROT_RX) };
        if r < 0 {
            host::report::fatal(format_args!("the host refused to make a library executable again (error {})", -r));
        }
    }
}

/// The vDSO's `getcpu` reads the host's CPU number; ours is asked of the kernel.
unsafe fn redirect_getcpu(vdso: &Object<'_>) {
    let Some(function) = vdso.symbol(b"__vdso_getcpu") else { return };
    let Some(code) = vdso.code().next() else { return };
    let Some(mut stubs) = StubArea::near(&code, 1) else { return };
    let at = stubs.next();
    // mov $getcpu,%eax; mov $0,%r11d; lea back(%rip),%rcx; jmp *slot(%rip); back: ret
    let mut bytes = alloc::vec![0xb8];
    bytes.extend((abi::nr::GETCPU as u32).to_le_bytes());
    bytes.extend([0x41, 0xbb, 1, 0, 0, 0, 0x48, 0x8d, 0x0d, 6, 0, 0, 0, 0xff, 0x25]);
    let slot = stubs.slots().vectors_live as i64 - (at as i64 + bytes.len() as i64 + 4);
    bytes.extend((slot as i32).to_le_bytes());
    bytes.push(0xc3);
    stubs.put(&bytes);
    if !stubs.seal() {
        return;
    }
    let distance = at as i64 - (function.address as i64 + 5);
    let Some(_text) = Writable::new(&code) else { return };
    // SAFETY: the vDSO is a private mapping of ours to write; the function is longer than a jump.
    unsafe {
        let to = function.address as *mut u8;
        to.write(0xe9);
        to.add(1).cast::<i32>().write_unaligned(distance as i32);
    }
}

/// Pages within reach of a piece of code: two words with the entries' addresses, then stubs.
struct StubArea {
    base: u64,
    len: u64,
    used: u64,
}

impl StubArea {
    fn near(code: &Code<'_>, stubs: usize) -> Option<StubArea> {
        const FLAGS: u64 = MAP_PRIVATE_ANONYMOUS | MAP_FIXED_NOREPLACE;
        let len = (64 + (stubs * STUB_LEN_MAX) as u64).next_multiple_of(PAGE);
        let below = code.address & !(PAGE - 1);
        let above = (code.address + code.bytes.len() as u64).next_multiple_of(PAGE);
        for i in 1..4096u64 {
            let step = i * 64 * 1024;
            for base in [above + step, below.wrapping_sub(step + len)] {
                // SAFETY: only takes a place that is free.
                let p = unsafe { syscall!(abi::nr::MMAP, base, len, PROT_READ_WRITE, FLAGS, usize::MAX, 0) };
                if p == base as isize {
                    let area = StubArea { base, len, used: 64 };
                    // SAFETY: fresh pages.
                    unsafe {
                        (base as *mut u64).write(entry::entresol_entry_call as *const () as u64);
                        (base as *mut u64).add(1).write(entry::entresol_entry_vectors as *const () as u64);
                    }
                    return Some(area);
                }
                if p > 0 {
                    // An old host ignores the flag and maps elsewhere.
                    // SAFETY: mapped just now.
                    unsafe { os::unmap(p as *mut u8, len as usize) };
                }
            }
        }
        None
    }

    fn slots(&self) -> Slots {
        Slots { vectors_dead: self.base, vectors_live: self.base + 8 }
    }

    fn next(&self) -> u64 {
        self.base + self.used
    }

    fn put(&mut self, bytes: &[u8]) {
        assert!(self.used + bytes.len() as u64 <= self.len);
        // SAFETY: within the area, which is writable until sealed.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.next() as *mut u8, bytes.len()) };
        self.used = (self.used + bytes.len() as u64).next_multiple_of(16);
    }

    /// Makes them executable; false if the host refuses.
    fn seal(&self) -> bool {
        // SAFETY: pages of ours, complete now.
        unsafe { syscall!(abi::nr::MPROTECT, self.base, self.len, PROT_RX) == 0 }
    }
}

/// How far from a thread's FS base glibc keeps its rseq area, if this glibc has one.
pub fn rseq_offset(aux: &Auxiliary) -> Option<i64> {
    // SAFETY: the loader is mapped for good.
    let loader = unsafe { object(aux.loader, aux.loader)? };
    let symbol = loader.symbol(b"__rseq_offset")?;
    // SAFETY: a word of the loader's data.
    Some(unsafe { (symbol.address as *const i64).read() })
}
