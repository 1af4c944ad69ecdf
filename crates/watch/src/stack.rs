//! The functions of a thread that has no CPU: its page says where it continues, and its stack is read from outside.
//!
//! The host does not show such a thread to debuggers. Its stack is unwound from the process's memory,
//! with the unwind tables of the files that it has mapped; nothing is stopped. If the thread continues
//! meanwhile, the result is meaningless, which a second reading of the page shows.

use crate::{Watched, fetch};
use anyhow::Context;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use state::Thread;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

/// The most functions that are shown of one thread.
const DEPTH_MAX: usize = 64;
/// A process may map anything, so these limit how much of its map and of all its files is read, how many symbols are
/// kept, and how long is searched. Functions beyond them are shown as addresses.
const MAPS_MAX: u64 = 8 << 20;
const BYTES_MAX: u64 = 20 << 20;
const SYMBOLS_MAX: usize = 150_000;
const PATIENCE: Duration = Duration::from_millis(600);

/// A function on a stack.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frame {
    /// Its name, how far in it the thread is, and where it comes from.
    pub text: String,
    /// The file with its code; empty if that is not known.
    pub file: String,
    /// The address in the file's own terms.
    pub address: u64,
}

impl From<&str> for Frame {
    fn from(text: &str) -> Frame {
        Frame { text: text.to_owned(), ..Frame::default() }
    }
}

/// A file that the process has mapped to execute.
#[derive(Debug)]
struct Library {
    path: String,
    name: String,
    from: u64,
    to: u64,
    /// The difference between its run-time and linked addresses.
    bias: u64,
    /// Functions by their own address.
    symbols: Vec<(u64, u64, String)>,
}

/// For each thread of the snapshot its functions, the innermost first.
///
/// # Errors
/// The host does not let us read the process's memory.
pub fn of(watched: &Watched) -> anyhow::Result<Vec<Vec<Frame>>> {
    let (mut stacks, threads) = (of_held(watched)?, &watched.snapshot.threads);
    // A thread that has not moved between the two looks has not moved while its stack was read.
    let again = fetch::one(watched.pid)?;
    let later: HashMap<i32, &Thread> = again.snapshot.threads.iter().map(|thread| (thread.tid, thread)).collect();
    let counts = |t: &Thread| (t.place, t.voluntary, t.involuntary, t.parked);
    for (stack, thread) in stacks.iter_mut().zip(threads) {
        let moved = later.get(&thread.tid).is_none_or(|now| counts(now) != counts(thread));
        if moved && !stack.is_empty() {
            *stack = vec!["(has gone on meanwhile)".into()];
        }
    }
    Ok(stacks)
}

/// As [`of`], of a process none of whose threads runs.
///
/// # Errors
/// As [`of`].
pub fn of_held(watched: &Watched) -> anyhow::Result<Vec<Vec<Frame>>> {
    let pid = watched.pid;
    let maps =
        File::open(format!("/proc/{pid}/maps")).with_context(|| format!("cannot see what process {pid} has mapped"))?;
    let mut unwinder = UnwinderX86_64::<Vec<u8>>::new();
    let mut effort = Effort::new();
    let lines = BufReader::new(maps.take(MAPS_MAX)).split(b'\n').map_while(Result::ok);
    let lines = lines.filter_map(|line| String::from_utf8(line).ok());
    let libraries: Vec<Library> = lines.filter_map(|line| load(&line, &mut unwinder, &mut effort)).collect();
    let mut cache = CacheX86_64::<_>::new();
    let mut memory = Memory::new(pid);
    let threads = &watched.snapshot.threads;
    let stacks = threads
        .iter()
        .map(|thread| match effort.is_over() {
            true => vec![],
            false => unwind(thread, &unwinder, &mut cache, &mut memory, &libraries),
        })
        .collect();
    if memory.refused && !threads.is_empty() {
        anyhow::bail!("the host does not let us read the memory of process {pid} (kernel.yama.ptrace_scope?)");
    }
    Ok(stacks)
}

fn unwind(
    thread: &Thread,
    unwinder: &UnwinderX86_64<Vec<u8>>,
    cache: &mut CacheX86_64,
    memory: &mut Memory,
    libraries: &[Library],
) -> Vec<Frame> {
    let [ip, sp, bp] = thread.parked;
    if ip == 0 {
        return vec![];
    }
    let mut read = |at| memory.word(at).ok_or(());
    let mut frames = unwinder.iter_frames(ip, UnwindRegsX86_64::new(ip, sp, bp), cache, &mut read);
    let mut lines = vec![];
    while let Ok(Some(frame)) = frames.next() {
        lines.push(describe(frame.address_for_lookup(), libraries));
        if lines.len() == DEPTH_MAX {
            lines.push("…".into());
            break;
        }
    }
    lines
}

/// The function at an address, or at least the file.
fn describe(at: u64, libraries: &[Library]) -> Frame {
    let Some(library) = libraries.iter().find(|library| (library.from..library.to).contains(&at)) else {
        return format!("{at:#x}").as_str().into();
    };
    let own = at.wrapping_sub(library.bias);
    let i = library.symbols.partition_point(|&(start, ..)| start <= own);
    let found = i.checked_sub(1).map(|i| &library.symbols[i]);
    let text = match found.filter(|(start, size, _)| *size == 0 || own - start < *size) {
        Some((start, _, name)) => {
            format!("{:#} + {:#x} ({})", rustc_demangle::demangle(name), own - start, library.name)
        }
        None => format!("{own:#x} ({})", library.name),
    };
    Frame { text, file: library.path.clone(), address: own }
}

/// A library's name. The image maps a copy of the C library whose file name is the image's, the build id, and the
/// library's name.
fn own_name(file: &str) -> &str {
    let copied = file.strip_prefix("libentresol-").and_then(|rest| rest.split_once(".so."));
    copied.and_then(|(_, rest)| rest.split_once('.')).map_or(file, |(_, name)| name)
}

/// How much has been done for one process.
#[derive(Debug)]
struct Effort {
    until: Instant,
    bytes: u64,
    symbols: usize,
}

impl Effort {
    fn new() -> Effort {
        Effort { until: Instant::now() + PATIENCE, bytes: 0, symbols: 0 }
    }

    fn is_over(&self) -> bool {
        Instant::now() > self.until
    }
}

/// A file of which only a limited part is read.
#[derive(Debug)]
struct Limited<'a> {
    file: File,
    effort: &'a mut Effort,
}

impl Read for Limited<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.effort.bytes += to.len() as u64;
        if self.effort.bytes > BYTES_MAX || self.effort.is_over() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.read(to)
    }
}

impl Seek for Limited<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Opens a regular file that is not a link; the open never blocks on other kinds.
fn open(path: &str) -> Option<(File, fs::Metadata)> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    found.is_file().then_some((file, found))
}

/// A line of `/proc/PID/maps` that maps a file to execute: its tables go to the unwinder.
fn load(line: &str, unwinder: &mut UnwinderX86_64<Vec<u8>>, effort: &mut Effort) -> Option<Library> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let (device, number) = (words.next()?, words.next()?);
    let path = line.get(line.find('/')?..)?;
    if !rights.contains('x') {
        return None;
    }
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (from, to) = range.split_once('-')?;
    let (from, to, offset) = (hex(from)?, hex(to)?, hex(offset)?);
    let (file, found) = open(path)?;
    // Another file may have this path by now, or in this namespace. For an overlay, the mapping shows another device
    // number than the file.
    let (major, minor) = device.split_once(':')?;
    let same_device =
        (hex(major)?, hex(minor)?) == (u64::from(libc::major(found.dev())), u64::from(libc::minor(found.dev())));
    if found.ino().to_string() != number && same_device {
        return None;
    }
    let cache = ReadCache::new(Limited { file, effort });
    let file = object::File::parse(&cache).ok()?;
    // The segment at this file offset names its linked address.
    let bias = file.segments().find_map(|segment| {
        let (start, size) = segment.file_range();
        let inside = (start & !0xfff..start.saturating_add(size)).contains(&offset);
        inside.then(|| from.wrapping_sub(segment.address().wrapping_sub(start).wrapping_add(offset)))
    })?;
    let section = |name: &str| {
        let section = file.section_by_name(name)?;
        let range = section.address()..section.address().saturating_add(section.size());
        Some((range, section.data().ok()?.to_vec()))
    };
    let mut info = ExplicitModuleSectionInfo::default();
    (info.text_svma, info.text) = section(".text").unzip();
    (info.eh_frame_svma, info.eh_frame) = section(".eh_frame").unzip();
    (info.eh_frame_hdr_svma, info.eh_frame_hdr) = section(".eh_frame_hdr").unzip();
    unwinder.add_module(Module::new(path.to_owned(), from..to, bias, info));
    let mut symbols = functions(&file);
    let debug_file = debug_file(&file);
    let Limited { effort, .. } = cache.into_inner();
    // Stripped debug information may lie where distributions put it.
    if let Some((file, _)) = debug_file.and_then(|path| open(&path)) {
        let cache = ReadCache::new(Limited { file, effort: &mut *effort });
        if let Ok(file) = object::File::parse(&cache) {
            symbols.append(&mut functions(&file));
        }
    }
    symbols.sort();
    symbols.dedup_by_key(|(at, ..)| *at);
    symbols.truncate(SYMBOLS_MAX.saturating_sub(effort.symbols));
    effort.symbols += symbols.len();
    let name = own_name(path.rsplit('/').next().unwrap_or(path)).to_owned();
    Some(Library { path: path.to_owned(), name, from, to, bias, symbols })
}

/// The functions of a file: where they begin, their size and their name.
fn functions<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> Vec<(u64, u64, String)> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    symbols
        .filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text)
        .take(SYMBOLS_MAX)
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
        .collect()
}

/// The file with its symbols if they have been stripped (`debuglink` by build id, as gdb looks for it).
fn debug_file<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> Option<String> {
    let id = file.build_id().ok()??;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("/usr/lib/debug/.build-id/{}/{}.debug", hex.get(..2)?, hex.get(2..)?))
}

/// Another process's memory, a page at a time.
#[derive(Debug)]
struct Memory {
    pid: i32,
    page: Box<[u8; PAGE]>,
    at: Option<u64>,
    /// The host said no.
    refused: bool,
}

const PAGE: usize = 4096;

impl Memory {
    fn new(pid: i32) -> Memory {
        Memory { pid, page: Box::new([0; PAGE]), at: None, refused: false }
    }

    fn word(&mut self, at: u64) -> Option<u64> {
        let page = at & !(PAGE as u64 - 1);
        if self.at != Some(page) {
            self.at = None;
            let local = libc::iovec { iov_base: self.page.as_mut_ptr().cast(), iov_len: PAGE };
            let remote = libc::iovec { iov_base: page as *mut libc::c_void, iov_len: PAGE };
            // SAFETY: the host writes to our page only.
            let n = unsafe { libc::process_vm_readv(self.pid, &raw const local, 1, &raw const remote, 1, 0) };
            if n != PAGE as isize {
                self.refused |= std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
                return None;
            }
            self.at = Some(page);
        }
        let bytes = self.page.get((at - page) as usize..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copied_library_has_its_own_name() {
        assert_eq!(own_name("libentresol-f7df27b2fa1886a1.so.93ac61ec.libc.so.6"), "libc.so.6");
        assert_eq!(own_name("libentresol-f7df27b2fa1886a1.so"), "libentresol-f7df27b2fa1886a1.so");
        assert_eq!(own_name("libm.so.6"), "libm.so.6");
    }
}
