//! `entresol lab`: the historic designs beside ours, one page a subject.
//!
//! `rt_migrate` takes the figures, simulated and live; `text` and `html` show them. `procfs` has tables of figures
//! alone, which `sheet` shows.

pub mod args;
mod html;
mod live;
mod procfs;
mod rt_migrate;
mod sheet;
mod text;

use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use args::{LabArguments, LabTask};

/// Makes the page that was asked for; answers the exit status.
pub fn laboratory(request: &LabArguments) -> anyhow::Result<i32> {
    match &request.task {
        LabTask::RtMigrate(request) => {
            let page = || rt_migrate::page(request);
            let shown = |page: &rt_migrate::Page| (text::render(page), html::render(page), page.holds());
            show(request.html.as_deref(), request.json, page, shown)
        }
        LabTask::Procfs(request) => {
            let shown = |page: &sheet::Sheet| (page.text(), page.html(), page.holds());
            show(request.html.as_deref(), request.json, || Ok(procfs::page(request)), shown)
        }
    }
}

/// Takes the figures and shows them in the forms that were asked for. Whether the file can be written is found out
/// before anything is measured.
fn show<P: Serialize>(
    file: Option<&Path>,
    json: bool,
    page: impl FnOnce() -> anyhow::Result<P>,
    shown: impl FnOnce(&P) -> (String, String, bool),
) -> anyhow::Result<i32> {
    let write = |text: &str| match file {
        Some(file) => std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display())),
        None => Ok(()),
    };
    write("")?;
    let page = page()?;
    let (text, html, holds) = shown(&page);
    if json {
        println!("{}", serde_json::to_string_pretty(&page)?);
    } else {
        anstream::print!("{text}");
    }
    write(&html)?;
    Ok(i32::from(!holds))
}
