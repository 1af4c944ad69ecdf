use crate::{World, handler, sig};
use abi::{SIG_IGN, SaFlags, SigAction, SigInfo, SigSet, Signal, StackT, clone_flags as f};
use entresol_signal::*;

const IGNORE: SigAction = SigAction { handler: SIG_IGN, ..SigAction::DEFAULT };
const STACK: StackT = StackT { sp: 0x1000, flags: 0, size: 0x4000 };

#[test]
fn a_new_thread_has_the_mask_and_nothing_else() {
    let mut w = World::with_handlers(1);
    let mask = SigSet::of(&[Signal::USR1, sig(40)]);
    let _ = w.block(0, mask);
    w.threads[0].altstack.set(STACK, 0, AltStack::MIN_SIZE).unwrap();
    let _ = w.send_to(0, SigInfo::user(Signal::USR1, 1, 0)).unwrap();
    for (flags, keeps_stack) in
        [(f::VM | f::THREAD | f::SIGHAND, false), (f::VM, false), (f::VM | f::VFORK, true), (f::VFORK, true), (0, true)]
    {
        let child = w.threads[0].for_child(flags);
        assert_eq!(child.blocked(), mask);
        assert_eq!(child.altstack != AltStack::NONE, keeps_stack, "{flags:#x}");
        assert!(w.process.private_set(&child).is_empty());
    }
}

#[test]
fn a_thread_made_after_a_flush_keeps_its_signals() {
    let mut w = World::with_handlers(1);
    let _ = w.block(0, SigSet::ALL);
    let _ = w.set(sig(40), IGNORE);
    let _ = w.set(sig(40), handler(SaFlags(0)));
    w.threads.push(w.threads[0].for_child(f::VM | f::THREAD));
    let _ = w.send_to(1, SigInfo::user(sig(40), 1, 0)).unwrap();
    assert_eq!(w.process.private_set(&w.threads[1]), SigSet::only(sig(40)));
}

#[test]
fn a_forked_process_has_the_dispositions_and_nothing_pending() {
    let mut w = World::new(1);
    let _ = w.set(Signal::USR1, handler(SaFlags::RESTART));
    let _ = w.set(Signal::USR2, IGNORE);
    let _ = w.block(0, SigSet::ALL);
    let _ = w.send_all(SigInfo::user(Signal::HUP, 1, 0)).unwrap();
    let child = w.process.for_child(false);
    assert_eq!(child.actions().get(Signal::USR1), w.process.actions().get(Signal::USR1));
    assert!(child.shared_set().is_empty() && child.charged() == 0 && !child.is_dying());
    let cleared = w.process.for_child(true);
    assert_eq!(cleared.actions().get(Signal::USR1), SigAction::DEFAULT);
    assert_eq!(cleared.actions().get(Signal::USR2), IGNORE);
}

#[test]
fn exec_keeps_mask_pending_and_ignored_and_drops_the_rest() {
    let mut w = World::new(1);
    let _ = w.set(Signal::USR1, handler(SaFlags::RESTART));
    let _ = w.set(Signal::USR2, SigAction { flags: SaFlags::NOCLDSTOP, mask: SigSet::ALL, ..IGNORE });
    let _ = w.block(0, SigSet::ALL);
    w.threads[0].altstack.set(STACK, 0, AltStack::MIN_SIZE).unwrap();
    let _ = w.process.begin_mask(&mut w.threads[0], SigSet::ALL);
    for t in 0..2 {
        w.process.add_timer(Quota::UNLIMITED).unwrap();
        let c = w.candidate(0);
        let info = SigInfo::timer(sig(40 + t), t, 0, 0);
        let _ = w.process.send_timer(Target::Thread(&mut w.threads[0], c), TimerKey(0), info).unwrap();
        let _ = w.process.send_timer(Target::Process(c), TimerKey(1), info).unwrap();
    }
    for value in 0..3 {
        let _ = w.send_to(0, SigInfo::queue(sig(40), 1, 0, value)).unwrap();
    }
    let _ = w.send_all(SigInfo::user(Signal::HUP, 5, 0)).unwrap();

    w.process.exec(&mut w.threads[0]);

    assert_eq!(w.process.actions().get(Signal::USR1), SigAction::DEFAULT);
    assert_eq!(w.process.actions().get(Signal::USR2), IGNORE, "flags and mask are gone");
    assert_eq!(w.threads[0].blocked(), SigSet::ALL.blockable());
    assert_eq!(w.threads[0].altstack, AltStack::NONE);
    let mut left = Vec::new();
    w.process.for_each_pending(&mut w.threads[0], |scope, info, timer| {
        assert_eq!(timer, None);
        left.push((scope, info.signo(), info.value()));
    });
    let (own, shared) = (Scope::Thread, Scope::Process);
    assert_eq!(left, [(own, 40, 0), (own, 40, 1), (own, 40, 2), (shared, 1, 0)]);
    assert_eq!(w.process.private_set(&w.threads[0]), SigSet::only(sig(40)));
    assert_eq!(w.process.shared_set(), SigSet::only(Signal::HUP));
    assert_eq!(w.process.charged(), 4);
}

#[test]
fn the_first_cause_of_an_end_counts() {
    let mut w = World::new(1);
    w.process.begin_exit(Some(Signal::TERM));
    w.process.begin_exit(None);
    assert_eq!(w.process.killed_by(), Some(Signal::TERM));
}
