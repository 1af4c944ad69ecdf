//! The `entresol` command under test.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::cargo;

/// The command's path: `ENTRESOL` if it is set, otherwise built here, once, with the profile of this test.
///
/// # Errors
/// What cargo said.
pub fn command() -> Result<&'static Path, String> {
    static COMMAND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let command = COMMAND.get_or_init(|| match std::env::var_os("ENTRESOL") {
        Some(path) => named(Path::new(&path)),
        None => cargo::build(&["--package", "entresol", "--bin", "entresol"]).map(|dir| dir.join("entresol")),
    });
    command.as_deref().map_err(Clone::clone)
}

/// A relative path starts at the root of the workspace: cargo runs tests in the folder of their package.
fn named(path: &Path) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/"));
    root.join(path).canonicalize().map_err(|error| format!("ENTRESOL={}: {error}", path.display()))
}
