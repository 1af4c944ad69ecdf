//! Programs in Go, whose runtime makes its own threads and system calls without a C library.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// What is built, and how: without C, with Go's linker and the dynamic linker, and with the C compiler's linker.
const FORMS: [(&str, &str, &[&str]); 3] =
    [("pure", "0", &[]), ("mixed", "1", &[]), ("anywhere", "1", &["-buildmode=pie"])];

struct Place(tempfile::TempDir);

/// `None` where there is no Go.
static PLACE: LazyLock<Option<Place>> = LazyLock::new(Place::new);

fn place() -> Option<&'static Place> {
    if PLACE.is_none() {
        println!("SKIPPED: there is no Go here");
    }
    PLACE.as_ref()
}

impl Place {
    fn new() -> Option<Place> {
        Command::new("go").arg("version").output().ok().filter(|answer| answer.status.success())?;
        let place = Place(tempfile::tempdir().unwrap());
        for (source, program) in [("go.mod", "module program\ngo 1.22\n"), ("main.go", include_str!("go/main.go"))] {
            fs::write(place.path().join(source), program).unwrap();
        }
        fs::write(place.path().join("c.go"), include_str!("go/c.go")).unwrap();
        for (name, c, options) in FORMS {
            let mut build = Command::new("go");
            build.args(["build", "-o", name]).args(options).current_dir(place.path());
            build.envs([("CGO_ENABLED", c), ("GOTOOLCHAIN", "local"), ("GOFLAGS", "")]);
            if std::env::var_os("HOME").is_none() {
                build.env("GOCACHE", place.path().join("cache"));
            }
            let built = build.output().unwrap();
            assert!(built.status.success(), "{name}: {}", String::from_utf8_lossy(&built.stderr));
        }
        Some(place)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn program(&self, form: &str) -> PathBuf {
        self.path().join(form)
    }

    fn run(&self, options: &[&str], form: &str, what: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
        command.arg("run").args(options).arg("--").arg(self.program(form)).arg(what);
        command.env("XDG_CACHE_HOME", self.path()).output().expect("the command starts")
    }
}

/// Each part of the program says what it found, which is the same natively.
#[test]
fn it_does_what_it_does_natively() {
    let Some(place) = place() else { return };
    for (form, ..) in FORMS {
        for what in ["threads", "preempt", "signals", "timers", "children", "profile", "faults", "network"] {
            let native = Command::new(place.program(form)).arg(what).output().unwrap();
            let ours = place.run(&[], form, what);
            let said = String::from_utf8_lossy(&ours.stdout).into_owned();
            let expected = String::from_utf8_lossy(&native.stdout).replace("under=false", "under=true");
            assert_eq!(said, expected, "{form} {what}: {}", String::from_utf8_lossy(&ours.stderr));
            assert!(said.contains("under=true") && said.ends_with("done\n"), "{form} {what}: {said}");
            assert_eq!(ours.status.code(), native.status.code(), "{form} {what}");
        }
    }
}

/// A signal's return and what runs before patching are left: a few of each, not one for each call.
#[test]
fn its_system_calls_are_patched() {
    let Some(place) = place() else { return };
    for (form, ..) in FORMS {
        let answer = place.run(&["--stats"], form, "calls");
        let text = String::from_utf8_lossy(&answer.stderr).into_owned();
        let count = |name: &str| -> u64 {
            let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix("calls"));
            let line = lines.find(|line| line.trim_end().ends_with(name)).unwrap_or("0");
            line.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0)
        };
        assert!(count(&format!(" {form}")) > 10_000, "{form}: {text}");
        assert!(count("by dispatch") < 1000, "{form}: {text}");
    }
}
