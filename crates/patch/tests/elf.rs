//! Reading ELF objects: real ones, damaged ones, and random bytes.

mod common;

use std::process::Command;

use entresol_patch::Functions;
use entresol_patch::elf::{BadElf, Object, ProgramHeader, Segments, headers, search_table};
use entresol_patch::program::frames;
use proptest::prelude::*;

fn loader() -> Vec<u8> {
    std::fs::read(common::loaded("/ld-linux-x86-64.so")).unwrap()
}

fn libc() -> Vec<u8> {
    std::fs::read(common::loaded("/libc.so")).unwrap()
}

/// The header of a shared object without segments.
fn header() -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    file[16..20].copy_from_slice(&[3u16, 62].map(u16::to_le_bytes).concat());
    file[20] = 1;
    file[32] = 64;
    file[52..56].copy_from_slice(&[64u16, 56].map(u16::to_le_bytes).concat());
    file[58] = 64;
    file
}

#[test]
fn objects_for_other_machines() {
    let changed = |at: usize, byte: u8| {
        let mut file = header();
        file[at] = byte;
        headers(&file).map(Iterator::count)
    };
    assert_eq!(headers(&header()).map(Iterator::count), Ok(0));
    // 32-bit pointers, big-endian, arm64.
    for (at, byte) in [(4, 1), (5, 2), (18, 183)] {
        assert_eq!(changed(at, byte), Err(BadElf::Foreign), "{byte} at {at}");
    }
    assert_eq!(changed(1, b'e'), Err(BadElf::NotElf));
    assert_eq!(headers(b"\x7fELF").map(Iterator::count), Err(BadElf::Truncated));
}

#[test]
fn a_segment_that_reaches_beyond_the_last_address_has_no_code() {
    let mut file = loader();
    let headers_at = usize::from(u16::from_le_bytes([file[32], file[33]]));
    for (index, header) in headers(&loader()).unwrap().enumerate() {
        if header.kind == ProgramHeader::LOAD && header.allows(ProgramHeader::EXECUTE) {
            let address = headers_at + 56 * index + 16;
            file[address..address + 8].copy_from_slice(&(u64::MAX - 4095).to_le_bytes());
        }
    }
    let of_loader = loader();
    assert_ne!(Object::of_file(&of_loader, 0).unwrap().code().count(), 0);
    let object = Object::of_file(&file, 0).unwrap();
    assert_eq!(object.code().count(), 0);
    assert!(entresol_patch::record(&object, entresol_patch::Trust::LibC).unwrap().is_some());
}

/// The symbols that `readelf` lists: address and name without version.
fn listed_symbols(path: &str) -> Option<Vec<(u64, String)>> {
    let output = Command::new("readelf").args(["-W", "--dyn-syms", path]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let symbol = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields.get(7)?.split('@').next()?.to_owned();
        let is_ours = fields[6] != "UND" && fields[3] != "TLS" && fields[0].ends_with(':') && fields[0] != "Num:";
        is_ours.then(|| (u64::from_str_radix(fields[1], 16).unwrap(), name))
    };
    output.status.success().then(|| text.lines().filter_map(symbol).collect())
}

#[test]
fn symbols() {
    const BIAS: u64 = 0x7f12_3456_7000;
    for name in ["/libc.so", "/ld-linux-x86-64.so"] {
        let path = common::loaded(name);
        let file = std::fs::read(&path).unwrap();
        let object = Object::of_file(&file, BIAS).unwrap();
        assert!(path.ends_with(std::str::from_utf8(object.soname().unwrap()).unwrap()));
        assert_eq!(object.build_id().map(<[u8]>::len), Some(20));
        let Some(listed) = listed_symbols(&path) else {
            println!("SKIPPED: no readelf to compare with");
            continue;
        };
        assert_eq!(object.symbols().count(), listed.len());
        // Version names are symbols without a section: theirs is no address.
        let lies_at = |address: u64, value: u64| address == BIAS + value || address == value;
        for (symbol, (value, name)) in object.symbols().zip(&listed) {
            assert_eq!(symbol.name, name.as_bytes());
            assert!(lies_at(symbol.address, *value));
            let found = object.symbol(symbol.name).unwrap();
            assert!(listed.iter().any(|(value, other)| other == name && lies_at(found.address, *value)));
        }
        assert_eq!(object.symbol(b"no_such_symbol"), None);
        assert_eq!(object.symbol(b""), None);
    }
    let file = loader();
    let object = Object::of_file(&file, BIAS).unwrap();
    // glibc 2.35 and later.
    if let Some(offset) = object.symbol(b"__rseq_offset") {
        assert!((offset.len, offset.is_function) == (8, false));
    }
}

#[test]
fn functions_by_exception_frames() {
    let file = libc();
    let object = Object::of_file(&file, 0x1000_0000).unwrap();
    let table = object.functions().unwrap();
    assert!(table.len() > 1000);
    let (mut described, mut trampolines) = (0, 0);
    for index in 0..table.len() {
        let start = table.start(index).unwrap();
        let Some((function, next)) = object.last_from(start) else { continue };
        described += 1;
        // A signal trampoline begins one byte behind the start of its description.
        trampolines += u32::from(function.start == start + 1);
        assert!(function.start - start <= 1);
        assert!(function.end > start && next >= start);
        assert_eq!(next, table.start(index + 1).unwrap_or(u64::MAX));
        if let Some((same, _)) = object.last_from(function.end - 1).filter(|_| next >= function.end) {
            assert_eq!(same, function);
        }
    }
    assert_eq!((described, trampolines), (table.len(), 1));
    assert!(object.last_from(0x1000).is_none());
    // Exported functions of known length begin where a frame begins.
    let exported = object.symbols().filter(|symbol| symbol.is_function && symbol.len > 0);
    let (mut all, mut hits) = (0, 0);
    for symbol in exported {
        all += 1;
        hits += object.last_from(symbol.address).is_some_and(|(function, _)| function.start == symbol.address) as u32;
    }
    assert!(hits * 100 >= all * 95, "{hits} of {all}");
}

#[test]
fn vdso_in_memory() {
    let (base, bytes) = common::vdso();
    let mut segments = Segments::new();
    segments.push(base, &bytes);
    let object = Object::new(base, &bytes, segments).unwrap();
    assert_eq!(object.soname(), Some(&b"linux-vdso.so.1"[..]));
    for name in ["__vdso_getcpu", "__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time"] {
        let symbol = object.symbol(name.as_bytes()).unwrap();
        assert!(symbol.is_function && symbol.address > base && symbol.address < base + bytes.len() as u64);
        assert!(object.last_from(symbol.address).is_some_and(|(function, _)| function.contains(&symbol.address)));
    }
}

/// glibc before 2.35 writes run-time addresses into the dynamic section.
#[test]
fn relocated_dynamic_section() {
    const BIAS: u64 = 0x7000_0000_0000;
    let mut file = loader();
    let dynamic = headers(&file).unwrap().find(|header| header.kind == ProgramHeader::DYNAMIC).unwrap();
    let expected = Object::of_file(&file, BIAS).unwrap().symbol(b"__tls_get_addr").map(|symbol| symbol.address);
    assert!(expected.is_some());
    let start = dynamic.offset as usize;
    for at in (start..start + dynamic.file_len as usize).step_by(16) {
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        if matches!(word(at), 4 | 5 | 6 | 0x6fff_fef5) {
            let moved = word(at + 8) + BIAS;
            file[at + 8..at + 16].copy_from_slice(&moved.to_le_bytes());
        }
    }
    let moved = Object::of_file(&file, BIAS).unwrap();
    assert_eq!(moved.symbol(b"__tls_get_addr").map(|symbol| symbol.address), expected);
}

/// Asks everything that can be asked; only panics and endless loops are wrong.
fn ask(file: &[u8]) {
    let _ = headers(file).map(Iterator::count);
    let Ok(object) = Object::of_file(file, 0x1000) else { return };
    object.symbols().take(100).for_each(|symbol| {
        std::hint::black_box(symbol);
    });
    let _ = (object.symbol(b"malloc"), object.soname(), object.build_id());
    for address in [0, 0x1000, 0x2000, 0x26428, u64::MAX] {
        let _ = object.last_from(address);
    }
    for code in object.code() {
        let head = entresol_patch::Code { bytes: &code.bytes[..code.bytes.len().min(4096)], ..code };
        let _ = entresol_patch::plan(&head, entresol_patch::Trust::Unknown, &mut Vec::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000), magic in any::<bool>()) {
        let mut file = if magic { header() } else { Vec::new() };
        file.extend(bytes);
        ask(&file);
    }

    /// A real file, cut short, with bytes changed where the headers and tables are.
    #[test]
    fn damaged_files(
        cut in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..40),
    ) {
        let mut file = loader();
        let len = file.len();
        for (at, byte, part) in changes {
            // The headers; what is found from them; anything.
            let range = [0..0x240, 0x240..0x1000, 0..len][part as usize].clone();
            file[range.start + at.index(range.len())] = byte;
        }
        if cut.index(3) == 0 {
            file.truncate(cut.index(len));
        }
        ask(&file);
    }
}

/// The linker's own table of the C library, and ours.
#[test]
fn a_table_of_frames_is_the_linkers() {
    for name in ["/libc.so", "/ld-linux-x86-64.so"] {
        let file = std::fs::read(common::loaded(name)).unwrap();
        let object = Object::of_file(&file, 0).unwrap();
        let frames = frames(&mut |at, to| read(&file, at, to)).expect("the file has section headers");
        let start = frames.start;
        let entries = search_table(object.segments(), frames).unwrap();
        let mut other = object;
        other.set_functions(start, &entries);
        let (theirs, ours) = (object.functions().unwrap(), other.functions().unwrap());
        assert!(theirs.len() > 100 && ours.len() == theirs.len(), "{name}: {} {}", ours.len(), theirs.len());
        for index in 0..theirs.len() {
            let begin = theirs.start(index).unwrap();
            assert_eq!(ours.start(index), Some(begin));
            assert_eq!(object.last_from(begin + 1), other.last_from(begin + 1), "{name}: {begin:#x}");
        }
    }
}

fn read(file: &[u8], at: u64, to: &mut [u8]) -> usize {
    let rest = usize::try_from(at).ok().and_then(|at| file.get(at..)).unwrap_or_default();
    let len = rest.len().min(to.len());
    to[..len].copy_from_slice(&rest[..len]);
    len
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Damaged section headers and frames, and ranges of frames that make no sense, give other tables or none.
    #[test]
    fn damaged_frames(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40), len in any::<u64>()) {
        let mut file = loader();
        let place = frames(&mut |at, to| read(&file, at, to)).unwrap();
        let sections = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
        let frames_at = place.start as usize..place.end as usize;
        for (index, byte) in changes {
            let at = match byte % 3 {
                0 => 40 + index.index(24),
                1 => sections + index.index(file.len() - sections),
                _ => frames_at.start + index.index(frames_at.len()),
            };
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
        }
        let found = frames(&mut |at, to| read(&file, at, to));
        let Ok(object) = Object::of_file(&file, 0) else { return Ok(()) };
        for place in [found, Some(place.start..place.start.saturating_add(len)), Some(len..u64::MAX)].into_iter().flatten() {
            if let Some(entries) = search_table(object.segments(), place.clone()) {
                let mut other = object;
                other.set_functions(place.start, &entries);
                for code in other.code() {
                    entresol_patch::plan(&code, entresol_patch::Trust::Unknown, &mut Vec::new()).unwrap();
                }
            }
        }
    }
}
