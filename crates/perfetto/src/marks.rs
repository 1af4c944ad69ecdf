//! Marks: moments of a thread, with a name and notes that the viewer shows.

use crate::ReadError;
use crate::format::{Annotation, FRESH, INSTANT, Packet, ThreadDescriptor, Trace, TrackDescriptor, TrackEvent};
use ids::Nanos;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// A moment of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// When.
    pub at: Nanos,
    /// What happens.
    pub name: String,
    /// More about it: titles and texts.
    pub notes: Vec<(String, String)>,
}

/// Number of the track of a thread.
fn track(tid: i32) -> u64 {
    u64::from(tid as u32) + 1
}

/// The tracks of the threads that have marks, then the marks.
pub(crate) fn packets(marks: &[Mark]) -> Vec<Packet> {
    let threads: BTreeSet<(i32, i32)> = marks.iter().map(|mark| (mark.pid, mark.tid)).collect();
    let tracks = threads.into_iter().map(|(pid, tid)| {
        let thread = ThreadDescriptor { pid: Some(pid), tid: Some(tid) };
        let track = TrackDescriptor { uuid: Some(track(tid)), thread: Some(thread) };
        Packet { track_descriptor: Some(track), ..Packet::default() }
    });
    let events = marks.iter().map(|mark| {
        let note =
            |(name, text): &(String, String)| Annotation { name: Some(name.clone()), string_value: Some(text.clone()) };
        let event = TrackEvent {
            debug_annotations: mark.notes.iter().map(note).collect(),
            r#type: Some(INSTANT),
            track_uuid: Some(track(mark.tid)),
            name: Some(mark.name.clone()),
        };
        Packet { track_event: Some(event), timestamp: Some(mark.at.0), ..Packet::default() }
    });
    let mut packets: Vec<Packet> = tracks.chain(events).collect();
    // Without it the viewer takes the beginning of the sequence for lost, and skips its marks.
    if let Some(first) = packets.first_mut() {
        first.sequence_flags = Some(FRESH);
    }
    packets
}

/// The marks of a trace that [`marked`](crate::marked) has written.
///
/// # Errors
/// [`ReadError::Format`] if it is no trace, [`ReadError::Stray`] if a mark belongs to no thread.
pub fn read_marks(file: &[u8]) -> Result<Vec<Mark>, ReadError> {
    let trace = Trace::decode(file)?;
    let described = trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref());
    let threads: BTreeMap<u64, &ThreadDescriptor> =
        described.filter_map(|track| Some((track.uuid(), track.thread.as_ref()?))).collect();
    let event = |packet: &Packet| {
        let event = packet.track_event.as_ref()?;
        let Some(thread) = threads.get(&event.track_uuid()) else {
            return Some(Err(ReadError::Stray(event.track_uuid() as i32 - 1)));
        };
        let notes = event.debug_annotations.iter().map(|note| (note.name().to_owned(), note.string_value().to_owned()));
        Some(Ok(Mark {
            pid: thread.pid(),
            tid: thread.tid(),
            at: Nanos(packet.timestamp()),
            name: event.name().to_owned(),
            notes: notes.collect(),
        }))
    };
    trace.packet.iter().filter_map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Process, Span, marked, read, trace};
    use ids::{CpuId, Left};

    #[test]
    fn marks_are_read_back_and_leave_the_rest_as_it_is() {
        let span = |from, tid| Span {
            cpu: CpuId(0),
            from: Nanos(from),
            to: Nanos(from + 10),
            tid,
            priority: 120,
            left: Left::Runnable,
            woken: None,
        };
        let process = Process {
            pid: 7,
            name: "p".to_owned(),
            threads: [(7, "a".to_owned()), (8, "b".to_owned())].into(),
            cpus: 0..1,
            spans: vec![span(10, 7), span(20, 8)],
            lost: false,
        };
        let mark = |tid, at, notes: &[(&str, &str)]| Mark {
            pid: 7,
            tid,
            at: Nanos(at),
            name: format!("at {at}"),
            notes: notes.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect(),
        };
        let marks = [mark(8, 20, &[("stopped", "f\ng"), ("runs", "h")]), mark(7, 30, &[])];
        let file = marked(std::slice::from_ref(&process), &marks);
        assert_eq!(read_marks(&file), Ok(marks.to_vec()));
        assert_eq!(read(&file), Ok(vec![process.clone()]));
        assert_eq!(read_marks(&trace(&[process])), Ok(vec![]));
    }

    #[test]
    fn a_mark_of_nobody_is_refused() {
        let mark = Mark { pid: 7, tid: 8, at: Nanos(1), name: String::new(), notes: vec![] };
        let event = packets(&[mark]).pop().unwrap();
        assert_eq!(read_marks(&Trace { packet: vec![event] }.encode_to_vec()), Err(ReadError::Stray(8)));
    }
}
