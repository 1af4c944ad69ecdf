//! A simulated run as a trace for ui.perfetto.dev.

use super::spans;
use crate::trace::Record;
use crate::world::PID;
use ::perfetto::Process;
use std::collections::BTreeMap;

/// The trace as a file for ui.perfetto.dev.
pub fn perfetto(records: &[Record]) -> Vec<u8> {
    let threads = BTreeMap::from([(PID, "main".to_string())]);
    let spans = spans(records);
    let cpus = 0..spans.iter().map(|span| span.cpu.0 + 1).max().unwrap_or(1);
    let simulated = Process { pid: PID, name: "simulated".to_string(), threads, cpus, spans, lost: false };
    ::perfetto::trace(&[simulated])
}
