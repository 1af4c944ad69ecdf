//! Sizes and offsets, compared with what libc says about the same structures.

use abi::frame;
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

/// Reads the bytes as libc's structure would lie in memory.
fn as_libc<T: Copy>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>());
    // SAFETY: `bytes` is as long as `T`, and every `T` used here is plain integers, for
    // which all bit patterns are valid.
    unsafe { core::ptr::read_unaligned(bytes.as_ptr().cast()) }
}

#[test]
fn siginfo_members_are_where_libc_looks() {
    let i: libc::siginfo_t =
        as_libc(&abi::SigInfo::queue(abi::Signal::RTMAX, 77, 1000, 0x1122_3344_5566_7788).to_bytes());
    assert_eq!((i.si_signo, i.si_errno, i.si_code), (64, 0, libc::SI_QUEUE));
    // SAFETY: the bytes were made as SI_QUEUE, so these members are set.
    unsafe {
        assert_eq!((i.si_pid(), i.si_uid(), i.si_value().sival_ptr as u64), (77, 1000, 0x1122_3344_5566_7788));
    }
    let i: libc::siginfo_t =
        as_libc(&abi::SigInfo::child(abi::si_code::CLD_STOPPED, 5, 6, libc::SIGTSTP, 7, 8).to_bytes());
    // SAFETY: the bytes were made as SIGCHLD's, so these members are set.
    unsafe {
        assert_eq!((i.si_code, i.si_status(), i.si_utime(), i.si_stime()), (libc::CLD_STOPPED, libc::SIGTSTP, 7, 8));
    }
    let i: libc::siginfo_t =
        as_libc(&abi::SigInfo::fault(abi::Signal::SEGV, abi::si_code::SEGV_ACCERR, 0xABC).to_bytes());
    // SAFETY: the bytes were made as a fault's, so the address is set.
    assert_eq!(unsafe { i.si_addr() } as u64, 0xABC);
}

#[test]
fn signalfd_members_are_where_libc_looks() {
    let read = |info: abi::SigInfo| as_libc::<libc::signalfd_siginfo>(&info.to_signalfd());
    let i = read(abi::SigInfo::queue(abi::Signal::RTMIN, 3, 4, 5 << 32 | 6));
    assert_eq!((i.ssi_signo, i.ssi_code, i.ssi_pid, i.ssi_uid, i.ssi_int), (32, -1, 3, 4, 6));
    assert_eq!(i.ssi_ptr, 5 << 32 | 6);
    let i = read(abi::SigInfo::timer(abi::Signal::ALRM, 8, 9, 10));
    assert_eq!((i.ssi_tid, i.ssi_overrun, i.ssi_ptr), (8, 9, 10));
    let i = read(abi::SigInfo::child(1, 3, 4, 5, 6, 7));
    assert_eq!((i.ssi_pid, i.ssi_status, i.ssi_utime, i.ssi_stime), (3, 5, 6, 7));
    let i = read(abi::SigInfo::poll(abi::Signal::IO, 1, 0x41, 12));
    assert_eq!((i.ssi_band, i.ssi_fd), (0x41, 12));
    let i = read(abi::SigInfo::sys(1, 2, 0x99, 202, 0xC000_003E));
    assert_eq!((i.ssi_errno, i.ssi_call_addr, i.ssi_syscall, i.ssi_arch), (2, 0x99, 202, 0xC000_003E));
    let i = read(abi::SigInfo::fault(abi::Signal::BUS, abi::si_code::BUS_MCEERR_AO, 0x1000));
    assert_eq!((i.ssi_addr, i.ssi_addr_lsb), (0x1000, 0));
}

#[test]
fn clone_args_and_stack_members_are_where_libc_looks() {
    assert_eq!(offset_of!(abi::CloneArgs, exit_signal), offset_of!(libc::clone_args, exit_signal));
    assert_eq!(offset_of!(abi::CloneArgs, tls), offset_of!(libc::clone_args, tls));
    assert_eq!(offset_of!(abi::CloneArgs, cgroup), offset_of!(libc::clone_args, cgroup));
    let s: libc::stack_t = as_libc(&abi::StackT { sp: 1, flags: 2, size: 3 }.to_bytes());
    assert_eq!((s.ss_sp as u64, s.ss_flags, s.ss_size), (1, 2, 3));
    let e: libc::sigevent = as_libc(&abi::SigEvent { value: 1, signo: 2, notify: 4, tid: 5 }.to_bytes());
    assert_eq!((e.sigev_signo, e.sigev_notify, e.sigev_notify_thread_id), (2, 4, 5));
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
