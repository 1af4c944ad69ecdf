//! Code: decoded from its first byte on, and searched for system calls that can be patched.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patch::{Code, Function, Trust, plan};

const ADDRESS: u64 = 0x40_0000;

fuzz_target!(|bytes: &[u8]| {
    let functions: [Function; 1] = [ADDRESS..ADDRESS + bytes.len() as u64];
    let code = Code { bytes, address: ADDRESS, functions: &functions, data: &[] };
    for trust in [Trust::LibC, Trust::Unknown] {
        let mut sites = Vec::new();
        let _ = plan(&code, trust, &mut sites);
    }
});
