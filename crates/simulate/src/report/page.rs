//! The page, in one file that needs nothing else.

use std::fmt::Write;

use bench::table::number;
use sim::report::QUANTITIES;

use super::gather::{Gathered, Rows, Side};
use super::statistics::Summary;
use tool::html::escape;

/// Width of a picture of a distribution, pixels.
const WIDTH: f64 = 220.0;

/// The whole page. Writing to a string cannot fail.
pub(super) fn render(gathered: &Gathered, missing: usize) -> String {
    let mut body = format!("<p>{} runs, {} of them failed.</p>\n", gathered.runs, gathered.failed);
    if missing > 0 {
        let _ = writeln!(body, "<p class=\"bad\">{missing} shards are missing.</p>");
    }
    body.push_str(
        "<p>Each value is one run's. Boxes reach from the first to the third quarter with the median inside, lines from the \
         least to the greatest value; all of one table have one scale. A difference is that of the means to the first line, \
         with Welch's interval (1947) of 95 %; it is coloured where the interval leaves no doubt of its sign.</p>\n",
    );
    for (name, sides) in &gathered.groups {
        let _ = writeln!(body, "<h2>{}</h2>", escape(name));
        failures(sides, &mut body);
        for (at, (quantity, unit)) in QUANTITIES.iter().enumerate() {
            let rows: Vec<(&Side, &Rows, Summary)> =
                sides.iter().filter_map(|(s, r)| Some((s, r, Summary::of(r.values.get(&at)?.clone())?))).collect();
            // What is the same in all runs is not worth a table.
            if rows.iter().any(|(.., summary)| summary.least != rows[0].2.most || summary.least != summary.most) {
                distribution(at, quantity, unit, &rows, &mut body);
            }
        }
    }
    crate::page::whole("Simulated runs", &body)
}

fn failures(sides: &std::collections::BTreeMap<Side, Rows>, body: &mut String) {
    body.push_str(
        "<div class=\"wide\"><table><tr><th>policy</th><th>build</th><th class=\"number\">runs</th><th class=\"number\">failed</th></tr>\n",
    );
    for (side, rows) in sides {
        let class = if rows.failed > 0 { "number bad" } else { "number" };
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"{class}\">{}</td></tr>",
            escape(&side.policy),
            escape(&side.build),
            rows.runs,
            rows.failed
        );
    }
    body.push_str("</table></div>\n");
    for (number, (why, command)) in sides.values().flat_map(|rows| &rows.failures) {
        let _ = writeln!(body, "<p class=\"bad\">run {number}: {}</p><code>{}</code>", escape(why), escape(command));
    }
}

fn distribution(at: usize, name: &str, unit: &str, rows: &[(&Side, &Rows, Summary)], body: &mut String) {
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    let _ = writeln!(body, "<h3>{}{}</h3>\n<div class=\"wide\"><table><tr>", escape(name), escape(&unit));
    body.push_str("<th>policy</th><th>build</th><th></th>");
    for head in ["mean", "median", "p99", "greatest", "difference", "interval"] {
        let _ = write!(body, "<th class=\"number\">{head}</th>");
    }
    body.push_str("</tr>\n");
    let least = rows.iter().map(|(.., s)| s.least).fold(f64::MAX, f64::min);
    let most = rows.iter().map(|(.., s)| s.most).fold(f64::MIN, f64::max);
    for (place, (side, of, summary)) in rows.iter().enumerate() {
        let _ = write!(body, "<tr><td>{}</td><td>{}</td>", escape(&side.policy), escape(&side.build));
        let _ = write!(body, "<td>{}</td>", box_plot(summary, least, most));
        for value in [summary.mean, summary.median, summary.p99] {
            let _ = write!(body, "<td class=\"number\">{}</td>", number(value));
        }
        let worst = of.worst.get(&at).map_or("", |(_, command)| command);
        let _ = write!(body, "<td class=\"number\" title=\"{}\">{}</td>", escape(worst), number(summary.most));
        let difference = (place > 0).then(|| summary.minus(&rows[0].2)).flatten();
        match difference {
            Some(d) => {
                let class = if d.is_clear() { "number clear" } else { "number" };
                let (mean, low, high) = (number(d.mean), number(d.low), number(d.high));
                let _ = write!(body, "<td class=\"{class}\">{mean}</td><td class=\"number\">{low} to {high}</td>");
            }
            None => body.push_str("<td></td><td></td>"),
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table></div>\n<details><summary>worst runs</summary>\n");
    for (value, command) in rows.iter().filter_map(|(_, of, _)| of.worst.get(&at)) {
        let _ = writeln!(body, "<code>{}: {}</code>", number(*value), escape(command));
    }
    body.push_str("</details>\n");
}

/// Least, quarters, median and greatest value on a scale that all sides share.
fn box_plot(s: &Summary, least: f64, most: f64) -> String {
    let x = |value: f64| 4.0 + (value - least) / (most - least).max(f64::MIN_POSITIVE) * (WIDTH - 8.0);
    let label = format!("{} to {}, median {}", number(s.least), number(s.most), number(s.median));
    format!(
        "<svg viewBox=\"0 0 {WIDTH} 16\" width=\"{WIDTH}\" height=\"16\" role=\"img\"><title>{label}</title>\
         <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"8\" y2=\"8\"/>\
         <rect x=\"{:.1}\" width=\"{:.1}\" y=\"3\" height=\"10\"/>\
         <line class=\"median\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"2\" y2=\"14\"/></svg>",
        x(s.least),
        x(s.most),
        x(s.quarter),
        (x(s.three_quarters) - x(s.quarter)).max(1.0),
        x(s.median),
        x(s.median),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_stays_inside_its_picture() {
        let summary = Summary::of(vec![1.0, 2.0, 3.0, 10.0]).unwrap();
        let svg = box_plot(&summary, 1.0, 10.0);
        assert!(svg.contains("x1=\"4.0\" x2=\"216.0\""), "{svg}");
        let one = Summary::of(vec![5.0]).unwrap();
        assert!(!box_plot(&one, 5.0, 5.0).contains("NaN"));
    }

    #[test]
    fn the_page_is_whole_and_escaped() {
        let side = |policy: &str| Side { policy: policy.to_owned(), build: "0".to_owned() };
        let rows = |values: &[f64]| Rows {
            runs: values.len(),
            values: [(8, values.to_vec())].into(),
            worst: [(8, (values[0], "entresol sim run \"x\"".to_owned()))].into(),
            ..Rows::default()
        };
        let sides = [(side("a"), rows(&[9.0, 8.0])), (side("b"), rows(&[1.0, 2.0]))];
        let gathered = Gathered { runs: 4, failed: 0, groups: [("x <y>".to_owned(), sides.into())].into() };
        let page = render(&gathered, 2);
        for part in ["x &lt;y>", "wake-up p50, µs", "sim run &quot;x&quot;", "2 shards are missing", "<svg"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("BODY") && !page.contains("http"), "it loads nothing");
    }
}
