//! Syscall User Dispatch: every call from outside a range is a signal. Each host thread sets its own range, a child has
//! none at first, and an exec ends it.

use super::Catch;
use crate::base::dispositions::{self, HostInfo};
use crate::base::{os, report};
use abi::args::PR_SET_SYSCALL_USER_DISPATCH;
use abi::si_code;
use arch::syscall;

pub(super) struct Dispatch;

impl Catch for Dispatch {
    fn begin(&self) -> Result<(), isize> {
        Ok(())
    }

    fn begin_thread(&self) {
        const PR_SYS_DISPATCH_ON: u64 = 1;
        let text = dispositions::text();
        let (start, len) = (text.start, text.end - text.start);
        // SAFETY: from here on system calls outside the image arrive at our handler.
        let r = unsafe { syscall!(os::nr::PRCTL, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, len, 0) };
        if r < 0 {
            report::fatal(format_args!("the host refused system call dispatch (error {})", -r));
        }
    }

    fn has_caught(&self, info: &HostInfo) -> bool {
        info.code == si_code::SYS_USER_DISPATCH
    }

    fn outlives_exec(&self) -> bool {
        false
    }
}
