//! What happens when the image itself is wrong: say what and where, then end the process.

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use crate::raw;

/// Exit status of a process whose image failed (`EX_SOFTWARE` of sysexits.h).
const STATUS: u8 = 70;

/// A line that is written with one system call, so that it is not torn by other output.
struct Line {
    bytes: [u8; 1024],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.used..];
        let taken = room.len().min(text.len());
        room[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.used += taken;
        Ok(())
    }
}

/// Prints the panic by a raw write and ends the process.
pub fn die(info: &PanicInfo<'_>) -> ! {
    let mut line = Line { bytes: [0; 1024], used: 0 };
    // Writing into `Line` cannot fail; an over-long message is cut.
    let _ = writeln!(line, "entresol: the image failed: {info}");
    raw::write_stderr(&line.bytes[..line.used]);
    raw::exit_group(STATUS)
}
