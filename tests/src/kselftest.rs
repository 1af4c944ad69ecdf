//! Linux's own test of POSIX timers, built from Debian's `linux-source` where that is installed, or from the archive that
//! `ENTRESOL_LINUX_SOURCE` names (`apt-get download linux-source-7.3` and `dpkg-deb -x` need no root). Later kernels have
//! more cases: 6.1 five, 7.3 nineteen.

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
/// What is taken of it: the test, and the headers of all tests, of which it includes more with every version.
const WANTED: [&str; 2] = ["*/tools/testing/selftests/timers/posix_timers.c", "*/tools/testing/selftests/*.h"];

/// The test. It judges times, so nothing runs beside it.
#[must_use]
pub fn trials() -> Vec<Trial> {
    let archive = archive();
    let file = archive.as_deref().unwrap_or(Path::new("linux-source.tar.xz")).to_string_lossy().into_owned();
    let needs = vec![Requirement::package("linux-source", &file)];
    let body = move || posix_timers(&archive.ok_or("no archive")?);
    vec![trial("kselftest/posix_timers", &Conditions { needs, alone: true }, body)]
}

/// The one that is asked for, or the newest one that is there.
fn archive() -> Option<PathBuf> {
    if let Some(asked) = std::env::var_os("ENTRESOL_LINUX_SOURCE") {
        return Some(asked.into());
    }
    let files = fs::read_dir(SOURCES).ok()?.flatten().map(|entry| entry.path());
    files.filter_map(|path| Some((version(&path)?, path))).max().map(|(_, path)| path)
}

/// Which kernel's it is: `linux-source-6.12.tar.xz` is later than 6.1 and 6.9.
fn version(archive: &Path) -> Option<Vec<u32>> {
    let name = archive.file_name()?.to_str()?;
    let version = name.strip_prefix("linux-source-")?.strip_suffix(".tar.xz")?;
    version.split('.').map(|part| part.parse().ok()).collect()
}

fn posix_timers(archive: &Path) -> Result<(), String> {
    let program = build(archive)?;
    let run = Run::new(program).timeout(Duration::from_secs(120));
    let (native, outcome) = (cases(&run.natively()?), run.under_entresol(&[])?);
    let ours = cases(&outcome);
    eprintln!("{}: {} cases pass, natively {}", archive.display(), ours.len(), native.len());
    ours.iter().for_each(|case| eprintln!("  {case}"));
    let missing: Vec<&String> = native.iter().filter(|case| !ours.contains(case)).collect();
    match missing[..] {
        [] if !native.is_empty() => Ok(()),
        [] => Err("not one case passes natively".to_owned()),
        _ => Err(format!("natively {missing:?} pass, too; under Entresol:\n{}", outcome.describe())),
    }
}

fn cases(outcome: &Outcome) -> Vec<String> {
    passed(&String::from_utf8_lossy(&outcome.stdout))
}

/// The cases that passed, by what they are called: `ok 2 ITIMER_PROF`, as the protocol TAP has it, or `Check itimer prof... [OK]`,
/// as older versions say. A case that failed may stand behind a remark on the same line, and begins with `not`.
fn passed(text: &str) -> Vec<String> {
    let numbered = text.lines().filter_map(|line| Some(line.strip_prefix("ok ")?.split_once(' ')?.1));
    let older = text.lines().filter_map(|line| line.strip_suffix("... [OK]"));
    numbered.chain(older).map(str::to_owned).collect()
}

fn build(archive: &Path) -> Result<PathBuf, String> {
    // A folder for each version: an archive takes half a minute to unpack.
    let name = archive.file_stem().unwrap_or_default().to_string_lossy();
    let dir = places::scratch(&format!("kselftest/{name}"));
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
    run(Command::new("cc")
        .args(["-O2", "-pthread", "-w", "-I"])
        .arg(&dir)
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .arg("-lrt"))?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_the_one_with_the_highest_number() {
        let of = |name: &str| version(Path::new(name));
        assert!(of("/usr/src/linux-source-6.12.tar.xz") > of("/usr/src/linux-source-6.9.tar.xz"));
        assert!(of("/usr/src/linux-source-7.3.tar.xz") > of("/usr/src/linux-source-6.12.tar.xz"));
        assert_eq!([of("/usr/src/linux-source-6.12"), of("/usr/src/linux-patch-6.1-rt.patch.xz")], [None, None]);
    }

    #[test]
    fn both_forms_of_the_answer_are_read() {
        let tap = "TAP version 13\n1..3\nok 1 check timer create exact\nDiff too high: 7 ns..not ok 2 ITIMER_PROF\n\
                   ok 3 check_gettime CLOCK_MONOTONIC\n# Totals: pass:2 fail:1\n";
        assert_eq!(passed(tap), ["check timer create exact", "check_gettime CLOCK_MONOTONIC"]);
        let older = "Check itimer real... [OK]\nCheck itimer prof... [FAIL]\n# Totals: pass:0\n";
        assert_eq!(passed(older), ["Check itimer real"]);
    }
}
