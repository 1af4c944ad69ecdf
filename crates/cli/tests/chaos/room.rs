//! A folder in which programs are compiled and explored.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Room {
    pub folder: tempfile::TempDir,
}

impl Room {
    pub fn new() -> Room {
        Room { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn compile(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/chaos/{name}.c"));
        let program = self.path(source.file_stem().unwrap().to_str().unwrap());
        let done = Command::new("cc").args(["-g", "-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
        assert!(done.expect("a C compiler").success());
        program
    }

    pub fn chaos(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.arg("300").arg(env!("CARGO_BIN_EXE_entresol")).arg("chaos").args(arguments);
        command.current_dir(self.folder.path()).output().expect("entresol chaos")
    }
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}
