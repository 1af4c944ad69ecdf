use crate::{World, handler, idle, sig};
use abi::{Errno, SIG_DFL, SIG_IGN, SaFlags, SigAction, SigInfo, SigSet, Signal, si_code};
use entresol_signal::*;
use ids::ThreadIdx;

const IGNORE: SigAction = SigAction { handler: SIG_IGN, ..SigAction::DEFAULT };

#[test]
fn default_actions_are_those_of_signal_7() {
    use Signal as S;
    for signal in Signal::all() {
        let expected = match signal {
            S::CHLD | S::CONT | S::URG | S::WINCH => DefaultAction::Ignore,
            S::STOP | S::TSTP | S::TTIN | S::TTOU => DefaultAction::Stop,
            S::QUIT | S::ILL | S::TRAP | S::ABRT | S::BUS | S::FPE | S::SEGV | S::SYS | S::XCPU | S::XFSZ => {
                DefaultAction::Core
            }
            _ => DefaultAction::Terminate,
        };
        assert_eq!(DefaultAction::of(signal), expected, "{signal:?}");
        let mut w = World::new(1);
        let _ = w.send_to(0, SigInfo::user(signal, 1, 0)).unwrap();
        match (expected, w.act(0)) {
            (DefaultAction::Ignore, Action::None) | (DefaultAction::Terminate, Action::Exit) => {}
            (DefaultAction::Stop, Action::Stop(s)) if s == signal => {}
            (DefaultAction::Core, Action::Terminate { info, core: true }) if info.signal() == Some(signal) => {}
            (e, a) => panic!("{signal:?}: {e:?} but {a:?}"),
        }
    }
}

#[test]
fn a_fatal_signal_that_was_blocked_ends_the_process_when_it_is_taken() {
    let mut w = World::new(1);
    let _ = w.block(0, SigSet::ALL);
    assert_eq!(w.send_to(0, SigInfo::user(Signal::TERM, 1, 0)).unwrap().wake, Wake::Nobody);
    assert_eq!(w.act(0), Action::None);
    w.unblock(0, SigSet::ALL);
    assert_eq!(w.act(0), Action::Terminate { info: SigInfo::user(Signal::TERM, 1, 0), core: false });
    assert_eq!(w.process.killed_by(), Some(Signal::TERM));
}

#[test]
fn the_mask_while_a_handler_runs() {
    let also = SigSet::of(&[Signal::HUP, Signal::KILL]);
    for (flags, blocks_itself) in [(SaFlags(0), true), (SaFlags::NODEFER, false)] {
        let mut w = World::new(1);
        let _ = w.set(Signal::USR1, SigAction { mask: also, ..handler(flags) });
        let _ = w.block(0, SigSet::only(Signal::PIPE));
        let _ = w.send_to(0, SigInfo::user(Signal::USR1, 1, 0)).unwrap();
        let d = w.handle(0);
        assert_eq!(d.old_mask, SigSet::only(Signal::PIPE));
        let mut expected = SigSet::of(&[Signal::PIPE, Signal::HUP]);
        if blocks_itself {
            expected.insert(Signal::USR1);
        }
        assert_eq!(w.threads[0].blocked(), expected);
        let sent = w.process.sigreturn(&mut w.threads[0], d.old_mask | SigSet::UNBLOCKABLE, d.altstack.saved(), 0);
        assert!(sent.is_done());
        assert_eq!(w.threads[0].blocked(), SigSet::only(Signal::PIPE));
    }
}

#[test]
fn a_one_shot_handler_runs_once_with_its_flags() {
    let mut w = World::new(1);
    let _ = w.set(Signal::USR1, handler(SaFlags::RESETHAND | SaFlags::RESTART));
    let _ = w.send_to(0, SigInfo::user(Signal::USR1, 1, 0)).unwrap();
    let d = w.handle(0);
    assert!(d.action.is_handler());
    let now = w.process.actions().get(Signal::USR1);
    assert_eq!((now.handler, now.flags), (SIG_DFL, d.action.flags));
}

#[test]
fn sigaction_keeps_only_what_it_knows() {
    let mut w = World::new(1);
    let change = w.set(Signal::USR1, SigAction { mask: SigSet::ALL, ..handler(SaFlags(!0)) });
    assert_eq!(change.old, SigAction::DEFAULT);
    let a = w.process.actions().get(Signal::USR1);
    assert_eq!((a.flags, a.mask), (SaFlags::KNOWN, SigSet::ALL.blockable()));
    assert!(!a.flags.has(SaFlags::UNSUPPORTED));
    assert_eq!(w.process.actions().caught(), SigSet::only(Signal::USR1));
    let _ = w.set(Signal::HUP, IGNORE);
    assert_eq!(w.process.actions().ignored(), SigSet::only(Signal::HUP));
    for s in [Signal::KILL, Signal::STOP] {
        assert_eq!(w.process.set_action(s, IGNORE).unwrap_err(), Errno::EINVAL);
    }
}

#[test]
fn faults_come_before_everything_and_in_order() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    let _ = w.send_to(0, SigInfo::user(Signal::HUP, 1, 0)).unwrap();
    let _ = w.send_to(0, SigInfo::user(Signal::ILL, 1, 0)).unwrap();
    let _ = w.send_all(SigInfo::user(Signal::SEGV, 1, 0)).unwrap();
    let _ = w.send_to(0, SigInfo::fault(Signal::SEGV, si_code::SEGV_MAPERR, 8)).unwrap();
    let _ = w.send_to(0, SigInfo::fault(Signal::BUS, si_code::BUS_ADRALN, 8)).unwrap();
    let order = [
        (Signal::SEGV, 1), // raised by an instruction, the first one
        (Signal::BUS, 1),  // raised by an instruction
        (Signal::ILL, 0),  // sent, but of the synchronous kind
        (Signal::HUP, 0),  // the thread's before the process's
        (Signal::SEGV, 0),
    ];
    for (signal, code) in order {
        w.unblock(0, SigSet::ALL);
        let info = w.handle(0).info;
        assert_eq!((info.signal(), info.code()), (Some(signal), code));
    }
    assert_eq!(w.act(0), Action::None);
}

#[test]
fn a_forced_signal_cannot_be_escaped() {
    let fault = SigInfo::fault(Signal::SEGV, si_code::SEGV_ACCERR, 8);
    let fatal = Action::Terminate { info: fault, core: true };
    type Case = (Option<SigAction>, SigSet, Force, bool);
    let cases: [Case; 5] = [
        (Some(handler(SaFlags(0))), SigSet::EMPTY, Force::Current, true),
        (Some(handler(SaFlags(0))), SigSet::ALL, Force::Current, false),
        (Some(IGNORE), SigSet::EMPTY, Force::Current, false),
        (None, SigSet::EMPTY, Force::Current, false),
        (Some(handler(SaFlags(0))), SigSet::EMPTY, Force::Default, false),
    ];
    for (action, mask, how, handled) in cases {
        let mut w = World::new(1);
        if let Some(a) = action {
            let _ = w.set(Signal::SEGV, a);
        }
        let _ = w.block(0, mask);
        let sent = w.process.force(&mut w.threads[0], idle(0), fault, how);
        assert_eq!(sent.wake, Wake::Thread(ThreadIdx(0)));
        match w.act(0) {
            Action::Handler(d) => assert!(handled && d.info == fault),
            other => assert_eq!((handled, other), (false, fatal)),
        }
        let others = mask.blockable().without(SigSet::only(Signal::SEGV));
        assert_eq!(w.threads[0].blocked(), others, "only the forced signal is unblocked");
    }
}

#[test]
fn a_signal_forced_to_exit_can_no_longer_be_handled() {
    let mut w = World::new(1);
    let info = SigInfo::sys(si_code::SYS_USER_DISPATCH, 0, 1, 2, 3);
    let _ = w.process.force(&mut w.threads[0], idle(0), info, Force::Exit);
    assert_eq!(w.process.set_action(Signal::SYS, handler(SaFlags(0))).unwrap_err(), Errno::EINVAL);
    let _ = w.process.for_child(false).set_action(Signal::SYS, handler(SaFlags(0))).unwrap();
    assert_eq!(w.act(0), Action::Terminate { info, core: true });
}

#[test]
fn a_frame_that_cannot_be_written_is_a_fault_and_its_own_is_fatal() {
    let mut w = World::with_handlers(1);
    let _ = w.send_to(0, SigInfo::user(Signal::USR1, 1, 0)).unwrap();
    let Action::Handler(first) = w.act(0) else { panic!("no handler") };
    let sent = w.process.frame_failed(&mut w.threads[0], idle(0), &first);
    assert_eq!(sent.fate, Fate::Queued);
    assert_eq!(w.threads[0].blocked(), SigSet::EMPTY, "no handler runs, so the mask is as before");
    let Action::Handler(second) = w.act(0) else { panic!("no handler") };
    assert_eq!(second.info, SigInfo::kernel(Signal::SEGV));
    let _ = w.process.frame_failed(&mut w.threads[0], idle(0), &second);
    assert_eq!(w.act(0), Action::Terminate { info: SigInfo::kernel(Signal::SEGV), core: true });
}

#[test]
fn dead_signals_are_passed_over_in_bounded_steps() {
    let mut w = World::with_handlers(1);
    let _ = w.set(sig(40), IGNORE);
    let _ = w.block(0, SigSet::ALL);
    for i in 0..150 {
        assert_eq!(w.send_to(0, SigInfo::queue(sig(40), 1, 0, i)).unwrap().fate, Fate::Queued);
    }
    w.unblock(0, SigSet::ALL);
    assert_eq!(w.act(0), Action::More);
    assert_eq!(w.act(0), Action::More);
    assert_eq!(w.process.charged(), 150 - 128);
    assert_eq!(w.act(0), Action::None);
    assert_eq!(w.process.charged(), 0);
}

#[test]
fn the_summary_tells_whether_there_is_something_to_do() {
    let mut w = World::with_handlers(1);
    let summary = Summary::new();
    assert!(!summary.is_set());
    let _ = w.block(0, SigSet::only(Signal::USR1));
    for s in [Signal::USR1, Signal::USR2] {
        let _ = w.send_all(SigInfo::user(s, 1, 0)).unwrap();
    }
    summary.publish(&w.process, &w.threads[0]);
    assert_eq!(summary.deliverable(), SigSet::only(Signal::USR2));
    let _ = w.handle(0);
    summary.publish(&w.process, &w.threads[0]);
    assert!(!summary.is_set());
    summary.publish_end();
    assert!(summary.is_set());
}
