//! Limits among the options.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = image::limits::parse(bytes);
});
