//! Checks the fair queue against its definitions: V is the weighted mean, a thread with positive lag is eligible,
//! joining preserves lag, and of the eligible threads the one with the earliest deadline runs.

use super::*;
use crate::attr::Attr;
use crate::weight::NICE_0;
use alloc::vec::Vec;
use ids::{CpuMask, Nanos, Nice};
use proptest::prelude::*;

const THREADS: u32 = 7;
const HERE: CpuId = CpuId(0);
const THERE: CpuId = CpuId(1);

/// Threads of these nice values and slices (microseconds), that were on CPU 0. They usually run for different times.
fn table(attrs: &[(i8, u64)]) -> Table {
    let table = Table::new(2).unwrap();
    for (i, &(nice, slice)) in attrs.iter().enumerate() {
        let t = ThreadIdx(i as u32);
        table.reserve(t).unwrap();
        table.set_mask(t, &CpuMask::first(2));
        let attr = Attr { nice: Nice(nice), slice: Nanos(slice * 1_000), ..Attr::DEFAULT };
        table.get(t).set_attr(&attr, 700_000, Nanos(1));
        table.get(t).usual_run.set([0, 5_000, 700_000, 1 << 30][i % 4]);
        table.get(t).set_home(HERE, false);
    }
    table
}

fn attrs() -> impl Strategy<Value = Vec<(i8, u64)>> {
    prop::collection::vec((prop::sample::select(&[-20i8, -5, 0, 0, 0, 3, 19][..]), 100u64..9_000), THREADS as usize)
}

/// A queue, who competes in it, the running one first if there is one, and who waits, in the order of arrival.
struct Model {
    table: Table,
    queue: FairQueue,
    members: Vec<u32>,
    waiting: Vec<u32>,
    running: Option<u32>,
}

impl Model {
    fn new(attrs: &[(i8, u64)]) -> Model {
        let (members, waiting) = (Vec::new(), Vec::new());
        Model { table: table(attrs), queue: FairQueue::new(), members, waiting, running: None }
    }

    fn at(&self, n: u32) -> &Entity {
        self.table.get(ThreadIdx(n))
    }

    fn weight(&self, n: u32) -> i128 {
        i128::from(self.at(n).weight.get())
    }

    /// Σ vruntime · weight and Σ weight.
    fn sums(&self) -> (i128, i128) {
        let part = |&n: &u32| i128::from(self.at(n).vruntime.get()) * self.weight(n);
        (self.members.iter().map(part).sum(), self.members.iter().map(|&n| self.weight(n)).sum())
    }

    /// V.
    fn mean(&self) -> i64 {
        let (sum, load) = self.sums();
        sum.div_euclid(load) as i64
    }

    fn is_eligible(&self, vruntime: i64) -> bool {
        let (sum, load) = self.sums();
        i128::from(vruntime) * load <= sum
    }

    fn wait(&mut self, n: u32) {
        self.queue.insert(&self.table, ThreadIdx(n), self.table.get(ThreadIdx(n)));
        self.waiting.push(n);
    }

    /// The thread that should run, by definition.
    fn best(&self) -> Option<u32> {
        let by_key = |want: &dyn Fn(i64) -> bool| {
            let (eligible, key) = (|n: &u32| want(self.at(*n).vruntime.get()), |n: &u32| self.at(*n).key.get());
            self.waiting.iter().copied().filter(eligible).min_by_key(key)
        };
        let running = self.running.map(|n| self.at(n)).filter(|e| self.is_eligible(e.vruntime.get()));
        let first = by_key(&|v| self.is_eligible(v));
        match running {
            Some(e) if e.vruntime.get() < self.queue.protected_until => None,
            Some(e) => first.filter(|&n| self.at(n).key.get() <= e.key.get()),
            None => first.or_else(|| by_key(&|_| true)),
        }
    }

    /// The invariants of the queue.
    fn check(&self) -> Result<(), TestCaseError> {
        let q = &self.queue;
        prop_assert_eq!(q.waiting() as usize, self.waiting.len());
        prop_assert!(q.audit_tree(&self.table));
        let (sum, load) = self.sums();
        prop_assert_eq!((i128::from(q.load()), i128::from(q.sum)), (load, sum - i128::from(q.base) * load));
        let shares: Vec<_> = self.members.iter().map(|&n| q.audit_share(self.at(n))).collect();
        let shares = shares.iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        prop_assert_eq!(q.audit_sums(), shares);
        if load > 0 {
            prop_assert_eq!(q.mean(), self.mean());
            let near = [-1, 0, 1].map(|d| self.mean() + d);
            for v in near.into_iter().chain(self.members.iter().map(|&n| self.at(n).vruntime.get())) {
                prop_assert_eq!(q.eligible(v), self.is_eligible(v));
            }
        }
        let chosen = q.choose(&self.table, self.running.map(|n| self.at(n)));
        prop_assert_eq!(chosen.map(|t| t.0), self.best());
        Ok(())
    }

    /// `n`, which was on CPU 0, comes to `cpu` and waits: it is owed afterwards what it was owed before. Only a debt is not kept
    /// by sleeping: it is paid by what V has gone on meanwhile.
    fn come(&mut self, n: u32, how: Placement, cpu: CpuId) -> Result<(), TestCaseError> {
        let e = self.table.get(ThreadIdx(n));
        let slice = e.virtual_slice();
        let (lag, old_v, old_key) = (e.lag.get().clamp(-2 * slice, 2 * slice), e.vruntime.get(), e.key.get());
        let before = if self.members.is_empty() { self.queue.base } else { self.mean() };
        let shortest = self.queue.shortest_slice.min(e.slice.get());
        self.queue.join(e, cpu, how);
        self.members.push(n);
        let (e, mean) = (self.at(n), self.mean());
        let v = e.vruntime.get();
        prop_assert_eq!(self.queue.shortest_slice, shortest);
        if self.members.len() == 1 {
            prop_assert_eq!(v, before, "alone");
        } else if lag < 0 && how == Placement::Wake && cpu == HERE {
            let others = self.sums().1 - self.weight(n);
            let owed = lag + (i128::from(lag) * self.weight(n) / others) as i64;
            prop_assert_eq!(v, old_v.max(before).min(before - owed));
        } else {
            prop_assert!((mean - v - lag).abs() <= 2, "owed {} instead of {lag}", mean - v);
        }
        let until = match how {
            Placement::Initial => slice / 2,
            Placement::Wake => slice,
            Placement::Moved => old_key.clamp(0, slice),
        };
        prop_assert_eq!(e.key.get(), v + until);
        self.wait(n);
        Ok(())
    }

    /// `n` leaves: its lag is kept, two slices of it at most. If it waits, it keeps no more credit than its share of two
    /// slices, or than it can use.
    fn go(&mut self, n: u32, relative: bool) -> Result<(), TestCaseError> {
        let (mean, base) = (self.mean(), self.queue.base);
        if let Some(i) = self.waiting.iter().position(|&w| w == n) {
            self.waiting.remove(i);
            self.queue.remove(&self.table, ThreadIdx(n));
        }
        let e = self.table.get(ThreadIdx(n));
        let (v, key, most) = (e.vruntime.get(), e.key.get(), 2 * e.virtual_slice());
        let share = i128::from(most) * i128::from(e.weight.get()) / i128::from(self.queue.load());
        self.queue.leave(e, relative);
        self.members.retain(|&m| m != n);
        self.running = self.running.filter(|&r| r != n);
        let usable = to_virtual(u64::from(e.usual_run.get()), e.inverse.get());
        let credit = if relative { most } else { most.min(usable.max(share as i64)) };
        prop_assert_eq!(e.lag.get(), (mean - v).max(-most).min(credit));
        prop_assert_eq!(e.key.get(), if relative { key - v } else { key });
        if self.members.is_empty() {
            prop_assert_eq!(
                (self.queue.base, self.queue.sum, self.queue.shortest_slice),
                (mean.max(base), 0, u32::MAX)
            );
        }
        Ok(())
    }

    /// The first by right runs, and who ran waits.
    fn switch(&mut self) -> Result<(), TestCaseError> {
        let Some(next) = self.best() else { return Ok(()) };
        let last = self.running.replace(next);
        self.waiting.retain(|&w| w != next);
        match last {
            Some(last) => {
                self.queue.renew_if_used_up(self.at(last));
                self.waiting.push(last);
                let e = self.table.get(ThreadIdx(last));
                self.queue.exchange(&self.table, ThreadIdx(next), (ThreadIdx(last), e));
            }
            None => self.queue.remove(&self.table, ThreadIdx(next)),
        }
        let (table, shortest) = (&self.table, self.queue.shortest_slice);
        let e = table.get(ThreadIdx(next));
        let (v, key) = (e.vruntime.get(), e.key.get());
        self.queue.begin(e);
        prop_assert_eq!(e.key.get(), if v >= key { v + e.virtual_slice() } else { key });
        let short = to_virtual(u64::from(shortest), e.inverse.get());
        let until = if shortest < e.slice.get() { e.key.get().min(v + short) } else { e.key.get() };
        prop_assert_eq!(self.queue.protected_until, until);
        Ok(())
    }

    /// The running thread uses this many nanoseconds.
    fn run(&mut self, delta: u64) -> Result<(), TestCaseError> {
        let Some(n) = self.running else { return Ok(()) };
        let e = self.table.get(ThreadIdx(n));
        let before = e.vruntime.get();
        self.queue.charge(e, delta);
        let (used, exact) = (e.vruntime.get() - before, i128::from(delta) * i128::from(NICE_0) / self.weight(n));
        prop_assert!((i128::from(used) - exact).abs() <= 1 + exact / 1_000_000, "{used} instead of {exact}");
        // The base follows: the sums stay small.
        let v = e.vruntime.get();
        prop_assert!(v - self.queue.base <= REBASE_AFTER || self.queue.base == self.mean());
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Come(u32, u8, bool),
    Go(u32, bool),
    Switch,
    Run(u64),
    GiveWay,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..THREADS, 0u8..3, any::<bool>()).prop_map(|(n, how, there)| Step::Come(n, how, there)),
        2 => (0..THREADS, any::<bool>()).prop_map(|(n, relative)| Step::Go(n, relative)),
        3 => Just(Step::Switch),
        3 => prop_oneof![0u64..20, 1_000u64..3_000_000, 3_000_000u64..90_000_000].prop_map(Step::Run),
        1 => Just(Step::GiveWay),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Any life of a queue.
    #[test]
    fn does_what_its_words_mean(attrs in attrs(), steps in steps()) {
        let mut m = Model::new(&attrs);
        for step in steps {
            match step {
                Step::Come(n, how, there) if !m.members.contains(&n) => {
                    let how = [Placement::Initial, Placement::Wake, Placement::Moved][usize::from(how)];
                    m.come(n, how, if there { THERE } else { HERE })?;
                }
                Step::Go(n, relative) if m.members.contains(&n) => m.go(n, relative)?,
                Step::Come(..) | Step::Go(..) => {}
                Step::Switch => m.switch()?,
                Step::Run(delta) => m.run(delta)?,
                Step::GiveWay => {
                    let Some(n) = m.running else { continue };
                    let (may, key) = (m.is_eligible(m.at(n).vruntime.get()), m.at(n).key.get());
                    let before = m.at(n).vruntime.get();
                    m.queue.give_way(m.table.get(ThreadIdx(n)));
                    let e = m.at(n);
                    let expected = if may { (key, key + e.virtual_slice()) } else { (before, key) };
                    prop_assert_eq!((e.vruntime.get(), e.key.get()), expected);
                    prop_assert_eq!(m.queue.protected_until, i64::MIN);
                }
            }
            m.check()?;
        }
    }

    /// A yield in one step is a charge and a yield.
    #[test]
    fn charges_and_gives_way_in_one(attrs in attrs(), steps in steps(), delta in 0u64..30_000_000) {
        let [mut one, mut two] = [Model::new(&attrs), Model::new(&attrs)];
        for m in [&mut one, &mut two] {
            for step in &steps {
                match *step {
                    Step::Come(n, ..) if !m.members.contains(&n) => m.come(n, Placement::Wake, HERE)?,
                    Step::Go(n, relative) if m.members.contains(&n) => m.go(n, relative)?,
                    Step::Switch => m.switch()?,
                    Step::Run(delta) => m.run(delta)?,
                    _ => {}
                }
            }
        }
        if let Some(n) = one.running {
            let t = ThreadIdx(n);
            one.queue.charge_and_give_way(one.table.get(t), delta);
            two.queue.charge(two.table.get(t), delta);
            two.queue.give_way(two.table.get(t));
            for m in [&one, &two] {
                m.check()?;
            }
            let seen = |m: &Model| (m.at(n).vruntime.get(), m.at(n).key.get(), m.mean(), m.queue.protected_until);
            prop_assert_eq!(seen(&one), seen(&two));
            let v = one.at(n).vruntime.get();
            prop_assert!(v - one.queue.base <= REBASE_AFTER || one.queue.base == one.mean());
        }
    }

    /// A shorter slice and an earlier deadline end the protection of a thread, if they are of one that is owed time.
    #[test]
    fn a_shorter_slice_may_end_the_protection(attrs in attrs(), steps in steps(), woken in 0..THREADS) {
        let mut m = Model::new(&attrs);
        for step in steps {
            match step {
                Step::Come(n, ..) if !m.members.contains(&n) => m.come(n, Placement::Wake, HERE)?,
                Step::Switch => m.switch()?,
                Step::Run(delta) => m.run(delta / 9)?,
                _ => {}
            }
        }
        if let Some(n) = m.running && m.waiting.contains(&woken) {
            let (e, c, until) = (m.table.get(ThreadIdx(woken)), m.table.get(ThreadIdx(n)), m.queue.protected_until);
            let earlier = e.slice.get() < c.slice.get() && e.key.get() < c.key.get();
            let ends = earlier && m.is_eligible(e.vruntime.get());
            m.queue.end_protection_for(e, c);
            prop_assert_eq!(m.queue.protected_until, if ends { i64::MIN } else { until });
            let v = c.vruntime.get();
            prop_assert_eq!(m.queue.is_protected(c), v < m.queue.protected_until);
            prop_assert_eq!(m.queue.protection_left(c), m.queue.protected_until.saturating_sub(v).max(0));
            let left = m.queue.protection_left(c);
            prop_assert!(!m.queue.is_protected_for(c, left) && (left == 0 || m.queue.is_protected_for(c, left - 1)));
            m.queue.unprotect();
            prop_assert!(!m.queue.is_protected(c));
        }
    }
}

/// A slice may end slightly early or late; the difference is added to the next slice.
#[test]
fn the_end_of_a_slice_may_be_off_by_a_step() {
    let (table, queue) = (table(&[(0, 3_000)]), FairQueue::new());
    let e = table.get(ThreadIdx(0));
    for (v, about, expected) in [
        (0, 0, 1_000),
        (999, 0, 1_000),
        (1_000, 0, 3_001_000),
        (1_001, 0, 3_001_001),
        (990, 9, 1_000),
        (991, 9, 3_001_000),
        (1_009, 9, 3_001_000),
        (1_010, 9, 3_001_010),
    ] {
        e.vruntime.set(v);
        e.key.set(1_000);
        queue.renew_if_used_up_in(e, about);
        assert_eq!(e.key.get(), expected, "{v} about {about}");
    }
}
