//! Panics of the image: report the message and place, then end the process.

use crate::heap;
use crate::shortage::Shortage;
use core::panic::PanicInfo;

/// Prints the panic by a raw write and ends the process by SIGABRT.
pub fn die(info: &PanicInfo<'_>) -> ! {
    if heap::was_refused() {
        host::report::fatal(format_args!("no memory: {Shortage}; the image failed: {info}"));
    }
    host::report::fatal(format_args!("the image failed: {info}"))
}
