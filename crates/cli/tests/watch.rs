//! What happens to threads while the host keeps a carrier, and that nothing happens while nothing competes.

mod compiled;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A spinning thread behind a FIFO thread on one CPU: it runs only while the FIFO thread waits. `HOLD` is
/// what the FIFO thread does that lasts.
const HELD: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <stdio.h>
    #include <sys/mman.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static volatile long count;
    static void *spin(void *a) { for (;;) count++; return a; }
    static void hold(void) { HOLD }
    int main(void) {
        pthread_t t;
        struct sched_param param = { .sched_priority = 50 };
        pthread_create(&t, 0, spin, 0);
        if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &param)) return 2;
        for (int i = 0; i < 50; i++) {
            long before = count;
            hold();
            if (count != before) return 0;
            usleep(1000);
        }
        return 1;
    }
"#;

/// A quarter of a gigabyte to be zeroed: a call that does not wait, but lasts.
const LONG_CALL: &str = "
    size_t len = 256 << 20;
    char *at = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(at, len, MADV_NOHUGEPAGE);
    madvise(at, len, 23 /* MADV_POPULATE_WRITE */);
    munmap(at, len);
";

/// A child that keeps its parent waiting.
const SLOW_CHILD: &str = "
    pid_t child = vfork();
    if (child == 0) { usleep(50000); _exit(0); }
    waitpid(child, 0, WNOHANG);
";

/// A given number of threads that wait for ever while the main thread sleeps.
const PARKED: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    #include <unistd.h>
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *wait(void *a) { pthread_mutex_lock(&lock); return a; }
    int main(void) {
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, 65536);
        pthread_mutex_lock(&lock);
        for (int i = 0; i < 1000; i++) {
            pthread_t t;
            if (pthread_create(&t, &attr, wait, 0)) return 1;
        }
        puts("ready");
        fflush(stdout);
        sleep(1000);
        return 0;
    }
"#;

fn compile(folder: &Path, text: &str) -> PathBuf {
    compiled::program(folder, "program", text, "-O2")
}

fn run(options: &[&str], program: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.arg("run").args(options).arg("--").arg(program);
    command
}

fn others_run_meanwhile(hold: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), &HELD.replace("HOLD", hold));
    let answer: Output = run(&["--cpus", "1"], &program).output().unwrap();
    let error = String::from_utf8_lossy(&answer.stderr);
    assert_eq!(answer.status.code(), Some(0), "1 means that nobody else ran; {error}");
}

#[test]
fn a_host_call_that_lasts_loses_its_cpu() {
    others_run_meanwhile(LONG_CALL);
}

#[test]
fn a_parent_that_waits_for_its_vfork_child_loses_its_cpu() {
    others_run_meanwhile(SLOW_CHILD);
}

/// The sum of the voluntary context switches of all host threads.
fn wakeups(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: std::io::Result<fs::DirEntry>| {
        let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let figure = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        figure.trim().parse::<u64>().ok()
    };
    tasks.filter_map(of).sum()
}

#[test]
fn an_idle_process_with_a_thousand_threads_sleeps() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), PARKED);
    let mut child = run(&[], &program).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // The last of the thousand have to come to rest first.
    let mut before = wakeups(child.id());
    loop {
        sleep(Duration::from_millis(500));
        let now = wakeups(child.id());
        if now == before {
            break;
        }
        before = now;
    }
    sleep(Duration::from_secs(10));
    let after = wakeups(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(before > 0, "no host thread was found");
    assert!(after - before <= 5, "{} wake-ups in ten seconds", after - before);
}

/// A program that may run on the last CPU only executes itself, forks, and both processes wait.
const PINNED: &str = r#"
    #define _GNU_SOURCE
    #include <sched.h>
    #include <stdio.h>
    #include <unistd.h>
    int main(int count, char **words) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(3, &set);
        if (count == 1) return sched_setaffinity(0, sizeof set, &set) || execl("/proc/self/exe", words[0], "again", NULL);
        pid_t child = fork();
        if (child > 0) printf("%d\n", child), fflush(stdout);
        return pause();
    }
"#;

/// Processes of a single thread have a single host thread, whichever CPU the thread may run on.
#[test]
fn a_process_begins_where_its_thread_may_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), PINNED);
    let mut parent = run(&["--cpus", "4"], &program).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let host_threads = |pid: &str| fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    let found = (host_threads(&parent.id().to_string()), host_threads(line.trim()));
    let _ = Command::new("kill").arg(line.trim()).status();
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert_eq!(found, (1, 1));
}

#[test]
fn stats_tell_the_worst_wakeup_of_the_highest_priority() {
    let folder = tempfile::tempdir().unwrap();
    let text = HELD.replace("HOLD", "usleep(1000); count++;");
    let answer = run(&["--cpus", "2", "--stats"], &compile(folder.path(), &text)).output().unwrap();
    let summary = String::from_utf8_lossy(&answer.stderr);
    assert!(summary.contains("at priority 50, the highest"), "{summary}");
    assert!(summary.contains("stolen by host"), "{summary}");
}

/// Its sleeps are long enough for that, and nothing else goes on.
const SLEEPER: &str = "
    #include <sched.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(int count, char **words) {
        struct sched_param p = {.sched_priority = 20};
        if (atoi(words[1]) && sched_setscheduler(0, SCHED_FIFO, &p)) return 1;
        for (int i = 0; i < 5; i++) usleep(40000);
        return 0;
    }
";

#[test]
fn idle_cpus_are_awake_before_real_time_threads_only() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), SLEEPER);
    let is_awake_early = |options: &[&str], real_time: &str| {
        let answer = run(options, &program).arg(real_time).output().unwrap();
        let summary = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(answer.status.success() && summary.contains("stolen by host"), "{summary}");
        summary.contains("  awake early    ")
    };
    assert!(is_awake_early(&["--stats"], "1"));
    assert!(is_awake_early(&["--stats", "--cpus", "1", "--ahead", "100000"], "1"));
    assert!(!is_awake_early(&["--stats", "--ahead", "0"], "1"), "turned off");
    assert!(!is_awake_early(&["--stats"], "0"), "a fair thread");
}

#[test]
fn stats_are_printed_although_the_program_closed_its_streams() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
        #include <fcntl.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            close(0);
            close(1);
            close(2);
            if (fork() == 0) return 0;
            wait(0);
            return open(\"taken\", O_RDWR | O_CREAT, 0600) + open(\"taken\", O_RDWR) + open(\"taken\", O_RDWR) - 3;
        }
    ";
    let mut command = run(&["--stats"], &compile(folder.path(), text));
    let answer = command.current_dir(folder.path()).output().unwrap();
    let summary = String::from_utf8_lossy(&answer.stderr);
    assert_eq!(answer.status.code(), Some(0), "{summary}");
    assert_eq!(summary.matches("stolen by host").count(), 1, "once, and not for the child: {summary}");
    assert_eq!(std::fs::read(folder.path().join("taken")).unwrap(), b"");
}
