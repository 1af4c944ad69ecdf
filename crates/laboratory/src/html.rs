//! A page for a browser, in one file.

use std::fmt::Write;

use super::page::{Cell, Lines, Page, Part, Table, Verdict};
use super::plot;
use tool::html::escape;

const STYLE: &str = include_str!("page.css");

/// The whole page. Writing to a string cannot fail; drawing can.
pub(super) fn render(page: &Page) -> anyhow::Result<String> {
    let mut body = String::new();
    for note in &page.notes {
        let _ = writeln!(body, "<p>{}</p>", escape(note));
    }
    for fault in &page.faults {
        let _ = writeln!(body, "<p class=\"bad\">{}</p>", escape(fault));
    }
    let mut beside = false;
    for part in &page.parts {
        // Lines that follow each other stand side by side.
        if beside != matches!(part, Part::Lines(_)) {
            body.push_str(if beside { "</div>\n" } else { "<div class=\"lines\">\n" });
            beside = !beside;
        }
        match part {
            Part::Lines(part) => lines(part, &mut body),
            Part::Table(part) => table(part, &mut body),
            Part::Plot(part) => {
                let _ =
                    writeln!(body, "<h2>{}</h2>\n<div class=\"wide\">{}</div>", escape(&part.title), plot::svg(part)?);
            }
        }
    }
    if beside {
        body.push_str("</div>\n");
    }
    Ok(tool::html::page(page.title, STYLE, &body))
}

fn lines(part: &Lines, body: &mut String) {
    let mut lines = part.lines.clone();
    lines.extend(part.passed.map(|passed| if passed { "Passed!" } else { "Failed!" }.to_owned()));
    let _ = writeln!(body, "<section><h2>{}</h2>\n<pre>{}</pre>", escape(&part.title), escape(&lines.join("\n")));
    if let Some(command) = &part.command {
        let _ = writeln!(body, "<code>{}</code>", escape(command));
    }
    body.push_str("</section>\n");
}

fn table(part: &Table, body: &mut String) {
    let _ = writeln!(body, "<h2>{}</h2>\n<div class=\"wide\"><table>\n<tr>", escape(&part.title));
    for label in &part.labels {
        let _ = write!(body, "<th>{}</th>", escape(label));
    }
    for head in &part.heads {
        let _ = write!(body, "<th class=\"number\">{}</th>", escape(head));
    }
    body.push_str("</tr>\n");
    for (row, labels) in part.rows.iter().zip(part.shown_labels()) {
        body.push_str("<tr>");
        for label in labels {
            let _ = write!(body, "<td>{}</td>", escape(label));
        }
        row.cells.iter().for_each(|one| cell(one, body));
        body.push_str("</tr>\n");
    }
    body.push_str("</table></div>\n");
    for note in &part.notes {
        let _ = writeln!(body, "<p>{}</p>", escape(note));
    }
}

fn cell(cell: &Cell, body: &mut String) {
    let class = match cell.verdict {
        Verdict::None => "number",
        Verdict::Good => "number good",
        Verdict::Bad => "number bad",
    };
    let title = cell.command.as_ref().map(|command| format!(" title=\"{}\"", escape(command))).unwrap_or_default();
    let _ = write!(body, "<td class=\"{class}\"{title}>{}</td>", escape(&cell.text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Curve, Plot, Point, Row, quoted};

    #[test]
    fn the_page_is_whole_and_escaped() {
        let slow = Cell::figure("worst_us", 20_000.0).judged(false).repeated_by("a \"b\"");
        let row = Row { labels: vec!["old".to_owned(), "<before>".to_owned()], cells: vec![slow, Cell::words("none")] };
        let point = Point { x: 4.0, y: 20_000.0, verdict: Verdict::Bad };
        let curves = vec![Curve { name: "old".to_owned(), ours: false, points: vec![point] }];
        let page = Page {
            title: "A & B",
            notes: vec!["n".to_owned()],
            parts: vec![
                quoted("The message", &["one", "two"]),
                Part::Table(Table { title: "T".to_owned(), rows: vec![row], ..Table::default() }),
                Part::Plot(Plot { title: "P".to_owned(), across: "CPUs", up: "start", unit: "µs", curves }),
                quoted("Live", &["not root"]),
            ],
            faults: vec!["1 > 0, but < 2".to_owned()],
        };
        let html = render(&page).unwrap();
        for part in [
            "A &amp; B",
            "&lt;before>",
            "class=\"number bad\" title=\"a &quot;b&quot;\">20000</td>",
            "one\ntwo",
            "not root",
            "but &lt; 2",
            "<circle",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(html.matches("<div").count(), html.matches("</div>").count());
        assert!(!html.contains("TITLE") && !html.contains("BODY"));
    }
}
