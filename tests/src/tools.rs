//! Programs that are not of this corpus.

use libtest_mimic::Trial;

/// Their tests.
#[must_use]
pub fn trials() -> Vec<Trial> {
    Vec::new()
}
