//! `ENTRESOL_OPTIONS`.
#![no_main]

use image::options::{HZ, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let options = Options::parse(bytes, 7);
    let (slowest, fastest) = (1_000_000_000 / HZ.start(), 1_000_000_000 / HZ.end());
    assert!((fastest..=slowest).contains(&options.tick.0));
});
