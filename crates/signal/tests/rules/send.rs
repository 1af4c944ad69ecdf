use crate::{World, handler, sig};
use abi::{Errno, SIG_IGN, SaFlags, SigAction, SigInfo, SigSet, Signal};
use entresol_signal::*;

const IGNORE: SigAction = SigAction { handler: SIG_IGN, ..SigAction::DEFAULT };

#[test]
fn standard_signals_coalesce_and_keep_the_first_information() {
    let mut w = World::with_handlers(1);
    w.block(0, SigSet::ALL).is_done();
    assert_eq!(w.send_to(0, SigInfo::user(Signal::USR1, 1, 0)).unwrap().fate, Fate::Queued);
    assert_eq!(w.send_to(0, SigInfo::user(Signal::USR1, 2, 0)).unwrap().fate, Fate::Coalesced);
    // The process's queue is another one.
    assert_eq!(w.send_all(SigInfo::user(Signal::USR1, 3, 0)).unwrap().fate, Fate::Queued);
    w.unblock(0, SigSet::ALL);
    assert_eq!(w.handle(0).info.pid(), 1);
    w.unblock(0, SigSet::ALL);
    assert_eq!(w.handle(0).info.pid(), 3);
    assert_eq!(w.act(0), Action::None);
}

#[test]
fn real_time_signals_queue_in_order_lowest_number_first() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    for (n, value) in [(40, 1), (35, 2), (40, 3), (35, 4)] {
        assert_eq!(w.send_to(0, SigInfo::queue(sig(n), 1, 0, value)).unwrap().fate, Fate::Queued);
    }
    let mut seen = Vec::new();
    while let Taken::Signal(i) = w.process.take(&mut w.threads[0], SigSet::ALL, &mut NoTimers) {
        seen.push((i.signo(), i.value()));
    }
    assert_eq!(seen, [(35, 2), (35, 4), (40, 1), (40, 3)]);
}

#[test]
fn the_queue_limit_spares_whom_linux_spares() {
    let full = Quota { limit: 10, elsewhere: 10 };
    let rt = sig(40);
    for (info, expected) in [
        (SigInfo::user(Signal::USR1, 1, 0), Ok(Fate::Queued)),
        (SigInfo::kernel(Signal::USR1), Ok(Fate::Queued)),
        (SigInfo::child(1, 5, 0, 0, 0, 0), Ok(Fate::Queued)),
        (SigInfo::tkill(Signal::USR1, 1, 0), Ok(Fate::WithoutInfo)),
        (SigInfo::queue(Signal::USR1, 1, 0, 7), Ok(Fate::WithoutInfo)),
        (SigInfo::user(rt, 1, 0), Ok(Fate::WithoutInfo)),
        (SigInfo::kernel(rt), Ok(Fate::WithoutInfo)),
        (SigInfo::tkill(rt, 1, 0), Err(Errno::EAGAIN)),
        (SigInfo::queue(rt, 1, 0, 7), Err(Errno::EAGAIN)),
    ] {
        let mut w = World::with_handlers(1);
        let _ = w.block(0, SigSet::ALL);
        let c = w.candidate(0);
        let sent = w.process.send(Target::Process(c), info, full);
        assert_eq!(sent.map(|s| s.fate), expected, "{info:?}");
        assert_eq!(w.process.shared_set().is_empty(), expected.is_err());
        if expected == Ok(Fate::WithoutInfo) {
            let taken = w.process.take(&mut w.threads[0], SigSet::ALL, &mut NoTimers);
            assert_eq!(taken, Taken::Signal(SigInfo::lost(info.signal().unwrap())));
        }
    }
}

#[test]
fn the_count_reaches_the_limit_exactly_and_comes_back() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    let quota = Quota { limit: 5, elsewhere: 2 };
    for i in 0..4u64 {
        let c = w.candidate(0);
        let sent = w.process.send(Target::Thread(&mut w.threads[0], c), SigInfo::queue(sig(40), 1, 0, i), quota);
        assert_eq!(sent.is_ok(), i < 3);
    }
    assert_eq!(w.process.charged(), 3);
    let _ = w.process.take(&mut w.threads[0], SigSet::ALL, &mut NoTimers);
    assert_eq!(w.process.charged(), 2);
    let _ = w.process.exit_thread(&mut w.threads[0]);
    assert_eq!(w.process.charged(), 0);
}

#[test]
fn ignored_signals_are_dropped_unless_blocked() {
    for (signal, action) in [
        (Signal::CHLD, SigAction::DEFAULT),
        (Signal::WINCH, SigAction::DEFAULT),
        (Signal::URG, SigAction::DEFAULT),
        (Signal::USR1, IGNORE),
        (sig(40), IGNORE),
    ] {
        let mut w = World::new(1);
        let _ = w.set(signal, action);
        assert_eq!(w.send_all(SigInfo::user(signal, 1, 0)).unwrap().fate, Fate::Ignored);
        let _ = w.block(0, SigSet::only(signal));
        assert_eq!(w.send_all(SigInfo::user(signal, 1, 0)).unwrap().fate, Fate::Queued);
        assert_eq!(w.process.pending(&w.threads[0]), SigSet::only(signal));
        // Unblocked, it is found to do nothing.
        w.unblock(0, SigSet::ALL);
        assert_eq!(w.act(0), Action::None);
        assert!(w.process.shared_set().is_empty());
    }
}

#[test]
fn sigaction_to_ignore_drops_what_is_pending_even_blocked() {
    let mut w = World::with_handlers(2);
    for t in 0..2 {
        let _ = w.block(t, SigSet::ALL);
        let _ = w.send_to(t, SigInfo::queue(sig(40), 1, 0, 0)).unwrap();
        let _ = w.send_to(t, SigInfo::queue(sig(41), 1, 0, 0)).unwrap();
    }
    let _ = w.send_all(SigInfo::queue(sig(40), 1, 0, 0)).unwrap();
    let change = w.set(sig(40), IGNORE);
    assert!(change.flushed && !change.revived);
    // A signal sent after the flush stays, also where the flush has not been settled yet.
    let change = w.set(sig(40), handler(SaFlags(0)));
    assert!(!change.flushed && change.revived);
    let _ = w.send_to(1, SigInfo::queue(sig(40), 1, 0, 9)).unwrap();
    assert_eq!(w.process.private_set(&w.threads[0]), SigSet::only(sig(41)));
    assert_eq!(w.process.private_set(&w.threads[1]), SigSet::of(&[sig(40), sig(41)]));
    assert!(w.process.shared_set().is_empty());
    let taken = w.process.take(&mut w.threads[1], SigSet::only(sig(40)), &mut NoTimers);
    assert_eq!(taken, Taken::Signal(SigInfo::queue(sig(40), 1, 0, 9)));
    assert_eq!(w.process.take(&mut w.threads[1], SigSet::only(sig(40)), &mut NoTimers), Taken::Nothing);
}

#[test]
fn only_what_was_sig_ign_is_revived() {
    let mut w = World::new(1);
    // Ignored by default, then a handler: not revived; by SIG_IGN, then a handler: revived.
    assert!(!w.set(Signal::URG, handler(SaFlags(0))).revived);
    assert!(w.set(Signal::URG, SigAction::DEFAULT).flushed);
    assert!(!w.set(Signal::URG, IGNORE).revived, "from one way of ignoring to another");
    assert!(w.set(Signal::URG, handler(SaFlags(0))).revived);
}

#[test]
fn stop_signals_and_continue_cancel_each_other() {
    let mut w = World::with_handlers(2);
    for t in 0..2 {
        let _ = w.block(t, SigSet::ALL);
        for s in [Signal::TSTP, Signal::TTIN, Signal::TTOU, Signal::USR1] {
            let _ = w.send_to(t, SigInfo::user(s, 1, 0)).unwrap();
        }
    }
    let _ = w.send_all(SigInfo::user(Signal::STOP, 1, 0)).unwrap();
    let sent = w.send_to(0, SigInfo::user(Signal::CONT, 1, 0)).unwrap();
    assert_eq!((sent.resume, sent.flushed), (true, SigSet::STOP));
    assert_eq!(w.process.private_set(&w.threads[0]), SigSet::of(&[Signal::USR1, Signal::CONT]));
    assert_eq!(w.process.private_set(&w.threads[1]), SigSet::only(Signal::USR1));
    assert!(w.process.shared_set().is_empty());

    let sent = w.send_all(SigInfo::user(Signal::TTOU, 1, 0)).unwrap();
    assert_eq!((sent.resume, sent.flushed), (false, SigSet::only(Signal::CONT)));
    assert_eq!(w.process.private_set(&w.threads[0]), SigSet::only(Signal::USR1));
}

#[test]
fn continue_resumes_even_when_it_is_ignored() {
    let mut w = World::new(1);
    let _ = w.set(Signal::CONT, IGNORE);
    let sent = w.send_all(SigInfo::user(Signal::CONT, 1, 0)).unwrap();
    assert_eq!((sent.fate, sent.resume, sent.wake), (Fate::Ignored, true, Wake::Nobody));
}

#[test]
fn a_dying_process_takes_no_signals() {
    let mut w = World::with_handlers(1);
    w.process.begin_exit(None);
    let sent = w.send_all(SigInfo::user(Signal::CONT, 1, 0)).unwrap();
    assert_eq!((sent.fate, sent.resume, sent.flushed), (Fate::Ignored, false, SigSet::EMPTY));
    assert_eq!(w.act(0), Action::Exit);
    assert_eq!(w.process.killed_by(), None);
    assert_eq!(w.process.deliverable(&w.threads[0]), SigSet::only(Signal::KILL));
}

#[test]
fn what_is_no_signal_is_einval() {
    let mut w = World::new(1);
    for bytes in [[0u8; 128], {
        let mut b = [0; 128];
        b[0] = 65;
        b
    }] {
        let info = SigInfo::read(&bytes).unwrap();
        assert_eq!(w.send_all(info).unwrap_err(), Errno::EINVAL);
        let c = w.candidate(0);
        assert_eq!(w.process.send_timer(Target::Process(c), TimerKey(0), info).unwrap_err(), Errno::EINVAL);
    }
}
