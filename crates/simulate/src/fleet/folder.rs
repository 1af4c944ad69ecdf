//! The folder of an experiment's results, which many processes on many machines may share.
//!
//! | file | what it says |
//! |---|---|
//! | `_experiment.json` | whose results these are, and in how many parts |
//! | `shard-I-of-N.parquet` | this part is done; it has all its rows |
//! | `_shard-I-of-N.failed` | this part was ended early by a failing run (`--fail-fast`) |
//!
//! Readers of folders of Parquet files leave names with a dot or an underscore alone.
//!
//! Every file is written under another name and renamed, so it is whole or not there. A shard that dies leaves nothing,
//! and one that runs twice, even at the same time, gives the same file.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::row::{FACT_BUILD, FACT_EXPERIMENT, FACT_FAILED};
use super::shard::Shard;
use super::table::Table;
use crate::experiment::Experiment;

/// The form of `_experiment.json`.
const FORM: u32 = 1;

/// Whose results are in the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Owner {
    entresol_results: u32,
    pub name: String,
    pub hash: String,
    pub build: String,
    pub runs: u64,
    pub shards: u64,
}

/// The folder.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    pub owner: Owner,
}

/// What is known of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// With how many failed runs.
    Done {
        failed: u64,
    },
    /// Ended early, and why.
    Failed(String),
    Missing,
}

impl Folder {
    /// Makes the folder, or takes one that has results of the same experiment, build and number of parts.
    pub fn claim(path: &Path, experiment: &Experiment, build: &str, shards: u64) -> anyhow::Result<Folder> {
        let owner = Owner {
            entresol_results: FORM,
            name: experiment.name.clone(),
            hash: experiment.hash.clone(),
            build: build.to_owned(),
            runs: experiment.runs(),
            shards,
        };
        fs::create_dir_all(path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        let file = path.join("_experiment.json");
        if !file.exists() {
            write_whole(&file, |to| Ok(to.write_all((serde_json::to_string_pretty(&owner)? + "\n").as_bytes())?))?;
        }
        let found = Folder::open(path)?;
        let (there, here) = (&found.owner, &owner);
        let differs = [
            ("another experiment", there.hash != here.hash),
            ("another build of entresol", there.build != here.build),
            ("another number of shards", there.shards != here.shards),
        ];
        if let Some((what, _)) = differs.iter().find(|(_, differs)| *differs) {
            anyhow::bail!(
                "{} has results of {what} (experiment {}, build {}, {} shards; asked for: {}, {}, {}): \
                 expected another folder (--out)",
                path.display(),
                there.hash,
                there.build,
                there.shards,
                here.hash,
                here.build,
                here.shards
            );
        }
        Ok(found)
    }

    /// A folder with results.
    pub fn open(path: &Path) -> anyhow::Result<Folder> {
        let file = path.join("_experiment.json");
        let text = fs::read_to_string(&file).with_context(|| {
            format!("{}: no results of `entresol sim sweep`; cannot read _experiment.json", path.display())
        })?;
        let owner: Owner = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        ensure!(owner.entresol_results == FORM, "{}: form {}, expected {FORM}", file.display(), owner.entresol_results);
        Ok(Folder { path: path.to_owned(), owner })
    }

    fn rows_of(&self, shard: Shard) -> PathBuf {
        self.path.join(format!("shard-{}-of-{}.parquet", shard.index, shard.of))
    }

    fn failure_of(&self, shard: Shard) -> PathBuf {
        self.path.join(format!("_shard-{}-of-{}.failed", shard.index, shard.of))
    }

    /// All shards, in order.
    pub fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        let of = self.owner.shards;
        (0..of).map(move |index| Shard { index, of })
    }

    /// The state of a shard.
    pub fn state(&self, shard: Shard) -> anyhow::Result<State> {
        if self.rows_of(shard).exists() {
            let failed = self.table(shard)?.fact(FACT_FAILED).and_then(|n| n.parse().ok());
            return Ok(State::Done { failed: failed.context("a table that does not say how many runs failed")? });
        }
        match fs::read_to_string(self.failure_of(shard)) {
            Ok(why) => Ok(State::Failed(why.trim_end().to_owned())),
            Err(_) => Ok(State::Missing),
        }
    }

    /// The rows of a shard that is done.
    pub fn table(&self, shard: Shard) -> anyhow::Result<Table> {
        let file = self.rows_of(shard);
        let table = Table::read(&file)?;
        let expected = [(FACT_BUILD, &self.owner.build), (FACT_EXPERIMENT, &self.owner.hash)];
        for (fact, expected) in expected {
            ensure!(table.fact(fact) == Some(expected), "{}: {fact} is not {expected}", file.display());
        }
        Ok(table)
    }

    /// Says that the shard is done; answers the file.
    pub fn finish(&self, shard: Shard, table: &Table) -> anyhow::Result<PathBuf> {
        let file = self.rows_of(shard);
        write_whole(&file, |to| table.write(to))?;
        self.forget_failure(shard);
        Ok(file)
    }

    /// Says that the shard was ended early.
    pub fn fail(&self, shard: Shard, why: &str) -> anyhow::Result<()> {
        write_whole(&self.failure_of(shard), |to| Ok(writeln!(to, "{why}")?))
    }

    /// Before a shard is run again.
    pub fn forget_failure(&self, shard: Shard) {
        // It is not there as a rule.
        let _ = fs::remove_file(self.failure_of(shard));
    }

    /// A shard that was ended early, if there is one.
    pub fn first_failure(&self) -> Option<String> {
        let names = fs::read_dir(&self.path).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| Some(name.strip_prefix('_')?.strip_suffix(".failed")?.to_owned())).min()
    }
}

/// Writes a file that is whole or not there, whatever happens to this process or the machine.
pub(crate) fn write_whole(
    file: &Path,
    content: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let told = || format!("cannot write {}", file.display());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut whole = tempfile::Builder::new()
        .prefix(".unfinished-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .with_context(told)?;
    content(&mut whole).with_context(told)?;
    whole.as_file().sync_all().with_context(told)?;
    whole.persist(file).with_context(told)?;
    Ok(())
}
