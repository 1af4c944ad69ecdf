//! `entresol sim report`: one page about the rows of one or several folders of results.
//!
//! Rows that differ in build and policy only are compared: they are the *sides* of one *group*. `gather` sorts rows into
//! groups, `statistics` says how sides differ, `page` draws.

mod gather;
mod page;
mod statistics;

use anyhow::ensure;

use super::args::ReportArguments;
use super::fleet::folder::{Folder, State, write_whole};
use gather::Gathered;
use tool::say;

/// Writes the page; returns the exit status.
pub(super) fn report(request: &ReportArguments) -> anyhow::Result<i32> {
    let mut gathered = Gathered::default();
    let mut missing = 0;
    for path in &request.folders {
        let folder = Folder::open(path)?;
        for shard in folder.shards() {
            match folder.state(shard)? {
                State::Done { .. } => gathered.add(&folder.table(shard)?)?,
                State::Failed(_) | State::Missing => missing += 1,
            }
        }
    }
    ensure!(gathered.runs > 0, "there is no run to report: no shard is done");
    let page = page::render(&gathered, missing);
    write_whole(&request.html, |to| Ok(to.write_all(page.as_bytes())?))?;
    say!("{}: {} runs, {} failed, {missing} shards missing", request.html.display(), gathered.runs, gathered.failed)?;
    Ok(0)
}
