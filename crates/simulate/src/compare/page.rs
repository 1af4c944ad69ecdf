//! The comparison as a page for a browser.

use super::table::{Comparison, WORDS};
use crate::page;

/// The whole page.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut body = String::new();
    page::paragraph(
        "Simulated, live under Entresol, and live natively: the same programs, the same number of CPUs, by turns. \
         Microseconds.",
        &mut body,
    );
    page::table(&WORDS, &Comparison::heads(), comparison.cells(), &mut body);
    comparison.counted().for_each(|line| page::paragraph(&line, &mut body));
    page::section("Sides that failed", &comparison.failures, &mut body);
    page::section("What differs, and the likeliest reason", &comparison.notes, &mut body);
    body.push_str("<h2>Costs of the simulated machine, ns</h2>\n");
    page::paragraph(&format!("They are {}.", comparison.costs_are), &mut body);
    let rows = comparison.costs.in_words().into_iter().map(|(name, value)| vec![name.to_owned(), value]);
    page::table(&["operation"], &["cost".to_owned()], rows, &mut body);
    page::whole(&comparison.title(), &body)
}
