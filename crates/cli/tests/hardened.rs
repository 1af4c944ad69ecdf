//! Hosts that make no memory executable that was writable, as PR_SET_MDWE and systemd's MemoryDenyWriteExecute do, and hosts
//! without `clone3(2)`, as the filters of Docker and containerd leave them.

mod filtered;

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use filtered::{done, filter_by, kill_for_x32, load_argument, load_call, step};
use libc::{BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_RET};

/// Linux 6.3 has it; Rust's libc has not.
const PR_SET_MDWE: i32 = 65;
const PR_MDWE_REFUSE_EXEC_GAIN: usize = 1;

/// Status, output and error stream of the command with these words, on a host that is hardened so.
fn on(harden: fn() -> io::Result<()>, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.args(words);
    // SAFETY: two system calls, in a child that executes a program next.
    unsafe { command.pre_exec(harden) };
    let answer = command.output().expect("the command starts");
    (answer.status.code(), String::from_utf8([answer.stdout, answer.stderr].concat()).unwrap())
}

fn refuse_exec_gain() -> io::Result<()> {
    // SAFETY: changes nothing in memory.
    done(unsafe { libc::prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) })
}

/// Refuses `mprotect` with PROT_EXEC and all files without a name.
fn refuse_all_text() -> io::Result<()> {
    filter_by(&mut [
        load_call(),
        step(BPF_JMP | BPF_JEQ | BPF_K, 3, 0, libc::SYS_memfd_create as u32),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, libc::SYS_mprotect as u32),
        load_argument(2),
        step(BPF_JMP | BPF_JSET | BPF_K, 0, 1, libc::PROT_EXEC as u32),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ])
}

/// Answers that there is no `clone3`: programs then use `clone`, whose flags a filter can look at.
fn refuse_clone3() -> io::Result<()> {
    at_call(libc::SYS_clone3, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32)
}

/// Has the host do this at a call.
fn at_call(call: libc::c_long, action: u32) -> io::Result<()> {
    filter_by(&mut [
        load_call(),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call as u32),
        step(BPF_RET | BPF_K, 0, 0, action),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ])
}

#[test]
fn patched_text_comes_from_files() {
    let (status, said) = on(refuse_exec_gain, &["run", "--stats", "--", "true"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains(" ld.so\n") && !said.contains("dispatch"), "{said}");
    let (status, said) = on(refuse_exec_gain, &["doctor"]);
    assert!(status == Some(0) && said.contains("patched text comes from files"), "{said}");
}

#[test]
fn dispatch_is_left_where_no_text_can_be_had() {
    let (status, said) = on(refuse_all_text, &["run", "--stats", "--", "sh", "-c", "(exit 7); test $? = 7"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("by dispatch") && !said.contains(" ld.so\n"), "{said}");
    let (status, said) = on(refuse_all_text, &["doctor"]);
    assert!(status == Some(0) && said.contains("nor a file without a name"), "{said}");
}

#[test]
fn processes_are_made_where_clone3_is_refused() {
    // By fork, in a child, too, and by vfork, which is how dash starts a program.
    let script = "(echo 1; (echo 2); exit 7); echo $?; env echo 3; :";
    let (status, said) = on(refuse_clone3, &["run", "--require", "--", "sh", "-c", script]);
    assert_eq!((status, said.as_str()), (Some(0), "1\n2\n7\n3\n"));
}

#[test]
fn nothing_is_called_for_which_a_filter_kills() {
    for words in [&["run", "--require", "--", "sh", "-c", "(exit 7); test $? = 7"][..], &["doctor"]] {
        let (status, said) = on(kill_for_x32, words);
        assert_eq!(status, Some(0), "{said}");
    }
}

/// As systemd's manual recommends beside MemoryDenyWriteExecute.
fn refuse_memory_files() -> io::Result<()> {
    at_call(libc::SYS_memfd_create, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32)
}

/// As container runtimes do that are older than the call.
fn refuse_faccessat2() -> io::Result<()> {
    at_call(libc::SYS_faccessat2, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32)
}

#[test]
fn files_of_proc_need_no_anonymous_memory() {
    let (status, said) = on(refuse_memory_files, &["run", "--", "grep", "-c", "^Threads:", "/proc/self/status"]);
    assert_eq!((status, said.as_str()), (Some(0), "1\n"));
    // Each file is one descriptor, which ends with it. The shell counts by itself: while it starts a pipeline, it holds the pipe's
    // ends for a moment.
    let script = "count() { set -- /proc/$$/fd/*; echo $#; }; read x </proc/self/status; count; \
        for i in 1 2 3 4 5 6 7 8 9; do read x </proc/self/status; done; count";
    let (status, said) = on(refuse_memory_files, &["run", "--", "sh", "-c", script]);
    let counts: Vec<&str> = said.lines().collect();
    assert!(status == Some(0) && counts.len() == 2 && counts[0] == counts[1], "{said}");
}

#[test]
fn permissions_are_known_without_a_recent_call() {
    for way in ["--catch=sud", "--catch=seccomp"] {
        let (status, said) = on(refuse_faccessat2, &["run", way, "--", "sh", "-c", "(exit 7); test $? = 7"]);
        assert_eq!(status, Some(0), "{said}");
    }
}

/// As systemd's `SystemCallFilter=~@resources` does.
fn kill_for_binding() -> io::Result<()> {
    at_call(libc::SYS_sched_setaffinity, libc::SECCOMP_RET_KILL_PROCESS)
}

#[test]
fn carriers_are_not_bound_where_that_is_fatal() {
    let own = env!("CARGO_BIN_EXE_entresol");
    let (status, said) = on(kill_for_binding, &["run", "--cpus", "2", "--", own, "probe", "sieve"]);
    assert_eq!(status, Some(0), "{said}");
}
