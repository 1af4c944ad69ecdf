//! Programs that are not of the C corpus: a Rust crate, python3, and tools that everyone has. `ENTRESOL_FULL=1`
//! gives them their full size.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;

use crate::compile::compile;
use crate::directives::Directives;
use crate::form::Form;
use crate::outcome::compare;
use crate::requirement::Requirement;
use crate::run::{Run, public};
use crate::trial::{Conditions, trial};
use crate::{cargo, entresol, places};

const MIB: usize = 1 << 20;

/// Their tests.
#[must_use]
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (name, options) in WAYS {
        trials.push(trial(format!("rustmix{name}"), &needs(&[]), move || same_outcome(&rustmix()?, options)));
        trials.push(trial(format!("python{name}"), &needs(&[("python3", PYTHON)]), move || {
            same_outcome(&Run::new(PYTHON).args([places::programs().join("python/threads.py")]), options)
        }));
        trials.push(trial(format!("shell{name}"), &needs(&[]), move || shell(options)));
        trials.push(trial(format!("sort{name}"), &needs(&[]), move || sort(options)));
        if options.is_empty() || full() {
            trials.push(trial(format!("xz{name}"), &needs(&[("xz-utils", XZ)]), move || xz(options)));
        }
    }
    trials.push(trial("nested", &needs(&[]), nested));
    trials.push(trial("strace", &needs(&[("strace", STRACE), ("python3", PYTHON)]), strace));
    trials.push(trial("gdb", &needs(&[("gdb", GDB), ("python3", PYTHON)]), gdb));
    let rt_tests = Conditions { alone: true, ..needs(&[("rt-tests", "rt-migrate-test")]) };
    trials.push(trial("rt-migrate-test", &rt_tests, rt_migrate_test));
    trials.push(trial("rt-migrate-test/few-cores", &rt_tests, rt_migrate_test_on_few_cores));
    trials.push(trial("cyclictest", &rt_tests, cyclictest));
    trials
}

const WAYS: [(&str, &[&str]); 3] = [("", &[]), ("@1", &["--cpus", "1"]), ("@4", &["--cpus", "4", "--hz", "20000"])];
/// Debian's own: another one on the search path may be a script around it.
const PYTHON: &str = "/usr/bin/python3";
const XZ: &str = "/usr/bin/xz";
const STRACE: &str = "/usr/bin/strace";
const GDB: &str = "/usr/bin/gdb";

fn needs(packages: &[(&str, &str)]) -> Conditions {
    let needs = packages.iter().map(|(name, file)| Requirement::package(name, file)).collect();
    Conditions { needs, alone: false }
}

fn full() -> bool {
    std::env::var_os("ENTRESOL_FULL").is_some()
}

fn same_outcome(run: &Run, options: &[&str]) -> Result<(), String> {
    compare(&run.natively()?, &run.under_entresol(options)?, true)
}

/// A program with threads whose end says that all of them have done their part.
const TRACED: &str = "
import sys, threading
count, lock = [0], threading.Lock()
def work():
    for _ in range(500):
        with lock: count[0] += 1
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(count[0])
sys.exit(7 if count[0] == 3000 else 8)
";

/// Tracer and tracee are both under Entresol.
fn strace() -> Result<(), String> {
    same_outcome(&Run::new(STRACE).args(["-f", "-o", "/dev/null", PYTHON, "-c", TRACED]), &[])
}

/// What gdb says of threads differs: it sees host threads. Two races of its own are kept out (CAVEATS, Rights): it fails if a
/// host thread that the C library told it of has ended when it asks for it, so it is not to ask the C library; and it fails
/// if the program ends while it looks at a host thread that has got a tick, so the program is at rest for a moment before it
/// ends. The program must run to its end.
fn gdb() -> Result<(), String> {
    let traced = TRACED.replace("sys.exit", "import time; time.sleep(0.2)\nsys.exit");
    let alone = "set libthread-db-search-path /nonexistent";
    let quiet = "handle SIGSYS SIG32 SIG33 nostop noprint pass";
    let script =
        r#"exec "$0" -q -batch -return-child-result -iex "$1" -ex "$2" -ex run --args "$3" -c "$4" >/dev/null 2>&1"#;
    same_outcome(&Run::new("/bin/sh").args(["-c", script, GDB, alone, quiet, PYTHON, &traced]), &[])
}

fn rustmix() -> Result<Run, String> {
    let dir = cargo::build(&["--package", env!("CARGO_PKG_NAME"), "--example", "rustmix"])?;
    Ok(Run::new(dir.join("examples/rustmix")))
}

/// The compressed files must be equal: blocks of several threads, in order.
fn xz(options: &[&str]) -> Result<(), String> {
    let data = words(if full() { 64 * MIB } else { 26 * MIB })?;
    let run = Run::new(XZ).args(["-T2", "-3", "-c"]).args([data]).timeout(Duration::from_secs(300));
    same_output("xz", &run, options)
}

fn sort(options: &[&str]) -> Result<(), String> {
    let data = words(if full() { 200 * MIB } else { 16 * MIB })?;
    let mut run = Run::new("/usr/bin/sort").args(["--parallel=2"]).args([data]).timeout(Duration::from_secs(300));
    run.env.push(("LC_ALL".into(), "C".into()));
    same_output("sort", &run, options)
}

/// Compares outputs too large to be kept in memory, by their digest.
fn same_output(name: &str, run: &Run, options: &[&str]) -> Result<(), String> {
    let dir = places::scratch("outputs");
    let unique = format!("{name}{}", options.join(""));
    let (expected, got) = (dir.join(format!("{unique}-native")), dir.join(format!("{unique}-entresol")));
    compare(&run.clone().output(&expected).natively()?, &run.clone().output(&got).under_entresol(options)?, true)?;
    let digests = (digest(&expected)?, digest(&got)?);
    for file in [expected, got] {
        std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if digests.0 == digests.1 { Ok(()) } else { Err(format!("natively {}, under Entresol {}", digests.0, digests.1)) }
}

fn digest(file: &Path) -> Result<String, String> {
    let answer = Command::new("sha256sum").arg(file).output().map_err(|error| format!("sha256sum: {error}"))?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let digest = text.split_whitespace().next().map(str::to_owned);
    digest.ok_or_else(|| format!("sha256sum {}: {}", file.display(), answer.status))
}

/// A file of lines that compress and sort like text does; always the same for a size, so made once.
fn words(size: usize) -> Result<PathBuf, String> {
    use std::sync::Mutex;
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let path = places::scratch("data").join(format!("words-{size}"));
    if path.exists() {
        return Ok(path);
    }
    let part = path.with_extension("part");
    let made = write_words(&part, size).and_then(|()| std::fs::rename(&part, &path));
    made.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

fn write_words(path: &Path, size: usize) -> io::Result<()> {
    const SYLLABLES: [&str; 16] =
        ["ba", "den", "fi", "gor", "hal", "ju", "kem", "lo", "mir", "nas", "po", "rul", "sat", "tev", "win", "zo"];
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    let (mut state, mut written) = (1u64, 0);
    while written < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let syllable = |shift: u32| SYLLABLES[(state >> shift & 15) as usize];
        let (first, second, third) = (syllable(60), syllable(56), syllable(52));
        let line = format!("{first}{second} the {third}{first}{second} and {second}{third} {}\n", state >> 40 & 0xfff);
        written += line.len();
        file.write_all(line.as_bytes())?;
    }
    file.flush()
}

/// Pipes, subshells, background jobs, traps: every process of it runs under Entresol.
fn shell(options: &[&str]) -> Result<(), String> {
    let script = r#"
        seq 1 30000 | grep -v 7 | sort -rn | head -n 100 | tail -n 3
        total=0; for i in 1 2 3 4 5 6 7 8 9 10; do total=$((total + $(echo $i))); done; echo $total
        (sleep 0.1; echo late) & wait $!; echo status $?
        (exit 7) & wait $!; echo status $?
        trap 'echo trapped' USR1; kill -USR1 $$; echo after
        sh -c 'kill -SEGV $$' 2>/dev/null; echo segv $?
        yes | head -n 100000 | cksum
        exec sh -c 'exit 9'
    "#;
    same_outcome(&Run::new("/bin/sh").args(["-c", script]), options)
}

/// `run` inside `run`: one image, and the inner options win.
fn nested() -> Result<(), String> {
    let script = "nproc; exec seq 3";
    let native = Run::new("/bin/sh").args(["-c", "echo 1; exec seq 3"]).natively()?;
    let inner = ["run", "--cpus", "1", "--", "/bin/sh", "-c", script];
    let ours = Run::new(entresol::command()?).args(inner).under_entresol(&["--cpus", "2"])?;
    compare(&native, &ours, true)
}

/// Wakes more real-time threads than there are CPUs and complains when the wrong ones run. It takes ten seconds.
fn rt_migrate_test() -> Result<(), String> {
    rt_migrate(2)
}

/// The same with more CPUs than the host has, if that has two.
fn rt_migrate_test_on_few_cores() -> Result<(), String> {
    rt_migrate(4)
}

fn rt_migrate(cpus: u32) -> Result<(), String> {
    let runs = if full() { 20 } else { 3 };
    for number in 1..=runs {
        let run = Run::new("/usr/bin/rt-migrate-test").args(["-c", &(cpus + 1).to_string()]);
        let outcome = run.under_entresol_as_nobody(&["--cpus", &cpus.to_string()])?;
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let longest =
            text.lines().filter_map(|line| line.trim().strip_prefix("Max:")).next_back().unwrap_or_default().trim();
        println!("rt-migrate-test on {cpus} CPUs, run {number}: highest thread at most {longest}");
        if !outcome.succeeded() || !text.contains("Passed!") {
            return Err(format!("run {number} of {runs}: {}", outcome.describe()));
        }
    }
    Ok(())
}

/// Its figures are printed and not judged: alone, and with two threads that spin in its own process, which a library
/// brings in (`tests/programs/sched/spinners.c`).
fn cyclictest() -> Result<(), String> {
    let spinners = places::programs().join("sched/spinners.c");
    let directives = Directives { flags: vec!["-fPIC".to_owned(), "-shared".to_owned()], ..Directives::default() };
    let library = compile(&spinners, &directives, Form::Dynamic)?.program;
    measure_cyclictest("idle", Run::new("/usr/bin/cyclictest"))?;
    let preload = format!("LD_PRELOAD={}", public(&library)?.display());
    measure_cyclictest("beside two spinning threads", Run::new("/usr/bin/env").args([&preload, "/usr/bin/cyclictest"]))
}

fn measure_cyclictest(how: &str, run: Run) -> Result<(), String> {
    let args = ["--quiet", "--default-system", "--threads=2", "--priority=80", "--interval=1000", "--loops=1000"];
    let outcome = run.args(args).under_entresol_as_nobody(&["--cpus", "2", "--stats"])?;
    let errors = String::from_utf8_lossy(&outcome.stderr);
    if !outcome.succeeded() || errors.contains("cannot be preloaded") {
        return Err(outcome.describe());
    }
    for line in String::from_utf8_lossy(&outcome.stdout).lines().filter(|line| line.starts_with("T:")) {
        println!("cyclictest, {how}: {line}");
    }
    for line in errors.lines().filter(|line| line.contains("stolen")) {
        println!("cyclictest, {how}:{line}");
    }
    Ok(())
}
