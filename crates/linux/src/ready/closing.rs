//! A descriptor is closed, or its number comes to refer to another file, while threads wait for it.
//!
//! In Linux a thread in `read(2)` or a similar call holds a reference to the file (`fdget`), and keeps waiting for that
//! file whatever happens to the number. Here such a thread switches to a duplicate, its *stand-in*, which its last user
//! closes.
//!
//! **No thread is missed.** The word [`ThreadParked::on`](kernel::parked::ThreadParked::on) says by which number a
//! thread reaches its file, from before it is seen to wait until its call is over. Most threads are found in the
//! descriptor's queue; one that an event has taken out of it, and that has not been chosen yet, is found through
//! [`Waiting`].
//!
//! **No thread makes its call on the new file.** A thread announces its try (`Descriptor::trying`) before it looks for
//! its stand-in, and the closing thread provides stand-ins before it waits for announced tries to end. Both have a full
//! barrier in between, so one of them sees the other.
//!
//! A thread that begins to wait while the number is being closed may find the old file once more and then wait without
//! ever getting an event. So the waiting threads are woken once more after the close.

use super::park::{EXCLUSIVE, PEEKS};
use super::points::Point;
use super::table::Descriptor;
use crate::planted::Fault;
use crate::{Host, Linux, facts};
use abi::nr;
use ids::{CpuId, ThreadIdx};
use kernel::Call;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Stand-ins keep away from the numbers that the program gets.
const STAND_INS_FROM: u64 = 512;

/// The value of `ThreadParked::on`: the descriptor that a call names, and the stand-in, each plus one; 0: none.
#[derive(Clone, Copy, PartialEq, Eq)]
struct On(u64);

impl On {
    fn new(fd: u32) -> On {
        On((u64::from(fd) + 1) << 32)
    }

    fn stand_in(self) -> Option<u32> {
        (self.0 as u32).checked_sub(1)
    }

    /// The number by which the thread reaches its file.
    fn number(self) -> Option<u32> {
        self.stand_in().or(((self.0 >> 32) as u32).checked_sub(1))
    }

    fn by(self, stand_in: u32) -> On {
        On(self.0 >> 32 << 32 | (u64::from(stand_in) + 1))
    }
}

/// The threads that wait for a descriptor and hold its file: how many, and the sum of their slots, which identifies a
/// single thread.
#[derive(Debug, Default)]
pub(super) struct Waiting(AtomicU64);

impl Waiting {
    /// Room for the sum of 2^20 slots.
    const ONE: u64 = 1 << 44;

    fn add(&self, t: ThreadIdx) {
        self.0.fetch_add(Self::ONE + u64::from(t.0), SeqCst);
    }

    fn remove(&self, t: ThreadIdx) {
        self.0.fetch_sub(Self::ONE + u64::from(t.0), SeqCst);
    }

    fn is_any(&self) -> bool {
        self.0.load(SeqCst) != 0
    }

    fn only(&self) -> Option<ThreadIdx> {
        let word = self.0.load(SeqCst);
        (word / Self::ONE == 1).then_some(ThreadIdx(word as u32))
    }
}

/// An announced try.
pub(super) struct Trying<'a>(&'a AtomicU32);

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Release);
    }
}

impl<M: Host> Linux<'_, M> {
    /// The thread is about to wait for a registered descriptor, and holds its file.
    pub(super) fn hold_file(&self, t: ThreadIdx, fd: u32) {
        if let Some(descriptor) = self.state().ready.get(fd) {
            descriptor.waiting.add(t);
            self.thread(t).parked.on.store(On::new(fd).0, SeqCst);
        }
    }

    /// The thread's wait is over: releases the file.
    pub(super) fn let_go_of_file(&self, t: ThreadIdx) {
        let on = On(self.thread(t).parked.on.swap(0, SeqCst));
        if let Some(descriptor) = on.number().and_then(|fd| self.state().ready.get(fd)) {
            descriptor.waiting.remove(t);
        }
        if let Some(fd) = on.stand_in() {
            self.release(fd);
        }
    }

    /// A parked thread, which is in no queue, is about to repeat its call: through its stand-in, if it has one.
    pub(super) fn announce_try(&self, t: ThreadIdx, call: &mut Call) -> Option<Trying<'_>> {
        let on = &self.thread(t).parked.on;
        loop {
            let before = On(on.load(SeqCst));
            let trying = &self.state().ready.get(before.number()?)?.trying;
            trying.fetch_add(1, SeqCst);
            let announced = Trying(trying);
            if On(on.load(SeqCst)) == before {
                if let Some(fd) = before.stand_in().filter(|_| !self.strikes(Fault::KeepDescriptor)) {
                    call.args[0] = fd.into();
                    let point = Point { fd, ..Point::of_key(self.queue_of(t, None)) };
                    self.set_queue(t, point.key());
                    self.state().ready.register(&self.m, point);
                }
                return Some(announced);
            }
        }
    }

    /// Descriptors in this range will refer to other files, or to none.
    pub(crate) fn descriptors_close(&self, cpu: CpuId, first: u32, last: u32) {
        self.state().files.forget(first, last);
        if self.state().ready.is_used() {
            self.state().ready.known(first, last).for_each(|(fd, descriptor)| {
                if descriptor.waiting.is_any() {
                    self.provide_stand_in(fd, descriptor);
                }
                for round in (0..).take_while(|_| descriptor.trying.load(SeqCst) != 0) {
                    sync::relax(round);
                }
                self.forget_descriptor(cpu, fd);
            });
        }
    }

    /// A call has returned this result; if it was to close descriptors, it has.
    pub(crate) fn note_closed(&self, call: &Call) {
        let (first, last) = match call.nr {
            nr::CLOSE => (call.args[0], call.args[0]),
            nr::CLOSE_RANGE => (call.args[0], call.args[1]),
            nr::DUP2 | nr::DUP3 => (call.args[1], call.args[1]),
            _ => return,
        };
        // Another thread may have examined the former file while it was being closed.
        self.state().files.forget(first as u32, last as u32);
        let ready = &self.state().ready;
        if ready.is_used() {
            let late = ready.known(first as u32, last as u32).filter(|(_, descriptor)| descriptor.is_noted());
            late.for_each(|(fd, _)| self.forget_descriptor(CpuId::NONE, fd));
        }
    }

    fn forget_descriptor(&self, cpu: CpuId, fd: u32) {
        self.state().ready.forget(&self.m, fd);
        for out in [false, true] {
            self.wake_from_queue(cpu, Point { fd, out }.key(), usize::MAX, u32::MAX);
        }
    }

    fn provide_stand_in(&self, fd: u32, descriptor: &Descriptor) {
        // Without a stand-in, the waiters find that their descriptor is gone.
        let Some(stand_in) = facts::duplicate_above(&self.m, fd, STAND_INS_FROM) else { return };
        self.state().ready.hold(stand_in);
        for out in [false, true] {
            self.each_waiter(Point { fd, out }.key(), EXCLUSIVE | PEEKS, |t| self.turn_to(t, fd, stand_in));
        }
        match descriptor.waiting.only() {
            Some(t) => self.turn_to(t, fd, stand_in),
            None if descriptor.waiting.is_any() => self.threads().iter().for_each(|t| self.turn_to(t, fd, stand_in)),
            None => {}
        }
        self.release(stand_in);
    }

    /// Makes `t` reach its file through `to`, if it reached it through `from`.
    fn turn_to(&self, t: ThreadIdx, from: u32, to: u32) {
        let (ready, on) = (&self.state().ready, &self.thread(t).parked.on);
        let before = On(on.load(SeqCst));
        let (true, Some(old), Some(new)) = (before.number() == Some(from), ready.get(from), ready.get(to)) else {
            return;
        };
        // First: the thread may let go of it at once.
        ready.hold(to);
        new.waiting.add(t);
        if on.compare_exchange(before.0, before.by(to).0, SeqCst, Relaxed).is_ok() {
            old.waiting.remove(t);
            if before.stand_in().is_some() {
                // The program closes a stand-in.
                ready.release(from);
            }
        } else {
            new.waiting.remove(t);
            ready.release(to);
        }
    }

    /// Removes a holder of a stand-in; the last one closes it.
    fn release(&self, fd: u32) {
        if self.state().ready.release(fd) {
            self.state().ready.forget(&self.m, fd);
            self.state().files.forget(fd, fd);
            self.host(&Call { nr: nr::CLOSE, args: [fd.into(), 0, 0, 0, 0, 0] });
        }
    }
}
