//! The machine below the personality.

use crate::State;
use abi::SigSet;
use ids::ThreadIdx;
use kernel::{Call, Machine};

/// An argument of a host call that the personality makes for itself.
#[derive(Debug)]
pub enum Arg<'a> {
    /// A number, or an address of the program's.
    Word(u64),
    /// The host reads this.
    In(&'a [u8]),
    /// The host writes this.
    Out(&'a mut [u8]),
}

impl Arg<'_> {
    /// The word that the host gets.
    #[inline(always)]
    pub fn word(&mut self) -> u64 {
        match self {
            Arg::Word(word) => *word,
            Arg::In(bytes) => bytes.as_ptr() as u64,
            Arg::Out(bytes) => bytes.as_mut_ptr() as u64,
        }
    }
}

/// A machine that can ask a Linux. No method waits.
pub trait Host: Machine<Personality = State> {
    /// A full fence on every CPU, where the machine has one: it takes microseconds, and saves frequent readers
    /// theirs.
    const BARRIER: Option<sync::rcu::Barrier> = None;

    /// A host call of the program's that cannot wait.
    fn host(&self, call: Call) -> isize;
    /// One that should not wait but may: the machine sets the timer of the caller's CPU, and the call ends with EINTR after
    /// about a millisecond, or earlier. One that a signal of ours finds before it has begun is begun again.
    fn host_briefly(&self, call: Call) -> isize {
        self.host(call)
    }
    /// One of the personality's own.
    fn ask(&self, nr: usize, args: &mut [Arg<'_>]) -> isize;
    /// Whether the process of the thread with this id is known to be gone.
    fn is_gone(&self, _tid: u32) -> bool {
        false
    }
    /// Whether the process has one host thread: what that gets for itself, the whole process has.
    fn is_alone(&self) -> bool {
        false
    }
    /// The only host thread has got other rights by a call that no other host thread could make after it: those that it has from
    /// now on are the process's.
    fn rights_have_changed(&self) {}
    /// Whether a CPU sleeps in the poller ([`State::poller`]).
    fn is_polled(&self) -> bool {
        true
    }
    /// The host keeps what arrives of these signals, for descriptors of `signalfd(2)` to read. All
    /// others are the kernel's.
    fn leave_signals(&self, _set: SigSet) {}
    /// Whether the thread sleeps in the host call that it waits for. A reader that sees it asleep may rely on a wake-up by what
    /// the call waits for. Used to report the thread's state.
    fn sleeps_in_host(&self, _t: ThreadIdx) -> bool {
        true
    }
}
