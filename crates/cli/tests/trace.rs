//! `entresol run --trace`: a live run as a trace for ui.perfetto.dev.

mod compiled;

use std::fs;
use std::process::Command;

use ids::{Left, Tid, Waker};
use perfetto::Span;
use prost::Message;

// The parts of the format that are looked at; numbers as in `protos/perfetto/trace/`.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "1")]
    ftrace_events: Option<Bundle>,
    #[prost(message, optional, tag = "2")]
    process_tree: Option<Tree>,
}

#[derive(Clone, PartialEq, Message)]
struct Bundle {
    #[prost(uint32, optional, tag = "1")]
    cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    event: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(uint64, optional, tag = "1")]
    timestamp: Option<u64>,
    #[prost(message, optional, tag = "4")]
    sched_switch: Option<Switch>,
}

#[derive(Clone, PartialEq, Message)]
struct Switch {
    #[prost(int32, optional, tag = "2")]
    prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "6")]
    next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    next_prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Tree {
    #[prost(message, repeated, tag = "2")]
    threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
struct Thread {
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

/// Two threads that hand a word back and forth, one of them FIFO.
const PING_PONG: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <semaphore.h>
    static sem_t a, b;
    static void *pong(void *arg) {
        struct sched_param param = { .sched_priority = 30 };
        pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
        pthread_setname_np(pthread_self(), "pong");
        for (int i = 0; i < 200; i++) { sem_wait(&a); sem_post(&b); }
        return arg;
    }
    int main(void) {
        pthread_t t;
        pthread_create(&t, 0, pong, 0);
        for (int i = 0; i < 200; i++) { sem_post(&a); sem_wait(&b); }
        pthread_join(t, 0);
        return 5;
    }
"#;

/// A wait of each kind: main makes a thread that waits for a signal, sleeps, sends it, joins the thread, and waits for a
/// timer's signal.
const WAITS: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <signal.h>
    #include <time.h>
    #include <unistd.h>
    static void *signalled(void *arg) {
        int got;
        sigwait(arg, &got);
        usleep(20000);
        return 0;
    }
    int main(void) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigaddset(&set, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &set, 0);
        pthread_t t;
        sigdelset(&set, SIGUSR1);
        pthread_create(&t, 0, signalled, &set);
        usleep(20000);
        pthread_kill(t, SIGUSR2);
        pthread_join(t, 0);
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
        struct itimerspec in = { .it_value = { .tv_nsec = 50000000 } };
        timer_t timer;
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        timer_settime(timer, 0, &in, 0);
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        int got;
        sigwait(&set, &got);
        return 0;
    }
"#;

#[test]
fn every_switch_is_in_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (program, file) = (compiled::program(folder.path(), "p", PING_PONG, "-O1"), folder.path().join("t.pftrace"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    let output = command.args(["run", "--cpus", "1", "--trace"]).arg(&file).arg("--").arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "the program's own");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(" 0 lost;"), "{said}");
    let trace = Trace::decode(&*fs::read(&file).unwrap()).expect("it is a trace");
    let tree = trace.packet.iter().find_map(|p| p.process_tree.clone()).expect("who there is");
    let names: Vec<_> = tree.threads.iter().filter_map(|t| t.name.as_deref()).collect();
    assert!(names.contains(&"pong") && names.contains(&"p"), "{names:?}");
    let bundles: Vec<Bundle> = trace.packet.into_iter().filter_map(|p| p.ftrace_events).collect();
    assert_eq!(bundles.len(), 1, "one CPU");
    let events: Vec<(u64, Switch)> =
        bundles[0].event.iter().filter_map(|e| Some((e.timestamp?, e.sched_switch.clone()?))).collect();
    // Each hand-over is one, there and back.
    assert!(events.len() >= 390, "{}", events.len());
    assert!(events.is_sorted_by_key(|(at, _)| *at));
    assert!(events.windows(2).all(|pair| pair[0].1.next_pid == pair[1].1.prev_pid), "a chain without gaps");
    // But for the first: it was not FIFO yet, and found its word there already.
    let urgent = events.iter().filter(|(_, switch)| switch.next_prio == Some(99 - 30)).count();
    assert!(urgent >= 195, "{urgent}");
}

#[test]
fn every_wait_says_what_ended_it() {
    for cpus in ["1", "2"] {
        let folder = tempfile::tempdir().unwrap();
        let (program, file) = (compiled::program(folder.path(), "p", WAITS, "-O1"), folder.path().join("t.pftrace"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
        let output = command.args(["run", "--cpus", cpus, "--trace"]).arg(&file).arg("--").arg(&program).output();
        assert_eq!(output.unwrap().status.code(), Some(0));
        let processes = perfetto::read(&fs::read(&file).unwrap()).expect("it is a trace");
        let [process] = &processes[..] else { panic!("{processes:?}") };
        assert_eq!(process.cpus.len().to_string(), cpus);
        let (main, other) = (process.pid, *process.threads.keys().find(|&&tid| tid != process.pid).unwrap());
        // How a thread began, what ended each of its waits, and how it left at last.
        let ends = |tid: i32| {
            let mut spans: Vec<&Span> = process.spans.iter().filter(|span| span.tid == tid).collect();
            spans.sort_by_key(|span| (span.from, span.to));
            let waited = spans.windows(2).filter(|pair| pair[0].left == Left::Waiting);
            let ends: Vec<Option<Waker>> = waited.map(|pair| pair[1].woken.map(|wake| wake.by)).collect();
            (spans[0].woken.map(|wake| wake.by), ends, spans[spans.len() - 1].left)
        };
        let by = |tid: i32| Some(Waker::Thread(Tid(tid)));
        let (birth, ended, _) = ends(main);
        assert_eq!((birth, ended), (None, vec![Some(Waker::Time), by(other), Some(Waker::Outside)]), "{cpus} CPUs");
        let others = (Some(Waker::Creator(Tid(main))), vec![by(main), Some(Waker::Time)], Left::Ended);
        assert_eq!(ends(other), others, "{cpus} CPUs");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let touched = folder.path().join("touched");
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    let output = command.args(["run", "--trace", "/no/such/folder/t", "--", "touch"]).arg(&touched).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot write /no/such/folder/t"));
    assert!(!touched.exists());
}
