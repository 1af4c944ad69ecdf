//! Experiments: many runs, described by a file.
//!
//! A file lists scenarios with the options of `sim run`. An option may have several values; what is run is the product
//! of all of them, and of all seeds. The runs have one order, the *canonical* one, from which each has its number: cases
//! as in the file, then options, then seeds. Everything is read and checked before anything runs. docs/SWEEPS.md has the
//! grammar.
//!
//! **Start reading at** [`Experiment`]; `file` has the text's form, `product` multiplies, `rule` decides what fails.

mod file;
mod list;
mod product;
mod rule;

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use super::args::{Choice, parse_seeds};
use super::plan::Plan;
pub(crate) use rule::{Cause, Rule, Verdict};

/// More configurations than these are a mistake: each is kept in memory.
const CONFIGURATIONS_MAX: usize = 100_000;

/// A whole experiment.
#[derive(Debug)]
pub(crate) struct Experiment {
    pub name: String,
    /// Of everything that its results depend on, except the build; 16 hexadecimal digits.
    pub hash: String,
    pub rule: Rule,
    pub configurations: Vec<Configuration>,
}

/// What is run with several seeds.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// As the file says it; a path is relative to the file.
    pub scenario: String,
    /// As the file says them.
    pub choice: Choice,
    pub check: bool,
    pub plan: Plan,
    pub seeds: Range<u64>,
    /// The number of its first run.
    pub first: u64,
    /// A hash of everything that its runs depend on, except the build and the seed; 16 hexadecimal digits.
    pub hash: String,
}

impl Experiment {
    /// Reads and checks a file.
    pub fn read(file: &Path) -> anyhow::Result<Experiment> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Experiment::parse(&text, file.parent().unwrap_or(Path::new(""))).with_context(|| file.display().to_string())
    }

    /// Reads and checks a text; paths in it are relative to `folder`.
    pub fn parse(text: &str, folder: &Path) -> anyhow::Result<Experiment> {
        // The message has line, column and what was expected.
        let file: file::File = toml::from_str(text).map_err(|why| anyhow::anyhow!("{}", why.to_string().trim_end()))?;
        ensure!(is_plain(&file.name), "name = \"{}\": expected letters, digits, '-' and '_' only", file.name);
        if let Some(cause) = file.fails.iter().find(|cause| matches!(cause, Cause::Limit | Cause::Repeat)) {
            bail!("fails: '{}' always fails a run; expected 'invariant' and 'rule' only", cause.name());
        }
        let limits = file.limits.iter().map(|limit| match limit.get_ref().fault() {
            Some(fault) => bail!("line {}: {fault}", line(text, limit.span().start)),
            None => Ok(limit.get_ref().clone()),
        });
        let rule = Rule { fails: file.fails.clone(), limits: limits.collect::<Result<_, _>>()? };
        let mut configurations = Vec::new();
        for case in &file.runs {
            let at = || format!("line {}", line(text, case.span().start));
            let seeds = case.get_ref().seeds.as_ref().or(file.seeds.as_ref());
            let seeds = seeds.context("no seeds: expected seeds = \"A..B\" here or at the top").with_context(at)?;
            let seeds = parse_seeds(seeds.get_ref())
                .map_err(|why| anyhow::anyhow!("line {}: seeds: {why}", line(text, seeds.span().start)))?;
            product::multiply(case.get_ref(), &seeds, folder, &mut configurations).with_context(at)?;
        }
        ensure!(!configurations.is_empty(), "nothing to run: expected at least one [[runs]]");
        let hash = number_and_hash(&file.name, &rule, &mut configurations)?;
        Ok(Experiment { name: file.name, hash, rule, configurations })
    }

    /// How many runs there are.
    pub fn runs(&self) -> u64 {
        self.configurations.last().map_or(0, |last| last.first + last.count())
    }

    /// The configuration and the seed of the run with this number, which must be below [`Experiment::runs`].
    pub fn run(&self, number: u64) -> (&Configuration, u64) {
        let at = self.configurations.partition_point(|configuration| configuration.first <= number) - 1;
        let configuration = &self.configurations[at];
        (configuration, configuration.seeds.start + (number - configuration.first))
    }
}

impl Configuration {
    /// How many runs it has.
    pub fn count(&self) -> u64 {
        self.seeds.end - self.seeds.start
    }

    /// The command that repeats its run with this seed, from the folder in which the experiment lies.
    pub fn command(&self, seed: u64) -> String {
        let mut words = vec!["entresol sim run".to_owned(), self.scenario.clone()];
        words.extend(self.choice.words());
        words.extend((!self.check).then(|| "--no-check".to_owned()));
        words.push(format!("--seed {seed}"));
        words.join(" ")
    }

    /// Whether its machine is chosen, and not drawn from the seed.
    pub fn has_machine(&self) -> bool {
        self.plan.has_machine()
    }
}

/// Gives each configuration the number of its first run; answers the hash of the whole.
fn number_and_hash(name: &str, rule: &Rule, configurations: &mut [Configuration]) -> anyhow::Result<String> {
    let mut first = 0u64;
    let mut all = vec![name.to_owned(), serde_json::to_string(rule)?];
    for configuration in configurations {
        configuration.first = first;
        let next = first.checked_add(configuration.count()).filter(|next| *next < u64::MAX);
        first = next.context("more runs than can be counted")?;
        all.push(format!("{} {:?}", configuration.hash, configuration.seeds));
    }
    Ok(short_hash(all.join("\n").as_bytes()))
}

/// The first 16 hexadecimal digits of its SHA-256.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// It becomes part of names of files and jobs.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// The line of a place in a text, from 1.
fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests;
