//! Panics of the image: report the message and place, then end the process.

use core::panic::PanicInfo;

/// Prints the panic by a raw write and ends the process by SIGABRT.
pub fn die(info: &PanicInfo<'_>) -> ! {
    host::report::fatal(format_args!("the image failed: {info}"))
}
