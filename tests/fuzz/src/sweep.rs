//! The fault sweep: every host call that the image makes for a small program fails once, with each errno that it may fail with,
//! and every page of the files that it shares with others is once missing, so that an access raises SIGBUS.
//!
//! The program then ends as it does natively, or by a clean error: an error that it is told of, or SIGABRT after a sentence
//! that says what cannot be done without. It never ends by another signal, by an internal fault or not at all. The command
//! must have been built with the feature `planted`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::run::{Runner, Told};

/// A program that has not ended by then hangs. The image's own watchdog needs ten seconds.
const LIMIT: Duration = Duration::from_secs(15);
/// Pages of the file that lists thread ids, which is the only one that is mapped without having been asked for.
const PAGES: u64 = 16;
const SETTING: &[&str] = &["--cpus", "2"];

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
        // exit, exit_group, rt_sigreturn, brk, and what has no errors: getpid, getuid and their like, gettid, sched_yield
        60 | 231 | 15 | 12 | 39 | 102 | 104 | 107 | 108 | 110 | 186 | 24 => &[],
        // close
        3 => &[EINTR],
        // rt_sigprocmask cannot fail with right arguments; a signal may find no room
        14 => &[],
        234 | 129 | 297 => &[EAGAIN, EPERM],
        // ftruncate, fallocate, memfd_create, dup, fcntl
        77 | 285 | 319 | 32 | 33 | 292 | 72 => &[EINTR, ENOSPC, EMFILE, EPERM],
        _ => &[ENOSYS, EPERM, ENOMEM, EAGAIN, EINVAL],
    }
}

/// What was found: how many runs there were, and those that ended badly.
#[derive(Default)]
struct Tally {
    places: usize,
    runs: usize,
    same: usize,
    clean: usize,
    kinds: BTreeSet<u32>,
    bad: BTreeMap<String, usize>,
}

impl Tally {
    /// A run that ended like that; it ends rightly like `right`.
    fn count(&mut self, what: impl Fn() -> String, told: &Told, right: &Told) {
        self.runs += 1;
        match judge(told, right) {
            Some(why) => {
                let line = format!("{}: {why}", what());
                println!("  BAD {line}");
                *self.bad.entry(line).or_default() += 1;
            }
            None if told.end == right.end && told.lines == right.lines => self.same += 1,
            None => self.clean += 1,
        }
    }
}

/// One program.
struct Sweep<'a> {
    runner: &'a Runner,
    name: &'a str,
    text: &'a str,
    right: Told,
    every: u64,
    tally: &'a Mutex<Tally>,
}

/// Whether all runs ended well. Of all places only each `every`th is tried, with one error.
#[must_use]
pub fn all(runner: &Runner, every: u64, jobs: usize) -> bool {
    let tally = Mutex::new(Tally::default());
    for (name, text) in PROGRAMS {
        let right = runner.run_planted_within(LIMIT, text, SETTING, "fail=0,0");
        let sweep = Sweep { runner, name, text, right, every, tally: &tally };
        sweep.calls(jobs);
        sweep.pages();
    }
    for page in (0..PAGES).step_by(every.min(PAGES) as usize) {
        let (told, right) =
            (watched(runner, page), Told { end: "signal 15".into(), lines: vec![], errors: String::new() });
        let mut tally = tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        tally.count(|| format!("watched: page {page} is missing"), &told, &right);
    }
    let tally = tally.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    println!(
        "{} places, {} different calls, {} runs: {} as natively, {} a clean error, {} bad",
        tally.places,
        tally.kinds.len(),
        tally.runs,
        tally.same,
        tally.clean,
        tally.bad.values().sum::<usize>()
    );
    for (what, count) in &tally.bad {
        println!("  {count:4} x {what}");
    }
    tally.bad.is_empty() && tally.places > 0
}

impl Sweep<'_> {
    fn run(&self, fault: &str) -> Told {
        self.runner.run_planted_within(LIMIT, self.text, SETTING, fault)
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn calls(&self, jobs: usize) {
        let (next, end) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while !end.load(Relaxed) {
                        let nth = next.fetch_add(1, Relaxed) * self.every + 1;
                        if !self.place(nth) {
                            end.store(true, Relaxed);
                        }
                    }
                });
            }
        });
    }

    /// The `nth` host call fails; false if there are not so many.
    fn place(&self, nth: u64) -> bool {
        let probe = self.run(&format!("fail={nth},0"));
        let Some(probed) = planted_call(&probe) else { return false };
        {
            let mut tally = self.tally();
            tally.places += 1;
            tally.kinds.insert(probed);
        }
        let all = errors(probed);
        let one = all.get((nth / self.every) as usize % all.len().max(1));
        let chosen = if self.every == 1 { all } else { one.map_or(&[][..], std::slice::from_ref) };
        for errno in chosen {
            let told = self.run(&format!("fail={nth},{errno}"));
            // Which call is the nth depends on scheduling: what failed is told by the run itself.
            let nr = planted_call(&told).unwrap_or(probed);
            // Another one has been hit, which does not fail like this.
            if errors(nr).contains(errno) {
                let what = || format!("{}: call {nr} (place {nth}) fails with {errno}", self.name);
                self.tally().count(what, &told, &self.right);
            }
        }
        true
    }

    /// A page of a shared file is missing.
    fn pages(&self) {
        for page in (0..PAGES).step_by(self.every.min(PAGES) as usize) {
            let told = self.run(&format!("bus={page}"));
            self.tally().count(|| format!("{}: page {page} is missing", self.name), &told, &self.right);
        }
    }
}

/// A process whose state page has no such page is looked at and then ended.
fn watched(runner: &Runner, page: u64) -> Told {
    let mut child = Command::new(&runner.entresol)
        .args(["run", "--", "sleep", "60"])
        .env("ENTRESOL_PLANT", format!("bus={page}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is started");
    // All three, whatever came of the first.
    let looks = [(); 3].map(|()| {
        let look = Command::new(&runner.entresol).args(["threads", &child.id().to_string()]).output();
        look.is_ok_and(|look| look.status.code().is_some())
    });
    let looked = looks.iter().all(|&answered| answered);
    // SAFETY: our child, which has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let status = child.wait().expect("it can be waited for");
    let mut errors = String::new();
    drop(child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors)));
    let end = match status.signal() {
        Some(signal) if looked => format!("signal {signal}"),
        _ => format!("signal none, {status}, looked: {looked}"),
    };
    Told { end, lines: vec![], errors }
}

/// The call that was chosen, if the program made so many.
fn planted_call(told: &Told) -> Option<u32> {
    told.errors.lines().find_map(|line| line.strip_prefix("planted: host call ")?.parse().ok())
}

/// Why this is no clean end.
fn judge(told: &Told, right: &Told) -> Option<String> {
    let is_fault =
        |line: &&str| ["internal fault", "panicked", "the image failed"].iter().any(|bad| line.contains(bad));
    if let Some(line) = told.errors.lines().find(is_fault) {
        return Some(line.to_owned());
    }
    let last = told.errors.lines().last().unwrap_or_default();
    let explained = told.end == "signal 6" && last.starts_with("entresol: ");
    let ended = told.end != "hung" && (!told.end.starts_with("signal") || told.end == right.end || explained);
    (!ended).then(|| format!("{} {last}", told.end))
}
