//! The fault sweep: every host call that the image makes for a small program fails once, with each errno that it may fail with.
//! The program then ends as it does natively, or by a clean error: never by a signal, an internal fault or not at all.
//! The command must have been built with the feature `planted`.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::{Runner, Told};

/// Programs for the sweep, short enough for thousands of runs.
const PROGRAMS: [(&str, &str); 5] = [
    ("threads", "0 spawn 1 0 0\n0 spawn 2 1 1\n0 wait 1 0\n0 wait 2 3\n0 release 1\n0 release 2\n0 join 1\n"),
    ("signals", "0 altstack 0\n0 raise 9 0\n0 kill 11 3\n0 timer 0 0 0 0\n0 fault 0 1 0 0\n0 sigsuspend 0 0\n"),
    ("processes", "0 fork 1 0\n  0 raise 9 0\n  0 exec_itself 0\n0 end\n0 vfork 2 0\n0 end\n0 spawn_program 0 0\n"),
    ("proc", "0 spawn 1 0 0\n0 task_dir 0 0\n0 proc_file 1 1\n0 proc_file 2 2\n0 name 0 1\n"),
    ("memory", "0 map 0 1 1 0\n0 fill 0 0\n0 stack_guard 1 0 0\n0 unmap 0 0\n0 shared_word 0 0 0\n0 limit 7 1\n"),
];

const EPERM: u32 = 1;
const EINTR: u32 = 4;
const EBADF: u32 = 9;
const EAGAIN: u32 = 11;
const ENOMEM: u32 = 12;
const EACCES: u32 = 13;
const EINVAL: u32 = 22;
const EMFILE: u32 = 24;
const ENOSPC: u32 = 28;
const ENOSYS: u32 = 38;

/// What a call may fail with where its arguments are right: by its man page, and ENOSYS or EPERM where a filter of system calls
/// may forbid it. Calls that cannot fail are left as they are.
fn errors(nr: u32) -> &'static [u32] {
    match nr {
        // read, write, pread64, pwrite64, openat, open
        0 | 1 | 17 | 18 => &[EINTR, EAGAIN, EBADF, ENOSPC],
        2 | 257 => &[EMFILE, EACCES, EINTR, ENOMEM],
        // mmap, mprotect, munmap, madvise, mremap
        9 | 10 | 11 | 25 | 28 => &[ENOMEM, EAGAIN, EACCES, EINVAL],
        // futex
        202 => &[EINTR, EAGAIN],
        // clone, fork, vfork, clone3
        56 | 57 | 58 | 435 => &[EAGAIN, ENOMEM, EPERM],
        // exit, exit_group, rt_sigreturn, and what has no errors: getpid, getuid and their like, gettid, sched_yield
        60 | 231 | 15 | 39 | 102 | 104 | 107 | 108 | 110 | 186 | 24 => &[],
        // close
        3 => &[EINTR],
        // rt_sigprocmask, rt_sigaction, tgkill: right arguments cannot fail; a signal may find no room
        14 | 13 => &[],
        234 | 129 | 297 => &[EAGAIN, EPERM],
        // ftruncate, fallocate, memfd_create, dup, fcntl
        77 | 285 | 319 | 32 | 33 | 292 | 72 => &[EINTR, ENOSPC, EMFILE, EPERM],
        _ => &[ENOSYS, EPERM, ENOMEM, EAGAIN, EINVAL],
    }
}

/// What was found: how many runs there were, and those that ended badly.
#[derive(Default)]
struct Tally {
    calls: usize,
    runs: usize,
    same: usize,
    clean: usize,
    kinds: BTreeSet<u32>,
    bad: BTreeMap<String, usize>,
}

/// Whether all runs ended well.
#[must_use]
pub fn all(runner: &Runner) -> bool {
    let mut tally = Tally::default();
    for (name, text) in PROGRAMS {
        program(runner, name, text, &mut tally);
    }
    println!(
        "{} places, {} different calls, {} runs: {} as natively, {} a clean error, {} bad",
        tally.calls,
        tally.kinds.len(),
        tally.runs,
        tally.same,
        tally.clean,
        tally.bad.values().sum::<usize>()
    );
    for (what, count) in &tally.bad {
        println!("  {count:4} x {what}");
    }
    tally.bad.is_empty()
}

fn program(runner: &Runner, name: &str, text: &str, tally: &mut Tally) {
    let setting: &[&str] = &["--cpus", "2"];
    let right = runner.run_planted(text, setting, "");
    for nth in 1.. {
        let probe = runner.run_planted(text, setting, &format!("fail={nth},0"));
        let Some(nr) = planted_call(&probe) else { break };
        tally.calls += 1;
        tally.kinds.insert(nr);
        for &errno in errors(nr) {
            let told = runner.run_planted(text, setting, &format!("fail={nth},{errno}"));
            tally.runs += 1;
            // Which call is the nth depends on scheduling: what failed is told by the run itself.
            let nr = planted_call(&told).unwrap_or(nr);
            match judge(&told) {
                Some(why) => {
                    *tally
                        .bad
                        .entry(format!("{name}: call {nr} (place {nth}) fails with {errno}: {why}"))
                        .or_default() += 1
                }
                None if told.end == right.end && told.lines == right.lines => tally.same += 1,
                None => tally.clean += 1,
            }
        }
    }
}

/// The call that was chosen, if the program made so many.
fn planted_call(told: &Told) -> Option<u32> {
    told.errors.lines().find_map(|line| line.strip_prefix("planted: host call ")?.parse().ok())
}

/// Why this is no clean end.
fn judge(told: &Told) -> Option<String> {
    let line = told.errors.lines().find(|line| line.contains("internal fault") || line.contains("panicked"));
    if let Some(line) = line {
        return Some(line.to_owned());
    }
    (told.end == "hung" || told.end.starts_with("signal")).then(|| {
        let last = told.errors.lines().last().unwrap_or_default();
        format!("{} {last}", told.end)
    })
}
