use crate::{ProcessSignals, ThreadSignals};
use abi::{SIG_DFL, SigSet, Signal};

/// The stop signals that a program may block: those of job control.
pub(crate) const JOB_STOPS: SigSet = SigSet::of(&[Signal::TSTP, Signal::TTIN, Signal::TTOU]);

/// The two signals that only the C library can block, which it does where it blocks everything for a moment.
const LIBRARY: u64 = 0b11 << 31;

/// The number of threads that do not block each of [`JOB_STOPS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stoppers([u32; 3]);

impl Stoppers {
    pub const fn new() -> Stoppers {
        Stoppers([0; 3])
    }

    /// A thread that let `before` through lets `now` through.
    pub fn change(&mut self, before: SigSet, now: SigSet) {
        for (count, signal) in self.0.iter_mut().zip(JOB_STOPS.iter()) {
            *count = *count + u32::from(now.contains(signal)) - u32::from(before.contains(signal));
        }
    }

    fn open(&self) -> SigSet {
        JOB_STOPS.iter().zip(self.0).filter(|(_, count)| *count != 0).map(|(signal, _)| signal).collect()
    }
}

impl ProcessSignals {
    /// The stop signals on which the host can act itself: they are neither handled nor ignored, and some thread does
    /// not block them. Temporary masks do not count: those of a handler, of a call with its own mask, and of the C
    /// library when it makes a thread or a process.
    pub fn simple_stops(&self) -> SigSet {
        self.stoppers.open().iter().filter(|&s| self.actions.get(s).handler == SIG_DFL).collect()
    }

    /// The program sets the thread's mask.
    pub(crate) fn note_stops(&mut self, thread: &mut ThreadSignals, mask: SigSet) {
        let stops = JOB_STOPS.without(mask);
        if stops == thread.stops || mask.0 & LIBRARY == LIBRARY {
            return;
        }
        if thread.slot.is_some() {
            self.stoppers.change(thread.stops, stops);
        }
        thread.stops = stops;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Dispositions, MaskHow, ProcessSignals, ThreadSignals};
    use abi::{SIG_IGN, SigAction, SigSet, Signal};
    use ids::ThreadIdx;

    #[test]
    fn a_process_simply_stops_while_a_thread_lets_it() {
        let mut p = ProcessSignals::new(Dispositions::DEFAULT);
        let mut threads = [(); 2].map(|()| ThreadSignals::new(SigSet::EMPTY));
        for (i, thread) in threads.iter_mut().enumerate() {
            p.enter(thread, ThreadIdx(i as u32)).unwrap();
        }
        assert_eq!(p.simple_stops(), super::JOB_STOPS);
        let tstp = SigSet::only(Signal::TSTP);
        let _ = p.set_mask(&mut threads[0], MaskHow::Block, tstp);
        assert!(p.simple_stops().contains(Signal::TSTP));
        let _ = p.set_mask(&mut threads[1], MaskHow::Block, tstp);
        assert!(!p.simple_stops().contains(Signal::TSTP));
        assert!(p.simple_stops().contains(Signal::TTIN));
        let _ = p.set_mask(&mut threads[1], MaskHow::Unblock, tstp);
        assert!(p.simple_stops().contains(Signal::TSTP));
        let _ = p.exit_thread(&mut threads[1]);
        assert!(!p.simple_stops().contains(Signal::TSTP), "the other blocks it");
        let _ = p.set_mask(&mut threads[0], MaskHow::Set, SigSet::EMPTY);
        let _ = p.set_mask(&mut threads[0], MaskHow::Set, SigSet::ALL);
        assert_eq!(p.simple_stops(), super::JOB_STOPS, "the C library, for a moment");
        let _ = p.set_action(Signal::TTOU, SigAction { handler: SIG_IGN, ..SigAction::DEFAULT }).unwrap();
        assert!(!p.simple_stops().contains(Signal::TTOU));
    }
}
