//! Sizes and offsets, compared with what libc says about the same structures.

use abi::{frame, linux};
use core::mem::{offset_of, size_of};
use entresol_abi as abi;

#[test]
fn sizes_are_libcs() {
    assert_eq!(abi::SigInfo::SIZE, size_of::<libc::siginfo_t>());
    assert_eq!(size_of::<abi::SigInfo>(), 48);
    assert_eq!(abi::StackT::SIZE, size_of::<libc::stack_t>());
    assert_eq!(size_of::<abi::StackT>(), abi::StackT::SIZE);
    assert_eq!(abi::Timespec::SIZE, size_of::<libc::timespec>());
    assert_eq!(abi::Timeval::SIZE, size_of::<libc::timeval>());
    assert_eq!(abi::Itimerspec::SIZE, size_of::<libc::itimerspec>());
    assert_eq!(abi::Itimerval::SIZE, size_of::<libc::itimerval>());
    assert_eq!(abi::SigEvent::SIZE, size_of::<libc::sigevent>());
    assert_eq!(abi::CloneArgs::SIZE, size_of::<libc::clone_args>());
    assert_eq!(size_of::<abi::CloneArgs>(), abi::CloneArgs::SIZE);
    assert_eq!(size_of::<abi::SchedAttr>(), abi::SchedAttr::SIZE);
    assert_eq!(size_of::<abi::SigAction>(), abi::SigAction::SIZE);
    assert_eq!(size_of::<abi::SigAction>(), size_of::<abi::linux::kernel_sigaction>());
    assert_eq!(size_of::<abi::futex::RobustListHead>(), size_of::<abi::linux::robust_list_head>());
    assert_eq!(size_of::<abi::futex::FutexWaitv>(), size_of::<abi::linux::futex_waitv>());
    assert_eq!(size_of::<abi::frame::Registers>(), frame::Registers::SIZE);
}

#[test]
fn the_frames_context_is_libcs() {
    type Uc = libc::ucontext_t;
    assert_eq!(frame::UC_FLAGS - frame::UCONTEXT, offset_of!(Uc, uc_flags));
    assert_eq!(frame::UC_LINK - frame::UCONTEXT, offset_of!(Uc, uc_link));
    assert_eq!(frame::UC_STACK - frame::UCONTEXT, offset_of!(Uc, uc_stack));
    assert_eq!(frame::UC_MCONTEXT - frame::UCONTEXT, offset_of!(Uc, uc_mcontext));
    assert_eq!(frame::UC_SIGMASK - frame::UCONTEXT, offset_of!(Uc, uc_sigmask));
    assert_eq!(frame::MC_FPSTATE, offset_of!(libc::mcontext_t, fpregs));
    assert_eq!(frame::MCONTEXT_SIZE, size_of::<libc::mcontext_t>());
    assert_eq!(frame::SIZE, 440);
    assert_eq!(frame::FXSAVE_SIZE, size_of::<libc::_libc_fpstate>());
}

#[test]
fn the_frames_registers_are_libcs() {
    type R = frame::Registers;
    for (mine, libcs) in [
        (offset_of!(R, r8), libc::REG_R8),
        (offset_of!(R, r15), libc::REG_R15),
        (offset_of!(R, rdi), libc::REG_RDI),
        (offset_of!(R, rsi), libc::REG_RSI),
        (offset_of!(R, rbp), libc::REG_RBP),
        (offset_of!(R, rbx), libc::REG_RBX),
        (offset_of!(R, rdx), libc::REG_RDX),
        (offset_of!(R, rax), libc::REG_RAX),
        (offset_of!(R, rcx), libc::REG_RCX),
        (offset_of!(R, rsp), libc::REG_RSP),
        (offset_of!(R, rip), libc::REG_RIP),
        (offset_of!(R, eflags), libc::REG_EFL),
        (offset_of!(R, cs), libc::REG_CSGSFS),
        (offset_of!(R, err), libc::REG_ERR),
        (offset_of!(R, trapno), libc::REG_TRAPNO),
        (offset_of!(R, oldmask), libc::REG_OLDMASK),
        (offset_of!(R, cr2), libc::REG_CR2),
    ] {
        assert_eq!(mine, libcs as usize * 8);
    }
}

/// What the bytes say where a structure has that member, which begins so far into them.
macro_rules! member {
    ($bytes:expr, $from:expr, $structure:ty, $member:ident as $number:ty) => {{
        let at = $from + offset_of!($structure, $member);
        <$number>::from_ne_bytes($bytes[at..at + size_of::<$number>()].try_into().unwrap())
    }};
}

#[test]
fn siginfo_members_are_where_the_kernel_has_them() {
    use linux::{
        __sifields__bindgen_ty_3 as Rt, __sifields__bindgen_ty_4 as Child, __sifields__bindgen_ty_5 as Fault,
        siginfo__bindgen_ty_1__bindgen_ty_1 as Info,
    };
    const FIELDS: usize = offset_of!(Info, _sifields);
    let i = abi::SigInfo::queue(abi::Signal::RTMAX, 77, 1000, 0x1122_3344_5566_7788).to_bytes();
    assert_eq!(i.len(), size_of::<linux::siginfo_t>());
    let head = |i: &[u8]| {
        let signo = member!(i, 0, libc::siginfo_t, si_signo as i32);
        (signo, member!(i, 0, libc::siginfo_t, si_errno as i32), member!(i, 0, libc::siginfo_t, si_code as i32))
    };
    assert_eq!(head(&i), (64, 0, libc::SI_QUEUE));
    assert_eq!((member!(i, FIELDS, Rt, _pid as i32), member!(i, FIELDS, Rt, _uid as u32)), (77, 1000));
    assert_eq!(member!(i, FIELDS, Rt, _sigval as u64), 0x1122_3344_5566_7788);
    let i = abi::SigInfo::child(abi::si_code::CLD_STOPPED, 5, 6, libc::SIGTSTP, 7, 8).to_bytes();
    assert_eq!((head(&i).2, member!(i, FIELDS, Child, _status as i32)), (libc::CLD_STOPPED, libc::SIGTSTP));
    assert_eq!((member!(i, FIELDS, Child, _utime as i64), member!(i, FIELDS, Child, _stime as i64)), (7, 8));
    let i = abi::SigInfo::fault(abi::Signal::SEGV, abi::si_code::SEGV_ACCERR, 0xABC).to_bytes();
    assert_eq!(member!(i, FIELDS, Fault, _addr as u64), 0xABC);
}

#[test]
fn clone_args_and_stack_members_are_where_libc_looks() {
    assert_eq!(offset_of!(abi::CloneArgs, exit_signal), offset_of!(libc::clone_args, exit_signal));
    assert_eq!(offset_of!(abi::CloneArgs, tls), offset_of!(libc::clone_args, tls));
    assert_eq!(offset_of!(abi::CloneArgs, cgroup), offset_of!(libc::clone_args, cgroup));
    let s = abi::StackT { sp: 1, flags: 2, size: 3 }.to_bytes();
    assert_eq!(s.len(), size_of::<libc::stack_t>());
    let (sp, flags) = (member!(s, 0, libc::stack_t, ss_sp as u64), member!(s, 0, libc::stack_t, ss_flags as i32));
    assert_eq!((sp, flags, member!(s, 0, libc::stack_t, ss_size as u64)), (1, 2, 3));
    let e = abi::SigEvent { value: 1, signo: 2, notify: 4, tid: 5 }.to_bytes();
    assert_eq!(e.len(), size_of::<libc::sigevent>());
    let signo = member!(e, 0, libc::sigevent, sigev_signo as i32);
    let notify = member!(e, 0, libc::sigevent, sigev_notify as i32);
    assert_eq!((signo, notify, member!(e, 0, libc::sigevent, sigev_notify_thread_id as i32)), (2, 4, 5));
}

#[test]
fn constants_are_libcs() {
    use abi::{SaFlags, Signal};
    for (mine, libcs) in [
        (SaFlags::NOCLDSTOP, libc::SA_NOCLDSTOP),
        (SaFlags::NOCLDWAIT, libc::SA_NOCLDWAIT),
        (SaFlags::SIGINFO, libc::SA_SIGINFO),
        (SaFlags::ONSTACK, libc::SA_ONSTACK),
        (SaFlags::RESTART, libc::SA_RESTART),
        (SaFlags::NODEFER, libc::SA_NODEFER),
        (SaFlags::RESETHAND, libc::SA_RESETHAND),
    ] {
        assert_eq!(mine.0, libcs as u32 as u64);
    }
    for (mine, libcs) in [(Signal::SEGV, libc::SIGSEGV), (Signal::SYS, libc::SIGSYS), (Signal::IO, libc::SIGPOLL)] {
        assert_eq!(mine.raw(), libcs);
    }
    assert_eq!(abi::Errno::EOWNERDEAD.0, libc::EOWNERDEAD);
    assert_eq!(abi::nr::FUTEX as i64, libc::SYS_futex);
}
