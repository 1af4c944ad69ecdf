//! What is said of threads and CPUs, against what was done with them.

use crate::common::{World, word};
use abi::nr;
use ids::{Nanos, Policy, RtPriority, ThreadIdx};
use state::{Full, Header, Memory, Page, Place, Snapshot, Thread, Wait, Writer, page_words};
use time::cpu::Usage;

const MS: u64 = 1_000_000;

struct Words(Vec<u64>);

impl Memory for Words {
    fn write(&mut self, at: usize, words: &[u64]) -> Result<(), Full> {
        self.0.get_mut(at..at + words.len()).ok_or(Full)?.copy_from_slice(words);
        Ok(())
    }
}

fn snapshot(w: &World, capacity: usize) -> Snapshot {
    let cpus = w.kernel.config().cpus;
    let header = Header { pid: 1, namespace: 4, service: 2, created: Nanos(3), cpus, capacity };
    let mut page = Writer::new(Words(vec![0; page_words(cpus, capacity)]), header).unwrap();
    w.kernel.snapshot(&mut page, Usage::default(), |_| [0; 3]).unwrap();
    Page::open(&page.memory().0[..]).unwrap().snapshot().unwrap()
}

fn describe(w: &World, t: ThreadIdx) -> Thread {
    w.kernel.describe(t, &w.kernel.moment(), |_| [0; 3]).expect("it lives")
}

/// The main thread and `n` others on one CPU; the main thread runs, the others are queued.
fn on_one_cpu(n: usize) -> (World, Vec<ThreadIdx>) {
    let mut w = World::new(1);
    let main = ThreadIdx(0);
    let all = (0..n).map(|_| w.spawn(main)).collect();
    (w, all)
}

#[test]
fn each_waits_for_what_it_waits_for() {
    let (mut w, all) = World::with_threads(5);
    let time = w.timespec(50 * MS);
    assert_eq!(w.futex(all[1], 0, [word(3), 0, 0, 0, 0]), None);
    assert_eq!(w.call(all[2], nr::NANOSLEEP, [time, 0, 0, 0, 0, 0]), None);
    assert_eq!(w.call(all[3], nr::PAUSE, [0; 6]), None);
    for (i, what) in [(1, Wait::Futex), (2, Wait::Sleep), (3, Wait::Suspend)] {
        let d = describe(&w, all[i]);
        assert_eq!((d.tid as u32, d.place, d.wait, d.voluntary), (w.tid(all[i]), Place::Waiting, what, 1));
        assert_eq!((usize::from(d.cpu), d.allowed, d.mask), (i, 1, 1 << i));
        assert_eq!(d.address, if what == Wait::Futex { word(3) } else { 0 });
        assert_eq!(d.until.0, if what == Wait::Sleep { w.now() + 50 * MS } else { 0 });
    }
    w.set_priority(all[0], all[4], 30);
    let s = snapshot(&w, 100);
    assert_eq!((s.process.living, s.process.started, s.process.threads), (5, 5, 5));
    let tids: Vec<_> = s.threads.iter().map(|t| t.tid as u32).collect();
    assert_eq!(tids, all.iter().map(|&t| w.tid(t)).collect::<Vec<_>>());
    assert_eq!((s.threads[4].policy, s.threads[4].rt), (Policy::Fifo, RtPriority(30)));
    let current: Vec<_> = s.cpus.iter().map(|c| c.current as u32).collect();
    assert_eq!(current, [w.tid(all[0]), 0, 0, 0, w.tid(all[4])]);
    // Each is what it is alone, too.
    assert_eq!(s.threads[1], describe(&w, all[1]));
}

#[test]
fn signal_sets_are_the_threads_and_the_processes() {
    let (mut w, all) = World::with_threads(2);
    let set = |signal: u64| 1_u64 << (signal - 1);
    let (usr1, usr2) = (10, 12);
    w.handle(all[0], usr1, 0);
    w.poke_u64(word(0), set(usr1) | set(usr2));
    assert_eq!(w.call(all[1], nr::RT_SIGPROCMASK, [0, word(0), 0, 8, 0, 0]), Some(0));
    w.signal(all[0], all[1], usr1);
    let s = snapshot(&w, 10);
    assert_eq!((s.threads[0].pending, s.threads[0].blocked), (0, 0));
    assert_eq!((s.threads[1].pending, s.threads[1].blocked), (set(usr1), set(usr1) | set(usr2)));
    assert_eq!((s.process.pending, s.process.ignored, s.process.caught), (0, 0, set(usr1)));
    // What is ignored from now on is dropped, also from the queue of a thread that has not looked since: SIG_IGN.
    w.poke_u64(word(0), 1);
    w.poke_u64(word(0) + 8, 0);
    w.poke_u64(word(0) + 16, 0);
    w.poke_u64(word(0) + 24, 0);
    assert_eq!(w.call(all[0], nr::RT_SIGACTION, [usr1, word(0), 0, 8, 0, 0]), Some(0));
    let s = snapshot(&w, 10);
    assert_eq!((s.threads[1].pending, s.process.ignored, s.process.caught), (0, set(usr1), 0));
}

#[test]
fn a_dead_thread_is_not_described() {
    let (mut w, all) = World::with_threads(2);
    w.futex(all[1], 0, [word(3), 1, 0, 0, 0]);
    w.call(all[1], nr::SCHED_YIELD, [0; 6]);
    w.call(all[1], nr::EXIT, [0; 6]);
    assert!(w.is_gone(all[1]));
    assert_eq!(w.kernel.describe(all[1], &w.kernel.moment(), |_| [0; 3]), None);
    assert_eq!(snapshot(&w, 100).threads.len(), 1);
    // The slot's next thread begins to count anew.
    assert_eq!(w.spawn(all[0]), all[1]);
    let d = describe(&w, all[1]);
    assert_eq!((d.voluntary, d.involuntary), (0, 0));
}

#[test]
fn time_in_the_queue_grows_while_others_run() {
    let (w, others) = on_one_cpu(3);
    let running = w.on(0).expect("somebody runs");
    let waiting = others.into_iter().find(|&t| t != running).expect("not all run");
    let before = describe(&w, waiting);
    w.kernel.m.state().now += 3 * MS;
    let (a, b) = (describe(&w, running), describe(&w, waiting));
    assert_eq!((a.place, b.place), (Place::Running, Place::Queued));
    assert_eq!((b.queued, b.cpu_time()), (before.queued + Nanos(3 * MS), before.cpu_time()));
    assert!(a.cpu_time() >= Nanos(3 * MS));
    let s = snapshot(&w, 100);
    assert_eq!((s.cpus[0].current as u32, s.cpus[0].queued), (w.tid(running), 3));
    assert!(s.cpus[0].busy >= a.cpu_time());
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    let (w, _) = on_one_cpu(8);
    let s = snapshot(&w, 4);
    assert_eq!((s.threads.len(), s.process.living), (4, 9));
}
