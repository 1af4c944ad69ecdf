//! The profile in pprof's form: protobuf (`profile.proto` of github.com/google/pprof), compressed.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::collect::{Location, Profile, Thread, Weight};

/// `Profile`: a whole file.
#[allow(missing_docs, reason = "the format's own names")]
#[derive(Clone, PartialEq, Message)]
pub struct PprofProfile {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<PprofValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<PprofSample>,
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<PprofMapping>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<PprofLocation>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<PprofFunction>,
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<PprofValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// `ValueType`: what is counted, and in what unit.
#[allow(missing_docs, reason = "the format's own names")]
#[derive(Clone, Copy, PartialEq, Message)]
pub struct PprofValueType {
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// `Sample`: a stack and what it weighs.
#[allow(missing_docs, reason = "the format's own names")]
#[derive(Clone, PartialEq, Message)]
pub struct PprofSample {
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<PprofLabel>,
}

/// `Label`: a word or number beside a sample.
#[allow(missing_docs, reason = "the format's own names")]
#[derive(Clone, Copy, PartialEq, Message)]
pub struct PprofLabel {
    #[prost(int64, tag = "1")]
    pub key: i64,
    #[prost(int64, tag = "2")]
    pub str: i64,
    #[prost(int64, tag = "3")]
    pub num: i64,
}

/// `Mapping`: a file.
#[allow(missing_docs, reason = "the format's own names")]
#[derive(Clone, Copy, PartialEq, Message)]
pub struct PprofMapping {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    #[prost(int64, tag = "5")]
    pub filename: i64,
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
}

/// `Location`: a place in a file.
#[allow(missing_docs, reason = "the format's own names")]
#[derive(Clone, PartialEq, Message)]
pub struct PprofLocation {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub address: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<PprofLine>,
}

/// `Line`: a function, and the line in it.
#[allow(missing_docs, reason = "the format's own names")]
#[derive(Clone, Copy, PartialEq, Message)]
pub struct PprofLine {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// `Function`.
#[allow(missing_docs, reason = "the format's own names")]
#[derive(Clone, Copy, PartialEq, Message)]
pub struct PprofFunction {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

/// Writes the file.
///
/// # Errors
/// Those of the stream.
pub fn write(profile: &Profile, to: impl Write) -> io::Result<()> {
    let mut file = GzEncoder::new(to, Compression::default());
    file.write_all(&encode(profile).encode_to_vec())?;
    file.finish()?;
    Ok(())
}

/// The strings of a file: each once, the empty one first.
struct Strings {
    all: Vec<String>,
    known: HashMap<String, i64>,
}

impl Strings {
    fn id(&mut self, text: &str) -> i64 {
        if let Some(&id) = self.known.get(text) {
            return id;
        }
        let id = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), id);
        id
    }

    fn value(&mut self, what: &str, unit: &str) -> PprofValueType {
        PprofValueType { r#type: self.id(what), unit: self.id(unit) }
    }
}

fn encode(profile: &Profile) -> PprofProfile {
    let mut strings = Strings { all: vec![String::new()], known: HashMap::from([(String::new(), 0)]) };
    let mut sample_type = vec![strings.value("samples", "count"), strings.value("cpu", "nanoseconds")];
    if profile.wall {
        sample_type.push(strings.value("wall", "nanoseconds"));
    }
    let (period_type, default) = (sample_type[sample_type.len() - 1], sample_type[sample_type.len() - 1].r#type);
    let sample = samples(profile, &mut strings);
    let mapping = profile.files.iter().zip(1..).map(|(path, id)| PprofMapping {
        id,
        memory_start: 0,
        memory_limit: 0,
        filename: strings.id(path),
        has_functions: true,
    });
    let mapping = mapping.collect();
    let mut functions = Functions::default();
    let location = profile.locations.iter().zip(1..).map(|(at, id)| location(at, id, &mut functions, &mut strings));
    let location = location.collect();
    let comment = format!(
        "{} samples, {} lost; {} ns of CPU time of threads that no tick found",
        profile.samples(),
        profile.lost,
        profile.unsampled
    );
    PprofProfile {
        sample_type,
        sample,
        mapping,
        location,
        function: functions.all,
        comment: vec![strings.id(&comment)],
        string_table: strings.all,
        period_type: Some(period_type),
        period: profile.every as i64,
        default_sample_type: default,
    }
}

fn samples(profile: &Profile, strings: &mut Strings) -> Vec<PprofSample> {
    let (name, tid, pid) = (strings.id("thread"), strings.id("tid"), strings.id("pid"));
    let sample = |((thread, stack), weight): (&(Thread, Vec<usize>), &Weight)| {
        let mut value = vec![weight.samples as i64, weight.cpu as i64];
        if profile.wall {
            value.push((weight.samples * profile.every) as i64);
        }
        let label = vec![
            PprofLabel { key: name, str: strings.id(&thread.name), num: 0 },
            PprofLabel { key: tid, str: 0, num: thread.tid.into() },
            PprofLabel { key: pid, str: 0, num: thread.pid.into() },
        ];
        PprofSample { location_id: stack.iter().map(|&at| at as u64 + 1).collect(), value, label }
    };
    profile.stacks.iter().map(sample).collect()
}

#[derive(Default)]
struct Functions {
    all: Vec<PprofFunction>,
    known: HashMap<(i64, i64), u64>,
}

fn location(at: &Location, id: u64, functions: &mut Functions, strings: &mut Strings) -> PprofLocation {
    let line = at.frames.iter().map(|frame| {
        let (name, filename) = (strings.id(&frame.function), strings.id(&frame.file));
        let function_id = *functions.known.entry((name, filename)).or_insert_with(|| {
            let id = functions.all.len() as u64 + 1;
            functions.all.push(PprofFunction { id, name, system_name: name, filename });
            id
        });
        PprofLine { function_id, line: frame.line.into() }
    });
    PprofLocation { id, mapping_id: at.file.map_or(0, |i| i as u64 + 1), address: at.address, line: line.collect() }
}
