//! A trace, as a replay reads it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim::workload::recorded::Recording;

fuzz_target!(|bytes: &[u8]| {
    for process in perfetto::read(bytes).into_iter().flatten() {
        let _ = Recording::new(&process);
    }
});
