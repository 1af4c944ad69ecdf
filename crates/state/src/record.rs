//! A snapshot's records of the process and of a CPU.

use crate::error::Error;
use crate::layout::{AREA_WORDS, RECORD_WORDS, halves, pair};
use ids::Nanos;

/// The process at the moment of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Process {
    /// When the snapshot was begun, by CLOCK_MONOTONIC.
    pub taken: Nanos,
    /// The CPU time that it took.
    pub cost: Nanos,
    /// No further snapshot is made before this time, by CLOCK_MONOTONIC: until then this one is as fresh as possible.
    pub next: Nanos,
    /// Threads in the snapshot.
    pub threads: usize,
    /// Living threads; more than `threads` if not all fitted.
    pub living: u32,
    /// The most threads that lived at once.
    pub peak: u32,
    /// Threads started in all.
    pub started: u64,
    /// CPU time in user mode, those that are gone included.
    pub user: Nanos,
    /// CPU time in the kernel, those that are gone included.
    pub system: Nanos,
    /// Signals sent to the process that no thread has received, one bit each.
    pub pending: u64,
    /// Signals that are ignored (SIG_IGN).
    pub ignored: u64,
    /// Signals that have a handler.
    pub caught: u64,
}

impl Process {
    pub(crate) fn encode(&self) -> [u64; AREA_WORDS] {
        let mut words = [0; AREA_WORDS];
        words[0] = self.taken.0;
        words[1] = self.cost.0;
        words[2] = self.next.0;
        words[3] = self.threads as u64;
        words[4] = pair(self.living, self.peak);
        words[5] = self.started;
        words[6] = self.user.0;
        words[7] = self.system.0;
        words[8..11].copy_from_slice(&[self.pending, self.ignored, self.caught]);
        words
    }

    pub(crate) fn decode(words: &[u64; AREA_WORDS], capacity: usize) -> Result<Process, Error> {
        let (living, peak) = halves(words[4]);
        let threads = usize::try_from(words[3]).ok().filter(|&n| n <= capacity);
        Ok(Process {
            taken: Nanos(words[0]),
            cost: Nanos(words[1]),
            next: Nanos(words[2]),
            threads: threads.ok_or(Error::Damaged("number of threads"))?,
            living,
            peak,
            started: words[5],
            user: Nanos(words[6]),
            system: Nanos(words[7]),
            pending: words[8],
            ignored: words[9],
            caught: words[10],
        })
    }
}

/// A CPU at the moment of a snapshot. The counters are since the start of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cpu {
    /// The thread that has it; 0 if it is idle.
    pub current: i32,
    /// Threads that wait for it.
    pub queued: u32,
    /// How long it has run threads.
    pub busy: Nanos,
    /// Changes of the running thread.
    pub switches: u64,
    /// Those of them that the running thread did not ask for.
    pub preemptions: u64,
    /// Threads that became runnable here.
    pub wakeups: u64,
    /// Threads that came from another CPU.
    pub migrations: u64,
    /// Ticks.
    pub ticks: u64,
    /// Kicks received.
    pub kicks: u64,
    /// System calls passed on to the host.
    pub passed: u64,
    /// Host calls that had to wait.
    pub waited: u64,
}

impl Cpu {
    pub(crate) fn encode(&self) -> [u64; RECORD_WORDS] {
        let mut words = [0; RECORD_WORDS];
        words[0] = pair(self.current as u32, self.queued);
        words[1] = self.busy.0;
        words[2..10].copy_from_slice(&[
            self.switches,
            self.preemptions,
            self.wakeups,
            self.migrations,
            self.ticks,
            self.kicks,
            self.passed,
            self.waited,
        ]);
        words
    }

    pub(crate) fn decode(words: &[u64; RECORD_WORDS]) -> Result<Cpu, Error> {
        let (current, queued) = halves(words[0]);
        let &[switches, preemptions, wakeups, migrations, ticks, kicks, passed, waited] = &words[2..10] else {
            return Err(Error::Damaged("CPU record"));
        };
        Ok(Cpu {
            current: i32::try_from(current).map_err(|_| Error::Damaged("thread on a CPU"))?,
            queued,
            busy: Nanos(words[1]),
            switches,
            preemptions,
            wakeups,
            migrations,
            ticks,
            kicks,
            passed,
            waited,
        })
    }
}
