//! `entresol lab`: the historic designs beside ours, one page a subject.
//!
//! `rt_migrate` takes the figures, simulated and live; `text` and `html` show them.

pub mod args;
mod html;
mod live;
mod rt_migrate;
mod text;

use anyhow::Context;

use args::{LabArguments, LabTask};

/// Makes the page that was asked for; answers the exit status.
pub fn laboratory(request: &LabArguments) -> anyhow::Result<i32> {
    let LabTask::RtMigrate(request) = &request.task;
    if let Some(file) = &request.html {
        std::fs::write(file, b"").with_context(|| format!("cannot write {}", file.display()))?;
    }
    let page = rt_migrate::page(request)?;
    if request.json {
        println!("{}", serde_json::to_string_pretty(&page)?);
    } else {
        anstream::print!("{}", text::render(&page));
    }
    if let Some(file) = &request.html {
        std::fs::write(file, html::render(&page)).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(i32::from(!page.holds()))
}
