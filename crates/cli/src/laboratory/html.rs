//! The page for a browser, in one file.

use std::fmt::Write;

use super::live::Live;
use super::rt_migrate::{Page, Simulated};
use crate::bench::table::number;

const PAGE: &str = include_str!("page.html");
/// The plot's scale: from 10 µs to 100 ms, four decades.
const FROM_US: f64 = 10.0;
const DECADES: f64 = 4.0;
const WIDTH: f64 = 560.0;
const BAR: usize = 14;

/// The whole page. Writing to a string cannot fail.
pub(super) fn render(page: &Page) -> String {
    let mut body = String::new();
    for note in &page.notes {
        let _ = writeln!(body, "<p>{}</p>", escape(note));
    }
    body.push_str("<div class=\"rounds\">\n");
    for rounds in &page.rounds {
        section(&rounds.title, &rounds.lines, rounds.command.as_deref(), &mut body);
    }
    body.push_str("</div>\n");
    for table in &page.tables {
        simulated(table, &mut body);
    }
    body.push_str("<div class=\"rounds\">\n");
    for one in &page.live {
        section(&format!("Live: {}", one.title), &live_lines(one), Some(&one.command), &mut body);
    }
    body.push_str("</div>\n");
    PAGE.replace("TITLE", &escape(page.title)).replace("BODY", &body)
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

fn section(title: &str, lines: &[String], command: Option<&str>, body: &mut String) {
    let _ = writeln!(body, "<section><h2>{}</h2>\n<pre>{}</pre>", escape(title), escape(&lines.join("\n")));
    if let Some(command) = command {
        let _ = writeln!(body, "<code>{}</code>", escape(command));
    }
    body.push_str("</section>\n");
}

fn live_lines(live: &Live) -> Vec<String> {
    let mut lines = live.lines.clone();
    if let (Some(mean), Some(worst)) = (live.mean_us, live.worst_us) {
        lines.push(format!("top threads: {} µs on average, {} at worst", number(mean), number(worst)));
    }
    lines.extend(live.stolen.as_ref().map(|words| format!("taken by the host: {words}")));
    lines.extend(live.passed.map(|passed| if passed { "Passed!" } else { "Failed!" }.to_owned()));
    lines.extend(live.missing.as_ref().map(|why| format!("not measured: {why}")));
    lines
}

fn simulated(all: &Simulated, body: &mut String) {
    let _ = writeln!(
        body,
        "<h2>Simulated, {} threads, costs of {}: when the top threads began, µs, mean / worst (rounds failed)</h2>",
        all.threads,
        escape(all.costs)
    );
    let heads: String = all.sizes.iter().map(|n| format!("<th>{n} CPUs</th>")).collect();
    let _ = writeln!(body, "<table><tr><th></th><th></th>{heads}</tr>");
    for row in &all.rows {
        let _ = write!(body, "<tr><td><b>{}</b></td><td>{}</td>", row.policy, escape(row.about));
        for c in &row.cells {
            let (class, failed) = match c.rounds_failed {
                0 => ("good", String::new()),
                n => ("bad", format!(" ({n})")),
            };
            let (mean, worst, command) = (number(c.mean_us), number(c.worst_us), escape(&c.command));
            let _ = write!(body, "<td class=\"{class}\" title=\"{command}\">{mean} / {worst}{failed}</td>");
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table>\n");
    plot(all, body);
}

/// Horizontal bars of the worst starts, on a logarithmic scale.
fn plot(all: &Simulated, body: &mut String) {
    let bars = all.rows.iter().map(|row| row.cells.len()).sum::<usize>() + all.rows.len();
    let height = bars * BAR + 24;
    let x = |us: f64| 220.0 + (us / FROM_US).max(1.0).log10() / DECADES * WIDTH;
    let _ = writeln!(body, "<svg viewBox=\"0 0 880 {height}\" role=\"img\" aria-label=\"worst starts\">");
    for (decade, label) in ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"].iter().enumerate() {
        let at = 220.0 + decade as f64 / DECADES * WIDTH;
        let _ = writeln!(
            body,
            "<line x1=\"{at}\" x2=\"{at}\" y1=\"16\" y2=\"{height}\"/><text x=\"{at}\" y=\"11\">{label}</text>"
        );
    }
    let mut y = 20;
    for row in &all.rows {
        for c in &row.cells {
            let class = if c.rounds_failed == 0 { "good" } else { "bad" };
            let (width, base, end) = (x(c.worst_us) - 220.0, y + BAR - 4, x(c.worst_us) + 5.0);
            let _ = writeln!(
                body,
                "<text x=\"0\" y=\"{base}\">{}, {} CPUs</text><rect class=\"{class}\" x=\"220\" y=\"{y}\" \
                 width=\"{width:.1}\" height=\"{}\"/><text x=\"{end:.1}\" y=\"{base}\">{}</text>",
                row.policy,
                c.cpus,
                BAR - 3,
                number(c.worst_us)
            );
            y += BAR;
        }
        y += BAR;
    }
    body.push_str("</svg>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::rt_migrate::{Cell, Row};

    #[test]
    fn the_page_is_whole_and_escaped() {
        let cell = |worst_us, rounds_failed| Cell {
            cpus: 4,
            threads: 5,
            rounds: 50,
            mean_us: 3.0,
            worst_us,
            rounds_failed,
            command: "a \"b\"".to_owned(),
        };
        let row = Row { policy: "old", about: "<before>", cells: vec![cell(20_000.0, 3), cell(40.0, 0)] };
        let page = Page {
            title: "A & B",
            notes: vec!["n".to_owned()],
            rounds: Vec::new(),
            tables: vec![Simulated { costs: "host", threads: "CPUs + 1", sizes: vec![4, 4], rows: vec![row] }],
            live: vec![Live { missing: Some("not root".to_owned()), ..Live::default() }],
        };
        let html = render(&page);
        for part in
            ["A &amp; B", "&lt;before>", "class=\"bad\" title=\"a &quot;b&quot;\">3.000 / 20000 (3)", "not root"]
        {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(html.matches("<rect").count(), 2);
        assert!(!html.contains("TITLE") && !html.contains("BODY"));
    }
}
