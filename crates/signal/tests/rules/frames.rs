use crate::{handler, sig};
use abi::frame::{self as layout, FP_XSTATE_MAGIC1, FP_XSTATE_MAGIC2, FpSwBytes, Registers};
use abi::{SS_AUTODISARM, SS_DISABLE, SS_ONSTACK, SaFlags, SigAction, SigInfo, SigSet, Signal, StackT, si_code};
use entresol_signal::frame::*;
use entresol_signal::*;
use proptest::prelude::*;

const XSAVE: ExtendedState = ExtendedState::Xsave { size: 2696, features: 0xE7 };

fn alt(sp: u64, size: u64, flags: i32) -> AltStack {
    let mut a = AltStack::NONE;
    a.set(StackT { sp, flags, size }, 0, AltStack::MIN_SIZE).unwrap();
    a
}

fn delivery(flags: SaFlags, altstack: AltStack) -> Delivery {
    let info = SigInfo::queue(sig(40), 1, 2, 3);
    Delivery { info, action: handler(flags), old_mask: SigSet(0xF0), altstack }
}

#[test]
fn a_small_alternate_stack_does_not_fit_a_large_state() {
    let on = |size, state| FramePlan::new(&delivery(SaFlags::ONSTACK, alt(0x1_0000, size, 0)), 0x9_0000, state);
    assert_eq!(on(2048, XSAVE), Err(DoesNotFit));
    assert!(on(2048, ExtendedState::Fxsave).is_ok());
    // The last size that is too small by where its frame would lie, and the first that fits.
    let fits: Vec<u64> = (2048..4096).filter(|&s| on(s, XSAVE).is_ok()).collect();
    assert_eq!(fits.len() as u64, 4096 - fits[0], "a larger one always fits");
    let plan = on(fits[0], XSAVE).unwrap();
    assert!(plan.enters_altstack && plan.frame > 0x1_0000 && plan.frame < 0x1_0000 + 64);
}

#[test]
fn a_handler_on_the_alternate_stack_may_not_leave_it_at_the_bottom() {
    let a = alt(0x1_0000, 0x4000, 0);
    let nested = |rsp| FramePlan::new(&delivery(SaFlags::ONSTACK, a), rsp, XSAVE);
    let deep = nested(0x1_2000).unwrap();
    assert!(!deep.enters_altstack && deep.frame < 0x1_2000 && deep.frame > 0x1_0000);
    assert_eq!(nested(0x1_0800), Err(DoesNotFit));
    // The same without SA_ONSTACK: it runs there all the same.
    assert_eq!(FramePlan::new(&delivery(SaFlags(0), a), 0x1_0800, XSAVE), Err(DoesNotFit));
    // With SS_AUTODISARM the thread does not count as being there: the handler starts at the top.
    let auto = delivery(SaFlags::ONSTACK, alt(0x1_0000, 0x4000, SS_AUTODISARM));
    assert!(FramePlan::new(&auto, 0x1_0800, XSAVE).unwrap().enters_altstack);
}

#[test]
fn no_way_back_or_no_address_is_no_frame() {
    let mut d = delivery(SaFlags(0), AltStack::NONE);
    for rsp in [128, 3000] {
        assert_eq!(FramePlan::new(&d, rsp, XSAVE), Err(DoesNotFit), "{rsp}");
    }
    // The address wraps, and writing there fails.
    for rsp in [0, 127] {
        assert!(FramePlan::new(&d, rsp, XSAVE).is_ok_and(|plan| plan.frame > 1 << 63), "{rsp}");
    }
    let on_other = delivery(SaFlags::ONSTACK, alt(0x1_0000, 0x4000, 0));
    assert!(FramePlan::new(&on_other, 16, XSAVE).is_ok_and(|plan| plan.enters_altstack));
    assert!(FramePlan::new(&d, 0x1_0000, XSAVE).is_ok());
    d.action = SigAction { flags: SaFlags(0), ..d.action };
    assert_eq!(FramePlan::new(&d, 0x1_0000, XSAVE), Err(DoesNotFit));
}

#[test]
fn the_handler_gets_its_arguments_and_clean_flags() {
    let d = delivery(SaFlags::SIGINFO, AltStack::NONE);
    let regs =
        Registers { rip: 0x1234, rsp: 0x8_0000, eflags: 0x1_0746, rbx: 5, r12: 6, rax: 7, ..Registers::default() };
    let plan = FramePlan::new(&d, regs.rsp, XSAVE).unwrap();
    let e = plan.entry(&d, &regs);
    assert_eq!((e.rdi, e.rsi, e.rdx), (40, plan.frame + 312, plan.frame + 8));
    assert_eq!((e.rax, e.rip, e.rsp, e.rbx, e.r12), (0, d.action.handler, plan.frame, 5, 6));
    assert_eq!(e.eflags, 0x246);
    assert_eq!((e.cs, e.ss), (0x33, 0x2B));
}

#[test]
fn siginfo_is_written_for_those_who_asked() {
    let regs = Registers { rsp: 0x8_0000, gs: 1, fs: 2, ..Registers::default() };
    for (flags, expected) in
        [(SaFlags::SIGINFO, delivery(SaFlags(0), AltStack::NONE).info.to_bytes()), (SaFlags(0), [0; 128])]
    {
        let d = delivery(flags, AltStack::NONE);
        let b = FramePlan::new(&d, regs.rsp, XSAVE).unwrap().bytes(&d, &regs);
        assert_eq!(b[layout::SIGINFO..], expected);
        assert_eq!(abi::bytes::get_u64(&b, layout::PRETCODE), d.action.restorer);
        let saved = <Registers as abi::bytes::Plain>::get(&b[layout::UC_MCONTEXT..]);
        assert_eq!((saved.cs, saved.gs, saved.fs, saved.ss), (0x33, 0, 0, 0x2B));
    }
}

#[test]
fn only_harmless_flags_come_back() {
    let d = delivery(SaFlags(0), AltStack::NONE);
    let regs = Registers { rip: 1, rsp: 0x8_0000, eflags: u64::MAX, ..Registers::default() };
    let b = FramePlan::new(&d, regs.rsp, XSAVE).unwrap().bytes(&d, &regs);
    let back = read(&b, 0x202).unwrap();
    assert_eq!(back.registers.eflags, 0x202 | 0x5_0DD5);
    let back = read(&b, u64::MAX).unwrap();
    assert_eq!(back.registers.eflags, u64::MAX);
    let none = Registers { eflags: 0, ..regs };
    let b = FramePlan::new(&d, regs.rsp, XSAVE).unwrap().bytes(&d, &none);
    assert_eq!(read(&b, u64::MAX).unwrap().registers.eflags, !0x5_0DD5);
}

#[test]
fn where_no_user_code_is_nobody_goes_on() {
    let d = delivery(SaFlags(0), AltStack::NONE);
    let fault = |rip| {
        let regs = Registers { rip, rsp: 0x8_0000, ..Registers::default() };
        let b = FramePlan::new(&d, regs.rsp, XSAVE).unwrap().bytes(&d, &regs);
        let back = read(&b, 0).unwrap();
        assert_eq!(back.registers.rip, rip, "the handler of the fault sees where it was");
        back.fault(1 << 47)
    };
    assert_eq!(fault((1 << 47) - 1), None);
    for rip in [1 << 47, 1 << 62, (!0 << 47) - 1] {
        assert_eq!(fault(rip), Some(SigInfo::kernel(Signal::SEGV)), "{rip:#x} is not canonical");
    }
    for rip in [!0 << 47, !0] {
        assert_eq!(fault(rip), Some(SigInfo::fault(Signal::SEGV, si_code::SEGV_MAPERR, rip)));
    }
}

#[test]
fn frames_that_nobody_can_go_on_from_are_bad() {
    let d = delivery(SaFlags(0), AltStack::NONE);
    let regs = Registers { rip: 0x1000, rsp: 0x8_0000, ..Registers::default() };
    let good = FramePlan::new(&d, regs.rsp, XSAVE).unwrap().bytes(&d, &regs);
    assert!(read(&good, 0).is_ok());
    let segments = layout::UC_MCONTEXT + 144;
    let with = |at: usize, value: u16| {
        let mut b = good;
        b[at..at + 2].copy_from_slice(&value.to_le_bytes());
        b
    };
    let back = read(&with(segments, 0x30), 0).unwrap();
    assert_eq!(back.registers.cs, 0x33, "privilege bits are set for the program");
    assert_eq!(read(&with(segments, 0x23), 0), Err(BadFrame), "32-bit code");
    assert_eq!(read(&with(segments + 6, 0x33), 0), Err(BadFrame), "a code segment for a stack");
    let mut lenient = with(segments + 6, 0);
    lenient[layout::UC_FLAGS] &= !4;
    assert_eq!(read(&lenient, 0).unwrap().registers.ss, 0x2B);
}

#[test]
fn the_extended_state_is_judged_by_what_it_says() {
    let sw = FpSwBytes::of(u64::MAX, 2696);
    let judge = |state, sw: FpSwBytes, at, magic2: Option<u32>| {
        restorable(state, at, &sw, |a| {
            assert_eq!(a, at + u64::from(sw.xstate_size));
            magic2
        })
    };
    let whole = Ok(Restorable::Xsave { size: 2696, features: 0xE7 });
    let legacy = Ok(Restorable::Fxsave);
    let end = Some(FP_XSTATE_MAGIC2);
    assert_eq!(judge(XSAVE, sw, 0x1000, end), whole);
    assert_eq!(judge(XSAVE, FpSwBytes::of(3, 576), 0x1000, end), Ok(Restorable::Xsave { size: 576, features: 3 }));
    assert_eq!(judge(XSAVE, FpSwBytes::of(3, 575), 0x1000, end), legacy);
    assert_eq!(judge(XSAVE, FpSwBytes::of(3, 2697), 0x1000, end), legacy);
    assert_eq!(judge(XSAVE, FpSwBytes { magic1: 0, ..sw }, 0x1000, end), legacy);
    assert_eq!(judge(XSAVE, FpSwBytes { extended_size: 2695, ..sw }, 0x1000, end), legacy);
    assert_eq!(judge(XSAVE, sw, 0x1000, Some(FP_XSTATE_MAGIC1)), legacy, "copied without its end");
    assert_eq!(judge(XSAVE, sw, 0x1000, None), Err(BadFrame));
    assert_eq!(judge(XSAVE, sw, 0x1010, end), Err(BadFrame), "not aligned to 64");
    assert_eq!(judge(ExtendedState::Fxsave, sw, 0x1010, end), legacy);
    assert_eq!(judge(ExtendedState::Fxsave, sw, 0x1008, end), Err(BadFrame), "not aligned to 16");
    assert_eq!((ExtendedState::Fxsave.frame_len(), XSAVE.frame_len()), (512, 2700));
    assert_eq!(ExtendedState::Fxsave.sw_bytes(), FpSwBytes::default());
    assert_eq!(ExtendedState::Fxsave.magic2(), None);
    assert_eq!(XSAVE.magic2(), Some((2696, FP_XSTATE_MAGIC2.to_le_bytes())));
}

#[test]
fn reporting_and_saving_an_alternate_stack() {
    let a = alt(0x1000, 0x2000, 0);
    for (sp, status) in [(0x1000, 0), (0x1001, SS_ONSTACK), (0x3000, SS_ONSTACK), (0x3001, 0)] {
        assert_eq!(a.report(sp).flags, status, "{sp:#x}");
    }
    assert_eq!(AltStack::NONE.report(5), StackT { sp: 0, flags: SS_DISABLE, size: 0 });
    assert_eq!(a.saved(), StackT { sp: 0x1000, flags: 0, size: 0x2000 });
    let auto = alt(0x1000, 0x2000, SS_AUTODISARM | SS_ONSTACK);
    assert_eq!(auto.report(0x2000).flags, SS_AUTODISARM);
}

#[test]
fn the_least_size_is_asked_of_changes_only() {
    let set = |sp, size, flags| {
        let mut a = alt(0x1000, 0x2000, 0);
        a.set(StackT { sp, flags, size }, 0, 0x3000)
    };
    let small = Err(abi::Errno::ENOMEM);
    assert_eq!(set(0x1000, 0x2000, 0), Ok(()), "nothing changes");
    assert_eq!(set(0x1008, 0x2000, 0), small);
    assert_eq!(set(0x1000, 0x2008, 0), small);
    assert_eq!(set(0x1000, 0x2000, SS_ONSTACK), small);
    assert_eq!(set(0x1008, 0x3000, 0), Ok(()));
}

#[test]
fn a_disarming_stack_goes_at_delivery_and_comes_back_by_sigreturn() {
    for (flags, gone) in [(SS_AUTODISARM, true), (0, false)] {
        let mut p = ProcessSignals::new(Dispositions::DEFAULT);
        let mut t = ThreadSignals::new(SigSet::EMPTY);
        t.altstack = alt(0x1000, 0x2000, flags);
        let d = Delivery { altstack: t.altstack, ..delivery(SaFlags::ONSTACK, AltStack::NONE) };
        let _ = p.delivered(&mut t, &d);
        assert_eq!(t.altstack == AltStack::NONE, gone);
        let _ = p.sigreturn(&mut t, SigSet::EMPTY, d.altstack.saved(), 0x9000);
        assert_eq!(t.altstack, d.altstack);
        // What cannot be set is left as it is: the thread is on it.
        let _ = p.sigreturn(&mut t, SigSet::EMPTY, AltStack::NONE.saved(), 0x2000);
        assert_eq!(t.altstack == AltStack::NONE, gone);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_frame_lies_where_it_may(
        rsp in 0u64..0x10_0000,
        base in 0u64..0x8_0000,
        size in 2048u64..0x1_0000,
        flags in prop::sample::select(vec![0, SS_AUTODISARM]),
        onstack in any::<bool>(),
    ) {
        let on = if onstack { SaFlags::ONSTACK } else { SaFlags(0) };
        let a = alt(base, size, flags);
        let Ok(p) = FramePlan::new(&delivery(on, a), rsp, XSAVE) else { return Ok(()) };
        prop_assert_eq!(p.frame % 16, 8);
        prop_assert_eq!(p.fpstate % 64, 0);
        prop_assert!(p.frame + layout::SIZE as u64 <= p.fpstate);
        let end = p.fpstate + XSAVE.frame_len();
        if p.enters_altstack {
            prop_assert!(onstack && p.frame > base && end <= base + size);
        } else {
            prop_assert!(end <= rsp - layout::RED_ZONE);
        }
    }

    #[test]
    fn registers_come_back_unchanged(words in prop::array::uniform17(any::<u64>()), mask in any::<u64>()) {
        let w = words;
        let regs = Registers {
            r8: w[0], r9: w[1], r10: w[2], r11: w[3], r12: w[4], r13: w[5], r14: w[6], r15: w[7],
            rdi: w[8], rsi: w[9], rbp: w[10], rbx: w[11], rdx: w[12], rax: w[13], rcx: w[14],
            rsp: 0x8_0000, rip: w[16] >> 17, eflags: 0x202, cs: 0x33, ss: 0x2B, cr2: w[15],
            ..Registers::default()
        };
        let d = Delivery { old_mask: SigSet(mask), ..delivery(SaFlags(0), alt(0x1000, 0x2000, 0)) };
        let plan = FramePlan::new(&d, regs.rsp, XSAVE).unwrap();
        let back = read(&plan.bytes(&d, &regs), 0x202).unwrap();
        prop_assert_eq!(back.registers, Registers { oldmask: mask, ..regs });
        prop_assert_eq!((back.mask, back.stack, back.fpstate), (SigSet(mask), d.altstack.saved(), plan.fpstate));
        prop_assert_eq!(address_at_sigreturn(plan.frame + 8), plan.frame);
    }

    #[test]
    fn any_bytes_are_read_without_harm(words in prop::collection::vec(any::<u64>(), layout::SIZE / 8), flags: u64) {
        let mut b = [0; layout::SIZE];
        for (chunk, w) in b.chunks_mut(8).zip(words) {
            chunk.copy_from_slice(&w.to_le_bytes());
        }
        if let Ok(back) = read(&b, flags) {
            prop_assert_eq!(back.fault(1 << 47).is_none(), back.registers.rip < 1 << 47);
            prop_assert_eq!(back.registers.eflags & !0x5_0DD5, flags & !0x5_0DD5);
        }
    }
}
