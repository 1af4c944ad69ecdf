//! The `entresol` command under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::places;

/// The package that holds the command.
const PACKAGE: &str = "entresol";

/// The command's path: `ENTRESOL` if it is set, otherwise built here, once, with the profile of this test.
///
/// # Errors
/// What cargo said.
pub fn command() -> Result<&'static Path, String> {
    static COMMAND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let command = COMMAND.get_or_init(|| match std::env::var_os("ENTRESOL") {
        Some(path) => named(Path::new(&path)),
        None => build(),
    });
    command.as_deref().map_err(Clone::clone)
}

/// A relative path starts at the root of the workspace: cargo runs tests in the folder of their package.
fn named(path: &Path) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/"));
    root.join(path).canonicalize().map_err(|error| format!("ENTRESOL={}: {error}", path.display()))
}

fn build() -> Result<PathBuf, String> {
    let profile_dir = places::profile_dir();
    let target_dir = profile_dir.parent().ok_or("no target folder")?;
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => return Err(format!("no profile in {}", profile_dir.display())),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let answer = Command::new(cargo)
        .args(["build", "--package", PACKAGE, "--profile", profile, "--target-dir"])
        .arg(target_dir)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !answer.status.success() {
        return Err(format!("cannot build {PACKAGE}:\n{}", String::from_utf8_lossy(&answer.stderr)));
    }
    Ok(profile_dir.join("entresol"))
}
