//! `entresol top`: what all threads under Entresol are doing, again and again.
//!
//! - [`rates`]: from two snapshots of a thread, what it did in between;
//! - [`view`]: what is shown: grouping, filter, order, and the keys that change them;
//! - [`draw`]: the screen.
//!
//! Only this file knows of terminals and clocks.

pub mod draw;
pub mod rates;
pub mod view;

use crate::args::TopArguments;
use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rates::Rates;
use std::io::{BufWriter, IsTerminal, Write};
use std::time::{Duration, Instant};
use tool::style;
use view::{After, View};
use watch::{Watched, fetch};

/// Shows the table until the user quits.
///
/// # Errors
/// The terminal's.
pub fn top(request: &TopArguments) -> anyhow::Result<i32> {
    let interval = Duration::from_secs_f64(request.interval);
    let mut view = View::new(request.sort.unwrap_or_default(), request.filter.clone().unwrap_or_default());
    view.only = request.pid.clone();
    view.interval = interval;
    if request.once || request.json {
        return once(&mut view, request.json);
    }
    anyhow::ensure!(
        std::io::stdout().is_terminal(),
        "the output is no terminal; `entresol top --once` prints a table, and --json is for programs"
    );
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let result = watch(&mut terminal, &mut view);
    ratatui::restore();
    result.context("the terminal fails")?;
    Ok(0)
}

/// Two looks, and what happened between them. Answers the exit status: 1 if a process that was asked for cannot be shown.
fn once(view: &mut View, json: bool) -> anyhow::Result<i32> {
    let wrong: Vec<_> = view.only.iter().filter_map(|&pid| fetch::one(pid).err()).collect();
    wrong.iter().for_each(|error| style::complain(&error.to_string()));
    let mut rates = Rates::default();
    rates.look(processes(view));
    std::thread::sleep(view.interval);
    rates.look(processes(view));
    let mut out = BufWriter::new(std::io::stdout().lock());
    if json {
        serde_json::to_writer_pretty(&mut out, &view.json(&rates))?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", draw::headings(draw::WIDE))?;
        view.lines(&rates).iter().try_for_each(|line| writeln!(out, "{}", draw::text(line, draw::WIDE)))?;
    }
    out.flush()?;
    Ok(i32::from(!wrong.is_empty()))
}

/// Those that were asked for, as far as they live.
fn processes(view: &View) -> Vec<Watched> {
    if view.only.is_empty() {
        return fetch::all().0;
    }
    view.only.iter().filter_map(|&pid| fetch::one(pid).ok()).collect()
}

fn watch(terminal: &mut ratatui::DefaultTerminal, view: &mut View) -> std::io::Result<()> {
    let mut rates = Rates::default();
    let mut next = Instant::now();
    loop {
        if Instant::now() >= next && !view.paused {
            rates.look(processes(view));
            // The first look says nothing about speed: the second follows soon.
            next = Instant::now() + if rates.has_speed() { view.interval } else { view.interval.min(FIRST) };
        }
        terminal.draw(|frame| draw::draw(frame, view, &rates))?;
        let wait = if view.paused { view.interval } else { next.saturating_duration_since(Instant::now()) };
        if !event::poll(wait)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && view.press(key.code, key.modifiers, &rates) == After::Leave
        {
            return Ok(());
        }
    }
}

const FIRST: Duration = Duration::from_millis(200);
