//! An ELF file that is to be executed, or patched.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patch::elf::Object;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(object) = Object::of_file(bytes, 0) {
        let _ = (object.build_id(), object.soname(), object.symbol(b"main"));
        // Tables may name the same symbols again and again.
        let _ = object.symbols().take(10_000).count();
        let _ = patch::record(&object, patch::Trust::LibC);
    }
});
