//! A checkpoint: what is taken is written again as the same.
#![no_main]

use api::Checkpoint;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(checkpoint) = Checkpoint::from_json(text) {
        let again = Checkpoint::from_json(&checkpoint.to_json());
        assert!(again.is_ok_and(|again| again.to_json() == checkpoint.to_json()));
    }
});
