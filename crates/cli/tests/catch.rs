//! System calls are caught by dispatch, and by a filter where dispatch is missing or forbidden.

mod filtered;

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use filtered::{filter_by, load_argument, load_call, step};
use libc::{BPF_JEQ, BPF_JMP, BPF_K, BPF_RET};

const PR_SET_SYSCALL_USER_DISPATCH: u32 = 59;

/// Status, output and error stream of the command with these words, on a host that is changed so.
fn on(change: fn() -> io::Result<()>, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.args(words);
    // SAFETY: system calls only, in a child that executes a program next.
    unsafe { command.pre_exec(change) };
    let answer = command.output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (answer.status.code(), text(answer.stdout), text(answer.stderr))
}

/// This host as it is.
fn nothing() -> io::Result<()> {
    Ok(())
}

/// Has the host answer like one with sysctl kernel.syscall_user_dispatch=0.
fn forbid_dispatch() -> io::Result<()> {
    refuse(libc::SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, libc::EPERM)
}

/// Has it answer so, and kill for calls of other interfaces.
fn forbid_dispatch_and_x32() -> io::Result<()> {
    forbid_dispatch()?;
    filtered::kill_for_x32()
}

/// Has it answer like one that was built without dispatch.
fn lack_dispatch() -> io::Result<()> {
    refuse(libc::SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, libc::EINVAL)
}

/// Has it answer like one that has neither.
fn lack_both() -> io::Result<()> {
    lack_dispatch()?;
    refuse(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, libc::EINVAL)
}

/// Has a call with this first argument fail from now on.
fn refuse(call: libc::c_long, first: u32, error: i32) -> io::Result<()> {
    filter_by(&mut [
        load_call(),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, call as u32),
        load_argument(0),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, first),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ])
}

/// Programs that execute programs, by a pipe, in place of themselves and within a shell.
const SCRIPT: &str = "(exit 7); test $? = 7 && echo three | cat && sh -c 'grep ^Threads: /proc/self/status' && \
    cat /proc/self/comm";

#[test]
fn a_filter_catches_where_dispatch_is_forbidden() {
    let forbidden = "is forbidden here";
    for (change, why) in [
        (forbid_dispatch as fn() -> _, forbidden),
        (forbid_dispatch_and_x32, forbidden),
        (lack_dispatch, "does not offer"),
    ] {
        let (status, out, error) = on(change, &["run", "--", "sh", "-c", SCRIPT]);
        assert_eq!((status, out.as_str()), (Some(0), "three\nThreads:\t1\ncat\n"), "{error}");
        assert!(error.contains("by a seccomp filter, because") && error.contains(why), "{error}");
        let (status, _, error) = on(change, &["run", "--no-note", "--", "true"]);
        assert_eq!((status, error.as_str()), (Some(0), ""));
        let (status, out, _) = on(change, &["doctor"]);
        let line = out.lines().find(|line| line.contains("system calls are caught by a seccomp filter, because"));
        assert!(status == Some(0) && line.is_some_and(|line| line.contains(why)), "{out}");
        let (status, _, error) = on(change, &["run", "--catch=sud", "--", "true"]);
        assert!(status == Some(125) && error.contains(why) && error.contains("--catch=seccomp"), "{error}");
    }
}

#[test]
fn dispatch_catches_where_it_can() {
    let (status, out, _) = on(nothing, &["doctor"]);
    assert!(status == Some(0) && out.contains("are caught by Syscall User Dispatch, which the kernel offers"), "{out}");
    let (status, out, error) = on(nothing, &["run", "--", "grep", "^Seccomp:", "/proc/self/status"]);
    assert_eq!((status, out.as_str(), error.as_str()), (Some(0), "Seccomp:\t0\n", ""));
}

#[test]
fn nothing_runs_where_neither_is_there() {
    let (status, _, error) = on(lack_both, &["run", "--", "true"]);
    assert!(status == Some(125) && error.contains("and no seccomp filters"), "{error}");
    let (status, out, _) = on(lack_both, &["doctor"]);
    assert!(status == Some(1) && out.contains("and no seccomp filters"), "{out}");
}

#[test]
fn the_c_library_is_patched_under_a_filter_too() {
    let (status, _, error) = on(nothing, &["run", "--catch=seccomp", "--stats", "--", "sh", "-c", SCRIPT]);
    assert_eq!(status, Some(0), "{error}");
    assert!(error.contains(" ld.so\n") && error.contains(" libc.so.6\n"), "{error}");
}

#[test]
fn a_filter_is_inherited_by_an_inner_run() {
    let own = env!("CARGO_BIN_EXE_entresol");
    let script =
        format!("{own} run --stats -- sh -c '{own} doctor | grep -c around'; {own} run --catch=sud -- true; echo $?");
    let (status, out, error) = on(nothing, &["run", "--catch=seccomp", "--", "sh", "-c", &script]);
    assert_eq!((status, out.as_str()), (Some(0), "1\n125\n"), "{error}");
    assert!(error.contains("--catch=sud is not to be had") && error.contains(" CPU"), "{error}");
    // A filter within dispatch, which it needs no more.
    let inner = ["run", "--", own, "run", "--catch=seccomp", "--", "sh", "-c", "grep ^Seccomp: /proc/self/status"];
    let (status, out, error) = on(nothing, &inner);
    assert_eq!((status, out.as_str()), (Some(0), "Seccomp:\t2\n"), "{error}");
}

#[test]
fn what_cannot_be_entered_is_not_executed_under_a_filter() {
    let scratch = tempfile::tempdir().unwrap();
    let other = scratch.path().join("other");
    let mut bytes = std::fs::read("/bin/true").unwrap();
    bytes[4] = 1;
    std::fs::write(&other, bytes).unwrap();
    std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = format!("{}; echo $?", other.display());
    let (status, out, error) = on(nothing, &["run", "--catch=seccomp", "--", "sh", "-c", &script]);
    assert_eq!((status, out.as_str()), (Some(0), "126\n"), "{error}");
    assert!(error.contains("is not executed (--catch=seccomp): 32-bit"), "{error}");
    let (status, _, error) = on(nothing, &["run", "--catch=seccomp", "--", other.to_str().unwrap()]);
    assert!(status == Some(125) && error.contains("32-bit"), "{error}");
}

/// An `int $0x80` is of another table, and a filter of somebody else's may send SIGSYS, too.
#[test]
fn other_signals_of_this_kind_are_not_taken_for_calls() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, program) = (scratch.path().join("p.c"), scratch.path().join("p"));
    std::fs::write(
        &source,
        "#include <stdio.h>\n#include <signal.h>\n#include <unistd.h>\n\
        static void got(int s) { printf(\"signal %d\\n\", s); }\n\
        int main(void) { long r = 20; asm volatile(\"int $0x80\" : \"+a\"(r) : : \"memory\");\n\
          printf(\"%ld\\n\", r); signal(SIGSYS, got); kill(getpid(), SIGSYS); return 0; }\n",
    )
    .unwrap();
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().is_ok_and(|status| status.success()));
    let (status, out, error) = on(nothing, &["run", "--catch=seccomp", "--", program.to_str().unwrap()]);
    assert_eq!((status, out.as_str()), (Some(0), "-38\nsignal 31\n"), "{error}");
}

/// Rights that are given up do not keep a program from executing others: the image leads to itself.
#[test]
fn a_program_of_another_user_is_entered() {
    // SAFETY: reads the process's own state.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let words = ["--reuid=65534", "--regid=65534", "--clear-groups", "--", "sh", "-c", "grep -c fixed /proc/self/maps"];
    let (status, out, error) = on(nothing, &[&["run", "--catch=seccomp", "--", "setpriv"], &words[..]].concat());
    assert!(status == Some(0) && out.trim().parse::<u32>().is_ok_and(|count| count > 0), "{out}{error}");
}
