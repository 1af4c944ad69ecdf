//! `entresol profile`: programs with known functions, and what the profile says of them.
//!
//! Shares are judged by CPU time that the program itself reads, so that a slow or busy machine changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use profile::pprof::PprofProfile;
use prost::Message;

/// Functions that do so much work in threads of their own, and say how much CPU time that took. The work is a chain of products,
/// which takes as long as it is long: how fast a loop over a word in memory runs hangs on where it lies (on Zen 4 by a factor of two).
const SPIN: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <time.h>
    #include <unistd.h>
    static long clock_of(int clock) {
        struct timespec t;
        clock_gettime(clock, &t);
        return t.tv_sec * 1000000000L + t.tv_nsec;
    }
    #define SPIN(name, millions)                                                    \
        __attribute__((noinline)) long name(void) {                                 \
            long x = 1;                                                             \
            for (long n = 0; n < millions * 1000000L; n++)                          \
                __asm__ volatile("imul $3, %0, %0" : "+r"(x));                      \
            return x;                                                               \
        }                                                                           \
        void *in_##name(void *a) {                                                  \
            name();                                                                 \
            printf("%s %ld\n", #name, clock_of(CLOCK_THREAD_CPUTIME_ID));           \
            return a;                                                               \
        }
"#;

/// Different amounts one after another: what the host takes from threads that compete may be taken back from the wrong one.
const AMOUNTS: &str = r#"
    SPIN(spin_together, 35)
    SPIN(spin_one, 70) SPIN(spin_two, 140) SPIN(spin_three, 210)
    int main(void) {
        void *(*all[])(void *) = { in_spin_one, in_spin_two, in_spin_three };
        pthread_t t[3];
        for (int i = 0; i < 3; i++) { pthread_create(&t[i], 0, all[i], 0); pthread_join(t[i], 0); }
        for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, in_spin_together, 0);
        for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    }
"#;

/// Spins in a library that is loaded late, and in a child, and ends by a signal.
const ELSEWHERE: &str = r#"
    SPIN(spin_child, 70)
    int main(int argc, char **argv) {
        if (fork() == 0) { in_spin_child(0); fflush(stdout); _exit(0); }
        wait(0);
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library) return 1;
        ((void *(*)(void *))dlsym(library, "in_spin_late"))(0);
        fflush(stdout);
        abort();
    }
"#;
const LATE: &str = "SPIN(spin_late, 70)";

/// A thread that waits while another does too.
const PARKED: &str = r#"
    __attribute__((noinline)) void *parked_here(void *a) { usleep(300000); return a; }
    int main(void) {
        pthread_t t;
        pthread_create(&t, 0, parked_here, 0);
        pthread_join(t, 0);
    }
"#;

fn compile(folder: &Path, name: &str, text: &str, flags: &[&str]) -> PathBuf {
    let (source, file) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, format!("{SPIN}{text}")).unwrap();
    let mut command = Command::new("cc");
    command.args(["-O1", "-pthread", "-Wno-unused"]).args(flags).arg("-o").arg(&file).arg(&source).arg("-ldl");
    assert!(command.status().expect("a C compiler is there").success());
    file
}

fn profile(folder: &Path, options: &[&str], command: &[&Path]) -> (Output, PprofProfile) {
    let to = folder.join("p.pb.gz");
    let mut profile = Command::new(env!("CARGO_BIN_EXE_entresol"));
    let output = profile.arg("profile").arg("-o").arg(&to).args(options).arg("--").args(command).output().unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(&to).unwrap()).read_to_end(&mut bytes).unwrap();
    (output, PprofProfile::decode(&*bytes).expect("it is what pprof reads"))
}

/// One sample: its functions, innermost first, and its values.
struct Seen {
    functions: Vec<String>,
    values: Vec<i64>,
    pid: i64,
}

fn seen(profile: &PprofProfile) -> Vec<Seen> {
    let text = |at: i64| profile.string_table[at as usize].clone();
    let functions: BTreeMap<u64, String> = profile.function.iter().map(|f| (f.id, text(f.name))).collect();
    let places: BTreeMap<u64, Vec<String>> = profile
        .location
        .iter()
        .map(|l| (l.id, l.line.iter().map(|l| functions[&l.function_id].clone()).collect()))
        .collect();
    let one = |sample: &profile::pprof::PprofSample| Seen {
        functions: sample.location_id.iter().flat_map(|id| places[id].clone()).collect(),
        values: sample.value.clone(),
        pid: sample.label.iter().find(|label| text(label.key) == "pid").map_or(0, |label| label.num),
    };
    profile.sample.iter().map(one).collect()
}

/// The sum of one value over all samples with this function.
fn sum(seen: &[Seen], function: &str, value: usize) -> i64 {
    seen.iter().filter(|s| s.functions.iter().any(|f| f == function)).map(|s| s.values[value]).sum()
}

/// CPU time of threads that ended before they were sampled.
fn unsampled(profile: &PprofProfile) -> i64 {
    let comment = &profile.string_table[profile.comment[0] as usize];
    assert!(comment.contains(" samples, 0 lost; "), "{comment}");
    comment.split("; ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|n| n.parse().ok()).expect("it is told")
}

/// What the program's functions say that they have consumed, nanoseconds.
fn said(output: &Output) -> BTreeMap<String, i64> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, ns)| (name.to_owned(), ns.parse().unwrap()))
        .collect()
}

#[test]
fn functions_have_the_time_that_they_consumed() {
    let folder = tempfile::tempdir().unwrap();
    // With tables and without frame pointers, and the other way round.
    for flags in [&["-fomit-frame-pointer"][..], &["-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"]] {
        let program = compile(folder.path(), "amounts", AMOUNTS, flags);
        let (output, profile) = profile(folder.path(), &[], &[&program]);
        assert!(output.status.success());
        let (seen, rest) = (seen(&profile), unsampled(&profile));
        let mut said = said(&output);
        assert_eq!(said.len(), 4);
        assert!(said.remove("spin_together").is_some() && sum(&seen, "spin_together", 1) > 0);
        for (function, consumed) in said {
            let sampled = sum(&seen, &function, 1);
            // What its thread's clock says, but for what the host took and was taken back before or since.
            assert!(sampled <= consumed + consumed / 4, "{function}: {sampled} of {consumed}");
            assert!(sampled + rest >= consumed - consumed / 4, "{function}: {sampled} and {rest} of {consumed}");
            // All of its thread's time, but for its beginning and end.
            let whole = sum(&seen, &format!("in_{function}"), 1).max(sampled);
            assert!(sampled >= whole - whole / 10, "{function}: {sampled} of its thread's {whole}");
            let caller = format!("in_{function}");
            let torn = seen.iter().filter(|s| s.functions.contains(&function) && !s.functions.contains(&caller));
            let torn: i64 = torn.map(|s| s.values[1]).sum();
            // Frame pointers alone miss the caller of who is just making or leaving its frame.
            assert!(torn <= sampled / 10, "{function}: {torn} of {sampled} without the caller");
        }
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(" 0 lost"), "{error}");
    }
}

#[test]
fn children_and_late_libraries_are_in_it_and_a_fatal_signal_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "elsewhere", ELSEWHERE, &[]);
    let library = compile(folder.path(), "late.so", LATE, &["-shared", "-fPIC"]);
    let (output, profile) = profile(folder.path(), &[], &[&program, &library]);
    assert_eq!(output.status.code(), Some(128 + libc::SIGABRT));
    let seen = seen(&profile);
    for (function, consumed) in said(&output) {
        let sampled = sum(&seen, &function, 1);
        assert!(sampled > 0 && sampled <= consumed + consumed / 4, "{function}: {sampled} of {consumed}");
    }
    let of = |function: &str| seen.iter().find(|s| s.functions.iter().any(|f| f == function)).map(|s| s.pid);
    assert_ne!(of("spin_child"), of("spin_late"), "two processes");
}

#[test]
fn by_the_wall_clock_threads_that_wait_count() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "parked", PARKED, &[]);
    let (output, by_wall) = profile(folder.path(), &["--clock", "wall"], &[&program]);
    assert!(output.status.success());
    let seen = seen(&by_wall);
    let (samples, wall) = (sum(&seen, "parked_here", 0), sum(&seen, "parked_here", 2));
    assert!(samples > 0);
    assert_eq!(wall, samples * by_wall.period);
    assert!(sum(&seen, "main", 0) > 0, "who waits for it, too");
    let (_, by_cpu) = profile(folder.path(), &[], &[&program]);
    assert_eq!(by_cpu.sample_type.len(), 2);
}

#[test]
fn a_flame_graph_is_written_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "amounts", AMOUNTS, &[]);
    let picture = folder.path().join("p.svg");
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    let output = command.arg("profile").arg("-o").arg(&picture).arg(&program).output().unwrap();
    assert!(output.status.success());
    let picture = fs::read_to_string(picture).unwrap();
    assert!(picture.contains("<svg") && picture.contains("spin_three"));
}

#[test]
fn what_makes_no_sense_is_refused_before_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let touched = folder.path().join("touched");
    let refused = |options: &[&str], reason: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
        let output = command.arg("profile").args(options).args(["--", "touch"]).arg(&touched).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{options:?}: {error}");
        assert!(error.contains(reason), "{error}");
    };
    refused(&["-o", "/no/such/folder/p.pb.gz"], "cannot write /no/such/folder");
    refused(&["-o", "/tmp/a.svg", "--flame", "/tmp/b.svg"], "two flame graphs");
    refused(&["--hz", "0"], "0");
    assert!(!touched.exists());
}
