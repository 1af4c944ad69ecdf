//! `entresol threads`: the threads of one process.

use crate::args::ThreadsArguments;
use crate::ps;
use std::io::{BufWriter, Write};
use watch::column::{Column, Row, write_cells, write_table};
use watch::{fetch, stack};

const COLUMNS: &[Column] = &[
    Column::Tid,
    Column::State,
    Column::Policy,
    Column::Pri,
    Column::Cpu,
    Column::Time,
    Column::Queued,
    Column::Vol,
    Column::Invol,
    Column::Mig,
    Column::Name,
    Column::Wait,
];

/// Prints them.
///
/// # Errors
/// The reason why there is nothing to print.
pub fn threads(request: &ThreadsArguments) -> anyhow::Result<i32> {
    let watched = fetch::one(request.pid)?;
    let rows: Vec<Row<'_>> = watched.snapshot.threads.iter().map(|thread| Row { process: &watched, thread }).collect();
    let mut out = BufWriter::new(std::io::stdout().lock());
    if request.json {
        ps::write_json(&mut out, COLUMNS, &rows)?;
        out.flush()?;
        return Ok(0);
    }
    let (process, name) = (&watched.snapshot.process, watched.name());
    let threads = if process.threads == 1 { "thread" } else { "threads" };
    writeln!(
        out,
        "process {} ({name}): {} {threads} on {} CPUs, {} queued",
        watched.pid,
        process.threads,
        watched.snapshot.cpus.len(),
        watched.snapshot.cpus.iter().map(|cpu| u64::from(cpu.queued)).sum::<u64>()
    )?;
    ps::write_doubts(&mut out, &watched)?;
    if request.stack {
        let stacks = stack::of(&watched)?;
        write_cells(&mut out, COLUMNS, &rows, true, |i, out| {
            stacks[i].iter().try_for_each(|line| writeln!(out, "    {}", line.text))
        })?;
    } else {
        write_table(&mut out, COLUMNS, &rows, true)?;
    }
    out.flush()?;
    Ok(0)
}
