//! The reason why the host gives the image no memory, for messages.

use abi::args::{RLIMIT_AS, RLIMIT_DATA};
use arch::syscall;
use core::fmt;

/// Limits that may leave too little memory: name, number, what the image needs in KiB, and the shell's name.
const LIMITS: [(&str, u64, u64, &str); 2] =
    [("RLIMIT_DATA", RLIMIT_DATA, 16 << 10, "ulimit -d"), ("RLIMIT_AS", RLIMIT_AS, 32 << 10, "ulimit -v")];

/// Displayed, it names the limits that are lower than the image needs.
pub struct Shortage;

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_limited = false;
        for (name, number, needed, shell) in LIMITS {
            let limit = soft_limit(number) >> 10;
            if limit < needed {
                let and = if is_limited { ", and " } else { "" };
                write!(f, "{and}{name} is {limit} KiB, of which Entresol alone needs {needed} ({shell})")?;
                is_limited = true;
            }
        }
        if is_limited { Ok(()) } else { f.write_str("the host has none left") }
    }
}

/// The soft limit in bytes.
fn soft_limit(number: u64) -> u64 {
    let mut limit = [u64::MAX; 2];
    // SAFETY: the host fills `limit`.
    unsafe { syscall!(abi::nr::PRLIMIT64, 0, number, 0, limit.as_mut_ptr()) };
    limit[0]
}
