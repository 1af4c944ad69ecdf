//! The `entresol` command: everything is in the library part.

use std::process::ExitCode;

// SAFETY: `.init_array` holds pointers to functions that the C library calls before `main`; this one needs nothing
// that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = entresol_cli::inherited::remember;

fn main() -> ExitCode {
    entresol_cli::main()
}
