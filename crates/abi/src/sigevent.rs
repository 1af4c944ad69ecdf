use crate::bytes::layout;
use crate::{Errno, Signal};
use ids::Tid;

/// How a timer or a message queue tells (`sigev_notify`), taken apart and checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notify {
    /// SIGEV_SIGNAL or SIGEV_THREAD (which libc builds on signals): to the process.
    Process(Signal),
    /// SIGEV_SIGNAL | SIGEV_THREAD_ID: to this thread.
    Thread(Signal, Tid),
    /// SIGEV_NONE.
    None,
}

/// `struct sigevent`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SigEvent {
    /// `sigev_value`.
    pub value: u64,
    /// `sigev_signo`.
    pub signo: i32,
    /// `sigev_notify`.
    pub notify: i32,
    /// `sigev_notify_thread_id`, the first word of the union.
    pub tid: i32,
}

layout!(SigEvent: 64 { 0 value, 8 signo, 12 notify, 16 tid });

impl SigEvent {
    /// `SIGEV_SIGNAL`.
    pub const SIGNAL: i32 = 0;
    /// `SIGEV_NONE`.
    pub const NONE: i32 = 1;
    /// `SIGEV_THREAD`.
    pub const THREAD: i32 = 2;
    /// `SIGEV_THREAD_ID`.
    pub const THREAD_ID: i32 = 4;

    /// The requested notification; EINVAL for an unknown kind or a bad signal (`good_sigevent`). The caller checks
    /// that the thread is its own. SIGEV_NONE takes any signal.
    pub fn check(&self) -> Result<Notify, Errno> {
        let signal = || Signal::from_raw(self.signo).ok_or(Errno::EINVAL);
        match self.notify {
            SigEvent::NONE => Ok(Notify::None),
            SigEvent::SIGNAL | SigEvent::THREAD => Ok(Notify::Process(signal()?)),
            SigEvent::THREAD_ID => Ok(Notify::Thread(signal()?, Tid(self.tid))),
            _ => Err(Errno::EINVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_checked() {
        let ev = |notify, signo| SigEvent { notify, signo, tid: 7, value: 0 }.check();
        assert_eq!(ev(0, 9), Ok(Notify::Process(Signal::KILL)));
        assert_eq!(ev(1, -4), Ok(Notify::None));
        assert_eq!(ev(4, 34), Ok(Notify::Thread(Signal::from_raw(34).unwrap(), Tid(7))));
        for (notify, signo) in [(0, 0), (0, 65), (2, -1), (4, 0), (3, 1), (5, 1), (6, 1), (-1, 1)] {
            assert_eq!(ev(notify, signo), Err(Errno::EINVAL), "{notify} {signo}");
        }
    }
}
