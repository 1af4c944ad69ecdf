//! The program's objects: which are patched, where their stubs lie, and their names in the counts.

use crate::auxv::Auxiliary;
use crate::stub_area::{PAGE, StubArea};
use crate::{plans, points, ready, text};
use abi::nr;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char};
use host::dispositions;
use patch::elf::{Object, ProgramHeader, Segments};
use patch::{Code, Places, Replacement, Site, Stubs, Trust, is_c_library};
use sync::Lock;

const PF_R: u32 = 4;

/// The names by library number; number 0 stands for dispatched calls.
pub static NAMES: Lock<Vec<Vec<u8>>> = Lock::new(Vec::new());

/// The bases of the objects examined so far.
static SEEN: Lock<Vec<u64>> = Lock::new(Vec::new());

/// The program headers and the name of a program that the dynamic linker loads, until it has been examined.
static PROGRAM: Lock<Option<[u64; 2]>> = Lock::new(None);

unsafe extern "C" {
    /// The image's own ELF header, from the linker.
    #[link_name = "__ehdr_start"]
    static IMAGE: [u8; 64];
}

/// An object in memory, by its ELF header.
///
/// # Safety
/// An object must be mapped there for good.
pub(crate) unsafe fn object(base: u64, bias: u64) -> Option<Object<'static>> {
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

/// The address of the image.
pub(crate) fn image() -> u64 {
    &raw const IMAGE as u64
}

/// The difference between the image's addresses in memory and in its headers: none if they are fixed.
pub(crate) fn image_bias() -> u64 {
    if is_fixed() { 0 } else { image() }
}

/// Whether this is the image at fixed addresses ([`patch::at_fixed_addresses`]).
pub(crate) fn is_fixed() -> bool {
    image() == patch::FIXED_RANGE.start
}

/// Tells the handlers the range of the image's text.
pub fn find_text() {
    // SAFETY: the image itself.
    let image = unsafe { object(image(), image_bias()) };
    let text = image.as_ref().and_then(|i| i.code().next().map(|c| (c.address, c.address + c.bytes.len() as u64)));
    let Some((start, end)) = text else { host::report::fatal(format_args!("the image has no text")) };
    dispositions::set_text(start, end);
}

/// Patches the vDSO and the dynamic loader, which are mapped before the image. Remembers the program that the loader
/// loads.
///
/// # Safety
/// Single-threaded; the addresses are the auxiliary vector's.
pub unsafe fn patch_early(aux: &Auxiliary) {
    // SAFETY: as the caller promises.
    let find = |base: u64| if base != 0 && first_time(base) { unsafe { object(base, base) } } else { None };
    let (vdso, loader) = (find(aux.vdso), find(aux.loader));
    let mut all = Vec::new();
    if let Some(vdso) = &vdso {
        plan_object(vdso, b"vdso", 1, &mut all);
        let mut also = |function, call, before| redirect(vdso, function, call, before, &mut all);
        also(b"__vdso_getcpu", nr::GETCPU, &[]);
        if points::is_on() {
            points::CLOCKS.iter().for_each(|&(function, call)| also(function, call, &[]));
            also(b"__vdso_getrandom", nr::GETRANDOM, &STATE_OF_GETRANDOM);
        }
    }
    if let Some(loader) = &loader {
        plan_linker(loader, &mut all);
        *PROGRAM.lock() = Some([aux.headers, aux.file]);
    }
    // SAFETY: as the caller promises.
    unsafe { change(&all) };
}

/// Patches glibc's dynamic linker.
///
/// # Safety
/// It is mapped for good, and nobody is in a system call of it.
pub(crate) unsafe fn patch_linker(linker: &Object<'_>) {
    let mut all = Vec::new();
    plan_linker(linker, &mut all);
    // SAFETY: as the caller promises.
    unsafe { change(&all) };
}

fn plan_linker<'a>(linker: &'a Object<'_>, to: &mut Vec<Change<'a>>) {
    plan_object(linker, b"ld.so", CROWD, to);
}

fn first_time(base: u64) -> bool {
    let mut seen = SEEN.lock();
    let new = !seen.contains(&base);
    if new {
        seen.push(base);
    }
    new
}

/// An object has been mapped: the C library is replaced or patched, calls of all others are dispatched.
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
        unsafe {
            if !ready::take(&library, file) {
                patch_object(&library, file, 1);
            }
        }
    }
}

/// The last part of a path.
pub fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// The dynamic linker makes most of its calls at the start, each a few times. Writing to a page of code copies it,
/// which takes as long as some dispatched calls. So only pages with at least this many sites are patched in it: one
/// page has the wrappers that it uses most, and more than half of all sites.
const CROWD: usize = 4;

/// Code that is to be changed.
pub(crate) struct Change<'a> {
    code: Code<'a>,
    /// The system calls that become jumps.
    sites: Vec<Site>,
    /// The number under which they are counted.
    number: u32,
    functions: Vec<Function>,
}

/// A function that becomes a system call: its address, the number of the call, and code that precedes it.
struct Function {
    address: u64,
    call: usize,
    before: &'static [u8],
}

/// Replaces the system calls of an object by jumps, in pages with at least `crowd` sites.
unsafe fn patch_object(object: &Object<'_>, name: &[u8], crowd: usize) {
    let mut all = Vec::new();
    plan_object(object, name, crowd, &mut all);
    // SAFETY: as the caller promises.
    unsafe { change(&all) };
}

fn plan_object<'a>(object: &'a Object<'_>, name: &[u8], crowd: usize, to: &mut Vec<Change<'a>>) {
    let number = number_of(name);
    let recorded = plans::recorded(object);
    for code in object.code() {
        let mut sites = plans::sites(&recorded, object, &code);
        keep_crowds(&mut sites, crowd);
        to.push(Change { code, sites, number, functions: Vec::new() });
    }
}

/// Keeps only the sites (sorted by address) of pages where at least `crowd` begin.
fn keep_crowds(sites: &mut Vec<Site>, crowd: usize) {
    let page = |site: &Site| site.address / PAGE;
    let mut kept = 0;
    let mut at = 0;
    while at < sites.len() {
        let here = page(&sites[at]);
        let end = at + sites[at..].iter().take_while(|&site| page(site) == here).count();
        if end - at >= crowd {
            sites.copy_within(at..end, kept);
            kept += end - at;
        }
        at = end;
    }
    sites.truncate(kept);
}

/// Assigns the next library number to this name.
fn number_of(name: &[u8]) -> u32 {
    let mut names = NAMES.lock();
    if names.is_empty() {
        names.push(b"by dispatch".to_vec());
    }
    names.push(name.to_vec());
    names.len() as u32 - 1
}

/// Assigns the number to the library, unless another has it.
pub(crate) fn take_number(number: u32, name: &[u8]) -> bool {
    let mut names = NAMES.lock();
    let free = names.len() <= number as usize;
    if free {
        names.resize(number as usize, Vec::new());
        names.push(name.to_vec());
    }
    free
}

/// Makes all changes. Neighbouring pieces of code (the vDSO and the dynamic linker are, on newer hosts) share one area of
/// stubs.
///
/// # Safety
/// The code is mapped for good, and nobody executes what is replaced. Functions are longer than a jump.
pub(crate) unsafe fn change(mut all: &[Change<'_>]) {
    let stubs = |change: &Change<'_>| change.sites.len() + change.functions.len();
    while let [first, ..] = all {
        let room = all.iter().map(stubs).sum();
        let area = if stubs(first) > 0 { StubArea::near(&first.code, room) } else { None };
        let Some(mut area) = area else {
            all = &all[1..];
            continue;
        };
        // All stubs first, from the bytes as they are; then the jumps.
        let mut ready = Vec::new();
        while let [next, rest @ ..] = all
            && (ready.is_empty() || area.serves(&next.code, stubs(next)))
        {
            ready.push((next, next.put_stubs(&mut area)));
            all = rest;
        }
        for (change, stubs) in ready {
            let Some((jumps, places)) = stubs else { continue };
            // SAFETY: as the caller promises.
            if unsafe { text::change(&change.code, &mut area, jumps.iter().map(|(at, jump)| (*at, jump))) } {
                host::sites::add(places);
            }
        }
    }
}

impl Change<'_> {
    /// Writes the stubs. Returns the jumps that lead there, and where the calls are; `None` without any.
    fn put_stubs(&self, area: &mut StubArea) -> Option<(Vec<(u64, Replacement)>, Places)> {
        let (at, slots) = ((area.base(), area.used() as usize), area.slots());
        let stubs = Stubs::new(&self.code, &self.sites, at, slots, self.number).ok()?;
        area.put(&stubs.bytes);
        let mut jumps: Vec<_> = stubs.replacements().collect();
        jumps.extend(self.functions.iter().map(|function| (function.address, function.put_stub(area))));
        (!jumps.is_empty()).then_some((jumps, stubs.places))
    }
}

impl Function {
    /// Writes the stub. Returns the jump that leads there.
    fn put_stub(&self, area: &mut StubArea) -> Replacement {
        let at = area.next();
        // mov $call,%eax; mov $1,%r11d; lea back(%rip),%rcx; jmp *slot(%rip); back: ret
        let mut bytes = self.before.to_vec();
        bytes.push(0xb8);
        bytes.extend((self.call as u32).to_le_bytes());
        bytes.extend([0x41, 0xbb, 1, 0, 0, 0, 0x48, 0x8d, 0x0d, 6, 0, 0, 0, 0xff, 0x25]);
        let slot = area.slots().vectors_live as i64 - (at as i64 + bytes.len() as i64 + 4);
        bytes.extend((slot as i32).to_le_bytes());
        bytes.push(0xc3);
        area.put(&bytes);
        let distance = at as i64 - (self.address as i64 + 5);
        let mut jump = [0xe9, 0, 0, 0, 0];
        jump[1..].copy_from_slice(&(distance as i32).to_le_bytes());
        Replacement::of(&jump)
    }
}

/// `__vdso_getrandom` has a second use: if the state's length (`r8`) is -1, it returns how much memory a state takes
/// and how to map it (`__cvdso_getrandom_data`). The call ignores the state, so any values will do.
const STATE_OF_GETRANDOM: [u8; 29] = [
    0x49, 0x83, 0xf8, 0xff, // cmp $-1,%r8
    0x75, 23, // jne to the call
    0xc7, 0x01, 144, 0, 0, 0, // movl $144,(%rcx)
    0xc7, 0x41, 4, 3, 0, 0, 0, // movl $(PROT_READ | PROT_WRITE),4(%rcx)
    0xc7, 0x41, 8, 0x22, 0, 0, 0, // movl $(MAP_PRIVATE | MAP_ANONYMOUS),8(%rcx)
    0x31, 0xc0, // xor %eax,%eax
    0xc3, // ret
];

/// Has a function of the vDSO replaced by a system call: `getcpu` reads the host's CPU number, but ours must come from the
/// kernel; clocks read the host's time, which a controlled run must not use. `before` is code that precedes the call.
pub(crate) fn redirect<'a>(
    vdso: &'a Object<'_>,
    name: &[u8],
    call: usize,
    before: &'static [u8],
    to: &mut Vec<Change<'a>>,
) {
    let Some(function) = vdso.symbol(name) else { return };
    let Some(code) = vdso.code().next() else { return };
    let functions = [Function { address: function.address, call, before }];
    match to.iter_mut().find(|change| change.code.address == code.address) {
        Some(change) => change.functions.extend(functions),
        None => to.push(Change { code, sites: Vec::new(), number: 0, functions: functions.into() }),
    }
}

/// Patches a program that makes its own system calls: only sites that can be proven from its code alone.
///
/// # Safety
/// The object is mapped for good and relocated, and its code has not run.
pub(crate) unsafe fn patch_program(object: &mut Object<'_>, name: &[u8]) {
    // A proof would not hold for text that changes while the program runs.
    let changes = |h: ProgramHeader| {
        h.kind == ProgramHeader::LOAD && h.allows(ProgramHeader::WRITE) && h.allows(ProgramHeader::EXECUTE)
    };
    if object.headers().any(changes) {
        return;
    }
    object.find_go();
    let number = number_of(file_name(name));
    for code in object.code() {
        let mut sites = Vec::new();
        if patch::plan(&code, Trust::Unknown, &mut sites).is_ok() {
            // SAFETY: as the caller promises.
            unsafe { change(&[Change { code, sites, number, functions: Vec::new() }]) };
        }
    }
}

/// Patches a program that the dynamic linker has loaded and relocated; only once. Programs other than Go's leave system
/// calls to the C library.
///
/// # Safety
/// When it is called for the first time, the program's code has not run.
pub(crate) unsafe fn patch_go_program() {
    let Some([headers, name]) = PROGRAM.lock().take().filter(|known| !known.contains(&0)) else { return };
    let base = headers & !(PAGE - 1);
    // SAFETY: the page has the program headers, so it can be read.
    let head = unsafe { core::slice::from_raw_parts(base as *const u8, PAGE as usize) };
    let Ok(mut all) = patch::elf::headers(head) else { return };
    let own = all.find(|h| h.kind == ProgramHeader::HEADERS);
    let Some(bias) = own.map(|own| headers.wrapping_sub(own.address)) else { return };
    // SAFETY: the host has mapped it for good.
    if let Some(mut program) = unsafe { object(base, bias) }
        && program.is_marked_go()
    {
        // SAFETY: as the caller promises; the name is a string on the first stack, which the host has written.
        unsafe { patch_program(&mut program, CStr::from_ptr(name as *const c_char).to_bytes()) };
    }
}

/// The offset of glibc's rseq area from a thread's FS base, if this glibc has one.
pub fn rseq_offset(aux: &Auxiliary) -> Option<i64> {
    if aux.loader == 0 {
        return None;
    }
    // SAFETY: the loader is mapped for good.
    let loader = unsafe { object(aux.loader, aux.loader)? };
    let symbol = loader.symbol(b"__rseq_offset")?;
    // SAFETY: a word of the loader's data.
    Some(unsafe { (symbol.address as *const i64).read() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use patch::Form;

    #[test]
    fn only_pages_with_a_crowd_are_patched() {
        let site =
            |address| Site { address, before: 5, after: 0, form: Form::Number, vectors_dead: true, number: None };
        let all: Vec<Site> =
            [0x1000, 0x2ff8, 0x3000, 0x3100, 0x3ff9, 0x4000, 0x5000, 0x5100, 0x5200].map(site).to_vec();
        let kept = |crowd| {
            let mut sites = all.clone();
            keep_crowds(&mut sites, crowd);
            sites.iter().map(|site| site.address).collect::<Vec<_>>()
        };
        assert_eq!(kept(3), [0x3000, 0x3100, 0x3ff9, 0x5000, 0x5100, 0x5200]);
        assert_eq!(kept(1).len(), all.len());
        assert!(kept(4).is_empty());
    }
}
