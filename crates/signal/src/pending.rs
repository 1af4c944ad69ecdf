use crate::slab::{NIL, NoMemory, Slab};
use abi::{SigInfo, SigSet, Signal};

/// The caller's name for a POSIX timer whose signal is queued. It comes back at delivery,
/// and the caller says then whether the signal still stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerKey(pub u64);

/// One queue of pending signals, a thread's or the process's (`struct sigpending`). Its
/// entries live in the process's [`Pool`].
///
/// A signal that is in `set` but has no lane is pending without information.
#[derive(Debug)]
pub struct Pending {
    set: SigSet,
    /// The first lane; lanes are in the order in which their signals became pending.
    first: u32,
}

impl Pending {
    pub(crate) const EMPTY: Pending = Pending { set: SigSet::EMPTY, first: NIL };

    /// The signals that are pending here.
    pub(crate) fn set(&self) -> SigSet {
        self.set
    }
}

/// A queued signal (`struct sigqueue`).
#[derive(Default)]
struct Entry {
    info: SigInfo,
    timer: Option<TimerKey>,
}

/// All queued entries of one signal in one queue, in order.
#[derive(Default)]
struct Lane {
    signal: i32,
    head: u32,
    tail: u32,
    len: u32,
    timers: u32,
}

/// The memory of all queues of a process, and the count that RLIMIT_SIGPENDING limits.
pub(crate) struct Pool {
    entries: Slab<Entry>,
    lanes: Slab<Lane>,
    /// Queued entries that are not timers'.
    plain: u64,
    /// Queued entries of timers, deleted ones too.
    timers_queued: u64,
    /// Timers that exist. As many entries and lanes stay free for those not queued:
    /// `free >= timers_alive - (timers alive and queued)`.
    timers_alive: u64,
}

impl Pool {
    pub const fn new() -> Pool {
        Pool { entries: Slab::new(), lanes: Slab::new(), plain: 0, timers_queued: 0, timers_alive: 0 }
    }

    /// What counts against RLIMIT_SIGPENDING: queued signals, and each timer for life. An
    /// entry whose timer was deleted counts until it is gone.
    pub fn charged(&self) -> u64 {
        self.plain + self.timers_alive.max(self.timers_queued)
    }

    /// Makes sure that one more timer can always queue its signal.
    pub fn add_timer(&mut self) -> Result<(), NoMemory> {
        self.entries.reserve(self.timers_alive as usize + 1)?;
        self.lanes.reserve(self.timers_alive as usize + 1)?;
        self.timers_alive += 1;
        Ok(())
    }

    /// A timer is gone.
    pub fn remove_timer(&mut self) {
        self.timers_alive -= 1;
    }

    /// Every timer is gone.
    pub fn remove_all_timers(&mut self) {
        self.timers_alive = 0;
    }

    /// Queues a signal with its information, at the end of its lane.
    pub fn push(
        &mut self,
        q: &mut Pending,
        signal: Signal,
        info: SigInfo,
        timer: Option<TimerKey>,
    ) -> Result<(), NoMemory> {
        if timer.is_none() {
            self.entries.reserve(self.timers_alive as usize + 1)?;
            self.lanes.reserve(self.timers_alive as usize + 1)?;
        } else {
            self.entries.reserve(1)?;
            self.lanes.reserve(1)?;
        }
        let lane = self.find(q, signal).1;
        let lane = if lane == NIL { self.append_lane(q, signal)? } else { lane };
        let at = self.entries.take(Entry { info, timer }).ok_or(NoMemory)?;
        let l = &mut self.lanes.node_mut(lane).value;
        let last = core::mem::replace(&mut l.tail, at);
        l.len += 1;
        l.timers += u32::from(timer.is_some());
        if last == NIL {
            l.head = at;
        } else {
            self.entries.node_mut(last).next = at;
        }
        match timer {
            Some(_) => self.timers_queued += 1,
            None => self.plain += 1,
        }
        q.set.insert(signal);
        Ok(())
    }

    /// Makes a signal pending without information.
    pub fn mark(&mut self, q: &mut Pending, signal: Signal) {
        q.set.insert(signal);
    }

    /// Takes the first entry of a pending signal (`collect_signal`). The signal stays
    /// pending while it has entries.
    pub fn pop(&mut self, q: &mut Pending, signal: Signal) -> (SigInfo, Option<TimerKey>) {
        let (before, lane) = self.find(q, signal);
        if lane == NIL {
            q.set.remove(signal);
            return (SigInfo::lost(signal), None);
        }
        let at = self.lanes.node(lane).value.head;
        let next = self.entries.node(at).next;
        let Entry { info, timer } = core::mem::take(&mut self.entries.node_mut(at).value);
        self.entries.give_chain(at, at, 1);
        self.uncharge(1, u32::from(timer.is_some()));
        let l = &mut self.lanes.node_mut(lane).value;
        l.head = next;
        l.len -= 1;
        l.timers -= u32::from(timer.is_some());
        if next == NIL {
            self.unlink(q, before, lane);
            q.set.remove(signal);
        }
        (info, timer)
    }

    /// Drops all entries of these signals (`flush_sigqueue_mask`).
    pub fn flush(&mut self, q: &mut Pending, signals: SigSet) {
        if !q.set.intersects(signals) {
            return;
        }
        let (mut before, mut lane) = (NIL, q.first);
        while lane != NIL {
            let next = self.lanes.node(lane).next;
            let l = &self.lanes.node(lane).value;
            if Signal::from_raw(l.signal).is_some_and(|s| signals.contains(s)) {
                let (head, tail, len, timers) = (l.head, l.tail, l.len, l.timers);
                self.entries.give_chain(head, tail, len as usize);
                self.uncharge(len, timers);
                self.unlink(q, before, lane);
            } else {
                before = lane;
            }
            lane = next;
        }
        q.set = q.set.without(signals);
    }

    /// Drops the entries of timers and keeps the others, in order (`flush_itimer_signals`).
    pub fn flush_timers(&mut self, q: &mut Pending) {
        let mut lane = q.first;
        while lane != NIL {
            let next = self.lanes.node(lane).next;
            let l = &self.lanes.node(lane).value;
            if l.timers > 0
                && let Some(signal) = Signal::from_raw(l.signal)
            {
                self.flush_timers_of(q, signal);
            }
            lane = next;
        }
    }

    fn flush_timers_of(&mut self, q: &mut Pending, signal: Signal) {
        let (before, lane) = self.find(q, signal);
        let (mut last, mut at) = (NIL, self.lanes.node(lane).value.head);
        while at != NIL {
            let next = self.entries.node(at).next;
            if self.entries.node(at).value.timer.is_some() {
                let l = &mut self.lanes.node_mut(lane).value;
                l.len -= 1;
                l.timers -= 1;
                if l.tail == at {
                    l.tail = last;
                }
                if last == NIL {
                    l.head = next;
                } else {
                    self.entries.node_mut(last).next = next;
                }
                self.entries.give_chain(at, at, 1);
                self.uncharge(1, 1);
            } else {
                last = at;
            }
            at = next;
        }
        if last == NIL {
            self.unlink(q, before, lane);
            q.set.remove(signal);
        }
    }

    /// The oldest signal that a faulting instruction raised: one of the synchronous ones
    /// whose information comes from the kernel (`dequeue_synchronous_signal`).
    ///
    /// Such an entry is always the first of its lane: had the signal been pending before,
    /// it would have been coalesced.
    pub fn first_synchronous(&self, q: &Pending) -> Option<Signal> {
        let mut lane = q.first;
        while lane != NIL {
            let node = self.lanes.node(lane);
            let info = &self.entries.node(node.value.head).value.info;
            let signal = Signal::from_raw(node.value.signal)?;
            if SigSet::SYNCHRONOUS.contains(signal) && info.code() > abi::si_code::USER {
                return Some(signal);
            }
            lane = node.next;
        }
        None
    }

    /// Calls `f` with every pending signal, lowest number first, then in order.
    pub fn for_each(&self, q: &Pending, mut f: impl FnMut(SigInfo, Option<TimerKey>)) {
        for signal in q.set.iter() {
            let lane = self.find(q, signal).1;
            if lane == NIL {
                f(SigInfo::lost(signal), None);
                continue;
            }
            let mut at = self.lanes.node(lane).value.head;
            while at != NIL {
                let node = self.entries.node(at);
                f(node.value.info, node.value.timer);
                at = node.next;
            }
        }
    }

    /// The lane of `signal` and the lane before it.
    fn find(&self, q: &Pending, signal: Signal) -> (u32, u32) {
        let (mut before, mut lane) = (NIL, q.first);
        while lane != NIL && self.lanes.node(lane).value.signal != signal.raw() {
            before = lane;
            lane = self.lanes.node(lane).next;
        }
        (before, lane)
    }

    fn append_lane(&mut self, q: &mut Pending, signal: Signal) -> Result<u32, NoMemory> {
        let lane = Lane { signal: signal.raw(), head: NIL, tail: NIL, len: 0, timers: 0 };
        let new = self.lanes.take(lane).ok_or(NoMemory)?;
        let (mut last, mut at) = (NIL, q.first);
        while at != NIL {
            last = at;
            at = self.lanes.node(at).next;
        }
        if last == NIL {
            q.first = new;
        } else {
            self.lanes.node_mut(last).next = new;
        }
        Ok(new)
    }

    fn unlink(&mut self, q: &mut Pending, before: u32, lane: u32) {
        let next = self.lanes.node(lane).next;
        if before == NIL {
            q.first = next;
        } else {
            self.lanes.node_mut(before).next = next;
        }
        self.lanes.give_chain(lane, lane, 1);
    }

    fn uncharge(&mut self, len: u32, timers: u32) {
        self.plain -= u64::from(len - timers);
        self.timers_queued -= u64::from(timers);
    }
}
