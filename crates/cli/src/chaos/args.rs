//! Arguments of `entresol chaos`.

use std::ffi::OsString;
use std::path::PathBuf;

use chaos::Spec;
use clap::Args;
use simulate::Shard;

/// The number of memory accesses that become scheduling points.
const PLACES: u16 = 16;
/// A race shows only if both of its accesses are places, or one of them and a change of the value.
const PLACES_FOR_RACES: u16 = 128;

/// `entresol chaos`.
#[derive(Debug, Args)]
#[command(
    override_usage = "entresol chaos [OPTIONS] [--] PROGRAM [ARGS]...\n       \
        entresol chaos --replay FILE [-- PROGRAM [ARGS]...]\n       \
        entresol chaos --bisect FILE",
    after_help = "One thread runs at a time, and a seed decides which. A run fails if the program crashes, exits with another \
        status than 0, ends up with all its threads waiting for each other, or does not end in time. The schedule of the first \
        failing run goes to a file that repeats it. docs/CHAOS.md says what is controlled and what is not.\n\n\
        Exit status: 0 if no run failed; 1 if one did, or a repeated one failed as before; 3 if a repeated one ended \
        otherwise; 125 if Entresol could not do it (the reason is printed).\n\n\
        Examples:\n  \
        entresol chaos -- ./test                            a thousand schedules\n  \
        entresol chaos --time 60 --jobs 2 -- ./test         as many as a minute allows, two at a time\n  \
        entresol chaos --strategy random --seed 7 -- ./test other schedules\n  \
        entresol chaos --strategy dfs:2 -- ./test           every schedule with at most two switches\n  \
        entresol chaos --fail-if 'grep -q lost' -- ./test   a failure is what this command finds in the output\n  \
        entresol chaos --races -- ./test                    lists the data races that these runs show\n  \
        entresol chaos --only mytest -- make check          controls a program that another one starts\n  \
        entresol chaos --shard 0/4 --junit r.xml -- ./test  a quarter of them, with a report for CI\n  \
        entresol chaos --replay chaos.json                  the failing run again\n  \
        entresol chaos --bisect chaos.json                  the fewest switches that it needs, and where they are\n  \
        entresol chaos --bisect chaos.json --html why.html  the same as a page, with a timeline and source lines"
)]
pub struct ChaosArguments {
    /// How many schedules are tried at most
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["replay", "bisect"])]
    pub runs: u64,
    /// For how many seconds schedules are tried at most; alone, without a limit on their number
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["replay", "bisect"])]
    pub time: Option<u64>,
    /// Try part I of N only, I from 0: every N-th schedule from the I-th on
    #[arg(long, value_name = "I/N", conflicts_with_all = ["replay", "bisect"])]
    pub shard: Option<Shard>,
    /// How many runs are made at the same time
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// How the next thread is chosen: pct:D (priorities that change at D - 1 random moments), surw (every order of some events is
    /// as likely), random (each thread is), several of these with commas between them (by turns), or dfs:C (every schedule with at
    /// most C switches, those with the fewest first)
    #[arg(long, value_name = "NAME", default_value = "pct:3,surw", value_parser = strategy)]
    pub strategy: Way,
    /// Control this program instead of the one that is started, which starts it: its name, or the end of its path
    #[arg(long, value_name = "NAME", value_parser = program, conflicts_with_all = ["replay", "bisect"])]
    pub only: Option<String>,
    /// The seed of the first run; each further run has the next one
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// How many memory accesses in the program's own code become scheduling points, different ones in each run [default: 16,
    /// with --races 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=4096))]
    pub places: Option<u16>,
    /// Report data races between these accesses, too, and go on after each
    #[arg(long, conflicts_with_all = ["replay", "bisect"])]
    pub races: bool,
    /// Seconds of real time that one run may take
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub timeout: u64,
    /// A run fails if this shell command, which gets its output as input, succeeds; its exit status no longer counts
    #[arg(long, value_name = "COMMAND")]
    pub fail_if: Option<String>,
    /// Where the failing schedule goes
    #[arg(short, long, value_name = "FILE", default_value = "chaos.json", value_hint = clap::ValueHint::FilePath)]
    pub output: PathBuf,
    /// Write what was found to this file as a JUnit report, which CI systems show
    #[arg(long, value_name = "FILE", conflicts_with = "bisect", value_hint = clap::ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    /// Write what was found to this file as JSON
    #[arg(long, value_name = "FILE", conflicts_with = "bisect", value_hint = clap::ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Write a page that explains a repeated or reduced schedule: its timeline, and where its threads were at each switch
    #[arg(long, value_name = "FILE", requires = "again", value_hint = clap::ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write the timeline of a repeated or reduced schedule to a file for ui.perfetto.dev
    #[arg(long, value_name = "FILE", requires = "again", value_hint = clap::ValueHint::FilePath)]
    pub trace: Option<PathBuf>,
    /// Repeat the schedule in this file
    #[arg(long, value_name = "FILE", group = "again", value_hint = clap::ValueHint::FilePath)]
    pub replay: Option<PathBuf>,
    /// Find the fewest switches of the schedule in this file that still make the program fail
    #[arg(long, value_name = "FILE", group = "again", value_hint = clap::ValueHint::FilePath)]
    pub bisect: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required_unless_present_any = ["replay", "bisect"], trailing_var_arg = true, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl ChaosArguments {
    /// How many memory accesses become scheduling points.
    pub fn places(&self) -> u16 {
        self.places.unwrap_or(if self.races { PLACES_FOR_RACES } else { PLACES })
    }
}

/// How schedules are chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// Each by its seed, by these strategies in turn; there is at least one.
    Drawn(Vec<Spec>),
    /// All with at most so many switches.
    Search(u32),
}

fn program(text: &str) -> Result<String, String> {
    match text.trim_start_matches("./") {
        "" => Err("it is the name of a program, or the end of its path".to_owned()),
        name if name.contains(';') => Err("a program with a semicolon in its path cannot be named".to_owned()),
        name => Ok(name.to_owned()),
    }
}

fn strategy(text: &str) -> Result<Way, String> {
    let bound = match text.split_once(':') {
        None if text == "dfs" => Some(2),
        Some(("dfs", bound)) => bound.parse().ok().filter(|bound| (1..=100).contains(bound)),
        _ => None,
    };
    let drawn = || text.split(',').map(Spec::parse).collect::<Option<_>>().map(Way::Drawn);
    let way = bound.map(Way::Search).or_else(drawn);
    way.ok_or_else(|| {
        "it is one of random, pct:1 to pct:100, surw, plain, several of them as in pct:3,surw, or dfs:1 to dfs:100"
            .to_owned()
    })
}
