//! Builds something of this workspace with the profile of the running test.

use std::path::PathBuf;
use std::process::Command;

use crate::places;

/// Runs `cargo build` and names the folder that holds what was built.
///
/// # Errors
/// What cargo said.
pub fn build(what: &[&str]) -> Result<PathBuf, String> {
    let profile_dir = places::profile_dir();
    let target_dir = profile_dir.parent().ok_or("no target folder")?;
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => return Err(format!("no profile in {}", profile_dir.display())),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let answer = Command::new(cargo)
        .args(["build", "--profile", profile, "--target-dir"])
        .arg(target_dir)
        .args(what)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !answer.status.success() {
        return Err(format!("cannot build {what:?}:\n{}", String::from_utf8_lossy(&answer.stderr)));
    }
    Ok(profile_dir.to_path_buf())
}
