//! Which file's code lay where in a process, and what its functions are called.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

/// The kernel's own library in every process.
const VDSO: &str = "[vdso]";

/// A stretch of code in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Where it lies.
    pub range: Range<u64>,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file.
    pub path: String,
}

/// The mappings of files in the text of `/proc/PID/maps`; neighbours that continue each other are one.
#[must_use]
pub fn mappings(text: &str) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = Vec::new();
    for new in text.lines().filter_map(mapping) {
        match all.last_mut() {
            Some(last)
                if last.path == new.path
                    && last.range.end == new.range.start
                    && last.offset + (last.range.end - last.range.start) == new.offset =>
            {
                last.range.end = new.range.end;
            }
            _ => all.push(new),
        }
    }
    all
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
    let path = fields.nth(2)?.trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    (path.starts_with('/') || path == VDSO).then(|| Mapping { range, offset, path: path.to_owned() })
}

/// A function at an address, and the place in its source.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Frame {
    /// Its name, readable.
    pub function: String,
    /// The source file, empty if unknown.
    pub file: String,
    /// The line, 0 if unknown.
    pub line: u32,
}

/// A file with code.
pub struct Module {
    /// Where it is.
    pub path: String,
    /// Its unwind tables, taken from the file's bytes.
    pub sections: framehop::ExplicitModuleSectionInfo<Rc<[u8]>>,
    /// Its parts that are loaded: offset in the file, length there, address.
    segments: Vec<(u64, u64, u64)>,
    /// Functions by address, with their ends: for files without more.
    symbols: BTreeMap<u64, (u64, String)>,
    debug: Option<addr2line::Loader>,
}

impl Module {
    /// Reads a file; `None` if it cannot be read as a module.
    #[must_use]
    pub fn load(path: &str) -> Option<Module> {
        let bytes = if path == VDSO { own_vdso()? } else { fs::read(path).ok()? };
        let file = object::File::parse(&*bytes).ok()?;
        let section = |name: &str| -> Option<(Range<u64>, Rc<[u8]>)> {
            let section = file.section_by_name(name)?;
            let data = section.uncompressed_data().ok()?;
            Some((section.address()..section.address() + section.size(), Rc::from(&*data)))
        };
        let (eh_frame, eh_frame_hdr, text) = (section(".eh_frame"), section(".eh_frame_hdr"), section(".text"));
        let sections = framehop::ExplicitModuleSectionInfo {
            base_svma: 0,
            got_svma: section(".got").map(|(range, _)| range),
            debug_frame: section(".debug_frame").map(|(_, data)| data),
            eh_frame_svma: eh_frame.as_ref().map(|(range, _)| range.clone()),
            eh_frame: eh_frame.map(|(_, data)| data),
            eh_frame_hdr_svma: eh_frame_hdr.as_ref().map(|(range, _)| range.clone()),
            eh_frame_hdr: eh_frame_hdr.map(|(_, data)| data),
            text_svma: text.as_ref().map(|(range, _)| range.clone()),
            text: text.map(|(_, data)| data),
            ..Default::default()
        };
        let segments = file.segments().map(|s| (s.file_range().0, s.file_range().1, s.address())).collect();
        let symbols = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
            .filter_map(|symbol| Some((symbol.address(), (symbol.size(), symbol.name().ok()?.to_owned()))))
            .collect();
        let debug = if path == VDSO { None } else { addr2line::Loader::new(path).ok() };
        Some(Module { path: path.to_owned(), sections, segments, symbols, debug })
    }

    /// The address in the file's own terms of what lies at this offset of it.
    #[must_use]
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let (from, _, address) = self.segments.iter().find(|(from, len, _)| (*from..from + len).contains(&offset))?;
        Some(offset - from + address)
    }

    /// The functions at an address: the innermost first, then those that it was inlined into.
    #[must_use]
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        let frames = self.frames_by_debug_information(address);
        if !frames.is_empty() {
            return frames;
        }
        let function = self.symbol(address).map_or_else(|| format!("[{}]", self.name()), |name| readable(&name));
        vec![Frame { function, file: String::new(), line: 0 }]
    }

    fn frames_by_debug_information(&self, address: u64) -> Vec<Frame> {
        let mut all = Vec::new();
        let Some(Ok(mut frames)) = self.debug.as_ref().map(|debug| debug.find_frames(address)) else { return all };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|f| f.raw_name().ok().map(|name| readable(&name)));
            // A place without a function is worth less than a symbol.
            let Some(function) = name.or_else(|| self.symbol(address).map(|name| readable(&name))) else { continue };
            let place = frame.location.as_ref();
            let file = place.and_then(|place| place.file).unwrap_or_default().to_owned();
            all.push(Frame { function, file, line: place.and_then(|place| place.line).unwrap_or(0) });
        }
        all
    }

    fn symbol(&self, address: u64) -> Option<String> {
        let own = self.symbols.range(..=address).next_back();
        let own = own.filter(|(at, (size, _))| *size == 0 || address < *at + size).map(|(_, (_, name))| name.clone());
        own.or_else(|| self.debug.as_ref()?.find_symbol(address).map(str::to_owned))
    }

    /// The file's name.
    #[must_use]
    pub fn name(&self) -> &str {
        Path::new(&self.path).file_name().and_then(|name| name.to_str()).unwrap_or(&self.path)
    }
}

/// A mangled name as its language writes it. Any other is as it is: a C function `f` is no type `float`.
pub(crate) fn readable(name: &str) -> String {
    let is_mangled = ["_Z", "__Z", "_R"].iter().any(|prefix| name.starts_with(prefix));
    if is_mangled { addr2line::demangle_auto(Cow::Borrowed(name), None).into_owned() } else { name.to_owned() }
}

/// This process's own copy: the kernel gives every process the same.
fn own_vdso() -> Option<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let place = mappings(&maps).into_iter().find(|mapping| mapping.path == VDSO)?.range;
    let mut bytes = vec![0; (place.end - place.start) as usize];
    fs::File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, place.start).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mangled_names_are_demangled() {
        for (name, readable_name) in
            [("f", "f"), ("Pi", "Pi"), ("main", "main"), ("_Z3addii", "add(int, int)"), ("_RNvC1a4main", "a::main")]
        {
            assert_eq!(readable(name), readable_name);
        }
    }

    #[test]
    fn neighbours_are_one_and_what_has_no_file_is_none() {
        let text = "1000-2000 r-xp 00001000 fe:00 5 /lib/a b.so\n2000-3000 r-xp 00002000 fe:00 5 /lib/a b.so\n\
            3000-4000 r-xp 00009000 fe:00 5 /lib/a b.so (deleted)\n5000-6000 r-xp 00000000 00:00 0 \n\
            7000-8000 r-xp 00000000 00:00 0                          [vdso]\nnonsense\n";
        let got: Vec<_> = mappings(text).into_iter().map(|m| (m.range, m.offset, m.path)).collect();
        let own = |range, offset, path: &str| (range, offset, path.to_owned());
        let library = "/lib/a b.so";
        assert_eq!(
            got,
            [own(0x1000..0x3000, 0x1000, library), own(0x3000..0x4000, 0x9000, library), own(0x7000..0x8000, 0, VDSO)]
        );
    }

    #[test]
    fn the_kernels_library_has_names() {
        let vdso = Module::load(VDSO).expect("every process has it");
        let (address, _) = vdso.symbols.first_key_value().expect("it has symbols");
        assert!(!vdso.frames(*address)[0].function.starts_with('['));
    }

    #[test]
    fn a_file_that_is_not_there_is_no_module() {
        assert!(Module::load("/no/such/file").is_none());
        assert!(Module::load("/proc/version").is_none());
    }
}
