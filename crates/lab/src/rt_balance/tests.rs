//! Each design in the seed's situations.

use super::*;
use alloc::vec;
use ids::CpuMask;

const CPU0: CpuId = CpuId(0);
const CPU1: CpuId = CpuId(1);

/// Two CPUs; CPU 0 runs rank 9, CPU 1 runs rank 2, and rank 5 waits on CPU 0.
fn scene() -> (Queues, Thread) {
    let mut q = Queues::new(2);
    for (rank, cpu) in [(9, CPU0), (2, CPU1)] {
        let t = q.spawn(rank, cpu);
        q.enqueue(t, cpu, false);
        q.choose(cpu);
    }
    let t = q.spawn(5, CPU0);
    q.enqueue(t, CPU0, false);
    (q, t)
}

fn moved(balance: &mut dyn RtBalance, act: impl Fn(&mut dyn RtBalance, &mut Queues, &mut Vec<Move>)) -> Vec<Move> {
    let (mut q, _) = scene();
    let mut moves = Vec::new();
    act(balance, &mut q, &mut moves);
    moves
}

#[test]
fn a_woken_thread_that_could_run_elsewhere_is_pushed_only_actively() {
    let woken = |b: &mut dyn RtBalance, q: &mut Queues, m: &mut Vec<Move>| b.woken(q, CPU0, m);
    let (_, t) = scene();
    assert_eq!(moved(&mut Passive, woken), []);
    let there = vec![Move { thread: t, from: CPU0, to: CPU1 }];
    assert_eq!(moved(&mut Active, woken), there);
    assert_eq!(moved(&mut Both, woken), there);
}

#[test]
fn a_cpu_whose_priority_drops_pulls_only_actively() {
    let drops = |b: &mut dyn RtBalance, q: &mut Queues, m: &mut Vec<Move>| {
        let ran = q.vacate(CPU1).map(|t| q.rank(t));
        let low = q.spawn(1, CPU1);
        q.enqueue(low, CPU1, false);
        b.before_choice(q, CPU1, ran, m);
    };
    assert_eq!(moved(&mut Passive, drops), []);
    assert_eq!(moved(&mut Active, drops).len(), 1);
}

#[test]
fn an_idle_cpu_fetches_in_every_way() {
    let idle = |b: &mut dyn RtBalance, q: &mut Queues, m: &mut Vec<Move>| {
        let ran = q.vacate(CPU1).map(|t| q.rank(t));
        b.before_choice(q, CPU1, ran, m);
    };
    for balance in [&mut Passive as &mut dyn RtBalance, &mut Active, &mut Both] {
        assert_eq!(moved(balance, idle).len(), 1, "{}", balance.name());
    }
}

#[test]
fn the_old_balance_takes_a_thread_to_where_it_cannot_run() {
    // Three wait on CPU 1 behind rank 2; on CPU 0 runs rank 9: evening out brings the most urgent of them there.
    let (mut q, t) = scene();
    q.dequeue(t);
    for rank in [1, 1, 5] {
        let t = q.spawn(rank, CPU1);
        q.enqueue(t, CPU1, false);
    }
    let mut moves = Vec::new();
    Both.tick(&mut q, CPU0, 64, &mut moves);
    let taken = moves.iter().map(|m| q.rank(m.thread)).max();
    assert_eq!(taken, Some(5), "it was about to run on CPU 1, and now waits behind rank 9");
    assert_eq!(Active.tick(&mut q, CPU0, 64, &mut moves), ());
}

#[test]
fn the_head_alone_is_tried() {
    // The head may run here only; what is behind it could move and does not: the other CPU will pull it.
    let (mut q, t) = scene();
    let mut two = CpuMask::empty();
    [CPU0, CPU1].iter().for_each(|&c| two.insert(c));
    q.set_mask(t, two);
    let urgent = q.spawn(9, CPU1);
    q.vacate(CPU1);
    q.enqueue(urgent, CPU1, false);
    q.choose(CPU1);
    let mut moves = Vec::new();
    Active.woken(&mut q, CPU0, &mut moves);
    assert_eq!(moves, []);
}

/// A tour calls each overloaded CPU once, and a second one follows only if somebody has asked meanwhile.
#[test]
fn a_roaming_push_goes_round_once_for_all_who_ask() {
    let (mut q, t) = scene();
    // Rank 5 may run on CPU 0 only for now, so that the tour finds nothing to do; on CPU 1 rank 1 waits.
    q.set_mask(t, CpuMask::only(CPU0));
    let low = q.spawn(1, CPU1);
    q.enqueue(low, CPU1, false);
    let (mut roaming, mut moves) = (Roaming::default(), Vec::new());
    let ran = Some(3);
    roaming.before_choice(&mut q, CPU1, ran, &mut moves);
    assert_eq!((q.take_called(), moves.len()), (vec![CPU0], 0), "nothing is fetched");
    roaming.before_choice(&mut q, CPU1, ran, &mut moves);
    assert_eq!(q.take_called(), [], "one is on its way");
    let (mut visited, mut next) = (Vec::new(), vec![CPU0]);
    while let Some(cpu) = next.pop() {
        visited.push(cpu);
        roaming.called(&mut q, cpu, &mut moves);
        next = q.take_called();
    }
    assert_eq!(visited, [CPU0, CPU1, CPU0, CPU1], "a second round for who asked during the first");
    // Now rank 5 may go: CPU 0 pushes it.
    q.set_mask(t, CpuMask::first(2));
    roaming.before_choice(&mut q, CPU1, ran, &mut moves);
    assert_eq!(q.take_called(), [CPU0]);
    roaming.called(&mut q, CPU0, &mut moves);
    assert_eq!(moves, [Move { thread: t, from: CPU0, to: CPU1 }]);
}
