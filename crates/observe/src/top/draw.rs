//! The screen: 80 columns and 24 lines are enough.

use super::rates::Rates;
use super::view::{Group, Key, Line, View, short_seconds};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line as Text;
use ratatui::widgets::{Clear, Paragraph};

/// CPUs that have a meter each.
const METERS_MAX: usize = 8;
/// The least width for all columns.
pub const WIDE: u16 = 100;

/// The line above the table.
#[must_use]
pub fn headings(width: u16) -> String {
    let migrations = if width < WIDE { "" } else { " MIG/s" };
    format!("    PID       TID S  PRI CPU  %CPU  %QUE   SW/s{migrations}     TIME NAME       WAITS FOR")
}

const HELP: &str = "\
 Up Down PgUp PgDn Home End   mark a line; its process's CPUs have the meters
 s S, Right Left              sort by the next column, the one before
 r                            the other way round
 g Tab                        threads, processes with their threads, processes
 /                            show only names and ids with a text; Enter ends it, Esc forgets it
 Space                        pause
 + -                          look half as often, twice as often
 q Esc                        leave

 S is R running, Q queued for a CPU, H in a host call, S waiting for anything else.
 PRI is the nice value, or FF (first in, first out) or RR (round robin) with the priority.
 %QUE is time spent ready to run without a CPU. Any key goes back.";

/// A line of the table as text, for a screen of that width.
#[must_use]
pub fn text(line: &Line<'_>, width: u16) -> String {
    let id = line.thread.map_or_else(String::new, |thread| thread.tid.to_string());
    let cpu = line.thread.map_or_else(String::new, |thread| thread.cpu.to_string());
    let name: String = line.name().chars().take(if line.below { 9 } else { 10 }).collect();
    let indent = if line.below { " " } else { "" };
    let migrations = if width < WIDE { String::new() } else { format!(" {:>5.0}", line.speed.migrations) };
    let text = format!(
        "{:>7} {id:>9} {} {:>4} {cpu:>3} {:>5.1} {:>5.1} {:>6.0}{migrations} {:>8} {indent}{name:<rest$} {}",
        line.process.watched.pid,
        line.state(),
        line.priority(),
        line.speed.cpu,
        line.speed.queued,
        line.speed.switches,
        short_seconds(line.time),
        line.wait(),
        rest = 10 - indent.len(),
    );
    text.trim_end().to_owned()
}

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, view: &View, rates: &Rates) {
    let lines = view.lines(rates);
    let marked = lines.get(view.marked.min(lines.len().saturating_sub(1)));
    let meters = marked.map_or_else(Vec::new, |line| meters(line, frame.area().width));
    let [title, above, top, table, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(meters.len() as u16),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let pause = if view.paused { ", paused" } else { "" };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Text::styled(format!("entresol: {}{pause}", view.title(rates)), bold), title);
    frame.render_widget(Paragraph::new(meters), above);
    frame.render_widget(Text::styled(headings(frame.area().width), Style::new().add_modifier(Modifier::REVERSED)), top);
    draw_table(frame, table, view, &lines);
    frame.render_widget(Text::raw(footer(view)), foot);
    if view.help {
        frame.render_widget(Clear, table);
        frame.render_widget(Paragraph::new(HELP), table);
    }
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, view: &View, lines: &[Line<'_>]) {
    if lines.is_empty() {
        let why = if view.filter.is_empty() { "no process runs under Entresol" } else { "nothing has that text" };
        return frame.render_widget(Text::raw(format!(" {why}")), area);
    }
    let height = usize::from(area.height);
    let marked = view.marked.min(lines.len() - 1);
    let first = (marked + 1).saturating_sub(height);
    let shown = lines.iter().enumerate().skip(first).take(height).map(|(i, line)| {
        let mut style = if line.state() == 'R' { Style::new().green() } else { Style::new() };
        if line.thread.is_none() {
            style = style.add_modifier(Modifier::BOLD);
        }
        if i == marked {
            style = style.add_modifier(Modifier::REVERSED);
        }
        Text::styled(text(line, area.width), style)
    });
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), area);
}

/// How busy the CPUs of the marked line's process are, two meters a line.
fn meters(line: &Line<'_>, width: u16) -> Vec<Text<'static>> {
    let process = line.process;
    let cpus = &process.watched.snapshot.cpus;
    // A meter takes 21 characters in addition to its bar.
    let bar = usize::from(width.min(120)).saturating_sub(45) / 2;
    let meter = |i: usize| {
        let busy = process.busy.get(i).copied().unwrap_or(0.0);
        let full = (busy * bar as f64 / 100.0).round() as usize;
        let queued = format!("{} queued", cpus[i].queued);
        format!("{i:>3} [{:<bar$}] {busy:>3.0}% {queued:<9}", "|".repeat(full.min(bar)))
    };
    let shown = cpus.len().min(METERS_MAX);
    let mut text: Vec<Text<'static>> = (0..shown)
        .step_by(2)
        .map(|i| {
            let second = if i + 1 < shown { meter(i + 1) } else { String::new() };
            Text::raw(format!("{} {second}", meter(i)))
        })
        .collect();
    let more = if cpus.len() > shown { format!(", {} more CPUs", cpus.len() - shown) } else { String::new() };
    let old = process.watched.stale.map_or_else(String::new, |age| {
        format!(": does not answer, this is how it was {:.0} s ago", age.as_secs_f64())
    });
    text.push(Text::raw(format!("CPUs of process {} ({}){more}{old}", process.watched.pid, process.name)));
    text
}

fn footer(view: &View) -> String {
    if view.typing {
        return format!("text: {}_", view.filter);
    }
    let sort = match view.key {
        Key::Cpu => "%CPU",
        Key::Queued => "%QUE",
        Key::Switches => "SW/s",
        Key::Migrations => "MIG/s",
        Key::Time => "TIME",
        Key::Priority => "PRI",
        Key::State => "S",
        Key::Name => "NAME",
        Key::Id => "PID, TID",
    };
    let group = match view.group {
        Group::Threads => "threads",
        Group::Tree => "tree",
        Group::Processes => "processes",
    };
    let filter = if view.filter.is_empty() { String::new() } else { format!(" with \"{}\"", view.filter) };
    let way = if view.reversed { " reversed" } else { "" };
    format!("{group}{filter} by {sort}{way}, every {:.1} s   h help  q leave", view.interval.as_secs_f64())
}
