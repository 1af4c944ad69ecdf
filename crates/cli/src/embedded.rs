//! The image as it was built together with this command.

/// The bytes of `libentresol.so`.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libentresol.so"));
