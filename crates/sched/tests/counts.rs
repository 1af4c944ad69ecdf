//! What is counted of each thread: time in queues, switches that it did not wait in, changes of CPU.

use entresol_sched::{Attr, Config, Kick, Prev, Scheduler, ThreadCounts};
use ids::{CpuId, CpuMask, Nanos, ThreadIdx};

struct NoKick;

impl Kick for NoKick {
    fn kick(&mut self, _: CpuId) {}
}

const A: ThreadIdx = ThreadIdx(0);
const B: ThreadIdx = ThreadIdx(1);
const CPU: CpuId = CpuId(0);

/// Two threads of one kind on CPU 0 of `cpus`, A running since the time 1,000; B queued then.
fn two(cpus: usize, attr: &Attr) -> Scheduler {
    let s = Scheduler::new(&Config { cpus, ..Config::default() }).expect("memory");
    for t in [A, B] {
        s.attach(t, attr, CpuMask::first(1)).expect("memory");
        s.wake_new(t, CPU, Nanos(1_000), &mut NoKick);
    }
    assert_eq!(s.schedule(CPU, Nanos(1_000), Prev::Preempted, &mut NoKick), Some(A));
    s
}

#[test]
fn who_yields_goes_on_waiting_for_a_cpu() {
    for attr in [Attr::DEFAULT, Attr::fifo(10)] {
        let s = two(1, &attr);
        assert_eq!(s.counts(B, Nanos(1_300)).queued, Nanos(300));
        assert_eq!(s.schedule(CPU, Nanos(1_500), Prev::Yield, &mut NoKick), Some(B));
        let (a, b) = (s.counts(A, Nanos(1_600)), s.counts(B, Nanos(1_600)));
        assert_eq!((a.queued, a.involuntary), (Nanos(100), 1));
        assert_eq!((b.queued, b.involuntary), (Nanos(500), 0));
        assert_eq!((a.migrations, b.migrations), (0, 0));
    }
}

#[test]
fn who_waits_is_not_in_a_queue() {
    let s = two(1, &Attr::DEFAULT);
    s.prepare_block(A);
    assert_eq!(s.schedule(CPU, Nanos(2_000), Prev::Block, &mut NoKick), Some(B));
    let a = s.counts(A, Nanos(9_000));
    assert_eq!((a.queued, a.involuntary), (Nanos::ZERO, 0));
}

#[test]
fn a_new_mask_is_a_migration() {
    let s = two(2, &Attr::DEFAULT);
    s.set_affinity(B, CpuMask::only(CpuId(1)), Nanos(1_200), &mut NoKick).expect("a valid mask");
    assert_eq!(s.schedule(CpuId(1), Nanos(1_400), Prev::Preempted, &mut NoKick), Some(B));
    let b = s.counts(B, Nanos(1_400));
    assert_eq!((b.queued, b.migrations), (Nanos(400), 1));
}

#[test]
fn a_slot_forgets_its_thread() {
    let s = two(1, &Attr::DEFAULT);
    assert_eq!(s.schedule(CPU, Nanos(1_500), Prev::Yield, &mut NoKick), Some(B));
    assert_eq!(s.schedule(CPU, Nanos(1_600), Prev::Exit, &mut NoKick), Some(A));
    s.detach(B);
    s.attach(B, &Attr::DEFAULT, CpuMask::first(1)).expect("memory");
    let fresh = ThreadCounts { weight: 1024, ..ThreadCounts::default() };
    assert_eq!(s.counts(B, Nanos(2_000)), fresh);
}
