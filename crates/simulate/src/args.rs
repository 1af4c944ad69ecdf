//! Arguments of `entresol sim`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

pub use super::fleet::shard::Shard;
use sim::workload::recorded::Policies;

/// `entresol sim`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0; 1 if an invariant or a scenario's own rule was broken; 2 if what was asked for \
        makes no sense or a file is wrong.\n\n\
        Examples:\n  \
        entresol sim list                                     what there is to run\n  \
        entresol sim run rt-migrate --cpus 16                 17 real-time threads on 16 CPUs\n  \
        entresol sim run periodic --cpus 4 --html page.html   with a timeline to look at\n  \
        entresol sim run app.json --cpus 2                    a workload of rt-app\n  \
        entresol sim sweep --seeds 0..1000                    a thousand random programs, all invariants on\n  \
        entresol sim sweep experiment.toml --shard 0/16       a sixteenth of an experiment, as rows\n  \
        entresol sim replay entresol-swarm-17.json            a failure of a sweep again\n  \
        entresol sim replay --from-trace app.pftrace --cpus 2,8,64    a live program on other machines"
)]
pub struct SimArguments {
    /// The command.
    #[command(subcommand)]
    pub task: SimTask,
}

/// The subcommands of `sim`.
#[derive(Debug, Subcommand)]
pub enum SimTask {
    /// List the scenarios, the cost profiles and the machines
    List,
    /// Run one scenario, or an rt-app file, once
    Run(RunArguments),
    /// Count the runs of an experiment and estimate how long they take
    Plan(PlanArguments),
    /// Run a scenario with many seeds, all invariants on; or an experiment
    Sweep(SweepArguments),
    /// Write the job that runs an experiment on a fleet
    Submit(SubmitArguments),
    /// Make a page about the results of experiments
    Report(ReportArguments),
    /// Count the shards of an experiment that are done, failed and missing
    Status(StatusArguments),
    /// Put the rows of all shards into one Parquet file
    Rows(RowsArguments),
    /// Run again what a sweep found, or what a live program did
    Replay(ReplayArguments),
    /// Measure this machine and print the cost file with its values
    Calibrate(CalibrateArguments),
}

/// The workload, and the machine it runs on.
#[derive(Clone, Debug, Default, Args)]
pub struct Choice {
    /// Simulated CPUs [default: 4, or as many as the machine has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=ids::CPUS_MAX as i64))]
    pub cpus: Option<u32>,
    /// The machine, its sockets, caches and speeds: `2x8` (sockets and cores of each), `2x8x2` (hardware threads of each
    /// core, too), a machine of `sim list`, FILE, or FILE:NAME. It has its own number of CPUs [default: flat]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// How many threads; `sim list` says what they are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub threads: Option<u32>,
    /// How many rounds; `sim list` says what they are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: Option<u32>,
    /// How many times as long swarm's programs are, 1 being some 1,500 events [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub length: Option<u32>,
    /// The costs: a profile of the committed cost file, FILE, or FILE:PROFILE [default: host]
    #[arg(long, value_name = "COSTS")]
    pub costs: Option<String>,
    /// Scale every cost to this percentage
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub scale: Option<u32>,
    /// The scheduler: Entresol's own kernel, what Linux did with real-time threads before and after the patch of 2007, or
    /// its fair schedulers [default: entresol]
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(sim::Policy::ALL.map(sim::Policy::name)))]
    pub policy: Option<String>,
    /// Plant a bug in the simulated machine, to see that the checks find it
    #[arg(long, value_name = "BUG", value_parser = PossibleValuesParser::new(sim::Bug::ALL.map(sim::Bug::name)))]
    pub plant: Option<String>,
}

/// `entresol sim run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        entresol sim run rt-migrate --cpus 1024 --rounds 5\n  \
        entresol sim run rt-migrate --costs smp2007 --policy 2007-passive\n  \
        entresol sim run schbench --cpus 16 --policy eevdf-6.12   Linux's scheduler instead\n  \
        entresol sim run schbench --machine 2x8           16 CPUs in two sockets\n  \
        entresol sim run periodic --machine phone         fast and small cores\n  \
        entresol sim run periodic --seed 3 --trace run.pftrace    for https://ui.perfetto.dev\n  \
        entresol sim run app.json --cpus 2 --html run.html        rt-app's JSON")]
pub struct RunArguments {
    /// A name of `sim list`, or an rt-app file (it ends in .json)
    pub scenario: String,
    /// The workload and its machine
    #[command(flatten)]
    pub choice: Choice,
    /// Everything random comes from it
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Do not check the invariants: twice as fast
    #[arg(long)]
    pub no_check: bool,
    /// Write a trace for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write a page with a timeline for each CPU
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// `entresol sim sweep`.
#[derive(Debug, Args)]
#[command(after_help = "Every hundredth seed is run twice and must give the same trace.\n\
        A seed that fails leaves a file for `entresol sim replay`.\n\n\
        Examples:\n  \
        entresol sim sweep --seeds 0..300\n  \
        entresol sim sweep --seeds 0..10000 --length 13 --jobs 2     20,000 events each\n  \
        entresol sim sweep rt-migrate --seeds 0..20 --cpus 16\n  \
        entresol sim sweep --seeds 0..150 --plant lose-kick          what the checks make of a bug\n\n\
        An experiment is a file that says which runs there are. Its results are rows in Parquet files, a file for each \
        shard; a shard that died is run again with the same command.\n\n  \
        entresol sim sweep experiment.toml\n  \
        entresol sim sweep experiment.toml --shard 3/16 --out results")]
pub struct SweepArguments {
    /// A name of `sim list`, an rt-app file (*.json), or an experiment (*.toml)
    #[arg(default_value = "swarm")]
    pub scenario: String,
    /// The seeds: from A up to and without B; an experiment says them itself
    #[arg(long, value_name = "A..B", value_parser = parse_seeds)]
    pub seeds: Option<std::ops::Range<u64>>,
    /// How many at the same time [default: as many as the host has CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// The workload and its machine
    #[command(flatten)]
    pub choice: Choice,
    /// The folder for the files of failures [default: .]
    #[arg(long, value_name = "FOLDER")]
    pub failures: Option<PathBuf>,
    /// Of an experiment: run part I of N, counted from 0 [default: what a job's environment says, else all]
    #[arg(long, value_name = "I/N", help_heading = "Experiments")]
    pub shard: Option<Shard>,
    /// Of an experiment: how many parts there are; which one is run is SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX
    #[arg(long, value_name = "N", conflicts_with = "shard", help_heading = "Experiments")]
    pub shards: Option<u64>,
    /// Of an experiment: the folder for the results [default: NAME.results for NAME.toml]
    #[arg(long, value_name = "FOLDER", help_heading = "Experiments")]
    pub out: Option<PathBuf>,
    /// Of an experiment: end at the first failure, also of another part
    #[arg(long, help_heading = "Experiments")]
    pub fail_fast: bool,
}

impl SweepArguments {
    /// Whether a file says what is run.
    pub fn is_experiment(&self) -> bool {
        self.scenario.ends_with(".toml")
    }

    /// Refuses options that mean something for an experiment only.
    pub(super) fn refuse_those_of_experiments(&self) -> anyhow::Result<()> {
        let said = [
            ("--shard", self.shard.is_some()),
            ("--shards", self.shards.is_some()),
            ("--out", self.out.is_some()),
            ("--fail-fast", self.fail_fast),
        ];
        match said.iter().find(|(_, said)| *said) {
            Some((option, _)) => anyhow::bail!("{option} is for an experiment (*.toml), not for '{}'", self.scenario),
            None => Ok(()),
        }
    }

    /// Refuses options that an experiment says itself.
    pub(super) fn refuse_those_of_scenarios(&self) -> anyhow::Result<()> {
        let said = [("--seeds", self.seeds.is_some()), ("--failures", self.failures.is_some())];
        let said = said.iter().find(|(_, said)| *said).map(|(option, _)| (*option).to_owned());
        match said.or_else(|| self.choice.words().first().cloned()) {
            Some(option) => anyhow::bail!("{option} contradicts {}: the file says it", self.scenario),
            None => Ok(()),
        }
    }
}

/// `entresol sim plan`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  entresol sim plan experiment.toml --shards 64")]
pub struct PlanArguments {
    /// The experiment
    pub file: PathBuf,
    /// Run the first seed of this many configurations to see how long they take; 0: only count
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub sample: u32,
    /// Also show how long each of this many shards takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub shards: Option<u64>,
}

/// `entresol sim submit`.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("engine").required(true),
    after_help = "The job names the number of shards, so single tasks can be run again: sbatch --array=3 NAME.sbatch\n\n\
        Examples:\n  \
        entresol sim submit experiment.toml --slurm --shards 64 --now\n  \
        entresol sim submit experiment.toml --kubernetes --shards 64 --image registry/entresol:1"
)]
pub struct SubmitArguments {
    /// The experiment
    pub file: PathBuf,
    /// Write a script for sbatch
    #[arg(long, group = "engine")]
    pub slurm: bool,
    /// Write an indexed Job
    #[arg(long, group = "engine")]
    pub kubernetes: bool,
    /// How many parts
    #[arg(long, value_name = "N")]
    pub shards: u64,
    /// How many runs at the same time in each part, each on a CPU
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: u32,
    /// The folder for the results, which all machines see [default: NAME.results for NAME.toml]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// End all parts at the first failure
    #[arg(long)]
    pub fail_fast: bool,
    /// Submit it, too, by sbatch or kubectl
    #[arg(long)]
    pub now: bool,
    /// The file of the job [default: the experiment's name with .sbatch or .yaml]
    #[arg(long, value_name = "FILE")]
    pub job: Option<PathBuf>,
    /// The container image, which has this command
    #[arg(long, value_name = "IMAGE", conflicts_with = "slurm")]
    pub image: Option<String>,
    /// The claim of the volume that has the experiment's folder, under the same path [default: entresol]
    #[arg(long, value_name = "NAME", conflicts_with = "slurm")]
    pub claim: Option<String>,
    /// How many parts at the same time [default: all]
    #[arg(long, value_name = "N", conflicts_with = "slurm")]
    pub parallel: Option<u64>,
}

/// `entresol sim report`.
#[derive(Debug, Args)]
#[command(after_help = "Folders of several builds are compared with each other.\n\n\
    Examples:\n  entresol sim report experiment.results\n  entresol sim report before.results after.results --html both.html")]
pub struct ReportArguments {
    /// Folders of results
    #[arg(required = true)]
    pub folders: Vec<PathBuf>,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub html: PathBuf,
}

/// `entresol sim status`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 if all shards are done and no run failed; 1 if something failed; 2 if shards are \
    missing.\n\nExample:\n  entresol sim status experiment.results"
)]
pub struct StatusArguments {
    /// The folder of results
    pub folder: PathBuf,
}

/// `entresol sim rows`.
#[derive(Debug, Args)]
#[command(after_help = "The file is the same, byte for byte, as the one that a sweep with one shard leaves.\n\n\
    Example:\n  entresol sim rows experiment.results all.parquet")]
pub struct RowsArguments {
    /// The folder of results
    pub folder: PathBuf,
    /// The file to write
    pub file: PathBuf,
}

/// `entresol sim replay`.
#[derive(Debug, Args)]
#[command(
    after_help = "With --from-trace the run times, and what depends on what, are those of a live run; the CPUs, and \
        what wake-ups cost, are simulated. The number of CPUs that the program had is always simulated, too, to compare.\n\n\
        Exit status: 0; 1 if the run fails again; 2 if what was asked for makes no sense or a file is wrong.\n\n\
        Examples:\n  \
        entresol sim replay entresol-swarm-17.json --html failure.html\n  \
        entresol run --cpus 2 --trace xz.pftrace -- xz -T4 -k file\n  \
        entresol sim replay --from-trace xz.pftrace --cpus 2,8,64 --html xz.html"
)]
pub struct ReplayArguments {
    /// A file written by `sim sweep`
    #[arg(required_unless_present = "from_trace", conflicts_with = "from_trace")]
    pub file: Option<PathBuf>,
    /// Write a trace of the simulated run for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write a page: a timeline for each CPU, or a live program's figures
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replay a live program, from a trace that `entresol run --trace` wrote
    #[arg(long, value_name = "FILE", help_heading = "Live programs")]
    pub from_trace: Option<PathBuf>,
    /// On so many CPUs [default: as many as it had]
    #[arg(long, value_name = "N,N", value_delimiter = ',', conflicts_with = "file", help_heading = "Live programs")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=ids::CPUS_MAX as i64))]
    pub cpus: Vec<u32>,
    /// On this machine, which has its own number of CPUs, as of `sim run` [default: flat]
    #[arg(long, value_name = "MACHINE", conflicts_with = "file", help_heading = "Live programs")]
    pub machine: Option<String>,
    /// The costs of wake-ups and migrations: a profile of the committed cost file, FILE, or FILE:PROFILE [default: host]
    #[arg(long, value_name = "COSTS", conflicts_with = "file", help_heading = "Live programs")]
    pub costs: Option<String>,
    /// Scale every cost to this percentage
    #[arg(long, value_name = "PERCENT", conflicts_with = "file", help_heading = "Live programs")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub scale: Option<u32>,
    /// Give all threads this policy instead of their own [default: recorded]
    #[arg(long, value_name = "POLICY", conflicts_with = "file", help_heading = "Live programs")]
    #[arg(value_parser = PossibleValuesParser::new(Policies::ALL.map(Policies::name)))]
    pub policy: Option<String>,
    /// The process, if the trace has several
    #[arg(long, value_name = "PID", conflicts_with = "file", help_heading = "Live programs")]
    pub process: Option<i32>,
    /// Everything random comes from it
    #[arg(long, value_name = "S", default_value_t = 1, conflicts_with = "file", help_heading = "Live programs")]
    pub seed: u64,
    /// Print the figures as JSON
    #[arg(long, conflicts_with = "file", help_heading = "Live programs")]
    pub json: bool,
}

/// `entresol sim calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "The file has the form of crates/sim/cost.toml, and replaces it there if it shall count for \
        everybody.\n\n\
        Examples:\n  entresol sim calibrate\n  entresol sim calibrate --write cost.toml\n  \
        entresol sim run schbench --costs cost.toml")]
pub struct CalibrateArguments {
    /// Write the file there instead of printing it
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Measure for a shorter time
    #[arg(long)]
    pub quick: bool,
}

/// `A..B`, neither empty nor backwards.
pub(super) fn parse_seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("expected two numbers with .. between, like 0..300")?;
    let number = |s: &str| s.trim().parse::<u64>().map_err(|why| format!("'{s}' is not a seed: {why}"));
    let (from, to) = (number(from)?, number(to)?);
    if from < to { Ok(from..to) } else { Err(format!("no seed lies between {from} and {to}: expected A < B")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_that_is_not_empty() {
        assert_eq!(parse_seeds("3..7"), Ok(3..7));
        for wrong in ["7", "7..7", "7..3", "a..b", "0..-1", ""] {
            assert!(parse_seeds(wrong).is_err(), "{wrong}");
        }
    }
}
