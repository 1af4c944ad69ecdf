use crate::{World, sig};
use abi::{Errno, SigInfo, SigSet, Signal};
use entresol_signal::*;
use ids::ThreadIdx;

const USR1: SigSet = SigSet::only(Signal::USR1);

#[test]
fn sigprocmask_knows_three_ways() {
    let (a, b) = (SigSet::of(&[Signal::HUP, Signal::INT]), SigSet::of(&[Signal::INT, Signal::KILL]));
    assert_eq!(MaskHow::from_raw(0).map(|h| h.apply(a, b)), Ok(a));
    assert_eq!(MaskHow::from_raw(1).map(|h| h.apply(a, b)), Ok(SigSet::only(Signal::HUP)));
    assert_eq!(MaskHow::from_raw(2).map(|h| h.apply(a, b)), Ok(SigSet::only(Signal::INT)));
    for bad in [-1, 3, i32::MAX] {
        assert_eq!(MaskHow::from_raw(bad), Err(Errno::EINVAL));
    }
}

#[test]
fn sigsuspend_delivers_under_its_mask_and_returns_to_the_old_one() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, USR1);
    let _ = w.send_to(0, SigInfo::user(Signal::USR1, 1, 0)).unwrap();
    assert_eq!(w.act(0), Action::None);
    let _ = w.process.begin_mask(&mut w.threads[0], SigSet::only(Signal::USR2));
    assert_eq!(w.process.deliverable(&w.threads[0]), USR1);
    assert!(w.process.end_mask(&mut w.threads[0], true).is_done());
    let d = w.handle(0);
    assert_eq!(d.old_mask, USR1, "the frame saves the mask from before sigsuspend");
    assert_eq!(w.threads[0].blocked(), SigSet::of(&[Signal::USR1, Signal::USR2]));
    assert_eq!(w.threads[0].mask_to_save(), w.threads[0].blocked(), "it is in the frame now");
}

#[test]
fn without_a_handler_the_mask_comes_back_and_may_let_more_through() {
    let mut w = World::with_handlers(1);
    let _ = w.send_all(SigInfo::user(Signal::USR2, 1, 0)).unwrap();
    let _ = w.process.begin_mask(&mut w.threads[0], SigSet::ALL);
    assert_eq!(w.act(0), Action::None);
    assert!(w.process.restore_mask(&mut w.threads[0]).is_done());
    assert_eq!(w.handle(0).info.signal(), Some(Signal::USR2));
    let mask = w.threads[0].blocked();
    assert!(w.process.restore_mask(&mut w.threads[0]).is_done());
    assert_eq!(w.threads[0].blocked(), mask, "there is nothing to restore twice");
}

#[test]
fn a_poll_that_ends_by_itself_restores_its_mask() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, USR1);
    let _ = w.process.begin_mask(&mut w.threads[0], SigSet::ALL);
    assert_eq!(w.threads[0].blocked(), SigSet::ALL.blockable());
    let _ = w.process.end_mask(&mut w.threads[0], false);
    assert_eq!(w.threads[0].blocked(), USR1);
}

#[test]
fn masks_that_take_a_signal_away_say_so() {
    let mut w = World::with_handlers(1);
    let _ = w.send_all(SigInfo::user(Signal::USR1, 1, 0)).unwrap();
    assert!(!w.process.begin_mask(&mut w.threads[0], USR1).is_done());
    let _ = w.process.end_mask(&mut w.threads[0], false);
    assert!(!w.process.set_mask(&mut w.threads[0], MaskHow::Set, USR1).1.is_done());
    w.process.begin_wait(&mut w.threads[0], USR1);
    assert!(!w.process.end_wait(&mut w.threads[0]).is_done());
}

#[test]
fn sigtimedwait_is_woken_by_what_it_blocks_otherwise() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    assert_eq!(w.process.take(&mut w.threads[0], USR1, &mut NoTimers), Taken::Nothing);
    w.process.begin_wait(&mut w.threads[0], USR1 | SigSet::UNBLOCKABLE);
    assert_eq!(w.send_to(0, SigInfo::user(Signal::USR2, 1, 0)).unwrap().wake, Wake::Nobody);
    assert_eq!(w.send_to(0, SigInfo::user(Signal::USR1, 7, 0)).unwrap().wake, Wake::Thread(ThreadIdx(0)));
    assert!(w.process.end_wait(&mut w.threads[0]).is_done());
    assert_eq!(w.threads[0].blocked(), SigSet::ALL.blockable());
    let taken = w.process.take(&mut w.threads[0], USR1, &mut NoTimers);
    assert_eq!(taken, Taken::Signal(SigInfo::user(Signal::USR1, 7, 0)));
    assert_eq!(w.process.pending(&w.threads[0]), SigSet::only(Signal::USR2));
    assert!(w.process.end_wait(&mut w.threads[0]).is_done(), "no wait is going on");
    assert_eq!(w.threads[0].blocked(), SigSet::ALL.blockable());
}

#[test]
fn a_fatal_signal_that_is_waited_for_is_taken_and_does_not_kill() {
    let mut w = World::new(1);
    let term = SigSet::only(Signal::TERM);
    let _ = w.block(0, term);
    w.process.begin_wait(&mut w.threads[0], term);
    let sent = w.send_all(SigInfo::user(Signal::TERM, 1, 0)).unwrap();
    assert_eq!((sent.fate, sent.wake), (Fate::Queued, Wake::Thread(ThreadIdx(0))));
    assert!(!w.process.is_dying());
    let _ = w.process.end_wait(&mut w.threads[0]);
    assert_eq!(
        w.process.take(&mut w.threads[0], term, &mut NoTimers),
        Taken::Signal(SigInfo::user(Signal::TERM, 1, 0))
    );
}

#[test]
fn an_ignored_signal_that_is_waited_for_is_kept() {
    let mut w = World::new(1);
    let chld = SigSet::only(Signal::CHLD);
    let _ = w.block(0, chld);
    w.process.begin_wait(&mut w.threads[0], chld);
    assert_eq!(w.send_all(SigInfo::child(1, 5, 0, 0, 0, 0)).unwrap().fate, Fate::Queued);
}

#[test]
fn signals_are_taken_from_the_set_only() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    for n in [35, 36, 37] {
        let _ = w.send_to(0, SigInfo::user(sig(n), n, 0)).unwrap();
    }
    let set = SigSet::of(&[sig(36), Signal::KILL]);
    assert!(w.process.is_readable(&w.threads[0], set));
    assert_eq!(w.process.take(&mut w.threads[0], set, &mut NoTimers), Taken::Signal(SigInfo::user(sig(36), 36, 0)));
    assert!(!w.process.is_readable(&w.threads[0], set));
    assert_eq!(w.process.take(&mut w.threads[0], set, &mut NoTimers), Taken::Nothing);
    let _ = w.send_all(SigInfo::user(sig(36), 1, 0)).unwrap();
    assert!(w.process.is_readable(&w.threads[0], set));
}
