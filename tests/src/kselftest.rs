//! Linux's own test of POSIX timers, built from Debian's `linux-source` where that is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;

use crate::outcome::Outcome;
use crate::places;
use crate::requirement::Requirement;
use crate::run::Run;
use crate::trial::{Conditions, trial};

/// Where the package puts its archive.
const SOURCES: &str = "/usr/src";
/// What is taken of it: the test, and the header that it includes.
const WANTED: [&str; 2] = ["*/tools/testing/selftests/timers/posix_timers.c", "*/tools/testing/selftests/kselftest.h"];

/// The test. It judges times, so nothing runs beside it.
#[must_use]
pub fn trials() -> Vec<Trial> {
    let archive = archive();
    let file = archive.as_deref().unwrap_or(Path::new("linux-source.tar.xz")).to_string_lossy().into_owned();
    let needs = vec![Requirement::package("linux-source", &file)];
    let body = move || posix_timers(&archive.ok_or("no archive")?);
    vec![trial("kselftest/posix_timers", &Conditions { needs, alone: true }, body)]
}

/// The newest one that is there.
fn archive() -> Option<PathBuf> {
    let files = fs::read_dir(SOURCES).ok()?.flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("linux-source-") && name.ends_with(".tar.xz")
    };
    files.filter(is_one).max()
}

fn posix_timers(archive: &Path) -> Result<(), String> {
    let program = build(archive)?;
    let run = Run::new(program).timeout(Duration::from_secs(120));
    let (native, ours) = (passed(&run.natively()?), run.under_entresol(&[])?);
    let all = passed(&ours);
    let missing: Vec<&String> = native.iter().filter(|case| !all.contains(case)).collect();
    match missing[..] {
        [] if !native.is_empty() => Ok(()),
        [] => Err("not one case passes natively".to_owned()),
        _ => Err(format!("natively {missing:?} pass, too; under Entresol:\n{}", ours.describe())),
    }
}

/// The cases that passed, by what they are called.
fn passed(outcome: &Outcome) -> Vec<String> {
    let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.strip_prefix("ok ")?.split_once(' '));
    // Older ones say nothing but how many.
    names
        .map(|(_, name)| name.to_owned())
        .chain(text.lines().filter(|l| l.ends_with("[OK]")).map(str::to_owned))
        .collect()
}

fn build(archive: &Path) -> Result<PathBuf, String> {
    let dir = places::scratch("kselftest");
    let run = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{command:?}: {error}")),
    };
    let source = dir.join("timers/posix_timers.c");
    if !source.exists() {
        let unpack = ["--strip-components=4", "--wildcards"];
        run(Command::new("tar").arg("-C").arg(&dir).arg("-xJf").arg(archive).args(unpack).args(WANTED))?;
    }
    let program = dir.join("posix_timers");
    run(Command::new("cc").args(["-O2", "-pthread", "-w", "-o"]).arg(&program).arg(&source).arg("-lrt"))?;
    Ok(program)
}
