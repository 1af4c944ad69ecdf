//! Scheduling points of a controlled run in code that makes no system call: the C library's functions for threads, and
//! a few memory accesses in the program's own code, different ones for each seed.

use crate::chaos::Settings;
use crate::libraries::{file_name, object};
use crate::link_map::LinkMap;
use crate::options::{OWN_CODE_MAX, number};
use crate::stub_area::StubArea;
use crate::text;
use abi::nr;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use chaos::Rng;
use chaos::log::CHOSEN_MAX;
use core::ffi::CStr;
use core::ops::Range;
use host::points::{self, Point};
use kernel::PRIVATE_POINT;
use patch::elf::Object;
use patch::point::{POINT_LEN_MAX, accesses, emit_access, emit_entry, emit_entry_jump, entry, first};
use patch::{Code, Function, Functions, is_c_library, operand};
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

/// Whether the run is controlled.
static ON: AtomicBool = AtomicBool::new(false);
static SEED: AtomicU64 = AtomicU64::new(0);
static PLACES: AtomicU32 = AtomicU32::new(0);
/// Where each range of the program's own code begins and ends, in the program's file; the rest is 0.
static OWN_CODE: [AtomicU64; 2 * OWN_CODE_MAX] = [const { AtomicU64::new(0) }; 2 * OWN_CODE_MAX];
/// One place of so many is anywhere in the program, and the others in its own code.
const ANYWHERE: usize = 8;
/// The number of pieces of code in which there are places, so far.
static PIECES: AtomicU32 = AtomicU32::new(0);
/// Where the number of a piece begins in that of a place.
const PIECE_SHIFT: u32 = 40;
/// An access that was reached this often stops being a scheduling point: each time costs a signal, which is too much in
/// a loop. The more there are, the sooner: all together may cost so many.
const TIMES_MAX_EACH: u32 = 1000;
const TIMES_MAX: u32 = 128 * TIMES_MAX_EACH;
/// Places that the run is to have, by their numbers; the rest is 0.
static CHOSEN: [AtomicU64; CHOSEN_MAX] = [const { AtomicU64::new(0) }; CHOSEN_MAX];
/// The address of the program's ELF header.
static PROGRAM: AtomicU64 = AtomicU64::new(0);

/// The number under which the calls of these stubs are counted.
const LIBRARY: u32 = 1;

/// The functions whose entries are scheduling points.
const FUNCTIONS: [&[u8]; 57] = [
    b"pthread_mutex_lock",
    b"pthread_mutex_trylock",
    b"pthread_mutex_timedlock",
    b"pthread_mutex_clocklock",
    b"pthread_mutex_unlock",
    b"pthread_cond_wait",
    b"pthread_cond_timedwait",
    b"pthread_cond_clockwait",
    b"pthread_cond_signal",
    b"pthread_cond_broadcast",
    b"pthread_rwlock_rdlock",
    b"pthread_rwlock_tryrdlock",
    b"pthread_rwlock_timedrdlock",
    b"pthread_rwlock_wrlock",
    b"pthread_rwlock_trywrlock",
    b"pthread_rwlock_timedwrlock",
    b"pthread_rwlock_unlock",
    b"pthread_spin_lock",
    b"pthread_spin_trylock",
    b"pthread_spin_unlock",
    b"pthread_barrier_wait",
    b"pthread_once",
    b"pthread_create",
    b"pthread_join",
    b"pthread_tryjoin_np",
    b"pthread_timedjoin_np",
    b"pthread_detach",
    b"pthread_cancel",
    b"pthread_kill",
    b"pthread_exit",
    b"sem_wait",
    b"sem_trywait",
    b"sem_timedwait",
    b"sem_clockwait",
    b"sem_post",
    b"sem_getvalue",
    b"sem_destroy",
    b"pthread_mutex_destroy",
    b"pthread_cond_destroy",
    b"mtx_lock",
    b"mtx_trylock",
    b"mtx_timedlock",
    b"mtx_unlock",
    b"cnd_wait",
    b"cnd_timedwait",
    b"cnd_signal",
    b"cnd_broadcast",
    b"thrd_create",
    b"thrd_join",
    b"thrd_exit",
    b"call_once",
    b"sched_yield",
    b"free",
    // What a signal handler has done just before is slept through: a signal that comes during the call ends it.
    b"pause",
    b"poll",
    b"select",
    b"epoll_wait",
];

/// Starts adding scheduling points to objects that are mapped from now on.
pub(crate) fn begin(settings: &Settings<'_>, program: u64) {
    ON.store(settings.is_on(), Relaxed);
    SEED.store(settings.seed, Relaxed);
    PLACES.store(settings.places as u32, Relaxed);
    PROGRAM.store(program, Relaxed);
    let numbers = settings.own_code.split(|&byte| byte == b',').filter_map(number);
    for (word, address) in OWN_CODE.iter().zip(numbers) {
        word.store(address, Relaxed);
    }
}

/// The run is to have these places, by their numbers, among others.
pub(crate) fn choose(places: &[u64]) {
    CHOSEN.iter().zip(places).for_each(|(word, &place)| word.store(place, Relaxed));
}

/// Whether the run is controlled.
pub(crate) fn is_on() -> bool {
    ON.load(Relaxed)
}

/// What is written at one point.
struct Change {
    place: u64,
    bytes: [u8; 32],
    len: usize,
}

impl AsRef<[u8]> for Change {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// An object has been mapped by the dynamic linker.
///
/// # Safety
/// Called by the dynamic linker with an object whose code has not run yet.
pub(crate) unsafe fn mapped(map: &LinkMap) {
    if !is_on() || map.name.is_null() {
        return;
    }
    // SAFETY: the linker's string.
    let name = unsafe { CStr::from_ptr(map.name) }.to_bytes();
    let base = if name.is_empty() { PROGRAM.load(Relaxed) } else { map.base as u64 };
    if base == 0 {
        return;
    }
    // SAFETY: mapped for good; its headers lie in the first page.
    let Some(object) = (unsafe { object(base, map.base as u64) }) else { return };
    if is_c_library(file_name(name)) {
        // SAFETY: as the caller promises.
        return unsafe { in_c_library(&object) };
    }
    let is_own = name.is_empty() || name.starts_with(b"/") && !name.starts_with(b"/lib") && !name.starts_with(b"/usr");
    if is_own {
        // SAFETY: as the caller promises.
        unsafe { in_program(&object, if name.is_empty() { own_code(map.base as u64) } else { Vec::new() }) };
    }
}

unsafe fn in_c_library(library: &Object<'_>) {
    for code in library.code() {
        let mut functions: Vec<u64> = library
            .symbols()
            .filter(|symbol| FUNCTIONS.contains(&symbol.name) && code.contains(symbol.address))
            .map(|symbol| symbol.address)
            .collect();
        functions.sort_unstable();
        functions.dedup();
        // SAFETY: as the caller promises.
        unsafe { change(&code, functions.into_iter().map(At::Entry)) };
    }
}

/// The ranges of the program's own code, at this distance from where they are in its file.
fn own_code(base: u64) -> Vec<Range<u64>> {
    let address = |word: &AtomicU64| base + word.load(Relaxed);
    let (ranges, _) = OWN_CODE.as_chunks::<2>();
    ranges.iter().map(|[start, end]| address(start)..address(end)).filter(|range| !range.is_empty()).collect()
}

/// An address of these ranges, each as likely.
fn draw(rng: &mut Rng, ranges: &[Range<u64>]) -> u64 {
    let mut at = rng.below(ranges.iter().map(|range| range.end - range.start).sum());
    for range in ranges {
        let len = range.end - range.start;
        if at < len {
            return range.start + at;
        }
        at -= len;
    }
    unreachable!("it is less than the sum")
}

/// The functions that other objects may call. Plain `ld` makes no table of all functions.
struct Exported(Vec<Function>);

impl Exported {
    fn of(object: &Object<'_>, code: &Code<'_>) -> Exported {
        let there = object.symbols().filter(|symbol| symbol.is_function && code.contains(symbol.address));
        let mut functions: Vec<Function> =
            there.map(|symbol| symbol.address..symbol.address.saturating_add(symbol.len)).collect();
        functions.sort_unstable_by_key(|function| (function.start, function.end));
        functions.dedup_by_key(|function| function.start);
        Exported(functions)
    }
}

impl Functions for Exported {
    fn last_from(&self, address: u64) -> Option<(Function, u64)> {
        self.0.as_slice().last_from(address)
    }

    fn entries(&self, visit: &mut dyn FnMut(u64)) {
        self.0.as_slice().entries(visit);
    }
}

/// The accesses in this piece of code that the run is to have.
fn wished(code: &Code<'_>, wanted: usize) -> Vec<Range<u64>> {
    let mut wished = Vec::new();
    let numbers = CHOSEN.iter().map(|word| word.load(Relaxed));
    for number in numbers.filter(|number| number >> PIECE_SHIFT == u64::from(PIECES.load(Relaxed))).take(wanted) {
        let place = code.address + (number & ((1 << PIECE_SHIFT) - 1));
        wished.extend(accesses(code, place).into_iter().find(|access| access.start == place));
    }
    wished
}

/// Accesses in functions that are drawn with their size as weight: in these ranges, with few exceptions, if there are
/// any. A library that is linked into the program, such as Rust's, may be a hundred times as large as the rest.
unsafe fn in_program(program: &Object<'_>, own: Vec<Range<u64>>) {
    let mut rng = Rng::new(SEED.load(Relaxed) ^ 0x5eed);
    let wanted = PLACES.load(Relaxed) as usize;
    for code in program.code() {
        PIECES.fetch_add(1, Relaxed);
        let functions = Exported::of(program, &code);
        let code =
            if code.functions.last_from(u64::MAX).is_some() { code } else { Code { functions: &functions, ..code } };
        let (mut chosen, mut functions) = (wished(&code, wanted), BTreeMap::new());
        let all = code.address..code.address + code.bytes.len() as u64;
        let own: Vec<_> =
            own.iter().filter(|range| all.start <= range.start && range.end <= all.end).cloned().collect();
        let all = [all];
        // Most of a program's functions have some; the number of attempts is bounded for a program without any.
        for attempt in 0..8 * wanted {
            if chosen.len() == wanted {
                break;
            }
            let ranges = if own.is_empty() || attempt % ANYWHERE == ANYWHERE - 1 { &all[..] } else { &own };
            let place = draw(&mut rng, ranges);
            let Some((body, _)) = code.functions.last_from(place) else { continue };
            // A large function is drawn many times.
            let found = functions.entry(body.start).or_insert_with(|| accesses(&code, place));
            if !found.is_empty() {
                let access = &found[rng.below(found.len() as u64) as usize];
                if !chosen.contains(access) {
                    chosen.push(access.clone());
                }
            }
        }
        chosen.sort_unstable_by_key(|access| access.start);
        // SAFETY: as the caller promises.
        unsafe { change(&code, chosen.into_iter().map(At::Access)) };
    }
}

/// A point to be made.
enum At {
    /// A function's entry.
    Entry(u64),
    /// An instruction.
    Access(Range<u64>),
}

unsafe fn change(code: &Code<'_>, all: impl ExactSizeIterator<Item = At>) {
    if all.len() == 0 {
        return;
    }
    let Some(mut area) = StubArea::near(code, all.len()) else { return };
    let (mut made, mut changes) = (Vec::new(), Vec::new());
    for at in all {
        let mut bytes = [0; POINT_LEN_MAX];
        let point = match at {
            At::Entry(function) => at_entry(code, &area, function, &mut bytes),
            At::Access(access) => at_access(code, &area, &access, &mut bytes),
        };
        if let Some((point, change)) = point {
            area.put(&bytes[..point.stub_len as usize]);
            made.push(point);
            changes.push(change);
        }
    }
    // Before any of them can be reached.
    points::add(made);
    // SAFETY: as the caller promises, nobody executes the code now.
    unsafe { text::change(code, &mut area, changes.iter().map(|change| (change.place, change))) };
}

fn at_entry(code: &Code<'_>, area: &StubArea, function: u64, bytes: &mut [u8]) -> Option<(Point, Change)> {
    let Some(replaced) = entry(code, function) else {
        let (mut point, change) = at_access(code, area, &first(code, function)?, bytes)?;
        // What the C library accesses is its own business.
        point.operand = None;
        return Some((point, change));
    };
    let number = (PRIVATE_POINT as u32, LIBRARY);
    let stub_len = emit_entry(code, &replaced, area.next(), area.slots(), number, bytes).ok()? as u64;
    let mut jump = [0; 32];
    let len = emit_entry_jump(&replaced, area.next(), &mut jump).ok()?;
    let (place, stub) = (replaced.start, area.next());
    let (times, times_max) = (AtomicU32::new(0), u32::MAX);
    let point =
        Point { place, len: len as u64, stub, stub_len, byte: None, operand: None, times, times_max, number: 0 };
    Some((point, Change { place, bytes: jump, len }))
}

fn at_access(code: &Code<'_>, area: &StubArea, access: &Range<u64>, bytes: &mut [u8]) -> Option<(Point, Change)> {
    const INT3: u8 = 0xcc;
    let stub_len = emit_access(code, access, area.next(), bytes).ok()? as u64;
    let (place, len) = (access.start, access.end - access.start);
    let byte = Some(code.bytes[(place - code.address) as usize]);
    let (operand, times) = (operand(code, access), AtomicU32::new(0));
    let times_max = (TIMES_MAX / PLACES.load(Relaxed).max(1)).clamp(1, TIMES_MAX_EACH);
    // The piece of code that is being changed, in the order of mapping, and where in it.
    let number = u64::from(PIECES.load(Relaxed)) << PIECE_SHIFT | (place - code.address);
    let point = Point { place, len, stub: area.next(), stub_len, byte, operand, times, times_max, number };
    let mut change = Change { place, bytes: [0; 32], len: 1 };
    change.bytes[0] = INT3;
    Some((point, change))
}

/// The system call by which each of the vDSO's functions asks for the time.
pub(crate) const CLOCKS: [(&[u8], usize); 3] = [
    (b"__vdso_clock_gettime", nr::CLOCK_GETTIME),
    (b"__vdso_gettimeofday", nr::GETTIMEOFDAY),
    (b"__vdso_time", nr::TIME),
];
