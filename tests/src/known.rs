//! Differences from Linux that are known: `tests/known.txt` names the tests and the causes.
//! They count as ignored, never as passed, and each stands in CAVEATS. `ENTRESOL_KNOWN=run`
//! runs them all the same.

use std::sync::LazyLock;

static KNOWN: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let lines = include_str!("../known.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(": ").expect("known.txt has lines `test: cause`")).collect()
});

/// The cause, if the test's result is known to differ.
pub fn difference(test: &str) -> Option<&'static str> {
    if std::env::var_os("ENTRESOL_KNOWN").is_some_and(|how| how == "run") {
        return None;
    }
    KNOWN.iter().find(|(name, _)| *name == test).map(|(_, cause)| *cause)
}
