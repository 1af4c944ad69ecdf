//! A seccomp filter: every call from outside the image's fixed addresses is a signal.
//!
//! The host judges a call by the address behind its instruction, of which the image has none outside its range. The
//! filter holds for all threads, children and programs, for good. It allows nothing that the host would forbid, and
//! confines nobody. The host asks for `no_new_privs` all the same, unless the caller has CAP_SYS_ADMIN, because a filter
//! could mislead a program that gains rights; under this one such a program would end at its first call.

use super::Catch;
use crate::base::dispositions::{HostInfo, SIGILL};
use crate::base::os::nr;
use abi::args::PR_SET_NO_NEW_PRIVS;
use abi::{Errno, si_code};
use arch::context::reg;
use arch::frame::HostFrame;
use arch::syscall;
use patch::FIXED_RANGE;

/// The filter's own value, which comes with each signal: other filters may send signals, too.
const COOKIE: u32 = 0x454e;

/// `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Step {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    k: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    len: u16,
    steps: *const Step,
}

const fn step(code: u16, jump_true: u8, jump_false: u8, k: u32) -> Step {
    Step { code, jump_true, jump_false, k }
}

const FILTER: [Step; 7] = {
    // BPF_LD | BPF_W | BPF_ABS, BPF_ALU | BPF_SUB | BPF_K, BPF_JMP | BPF_JEQ | BPF_K, BPF_JMP | BPF_JGT | BPF_K, BPF_RET | BPF_K.
    const LOAD: u16 = 0x20;
    const SUBTRACT: u16 = 0x14;
    const IF_EQUAL: u16 = 0x15;
    const IF_GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    // Offsets of the two halves of `seccomp_data.instruction_pointer`.
    const LOW: u32 = 8;
    const HIGH: u32 = 12;
    const SECCOMP_RET_TRAP: u32 = 0x0003_0000;
    const SECCOMP_RET_ALLOW: u32 = 0x7fff_0000;
    [
        step(LOAD, 0, 0, HIGH),
        step(IF_EQUAL, 0, 3, (FIXED_RANGE.start >> 32) as u32),
        step(LOAD, 0, 0, LOW),
        step(SUBTRACT, 0, 0, FIXED_RANGE.start as u32),
        step(IF_GREATER, 0, 1, (FIXED_RANGE.end - FIXED_RANGE.start) as u32),
        step(RETURN, 0, 0, SECCOMP_RET_TRAP | COOKIE),
        step(RETURN, 0, 0, SECCOMP_RET_ALLOW),
    ]
};

const _: () = assert!(FIXED_RANGE.start >> 32 == (FIXED_RANGE.end - 1) >> 32, "the filter compares one upper half");

pub(super) struct Seccomp;

impl Catch for Seccomp {
    fn begin(&self) -> Result<(), isize> {
        const SECCOMP_SET_MODE_FILTER: u64 = 1;
        // Without it, hosts before Linux 5.16 slow the process down against attacks on speculative stores.
        const SECCOMP_FILTER_FLAG_SPEC_ALLOW: u64 = 4;
        let program = Program { len: FILTER.len() as u16, steps: FILTER.as_ptr() };
        let set = || {
            let flags = SECCOMP_FILTER_FLAG_SPEC_ALLOW;
            // SAFETY: the host copies the filter. The image's own calls pass it, and nothing of the program runs yet.
            unsafe { syscall!(nr::SECCOMP, SECCOMP_SET_MODE_FILTER, flags, &raw const program) }
        };
        let mut answer = set();
        if answer == Errno::EACCES.to_ret() {
            // SAFETY: changes nothing in memory.
            unsafe { syscall!(nr::PRCTL, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            answer = set();
        }
        if answer < 0 { Err(answer) } else { Ok(()) }
    }

    /// Host threads and children inherit it.
    fn begin_thread(&self) {}

    fn has_caught(&self, info: &HostInfo) -> bool {
        info.code == si_code::SYS_SECCOMP && info.errno == COOKIE as i32
    }

    /// Since Linux 6.14 `uretprobe(2)` passes every filter: the host itself makes programs call it. From anywhere else it
    /// is SIGILL.
    fn has_let_through(&self, info: &HostInfo, frame: &mut HostFrame) -> bool {
        // As the instruction and the call leave the registers.
        let is_call = frame.reg(reg::RCX) == frame.rip() && frame.reg(reg::RAX) == u64::MAX;
        let is_it = (info.signal, info.code) == (SIGILL, si_code::KERNEL) && is_call;
        if is_it {
            frame.set_reg(reg::RAX, nr::URETPROBE as u64);
        }
        is_it
    }

    fn outlives_exec(&self) -> bool {
        true
    }
}
