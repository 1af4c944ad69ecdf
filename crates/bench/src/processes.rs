//! Programs that start many processes: scripts, a build, and stressors of stress-ng.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;

use super::child::{Outcome, Side};

/// The work of one process and its children.
#[derive(Clone, Copy)]
pub(super) enum Work {
    /// A script of the shell.
    Script(&'static str),
    /// `make -j4` of small C files.
    Make,
    /// A stressor.
    Stress(&'static str),
}

/// Short programs, one after the other.
pub(super) const TRUE_500: Work = Work::Script("i=0; while [ $i -lt 500 ]; do /bin/true; i=$((i+1)); done");
/// Pipelines of three programs.
pub(super) const PIPELINES_200: Work =
    Work::Script("i=0; while [ $i -lt 200 ]; do echo $i | cat | cat; i=$((i+1)); done > /dev/null");

/// The C files of [`Work::Make`].
const FILES: usize = 31;

impl Work {
    /// The programs that it needs.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Work::Script(_) => &["sh", "true", "cat"],
            Work::Make => &["make", "cc"],
            Work::Stress(_) => &["stress-ng"],
        }
    }

    pub(super) fn is_possible(self) -> bool {
        self.programs().iter().all(|program| super::on_path(program).is_some())
    }

    /// Makes what the runs share, below this folder.
    pub(super) fn prepare(self, folder: &Path, quick: bool) -> anyhow::Result<Prepared> {
        let folder = folder.join("files");
        fs::create_dir_all(&folder)?;
        if let Work::Make = self {
            write_files(&folder).context("no room for a few small files")?;
        }
        Ok(Prepared { work: self, folder, quick })
    }
}

/// Work with its files.
pub(super) struct Prepared {
    work: Work,
    folder: PathBuf,
    quick: bool,
}

impl Prepared {
    /// Does it once: milliseconds, of a stressor microseconds for an operation.
    pub(super) fn run(&self, side: Side, figure: &str) -> anyhow::Result<Outcome> {
        let program = super::on_path(self.work.programs()[0]).context("the program was there just now")?;
        let mut command = side.command(&super::own_path()?, &program);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match self.work {
            Work::Script(script) => drop(command.args(["-c", script])),
            // Rebuilds everything, silently.
            Work::Make => drop(command.args(["-B", "-s", "-j4"]).env_remove("MAKEFLAGS").env_remove("MAKELEVEL")),
            Work::Stress(stressor) => {
                let seconds = if self.quick { "1" } else { "3" };
                command.arg(format!("--{stressor}")).args(["1", "--timeout", seconds, "--metrics-brief"]);
            }
        }
        let (took_ms, words) = match run(&mut command)? {
            Ok(done) => done,
            Err(why) => return Ok(Outcome::Failed(why)),
        };
        let value = match self.work {
            Work::Stress(stressor) => time_of_operation(&words, stressor),
            Work::Script(_) | Work::Make => Some(took_ms),
        };
        Ok(match value {
            Some(value) => Outcome::Figures(BTreeMap::from([(figure.to_owned(), value)])),
            None => Outcome::Failed("stress-ng printed no figure".into()),
        })
    }
}

/// How many milliseconds it took, and what it printed; or why it failed.
fn run(command: &mut Command) -> anyhow::Result<Result<(f64, String), String>> {
    let start = Instant::now();
    let output = command.output()?;
    let took_ms = start.elapsed().as_secs_f64() * 1e3;
    let [words, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Ok(match output.status.success() {
        true => Ok((took_ms, words + &errors)),
        false => Err(format!("it ended with {}: {}", output.status, errors.lines().last().unwrap_or_default())),
    })
}

/// From the line "stress-ng: metrc: [PID] NAME OPERATIONS SECONDS USER SYSTEM RATE …".
fn time_of_operation(words: &str, stressor: &str) -> Option<f64> {
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines = words.lines().filter(|line| line.contains("metrc:")).map(fields);
    let line = lines.into_iter().find(|fields| fields.get(3).is_some_and(|name| name == stressor))?;
    let [operations, seconds] = [4, 5].map(|at| line.get(at).and_then(|field| field.parse::<f64>().ok()));
    operations.zip(seconds).filter(|(operations, _)| *operations > 0.0).map(|(n, seconds)| seconds * 1e6 / n)
}

fn write_files(folder: &Path) -> anyhow::Result<()> {
    let mut objects = String::new();
    for i in 0..FILES {
        let text = format!("#include <stdio.h>\nint f{i}(int n) {{ return n ? printf(\"%d\\n\", n + {i}) : {i}; }}\n");
        fs::write(folder.join(format!("f{i}.c")), text)?;
        objects += &format!(" f{i}.o");
    }
    let rule = "%.o: %.c\n\tcc -O1 -c -o $@ $<\n";
    fs::write(folder.join("Makefile"), format!("all:{objects}\n{rule}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_stressor_is_found_among_its_words() {
        let words = "stress-ng: info:  [7] dispatching hogs: 1 fork\n\
            stress-ng: metrc: [7] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s\n\
            stress-ng: metrc: [7] fork               4000      2.00      0.09      0.91      2000.00       4000.00\n";
        assert_eq!(time_of_operation(words, "fork"), Some(500.0));
        assert_eq!(time_of_operation(words, "vfork"), None);
    }
}
