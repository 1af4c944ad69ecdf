use abi::{Errno, SaFlags, SigAction};

/// The fate of an interrupted system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Restart {
    /// The call returns this error.
    Return(Errno),
    /// The call is made again with the same arguments.
    Again,
    /// The call continues with the rest of its timeout (`restart_syscall(2)`).
    Continue,
}

/// Decides about a call that ended with `error`; `handler` is the action whose handler is
/// about to run, if any (`handle_signal`, `arch_do_signal_or_restart`).
pub const fn restart(error: Errno, handler: Option<&SigAction>) -> Restart {
    match (error, handler) {
        (Errno::ERESTARTNOINTR, _) => Restart::Again,
        (Errno::ERESTARTSYS, Some(a)) if !a.flags.has(SaFlags::RESTART) => Restart::Return(Errno::EINTR),
        (Errno::ERESTARTSYS, _) => Restart::Again,
        (Errno::ERESTARTNOHAND, None) => Restart::Again,
        (Errno::ERESTART_RESTARTBLOCK, None) => Restart::Continue,
        (Errno::ERESTARTNOHAND | Errno::ERESTART_RESTARTBLOCK, Some(_)) => Restart::Return(Errno::EINTR),
        _ => Restart::Return(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_signal_7() {
        let with = |flags| SigAction { handler: 0x1000, flags, ..SigAction::DEFAULT };
        let (plain, again) = (with(SaFlags(0)), with(SaFlags::RESTART));
        let eintr = Restart::Return(Errno::EINTR);
        for (error, none, plain_handler, restart_handler) in [
            (Errno::ERESTARTSYS, Restart::Again, eintr, Restart::Again),
            (Errno::ERESTARTNOINTR, Restart::Again, Restart::Again, Restart::Again),
            (Errno::ERESTARTNOHAND, Restart::Again, eintr, eintr),
            (Errno::ERESTART_RESTARTBLOCK, Restart::Continue, eintr, eintr),
            (
                Errno::EAGAIN,
                Restart::Return(Errno::EAGAIN),
                Restart::Return(Errno::EAGAIN),
                Restart::Return(Errno::EAGAIN),
            ),
        ] {
            assert_eq!(restart(error, None), none);
            assert_eq!(restart(error, Some(&plain)), plain_handler);
            assert_eq!(restart(error, Some(&again)), restart_handler);
        }
    }
}
