//! What the man pages and `kernel/signal.c` say, rule by rule: legal use beside illegal.

mod deliver;
mod frames;
mod life;
mod receive;
mod send;
mod timers;
mod waits;

use abi::{SaFlags, SigAction, SigInfo, SigSet, Signal};
use entresol_signal::*;
use ids::ThreadIdx;

/// A process with threads 0, 1, ….
struct World {
    process: ProcessSignals,
    threads: Vec<ThreadSignals>,
}

/// A signal by number.
fn sig(n: i32) -> Signal {
    Signal::from_raw(n).unwrap()
}

/// An action with a handler and these flags.
fn handler(flags: SaFlags) -> SigAction {
    SigAction { handler: 0x40_0000, flags: flags | SaFlags::RESTORER, restorer: 0x50_0000, mask: SigSet::EMPTY }
}

fn idle(t: usize) -> ThreadState {
    ThreadState { thread: ThreadIdx(t as u32), running: false, exiting: false, stopped: false, notified: false }
}

impl World {
    fn new(threads: usize) -> World {
        let mut process = ProcessSignals::new(Dispositions::DEFAULT);
        let enter = |t| {
            let mut signals = ThreadSignals::new(SigSet::EMPTY);
            process.enter(&mut signals, ThreadIdx(t as u32)).unwrap();
            signals
        };
        let threads = (0..threads).map(enter).collect();
        World { process, threads }
    }

    /// Every signal that can have a handler has one.
    fn with_handlers(threads: usize) -> World {
        let mut w = World::new(threads);
        for s in Signal::all().filter(|&s| !SigSet::UNBLOCKABLE.contains(s)) {
            let _ = w.process.set_action(s, handler(SaFlags(0))).unwrap();
        }
        w
    }

    fn candidate(&self, t: usize) -> Candidate {
        self.threads[t].candidate(idle(t))
    }

    fn send_to(&mut self, t: usize, info: SigInfo) -> Result<Sent, abi::Errno> {
        let c = self.candidate(t);
        self.process.send(Target::Thread(&mut self.threads[t], c), info, Quota::UNLIMITED)
    }

    fn send_all(&mut self, info: SigInfo) -> Result<Sent, abi::Errno> {
        let c = self.candidate(0);
        self.process.send(Target::Process(c), info, Quota::UNLIMITED)
    }

    fn block(&mut self, t: usize, set: SigSet) -> Retarget {
        self.process.set_mask(&mut self.threads[t], MaskHow::Block, set).1
    }

    fn unblock(&mut self, t: usize, set: SigSet) {
        let retarget = self.process.set_mask(&mut self.threads[t], MaskHow::Unblock, set).1;
        assert!(retarget.is_done(), "unblocking never leaves a signal without a taker");
    }

    fn act(&mut self, t: usize) -> Action {
        self.process.next_action(&mut self.threads[t], &mut NoTimers)
    }

    /// The handler that runs next, its frame written.
    fn handle(&mut self, t: usize) -> Delivery {
        match self.act(t) {
            Action::Handler(d) => {
                let _ = self.process.delivered(&mut self.threads[t], &d);
                d
            }
            other => panic!("no handler but {other:?}"),
        }
    }

    fn set(&mut self, s: Signal, a: SigAction) -> ActionChange {
        self.process.set_action(s, a).unwrap()
    }
}
