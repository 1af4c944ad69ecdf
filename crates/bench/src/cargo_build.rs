//! `cargo build` of a small program: a tree of processes, each with threads, pipes, a job server and much of the
//! file system.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{fs, io};

use anyhow::ensure;

use super::child::{Outcome, Side};

/// Modules of the program, so that the compiler has something to distribute among its threads.
const MODULES: usize = 12;

/// Writes the program, without dependencies.
pub(super) fn write_program(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder.join("src"))?;
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n";
    fs::write(folder.join("Cargo.toml"), manifest)?;
    let mut main = String::new();
    for number in 0..MODULES {
        fs::write(folder.join(format!("src/m{number}.rs")), module(number))?;
        let _ = writeln!(main, "mod m{number};");
    }
    main += "fn main() {\n    let words: Vec<String> = std::env::args().collect();\n";
    for number in 0..MODULES {
        let _ = writeln!(main, "    println!(\"{{:?}}\", m{number}::count(&words));");
    }
    fs::write(folder.join("src/main.rs"), main + "}\n")
}

fn module(number: usize) -> String {
    format!(
        "use std::collections::{{BTreeMap, HashMap}};\n\
         pub fn count(words: &[String]) -> BTreeMap<String, usize> {{\n\
             let mut all: HashMap<&str, usize> = HashMap::new();\n\
             for word in words {{ *all.entry(word).or_default() += {number} + word.len(); }}\n\
             let mut sorted: Vec<_> = all.into_iter().collect();\n\
             sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));\n\
             sorted.into_iter().map(|(word, n)| (word.to_uppercase(), n)).collect()\n\
         }}\n"
    )
}

/// Builds it from nothing.
pub(super) fn run(side: Side, program: &Path, folder: &Path) -> anyhow::Result<Outcome> {
    let target = folder.join("target");
    let _ = fs::remove_dir_all(&target);
    let mut command = side.command(&super::own_path()?, program);
    command.args(["build", "--offline", "--quiet", "--jobs", "2"]).current_dir(folder);
    forget_outer_build(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let output = command.output()?;
    let took_ms = start.elapsed().as_secs_f64() * 1e3;
    ensure!(
        output.status.success(),
        "cargo build ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Outcome::Figures(BTreeMap::from([("cargo_build".to_owned(), took_ms)])))
}

/// Whatever is set for the build that we may be a part of is not for this one.
pub(super) fn forget_outer_build(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_") && text != "CARGO_HOME" || text.starts_with("RUSTC") || text == "RUSTFLAGS" {
            command.env_remove(&name);
        }
    }
}
