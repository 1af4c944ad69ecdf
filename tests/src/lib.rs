//! Whole-program tests: the same program natively and under `entresol run`.
//!
//! The host is the oracle. A test runs a program twice, once directly and once under `entresol run --`, and
//! compares what it wrote and how it ended. Nothing here knows what a right answer is, so nothing has to be
//! kept up to date when Linux and Entresol agree; a program only has to be deterministic.
//!
//! Where to start reading:
//! - `programs/`: the corpus. Every C or C++ file below it is a test; adding one means adding a file. What a
//!   file needs beyond `cc -O2 -pthread` stands in its first lines as `//@ key: value` ([`directives`]).
//! - [`corpus`]: turns those files into tests. A file that includes `check.h` holds many `CASE`s, and each is
//!   a test of its own, so that one hang or crash hides no other result.
//! - [`torture`]: many threads that check every bit of state they have, for as long as one likes.
//! - [`tools`]: the programs that come from elsewhere (xz, sort, python3, rt-tests, a Rust crate).
//! - [`table`]: what of the host calls the corpus covers, as a table.
//! - [`stress`]: the stressors of stress-ng, verified, with their speed beside the native one.
//! - [`hardened`]: hosts that make no memory executable that was writable.
//! - [`mounted`]: `entresol mount` and `proc` beside the host's `/proc` and `entresol ps`.
//! - [`kselftest`]: Linux's own test of POSIX timers, where its sources are installed.
//! - [`run`], [`outcome`], [`hang`]: how a program is run, compared, and reported when it does not end.
//!
//! What is missing on the machine makes a test *ignored*, with a line that names the Debian package; it never
//! makes it pass. `ENTRESOL` names another binary to test. With `ENTRESOL=tests/native.sh
//! ENTRESOL_TESTS_AS=root` both runs are native, which checks the corpus itself: what differs then is not
//! deterministic.

pub mod cargo;
pub mod catch;
pub mod compile;
pub mod corpus;
pub mod directives;
pub mod entresol;
pub mod form;
pub mod hang;
pub mod hardened;
mod known;
pub mod kselftest;
pub mod mounted;
pub mod outcome;
pub mod places;
pub mod requirement;
pub mod run;
pub mod stress;
pub mod table;
pub mod tools;
pub mod torture;
pub mod trial;
