//! `entresol sim status`: which shards are done, failed and missing.

use anyhow::Context;

use super::folder::{Folder, State, write_whole};
use super::row;
use super::shard::Shard;
use crate::args::{RowsArguments, StatusArguments};
use crate::{STATUS_BROKEN, STATUS_WRONG};
use tool::say;

/// The number of shards that are named. If there are more, they are only counted.
const NAMED_MOST: usize = 20;

/// Counts; returns the exit status: 0 if all is done and nothing failed.
pub(crate) fn status(request: &StatusArguments) -> anyhow::Result<i32> {
    let folder = Folder::open(&request.folder)?;
    let owner = &folder.owner;
    let (mut done, mut failed_runs) = (0u64, 0u64);
    let (mut failed, mut missing) = (Vec::new(), Vec::new());
    for shard in folder.shards() {
        match folder.state(shard)? {
            State::Done { failed } => (done, failed_runs) = (done + 1, failed_runs + failed),
            State::Failed(why) => failed.push((shard, why)),
            State::Missing => missing.push(shard),
        }
    }
    say!("{}: {} runs in {} shards, build {}", owner.name, owner.runs, owner.shards, owner.build)?;
    say!("done {done} (with {failed_runs} failed runs), failed {}, missing {}", failed.len(), missing.len())?;
    for (shard, why) in failed.iter().take(NAMED_MOST) {
        say!("failed {shard}: {why}")?;
    }
    let again: Vec<Shard> = failed.iter().map(|(shard, _)| *shard).chain(missing.iter().copied()).collect();
    if !again.is_empty() {
        let indices: Vec<String> = again.iter().take(NAMED_MOST).map(|shard| shard.index.to_string()).collect();
        let more = again.len().saturating_sub(NAMED_MOST);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        say!("to be run (again): shards {}{more}", indices.join(","))?;
    }
    Ok(if failed_runs > 0 || !failed.is_empty() {
        STATUS_BROKEN
    } else {
        i32::from(!missing.is_empty()) * STATUS_WRONG
    })
}

/// `entresol sim rows`: the rows of all shards in one file, as one process would have written them.
pub(crate) fn rows(request: &RowsArguments) -> anyhow::Result<i32> {
    let folder = Folder::open(&request.folder)?;
    let mut tables = Vec::new();
    for shard in folder.shards() {
        match folder.state(shard)? {
            State::Done { .. } => tables.push(folder.table(shard)?),
            _ => anyhow::bail!("shard {shard} is not done: `entresol sim status {}`", request.folder.display()),
        }
    }
    let whole = row::union(&tables).with_context(|| request.folder.display().to_string())?;
    anyhow::ensure!(
        whole.rows() as u64 == folder.owner.runs,
        "{}: {} rows of {} runs",
        request.folder.display(),
        whole.rows(),
        folder.owner.runs
    );
    write_whole(&request.file, |to| whole.write(to))?;
    say!("{} rows in {}", whole.rows(), request.file.display())?;
    Ok(0)
}
