//! Small C programs of tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a C program of this name into a folder, with this level of optimization: its path.
pub fn program(folder: &Path, name: &str, text: &str, level: &str) -> PathBuf {
    let (source, program) = (folder.join(name).with_extension("c"), folder.join(name));
    fs::write(&source, text).unwrap();
    let compiled = Command::new("cc").args([level, "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.expect("a C compiler is there").success());
    program
}
