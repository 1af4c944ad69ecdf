//! Which part of an experiment a process runs: shard `i` of `n` has the runs whose numbers leave the rest `i`.
//!
//! Taking every n-th run, and not n pieces, makes shards of equal length although runs on more CPUs last longer.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};

/// More shards than these no job array has.
const SHARDS_MAX: u64 = 1_000_000;

/// One part of a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub index: u64,
    /// How many parts there are.
    pub of: u64,
}

impl Shard {
    /// The only part.
    pub const WHOLE: Shard = Shard { index: 0, of: 1 };

    /// The numbers of its runs.
    pub fn numbers(self, runs: u64) -> impl Iterator<Item = u64> {
        (self.index..runs).step_by(self.of as usize)
    }

    /// The requested shard, or the one that the environment of a job names; `variable` reads the environment.
    ///
    /// `shards` is the number of parts if only the index comes from the environment. It must be given for a Kubernetes
    /// job, whose environment lacks it, and for a Slurm job of which some tasks are repeated: Slurm counts only those.
    pub fn chosen(
        said: Option<Shard>,
        shards: Option<u64>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Shard> {
        if let Some(shard) = said {
            return Ok(shard);
        }
        let number = |name: &str| -> anyhow::Result<Option<u64>> {
            let Some(value) = variable(name) else { return Ok(None) };
            Ok(Some(value.parse().with_context(|| format!("{name}={value}: expected a number"))?))
        };
        let (slurm, kubernetes) = (number("SLURM_ARRAY_TASK_ID")?, number("JOB_COMPLETION_INDEX")?);
        ensure!(
            slurm.is_none() || kubernetes.is_none(),
            "both SLURM_ARRAY_TASK_ID and JOB_COMPLETION_INDEX are set: say --shard I/N"
        );
        match (slurm.or(kubernetes), shards) {
            (Some(index), Some(of)) => Shard { index, of }.checked(),
            (None, Some(of)) => bail!(
                "--shards {of} says how many parts there are, but neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX \
                 says which to run: expected --shard I/{of}"
            ),
            (None, None) => Ok(Shard::WHOLE),
            (Some(_), None) if kubernetes.is_some() => {
                bail!("JOB_COMPLETION_INDEX says which part to run, but not of how many: say --shards N")
            }
            (Some(id), None) => {
                let count =
                    number("SLURM_ARRAY_TASK_COUNT")?.context("SLURM_ARRAY_TASK_COUNT is not set: say --shards N")?;
                let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1);
                ensure!(
                    step == 1,
                    "the array has the step {step}: expected tasks that follow each other, or --shards N"
                );
                let first = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
                let index = id.checked_sub(first).context("SLURM_ARRAY_TASK_ID is below SLURM_ARRAY_TASK_MIN")?;
                Shard { index, of: count }.checked()
            }
        }
    }

    /// The shard, if there can be such a one.
    pub fn checked(self) -> anyhow::Result<Shard> {
        ensure!((1..=SHARDS_MAX).contains(&self.of), "{} shards: expected 1 to {SHARDS_MAX}", self.of);
        ensure!(self.index < self.of, "shard {} of {}: expected 0 to {}", self.index, self.of, self.of - 1);
        Ok(self)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Shard> {
        let (index, of) = text.split_once('/').context("expected I/N, like 0/16")?;
        let number = |n: &str| n.parse::<u64>().with_context(|| format!("'{n}': expected I/N, like 0/16"));
        Shard { index: number(index)?, of: number(of)? }.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(shards: Option<u64>, variables: &[(&str, &str)]) -> Result<String, String> {
        let variable =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        Shard::chosen(None, shards, variable).map(|shard| shard.to_string()).map_err(|why| format!("{why:#}"))
    }

    #[test]
    fn every_run_is_in_one_shard() {
        for of in 1..9 {
            let mut all: Vec<u64> = (0..of).flat_map(|index| Shard { index, of }.numbers(20)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..20).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_job_says_which_shard_it_is() {
        assert_eq!(from(None, &[]), Ok("0/1".to_owned()));
        let array = [("SLURM_ARRAY_TASK_ID", "7"), ("SLURM_ARRAY_TASK_COUNT", "4"), ("SLURM_ARRAY_TASK_MIN", "5")];
        assert_eq!(from(None, &array), Ok("2/4".to_owned()));
        assert_eq!(from(Some(16), &array), Ok("7/16".to_owned()));
        assert_eq!(from(Some(3), &[("JOB_COMPLETION_INDEX", "2")]), Ok("2/3".to_owned()));
    }

    #[test]
    fn half_an_answer_is_refused() {
        for (shards, variables, word) in [
            (Some(4), &[][..], "expected --shard I/4"),
            (None, &[("JOB_COMPLETION_INDEX", "2")], "say --shards N"),
            (Some(2), &[("JOB_COMPLETION_INDEX", "2")], "expected 0 to 1"),
            (None, &[("SLURM_ARRAY_TASK_ID", "2")], "SLURM_ARRAY_TASK_COUNT"),
            (None, &[("SLURM_ARRAY_TASK_ID", "x")], "expected a number"),
            (Some(4), &[("SLURM_ARRAY_TASK_ID", "1"), ("JOB_COMPLETION_INDEX", "1")], "both"),
        ] {
            let why = from(shards, variables).unwrap_err();
            assert!(why.contains(word), "{variables:?}: {why}");
        }
        for wrong in ["", "1", "1/1", "0/0", "-1/2", "a/b", "0/1000001"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
        assert_eq!("3/4".parse::<Shard>().unwrap(), Shard { index: 3, of: 4 });
    }
}
