//! Requests to a carrier: to make way, to make a host call, to make a tracer's request.

use core::sync::atomic::AtomicPtr;
use ids::{CpuId, ThreadIdx, Tid};
use kernel::Call;
use sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::*};

/// Requests to it because there are few carriers (`scarce`).
#[derive(Debug, Default)]
pub(crate) struct Asked(pub AtomicU32);

/// A host call handed to a spare. Written by the carrier that takes the spare off the list, before it wakes the spare.
#[derive(Debug, Default)]
pub(crate) struct Delegated {
    thread: AtomicU32,
    /// The CPU that the thread left.
    cpu: AtomicU32,
    words: [AtomicU64; 7],
}

impl Delegated {
    pub fn put(&self, t: ThreadIdx, cpu: CpuId, call: &Call) {
        self.thread.store(t.0, Relaxed);
        self.cpu.store(u32::from(cpu.0), Relaxed);
        self.words[0].store(call.nr as u64, Relaxed);
        for (word, arg) in self.words[1..].iter().zip(call.args) {
            word.store(arg, Relaxed);
        }
    }

    pub fn get(&self) -> (ThreadIdx, CpuId, Call) {
        let [nr, args @ ..] = self.words.each_ref().map(|word| word.load(Relaxed));
        let cpu = CpuId(self.cpu.load(Relaxed) as u16);
        (ThreadIdx(self.thread.load(Relaxed)), cpu, Call { nr: nr as usize, args })
    }
}

/// In [`Tracing::parent`]: more than one thread.
const SEVERAL: i32 = -1;

/// A carrier's tracing state.
#[derive(Debug, Default)]
pub(crate) struct Tracing {
    /// The thread whose tracees this host thread may trace, because it made children or requests here; 0: none.
    pub parent: AtomicI32,
    /// A request for the carrier to make.
    pub errand: AtomicPtr<Errand>,
    /// The carrier's identity has no threads, and the carrier is not among the spares. Under the lock of the
    /// identities.
    pub kept: AtomicBool,
}

impl Tracing {
    /// Notes that thread `tid` has made a child, or traces a process, on this carrier. Called by the carrier.
    pub fn is_parent(&self, Tid(tid): Tid) {
        let several = ![0, tid].contains(&self.parent.load(Relaxed));
        self.parent.store(if several { SEVERAL } else { tid }, Release);
    }

    pub fn may_be_parent(&self, Tid(tid): Tid) -> bool {
        [tid, SEVERAL].contains(&self.parent.load(Acquire))
    }

    /// Stops keeping the carrier, which then decides again whether it is needed. False if it was not kept.
    pub fn let_go(&self) -> bool {
        self.kept.load(SeqCst) && self.kept.swap(false, SeqCst)
    }

    /// Clears all of it, because the host thread ends.
    pub fn forget(&self) {
        self.parent.store(0, Release);
    }
}

/// A request for another carrier to make. It lies on the requester's kernel stack.
#[derive(Debug)]
pub(crate) struct Errand {
    pub call: Call,
    pub result: AtomicI64,
    pub done: AtomicBool,
}
