//! A run to look at: a trace for ui.perfetto.dev, or one HTML page.

mod html;
mod perfetto;

pub use html::html;
pub use perfetto::perfetto;

use crate::trace::{Record, What};
use ::perfetto::Span;
use ids::{CpuId, Left, Nanos};
use std::collections::BTreeMap;

/// Which thread had which CPU when, in order of the spans' ends.
fn spans(records: &[Record]) -> Vec<Span> {
    let mut open: BTreeMap<CpuId, Span> = BTreeMap::new();
    let mut spans = Vec::new();
    let end = records.last().map_or(Nanos::ZERO, |r| r.at);
    for r in records {
        match r.what {
            What::Call => {
                // If it is not resumed at once, that is what it waits in.
                if let Some(span) = open.get_mut(&r.cpu) {
                    span.left = Left::Waiting;
                }
            }
            What::Timer | What::Kick => {
                if let Some(span) = open.get_mut(&r.cpu) {
                    span.left = Left::Runnable;
                }
            }
            What::Run if open.get(&r.cpu).is_some_and(|s| i64::from(s.tid) == r.who && s.priority == r.priority) => {}
            What::Run | What::Idle | What::HostBegin => {
                if let Some(span) = open.remove(&r.cpu) {
                    spans.push(Span { to: r.at, ..span });
                }
                if r.what == What::Run {
                    let (cpu, at, tid, priority) = (r.cpu, r.at, r.who as i32, r.priority);
                    let span = Span { cpu, from: at, to: at, tid, priority, left: Left::Runnable, woken: None };
                    open.insert(cpu, span);
                }
            }
            _ => {}
        }
    }
    spans.extend(open.into_values().map(|s| Span { to: end, ..s }));
    spans.retain(|s| s.to > s.from);
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_goes_on_is_one_span() {
        let r = |at, what, who| Record { at: Nanos(at), cpu: CpuId(0), what, who, priority: 120 };
        let records = [
            r(10, What::Run, 7),
            r(20, What::Call, 24),
            r(20, What::Run, 7),
            r(30, What::Timer, 0),
            r(30, What::Run, 8),
            r(50, What::Call, 202),
            r(50, What::Idle, 0),
        ];
        let all = spans(&records);
        let got: Vec<_> = all.iter().map(|s| (s.tid, s.from.0, s.to.0, s.left)).collect();
        assert_eq!(got, [(7, 10, 30, Left::Runnable), (8, 30, 50, Left::Waiting)]);
    }
}
