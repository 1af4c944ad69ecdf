//! Deliberate faults end the program loudly: the machine does not trust what was decided, and the watchdog
//! sees a CPU that stands still. `cargo test -p entresol --features planted --test planted`.

mod compiled;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// Four threads that give way to each other `TURNS` times: for so long that the host runs two carriers at once, however busy it is.
const BUSY: &str = "
    #include <pthread.h>
    #include <sched.h>
    static void *run(void *a) {
        for (int i = 0; i < TURNS; i++) {
            for (volatile int j = 0; j < 1000; j++) {}
            sched_yield();
        }
        return a;
    }
    int main(void) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, run, 0);
        for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
        return 0;
    }
";

/// The busy program with that fault.
fn planted(fault: &str, options: &[&str]) -> Output {
    run(&BUSY.replace("TURNS", "400000"), fault, options)
}

fn run(text: &str, fault: &str, options: &[&str]) -> Output {
    run_by(Command::new(env!("CARGO_BIN_EXE_entresol")), text, fault, options)
}

fn run_by(mut command: Command, text: &str, fault: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled::program(folder.path(), "busy", text, "-O2");
    command.env("ENTRESOL_PLANT", fault).arg("run").args(options).arg("--").arg(program);
    command.output().expect("the command starts")
}

fn ends_with_report(answer: &Output, words: &[&str]) {
    let report = String::from_utf8_lossy(&answer.stderr);
    assert_eq!(answer.status.signal(), Some(libc::SIGABRT), "{:?}: {report}", answer.status);
    for word in words {
        assert!(report.contains(word), "{word:?} is not in: {report}");
    }
}

#[test]
fn nothing_planted_nothing_said() {
    let answer = planted("", &["--cpus", "2"]);
    assert!(answer.status.success());
    assert_eq!(String::from_utf8_lossy(&answer.stderr), "");
}

#[test]
fn a_thread_that_another_carrier_has_is_not_resumed() {
    let answer = planted("resume-twice", &["--cpus", "2"]);
    ends_with_report(&answer, &["was to be resumed on", "before it is corrupted", "CPU 0 is run by carrier"]);
}

#[test]
fn a_cpu_that_stands_still_is_reported() {
    for cpus in ["1", "2"] {
        // The other CPU must not finish its own threads before the time is up: it would take those that wait here.
        let answer = run(&BUSY.replace("TURNS", "100000000"), "stuck", &["--cpus", cpus, "--watchdog", "1"]);
        ends_with_report(&answer, &["has made no progress for 1 s", "host thread", "is queued on CPU"]);
    }
}

/// FIFO 10 preempts FIFO 5, which may then go to the other CPU, where an ordinary thread spins.
const ORDER: &str = "
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <sched.h>
    #include <stdatomic.h>
    #include <unistd.h>
    static atomic_int ready, tid, end;
    static void bind(int tid, int first, int second) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(first, &set);
        CPU_SET(second, &set);
        sched_setaffinity(tid, sizeof set, &set);
    }
    static void *spin(void *priority) {
        bind(0, priority ? 0 : 1, priority ? 0 : 1);
        struct sched_param p = {(int)(long)priority};
        if (priority && sched_setscheduler(0, SCHED_FIFO, &p) != 0) _exit(1);
        if (p.sched_priority == 5) tid = gettid();
        ready++;
        while (!end) {}
        return 0;
    }
    int main(void) {
        pthread_t t[3];
        long priorities[] = {0, 5, 10};
        for (int i = 0; i < 3; i++) {
            pthread_create(&t[i], 0, spin, (void *)priorities[i]);
            while (ready <= i) usleep(1000);
        }
        bind(tid, 0, 1);
        usleep(1500000);
        end = 1;
        for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
        return 0;
    }
";

#[test]
fn an_urgent_thread_that_is_left_waiting_is_found() {
    let options = ["--cpus", "2", "--check-order"];
    let right = run(ORDER, "", &options);
    assert_eq!((right.status.code(), String::from_utf8_lossy(&right.stderr)), (Some(0), "".into()));
    let answer = run(ORDER, "skip-push", &options);
    ends_with_report(&answer, &["waits for CPU 0 over several ticks", "CPU 1 runs something less urgent", "FIFO 5"]);
}

/// Gives its rights up while four threads are under way.
const DROPS: &str = "
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <stdio.h>
    #include <unistd.h>
    static void *run(void *a) {
        sleep(1);
        return a;
    }
    int main(void) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, run, 0);
        usleep(100000);
        if (setresuid(1000, 1000, 1000) != 0) return 1;
        puts(\"dropped\");
        return 0;
    }
";

#[test]
fn a_host_thread_that_keeps_old_rights_is_found() {
    // SAFETY: has no effect.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: needs root, which alone has rights to give up");
        return;
    }
    let right = run(DROPS, "", &["--cpus", "4"]);
    assert_eq!((right.status.code(), right.stdout.as_slice()), (Some(0), b"dropped\n".as_slice()));
    let answer = run(DROPS, "old-rights", &["--cpus", "4"]);
    ends_with_report(&answer, &["could not take on the rights of the process", "before it does anything"]);
    assert_eq!(answer.stdout, b"");
}

/// Gives up what everybody may, beside a thread that waits: a process of one thread has no service thread.
const GIVES_UP: &str = "
    #include <pthread.h>
    #include <stdio.h>
    #include <sys/prctl.h>
    #include <unistd.h>
    static void *wait(void *a) {
        pause();
        return a;
    }
    int main(void) {
        pthread_t t;
        pthread_create(&t, 0, wait, 0);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 1;
        puts(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? \"given up\" : \"kept\");
        return 0;
    }
";

/// A thread that changes rights waits for the service thread, which must not wait for that thread.
#[test]
fn rights_are_given_up_while_a_carrier_is_being_made() {
    // If they do, for ever.
    let mut limited = Command::new("timeout");
    limited.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_entresol")]);
    let answer = run_by(limited, GIVES_UP, "made-meanwhile", &["--cpus", "2"]);
    assert_eq!((answer.status.code(), answer.stdout.as_slice()), (Some(0), b"given up\n".as_slice()));
}

/// Half of the threads give rights up, by themselves, and all go on, in calls that wait, too; two have a CPU of their own.
const RIGHTS: &str = r#"
    #define _GNU_SOURCE
    #include <errno.h>
    #include <pthread.h>
    #include <sched.h>
    #include <stdio.h>
    #include <sys/prctl.h>
    #include <unistd.h>
    static int ends[8][2];
    static void compute(void) { for (volatile int i = 0; i < 1000000; i++) {} }
    static void *run(void *a) {
        long n = (long)a, refused = 0, given = 0;
        if (n < 2) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(n, &set);
            sched_setaffinity(0, sizeof set, &set);
        }
        if (n % 2) {
            given = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
            refused = !given && errno == EAGAIN;
            if (!given && !refused) _exit(1);
        }
        for (int i = 0; i < 12; i++) {
            compute();
            if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != given) _exit(2);
            char byte;
            if (i % 4 == 0 && read(ends[n][0], &byte, 1) != 1) _exit(3);
            if (i % 4 == 1) usleep(1000);
        }
        return (void *)refused;
    }
    int main(void) {
        pthread_t t[8];
        long refused = 0;
        for (long i = 0; i < 8; i++) if (pipe(ends[i])) return 4;
        for (long i = 0; i < 8; i++) if (pthread_create(&t[i], 0, run, (void *)i)) return 5;
        for (int round = 0; round < 3; round++) {
            compute();
            for (int i = 0; i < 8; i++) if (write(ends[i][1], "x", 1) != 1) return 6;
        }
        for (int i = 0; i < 8; i++) {
            void *r;
            pthread_join(t[i], &r);
            refused += (long)r;
        }
        printf("%ld\n", refused);
        return 0;
    }
"#;

/// The host refuses further carriers: rights are given up where there is a carrier for them, or that is refused with EAGAIN; CPUs
/// without a carrier are served in turn. Nothing waits for ever.
#[test]
fn few_carriers_are_shared() {
    for (fault, cpus, refused) in
        [("", "2", 0), ("one-carrier", "2", 4), ("two-carriers", "1", 0), ("two-carriers", "4", 0)]
    {
        let mut limited = Command::new("timeout");
        limited.args(["-s", "KILL", "120", env!("CARGO_BIN_EXE_entresol")]);
        let answer = run_by(limited, RIGHTS, fault, &["--cpus", cpus]);
        let (out, report) = (String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
        assert_eq!((answer.status.code(), out.trim()), (Some(0), &*refused.to_string()), "{fault}, {cpus}: {report}");
    }
}
