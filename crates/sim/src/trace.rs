//! A stable hash of all events and, on request, the events themselves.

use ids::{CpuId, Nanos};

/// One thing that happened on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When.
    pub at: Nanos,
    /// Where.
    pub cpu: CpuId,
    /// The kind of event.
    pub what: What,
    /// Its subject: a thread's id, a CPU, or a system call's number, depending on `what`.
    pub who: i64,
    /// With [`What::Run`]: the thread's priority as Linux's kernel counts it (lower is more
    /// urgent: -1 deadline, 0 to 98 real time, 100 to 139 fair).
    pub priority: i16,
}

/// Kinds of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum What {
    /// A thread is resumed (its id).
    Run = 1,
    /// Nothing to run.
    Idle = 2,
    /// The carrier sleeps.
    Park = 3,
    /// A system call (its number).
    Call = 4,
    /// A tick or timer.
    Timer = 5,
    /// A kick arrives.
    Kick = 6,
    /// A kick is sent (to that CPU).
    Send = 7,
    /// A host call begins (the thread's id).
    HostBegin = 8,
    /// A host call is over (the thread's id).
    HostEnd = 9,
    /// Another carrier takes the CPU.
    Seated = 10,
    /// A thread has come from another CPU (its id).
    Migrate = 11,
    /// A thread is made (its id).
    Birth = 12,
    /// A thread has ended (its id).
    Death = 13,
    /// A signal handler begins (the signal).
    Handler = 14,
}

/// The record of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    records: Option<Vec<Record>>,
    /// The latest records, for reports.
    tail: [Record; Trace::TAIL],
    count: u64,
}

impl Trace {
    const TAIL: usize = 48;

    pub(crate) fn new(keep: bool) -> Trace {
        let none = Record { at: Nanos::ZERO, cpu: CpuId::NONE, what: What::Idle, who: 0, priority: 0 };
        Trace { hash: 0xcbf2_9ce4_8422_2325, records: keep.then(Vec::new), tail: [none; Trace::TAIL], count: 0 }
    }

    pub(crate) fn note(&mut self, record: Record) {
        let Record { at, cpu, what, who, priority } = record;
        // FNV-1a over words: stable over machines and versions of this program.
        let place = u64::from(priority as u16) << 32 | u64::from(cpu.0) << 8 | what as u64;
        for word in [at.0, place, who as u64] {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
            self.hash ^= self.hash >> 29;
        }
        self.tail[self.count as usize % Trace::TAIL] = record;
        self.count += 1;
        if let Some(all) = &mut self.records {
            all.push(record);
        }
    }

    /// A number that is equal for equal runs.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Everything, if it was to be kept; it can be taken once.
    pub(crate) fn take_records(&mut self) -> Vec<Record> {
        self.records.take().unwrap_or_default()
    }

    /// The last things that happened, oldest first.
    pub(crate) fn tail(&self) -> Vec<Record> {
        let from = self.count.saturating_sub(Trace::TAIL as u64);
        (from..self.count).map(|i| self.tail[i as usize % Trace::TAIL]).collect()
    }
}
