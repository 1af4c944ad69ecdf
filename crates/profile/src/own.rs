//! Which of a program's code is its own, and not that of the toolchain that is linked into it.

use std::fs;
use std::ops::Range;
use std::path::Path;

use addr2line::gimli::{Dwarf, DwarfSections, EndianSlice, LittleEndian, SectionId, Unit};
use object::{Object, ObjectSection, ObjectSymbol};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Where the sources of Rust's standard library and of what it uses are said to be.
const TOOLCHAIN: [&[u8]; 2] = [b"/rustc/", b"/rust/deps/"];

/// The modules of the standard library where a wake-up can be lost, as both ways of mangling write them.
const WAITS: [&[u8]; 2] = [b"3sys4sync7condvar", b"3sys4sync14thread_parking"];

/// The addresses, in the file's own terms and ascending, of the code of source lines that are not those of Rust's
/// standard library, and of the few functions by which that waits. Empty if the program has no such library, or if that
/// is not known. At most `ranges_max` ranges: the smallest gaps are included if there are more.
#[must_use]
pub fn own_code(program: &Path, ranges_max: usize) -> Vec<Range<u64>> {
    let ranges = fs::read(program).ok().and_then(|bytes| read(&bytes)).unwrap_or_default();
    merged(ranges, ranges_max)
}

fn read(bytes: &[u8]) -> Option<Vec<Range<u64>>> {
    let file = object::File::parse(bytes).ok()?;
    let load = |id: SectionId| {
        let section = file.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
        Ok::<_, ()>(section.unwrap_or_default())
    };
    let sections = DwarfSections::load(load).ok()?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let (mut own, mut others) = (Vec::new(), 0);
    let mut units = dwarf.units();
    while let Some(header) = units.next().ok()? {
        let unit = dwarf.unit(header).ok()?;
        if is_toolchain(unit.comp_dir.map_or(&[][..], |folder| folder.slice())) {
            others += 1;
        } else {
            own_lines(&dwarf, &unit, &mut own)?;
        }
    }
    let waits = file.symbols().filter(|symbol| symbol.name_bytes().is_ok_and(is_wait));
    own.extend(waits.map(|symbol| symbol.address()..symbol.address() + symbol.size()));
    Some(own).filter(|_| others > 0)
}

/// Whether a mangled name is that of a function in which the standard library waits for a condition or parks, or wakes
/// others.
fn is_wait(name: &[u8]) -> bool {
    WAITS.iter().any(|part| name.windows(part.len()).any(|bytes| bytes == *part))
}

fn is_toolchain(path: &[u8]) -> bool {
    TOOLCHAIN.iter().any(|toolchain| path.starts_with(toolchain))
}

/// The code of a unit's lines that are in files of its own: generic functions of the library are in its unit as well.
fn own_lines<'a>(dwarf: &Dwarf<Slice<'a>>, unit: &Unit<Slice<'a>>, own: &mut Vec<Range<u64>>) -> Option<()> {
    let Some(program) = unit.line_program.clone() else { return Some(()) };
    let mut rows = program.rows();
    let mut begun = None;
    while let Some((header, row)) = rows.next_row().ok()? {
        // The linker has left out what begins at 0.
        own.extend(begun.take().filter(|&begun| begun != 0 && begun < row.address()).map(|begun| begun..row.address()));
        let Some(file) = row.file(header).filter(|_| !row.end_sequence()) else { continue };
        let paths = [file.directory(header), Some(file.path_name())].into_iter().flatten();
        let mut paths = paths.filter_map(|path| dwarf.attr_string(unit, path).ok());
        if !paths.any(|path| is_toolchain(path.slice())) {
            begun = Some(row.address());
        }
    }
    Some(())
}

/// The same in at most `ranges_max` ranges, in ascending order.
fn merged(mut ranges: Vec<Range<u64>>, ranges_max: usize) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut gaps: Vec<u64> =
        ranges.array_windows().map(|[first, second]| second.start.saturating_sub(first.end)).collect();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    // Gaps of this length and more remain.
    let least = gaps.get(ranges_max.saturating_sub(1)).map_or(0, |gap| gap + 1).max(1);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start.saturating_sub(last.end) < least => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_gaps_are_filled() {
        let ranges = || vec![50..60, 0..10, 10..20, 22..30, 100..110];
        assert_eq!(merged(ranges(), 9), [0..20, 22..30, 50..60, 100..110]);
        assert_eq!(merged(ranges(), 3), [0..30, 50..60, 100..110]);
        assert!(merged(ranges(), 1).into_iter().eq(std::iter::once(0..110)));
        assert!(merged(vec![], 3).is_empty());
    }

    /// This test is a Rust program: its own code is a part of it.
    #[test]
    #[cfg_attr(not(debug_assertions), ignore = "the release profile has no debug information")]
    fn the_standard_library_is_not_the_programs() {
        let this = std::env::current_exe().unwrap();
        let own = own_code(&this, 16);
        assert!(!own.is_empty() && own.len() <= 16, "{own:?}");
        assert!(own.iter().all(|range| range.start < range.end) && own.is_sorted_by_key(|range| range.start));
        assert!(own_code(Path::new("/bin/true"), 16).is_empty());
        assert!(own_code(Path::new("/not/there"), 16).is_empty());
    }
}
