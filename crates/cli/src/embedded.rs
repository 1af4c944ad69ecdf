//! The image as it was built together with this command.

/// The bytes of `libentresol.so`.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libentresol.so"));

/// Names the content: the first sixteen hexadecimal digits of its SHA-256.
pub const HASH: &str = env!("ENTRESOL_IMAGE_HASH");
