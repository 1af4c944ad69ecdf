//! Limits on CPU time beyond Linux, on real programs.

mod compiled;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    static long clock_of(int clock) {
        struct timespec t;
        clock_gettime(clock, &t);
        return t.tv_sec * 1000000000L + t.tv_nsec;
    }
    static volatile sig_atomic_t heard;
    static void on_signal(int signal) { heard = signal; }
    /* Until a signal came, or so much CPU time is used up. */
    static void spin(long ms) { while (!heard && clock_of(CLOCK_THREAD_CPUTIME_ID) < ms * 1000000L) ; }
    static void *spinner(void *a) { spin(20000); return a; }
    static void *group(void *a) {
        pthread_setname_np(pthread_self(), "slow-1");
        long wall = clock_of(CLOCK_MONOTONIC), cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
        while (clock_of(CLOCK_MONOTONIC) - wall < 500000000L) ;
        cpu = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
        wall = clock_of(CLOCK_MONOTONIC) - wall;
        printf("%ld %ld\n", wall, cpu);
        return a;
    }
    /* The CPUs that a thread of this name may use, as bits, and whether it is on one of them. */
    static void *cpus(void *name) {
        pthread_setname_np(pthread_self(), name);
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
        long bits = 0;
        for (int i = 0; i < 8; i++) bits |= (long)!!CPU_ISSET(i, &set) << i;
        printf("%ld %ld\n", bits, bits >> sched_getcpu() & 1);
        return name;
    }
    int main(int argc, char **argv) {
        pthread_t t;
        if (!strcmp(argv[1], "spin")) spin(20000);
        if (!strcmp(argv[1], "soft")) {
            signal(SIGUSR1, on_signal);
            spin(20000);
            printf("%d %ld\n", heard, clock_of(CLOCK_PROCESS_CPUTIME_ID));
        }
        if (!strcmp(argv[1], "thread")) {
            pthread_create(&t, 0, spinner, 0);
            pthread_join(t, 0);
            printf("joined\n");
        }
        if (!strcmp(argv[1], "group")) {
            pthread_create(&t, 0, group, 0);
            pthread_join(t, 0);
        }
        if (!strcmp(argv[1], "cpus")) {
            pthread_create(&t, 0, cpus, "rt-1");
            pthread_join(t, 0);
            cpus("limited");
        }
        if (!strcmp(argv[1], "join")) printf("%ld\n", syscall(0x454e0010, 0, argv[2]));
        return 0;
    }
"#;

fn program(folder: &Path) -> PathBuf {
    compiled::program(folder, "limited", PROGRAM, "-O1")
}

fn run(options: &[&str], program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.arg("run").args(options).arg("--").arg(program).args(arguments).output().unwrap()
}

fn numbers(output: &Output) -> Vec<i64> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.split_whitespace().map(|n| n.parse().unwrap_or_else(|_| panic!("{text}"))).collect()
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_hard_limit_ends_the_process_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["--cpu-limit", "60ms"], &program(folder.path()), &["spin"]);
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{}", error(&output));
    assert!(error(&output).contains("--cpu-limit"), "{}", error(&output));
}

#[test]
fn a_soft_limit_is_a_signal_and_not_early() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["--cpu-limit", "60ms:soft=USR1"], &program(folder.path()), &["soft"]);
    let [signal, consumed] = numbers(&output)[..] else { panic!("{output:?}") };
    assert_eq!(signal, i64::from(libc::SIGUSR1));
    assert!(consumed >= 60_000_000, "{consumed}");
    assert!(output.status.success());
}

#[test]
fn a_thread_ends_at_its_limit_and_can_be_joined() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["--cpu-limit", "thread:80ms"], &program(folder.path()), &["thread"]);
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"joined\n"[..], Some(0)), "{}", error(&output));
    assert!(error(&output).contains("thread"), "{}", error(&output));
}

#[test]
fn a_group_has_no_more_than_its_share_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--stats", "--group", "slow:match=slow-*", "--group", "slow=cpu.max:20%/10ms"];
    let output = run(&options, &program(folder.path()), &["group"]);
    let [wall, cpu] = numbers(&output)[..] else { panic!("{output:?}") };
    // A tick's worth may be owed in the end, or what the host took and nobody has told us yet.
    assert!(cpu <= wall / 5 + 30_000_000, "{cpu} in {wall}");
    let summary = error(&output);
    assert!(summary.contains("group slow"), "{summary}");
}

#[test]
fn a_thread_joins_a_group_by_a_private_call() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    assert_eq!(numbers(&run(&["--group", "web"], &program, &["join", "web"])), [0]);
    assert_eq!(numbers(&run(&["--group", "web"], &program, &["join", "other"])), [-1]);
    assert_eq!(numbers(&run(&[], &program, &["join", "web"])), [-1]);
}

#[test]
fn a_group_has_its_cpus_and_others_keep_off_exclusive_ones() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let of = |set: &str| {
        let options = ["--cpus", "4", "--cpuset", set, "--group", "rt:match=rt-*"];
        numbers(&run(&options, &program, &["cpus"]))
    };
    assert_eq!(of("rt=1-2"), [0b0110, 1, 0b1111, 1]);
    assert_eq!(of("rt=0:exclusive"), [0b0001, 1, 0b1110, 1], "the main thread leaves the first CPU");
}

#[test]
fn limits_that_make_no_sense_are_refused_before_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let touched = folder.path().join("touched");
    for (options, reason) in [
        (&["--cpu-limit", "soon"][..], "unit"),
        (&["--cpu-limit", "500ms:throttle"], "needs a period"),
        (&["--cpu-limit", "1s", "--cpu-limit", "2s:soft"], "before or when it is warned"),
        (&["--cpus", "1", "--group", "web=cpu.max:150%"], "limits nothing"),
        (&["--group", "web=cpu.max:150%/1us"], "1ms to 60s"),
        (&["--group", "we b"], "no name"),
        (&["--cpus", "2", "--cpuset", "rt=2"], "no CPU 2"),
        (&["--fallback=native", "--cpu-limit", "1s", "--cpu-limit", "2s"], "two limits of one kind"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
        let output = command.arg("run").args(options).args(["--", "touch"]).arg(&touched).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{options:?}: {}", error(&output));
        assert!(error(&output).contains(reason), "{options:?}: {}", error(&output));
    }
    assert!(!touched.exists());
}
