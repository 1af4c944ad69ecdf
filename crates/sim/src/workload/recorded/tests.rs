use super::*;
use crate::cost::Cost;
use crate::rng::Rng;
use ids::{CpuId, Left, Tid, Wake, Waker};
use perfetto::{Process, Span};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Nothing has a cost. An idle CPU looks around as long as ever before it sleeps: it takes a thread only after that has
/// waited for a moment.
fn free() -> Cost {
    let Cost { look, looks, .. } = Cost::host();
    Cost { look, looks, ..Cost::host().scaled(0) }
}

fn recording(cpus: u16, spans: Vec<Span>) -> Result<Recording, Unusable> {
    let threads = spans.iter().map(|span| (span.tid, format!("t{}", span.tid))).collect();
    Recording::new(&Process { pid: 1, name: "p".to_owned(), threads, cpus: 0..cpus, spans, lost: false })
}

/// Microseconds: CPU, from, to, thread, how it left, what woke it.
fn us(cpu: u16, from: u64, to: u64, tid: i32, left: Left, woken: Option<(u64, Waker)>) -> Span {
    let woken = woken.map(|(at, by)| Wake { at: Nanos::from_micros(at), by });
    let (from, to) = (Nanos::from_micros(from), Nanos::from_micros(to));
    Span { cpu: CpuId(cpu), from, to, tid, priority: 120, left, woken }
}

const A: Waker = Waker::Thread(Tid(1));
const MADE: Waker = Waker::Creator(Tid(1));

/// Make-spans on these CPUs without costs, in microseconds, rounded: each action takes a nanosecond.
#[track_caller]
fn makespans(recording: Recording, cpus: &[usize]) -> Vec<u64> {
    let recording = Rc::new(recording);
    let run = |&cpus: &usize| {
        let done = recording.run(1, cpus, None, &free(), Policies::Recorded, false);
        assert_eq!(done.report.failure, None);
        (done.makespan.0 + 500) / 1000
    };
    cpus.iter().map(run).collect()
}

#[test]
fn two_independent_threads_take_turns_or_not() {
    // Recorded on one CPU: the first is preempted once.
    let spans = vec![
        us(0, 0, 10_000, 1, Left::Runnable, None),
        us(0, 10_000, 30_000, 2, Left::Ended, Some((0, MADE))),
        us(0, 30_000, 40_000, 1, Left::Ended, None),
    ];
    let recording = recording(1, spans).unwrap();
    assert_eq!(recording.critical_path, Nanos::from_micros(20_000));
    assert_eq!(recording.real.latency.most(), 10_000_000, "the second waited for ten milliseconds");
    let all = makespans(recording, &[1, 2, 8]);
    // An idle CPU takes the second one when that has waited for some microseconds.
    assert!(all[0] == 40_000 && all[1..].iter().all(|us| (20_000..20_010).contains(us)), "{all:?}");
}

#[test]
fn ping_pong_gains_nothing_from_cpus() {
    let b = Waker::Thread(Tid(2));
    let mut spans = vec![us(0, 0, 10, 1, Left::Waiting, None), us(0, 10, 20, 2, Left::Waiting, Some((5, MADE)))];
    for i in 1..50 {
        let t = 20 * i;
        spans.push(us(0, t, t + 10, 1, Left::Waiting, Some((t - 1, b))));
        spans.push(us(0, t + 10, t + 20, 2, Left::Waiting, Some((t + 9, A))));
    }
    let recording = recording(1, spans).unwrap();
    let path = recording.critical_path.0 / 1000;
    let all = makespans(recording, &[1, 2, 64]);
    // Each hands over a microsecond before it begins to wait: a second CPU can hide no more than that.
    assert!(all.iter().all(|&span| (path..=1000).contains(&span)), "{all:?}, path {path}");
    assert!(path >= 880, "{path}");
}

/// A thread makes `workers` that run for 100 ms each, recorded on one CPU, and the last one wakes it.
fn fork_join(workers: u64) -> Vec<Span> {
    let mut spans = vec![us(0, 0, 10, 1, Left::Waiting, None)];
    for i in 0..workers {
        let tid = 2 + i as i32;
        let (from, to) = (10 + 100_000 * i, 10 + 100_000 * (i + 1));
        spans.push(us(0, from, to, tid, Left::Ended, Some((5, MADE))));
    }
    let end = 10 + 100_000 * workers;
    spans.push(us(0, end, end + 10, 1, Left::Ended, Some((end, Waker::Thread(Tid(1 + workers as i32))))));
    spans
}

#[test]
fn workers_scale_to_their_number() {
    let recording = recording(1, fork_join(8)).unwrap();
    // A busy CPU calls one idle CPU at each tick, which takes some milliseconds.
    let rounded: Vec<u64> = makespans(recording, &[1, 2, 4, 8, 64]).iter().map(|us| us / 10_000).collect();
    assert_eq!(rounded, [80, 40, 20, 10, 10]);
}

#[test]
fn arrivals_come_when_they_came_and_sleeps_last_as_long() {
    // Ten requests, one each millisecond, of 1.5 ms each, recorded on one CPU by two threads; one sleeps at the end.
    let outside = |at| Some((at, Waker::Outside));
    let mut spans = vec![us(0, 0, 10, 1, Left::Waiting, None), us(0, 10, 20, 2, Left::Waiting, Some((5, MADE)))];
    for i in 0..10 {
        let (arrival, from) = (1000 * (i + 1), 1000 + 1500 * i);
        spans.push(us(0, from, from + 1500, 1 + (i % 2) as i32, Left::Waiting, outside(arrival)));
    }
    spans.push(us(0, 18_000, 18_010, 2, Left::Ended, Some((18_000, Waker::Time))));
    let recording = recording(1, spans).unwrap();
    // The last arrives after 10 ms and is done after 11.5; then thread 2 sleeps for 2 ms.
    assert_eq!(recording.critical_path, Nanos::from_micros(13_510));
    assert_eq!(recording.threads[1].waits(), Waits { by_threads: 0, by_time: 1, by_outside: 5 });
    let all = makespans(recording, &[1, 2, 8]);
    assert!(all[0] > 17_000, "one CPU is overloaded: {all:?}");
    assert_eq!(all[1..], [13_510, 13_510]);
}

#[test]
fn priorities_are_replayed_and_can_be_replaced() {
    let urgent = |span: Span| Span { priority: 49, ..span };
    let spans = vec![
        us(0, 0, 10, 1, Left::Waiting, None),
        us(0, 10, 20, 2, Left::Waiting, Some((5, MADE))),
        urgent(us(0, 20, 30, 3, Left::Waiting, Some((6, MADE)))),
        us(0, 30, 40, 1, Left::Waiting, Some((25, Waker::Thread(Tid(3))))),
        // Both wait for the same moment: the urgent one goes first.
        urgent(us(0, 1000, 2000, 3, Left::Ended, Some((1000, Waker::Outside)))),
        us(0, 2000, 3000, 2, Left::Ended, Some((1000, Waker::Outside))),
    ];
    let recording = Rc::new(recording(1, spans).unwrap());
    let priorities: Vec<&Action> =
        recording.threads.iter().flat_map(|t| &t.actions).filter(|a| matches!(a, Action::Priority(_))).collect();
    assert_eq!(priorities, [&Action::Priority(49)], "others inherit what they have");
    let most = |policies| recording.run(3, 1, None, &free(), policies, false).latency.most() / 1000;
    assert_eq!(most(Policies::Recorded), 1000, "the other waits for all of it");
    assert!(most(Policies::Other) < 1000, "they share the CPU");
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let process =
        Process { pid: 1, name: String::new(), threads: BTreeMap::new(), cpus: 0..1, spans: Vec::new(), lost: false };
    assert_eq!(Recording::new(&process).unwrap_err(), Unusable::Empty);
    assert_eq!(Recording::new(&Process { lost: true, ..process }).unwrap_err(), Unusable::Lost);
    let first = us(0, 0, 10, 1, Left::Waiting, None);
    let unwoken = recording(1, vec![first, us(0, 20, 30, 1, Left::Ended, None)]);
    assert_eq!(unwoken.unwrap_err(), Unusable::Unexplained(1, Nanos(20_000)));
    let unmade = recording(1, vec![first, us(0, 20, 30, 2, Left::Ended, None)]);
    assert_eq!(unmade.unwrap_err(), Unusable::Unexplained(2, Nanos(20_000)));
    let by_stranger = recording(1, vec![first, us(0, 20, 30, 1, Left::Ended, Some((15, Waker::Thread(Tid(9)))))]);
    assert_eq!(by_stranger.unwrap_err(), Unusable::Stranger(1, 9, Nanos(15_000)));
    let long = recording(1, vec![us(0, 0, 1 << 42, 1, Left::Ended, None)]);
    assert_eq!(long.unwrap_err(), Unusable::Long);
    // Each is woken by the other while that one waits.
    let circle = recording(
        2,
        vec![
            first,
            us(1, 2, 10, 2, Left::Waiting, Some((1, MADE))),
            us(0, 30, 40, 1, Left::Ended, Some((21, Waker::Thread(Tid(2))))),
            us(1, 20, 40, 2, Left::Ended, Some((35, A))),
        ],
    );
    assert_eq!(circle.unwrap_err(), Unusable::Circle(vec![1, 2]));
}

#[test]
fn an_id_that_comes_again_is_another_thread() {
    let spans = vec![
        us(0, 0, 10, 1, Left::Waiting, None),
        us(0, 10, 20, 2, Left::Ended, Some((5, MADE))),
        us(0, 20, 30, 1, Left::Waiting, Some((20, Waker::Thread(Tid(2))))),
        us(0, 30, 50, 2, Left::Ended, Some((25, MADE))),
        us(0, 50, 60, 1, Left::Ended, Some((50, Waker::Thread(Tid(2))))),
    ];
    let recording = recording(1, spans).unwrap();
    let runs: Vec<(i32, u64)> = recording.threads.iter().map(|t| (t.tid, t.run.0 / 1000)).collect();
    assert_eq!(runs, [(1, 30), (2, 10), (2, 20)]);
    assert_eq!(makespans(recording, &[1]), [60]);
}

/// A random program as a machine with so many CPUs runs it, first come, first served.
struct Recorder {
    rng: Rng,
    now: u64,
    spans: Vec<Span>,
    free: Vec<u16>,
    ready: VecDeque<(i32, Option<Wake>)>,
    /// By time: a CPU's thread ends its run, or something wakes a thread that waits.
    ends: BTreeMap<(u64, u64), (u16, Span)>,
    alarms: BTreeMap<(u64, u64), (i32, Waker)>,
    waiting: Vec<i32>,
    threads: i32,
    number: u64,
}

impl Recorder {
    fn record(seed: u64, cpus: u16) -> Vec<Span> {
        let mut r = Recorder {
            rng: Rng::new(seed),
            now: 1_000,
            spans: Vec::new(),
            free: (0..cpus).rev().collect(),
            ready: VecDeque::from([(1, None)]),
            ends: BTreeMap::new(),
            alarms: BTreeMap::new(),
            waiting: Vec::new(),
            threads: 1,
            number: 0,
        };
        while r.spans.len() < 300 {
            while let (Some(_), Some(&cpu)) = (r.ready.front(), r.free.last()) {
                r.free.pop();
                let (tid, woken) = r.ready.pop_front().expect("just seen");
                r.start(cpu, tid, woken);
            }
            let next = [r.ends.keys().next(), r.alarms.keys().next()].into_iter().flatten().min().copied();
            let Some(key) = next else { break };
            r.now = key.0;
            if let Some((cpu, span)) = r.ends.remove(&key) {
                r.free.push(cpu);
                r.end(span);
            } else if let Some((tid, by)) = r.alarms.remove(&key) {
                r.ready.push_back((tid, Some(Wake { at: Nanos(r.now), by })));
            }
        }
        r.spans
    }

    fn key(&mut self, after: u64) -> (u64, u64) {
        self.number += 1;
        (self.now + after, self.number)
    }

    fn start(&mut self, cpu: u16, tid: i32, woken: Option<Wake>) {
        let length = self.rng.between(200, 50_000);
        let key = self.key(length);
        let (from, to) = (Nanos(self.now), Nanos(key.0));
        let span = Span { cpu: CpuId(cpu), from, to, tid, priority: 120, left: Left::Waiting, woken };
        self.ends.insert(key, (cpu, span));
    }

    /// Within the run that ends, the thread has made or woken others.
    fn end(&mut self, span: Span) {
        let at = Nanos(self.rng.between(self.now - 100, self.now));
        let tid = span.tid;
        if self.threads < 12 && self.rng.permille(300) {
            self.threads += 1;
            self.ready.push_back((self.threads, Some(Wake { at, by: Waker::Creator(Tid(tid)) })));
        }
        if !self.waiting.is_empty() && self.rng.permille(700) {
            let i = self.rng.below(self.waiting.len() as u64) as usize;
            let woken = self.waiting.swap_remove(i);
            self.ready.push_back((woken, Some(Wake { at, by: Waker::Thread(Tid(tid)) })));
        }
        let left = match self.rng.below(10) {
            0..3 => Left::Runnable,
            3 if self.threads > 4 => Left::Ended,
            _ => Left::Waiting,
        };
        match left {
            Left::Runnable => self.ready.push_back((tid, None)),
            Left::Waiting if self.rng.permille(500) => self.waiting.push(tid),
            Left::Waiting => {
                let by = *self.rng.pick(&[Waker::Time, Waker::Outside]);
                let after = self.rng.between(10, 100_000);
                let key = self.key(after);
                self.alarms.insert(key, (tid, by));
            }
            Left::Ended => {}
        }
        self.spans.push(Span { left, ..span });
    }
}

#[test]
fn random_recordings_keep_run_times_and_bounds_and_repeat() {
    let mut waits = Waits::default();
    for seed in 0..60 {
        let recorded = 1 + (seed % 4) as u16;
        let recording = Rc::new(recording(recorded, Recorder::record(seed, recorded)).unwrap());
        for thread in &recording.threads {
            let more = thread.waits();
            waits.by_threads += more.by_threads;
            waits.by_time += more.by_time;
            waits.by_outside += more.by_outside;
        }
        for (cpus, cost) in [(recorded.into(), free()), (1, Cost::host()), (64, free())] {
            let run = || recording.run(seed, cpus, None, &cost, Policies::Recorded, false);
            let (done, again) = (run(), run());
            assert_eq!(done.report.failure, None, "seed {seed}");
            assert_eq!((&done.report.hash, done.makespan), (&again.report.hash, again.makespan), "seed {seed}");
            for (thread, run) in recording.threads.iter().zip(&done.runs) {
                // Each action takes a nanosecond, and the thread's end.
                let most = thread.run + Nanos(2 * thread.actions.len() as u64 + 2);
                assert!((thread.run..=most).contains(run), "seed {seed}, thread {}: {run:?}", thread.tid);
            }
            assert!(done.makespan >= recording.critical_path, "seed {seed}: {:?}", done.makespan);
            assert!(done.makespan.0 >= recording.work().0 / cpus as u64, "seed {seed}: {:?}", done.makespan);
            assert!((0.0..=1.0).contains(&done.utilisation), "seed {seed}");
        }
    }
    assert!([waits.by_threads, waits.by_time, waits.by_outside].iter().all(|&n| n > 400), "{waits:?}");
}
