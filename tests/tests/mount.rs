//! `entresol mount` and `entresol proc`, live.

use std::process::ExitCode;

use entresol_tests::{mounted, places};
use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let conclusion = libtest_mimic::run(&Arguments::from_args(), mounted::trials());
    places::clean();
    conclusion.exit_code()
}
