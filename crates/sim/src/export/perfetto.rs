//! A simulated run as a trace for ui.perfetto.dev.

use super::spans;
use crate::trace::Record;
use crate::world::PID;
use ::perfetto::Process;
use std::collections::BTreeMap;

/// The trace as a file for ui.perfetto.dev.
pub fn perfetto(records: &[Record]) -> Vec<u8> {
    let threads = BTreeMap::from([(PID, "main".to_string())]);
    let simulated = Process { pid: PID, name: "simulated".to_string(), threads, spans: spans(records) };
    ::perfetto::trace(&[simulated])
}
