//! `entresol profile`: where a program's threads spend CPU time, or wall time.
//!
//! - [`supervise`] runs the program as `run` does, in a child process, and knows the folder where images write records.
//! - Crate `profile` makes one [`Profile`] of all records and writes it.

pub mod args;
pub mod supervise;

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

use anyhow::Context;
use profile::collect::{Profile, collect};
use profile::{Sampling, flame, pprof};

use crate::STATUS_REFUSED;
use crate::args::SamplingClock;
use args::ProfileArguments;
use tool::style;

/// Runs the program, writes the profile, returns the program's exit status.
pub fn profile(request: &ProfileArguments) -> anyhow::Result<i32> {
    let outputs = match Outputs::create(request) {
        Ok(outputs) => outputs,
        Err(why) => {
            style::complain(&format!("{why:#}"));
            return Ok(STATUS_REFUSED);
        }
    };
    let trace = match request.run.trace.as_deref().map(crate::trace::Output::create).transpose() {
        Ok(trace) => trace,
        Err(why) => {
            style::complain(&format!("{why:#}"));
            return Ok(STATUS_REFUSED);
        }
    };
    let sampling = Sampling { hz: request.rate(), wall: request.clock == SamplingClock::Wall };
    let mut run = request.run.clone();
    run.sampling = Some(sampling);
    let (status, records) = supervise::run(run)?;
    let files = records.read()?;
    if files.is_empty() {
        return Ok(status);
    }
    let profile = collect(&files, &sampling);
    outputs.write(&profile)?;
    report(&profile, request);
    if let Some(trace) = trace {
        trace.write(&files)?;
    }
    Ok(status)
}

/// The output files, created before the program starts, so that a mistake in a name costs nothing.
struct Outputs {
    pprof: Option<File>,
    flame: Option<File>,
}

impl Outputs {
    fn create(request: &ProfileArguments) -> anyhow::Result<Outputs> {
        let is_picture = request.output.extension() == Some(OsStr::new("svg"));
        anyhow::ensure!(
            !(is_picture && request.flame.is_some()),
            "two flame graphs were asked for: -o {} and --flame",
            request.output.display()
        );
        let create = |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        let first = create(&request.output)?;
        let flame = request.flame.as_deref().map(create).transpose()?;
        Ok(if is_picture { Outputs { pprof: None, flame: Some(first) } } else { Outputs { pprof: Some(first), flame } })
    }

    fn write(self, profile: &Profile) -> anyhow::Result<()> {
        if let Some(file) = self.pprof {
            pprof::write(profile, file).context("cannot write the profile")?;
        }
        if let Some(file) = self.flame {
            flame::write(profile, file).context("cannot write the flame graph")?;
        }
        Ok(())
    }
}

fn report(profile: &Profile, request: &ProfileArguments) {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let of = match request.clock {
        SamplingClock::Cpu => format!("{:.3} s of CPU time", seconds(profile.cpu())),
        SamplingClock::Wall => {
            format!("{:.3} s of threads' time, {:.3} s of CPU time", seconds(profile.wall()), seconds(profile.cpu()))
        }
    };
    let also = if profile.processes > 1 { format!(" in {} processes", profile.processes) } else { String::new() };
    style::remark(&format!(
        "{} samples, {} lost, of {of}{also}, and {:.3} s of threads that no tick found; written to {}",
        profile.samples(),
        profile.lost,
        seconds(profile.unsampled),
        request.output.display()
    ));
    if profile.unfinished > 0 {
        style::remark(&format!(
            "{} processes ended without a last word, so their last moments are missing",
            profile.unfinished
        ));
    }
}
