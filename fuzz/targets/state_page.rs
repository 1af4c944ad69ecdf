//! A state page, as `ps` finds it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use state::Page;

fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    if let Ok(page) = Page::open(&words[..]) {
        let _ = page.process();
        if let Ok(snapshot) = page.snapshot() {
            assert!(snapshot.threads.len() <= page.header().capacity);
            assert_eq!(snapshot.cpus.len(), page.header().cpus);
        }
    }
});
