//! `entresol sim replay --from-trace`: a small program is recorded live, and replayed on other machines.

mod compiled;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Eight threads that compute, each for 20 ms of CPU time; main joins them and sleeps for 5 ms.
const FORK_JOIN: &str = r#"
    #include <pthread.h>
    #include <time.h>
    #include <unistd.h>
    static void *work(void *arg) {
        struct timespec t;
        do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); while (t.tv_sec == 0 && t.tv_nsec < 20000000);
        return arg;
    }
    int main(void) {
        pthread_t t[8];
        for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, work, 0);
        for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
        usleep(5000);
        return 0;
    }
"#;

fn entresol(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_entresol")).args(arguments).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// The trace of a live run with two CPUs.
fn recorded(folder: &Path) -> PathBuf {
    let (program, trace) = (compiled::program(folder, "fj", FORK_JOIN, "-O1"), folder.join("fj.pftrace"));
    let live = entresol(&["run", "--cpus", "2", "--trace", name(&trace), "--", name(&program)]);
    assert_eq!(live.status.code(), Some(0), "{}", text(&live.stderr));
    assert!(text(&live.stderr).contains(" 0 lost;"), "{}", text(&live.stderr));
    trace
}

#[track_caller]
fn replayed(arguments: &[&str]) -> String {
    let answer = entresol(&[&["sim", "replay", "--from-trace"], arguments].concat());
    assert_eq!(answer.status.code(), Some(0), "{arguments:?}: {}", text(&answer.stderr));
    text(&answer.stdout)
}

#[track_caller]
fn refused(arguments: &[&str], words: &str) {
    let answer = entresol(&[&["sim", "replay"], arguments].concat());
    let error = text(&answer.stderr);
    assert_eq!(answer.status.code(), Some(2), "{arguments:?}: {error}");
    assert!(error.contains(words), "{arguments:?}: {error}");
    assert!(answer.stdout.is_empty());
}

#[test]
fn a_live_program_on_other_machines() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(folder.path());
    let (page, simulated) = (folder.path().join("p.html"), folder.path().join("s.pftrace"));
    let json = replayed(&[name(&trace), "--cpus", "1,2,4,8,64", "--json", "--html", name(&page)]);
    let study: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(study["program"], "fj");
    let threads = study["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 9);
    let run: Vec<f64> = threads.iter().map(|thread| thread["run_ms"].as_f64().unwrap()).collect();
    assert!(run[..8].iter().all(|ms| *ms >= 19.0), "eight of them compute: {run:?}");
    assert!(study["waits_ended_by_threads"].as_u64() >= Some(1), "a join: {study}");
    assert_eq!(study["waits_ended_by_time"], 1, "the sleep: {study}");
    let rows = study["rows"].as_array().unwrap();
    let of = |row: &Value, what: &str| row[what].as_f64().unwrap();
    let cpus: Vec<(bool, u64)> = rows.iter().map(|r| (r["live"] == true, r["cpus"].as_u64().unwrap())).collect();
    assert_eq!(cpus, [(true, 2), (false, 1), (false, 2), (false, 4), (false, 8), (false, 64)]);
    let (path, work) = (study["critical_path_ms"].as_f64().unwrap(), study["work_ms"].as_f64().unwrap());
    for row in rows {
        let makespan = of(row, "makespan_ms");
        assert!(makespan >= work / of(row, "cpus") * 0.999, "no more CPUs than there are: {row}");
        assert!((0.0..=100.1).contains(&of(row, "utilisation_percent")), "{row}");
        assert!(row["live"] == true || makespan >= path, "{row}, path {path}");
    }
    // More CPUs make it no slower, by more than what calling idle CPUs takes, and are used less.
    for pair in rows[1..].windows(2) {
        let (fewer, more) = (&pair[0], &pair[1]);
        assert!(of(more, "makespan_ms") <= of(fewer, "makespan_ms") + 2.0, "{fewer} {more}");
        assert!(of(more, "utilisation_percent") <= of(fewer, "utilisation_percent") + 2.0, "{fewer} {more}");
    }
    assert!(of(&rows[1], "makespan_ms") > 3.0 * of(&rows[4], "makespan_ms"), "eight threads use eight CPUs: {study}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(["live, 2 CPUs", "simulated, 64 CPUs", "fj on other machines"].iter().all(|part| html.contains(part)));
    // The same again, in words, and as a trace.
    let words = |seed| replayed(&[name(&trace), "--cpus", "8", "--seed", seed, "--trace", name(&simulated)]);
    assert_eq!(words("5"), words("5"));
    assert!(words("1").contains("simulated, 8 CPUs"));
    assert!(!perfetto::read(&fs::read(&simulated).unwrap()).expect("it is a trace").is_empty());
    // A simulated run is no recording: nothing says there what ended its waits.
    refused(&["--from-trace", name(&simulated)], "made thread");
    assert!(
        replayed(&[name(&trace), "--policy", "fifo", "--costs", "smp2007"]).contains("costs smp2007, policies fifo")
    );
    let whole = fs::read(&trace).unwrap();
    fs::write(&trace, &whole[..whole.len() / 2]).unwrap();
    refused(&["--from-trace", name(&trace)], "its end is missing");
}

#[test]
fn what_cannot_be_replayed_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    fs::write(&other, "int main(void) { return 0; }\n").unwrap();
    let missing = folder.path().join("missing");
    let (other, missing) = (name(&other), name(&missing));
    refused(&["--from-trace", missing], "cannot read");
    refused(&["--from-trace", other], "record it again with `entresol run --trace FILE -- PROGRAM`");
    refused(&["--from-trace", other, "--cpus", "0"], "--cpus");
    refused(&["--from-trace", other, "--cpus", "2,x"], "--cpus");
    refused(&["--from-trace", other, "--policy", "best"], "--policy");
    refused(&["--cpus", "2"], "FILE");
    refused(&["file.json", "--from-trace", other], "cannot be used with");
    refused(&["file.json", "--seed", "3"], "cannot be used with");
    refused(&["file.json", "--cpus", "3"], "cannot be used with");
}
