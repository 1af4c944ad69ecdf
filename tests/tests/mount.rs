//! `entresol mount` and `entresol proc`, live.

use std::process::ExitCode;

use entresol_tests::mounted;
use libtest_mimic::Arguments;

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), mounted::trials()).exit_code()
}
