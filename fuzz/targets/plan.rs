//! A plan beside the image, recalled for some code: every site lies in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patch::{Code, Function};

const ID: &[u8] = b"\x01\x02\x03\x04";
const ADDRESS: u64 = 0x1000;

fuzz_target!(|bytes: &[u8]| {
    let code_bytes: Vec<u8> = [0x0f, 0x05, 0x90, 0xc3].repeat(64);
    let functions: [Function; 1] = [ADDRESS..ADDRESS + code_bytes.len() as u64];
    let code = Code { bytes: &code_bytes, address: ADDRESS, functions: &functions, data: &[] };
    let mut sites = Vec::new();
    match patch::recall(bytes, ID, 0, &code, &mut sites) {
        Ok(Some(())) => {}
        _ => assert!(sites.is_empty()),
    }
});
