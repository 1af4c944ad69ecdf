//! The text of an experiment, as it is written.

use serde::Deserialize;
use toml::Spanned;

use super::list::List;
use super::rule::{Cause, Limit};

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: String,
    /// `A..B`, as `--seeds` has it.
    pub seeds: Option<Spanned<String>>,
    /// Which broken rules make a run fail.
    #[serde(default = "default_fails")]
    pub fails: Vec<Cause>,
    #[serde(default)]
    pub limits: Vec<Spanned<Limit>>,
    pub runs: Vec<Spanned<Case>>,
}

/// One `[[runs]]`: a scenario, and the values of the options of `sim run` that it is run with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub scenario: List<String>,
    /// In place of the file's own.
    pub seeds: Option<Spanned<String>>,
    pub cpus: Option<List<u32>>,
    pub machine: Option<List<String>>,
    pub costs: Option<List<String>>,
    pub scale: Option<List<u32>>,
    pub policy: Option<List<String>>,
    pub threads: Option<List<u32>>,
    pub rounds: Option<List<u32>>,
    pub length: Option<List<u32>>,
    pub plant: Option<List<String>>,
    /// Whether the invariants are checked.
    #[serde(default = "default_check")]
    pub check: bool,
}

fn default_fails() -> Vec<Cause> {
    vec![Cause::Invariant, Cause::Rule]
}

fn default_check() -> bool {
    true
}
