//! One controlled run: a child process, the log that it shares with us, and how it ended.

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use chaos::log::State;
use chaos::races::Pair;
use chaos::{Census, Expected, Log, Sighting, Spec, Switch, Turn};
use profile::own::own_code;
use sync::atomic::AtomicU64;

use super::ending::{self, end, end_rest};
use super::races::{self, Seen};
use super::stacks::{Modules, Stack};
use crate::args::{Controlled, RunArguments};
use crate::run;

/// The number of switches of a run that are kept.
const SWITCHES_MAX: usize = 1 << 20;
/// The number of switches that a run could have made and that are kept.
const POSSIBLE_MAX: usize = 1 << 18;
/// The number of turns of a run that are kept.
const TURNS_MAX: usize = 1 << 18;
/// The most output of a run that is kept.
const OUTPUT_MAX: u64 = 1 << 20;

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// It passed.
    Passed,
    /// A signal ended it.
    Crash(i32),
    /// It ended with this status, which is not 0.
    Status(i32),
    /// Its output is what `--fail-if` looks for.
    Found,
    /// All its threads wait, and nothing can wake one.
    Deadlock,
    /// It did not end in time.
    Hang,
    /// It has come to the race at which it was to end.
    Race,
}

/// Which races a run looks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Races {
    /// None.
    Off,
    /// All but these.
    All(Vec<Pair>),
    /// This one, which ends the run.
    Until(Pair),
}

/// A choice: the turn, counted from 1, and how many choices of that turn come before.
pub type Stop = (u64, u64);

/// A run to be made.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// `None`: the switches are repeated.
    pub strategy: Option<Spec>,
    /// The switches to be repeated.
    pub switches: &'a [Switch],
    /// How often a thread that computes where no switch was recorded may continue.
    pub patience: u64,
    /// Whether the run says which switches it could have made after these.
    pub asks: bool,
    /// The choices at which the stacks of its threads are read, in ascending order.
    pub stops: &'a [Stop],
    /// Drawn from this seed.
    pub seed: u64,
    /// Expectations from earlier runs.
    pub expected: Expected,
    /// When it begins, in nanoseconds since 1970.
    pub epoch: u64,
    /// How many accesses become scheduling points.
    pub places: u16,
    /// Some of them, by their numbers ([`chaos::Sighting::place`]).
    pub chosen: &'a [u64],
    /// Which races it looks for.
    pub races: Races,
    /// Whether more than the order of threads is drawn from the seed: pauses, the pace of time, torn updates.
    pub pauses: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// See [`End::Found`].
    pub fail_if: Option<&'a str>,
    /// As in [`Controlled`].
    pub only: Option<&'a str>,
}

impl Plan<'_> {
    /// The file of the program that is controlled, if the plan tells where it is: a name is only the end of a path.
    pub fn file(&self) -> Option<&OsStr> {
        match self.only {
            None => Some(&self.command[0]),
            Some(only) => (only.contains('/') && Path::new(only).is_file()).then_some(OsStr::new(only)),
        }
    }
}

/// What a run has done.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its end.
    pub end: End,
    /// The choices that were not plain.
    pub switches: Vec<Switch>,
    /// Whether these are all of them.
    pub is_complete: bool,
    /// How many choices there were, and how many among several threads.
    pub points: u64,
    /// See above.
    pub steps: u64,
    /// A hash of all choices.
    pub hash: u64,
    /// How many threads it had.
    pub threads: u64,
    /// How long its pauses were, in nanoseconds.
    pub paused_ns: u64,
    /// How many events each thread had.
    pub census: Census,
    /// What it has accessed at its places.
    pub sightings: Vec<Sighting>,
    /// The switches that it could have made after the planned ones, if it was asked.
    pub possible: Vec<Switch>,
    /// Whether these are all of them.
    pub knows_all: bool,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// The stacks of its threads at each stop that it reached.
    pub seen: Vec<Vec<Stack>>,
    /// The stacks of its threads at its end, if they were read.
    pub stacks: Vec<Stack>,
    /// The races that it has shown.
    pub races: Vec<Seen>,
    /// Their places, and those of what seemed to be one.
    pub pairs: Vec<Pair>,
    /// The number of programs that were executed and not controlled.
    pub others: u64,
    /// What it wrote.
    pub output: Vec<u8>,
}

/// Room for one run at a time: its log and its output.
#[derive(Debug)]
pub struct Room {
    log: File,
    words: &'static [AtomicU64],
    output: File,
    running: Option<Running>,
    /// The number of the last run.
    run: u32,
    modules: Modules,
    /// A program, and which of its code is its own.
    own_code: (OsString, Vec<Range<u64>>),
}

#[derive(Debug)]
struct Running {
    pid: i32,
    handle: OwnedFd,
    until: Instant,
    fail_if: Option<String>,
    only: Option<String>,
    /// Its threads when a signal was about to end it.
    dying: Vec<Stack>,
    /// The stops that are still to come.
    stops: VecDeque<Stop>,
    /// Its threads at those that it has reached.
    seen: Vec<Vec<Stack>>,
    races: Races,
    /// The races so far.
    raced: Vec<Seen>,
    /// As in [`Outcome`].
    pairs: Vec<Pair>,
}

impl Room {
    /// Room in memory without a name, of which nothing stays behind however this process ends.
    pub fn new() -> anyhow::Result<Room> {
        let file = in_memory(ending::LOG_NAME).context("no room for the log of a run")?;
        let len = Log::len(SWITCHES_MAX, SWITCHES_MAX + POSSIBLE_MAX + TURNS_MAX);
        file.set_len(8 * len as u64).context("no room for the log of a run")?;
        // SAFETY: a new mapping of a file of ours, of its length.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                8 * len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        anyhow::ensure!(at != libc::MAP_FAILED, "no room for the log of a run: {}", io::Error::last_os_error());
        // SAFETY: mapped just now and never unmapped; all accesses are atomic.
        let words = unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), len) };
        let output = in_memory(c"entresol-chaos-output").context("no room for the output of a run")?;
        let (modules, own_code) = Default::default();
        Ok(Room { log: file, words, output, running: None, run: 0, modules, own_code })
    }

    fn log(&self) -> Log<'static> {
        Log::new(self.words).expect("a log of this length")
    }

    /// Begins a run.
    pub fn begin(&mut self, plan: &Plan<'_>) -> anyhow::Result<()> {
        let log = self.log();
        log.prepare(plan.switches);
        log.set_command(std::process::id().into());
        self.run += 1;
        log.open(self.run);
        let mut stops: VecDeque<Stop> = plan.stops.iter().copied().collect();
        stop_at(&log, stops.pop_front());
        log.set_keep_turns(TURNS_MAX as u64);
        log.set_expected(&plan.expected);
        log.set_patience(plan.patience);
        log.set_chosen(plan.chosen);
        if let Races::All(known) = &plan.races {
            log.set_known(known);
        }
        log.set_keep(if plan.asks { POSSIBLE_MAX as u64 } else { 0 });
        self.output.set_len(0)?;
        self.output.rewind()?;
        let request = self.request(plan);
        // SAFETY: this process has one thread.
        let pid = match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()).context("cannot start a process"),
            0 => self.become_program(&request),
            pid => pid,
        };
        let handle = ending::handle(pid);
        if handle.is_err() {
            end(pid, log.close());
        }
        let handle = handle.context("cannot watch a process (pidfd_open)")?;
        let until = Instant::now() + plan.timeout;
        self.running = Some(Running {
            pid,
            handle,
            until,
            fail_if: plan.fail_if.map(str::to_owned),
            only: plan.only.map(str::to_owned),
            dying: vec![],
            stops,
            seen: vec![],
            races: plan.races.clone(),
            raced: vec![],
            pairs: vec![],
        });
        Ok(())
    }

    fn request(&mut self, plan: &Plan<'_>) -> RunArguments {
        RunArguments {
            controlled: Some(Controlled {
                // The program opens it by us, so that it has no descriptor more than elsewhere.
                log: PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.log.as_raw_fd())),
                strategy: plan.strategy,
                seed: plan.seed,
                epoch: plan.epoch,
                places: plan.places,
                own_code: plan.file().map_or(vec![], |file| self.own_code(file)),
                races: plan.races != Races::Off,
                pauses: plan.pauses,
                only: plan.only.map(str::to_owned),
                run: self.run,
            }),
            ..RunArguments::one_cpu(plan.command.to_vec())
        }
    }

    /// See [`Controlled::own_code`]; read once for each program.
    fn own_code(&mut self, program: &OsStr) -> Vec<Range<u64>> {
        if self.own_code.0 != program {
            self.own_code = (program.to_owned(), own_code(Path::new(program), image::options::OWN_CODE_MAX));
        }
        self.own_code.1.clone()
    }

    /// In the child: the same addresses each time, no input, output into our file.
    fn become_program(&self, request: &RunArguments) -> ! {
        // SAFETY: the child has one thread, and these calls only change this process.
        unsafe {
            libc::setpgid(0, 0);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            libc::dup2(nothing, 0);
            libc::close(nothing);
            libc::dup2(self.output.as_raw_fd(), 1);
            libc::dup2(self.output.as_raw_fd(), 2);
        }
        std::process::exit(run::run(request))
    }

    /// What to wait for.
    pub fn handle(&self) -> Option<i32> {
        self.running.as_ref().map(|running| running.handle.as_raw_fd())
    }

    /// Gives the run more time.
    pub fn prolong(&mut self, by: Duration) {
        if let Some(running) = &mut self.running {
            running.until += by;
        }
    }

    /// The outcome, if the run has ended or must end now.
    pub fn look(&mut self) -> anyhow::Result<Option<Outcome>> {
        let log = self.log();
        let Some(running) = &mut self.running else { return Ok(None) };
        forget_excess(&self.output);
        let (child, mut status) = (running.pid, 0);
        let pid = if log.owner() == 0 { child } else { log.owner() };
        // SAFETY: our own child and word.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            end_rest(child, log.close());
            let stacks = std::mem::take(&mut running.dying);
            let only = running.only.take();
            let began = log.state() != State::New;
            let judge = |output: &[u8], fail_if: Option<&str>| match began {
                true => judge(status, output, fail_if),
                false => Err(not_begun(only.as_deref(), output)),
            };
            return self.finish(judge, stacks).map(Some);
        }
        let why = match log.state() {
            State::Stuck => End::Deadlock,
            State::Stopped => {
                let began = Instant::now();
                running.seen.push(self.modules.stacks(pid, &log, true));
                running.until += began.elapsed();
                stop_at(&log, running.stops.pop_front());
                log.set_state(State::Running);
                return Ok(None);
            }
            State::Dying => {
                running.dying = self.modules.stacks(pid, &log, true);
                log.set_state(State::Running);
                return Ok(None);
            }
            State::Raced => {
                let ends = running.races == Races::Until(log.race().pair());
                running.see_race(pid, &mut self.modules, &log);
                if !ends {
                    log.set_state(State::Running);
                    return Ok(None);
                }
                end(child, log.close());
                return self.finish(|_, _| Ok(End::Race), vec![]).map(Some);
            }
            _ if Instant::now() >= running.until => End::Hang,
            _ => return Ok(None),
        };
        let stacks = self.modules.stacks(pid, &log, why != End::Hang);
        end(child, log.close());
        self.finish(|_, _| Ok(why), stacks).map(Some)
    }

    fn finish(
        &mut self,
        why: impl FnOnce(&[u8], Option<&str>) -> anyhow::Result<End>,
        stacks: Vec<Stack>,
    ) -> anyhow::Result<Outcome> {
        let running = self.running.take();
        let fail_if = running.as_ref().and_then(|running| running.fail_if.clone());
        let (seen, races, pairs) =
            running.map(|running| (running.seen, running.raced, running.pairs)).unwrap_or_default();
        let mut output = Vec::new();
        self.output.rewind()?;
        Read::by_ref(&mut self.output).take(OUTPUT_MAX).read_to_end(&mut output)?;
        let log = self.log();
        let (possible, knows_all) = log.could();
        Ok(Outcome {
            end: why(&output, fail_if.as_deref())?,
            switches: log.made(),
            is_complete: log.is_complete(),
            points: log.points(),
            steps: log.steps(),
            hash: log.hash(),
            threads: log.threads(),
            paused_ns: log.paused(),
            census: log.counted(),
            sightings: log.sightings(),
            possible,
            knows_all,
            turns: log.taken_turns(),
            seen,
            stacks,
            races,
            pairs,
            others: log.others(),
            output,
        })
    }

    /// Makes one run and waits for it.
    pub fn attempt(&mut self, plan: &Plan<'_>) -> anyhow::Result<Outcome> {
        self.begin(plan)?;
        loop {
            if let Some(outcome) = self.look()? {
                return Ok(outcome);
            }
            wait_for(&[self.handle().unwrap_or(-1)]);
        }
    }
}

fn stop_at(log: &Log<'_>, stop: Option<Stop>) {
    let (turn, after) = stop.unwrap_or_default();
    log.set_after(after);
    log.set_stop(turn);
}

/// Frees the memory of the output that is not kept. The program's file offset is unchanged, and none of its writes
/// fails or blocks.
fn forget_excess(output: &File) {
    let Ok(len) = output.metadata().map(|data| data.len()) else { return };
    if len > OUTPUT_MAX {
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (from, len) = (OUTPUT_MAX as libc::off_t, (len - OUTPUT_MAX) as libc::off_t);
        // SAFETY: changes a file of ours that nobody has mapped.
        unsafe { libc::fallocate(output.as_raw_fd(), PUNCH, from, len) };
    }
}

fn in_memory(name: &CStr) -> io::Result<File> {
    // SAFETY: a system call with a string of ours.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: made just now, and nobody else's.
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { File::from_raw_fd(fd) }) }
}

impl Running {
    /// The run has shown a race and waits: that is no time of its own.
    fn see_race(&mut self, pid: i32, modules: &mut Modules, log: &Log<'_>) {
        let (began, race) = (Instant::now(), log.race());
        let wanted = match &self.races {
            Races::Off => false,
            // The run knows only as many as its log has room for.
            Races::All(known) => !known.contains(&race.pair()),
            Races::Until(pair) => race.pair() == *pair,
        };
        if wanted {
            self.pairs.push(race.pair());
            self.raced.extend(races::describe(pid, modules, log));
        }
        self.until += began.elapsed();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            end(running.pid, self.log().close());
        }
    }
}

/// Waits until one of these processes ends, or it is time to read the logs.
pub fn wait_for(handles: &[i32]) {
    let mut polled: Vec<libc::pollfd> =
        handles.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: as many as there are.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 2) };
}

/// The reason why nothing was controlled: `run` has ended, and its words are the output; or only one program was to be.
fn not_begun(only: Option<&str>, output: &[u8]) -> anyhow::Error {
    let output = String::from_utf8_lossy(output);
    let output = if output.trim().is_empty() { String::new() } else { format!(": {}", output.trim()) };
    match only {
        None => anyhow::anyhow!("the program did not run{output}"),
        Some(only) => anyhow::anyhow!("no program {only} was started that can be controlled{output}"),
    }
}

/// Any end is the program's own.
fn judge(status: i32, output: &[u8], fail_if: Option<&str>) -> anyhow::Result<End> {
    if libc::WIFSIGNALED(status) {
        return Ok(End::Crash(libc::WTERMSIG(status)));
    }
    let status = libc::WEXITSTATUS(status);
    Ok(match fail_if {
        Some(command) if finds(command, output)? => End::Found,
        Some(_) => End::Passed,
        None if status == 0 => End::Passed,
        None => End::Status(status),
    })
}

fn finds(command: &str, output: &[u8]) -> anyhow::Result<bool> {
    // A file and no pipe: the command need not read all of it.
    let mut input = in_memory(c"entresol-chaos-output").context("no room for the output of a run")?;
    input.write_all(output)?;
    input.rewind()?;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(input).stdout(Stdio::null());
    Ok(shell.status().context("cannot run the command of --fail-if")?.success())
}
