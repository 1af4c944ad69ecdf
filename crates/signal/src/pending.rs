use crate::slab::{NIL, Slab};
use abi::{SigInfo, SigSet, Signal};
use sync::OutOfMemory;

/// The caller's name for a POSIX timer whose signal is queued. It comes back at delivery,
/// and the caller says then whether the signal still stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerKey(pub u64);

/// One queue of pending signals, a thread's or the process's (`struct sigpending`). Its
/// entries live in the process's [`Pool`].
///
/// ```text
/// first ─► [10 head] ─lane─► [34 head] ─lane─► ∎      lanes: one a signal, in the order in
///              ∎                 │ next                which the signals became pending
///                            [34] ─► [34 tail]         entries: in the order of sending
/// ```
/// A signal that is in `set` but has no lane is pending without information.
#[derive(Debug)]
pub struct Pending {
    set: SigSet,
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
    /// Means something in the first entry of a lane only.
    lane: Lane,
}

/// A lane's state, kept in its first entry.
#[derive(Clone, Copy)]
struct Lane {
    tail: u32,
    len: u32,
    timers: u32,
    /// The head of the next lane.
    next: u32,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane { tail: NIL, len: 0, timers: 0, next: NIL }
    }
}

/// The memory of all queues of a process, and the count that RLIMIT_SIGPENDING limits.
pub(crate) struct Pool {
    entries: Slab<Entry>,
    /// Queued entries that are not timers'.
    plain: u64,
    /// Queued entries of timers, those that are gone too.
    timers_queued: u64,
    /// Timers that exist.
    timers_alive: u64,
    /// The most entries of queued timers that may belong to deleted timers.
    timers_stale: u64,
    /// Entries of flushed lanes with timers, which still have to be reported to their owners.
    dropped: u32,
}

/// Room and accounts.
impl Pool {
    pub const fn new() -> Pool {
        Pool { entries: Slab::new(), plain: 0, timers_queued: 0, timers_alive: 0, timers_stale: 0, dropped: NIL }
    }

    /// The count against RLIMIT_SIGPENDING: queued signals, and each timer for life. An entry whose timer is gone
    /// counts until it is gone, too.
    pub fn charged(&self) -> u64 {
        self.plain + self.timers_alive + self.timers_stale
    }

    /// Entries that must stay free so that each timer can queue its signal.
    fn kept_for_timers(&self) -> usize {
        (self.timers_alive + self.timers_stale).saturating_sub(self.timers_queued) as usize
    }

    /// Makes the first entries, which the first timers keep.
    pub fn prepare_timers(&mut self) -> Result<(), OutOfMemory> {
        self.entries.reserve(1)
    }

    /// Reserves room for the signals of this many more timers.
    pub fn add_timers(&mut self, count: u32) -> Result<(), OutOfMemory> {
        self.entries.reserve(self.kept_for_timers() + count as usize)?;
        self.timers_alive += u64::from(count);
        Ok(())
    }

    /// Timers are gone; the signal of the one that it is then may still be queued.
    pub fn remove_timers(&mut self, count: u32, queued: bool) {
        self.timers_alive -= u64::from(count);
        self.timers_stale = (self.timers_stale + u64::from(queued)).min(self.timers_queued);
    }

    /// Every timer is gone; their signals are about to be dropped ([`Pool::flush_timers`]).
    pub fn remove_all_timers(&mut self) {
        self.timers_alive = 0;
    }

    fn charge(&mut self, timer: bool) {
        if timer {
            self.timers_queued += 1;
        } else {
            self.plain += 1;
        }
    }

    fn uncharge(&mut self, len: u32, timers: u32) {
        self.plain -= u64::from(len - timers);
        self.timers_queued -= u64::from(timers);
        self.timers_stale = self.timers_stale.min(self.timers_queued);
    }
}

/// Queues.
impl Pool {
    /// Queues a signal with its information at the end of its lane. A timer's entry was reserved for it.
    pub fn push(&mut self, q: &mut Pending, info: SigInfo, timer: Option<TimerKey>) -> Result<(), OutOfMemory> {
        let signal = info.signal().ok_or(OutOfMemory)?;
        let kept = if timer.is_some() { 0 } else { self.kept_for_timers() };
        self.entries.reserve(kept + 1)?;
        let (last_lane, head) = self.find(q, signal);
        let at = self.entries.take(Entry { info, timer, lane: Lane::default() }).ok_or(OutOfMemory)?;
        let head = if head == NIL {
            self.link_lane(q, last_lane, at);
            at
        } else {
            let tail = self.lane(head).tail;
            self.entries.node_mut(tail).next = at;
            head
        };
        let lane = self.lane_mut(head);
        lane.tail = at;
        lane.len += 1;
        lane.timers += u32::from(timer.is_some());
        self.charge(timer.is_some());
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
        let (before, at) = self.find(q, signal);
        if at == NIL {
            q.set.remove(signal);
            return (SigInfo::lost(signal), None);
        }
        let second = self.entries.node(at).next;
        let Entry { info, timer, lane } = core::mem::take(&mut self.entries.node_mut(at).value);
        let timers = u32::from(timer.is_some());
        if second == NIL {
            self.link_lane(q, before, lane.next);
            q.set.remove(signal);
        } else {
            *self.lane_mut(second) = Lane { len: lane.len - 1, timers: lane.timers - timers, ..lane };
            self.link_lane(q, before, second);
        }
        self.entries.give_chain(at, at, 1);
        self.uncharge(1, timers);
        (info, timer)
    }

    /// Drops all entries of these signals (`flush_sigqueue_mask`). Timers among them must be reported:
    /// [`Pool::next_dropped`].
    pub fn flush(&mut self, q: &mut Pending, signals: SigSet) {
        if !q.set.intersects(signals) {
            return;
        }
        let (mut before, mut head) = (NIL, q.first);
        while head != NIL {
            let lane = *self.lane(head);
            if signals.contains(self.signal_of(head)) {
                self.link_lane(q, before, lane.next);
                self.uncharge(lane.len, lane.timers);
                if lane.timers == 0 {
                    self.entries.give_chain(head, lane.tail, lane.len as usize);
                } else {
                    self.entries.node_mut(lane.tail).next = self.dropped;
                    self.dropped = head;
                }
            } else {
                before = head;
            }
            head = lane.next;
        }
        q.set = q.set.without(signals);
    }

    /// The next timer whose entry was flushed.
    pub fn next_dropped(&mut self) -> Option<TimerKey> {
        while self.dropped != NIL {
            let at = self.dropped;
            self.dropped = self.entries.node(at).next;
            let timer = core::mem::take(&mut self.entries.node_mut(at).value).timer;
            self.entries.give_chain(at, at, 1);
            if timer.is_some() {
                return timer;
            }
        }
        None
    }

    /// Drops the entries of timers and keeps the others, in order (`flush_itimer_signals`).
    pub fn flush_timers(&mut self, q: &mut Pending) {
        for signal in q.set.iter() {
            let head = self.find(q, signal).1;
            if head == NIL {
                continue;
            }
            let Lane { len, timers, .. } = *self.lane(head);
            if timers == 0 {
                continue;
            }
            // Once round the lane: every entry is taken, and put back if it stays.
            for _ in 0..len {
                let (info, timer) = self.pop(q, signal);
                if timer.is_none() {
                    // The entry just given back is there to be taken.
                    let _ = self.push(q, info, None);
                }
            }
        }
    }

    /// The oldest signal that a faulting instruction raised: one of the synchronous ones
    /// whose information comes from the kernel, not blocked (`dequeue_synchronous_signal`,
    /// which looks at the mask for all of them together only).
    ///
    /// Such an entry is always the first of its lane: had the signal been pending before,
    /// it would have been coalesced.
    pub fn first_synchronous(&self, q: &Pending, blocked: SigSet) -> Option<Signal> {
        let mut head = q.first;
        while head != NIL {
            let entry = &self.entries.node(head).value;
            if SigSet::SYNCHRONOUS.without(blocked).contains(self.signal_of(head))
                && entry.info.code() > abi::si_code::USER
            {
                return Some(self.signal_of(head));
            }
            head = entry.lane.next;
        }
        None
    }

    /// Calls `f` with every pending signal, lowest number first, then in order.
    pub fn for_each(&self, q: &Pending, mut f: impl FnMut(SigInfo, Option<TimerKey>)) {
        for signal in q.set.iter() {
            let mut at = self.find(q, signal).1;
            if at == NIL {
                f(SigInfo::lost(signal), None);
            }
            while at != NIL {
                let node = self.entries.node(at);
                f(node.value.info, node.value.timer);
                at = node.next;
            }
        }
    }
}

/// Lanes.
impl Pool {
    fn lane(&self, head: u32) -> &Lane {
        &self.entries.node(head).value.lane
    }

    fn lane_mut(&mut self, head: u32) -> &mut Lane {
        &mut self.entries.node_mut(head).value.lane
    }

    fn signal_of(&self, head: u32) -> Signal {
        // Only signals are pushed.
        self.entries.node(head).value.info.signal().unwrap_or(Signal::KILL)
    }

    /// The lane of `signal`, or `NIL`, and the lane before it (or the last).
    fn find(&self, q: &Pending, signal: Signal) -> (u32, u32) {
        let (mut before, mut head) = (NIL, q.first);
        while head != NIL && self.signal_of(head) != signal {
            before = head;
            head = self.lane(head).next;
        }
        (before, head)
    }

    /// Makes `head` the lane behind `before`.
    fn link_lane(&mut self, q: &mut Pending, before: u32, head: u32) {
        if before == NIL {
            q.first = head;
        } else {
            self.lane_mut(before).next = head;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIGNALS: [Signal; 2] = [Signal::ALRM, Signal::RTMIN];

    #[test]
    fn flushed_timers_are_told_once_and_their_entries_come_back() {
        let (mut pool, mut q) = (Pool::new(), Pending::EMPTY);
        for i in 0..3 {
            pool.add_timers(1).unwrap();
            pool.push(&mut q, SigInfo::timer(Signal::RTMIN, i, 0, 0), Some(TimerKey(i as u64))).unwrap();
            pool.push(&mut q, SigInfo::user(Signal::RTMIN, 1, 0), None).unwrap();
            pool.push(&mut q, SigInfo::user(Signal::USR1, 1, 0), None).unwrap();
        }
        let free = pool.entries.free_len();
        pool.flush(&mut q, SigSet::ALL);
        let mut told: alloc::vec::Vec<_> = core::iter::from_fn(|| pool.next_dropped()).collect();
        told.sort_by_key(|key| key.0);
        assert_eq!(told, [TimerKey(0), TimerKey(1), TimerKey(2)]);
        assert_eq!((pool.entries.free_len(), pool.charged()), (free + 9, 3));
        assert_eq!(pool.next_dropped(), None);
    }

    /// Timers of a test: alive, and whether its signal is queued.
    #[derive(Default)]
    struct Timers(alloc::vec::Vec<(bool, bool)>);

    impl Timers {
        fn waiting(&self) -> usize {
            self.0.iter().filter(|t| **t == (true, false)).count()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever else is queued, each timer that is not queued finds an entry without
        /// an allocation; and what is kept is not more than twice what was needed, and a first chunk.
        #[test]
        fn room_is_kept_for_timers(steps in prop::collection::vec((0u8..8, any::<bool>()), 1..600)) {
            let (mut pool, mut q, mut timers) = (Pool::new(), Pending::EMPTY, Timers::default());
            let mut most = 0;
            for (op, which) in steps {
                let signal = SIGNALS[usize::from(which)];
                match op {
                    0 | 1 => {
                        pool.add_timers(1).unwrap();
                        timers.0.push((true, false));
                    }
                    2 => {
                        if let Some(i) = timers.0.iter().position(|t| *t == (true, false)) {
                            pool.push(&mut q, SigInfo::timer(signal, 0, 0, 0), Some(TimerKey(i as u64))).unwrap();
                            timers.0[i].1 = true;
                        }
                    }
                    3 => {
                        if let Some(t) = timers.0.iter_mut().find(|t| t.0) {
                            t.0 = false;
                            pool.remove_timers(1, t.1);
                        }
                    }
                    4 | 5 if q.set().contains(signal) => {
                        if let (_, Some(TimerKey(i))) = pool.pop(&mut q, signal) {
                            timers.0[i as usize].1 = false;
                        }
                    }
                    _ => pool.push(&mut q, SigInfo::user(signal, 1, 0), None).unwrap(),
                }
                prop_assert!(pool.entries.free_len() >= timers.waiting());
                let queued = pool.plain as usize + pool.timers_queued as usize;
                most = most.max(queued + pool.kept_for_timers());
                prop_assert!(pool.entries.free_len() + queued <= 2 * most + 64);
            }
        }
    }
}
