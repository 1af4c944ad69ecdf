use crate::{World, handler, idle, sig};
use abi::{SaFlags, SigInfo, SigSet, Signal};
use entresol_signal::*;
use ids::ThreadIdx;

/// Looks for a receiver.
fn search(w: &mut World, signal: Signal) -> Wake {
    let candidates: Vec<_> = (0..w.threads.len()).map(|t| w.candidate(t)).collect();
    w.process.find_receiver(signal, ThreadIdx(0), |t| Some(candidates[t.index()]))
}

#[test]
fn who_wants_a_signal() {
    let w = World::with_handlers(1);
    let at = |running, exiting, stopped| w.threads[0].candidate(ThreadState { running, exiting, stopped, ..idle(0) });
    assert!(at(false, false, false).wants(Signal::USR1));
    assert!(!at(true, true, false).wants(Signal::USR1));
    assert!(!at(true, true, false).wants(Signal::KILL));
    assert!(!at(true, false, true).wants(Signal::USR1));
    assert!(at(false, false, true).wants(Signal::KILL));
}

#[test]
fn a_thread_that_will_look_anyway_wants_another_only_while_running() {
    let w = World::with_handlers(1);
    let at = |running| w.threads[0].candidate(ThreadState { running, notified: true, ..idle(0) });
    assert!(!at(false).wants(Signal::USR1));
    assert!(at(true).wants(Signal::USR1));
    assert!(at(false).wants(Signal::KILL));
}

#[test]
fn the_first_choice_is_taken_if_it_wants() {
    let mut w = World::with_handlers(3);
    let sent = w.send_all(SigInfo::user(Signal::USR1, 1, 0)).unwrap();
    assert_eq!(sent.wake, Wake::Thread(ThreadIdx(0)));
}

#[test]
fn otherwise_threads_take_turns() {
    let mut w = World::with_handlers(3);
    let _ = w.block(0, SigSet::only(Signal::USR1));
    let sent = w.send_all(SigInfo::user(Signal::USR1, 1, 0)).unwrap();
    assert_eq!(sent.wake, Wake::Search(Signal::USR1));
    assert_eq!(search(&mut w, Signal::USR1), Wake::Thread(ThreadIdx(1)));
    // The next search starts with the last receiver; when that is busy, others follow.
    assert_eq!(w.send_all(SigInfo::user(Signal::USR1, 1, 0)).unwrap().fate, Fate::Coalesced);
    let _ = w.block(0, SigSet::only(Signal::USR2));
    let sent = w.send_all(SigInfo::user(Signal::USR2, 1, 0)).unwrap();
    assert_eq!(sent.wake, Wake::Search(Signal::USR2));
    assert_eq!(search(&mut w, Signal::USR2), Wake::Thread(ThreadIdx(1)));
    let _ = w.block(1, SigSet::only(Signal::USR2));
    assert_eq!(search(&mut w, Signal::USR2), Wake::Thread(ThreadIdx(2)));
}

#[test]
fn a_signal_for_one_thread_does_not_keep_another_from_being_chosen() {
    let mut w = World::with_handlers(3);
    let _ = w.block(0, SigSet::ALL);
    let _ = w.send_all(SigInfo::user(Signal::USR2, 1, 0)).unwrap();
    assert_eq!(search(&mut w, Signal::USR2), Wake::Thread(ThreadIdx(1)));
    // Thread 1 has been told of USR2 and blocks USR1: thread 2 must be woken, although it
    // could take USR2 as well.
    let _ = w.block(1, SigSet::only(Signal::USR1));
    let _ = w.send_all(SigInfo::user(Signal::USR1, 1, 0)).unwrap();
    assert_eq!(search(&mut w, Signal::USR1), Wake::Thread(ThreadIdx(2)));
}

#[test]
fn a_signal_that_all_block_waits_and_a_private_one_is_not_searched_for() {
    let mut w = World::with_handlers(2);
    for t in 0..2 {
        let _ = w.block(t, SigSet::ALL);
    }
    assert_eq!(w.send_to(1, SigInfo::user(Signal::USR1, 1, 0)).unwrap().wake, Wake::Nobody);
    assert_eq!(w.send_all(SigInfo::user(Signal::USR1, 1, 0)).unwrap().wake, Wake::Search(Signal::USR1));
    assert_eq!(search(&mut w, Signal::USR1), Wake::Nobody);
    assert_eq!(w.process.pending(&w.threads[0]), SigSet::only(Signal::USR1));
}

#[test]
fn only_threads_that_let_the_signal_through_are_asked() {
    let mut w = World::with_handlers(6);
    for t in 0..3 {
        let _ = w.block(t, SigSet::only(sig(40)));
    }
    let _ = w.send_all(SigInfo::user(sig(40), 1, 0)).unwrap();
    let candidates: Vec<_> = (0..6).map(|t| w.candidate(t)).collect();
    let mut asked = Vec::new();
    let found = w.process.find_receiver(sig(40), ThreadIdx(0), |t| {
        asked.push(t.0);
        (t.0 != 3).then_some(candidates[t.index()])
    });
    assert_eq!(found, Wake::Thread(ThreadIdx(4)));
    assert_eq!(asked, [3, 4]);
    // The next one begins with who was found, and comes round once.
    asked.clear();
    let found = w.process.find_receiver(sig(40), ThreadIdx(0), |t| {
        asked.push(t.0);
        None
    });
    assert_eq!(found, Wake::Nobody);
    assert_eq!(asked, [4, 5, 3]);

    assert_eq!(w.handle(3).info.signal(), Some(sig(40)));
    let found = w.process.find_receiver(sig(40), ThreadIdx(0), |_| panic!("nothing is left to take"));
    assert_eq!(found, Wake::Nobody);
}

#[test]
fn a_search_asks_no_more_than_64() {
    let mut w = World::with_handlers(1000);
    let _ = w.block(0, SigSet::ALL);
    let _ = w.send_all(SigInfo::user(Signal::USR1, 1, 0)).unwrap();
    let mut asked = 0;
    let busy: Vec<_> = (0..1000).map(|t| w.threads[t].candidate(ThreadState { notified: true, ..idle(t) })).collect();
    let found = w.process.find_receiver(Signal::USR1, ThreadIdx(0), |t| {
        asked += 1;
        Some(busy[t.index()])
    });
    assert_eq!(found, Wake::Nobody, "all will look anyway");
    assert_eq!(asked, 64);
}

#[test]
fn what_is_left_is_offered_once_for_each_signal() {
    const N: usize = 10_000;
    let mut w = World::with_handlers(N);
    for t in 0..N {
        let _ = w.block(t, SigSet::ALL);
    }
    w.unblock(0, SigSet::ALL);
    w.unblock(7_000, SigSet::of(&[Signal::USR1, sig(40)]));
    w.unblock(9_000, SigSet::only(Signal::USR2));
    for s in [Signal::USR1, Signal::USR2, Signal::TERM, sig(40)] {
        let _ = w.send_all(SigInfo::user(s, 1, 0)).unwrap();
    }
    let mut left = w.block(0, SigSet::ALL);
    let candidates: Vec<_> = (0..N).map(|t| w.candidate(t)).collect();
    let mut asked = 0;
    let mut takers = Vec::new();
    while let Some(t) = w.process.next_taker(&mut left, ThreadIdx(0), |t| {
        asked += 1;
        Some(candidates[t.index()])
    }) {
        takers.push(t.0);
    }
    takers.sort_unstable();
    assert_eq!(takers, [7_000, 9_000]);
    assert_eq!(asked, 2, "nobody was asked who would not take any");
    assert!(left.is_done(), "nobody takes SIGTERM: it waits");
    assert!(!w.process.is_open(Signal::TERM) && w.process.is_open(Signal::USR2));
}

#[test]
fn a_fatal_signal_ends_the_process_at_once_if_someone_takes_it() {
    let mut w = World::new(2);
    let _ = w.block(0, SigSet::only(Signal::TERM));
    assert_eq!(w.send_all(SigInfo::user(Signal::TERM, 1, 0)).unwrap().wake, Wake::Search(Signal::TERM));
    assert!(!w.process.is_dying());
    assert_eq!(search(&mut w, Signal::TERM), Wake::EndProcess(Signal::TERM));
    assert_eq!(w.process.killed_by(), Some(Signal::TERM));
    for t in 0..2 {
        assert_eq!(w.act(t), Action::Exit);
    }
}

#[test]
fn a_signal_with_a_core_ends_the_process_at_delivery() {
    let mut w = World::new(1);
    assert_eq!(w.send_to(0, SigInfo::user(Signal::QUIT, 1, 0)).unwrap().wake, Wake::Thread(ThreadIdx(0)));
    assert!(!w.process.is_dying());
    assert_eq!(w.act(0), Action::Terminate { info: SigInfo::user(Signal::QUIT, 1, 0), core: true });
    assert_eq!(w.act(0), Action::Exit);
}

#[test]
fn kill_reaches_a_process_that_blocks_everything() {
    for private in [false, true] {
        let mut w = World::with_handlers(2);
        for t in 0..2 {
            let _ = w.block(t, SigSet::ALL);
        }
        let kill = SigInfo::user(Signal::KILL, 1, 0);
        let sent = if private { w.send_to(1, kill) } else { w.send_all(kill) };
        assert_eq!(sent.unwrap().wake, Wake::EndProcess(Signal::KILL));
        assert_eq!(w.act(0), Action::Exit);
    }
}

#[test]
fn stop_and_ignored_defaults_do_not_end_the_process() {
    let mut w = World::new(1);
    assert_eq!(w.send_all(SigInfo::user(Signal::STOP, 1, 0)).unwrap().wake, Wake::Thread(ThreadIdx(0)));
    assert_eq!(w.act(0), Action::Stop(Signal::STOP));
    assert!(!w.process.is_dying());
    let _ = w.set(Signal::TERM, handler(SaFlags(0)));
    assert_eq!(w.send_all(SigInfo::user(Signal::TERM, 1, 0)).unwrap().wake, Wake::Thread(ThreadIdx(0)));
    assert!(!w.process.is_dying());
}

#[test]
fn what_a_thread_blocks_or_leaves_finds_another_taker() {
    let mut w = World::with_handlers(4);
    let both = SigSet::of(&[Signal::USR1, Signal::USR2]);
    for s in both.iter() {
        let _ = w.send_all(SigInfo::user(s, 1, 0)).unwrap();
    }
    let _ = w.block(1, SigSet::only(Signal::USR1));
    let mut retarget = w.block(0, SigSet::ALL);
    assert!(!retarget.is_done());
    let gone = w.threads[3].candidate(ThreadState { exiting: true, ..idle(3) });
    assert!(!retarget.offer(&gone));
    assert!(retarget.offer(&w.candidate(1)), "takes USR2");
    assert!(!retarget.is_done());
    assert!(!retarget.offer(&w.candidate(1)), "has nothing more to take");
    assert!(retarget.offer(&w.candidate(2)), "takes USR1");
    assert!(retarget.is_done());

    let retarget = w.process.exit_thread(&mut w.threads[2]);
    assert!(!retarget.is_done());
    assert!(w.process.exit_thread(&mut w.threads[2]).is_done(), "it blocks everything by now");
    w.process.begin_exit(None);
    assert!(w.process.exit_thread(&mut w.threads[3]).is_done());
}
