//! A replay's figures as a page, in one file that needs nothing else.

use std::fmt::Write;

use bench::table::number;
use tool::html::escape;

use super::{HEADS, Study, UNKNOWN, text};
use crate::page;

/// Threads that are listed: those that ran the longest.
const THREADS_MAX: usize = 100;
/// Width of a bar of the picture and of its labels, and height of a line, pixels.
const BAR: f64 = 520.0;
const LABEL: f64 = 170.0;
const LINE: f64 = 24.0;

/// The whole page. Writing to a string cannot fail.
pub(super) fn render(study: &Study) -> String {
    let mut body = String::new();
    page::paragraph(&text::head(study), &mut body);
    page::paragraph(&text::bounds(study), &mut body);
    body.push_str("<h2>Make-span, ms</h2>\n");
    body.push_str(&bars(study));
    body.push_str(
        "<p>The line is the longest chain of what depends on each other: more CPUs do not make it shorter.</p>\n",
    );
    runs(study, &mut body);
    threads(study, &mut body);
    body.push_str("<h2>What the figures do not know</h2>\n");
    UNKNOWN.iter().for_each(|line| page::paragraph(line, &mut body));
    page::whole(&format!("{} on other machines", study.program), &body)
}

/// A bar for each run, its busy part darker.
fn bars(study: &Study) -> String {
    let longest = study.rows.iter().map(|row| row.makespan_ms).fold(f64::MIN_POSITIVE, f64::max);
    let width = |ms: f64| ms / longest * BAR;
    let height = LINE * study.rows.len() as f64;
    let total = LABEL + BAR + 80.0;
    let mut svg =
        format!("<svg viewBox=\"0 0 {total} {height}\" width=\"{total}\" height=\"{height}\" role=\"img\">\n");
    for (at, row) in study.rows.iter().enumerate() {
        let (y, end) = (LINE * at as f64, LABEL + width(row.makespan_ms));
        let _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{:.0}\" fill=\"currentColor\">{}</text>\
             <rect x=\"{LABEL}\" y=\"{:.0}\" width=\"{:.1}\" height=\"16\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\" fill=\"currentColor\">{}</text>",
            y + 16.0,
            escape(&row.name()),
            y + 4.0,
            (end - LABEL).max(1.0),
            end + 6.0,
            y + 16.0,
            number(row.makespan_ms)
        );
    }
    let x = LABEL + width(study.critical_path_ms.min(longest));
    let _ = writeln!(svg, "<line class=\"median\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{height}\"/></svg>");
    svg
}

fn runs(study: &Study, body: &mut String) {
    body.push_str("<h2>Runs</h2>\n");
    let rows = study.rows.iter().map(|row| [vec![row.name()], row.cells().into_iter().collect()].concat());
    page::table(&[""], &HEADS.map(str::to_owned), rows, body);
}

fn threads(study: &Study, body: &mut String) {
    let shown = study.threads.len().min(THREADS_MAX);
    let _ = writeln!(body, "<h2>Threads</h2>\n<p>{shown} of {}, by run time.</p>", study.threads.len());
    let heads = ["run time, ms", "waits ended by threads", "by time", "from outside"].map(str::to_owned);
    let rows = study.threads[..shown].iter().map(|thread| {
        let waits = &thread.waits;
        let counts = [waits.waits_ended_by_threads, waits.waits_ended_by_time, waits.waits_ended_from_outside];
        let words = vec![thread.tid.to_string(), thread.name.clone(), number(thread.run_ms)];
        words.into_iter().chain(counts.map(|count| count.to_string())).collect()
    });
    page::table(&["thread", "name"], &heads, rows, body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_trace::{Ends, Row, Thread};

    #[test]
    fn the_page_is_whole_and_escaped() {
        let row = |live, cpus, makespan: u64| Row { live, ..Row::of(cpus, makespan, 0.5, &Default::default()) };
        let study = Study {
            file: "f".to_owned(),
            program: "a<b".to_owned(),
            pid: 7,
            costs: "host".to_owned(),
            policy: "recorded",
            seed: 1,
            work_ms: 20.0,
            critical_path_ms: 5.0,
            waits: Ends::default(),
            rows: vec![row(true, 2, 10_000_000), row(false, 8, 5_000_000)],
            threads: vec![Thread { tid: 7, name: "x & y".to_owned(), run_ms: 20.0, waits: Ends::default() }],
        };
        let page = render(&study);
        for part in ["a&lt;b on other machines", "live, 2 CPUs", "simulated, 8 CPUs", "x &amp; y", "<svg", ">50.0</td>"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("BODY") && !page.contains("http"), "it loads nothing");
        // The picture stays inside its frame.
        assert!(page.contains(&format!("width=\"{BAR:.1}\"")), "{page}");
    }
}
