//! The image as a program: it is executed in place of a program that glibc's dynamic linker cannot load it into, and
//! loads that program.
//!
//! The host makes everything that a new program has: stack, arguments, environment, auxiliary vector, vDSO, heap. The
//! image lies where a dynamic linker that is executed directly would lie. It adds what the host would have done with
//! the program's own file: it maps the program's segments and those of its interpreter (`map`), names them in the
//! auxiliary vector (`vector`), and jumps to the entry point. Nothing on the stack moves.
//!
//! The caller of exec has opened the program and passes the descriptor (`program` in ENTRESOL_OPTIONS) and the name
//! under which it was executed ([`FILE`]). So what was checked is what is loaded, whatever happens to the name
//! meanwhile.

mod map;
mod vector;

use crate::boot::{self, find};
use crate::options::Options;
use crate::{libraries, objects};
use abi::args::{O_CLOEXEC, O_NOCTTY, O_NONBLOCK, PROT_READ};
use alloc::vec::Vec;
use arch::syscall;
use core::ffi::{CStr, c_char};
use core::fmt::{Display, Write};
use host::report::Line;
use host::{catch, os};
use map::Mapped;
use patch::elf::{ProgramHeader, search_table};
use patch::program::{Layout, is_glibc};

/// The variable with the name under which the program was executed.
pub const FILE: &[u8] = b"ENTRESOL_FILE=";
/// Exit status of a program that cannot be loaded.
const REFUSED: u64 = 125;

/// Loads the program and returns its entry point. The caller jumps there with its own initial stack pointer.
///
/// # Safety
/// Called once, by the image's first instructions, with the stack as the host has made it, after the image has
/// relocated itself.
pub unsafe extern "C" fn load(stack: *mut u64) -> u64 {
    protect();
    // SAFETY: the number of arguments, the arguments, a null, the environment, a null, the auxiliary vector (`create_elf_tables`).
    unsafe {
        let argv = stack.add(1).cast::<*const c_char>();
        let envp = argv.add(*stack as usize + 1);
        let options = find(envp, boot::OPTIONS).map(|value| Options::parse(value, os::getpid()));
        let Some((options, fd)) = options.and_then(|options| Some((options, options.program?))) else {
            fail(b"libentresol.so", "it is a part of `entresol run`, which starts it");
        };
        let name = find(envp, FILE).unwrap_or_default();
        catch::choose(options.by_filter);
        if options.makes_filter
            && let Err(why) = catch::way().begin()
        {
            fail(name, NotDone { what: "the host refuses the filter that is to catch its system calls", why });
        }
        let program = map_program(fd, name);
        let path = path_of(fd);
        let frames = frames(fd, &program);
        // Before another is opened: there may be no more.
        os::close(fd);
        let loader = program.layout.loader.as_ref().map(|path| map_loader(path, name));
        let loaded = Loaded { program, loader };
        let vector = vector::find(envp);
        vector::write(vector, &loaded, name.as_ptr() as u64);
        boot::boot(argv, envp, Some(path));
        if !boot::is_up() {
            fail(name, "its environment lacks Entresol's own variables");
        }
        vector::follow(envp, vector);
        if let Some(mut object) = loaded.program.code() {
            if let Some((start, entries)) = &frames {
                object.set_functions(*start, entries);
            }
            libraries::patch_program(&mut object, name);
        }
        if let Some(mut object) = loaded.loader.as_ref().and_then(Mapped::code) {
            if loaded.program.layout.loader.as_deref().is_some_and(is_glibc) {
                libraries::patch_linker(&object);
                objects::watch(&object);
            } else {
                libraries::patch_program(&mut object, b"interpreter");
            }
        }
        loaded.loader.as_ref().unwrap_or(&loaded.program).entry()
    }
}

/// A program and its interpreter, in memory.
pub(crate) struct Loaded {
    pub program: Mapped,
    pub loader: Option<Mapped>,
}

/// Maps the file of the descriptor.
///
/// # Safety
/// Nothing of the program runs.
unsafe fn map_program(fd: i32, name: &[u8]) -> Mapped {
    let layout = layout(fd, name);
    let (has_loader, stack_is_executable) = (layout.loader.is_some(), layout.executable_stack);
    // SAFETY: as the caller promises.
    unsafe {
        let program = Mapped::of(fd, layout, has_loader).unwrap_or_else(|why| fail(name, why));
        if stack_is_executable && let Err(why) = vector::make_stack_executable(name.as_ptr() as u64) {
            fail(name, why);
        }
        program
    }
}

/// Maps the interpreter of the program that has this name.
///
/// # Safety
/// As for [`map_program`].
unsafe fn map_loader(path: &[u8], name: &[u8]) -> Mapped {
    let path = [path, &[0][..]].concat();
    let fd = match os::open(&path, O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0) {
        Ok(fd) => fd,
        Err(why) => fail(&path, NotDone { what: "the interpreter cannot be opened", why }),
    };
    // SAFETY: as the caller promises.
    let mapped = unsafe { Mapped::of(fd, layout(fd, name), false) }.unwrap_or_else(|why| fail(name, why));
    os::close(fd);
    mapped
}

/// Where a program's exception frames begin, if its program headers do not say so, and the missing table of them.
fn frames(fd: i32, program: &Mapped) -> Option<(u64, Vec<u8>)> {
    let object = program.code().filter(|object| object.functions().is_none())?;
    let frames = patch::program::frames(&mut reader(fd))?;
    let frames = program.bias.wrapping_add(frames.start)..program.bias.wrapping_add(frames.end);
    let start = frames.start;
    Some((start, search_table(object.segments(), frames)?))
}

/// Reads a file from an offset on; returns the number of bytes.
fn reader(fd: i32) -> impl FnMut(u64, &mut [u8]) -> usize {
    move |at, to| {
        // SAFETY: the buffer is ours and as long as said.
        let n = unsafe { syscall!(abi::nr::PREAD64, fd, to.as_mut_ptr(), to.len(), at) };
        usize::try_from(n).unwrap_or(0)
    }
}

fn layout(fd: i32, name: &[u8]) -> Layout {
    match Layout::read(&mut reader(fd)) {
        Ok(layout) => layout,
        Err(patch::program::Obstacle::Malformed(why)) => fail(name, why),
        Err(why) => fail(name, why.reason().words()),
    }
}

/// The path of an open file, as `/proc/self/exe` would show it.
fn path_of(fd: i32) -> Vec<u8> {
    const PATH_MAX: usize = 4096;
    let mut link = host::report::Text::<32>::default();
    let _ = write!(link, "/proc/self/fd/{fd}\0");
    let mut path = alloc::vec![0; PATH_MAX];
    // SAFETY: a string and a buffer of ours.
    let len = unsafe { syscall!(abi::nr::READLINK, link.as_bytes().as_ptr(), path.as_mut_ptr(), PATH_MAX) };
    path.truncate(usize::try_from(len).unwrap_or(0));
    path
}

/// Makes relocated data read-only, as a dynamic linker does (PT_GNU_RELRO).
fn protect() {
    const PAGE: u64 = 4096;
    const RELRO: u32 = 0x6474_e552;
    let base = libraries::image();
    // SAFETY: the image's first page, which has its headers.
    let head = unsafe { core::slice::from_raw_parts(base as *const u8, PAGE as usize) };
    let headers = patch::elf::headers(head).into_iter().flatten();
    for header in headers.filter(|header: &ProgramHeader| header.kind == RELRO) {
        let start = libraries::image_bias().wrapping_add(header.address);
        let end = start + header.memory_len;
        let (start, end) = (start & !(PAGE - 1), end & !(PAGE - 1));
        if start < end {
            // SAFETY: pages of the image that it only reads from now on.
            unsafe { syscall!(abi::nr::MPROTECT, start, end - start, PROT_READ) };
        }
    }
}

/// A step that the host has refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotDone {
    pub what: &'static str,
    pub why: isize,
}

impl Display for NotDone {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} (error {})", self.what, -self.why)
    }
}

/// Ends the process. Nothing of the program has run.
fn fail(name: &[u8], why: impl Display) -> ! {
    let mut line = Line::default();
    let name = CStr::from_bytes_until_nul(name).map_or(name, CStr::to_bytes);
    let _ = write!(line, "entresol: ");
    for part in name.utf8_chunks() {
        let _ = write!(line, "{}", part.valid());
    }
    let _ = writeln!(line, " cannot be loaded: {why}");
    line.flush();
    loop {
        // SAFETY: ends the process.
        unsafe { syscall!(abi::nr::EXIT_GROUP, REFUSED) };
    }
}
