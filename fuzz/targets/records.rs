//! A file of records, as `profile` and `trace` read it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    // Each record is a word at least: there is an end.
    assert!(record::records(&words).count() <= words.len());
});
