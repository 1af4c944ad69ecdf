//! `entresol run --trace`: a live run as a trace for ui.perfetto.dev.

use std::fs;
use std::process::Command;

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

#[test]
fn every_switch_is_in_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("p.c"), folder.path().join("p"));
    fs::write(&source, PING_PONG).unwrap();
    let built = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(built.expect("a C compiler is there").success());
    let file = folder.path().join("t.pftrace");
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
fn a_file_that_cannot_be_written_is_refused_before_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let touched = folder.path().join("touched");
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    let output = command.args(["run", "--trace", "/no/such/folder/t", "--", "touch"]).arg(&touched).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot write /no/such/folder/t"));
    assert!(!touched.exists());
}
