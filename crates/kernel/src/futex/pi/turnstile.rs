//! Turnstiles: the wait queues of PI locks.
//!
//! There are never more turnstiles in use than waiting threads, so each thread provides one: the first time a slot's
//! thread has to wait, the slot's turnstile goes into a common pool for good (as in Solaris, where threads lend
//! turnstiles to locks). So waiting for a lock cannot fail for lack of memory.
//!
//! All words are written under [`PiState`]'s lock, whose content is the argument `pi` here, except where noted.

use crate::Kernel;
use crate::futex::queue::NONE;
use crate::machine::Machine;
use core::cmp::Reverse;
use ids::{Nanos, RtPriority, ThreadIdx};
use sched::Urgency;
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*, fence};

/// The data under the one lock: everything in this file.
#[derive(Debug)]
pub struct PiState {
    /// The first free turnstile.
    free: u32,
}

impl Default for PiState {
    fn default() -> PiState {
        PiState { free: NONE }
    }
}

/// An urgency as a word: lower is more urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key(u64);

const RT: u64 = 1 << 63;

impl Key {
    /// The key of fair threads, which is the same as no urgency.
    pub const FAIR: Key = Key(u64::MAX);

    pub fn of(urgency: Urgency) -> Key {
        Key(match urgency {
            Urgency::Stop => 0,
            Urgency::Deadline(Reverse(at)) => at.0.clamp(1, RT - 1),
            Urgency::Rt(RtPriority(n)) => RT + 100 - u64::from(n),
            Urgency::Fair => u64::MAX,
        })
    }

    /// The boost for an owner from a waiter of this urgency. Fair threads give none.
    pub fn boost(self) -> Option<Urgency> {
        match self.0 {
            0 => Some(Urgency::Stop),
            u64::MAX => None,
            k if k < RT => Some(Urgency::Deadline(Reverse(Nanos(k)))),
            k => Some(Urgency::Rt(RtPriority((RT + 100 - k) as u8))),
        }
    }
}

/// A thread's PI state: the lock it waits for and those it owns.
#[derive(Debug)]
pub struct ThreadPi {
    /// The turnstile it waits at, or [`NONE`]. Also read without the lock.
    waits_at: AtomicU32,
    next: AtomicU32,
    prev: AtomicU32,
    /// The [`Key`] of its place there.
    key: AtomicU64,
    /// The first turnstile it owns. Also read without the lock.
    owns: AtomicU32,
    /// The [`Key`] of the boost it has from others.
    boost: AtomicU64,
    /// The thread exits and can no longer become an owner. Written by the thread.
    exiting: AtomicBool,
    /// The slot's turnstile is in the pool or in use.
    lent: AtomicBool,
    turnstile: Turnstile,
}

/// The waiters of one lock.
#[derive(Debug, Default)]
struct Turnstile {
    owner: AtomicU32,
    /// The most urgent waiter.
    head: AtomicU32,
    tail: AtomicU32,
    addr: AtomicU64,
    /// The owner's next and previous turnstile, or the next free one.
    next: AtomicU32,
    prev: AtomicU32,
}

impl Default for ThreadPi {
    fn default() -> ThreadPi {
        let none = || AtomicU32::new(NONE);
        ThreadPi {
            waits_at: none(),
            next: none(),
            prev: none(),
            key: AtomicU64::new(0),
            owns: none(),
            boost: AtomicU64::new(Key::FAIR.0),
            exiting: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            turnstile: Turnstile::default(),
        }
    }
}

impl ThreadPi {
    /// Resets the state for a new thread in the slot.
    pub(crate) fn reset(&self) {
        self.exiting.store(false, Release);
    }

    /// Whether it owns a lock that somebody waits for.
    pub(crate) fn holds_others_up(&self) -> bool {
        self.owns.load(SeqCst) != NONE
    }

    /// From now on the thread cannot become an owner. Returns whether it owns a lock already.
    pub(super) fn begin_exit(&self) -> bool {
        self.exiting.store(true, SeqCst);
        fence(SeqCst);
        self.owns.load(SeqCst) != NONE
    }

    /// Whether it waits at a turnstile, if nobody is changing that.
    pub(super) fn waits(&self) -> bool {
        self.waits_at.load(SeqCst) != NONE
    }
}

/// A turnstile, by the slot it was in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TurnstileId(u32);

fn some(t: u32) -> Option<ThreadIdx> {
    (t != NONE).then_some(ThreadIdx(t))
}

impl<M: Machine> Kernel<M> {
    fn turnstile(&self, ts: TurnstileId) -> &Turnstile {
        &self.thread(ThreadIdx(ts.0)).pi.turnstile
    }

    fn pi(&self, t: u32) -> &ThreadPi {
        &self.thread(ThreadIdx(t)).pi
    }

    /// The lock's owner. Changes under the lock of its word's bucket only.
    pub(super) fn owner_of(&self, ts: TurnstileId) -> ThreadIdx {
        ThreadIdx(self.turnstile(ts).owner.load(Relaxed))
    }

    /// The turnstile a thread waits at. Under the lock of its word's bucket, or of all.
    pub(super) fn turnstile_of(&self, waiter: ThreadIdx) -> Option<TurnstileId> {
        some(self.thread(waiter).pi.waits_at.load(Relaxed)).map(|t| TurnstileId(t.0))
    }

    /// The most urgent waiter.
    pub(super) fn top_waiter(&self, _pi: &PiState, ts: TurnstileId) -> ThreadIdx {
        ThreadIdx(self.turnstile(ts).head.load(Relaxed))
    }

    /// A turnstile that `owner` owns, with its word's address.
    pub(super) fn first_owned(&self, _pi: &PiState, owner: ThreadIdx) -> Option<(TurnstileId, u64)> {
        let ts = TurnstileId(some(self.thread(owner).pi.owns.load(Relaxed))?.0);
        Some((ts, self.turnstile(ts).addr.load(Relaxed)))
    }

    /// A thread that is about to wait lends its turnstile; only the first time has an effect.
    pub(super) fn lend_turnstile(&self, pi: &mut PiState, t: ThreadIdx) {
        if !self.thread(t).pi.lent.swap(true, Relaxed) {
            self.free_turnstile(pi, TurnstileId(t.0));
        }
    }

    fn free_turnstile(&self, pi: &mut PiState, ts: TurnstileId) {
        self.turnstile(ts).owner.store(NONE, Relaxed);
        self.turnstile(ts).next.store(pi.free, Relaxed);
        pi.free = ts.0;
    }

    /// A turnstile without waiters for a lock that `owner`, with the id `tid`, owns; `None` if that thread is exiting
    /// or gone.
    ///
    /// The owner does not hold our lock when it exits, so each side first announces what it does and then checks what
    /// the other has announced.
    pub(super) fn new_turnstile(&self, pi: &mut PiState, addr: u64, owner: ThreadIdx, tid: i32) -> Option<TurnstileId> {
        let ts = TurnstileId(pi.free);
        let turnstile = self.turnstile(ts);
        pi.free = turnstile.next.load(Relaxed);
        turnstile.addr.store(addr, Relaxed);
        turnstile.head.store(NONE, Relaxed);
        turnstile.tail.store(NONE, Relaxed);
        self.give_turnstile(pi, ts, owner);
        fence(SeqCst);
        let thread = self.thread(owner);
        if thread.pi.exiting.load(SeqCst) || thread.tid.load(SeqCst) != tid {
            self.disown(pi, ts);
            self.free_turnstile(pi, ts);
            return None;
        }
        Some(ts)
    }

    fn give_turnstile(&self, _pi: &mut PiState, ts: TurnstileId, owner: ThreadIdx) {
        let (turnstile, new) = (self.turnstile(ts), &self.thread(owner).pi);
        let first = new.owns.load(Relaxed);
        turnstile.owner.store(owner.0, Relaxed);
        turnstile.prev.store(NONE, Relaxed);
        turnstile.next.store(first, Relaxed);
        if first != NONE {
            self.turnstile(TurnstileId(first)).prev.store(ts.0, Relaxed);
        }
        new.owns.store(ts.0, SeqCst);
    }

    fn disown(&self, _pi: &mut PiState, ts: TurnstileId) {
        let turnstile = self.turnstile(ts);
        let (prev, next) = (turnstile.prev.load(Relaxed), turnstile.next.load(Relaxed));
        match prev {
            NONE => self.pi(turnstile.owner.load(Relaxed)).owns.store(next, Relaxed),
            p => self.turnstile(TurnstileId(p)).next.store(next, Relaxed),
        }
        if next != NONE {
            self.turnstile(TurnstileId(next)).prev.store(prev, Relaxed);
        }
    }

    /// Makes `to` the owner.
    pub(super) fn pass_turnstile(&self, pi: &mut PiState, ts: TurnstileId, to: ThreadIdx) {
        self.disown(pi, ts);
        self.give_turnstile(pi, ts, to);
    }

    /// A thread begins to wait. It takes its place only after it is seen to wait, so that a concurrent change of its
    /// urgency is seen either here or by whoever changes it.
    pub(super) fn join(&self, pi: &mut PiState, ts: TurnstileId, t: ThreadIdx) {
        self.thread(t).pi.waits_at.store(ts.0, SeqCst);
        fence(SeqCst);
        self.take_place(pi, ts, t, Key::of(self.sched.urgency(t)));
    }

    /// Takes the place behind all that are at least as urgent.
    pub(super) fn take_place(&self, _pi: &mut PiState, ts: TurnstileId, t: ThreadIdx, key: Key) {
        let (turnstile, me) = (self.turnstile(ts), &self.thread(t).pi);
        me.key.store(key.0, Relaxed);
        let mut after = turnstile.tail.load(Relaxed);
        while after != NONE && self.pi(after).key.load(Relaxed) > key.0 {
            after = self.pi(after).prev.load(Relaxed);
        }
        let before =
            if after == NONE { turnstile.head.swap(t.0, Relaxed) } else { self.pi(after).next.swap(t.0, Relaxed) };
        me.prev.store(after, Relaxed);
        me.next.store(before, Relaxed);
        match before {
            NONE => turnstile.tail.store(t.0, Relaxed),
            b => self.pi(b).prev.store(t.0, Relaxed),
        }
    }

    /// Leaves the place, but keeps waiting.
    pub(super) fn leave_place(&self, _pi: &mut PiState, ts: TurnstileId, t: ThreadIdx) {
        let (turnstile, me) = (self.turnstile(ts), &self.thread(t).pi);
        let (prev, next) = (me.prev.load(Relaxed), me.next.load(Relaxed));
        match prev {
            NONE => turnstile.head.store(next, Relaxed),
            p => self.pi(p).next.store(next, Relaxed),
        }
        match next {
            NONE => turnstile.tail.store(prev, Relaxed),
            n => self.pi(n).prev.store(prev, Relaxed),
        }
    }

    /// A thread no longer waits; returns whether others still do. If not, frees the turnstile, and its owner no longer
    /// owns it.
    pub(super) fn leave(&self, pi: &mut PiState, ts: TurnstileId, t: ThreadIdx) -> bool {
        self.leave_place(pi, ts, t);
        self.thread(t).pi.waits_at.store(NONE, Relaxed);
        let others = self.turnstile(ts).head.load(Relaxed) != NONE;
        if !others {
            self.disown(pi, ts);
            self.free_turnstile(pi, ts);
        }
        others
    }

    /// The urgency that decides a waiter's place.
    pub(super) fn place_key(&self, _pi: &PiState, t: ThreadIdx) -> Key {
        Key(self.thread(t).pi.key.load(Relaxed))
    }

    /// Records the boost of `owner` from the waiters of all its locks; returns it if it has changed.
    pub(super) fn update_boost(&self, _pi: &mut PiState, owner: ThreadIdx) -> Option<Key> {
        let me = &self.thread(owner).pi;
        let mut best = Key::FAIR;
        let mut at = me.owns.load(Relaxed);
        while at != NONE {
            let turnstile = self.turnstile(TurnstileId(at));
            let top = turnstile.head.load(Relaxed);
            if top != NONE {
                best = best.min(Key(self.pi(top).key.load(Relaxed)));
            }
            at = turnstile.next.load(Relaxed);
        }
        (me.boost.swap(best.0, Relaxed) != best.0).then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_order_and_meaning() {
        let rising = [
            Urgency::Fair,
            Urgency::Rt(RtPriority(1)),
            Urgency::Rt(RtPriority(99)),
            Urgency::Deadline(Reverse(Nanos(1 << 40))),
            Urgency::Deadline(Reverse(Nanos(5))),
            Urgency::Stop,
        ];
        assert!(rising.is_sorted());
        assert!(rising.windows(2).all(|w| Key::of(w[0]) > Key::of(w[1])));
        for u in &rising[1..] {
            assert_eq!(Key::of(*u).boost(), Some(*u));
        }
        assert_eq!(Key::of(Urgency::Fair).boost(), None);
    }
}
