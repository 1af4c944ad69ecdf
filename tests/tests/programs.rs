//! The whole corpus; `cargo test -p entresol-tests -- futex/` runs a part of it.

use std::process::ExitCode;
use std::thread::available_parallelism;

use entresol_tests::{corpus, kselftest, places, stress, table, tools, torture};
use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Half of the time that they take, programs of the corpus sleep.
    arguments.test_threads.get_or_insert(2 * available_parallelism().map_or(1, Into::into));
    let mut trials = match corpus::trials() {
        Ok(trials) => trials,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    trials.extend(torture::trials());
    trials.extend(tools::trials());
    trials.extend(stress::trials());
    trials.extend(table::trials());
    trials.extend(kselftest::trials());
    let conclusion = libtest_mimic::run(&arguments, trials);
    places::clean();
    conclusion.exit_code()
}
