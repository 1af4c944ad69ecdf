//! `entresol ps`: all processes of the user under Entresol, with their threads.

use crate::args::PsArguments;
use serde_json::{Map, Value};
use std::io::{BufWriter, Write};
use tool::style;
use watch::column::{Column, Row, write_table};
use watch::{Watched, fetch};

/// Without `-o`.
const COLUMNS: &[Column] = &[
    Column::Pid,
    Column::Tid,
    Column::State,
    Column::Policy,
    Column::Pri,
    Column::Cpu,
    Column::Pcpu,
    Column::Time,
    Column::Queued,
    Column::Name,
    Column::Wait,
];

/// Prints them.
///
/// # Errors
/// The reason why a process that was asked for says nothing.
pub fn ps(request: &PsArguments) -> anyhow::Result<i32> {
    let watched = if request.pid.is_empty() {
        let (watched, wrong) = fetch::all();
        wrong.iter().for_each(|error| style::complain(&error.to_string()));
        watched
    } else {
        request.pid.iter().map(|&pid| fetch::one(pid)).collect::<Result<Vec<_>, _>>()?
    };
    let columns = if request.columns.is_empty() { COLUMNS } else { &request.columns };
    let mut rows = rows(&watched);
    for key in request.sort.iter().rev() {
        rows.sort_by(|&a, &b| if key.down { key.column.compare(b, a) } else { key.column.compare(a, b) });
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    if request.json {
        write_json(&mut out, columns, &rows)?;
    } else {
        write_table(&mut out, columns, &rows, !request.no_headings)?;
    }
    out.flush()?;
    drop(out);
    let mut err = std::io::stderr().lock();
    watched.iter().try_for_each(|watched| write_doubts(&mut err, watched))?;
    Ok(0)
}

/// Every thread of every process.
#[must_use]
pub fn rows(watched: &[Watched]) -> Vec<Row<'_>> {
    watched
        .iter()
        .flat_map(|process| process.snapshot.threads.iter().map(move |thread| Row { process, thread }))
        .collect()
}

/// An array with an object for each thread, one a line.
///
/// # Errors
/// Those of the stream.
pub fn write_json(out: &mut impl Write, columns: &[Column], rows: &[Row<'_>]) -> std::io::Result<()> {
    let names: Vec<String> = columns.iter().map(|column| column.name()).collect();
    writeln!(out, "[")?;
    for (i, &row) in rows.iter().enumerate() {
        let fields = columns.iter().zip(&names).map(|(column, name)| (name.clone(), column.value(row)));
        serde_json::to_writer(&mut *out, &Value::Object(fields.collect::<Map<_, _>>()))?;
        writeln!(out, "{}", if i + 1 < rows.len() { "," } else { "" })?;
    }
    writeln!(out, "]")
}

/// Says where what is shown may not be how it is.
///
/// # Errors
/// Those of the stream.
pub fn write_doubts(out: &mut impl Write, watched: &Watched) -> std::io::Result<()> {
    if let Some(age) = watched.stale {
        let seconds = age.as_secs_f64();
        writeln!(out, "process {} does not answer: this is how it was {seconds:.1} s ago", watched.pid)?;
    }
    let process = &watched.snapshot.process;
    if process.living as usize > process.threads.saturating_add(process.threads / 8 + 64) {
        writeln!(out, "process {}: {} of {} threads are shown", watched.pid, process.threads, process.living)?;
    }
    Ok(())
}
