//! One self-contained page with a timeline per CPU.

use super::spans;
use crate::trace::{Record, What};
use std::fmt::Write;

const PAGE: &str = include_str!("timeline.html");

/// The page; `title` is text.
pub fn html(records: &[Record], cpus: usize, title: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    PAGE.replace("TITLE", &title).replace("DATA", &data(records, cpus))
}

/// The data the page draws, as JSON: numbers only, so nothing needs escaping.
fn data(records: &[Record], cpus: usize) -> String {
    let end = records.last().map_or(1, |r| r.at.0.max(1));
    let mut json = format!("{{\"cpus\":{cpus},\"end\":{end},\"spans\":[");
    let mut separator = "";
    for s in spans(records) {
        // Writing to a string cannot fail.
        let _ = write!(json, "{separator}[{},{},{},{},{}]", s.cpu.0, s.from.0, s.to.0, s.tid, s.priority);
        separator = ",";
    }
    json.push_str("],\"kicks\":[");
    separator = "";
    for r in records.iter().filter(|r| r.what == What::Kick) {
        let _ = write!(json, "{separator}[{},{}]", r.cpu.0, r.at.0);
        separator = ",";
    }
    json.push_str("]}");
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{CpuId, Nanos};

    #[test]
    fn the_page_carries_its_data() {
        let r = |at, what, who| Record { at: Nanos(at), cpu: CpuId(1), what, who, priority: 49 };
        let records = [r(5, What::Kick, 0), r(5, What::Run, 77), r(9, What::Idle, 0)];
        let page = html(&records, 2, "a < b & c");
        assert!(page.contains("a &lt; b &amp; c"));
        assert!(page.contains(r#"{"cpus":2,"end":9,"spans":[[1,5,9,77,49]],"kicks":[[1,5]]}"#));
        assert!(!page.contains("DATA") && !page.contains("TITLE"));
    }
}
