//! A differential fuzzer: random programs over the thread-related system calls, natively and under Entresol.
//!
//! A seed is a program: a list of operations, which an interpreter in C (`interpreter/`) executes and tells about. All that it
//! tells is the same however threads are scheduled, so the host is the oracle: each program runs twice natively, to prove that,
//! and then under Entresol with each of four settings. A program that tells something else is taken apart until nothing more can
//! go, and is kept as a file for `replay`.
//!
//! A new operation is a function in `interpreter/` and nothing else: the generator asks the interpreter what there is.

mod planted;
mod program;
mod run;
mod shrink;
mod sweep;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use program::{Kind, Op};
use run::{Runner, SETTINGS, Told, difference};

#[derive(Parser)]
#[command(about = "Random programs, natively and under Entresol")]
struct Arguments {
    #[command(subcommand)]
    command: Option<What>,
    /// The command under test; otherwise ENTRESOL, or the one beside this program
    #[arg(long, global = true)]
    entresol: Option<PathBuf>,
    /// The first seed; otherwise the time
    #[arg(long, global = true)]
    start: Option<u64>,
    /// How many seeds; otherwise as many as there is time for
    #[arg(long)]
    seeds: Option<u64>,
    /// For how many seconds; otherwise ENTRESOL_FUZZ_SECS, or 180
    #[arg(long)]
    secs: Option<u64>,
    /// How many programs at once
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Operations to leave out, with commas between
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Operations to draw from, and no others
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Go on after so many different findings
    #[arg(long, default_value_t = 5)]
    findings: usize,
    /// Where programs that differ are kept
    #[arg(long, default_value = "target/fuzz")]
    failures: PathBuf,
    /// Keep programs as they are
    #[arg(long)]
    no_shrink: bool,
}

#[derive(Subcommand)]
enum What {
    /// Run a kept program with each setting and show where it differs
    Replay {
        /// The file
        file: PathBuf,
        /// How many times
        #[arg(long, default_value_t = 5)]
        times: u32,
    },
    /// Show the program of a seed
    Show {
        /// The seed
        seed: u64,
    },
    /// Plant ten faults, one at a time, and find each
    Planted,
    /// Let each host call of small programs fail once, with each of its errors, and each page of shared files be missing
    Sweep {
        /// Every so many places only, each with one of its errors
        #[arg(long, default_value_t = 1)]
        every: u64,
    },
}

/// Where two runs differ, and with which setting.
struct Finding {
    setting: &'static [&'static str],
    native: String,
    ours: String,
}

impl Finding {
    /// What findings of the same kind have in common: the operation, and the first words of what was expected.
    fn key(&self) -> String {
        let name =
            self.native.split_whitespace().find(|word| word.ends_with(':') || word.starts_with(char::is_alphabetic));
        let told = self.native.split_once(": ").map_or("", |(_, told)| told);
        let words: Vec<&str> = told.split(' ').filter(|word| word.starts_with(char::is_alphabetic)).take(2).collect();
        format!("{} {}", name.unwrap_or("end").trim_end_matches(':'), words.join(" "))
    }
}

struct Fuzzer {
    runner: Runner,
    kinds: Vec<Kind>,
}

impl Fuzzer {
    /// Natively, if two runs agree and say something. Where the interpreter waits in vain for a worker, it has expected
    /// what Linux does not do, and which worker is left depends on time.
    fn native(&self, text: &str) -> Option<Told> {
        let told = self.runner.run(text, None);
        let is_stuck = told.lines.iter().any(|line| line.contains(" STUCK"));
        (told.end != "hung" && !is_stuck && self.runner.run(text, None) == told).then_some(told)
    }

    fn compare(&self, text: &str, native: &Told, setting: &'static [&'static str]) -> Option<Finding> {
        let ours = self.runner.run(text, Some(setting));
        difference(native, &ours).map(|(native, ours)| Finding { setting, native, ours })
    }

    /// The smallest program with a finding of this kind.
    fn shrink(&self, program: Vec<Op>, finding: &Finding) -> Vec<Op> {
        let key = finding.key();
        let begin = Instant::now();
        let mut fails = |steps: &[Op]| {
            if begin.elapsed() > Duration::from_secs(120) {
                return false;
            }
            let text = program::text(steps);
            // What is found in some runs only is looked for more than once.
            let found = (0..3).any(|_| {
                self.native(&text).is_some_and(|native| {
                    self.compare(&text, &native, finding.setting).is_some_and(|found| found.key() == key)
                })
            });
            found && self.native(&text).is_some()
        };
        shrink::shrink(program, &mut fails)
    }
}

/// What a run has found so far.
#[derive(Default)]
struct Summary {
    programs: u64,
    unsettled: u64,
    /// How often each was found, and by which seed first.
    findings: BTreeMap<String, (u64, u64)>,
}

fn fuzz(fuzzer: &Fuzzer, arguments: &Arguments) -> Result<bool, String> {
    let start = arguments.start.unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |age| age.as_millis() as u64)
    });
    let named = std::env::var("ENTRESOL_FUZZ_SECS").ok().and_then(|text| text.parse().ok());
    let secs = arguments.secs.or(named).unwrap_or(180);
    let until = if arguments.seeds.is_some() { None } else { Some(Instant::now() + Duration::from_secs(secs)) };
    std::fs::create_dir_all(&arguments.failures).map_err(|error| error.to_string())?;
    println!("{} operations, {} settings, seeds from {start}", fuzzer.kinds.len(), SETTINGS.len());
    let (next, stop, summary) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(Summary::default()));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                while !stop.load(Relaxed) && until.is_none_or(|until| Instant::now() < until) {
                    let n = next.fetch_add(1, Relaxed);
                    if arguments.seeds.is_some_and(|seeds| n >= seeds) {
                        break;
                    }
                    try_seed(fuzzer, arguments, start.wrapping_add(n), &summary, &stop);
                }
            });
        }
    });
    let summary = summary.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    println!(
        "{} programs x {} settings in {} s, {} left out (natively stuck, or two runs differ), {} different findings",
        summary.programs,
        SETTINGS.len(),
        begin.elapsed().as_secs(),
        summary.unsettled,
        summary.findings.len()
    );
    for (key, (count, seed)) in &summary.findings {
        println!("  {count:5} x {key}, first by seed {seed}");
    }
    Ok(summary.findings.is_empty())
}

fn try_seed(fuzzer: &Fuzzer, arguments: &Arguments, seed: u64, summary: &Mutex<Summary>, stop: &AtomicBool) {
    let locked = || summary.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let whole = program::random(&fuzzer.kinds, seed);
    let text = program::text(&whole);
    locked().programs += 1;
    let Some(native) = fuzzer.native(&text) else {
        locked().unsettled += 1;
        // Kept for whoever wants to make the interpreter's operation independent of time.
        drop(std::fs::write(arguments.failures.join("unsettled"), &text));
        return;
    };
    for setting in SETTINGS {
        let Some(finding) = fuzzer.compare(&text, &native, setting) else { continue };
        let key = finding.key();
        {
            let mut summary = locked();
            let (count, _) = summary.findings.entry(key.clone()).or_insert((0, seed));
            *count += 1;
            if *count > 1 {
                continue;
            }
        }
        let small = if arguments.no_shrink { whole.clone() } else { fuzzer.shrink(whole.clone(), &finding) };
        let shown = program::text(&small);
        let file = arguments.failures.join(format!("{}-{seed}", key.trim().replace([' ', '/', '(', ')'], "-")));
        let heading = format!(
            "# seed {seed}, {}\n# natively  {}\n# Entresol  {}\n",
            finding.setting.join(" "),
            finding.native,
            finding.ours
        );
        drop(std::fs::write(&file, format!("{heading}{shown}")));
        let summary = locked();
        println!("DIFFERS {} ({} operations), {}\n{heading}{shown}", key, program::size(&small), file.display());
        if summary.findings.len() >= arguments.findings {
            stop.store(true, Relaxed);
        }
        return;
    }
}

fn replay(fuzzer: &Fuzzer, file: &Path, times: u32) -> Result<bool, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = program::text(&program::parse(&text, &fuzzer.kinds)?);
    let native = fuzzer.native(&text).ok_or("it gets stuck natively, or two native runs differ")?;
    println!("natively:\n{}\n{}", native.lines.join("\n"), native.end);
    let mut same = true;
    for setting in SETTINGS {
        let found: Vec<Finding> = (0..times).filter_map(|_| fuzzer.compare(&text, &native, setting)).collect();
        println!("{}: {} of {times} differ", setting.join(" "), found.len());
        if let Some(finding) = found.first() {
            println!("  natively  {}\n  Entresol  {}", finding.native, finding.ours);
            same = false;
        }
    }
    Ok(same)
}

/// The command: the one that is named, or the one that was built with this program.
fn command(arguments: &Arguments) -> Result<PathBuf, String> {
    let named = arguments.entresol.clone().or_else(|| std::env::var_os("ENTRESOL").map(PathBuf::from));
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("entresol")));
    let path = named.or(beside).ok_or("no command")?;
    path.canonicalize().map_err(|error| format!("{}: {error}; build it first, or name it", path.display()))
}

fn work(arguments: &Arguments) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let runner = Runner::new(folder.path(), command(arguments)?)?;
    let mut kinds = program::kinds(&runner.ops()?)?;
    for kind in &mut kinds {
        let wanted = arguments.only.is_empty() || arguments.only.contains(&kind.name);
        if !wanted || arguments.without.contains(&kind.name) {
            kind.weight = 0;
        }
    }
    // The order in which files are linked changes nothing.
    kinds.sort_by(|a, b| a.name.cmp(&b.name));
    let fuzzer = Fuzzer { runner, kinds };
    match &arguments.command {
        None => fuzz(&fuzzer, arguments),
        Some(What::Planted) => Ok(planted::all(&fuzzer.runner, &fuzzer.kinds, arguments.start.unwrap_or(1))),
        Some(What::Sweep { every }) => Ok(sweep::all(&fuzzer.runner, *every, arguments.jobs)),
        Some(What::Replay { file, times }) => replay(&fuzzer, file, *times),
        Some(What::Show { seed }) => {
            print!("{}", program::text(&program::random(&fuzzer.kinds, *seed)));
            Ok(true)
        }
    }
}

fn main() -> ExitCode {
    match work(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
