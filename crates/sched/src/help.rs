//! Help for fair threads that wait: the queues that an idle CPU visits, and the wake-ups of parked CPUs.
//!
//! *Listed queues.* On up to 64 CPUs a search visits all of them. On a large machine it visits listed ones.
//! 1. A queue on which fair threads wait is listed: whoever lets them wait lists it, under its lock (`Held::list`).
//! 2. A queue is unlisted under its lock, by a searcher that met it without waiting threads. So a thread that waits for a
//!    moment costs its CPU a load, and the list changes no more often than idle CPUs search.
//!
//! *Nudges.* A CPU with waiting threads wakes a parked CPU, and a CPU that was idle and found work wakes more: one, on a
//! large machine two, so that the helpers multiply. Each group of 64 CPUs has a word for the one of them that is on its way:
//!
//! | bits | what | writer |
//! |---|---|---|
//! | all | 0: nobody is on its way | the nudged CPU, when it has looked |
//! | 0..16 | the nudged CPU | the nudging CPU, if the word is 0 or its nudge was lost |
//! | 16..31 | the nudging CPU | the same, at once |
//! | 31 | [`OUTSTANDING`] | the same, at once |
//! | 32..64 | when, in units of 2^20 ns | the same, at once |
//!
//! 3. All writes are compare-and-exchanges of the whole word, so of several CPUs that nudge one group, one does.
//! 4. In a group at most one CPU comes in vain at a time. How many do on the whole machine grows as the machine does.

use crate::domain::Domains;
use crate::planted::Fault;
use crate::{Kick, Scheduler};
use ids::{CpuId, Nanos, ThreadIdx};
use sync::atomic::Ordering;

/// The number of queues that one search visits.
pub(crate) const MOST_QUEUES: usize = 64;
/// The shortest and the longest pause after nudges that did not help.
const PAUSE_MIN: u64 = 50_000;
const PAUSE_MAX: u64 = 1_000_000;

impl Scheduler {
    /// The place at which a search begins that cannot visit every queue: another one each time.
    pub(crate) fn search_start(&self, cpu: CpuId) -> CpuId {
        if self.domains.is_large() { self.domains.turn() } else { cpu }
    }

    /// The CPUs on which fair threads wait, as far as published words show, from `start` on: all, or those of 64 that are
    /// listed.
    pub(crate) fn crowded(&self, start: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        let (n, large) = (self.cpus.len(), self.domains.is_large());
        let every = (0..if large { 0 } else { n }).map(move |i| CpuId(((start.index() + i) % n) as u16));
        let listed = large.then(|| self.domains.waiting.members(start).take(MOST_QUEUES));
        every
            .chain(listed.into_iter().flatten())
            .filter(|&c| self.cpus[c.index()].seen.fair_waiting.get() > 0 || self.unlist(c))
    }

    /// `cpu` was met without waiting threads; true if some wait there after all.
    fn unlist(&self, cpu: CpuId) -> bool {
        if !self.domains.is_large() {
            return false;
        }
        // The holder of the lock may be about to let a thread wait.
        let Some(h) = self.at(cpu).try_lock() else { return false };
        let waits = h.rq.fair.waiting() > 0;
        if !waits {
            self.domains.waiting.remove(cpu);
        }
        waits
    }

    /// A CPU that was idle takes a fair thread from another CPU and makes it current here. If there are more, it wakes
    /// further CPUs.
    pub(crate) fn help(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) -> Option<ThreadIdx> {
        let found = self.pull_fair(cpu, now);
        if found.is_some() {
            self.call_next_helpers(cpu, now, k);
        }
        found
    }

    /// A CPU that found work wakes parked ones if there is more. So the number of helpers multiplies, while a busy CPU alone
    /// wakes one per tick. Only CPUs that were idle pay for this.
    fn call_next_helpers(&self, cpu: CpuId, now: Nanos, k: &mut impl Kick) {
        if !self.domains.parked.meets(|_| u64::MAX) {
            return;
        }
        let waiting = |c: &CpuId| self.cpus[c.index()].seen.fair_waiting.get();
        let Some(busy) = self.crowded(self.search_start(cpu)).max_by_key(waiting) else { return };
        let most = waiting(&busy).min(if self.domains.is_large() { 2 } else { 1 });
        let allowed = self.lock(busy).rq.fair.allowed(&self.table);
        self.nudge((busy, allowed), cpu, most, now, k);
    }

    /// Fair threads wait on a `busy` CPU that may run on certain ones (folded): wakes up to `most` parked CPUs to help,
    /// unless those are on their way already, and less often if this did not help lately.
    #[inline]
    pub(crate) fn nudge(&self, busy: (CpuId, u64), from: CpuId, most: u32, now: Nanos, k: &mut impl Kick) {
        if !self.table.plants(Fault::SkipNudge) && self.domains.parked.meets(|_| busy.1) {
            self.nudge_parked(busy, from, most, now, k);
        }
    }

    #[cold]
    fn nudge_parked(&self, (busy, allowed): (CpuId, u64), from: CpuId, most: u32, now: Nanos, k: &mut impl Kick) {
        let d = &self.domains;
        // A folded mask can name the wrong CPU: then start elsewhere each time.
        let start = self.search_start(busy);
        let served = |i| allowed & !d.absent.word(i);
        if d.parked.first(start, served).is_none() {
            return;
        }
        // A waker without a CPU (a signal from outside) uses the pace of the busy one.
        let from = if from.index() < self.cpus.len() { from } else { busy };
        let pace = &self.cpus[from.index()].nudges;
        if pace.useful.get() != 0 {
            pace.useful.set(0);
            pace.pause.set(0);
        } else if now.0 < pace.not_before.get() {
            return;
        }
        let mut nudged = 0;
        while nudged < most
            && let Some(target) = d.parked.first(start, |i| if d.may_nudge(i, now) { served(i) } else { 0 })
        {
            if !d.claim_nudge(now, from, target) {
                break;
            }
            nudged += 1;
            k.kick(target);
        }
        if nudged > 0 {
            // No further nudge from this CPU for a while; the pause doubles each time.
            pace.pause.set((pace.pause.get() * 2).clamp(PAUSE_MIN, PAUSE_MAX));
            pace.not_before.set(now.0.saturating_add(pace.pause.get()));
            pace.count.add(nudged.into());
        }
    }

    /// The nudged CPU has looked for work; `found` says whether there was any. If so, the CPU that nudged it may do so
    /// again at once.
    pub(crate) fn settle_nudge(&self, cpu: CpuId, found: bool) {
        let word = &self.domains.nudges[cpu.index() / 64];
        let out = word.load(Ordering::Relaxed);
        if out & OUTSTANDING == 0 || out & 0xffff != u64::from(cpu.0) {
            return;
        }
        let from = (out & !OUTSTANDING) as u32 >> 16;
        if word.compare_exchange(out, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() && found {
            self.cpus[from as usize].nudges.useful.set(1);
        }
    }
}

impl Domains {
    /// Whether none of the 64 CPUs of word `i` is on its way.
    fn may_nudge(&self, i: usize, now: Nanos) -> bool {
        let out = self.nudges[i].load(Ordering::Relaxed);
        out == 0 || is_lost(out, now)
    }

    /// Records that `from` nudges `target`; false if somebody else has just nudged one of the same group.
    fn claim_nudge(&self, now: Nanos, from: CpuId, target: CpuId) -> bool {
        let word = &self.nudges[target.index() / 64];
        let out = word.load(Ordering::Relaxed);
        let free = out == 0 || is_lost(out, now);
        let mine = nudge_word(now, from, target);
        free && word.compare_exchange(out, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Set in a group's word while one of its CPUs is on its way.
const OUTSTANDING: u64 = 1 << 31;

fn nudge_word(now: Nanos, from: CpuId, target: CpuId) -> u64 {
    (now.0 >> 20) << 32 | OUTSTANDING | u64::from(from.0) << 16 | u64::from(target.0)
}

/// Whether the nudge is so old that its kick must have been lost: more than 1 ms.
fn is_lost(word: u64, now: Nanos) -> bool {
    ((now.0 >> 20) as u32).wrapping_sub((word >> 32) as u32) >= 2
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::{Attr, Config, NoKick};
    use ids::CpuMask;
    use std::vec::Vec;

    /// CPU 100 is listed. A search that finds its queue locked leaves it so: somebody may be about to wait there.
    #[test]
    fn a_queue_is_unlisted_when_nobody_waits_there_and_nobody_has_its_lock() {
        let s = Scheduler::new(&Config { cpus: 130, ..Config::default() }).unwrap();
        let busy = CpuId(100);
        let crowded = || s.crowded(CpuId(7)).collect::<Vec<_>>();
        s.domains.waiting.insert(busy);
        let held = s.lock(busy);
        assert!(crowded().is_empty() && s.domains.waiting.contains(busy));
        drop(held);
        assert!(crowded().is_empty() && !s.domains.waiting.contains(busy));
        s.attach(ThreadIdx(0), &Attr::DEFAULT, CpuMask::only(busy)).unwrap();
        s.wake_new(ThreadIdx(0), busy, Nanos(1), &mut NoKick);
        assert!(crowded() == [busy] && s.domains.waiting.contains(busy));
        s.cpus[busy.index()].seen.fair_waiting.set(0);
        assert!(crowded() == [busy] && s.domains.waiting.contains(busy), "what is published was old");
    }

    /// Up to 64 CPUs are searched one by one.
    #[test]
    fn a_small_machine_has_no_list() {
        let s = Scheduler::new(&Config { cpus: 64, ..Config::default() }).unwrap();
        s.attach(ThreadIdx(0), &Attr::DEFAULT, CpuMask::only(CpuId(9))).unwrap();
        s.wake_new(ThreadIdx(0), CpuId(9), Nanos(1), &mut NoKick);
        assert!(!s.domains.waiting.contains(CpuId(9)));
        assert_eq!(s.crowded(CpuId(3)).collect::<Vec<_>>(), [CpuId(9)]);
        assert_eq!((s.search_start(CpuId(3)), s.search_start(CpuId(3))), (CpuId(3), CpuId(3)));
    }

    #[test]
    fn a_call_s_word_says_who_when_and_to_whom() {
        let at = |unit: u64| Nanos((unit << 20) + 7);
        assert_eq!(nudge_word(at(5), CpuId(3), CpuId(9)), 5 << 32 | 1 << 31 | 3 << 16 | 9);
        assert_eq!(nudge_word(at(0), CpuId(0), CpuId(0)), OUTSTANDING, "which is never zero");
        assert_eq!(nudge_word(at(1), CpuId(4095), CpuId(4095)), 1 << 32 | 1 << 31 | 0x0fff_0fff);
    }

    /// A unit of time is 2^20 ns: what lies two of them back is more than one unit old. They come round.
    #[test]
    fn a_call_is_lost_in_the_second_unit_of_time_after_its_own() {
        let made = |unit: u64| nudge_word(Nanos(unit << 20), CpuId(1), CpuId(2));
        for (then, now, lost) in
            [(5, 5, false), (5, 6, false), (5, 7, true), (5, 90, true), (u64::from(u32::MAX), 1 << 32, false)]
        {
            assert_eq!(is_lost(made(then), Nanos(now << 20)), lost, "{then} to {now}");
            assert_eq!(is_lost(made(then), Nanos((now << 20) + (1 << 20) - 1)), lost, "{then} to {now}");
        }
    }
}
