//! Arguments of `entresol profile`.

use std::path::PathBuf;

use clap::Args;

use crate::args::{RunArguments, SamplingClock};

/// `entresol profile`.
#[derive(Debug, Args)]
#[command(
    override_usage = "entresol profile [OPTIONS] [-o FILE] [--] PROGRAM [ARGS]...",
    after_help = "The options of `entresol run` hold here, too; --hz is how often threads are sampled.\n\
        A file whose name ends in .svg is a flame graph; any other is for pprof, compressed.\n\
        Processes that the program starts are in the profile as well.\n\n\
        Exit status: the program's own, 128 and the signal's number if one ended it, or as for `run`.\n\n\
        Examples:\n  \
        entresol profile -o app.pb.gz -- ./app          then: go tool pprof -http=: app.pb.gz\n  \
        entresol profile -o app.svg -- ./app            a picture for any browser\n  \
        entresol profile --clock wall -o wait.svg -- ./server   threads that wait count as well"
)]
pub struct ProfileArguments {
    /// Which time: CPU time that threads consume, or wall time of all threads, also of those that wait
    #[arg(long, value_name = "CLOCK", default_value = "cpu")]
    pub clock: SamplingClock,
    /// Where the profile goes
    #[arg(short, long, value_name = "FILE", default_value = "profile.pb.gz", value_hint = clap::ValueHint::FilePath)]
    pub output: PathBuf,
    /// Where a flame graph goes besides
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub flame: Option<PathBuf>,
    /// How the program is run
    #[command(flatten)]
    pub run: RunArguments,
}

/// Samples in a second of CPU time where nothing else was asked for.
const CPU_HZ: u32 = 1000;
/// Samples of each thread in a second of wall time.
const WALL_HZ: u32 = 100;

impl ProfileArguments {
    /// Samples in a second.
    #[must_use]
    pub fn rate(&self) -> u32 {
        let usual = if self.clock == SamplingClock::Wall { WALL_HZ } else { CPU_HZ };
        self.run.hz.unwrap_or(usual)
    }
}
