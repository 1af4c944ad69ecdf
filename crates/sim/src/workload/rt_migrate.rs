//! Rostedt's `rt-migrate-test` (2007): do the highest-priority threads get the CPUs at once?
//!
//! Threads of FIFO priorities 2, 3, … and a parent above them meet at a barrier. Each then
//! takes the time and computes until 20 ms later; the highest one has been pinned to another
//! CPU before each round. A round fails if a thread starts more than 1 ms after a less urgent
//! one that went on computing: it had to wait for it. (A less urgent thread that starts first
//! and is preempted at once is fine.)

use super::Options;
use super::threads::{Code, Maker, Quantity, Results, Shared, Threads, simulate};
use crate::report::{Report, Samples, Table};
use crate::user::{Barrier, Step, View, Who};
use ids::{CpuId, CpuMask, Nanos};
use sched::Attr;

const BUSY: Nanos = Nanos::from_millis(20);
/// The lateness of a start that still passes.
const LATE: Nanos = Nanos::from_millis(1);
const ROUNDS: u32 = 50;

/// One thread in one round, relative to the parent's time.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    start: u64,
    end: u64,
    /// Nanoseconds of CPU time it got; the original counts loops.
    ran: u64,
}

/// Measurements of all threads, each in a place of its own: they shall not wait for each other.
#[derive(Clone)]
struct Log {
    /// When the parent let a round begin.
    begun: Shared<Vec<Nanos>>,
    /// By thread in ascending priority, then by round; by the clock.
    marks: Vec<Shared<Vec<Mark>>>,
}

impl Log {
    fn new(threads: usize) -> Log {
        Log { begun: Shared::default(), marks: (0..threads).map(|_| Shared::default()).collect() }
    }

    /// By round, then by thread. A thread that did not end a round has a mark of zeros there.
    fn rounds(&self) -> Vec<Vec<Mark>> {
        let since = |begun: Nanos, at: u64| Nanos(at).since(begun).0;
        let of = |round: usize, begun: Nanos, thread: &Shared<Vec<Mark>>| {
            let mark = thread.lock().get(round).copied()?;
            Some(Mark { start: since(begun, mark.start), end: since(begun, mark.end), ran: mark.ran })
        };
        let round = |(i, begun): (usize, &Nanos)| -> Vec<Mark> {
            self.marks.iter().map(|thread| of(i, *begun, thread).unwrap_or_default()).collect()
        };
        self.begun.lock().iter().enumerate().map(round).collect()
    }
}

/// How many threads and rounds, as the options say.
fn size(cpus: usize, options: &Options) -> (usize, u32) {
    (options.threads.unwrap_or(cpus + 1), options.rounds.unwrap_or(ROUNDS))
}

/// Runs it; `options.threads` threads (CPUs + 1), `options.rounds` rounds (50), balanced by `options.policy`.
pub fn run(seed: u64, cpus: usize, options: &Options) -> Report {
    let (mut report, results) = simulate("rt-migrate", threads, seed, cpus, options);
    let Results { quantities, counts, broken, tables } = results;
    if let Some(why) = broken {
        report.fail(why);
    }
    counts.iter().for_each(|(name, n)| report.value(name, *n as f64, ""));
    quantities.iter().for_each(|quantity| quantity.samples.report(quantity.name, &mut report));
    report.tables.extend(tables);
    report
}

/// Its threads in ascending priority, and the parent.
pub fn threads(maker: &mut dyn Maker, cpus: usize, options: &Options) -> Threads {
    let (threads, rounds) = size(cpus, options);
    let log = Log::new(threads);
    let [start, end] = [(); 2].map(|()| maker.barrier(threads as u32 + 1));
    let mut all: Vec<(Attr, Code)> = Vec::new();
    for (i, marks) in log.marks.iter().enumerate() {
        let pin = (i + 1 == threads).then_some(cpus);
        all.push((Attr::fifo(priority(i, threads)), worker(marks.clone(), rounds, pin, start, end)));
    }
    all.push((Attr::fifo(priority(threads, threads)), parent(log.begun.clone(), threads, rounds, start, end)));
    Threads { threads: all, results: Box::new(move || judge(&log.rounds(), cpus, threads)) }
}

/// Priorities 2 and up; with more than 97 threads several share one, the highest never.
fn priority(i: usize, threads: usize) -> u8 {
    let above = threads - i;
    99u8.saturating_sub(above.min(97) as u8).max(2)
}

fn parent(begun: Shared<Vec<Nanos>>, threads: usize, rounds: u32, start: Barrier, end: Barrier) -> Code {
    let mut left = rounds;
    let mut state = 0;
    Box::new(move |v: &mut View<'_>| {
        state += 1;
        match state {
            1 if left == 0 => Step::Exit,
            // All others must be waiting when the time is taken; waking them takes time, too.
            1 => Step::Sleep(Nanos::from_micros(1000 + 4 * threads as u64)),
            2 => {
                begun.lock().push(v.now());
                Step::Barrier(start)
            }
            _ => {
                state = 0;
                left -= 1;
                Step::Barrier(end)
            }
        }
    })
}

fn worker(marks: Shared<Vec<Mark>>, rounds: u32, pin: Option<usize>, start: Barrier, end: Barrier) -> Code {
    let mut round = 0;
    let mut state = 0;
    let mut began = Nanos::ZERO;
    Box::new(move |v: &mut View<'_>| {
        state += 1;
        match state {
            1 if round == rounds => Step::Exit,
            1 => match pin {
                None => Step::Compute(Nanos(1)),
                Some(cpus) => Step::SetAffinity(Who::Me, CpuMask::only(CpuId((round as usize % cpus) as u16))),
            },
            2 => Step::Barrier(start),
            3 => {
                began = v.now();
                Step::ComputeUntil(began + BUSY)
            }
            _ => {
                marks.lock().push(Mark { start: began.0, end: v.now().0, ran: v.result as u64 });
                state = 0;
                round += 1;
                Step::Barrier(end)
            }
        }
    })
}

fn judge(rounds: &[Vec<Mark>], cpus: usize, threads: usize) -> Results {
    let mut failures = Vec::new();
    let mut broken = None;
    let (mut top, mut all_top) = (Samples::default(), Samples::default());
    for (round, marks) in rounds.iter().enumerate() {
        if marks.iter().any(|m| m.end == 0) {
            broken.get_or_insert(format!("round {round} did not end"));
            break;
        }
        top.add(marks[threads - 1].start);
        // Among equals, any one may be the one without a CPU.
        let alone = |i: &usize| priority(*i, threads) > priority(0, threads);
        (threads.saturating_sub(cpus)..threads).filter(alone).for_each(|i| all_top.add(marks[i].start));
        if let Some((low, high)) = failed(marks, threads) {
            failures.push(round as u64);
            broken.get_or_insert(format!(
                "round {round}: thread {high} began {} µs after less urgent thread {low}, which went on",
                (marks[high].start - marks[low].start) / 1000
            ));
        }
    }
    let mut counts = vec![("rounds failed", failures.len() as u64)];
    counts.extend(failures.first().map(|&first| ("first failed round", first)));
    let attr = Attr::fifo(priority(threads - 1, threads));
    let quantity = |threads, name, samples| Quantity { threads, attr, name, samples, of_means: false };
    Results {
        quantities: vec![
            quantity("highest", "highest thread's start", top),
            quantity("top", "top threads' start", all_top),
        ],
        counts,
        broken,
        tables: vec![table(rounds, threads)],
    }
}

/// Finds two threads of which the more urgent one waited for the other.
fn failed(marks: &[Mark], threads: usize) -> Option<(usize, usize)> {
    // The earliest start among the less urgent that kept their CPU, going up.
    let mut earliest: Option<(u64, usize)> = None;
    for (i, m) in marks.iter().enumerate() {
        if let Some((start, low)) = earliest
            && m.start > start + LATE.0
            && priority(i, threads) > priority(low, threads)
        {
            return Some((low, i));
        }
        if m.ran > LATE.0 && earliest.is_none_or(|e| m.start < e.0) {
            earliest = Some((m.start, i));
        }
    }
    None
}

/// In the layout of the original: one line a round, threads in ascending priority; the
/// first and the last eight where there are more.
fn table(rounds: &[Vec<Mark>], threads: usize) -> Table {
    let shown: Vec<usize> = (0..threads).filter(|&i| i < 8 || i + 8 >= threads).collect();
    let cells = |marks: &[Mark], get: fn(&Mark) -> u64| shown.iter().map(|&i| get(&marks[i]).to_string()).collect();
    let mut rows = Vec::new();
    for (round, marks) in rounds.iter().enumerate() {
        for (name, get) in [
            (format!("{round}:"), (|m| m.start / 1000) as fn(&Mark) -> u64),
            ("len:".to_string(), |m| m.end / 1000),
            ("ran:".to_string(), |m| m.ran / 1000),
        ] {
            let cells: Vec<String> = cells(marks, get);
            rows.push(std::iter::once(name).chain(cells).collect());
        }
    }
    let columns = std::iter::once("round".to_string()).chain(shown.iter().map(|&i| {
        let p = priority(i, threads);
        format!("{i} (prio {p})")
    }));
    Table { title: "µs from the parent's time: start, end, CPU time".to_string(), columns: columns.collect(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(start: u64, ran: u64) -> Mark {
        Mark { start: start * 1000, end: 1, ran: ran * 1000 }
    }

    #[test]
    fn the_seeds_two_examples_are_judged_as_there() {
        // Before: the third of five waited 20 ms for less urgent ones.
        let before = [mark(36, 20_000), mark(33, 20_000), mark(20_041, 20_000), mark(39, 20_000), mark(33, 20_000)];
        assert!(failed(&before, 5).is_some());
        // With the patch, the lowest priority starts last, or starts early and is preempted at once.
        let late_low = [mark(20_060, 20_000), mark(61, 20_000), mark(55, 20_000), mark(56, 20_000), mark(61, 20_000)];
        assert_eq!(failed(&late_low, 5), None);
        let early_low = [mark(40, 3), mark(46, 20_000), mark(31, 20_000), mark(35, 20_000), mark(42, 20_000)];
        assert_eq!(failed(&early_low, 5), None);
    }

    #[test]
    fn the_highest_shares_its_priority_with_nobody() {
        assert_eq!((0..5).map(|i| priority(i, 5)).collect::<Vec<_>>(), [94, 95, 96, 97, 98]);
        assert_eq!(priority(5, 5), 99);
        assert!(priority(1023, 1024) > priority(1022, 1024));
        assert_eq!(priority(0, 1024), 2);
    }
}
