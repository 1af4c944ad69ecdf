//! The reason why the host gives the image no memory, for messages.

use abi::args::{RLIMIT_AS, RLIMIT_DATA};
use core::fmt;
use host::os;

/// Limits that may leave too little memory: name, number, what the image needs in KiB, and the shell's name.
const LIMITS: [(&str, u64, u64, &str); 2] =
    [("RLIMIT_DATA", RLIMIT_DATA, 16 << 10, "ulimit -d"), ("RLIMIT_AS", RLIMIT_AS, 32 << 10, "ulimit -v")];

/// Displayed, it names the limits that are lower than the image needs.
pub struct Shortage;

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_limited = false;
        for (name, number, needed, shell) in LIMITS {
            let limit = os::soft_limit(number).unwrap_or(u64::MAX) >> 10;
            if limit < needed {
                let and = if is_limited { ", and " } else { "" };
                write!(f, "{and}{name} is {limit} KiB, of which Entresol alone needs {needed} ({shell})")?;
                is_limited = true;
            }
        }
        if is_limited { Ok(()) } else { f.write_str("the host has none left") }
    }
}
