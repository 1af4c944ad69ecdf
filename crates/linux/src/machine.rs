//! The machine below the personality.

use crate::{Linux, State};
use ids::{Nanos, ThreadIdx};
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
    /// The words that the host gets.
    #[inline(always)]
    pub fn words(args: &mut [Arg<'_>]) -> [u64; 6] {
        core::array::from_fn(|i| args.get_mut(i).map_or(0, Arg::word))
    }

    #[inline(always)]
    fn word(&mut self) -> u64 {
        match self {
            Arg::Word(word) => *word,
            Arg::In(bytes) => bytes.as_ptr() as u64,
            Arg::Out(bytes) => bytes.as_mut_ptr() as u64,
        }
    }
}

/// The events that end a host call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// It ends by itself: it cannot wait.
    ByItself,
    /// It should not wait but might. Whatever the CPU's kernel has to look at ends it with EINTR, or with ERESTARTNOINTR
    /// if that had come before.
    ByAnything,
    /// The same, but it ends with EINTR after about this time, or earlier: the machine sets the timer of the caller's
    /// CPU, and repeats a call that a signal of ours prevents from beginning.
    Within(Nanos),
}

/// A machine that can ask a Linux. No method waits.
pub trait Host: Machine<Personality = State> {
    /// A full fence on every CPU, if the machine has one: it takes microseconds, and saves frequent readers their own
    /// fences.
    const BARRIER: Option<sync::rcu::Barrier> = None;

    /// Makes a host call.
    fn host_call(&self, nr: usize, args: &mut [Arg<'_>], ends: Ends) -> isize;
    /// Whether the process of the thread with this id is known to have ended.
    fn is_gone(&self, _tid: u32) -> bool {
        false
    }
    /// Whether the thread sleeps in the host call that it waits for. If a reader sees it asleep, what the call waits
    /// for will wake it. Used to report the thread's state.
    fn sleeps_in_host(&self, _t: ThreadIdx) -> bool {
        true
    }
}

/// Makes a call of the personality's own.
pub(crate) fn ask(m: &impl Host, nr: usize, args: &mut [Arg<'_>]) -> isize {
    m.host_call(nr, args, Ends::ByItself)
}

/// Makes a call of the program's, unchanged, that cannot wait.
#[inline(always)]
pub fn host(m: &impl Host, call: &Call) -> isize {
    m.host_call(call.nr, &mut call.args.map(Arg::Word), Ends::ByItself)
}

impl<M: Host> Linux<'_, M> {
    /// Makes a call of the personality's own.
    pub(crate) fn ask(&self, nr: usize, args: &mut [Arg<'_>]) -> isize {
        ask(&self.m, nr, args)
    }

    /// Makes a call of the program's, unchanged, that cannot wait.
    #[inline(always)]
    pub(crate) fn host(&self, call: &Call) -> isize {
        host(&self.m, call)
    }
}
