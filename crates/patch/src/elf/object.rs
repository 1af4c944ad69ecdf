//! An ELF object as it lies in memory.

use super::go::GoFunctions;
use super::header::{BadElf, ProgramHeader};
use super::read;
use super::segments::Segments;
use super::symbols::{Dynamic, Symbol};
use super::unwind::FunctionTable;
use crate::code::{Code, Function, Functions};

/// An object: its headers, its memory, and how far from its link address it was loaded.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    bias: u64,
    headers: &'a [u8],
    segments: Segments<'a>,
    functions: Option<FunctionTable<'a>>,
    go: Option<GoFunctions<'a>>,
    dynamic: Dynamic,
}

impl<'a> Object<'a> {
    /// The object whose ELF header and program headers lie in `headers`.
    ///
    /// # Errors
    /// As [`headers`](super::headers()).
    pub fn new(bias: u64, headers: &'a [u8], segments: Segments<'a>) -> Result<Self, BadElf> {
        let mut object = Self { bias, headers, segments, functions: None, go: None, dynamic: Dynamic::default() };
        for header in super::headers(headers)? {
            let address = bias.wrapping_add(header.address);
            match header.kind {
                ProgramHeader::EH_FRAME => object.functions = FunctionTable::new(&object.segments, address),
                ProgramHeader::DYNAMIC => object.dynamic = Dynamic::read(&object.segments, address, bias),
                _ => {}
            }
        }
        Ok(object)
    }

    /// Takes its functions from the frames that begin at `frames`, by the entries that [`search_table`](super::search_table) has made.
    pub fn set_functions(&mut self, frames: u64, entries: &'a [u8]) {
        self.functions = Some(FunctionTable::of_entries(frames, entries));
    }

    /// Looks for the functions of a program by Go's linker, through all its data. Relocations must have been made.
    pub fn find_go(&mut self) {
        let segments = self.segments;
        let mut data = self.headers().filter(|h| h.kind == ProgramHeader::LOAD && h.allows(ProgramHeader::WRITE));
        self.go = data.find_map(|header| {
            let bytes = segments.from(self.bias.wrapping_add(header.address))?;
            let len = usize::try_from(header.file_len).ok()?.min(bytes.len());
            GoFunctions::find(&segments, &bytes[..len])
        });
    }

    /// The table of its Go functions, if [`Object::find_go`] has found one.
    pub fn go_functions(&self) -> Option<&GoFunctions<'a>> {
        self.go.as_ref()
    }

    /// The object in a file, as if loaded at `bias`.
    ///
    /// # Errors
    /// As [`headers`](super::headers()).
    pub fn of_file(file: &'a [u8], bias: u64) -> Result<Self, BadElf> {
        Self::new(bias, file, Segments::of_file(file, bias)?)
    }

    /// The difference between run-time and linked addresses.
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// The memory that was given.
    pub fn segments(&self) -> &Segments<'a> {
        &self.segments
    }

    /// The program headers.
    pub fn headers(&self) -> impl Iterator<Item = ProgramHeader> + 'a {
        let headers = super::headers(self.headers).into_iter();
        headers.flatten()
    }

    /// The executable segments, ready to be planned.
    pub fn code(&self) -> impl Iterator<Item = Code<'_>> {
        let executable =
            |header: &ProgramHeader| header.kind == ProgramHeader::LOAD && header.allows(ProgramHeader::EXECUTE);
        self.headers().filter(executable).filter_map(|header| {
            let address = self.bias.wrapping_add(header.address);
            let bytes = self.segments.from(address)?;
            let len = usize::try_from(header.file_len).ok()?.min(bytes.len());
            Some(Code { bytes: &bytes[..len], address, functions: self, data: self.segments.pieces() })
        })
    }

    /// The table of its functions, if it has one.
    pub fn functions(&self) -> Option<&FunctionTable<'a>> {
        self.functions.as_ref()
    }

    /// `DT_SONAME`: the name under which others need it.
    pub fn soname(&self) -> Option<&'a [u8]> {
        self.dynamic.soname(&self.segments)
    }

    /// The defined dynamic symbol of this name, whatever its version.
    pub fn symbol(&self, name: &[u8]) -> Option<Symbol<'a>> {
        self.dynamic.find(&self.segments, self.bias, name)
    }

    /// All defined dynamic symbols.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol<'a>> + '_ {
        self.dynamic.symbols(&self.segments, self.bias)
    }

    /// The linker's fingerprint of the contents (`NT_GNU_BUILD_ID`).
    pub fn build_id(&self) -> Option<&'a [u8]> {
        self.notes().find_map(build_id)
    }

    /// Whether Go's linker has made it, as its fingerprint of the contents says (`ELF_NOTE_GOBUILDID_TAG`).
    pub fn is_marked_go(&self) -> bool {
        const FINGERPRINT: u32 = 4;
        self.notes().any(|notes| find_note(notes, b"Go\0\0", FINGERPRINT).is_some())
    }

    /// The contents of the segments of notes.
    fn notes(&self) -> impl Iterator<Item = &'a [u8]> {
        self.headers().filter(|header| header.kind == ProgramHeader::NOTE).filter_map(|header| {
            let bytes = self.segments.from(self.bias.wrapping_add(header.address))?;
            let len = usize::try_from(header.file_len).ok()?.min(bytes.len());
            Some(&bytes[..len])
        })
    }
}

/// The linker's fingerprint of an object (`NT_GNU_BUILD_ID`), if it is among these notes.
pub fn build_id(notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    find_note(notes, b"GNU\0", NT_GNU_BUILD_ID)
}

/// Notes follow each other, each padded to four bytes (the eight-byte ones of
/// `.note.gnu.property` have a segment of their own, which this reads without harm).
fn find_note<'a>(mut bytes: &'a [u8], owner: &[u8], kind: u32) -> Option<&'a [u8]> {
    const HEADER: usize = 12;
    loop {
        let (owner_len, len) = (read::u32(bytes, 0)? as usize, read::u32(bytes, 4)? as usize);
        let this_kind = read::u32(bytes, 8)?;
        let contents_at = HEADER.checked_add(owner_len.checked_next_multiple_of(4)?)?;
        let end = contents_at.checked_add(len)?;
        let this_owner = bytes.get(HEADER..HEADER.checked_add(owner_len)?)?;
        if this_kind == kind && this_owner == owner {
            return bytes.get(contents_at..end);
        }
        bytes = bytes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

impl Functions for Object<'_> {
    fn last_from(&self, address: u64) -> Option<(Function, u64)> {
        // Parts of a program with C and Go have frames, others are in Go's table.
        let go = self.go.as_ref().and_then(|go| go.last_from(address));
        go.or_else(|| self.functions.as_ref()?.last_from(&self.segments, address))
    }

    fn entries(&self, visit: &mut dyn FnMut(u64)) {
        for symbol in self.symbols().filter(|symbol| symbol.is_function) {
            visit(symbol.address);
        }
    }
}
