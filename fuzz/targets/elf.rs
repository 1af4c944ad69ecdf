//! An ELF file that is to be executed, or patched.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patch::elf::Object;

fuzz_target!(|bytes: &[u8]| {
    let mut read = |at: u64, to: &mut [u8]| {
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
        let len = rest.len().min(to.len());
        to[..len].copy_from_slice(&rest[..len]);
        len
    };
    let _ = patch::program::inspect(&mut read);
    if let Ok(layout) = patch::program::Layout::read(&mut read) {
        let span = layout.span();
        assert!(layout.segments.iter().all(|segment| span.contains(&segment.pages().start)));
        assert!(span.end <= 1 << 47 && layout.segments.is_sorted_by_key(|segment| segment.address));
    }
    if let Ok(object) = Object::of_file(bytes, 0) {
        let _ = (object.build_id(), object.soname(), object.symbol(b"main"));
        // Tables may name the same symbols again and again.
        let _ = object.symbols().take(10_000).count();
        let _ = patch::record(&object, patch::Trust::LibC);
    }
});
