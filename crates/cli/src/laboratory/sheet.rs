//! A page of tables whose cells are figures: what most subjects need, on a terminal, for a browser and as JSON.

use std::fmt::Write;

use anstyle::Style;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::html::escape;
use crate::bench::table::number;
use crate::style::{BAD, GOOD};

const PAGE: &str = include_str!("page.html");
const BOLD: Style = Style::new().bold();
const SOFT: Style = Style::new().dimmed();
/// The longest bar on a terminal, in columns, and in a browser.
const BAR: f64 = 40.0;
const BAR_WIDE: f64 = 480.0;

/// The page.
#[derive(Debug, Serialize)]
pub(super) struct Sheet {
    /// What it is about.
    pub title: String,
    /// How to read it.
    pub notes: Vec<String>,
    pub tables: Vec<Figures>,
    /// What must be so; the page's exit status says whether it is.
    pub verdicts: Vec<Verdict>,
}

/// Rows of figures of one unit.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub title: String,
    pub unit: &'static str,
    /// What the columns are.
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
    /// What gives the table again.
    pub command: String,
    /// Whether the last column is shown as bars.
    pub bars: bool,
}

/// One design.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub name: String,
    pub about: String,
    /// One a column; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

/// A sentence and whether it holds.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub says: String,
    pub holds: bool,
}

impl Sheet {
    /// Whether all verdicts hold.
    pub(super) fn holds(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.holds)
    }

    /// For a terminal. Writing to a string cannot fail.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{BOLD}{}{BOLD:#}\n\n", self.title);
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        for figures in &self.tables {
            figures.text(&mut text);
        }
        text.push('\n');
        for Verdict { says, holds } in &self.verdicts {
            let (color, word) = if *holds { (GOOD, "holds") } else { (BAD, "FAILS") };
            let _ = writeln!(text, "{color}{word}{color:#}  {says}");
        }
        text
    }

    /// For a browser, in one file.
    pub(super) fn html(&self) -> String {
        let mut body = String::new();
        for note in &self.notes {
            let _ = writeln!(body, "<p>{}</p>", escape(note));
        }
        for figures in &self.tables {
            figures.html(&mut body);
        }
        for Verdict { says, holds } in &self.verdicts {
            let _ = writeln!(body, "<p>{}: {}</p>", if *holds { "holds" } else { "FAILS" }, escape(says));
        }
        PAGE.replace("TITLE", &escape(&self.title)).replace("BODY", &body)
    }
}

impl Figures {
    fn largest(&self) -> f64 {
        self.rows.iter().filter_map(|row| *row.values.last()?).fold(f64::MIN_POSITIVE, f64::max)
    }

    fn text(&self, text: &mut String) {
        let _ = writeln!(text, "\n{BOLD}{}, {}{BOLD:#}", self.title, self.unit);
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        table.set_header(["".to_owned(), "".to_owned()].into_iter().chain(self.columns.iter().cloned()));
        for row in &self.rows {
            let values = row.values.iter().map(|value| value.map_or(String::new(), number));
            table.add_row([row.name.clone(), row.about.clone()].into_iter().chain(values));
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let _ = writeln!(text, "{table}");
        let largest = self.largest();
        for row in self.rows.iter().filter(|_| self.bars) {
            let value = row.values.last().copied().flatten().unwrap_or(0.0);
            let bar = "█".repeat((value / largest * BAR).ceil() as usize);
            let _ = writeln!(text, "  {:16}{GOOD}{bar}{GOOD:#} {}", row.name, number(value));
        }
        let _ = writeln!(text, "{SOFT}  {}{SOFT:#}", self.command);
    }

    fn html(&self, body: &mut String) {
        let heads: String = self.columns.iter().map(|head| format!("<th>{}</th>", escape(head))).collect();
        let _ = writeln!(body, "<h2>{}, {}</h2>", escape(&self.title), escape(self.unit));
        let _ = writeln!(body, "<table><tr><th></th><th></th>{heads}</tr>");
        for row in &self.rows {
            let cells: String =
                row.values.iter().map(|value| format!("<td>{}</td>", value.map_or(String::new(), number))).collect();
            let _ =
                writeln!(body, "<tr><td><b>{}</b></td><td>{}</td>{cells}</tr>", escape(&row.name), escape(&row.about));
        }
        let _ = writeln!(body, "</table>\n<code>{}</code>", escape(&self.command));
        if self.bars {
            self.plot(body);
        }
    }

    fn plot(&self, body: &mut String) {
        let (largest, height) = (self.largest(), self.rows.len() * 16 + 6);
        let _ =
            writeln!(body, "<svg viewBox=\"0 0 880 {height}\" role=\"img\" aria-label=\"{}\">", escape(&self.title));
        for (n, row) in self.rows.iter().enumerate() {
            let value = row.values.last().copied().flatten().unwrap_or(0.0);
            let (y, width) = (n * 16 + 3, value / largest * BAR_WIDE);
            let _ = writeln!(
                body,
                "<text x=\"0\" y=\"{}\">{}</text><rect class=\"good\" x=\"160\" y=\"{y}\" width=\"{width:.1}\" \
                 height=\"12\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
                y + 10,
                escape(&row.name),
                165.0 + width,
                y + 10,
                number(value)
            );
        }
        body.push_str("</svg>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_shown_and_escaped() {
        let row = |name: &str, value| Row { name: name.into(), about: "<old>".into(), values: vec![None, value] };
        let sheet = Sheet {
            title: "A & B".into(),
            notes: vec!["n".into()],
            tables: vec![Figures {
                title: "rate".into(),
                unit: "1/s",
                columns: vec!["1 CPU".into(), "2 CPUs".into()],
                rows: vec![row("old", Some(5.0)), row("new", Some(10.0))],
                command: "entresol lab".into(),
                bars: true,
            }],
            verdicts: vec![Verdict { says: "new > old".into(), holds: false }],
        };
        assert!(!sheet.holds());
        let (text, html) = (sheet.text(), sheet.html());
        for part in ["rate, 1/s", "10.00", "2 CPUs", "entresol lab", "FAILS"] {
            assert!(text.contains(part) && html.contains(part), "{part}: {text} {html}");
        }
        assert!(html.contains("A &amp; B") && html.contains("&lt;old>") && !html.contains("TITLE"));
        assert_eq!(html.matches("<rect").count(), 2);
        assert_eq!(text.matches('█').count(), 20 + 40);
    }
}
