//! Random futex operations against naive models: lists that are searched from end to end.

use crate::common::{Rng, World, err, word};
use abi::Errno;
use abi::futex::*;
use ids::{RtPriority, ThreadIdx};
use sched::Urgency;

const PRIVATE: u32 = FUTEX_PRIVATE_FLAG;
const SEEDS: u64 = 60;
const STEPS: usize = 250;

#[derive(Clone, Debug)]
struct Waiter {
    who: usize,
    word: u64,
    bits: u32,
    deadline: Option<u64>,
    rank: u32,
    arrival: u64,
}

/// What should happen: the waiters, and for each thread the result that it should get.
struct Plain {
    w: World,
    t: Vec<ThreadIdx>,
    priorities: Vec<u32>,
    waiters: Vec<Waiter>,
    arrivals: u64,
    results: Vec<Option<isize>>,
}

impl Plain {
    fn new(rng: &mut Rng) -> Plain {
        let (mut w, t) = World::with_threads(10);
        let priorities: Vec<u32> = t.iter().map(|_| [0, 0, 5, 9][rng.below(4) as usize]).collect();
        for (i, p) in priorities.iter().enumerate() {
            w.set_priority(t[0], t[i], *p);
        }
        w.handle(t[0], 10, 0);
        let n = t.len();
        Plain { w, t, priorities, waiters: Vec::new(), arrivals: 0, results: vec![None; n] }
    }

    fn order(&self, word: u64) -> Vec<usize> {
        let mut of: Vec<usize> = (0..self.waiters.len()).filter(|&i| self.waiters[i].word == word).collect();
        of.sort_by_key(|&i| (self.waiters[i].rank, self.waiters[i].arrival));
        of
    }

    fn end(&mut self, who: usize, result: isize) {
        self.waiters.retain(|w| w.who != who);
        self.results[who] = Some(result);
    }

    fn wake(&mut self, word: u64, count: usize, bits: u32) -> usize {
        let chosen: Vec<usize> = self
            .order(word)
            .into_iter()
            .map(|i| (self.waiters[i].who, self.waiters[i].bits))
            .filter(|(_, b)| b & bits != 0)
            .map(|(who, _)| who)
            .take(count)
            .collect();
        chosen.iter().for_each(|&who| self.end(who, 0));
        chosen.len()
    }

    fn step(&mut self, rng: &mut Rng) {
        let free: Vec<usize> = (0..self.t.len()).filter(|i| !self.waiters.iter().any(|w| w.who == *i)).collect();
        // One thread never waits, so that somebody can always act.
        let me = free[rng.below(free.len() as u64) as usize];
        let (a, b) = (word(rng.below(3)), word(rng.below(3)));
        let bits = [u32::MAX, 1, 2, 3][rng.below(4) as usize];
        let t = self.t[me];
        let count = rng.below(4) as usize;
        let got = match rng.below(9) {
            0..=2 if me != 0 => return self.step_wait(rng, me, a, bits),
            3 => {
                let expected = self.wake(a, count.max(1), bits) as isize;
                let got = self.w.futex(t, FUTEX_WAKE_BITSET | PRIVATE, [a, count as u64, 0, 0, u64::from(bits)]);
                (got, expected)
            }
            4 => {
                let moved = rng.below(4) as usize;
                let woken = self.wake(a, count, u32::MAX);
                let mut n = woken;
                if woken == count {
                    for i in self.order(a).into_iter().take(moved) {
                        self.waiters[i].word = b;
                        self.waiters[i].arrival = self.arrivals;
                        self.arrivals += 1;
                        n += 1;
                    }
                }
                let got = self.w.futex(t, FUTEX_CMP_REQUEUE | PRIVATE, [a, count as u64, moved as u64, b, 0]);
                (got, n as isize)
            }
            5 => {
                // Adds nothing; the old value, 0, is compared with 0 or 1.
                let cmp = rng.below(2);
                let mut n = self.wake(a, count.max(1), u32::MAX);
                if cmp == 0 {
                    n += self.wake(b, 1, u32::MAX);
                }
                let got = self.w.futex(t, FUTEX_WAKE_OP | PRIVATE, [a, count as u64, 1, b, 1 << 28 | cmp]);
                (got, n as isize)
            }
            6 => {
                let end = self.w.now() + rng.below(300);
                for who in (0..self.t.len())
                    .filter(|&i| self.waiters.iter().any(|w| w.who == i && w.deadline.is_some_and(|d| d <= end)))
                    .collect::<Vec<_>>()
                {
                    self.end(who, Errno::ETIMEDOUT.to_ret());
                }
                self.w.advance(end - self.w.now());
                return;
            }
            7 if !self.waiters.is_empty() => {
                let who = self.waiters[rng.below(self.waiters.len() as u64) as usize].who;
                self.end(who, Errno::EINTR.to_ret());
                self.w.signal(t, self.t[who], 10);
                return;
            }
            _ => return,
        };
        assert_eq!(got.0, Some(got.1));
    }

    fn step_wait(&mut self, rng: &mut Rng, me: usize, a: u64, bits: u32) {
        let expected = u64::from(rng.below(5) == 0);
        let deadline = (rng.below(3) == 0).then(|| self.w.now() + 1 + rng.below(500));
        let at = deadline.map_or(0, |d| self.w.timespec(d));
        let op = FUTEX_WAIT_BITSET | PRIVATE;
        let got = self.w.futex(self.t[me], op, [a, expected, at, 0, u64::from(bits)]);
        if expected != 0 {
            assert_eq!(got, err(Errno::EAGAIN));
            return;
        }
        assert_eq!(got, None);
        let priority = self.priorities[me];
        let rank = if priority > 0 { 100 - priority } else { 100 };
        self.waiters.push(Waiter { who: me, word: a, bits, deadline, rank, arrival: self.arrivals });
        self.arrivals += 1;
        self.results[me] = None;
    }

    fn check(&self, step: usize) {
        for i in 0..self.t.len() {
            let waits = self.waiters.iter().any(|w| w.who == i);
            assert_eq!(self.w.is_waiting(self.t[i]), waits, "step {step}, thread {i}");
        }
    }
}

#[test]
fn plain_operations_follow_the_model() {
    for seed in 1..=SEEDS {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut p = Plain::new(&mut rng);
        for step in 0..STEPS {
            // What a thread has got is asked for right after it got it.
            let before: Vec<usize> = p.t.iter().map(|t| p.w.results(*t).len()).collect();
            let waited: Vec<bool> = (0..p.t.len()).map(|i| p.waiters.iter().any(|w| w.who == i)).collect();
            p.step(&mut rng);
            p.check(step);
            for i in (0..p.t.len()).filter(|&i| waited[i] && p.results[i].is_some()) {
                if !p.waiters.iter().any(|w| w.who == i) {
                    assert_eq!(
                        p.w.results(p.t[i])[before[i]],
                        p.results[i].unwrap(),
                        "seed {seed} step {step} thread {i}"
                    );
                }
            }
        }
    }
}

const LOCKS: u64 = 5;

struct Inheritance {
    w: World,
    t: Vec<ThreadIdx>,
    priorities: Vec<u32>,
    owner: Vec<Option<usize>>,
    waits: Vec<Option<(usize, Option<u64>)>>,
}

impl Inheritance {
    /// The urgency by definition: the own, or that of anybody who waits for one of its locks.
    fn urgency(&self, i: usize, depth: usize) -> u32 {
        assert!(depth < 20, "a circle");
        let waiters = (0..self.t.len()).filter(|&j| self.waits[j].is_some_and(|(lock, _)| self.owner[lock] == Some(i)));
        waiters.map(|j| self.urgency(j, depth + 1)).max().unwrap_or(0).max(self.priorities[i])
    }

    fn would_wait_for_itself(&self, me: usize, lock: usize) -> bool {
        let mut at = self.owner[lock];
        while let Some(i) = at {
            if i == me {
                return true;
            }
            at = self.waits[i].and_then(|(l, _)| self.owner[l]);
        }
        false
    }

    fn lock(&mut self, rng: &mut Rng, me: usize, lock: usize) {
        let deadline = (rng.below(3) == 0).then(|| self.w.now() + 1 + rng.below(500));
        let at = deadline.map_or(0, |d| self.w.timespec(d));
        let got = self.w.futex(self.t[me], FUTEX_LOCK_PI2 | PRIVATE, [word(lock as u64), 0, at, 0, 0]);
        match self.owner[lock] {
            None => {
                assert_eq!(got, Some(0));
                self.owner[lock] = Some(me);
            }
            Some(_) if self.would_wait_for_itself(me, lock) => assert_eq!(got, err(Errno::EDEADLK)),
            Some(_) => {
                assert_eq!(got, None);
                self.waits[me] = Some((lock, deadline));
            }
        }
    }

    fn unlock(&mut self, me: usize, lock: usize) {
        let got = self.w.futex(self.t[me], FUTEX_UNLOCK_PI | PRIVATE, [word(lock as u64), 0, 0, 0, 0]);
        if self.owner[lock] != Some(me) {
            assert_eq!(got, err(Errno::EPERM));
            return;
        }
        assert_eq!(got, Some(0));
        let waiters: Vec<usize> =
            (0..self.t.len()).filter(|&i| self.waits[i].is_some_and(|(l, _)| l == lock)).collect();
        let most = waiters.iter().map(|&i| self.urgency(i, 0)).max();
        let next: Vec<usize> = waiters.into_iter().filter(|&i| !self.w.is_waiting(self.t[i])).collect();
        assert_eq!(next.len(), usize::from(most.is_some()), "exactly one inherits");
        if let Some(&next) = next.first() {
            assert_eq!(Some(self.urgency(next, 0)), most);
            assert_eq!(self.w.result(self.t[next]), Some(0));
            self.waits[next] = None;
        }
        self.owner[lock] = next.first().copied();
    }

    fn step(&mut self, rng: &mut Rng) {
        let free: Vec<usize> = (0..self.t.len()).filter(|&i| self.waits[i].is_none()).collect();
        let me = free[rng.below(free.len() as u64) as usize];
        let lock = rng.below(LOCKS) as usize;
        match rng.below(10) {
            0..=3 if me != 0 => self.lock(rng, me, lock),
            4..=6 => self.unlock(me, lock),
            7 => {
                let who = rng.below(self.t.len() as u64) as usize;
                let priority = rng.below(4) as u32 * 10;
                self.priorities[who] = priority;
                self.w.set_priority(self.t[me], self.t[who], priority);
            }
            8 => {
                let end = self.w.now() + rng.below(300);
                self.w.advance(end - self.w.now());
                for i in 0..self.t.len() {
                    if self.waits[i].and_then(|w| w.1).is_some_and(|d| d <= end) {
                        assert_eq!(self.w.result(self.t[i]), err(Errno::ETIMEDOUT));
                        self.waits[i] = None;
                    }
                }
            }
            _ => {
                let got = self.w.futex(self.t[me], FUTEX_TRYLOCK_PI | PRIVATE, [word(lock as u64), 0, 0, 0, 0]);
                match self.owner[lock] {
                    None => {
                        assert_eq!(got, Some(0));
                        self.owner[lock] = Some(me);
                    }
                    Some(o) if o == me => assert_eq!(got, err(Errno::EDEADLK)),
                    Some(_) => assert_eq!(got, err(Errno::EAGAIN)),
                }
            }
        }
    }

    fn check(&self, seed: u64, step: usize) {
        for i in 0..self.t.len() {
            assert_eq!(self.w.is_waiting(self.t[i]), self.waits[i].is_some(), "seed {seed} step {step} thread {i}");
            let expected = match self.urgency(i, 0) {
                0 => Urgency::Fair,
                n => Urgency::Rt(RtPriority(n as u8)),
            };
            assert_eq!(self.w.kernel.sched.urgency(self.t[i]), expected, "seed {seed} step {step} thread {i}");
        }
        for (lock, owner) in self.owner.iter().enumerate() {
            let tid = self.w.peek(word(lock as u64)) & FUTEX_TID_MASK;
            assert_eq!(tid, owner.map_or(0, |i| self.w.tid(self.t[i])), "seed {seed} step {step} lock {lock}");
        }
    }
}

#[test]
fn urgency_is_always_what_its_definition_says() {
    for seed in 1..=SEEDS {
        let mut rng = Rng(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let (w, t) = World::with_threads(9);
        let n = t.len();
        let owner = vec![None; LOCKS as usize];
        let mut p = Inheritance { w, t, priorities: vec![0; n], owner, waits: vec![None; n] };
        for step in 0..STEPS {
            p.step(&mut rng);
            p.check(seed, step);
        }
    }
}
