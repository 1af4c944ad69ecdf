use crate::{World, handler, sig};
use abi::{Errno, SIG_IGN, SaFlags, SigAction, SigInfo, SigSet, Signal};
use entresol_signal::*;

const IGNORE: SigAction = SigAction { handler: SIG_IGN, ..SigAction::DEFAULT };

/// Timers whose number is in the list are stale; others report an overrun of 9.
struct Stale(Vec<u64>, u32);

impl TimerSignals for Stale {
    fn deliver(&mut self, TimerKey(key): TimerKey, info: SigInfo) -> Option<SigInfo> {
        (!self.0.contains(&key)).then(|| SigInfo::timer(info.signal().unwrap(), info.timer_id(), 9, info.value()))
    }
    fn alarm_taken(&mut self) {
        self.1 += 1;
    }
}

fn expire(w: &mut World, signal: Signal, key: u64) -> Sent {
    let c = w.candidate(0);
    let info = SigInfo::timer(signal, key as i32, 0, 0);
    w.process.send_timer(Target::Process(c), TimerKey(key), info).unwrap()
}

#[test]
fn several_timers_of_one_standard_signal_each_deliver() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    for key in 0..3 {
        w.process.add_timer(Quota::UNLIMITED).unwrap();
        assert_eq!(expire(&mut w, Signal::ALRM, key).fate, Fate::Queued);
    }
    assert_eq!(w.send_all(SigInfo::user(Signal::ALRM, 1, 0)).unwrap().fate, Fate::Coalesced);
    let mut timers = Stale(vec![], 0);
    for key in 0..3 {
        assert!(w.process.shared_set().contains(Signal::ALRM));
        let taken = w.process.take(&mut w.threads[0], SigSet::ALL, &mut timers);
        assert_eq!(taken, Taken::Signal(SigInfo::timer(Signal::ALRM, key, 9, 0)));
    }
    assert!(w.process.shared_set().is_empty());
    assert_eq!(timers.1, 3, "each time SIGALRM was taken from the process, its interval timer was told");
}

#[test]
fn without_a_timer_room_the_information_stays_as_sent() {
    let mut w = World::with_handlers(1);
    w.process.add_timer(Quota::UNLIMITED).unwrap();
    let _ = expire(&mut w, sig(40), 0);
    assert_eq!(w.handle(0).info, SigInfo::timer(sig(40), 0, 0, 0));
}

#[test]
fn a_private_alarm_does_not_rearm_the_interval_timer() {
    let mut w = World::with_handlers(1);
    let _ = w.send_to(0, SigInfo::user(Signal::ALRM, 1, 0)).unwrap();
    let mut timers = Stale(vec![], 0);
    assert!(matches!(w.process.next_action(&mut w.threads[0], &mut timers), Action::Handler(_)));
    assert_eq!(timers.1, 0);
}

#[test]
fn a_stale_signal_shows_but_delivers_nothing() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    for key in 0..3 {
        w.process.add_timer(Quota::UNLIMITED).unwrap();
        let _ = expire(&mut w, sig(40), key);
    }
    assert_eq!(w.process.pending(&w.threads[0]), SigSet::only(sig(40)));
    w.unblock(0, SigSet::ALL);
    let mut timers = Stale(vec![0, 2], 0);
    let Action::Handler(d) = w.process.next_action(&mut w.threads[0], &mut timers) else { panic!("no handler") };
    assert_eq!((d.info.timer_id(), d.info.overrun()), (1, 9));
    assert_eq!(w.process.next_action(&mut w.threads[0], &mut timers), Action::None);
    assert!(w.process.shared_set().is_empty());
}

#[test]
fn a_wait_that_meets_stale_signals_only_is_bounded() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    for key in 0..70 {
        w.process.add_timer(Quota::UNLIMITED).unwrap();
        let _ = expire(&mut w, sig(40), key);
    }
    let mut timers = Stale((0..70).collect(), 0);
    assert_eq!(w.process.take(&mut w.threads[0], SigSet::ALL, &mut timers), Taken::More);
    assert_eq!(w.process.take(&mut w.threads[0], SigSet::ALL, &mut timers), Taken::Nothing);
}

#[test]
fn an_ignored_timer_is_parked_by_its_owner_unless_blocked() {
    let mut w = World::new(1);
    w.process.add_timer(Quota::UNLIMITED).unwrap();
    let _ = w.set(sig(40), IGNORE);
    assert_eq!(expire(&mut w, sig(40), 0).fate, Fate::Ignored);
    let _ = w.block(0, SigSet::ALL);
    assert_eq!(expire(&mut w, sig(40), 0).fate, Fate::Queued);
    assert!(w.set(sig(40), IGNORE).flushed);
    assert!(w.process.shared_set().is_empty());
    assert!(w.set(sig(40), handler(SaFlags(0))).revived);
}

#[test]
fn a_timer_counts_for_life_and_its_entry_for_as_long_as_it_is_queued() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    let quota = Quota { limit: 2, elsewhere: 0 };
    w.process.add_timer(quota).unwrap();
    w.process.add_timer(quota).unwrap();
    assert_eq!(w.process.add_timer(quota), Err(Errno::EAGAIN));
    let _ = expire(&mut w, sig(40), 0);
    assert_eq!(w.process.charged(), 2, "the timer has paid for its entry");
    w.process.remove_timer(true);
    assert_eq!(w.process.charged(), 2, "the entry is still there");
    w.process.remove_timer(false);
    assert_eq!(w.process.charged(), 1);
    let _ = w.process.take(&mut w.threads[0], SigSet::ALL, &mut Stale(vec![0], 0));
    assert_eq!(w.process.charged(), 0);
}

#[test]
fn a_timers_signal_ignores_the_limit() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    w.process.add_timer(Quota::UNLIMITED).unwrap();
    for value in 0..200 {
        let _ = w.send_all(SigInfo::queue(sig(41), 1, 0, value)).unwrap();
    }
    assert_eq!(expire(&mut w, sig(40), 0).fate, Fate::Queued);
    assert_eq!(w.process.charged(), 201);
}

#[test]
fn a_timer_on_a_stop_signal_is_flushed_by_continue() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    w.process.add_timer(Quota::UNLIMITED).unwrap();
    let _ = expire(&mut w, Signal::CONT, 0);
    let sent = expire(&mut w, Signal::TSTP, 1);
    assert_eq!(sent.flushed, SigSet::only(Signal::CONT), "their owner learns that they are no longer queued");
    assert_eq!(w.process.shared_set(), SigSet::only(Signal::TSTP));
}
