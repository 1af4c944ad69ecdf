//! A file of rt-app.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim::workload::rtapp::Workload;

fuzz_target!(|text: &str| {
    if let Ok(workload) = Workload::parse(text) {
        let _ = workload.fits(4);
    }
});
