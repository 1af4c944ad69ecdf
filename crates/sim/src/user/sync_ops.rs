//! Mutexes, condition variables, barriers and semaphores as a C library builds them on futexes.

use super::call;
use super::env::{Env, Micro};
use super::{Barrier, Cond, Mutex, Semaphore};
use abi::futex::{FUTEX_LOCK_PI, FUTEX_UNLOCK_PI};

/// All waiters.
const ALL: u32 = i32::MAX as u32;

/// `lll_lock` and `lll_unlock`.
#[derive(Debug)]
pub(crate) struct LockOp {
    word: u64,
    state: Lock,
}

#[derive(Clone, Copy, Debug)]
enum Lock {
    Try,
    Contended,
    Release,
    Released,
}

impl LockOp {
    pub(crate) fn lock(m: Mutex) -> LockOp {
        LockOp { word: m.0, state: Lock::Try }
    }

    pub(crate) fn unlock(m: Mutex) -> LockOp {
        LockOp { word: m.0, state: Lock::Release }
    }

    pub(crate) fn advance(&mut self, _input: isize, env: &mut Env<'_>) -> Micro {
        let word = self.word;
        match self.state {
            Lock::Try => {
                if env.update(word, |old| (old == 0).then_some(1)) == 0 {
                    env.owners.enter(word, env.tid);
                    return Micro::Done(0);
                }
                self.state = Lock::Contended;
                self.contend(env)
            }
            Lock::Contended => self.contend(env),
            Lock::Release => {
                env.owners.leave(word, env.tid);
                self.state = Lock::Released;
                match env.update(word, |_| Some(0)) {
                    2 => Micro::Call(call::futex_wake(word, 1)),
                    _ => Micro::Done(0),
                }
            }
            Lock::Released => Micro::Done(0),
        }
    }

    fn contend(&mut self, env: &mut Env<'_>) -> Micro {
        if env.update(self.word, |_| Some(2)) == 0 {
            env.owners.enter(self.word, env.tid);
            return Micro::Done(0);
        }
        Micro::Call(call::futex_wait(env, self.word, 2, None))
    }
}

/// A mutex with priority inheritance: the word holds the owner's id; the kernel takes over
/// when there are waiters.
#[derive(Debug)]
pub(crate) struct PiOp {
    word: u64,
    state: Pi,
}

#[derive(Clone, Copy, Debug)]
enum Pi {
    Lock,
    Locked,
    Unlock,
    Unlocked,
}

impl PiOp {
    pub(crate) fn lock(m: Mutex) -> PiOp {
        PiOp { word: m.0, state: Pi::Lock }
    }

    pub(crate) fn unlock(m: Mutex) -> PiOp {
        PiOp { word: m.0, state: Pi::Unlock }
    }

    pub(crate) fn advance(&mut self, input: isize, env: &mut Env<'_>) -> Micro {
        let (word, me) = (self.word, env.tid.0 as u32);
        match self.state {
            Pi::Lock => {
                if env.update(word, |old| (old == 0).then_some(me)) == 0 {
                    env.owners.enter(word, env.tid);
                    return Micro::Done(0);
                }
                self.state = Pi::Locked;
                Micro::Call(call::futex_pi(word, FUTEX_LOCK_PI))
            }
            Pi::Locked => {
                if input == 0 {
                    env.owners.enter(word, env.tid);
                }
                Micro::Done(input)
            }
            Pi::Unlock => {
                env.owners.leave(word, env.tid);
                if env.update(word, |old| (old == me).then_some(0)) == me {
                    return Micro::Done(0);
                }
                self.state = Pi::Unlocked;
                Micro::Call(call::futex_pi(word, FUTEX_UNLOCK_PI))
            }
            Pi::Unlocked => Micro::Done(input),
        }
    }
}

/// A condition variable that counts its signals: a waiter sleeps while the count is the same as when it released the
/// mutex.
#[derive(Debug)]
pub(crate) struct CondOp {
    cond: u64,
    mutex: u64,
    /// The mutex inherits priorities.
    pi: bool,
    state: CondState,
}

/// A call on the mutex of a condition variable.
#[derive(Debug)]
enum MutexOp {
    Plain(LockOp),
    Pi(PiOp),
}

impl MutexOp {
    fn unlock(m: Mutex, pi: bool) -> MutexOp {
        if pi { MutexOp::Pi(PiOp::unlock(m)) } else { MutexOp::Plain(LockOp::unlock(m)) }
    }

    /// A thread that was woken together with others must leave the waiters' mark.
    fn lock_again(m: Mutex, pi: bool) -> MutexOp {
        if pi {
            return MutexOp::Pi(PiOp::lock(m));
        }
        MutexOp::Plain(LockOp { state: Lock::Contended, ..LockOp::lock(m) })
    }

    fn advance(&mut self, input: isize, env: &mut Env<'_>) -> Micro {
        match self {
            MutexOp::Plain(op) => op.advance(input, env),
            MutexOp::Pi(op) => op.advance(input, env),
        }
    }
}

#[derive(Debug)]
enum CondState {
    Begin,
    Unlock { seen: u32, op: MutexOp },
    Wait { seen: u32 },
    Relock(MutexOp),
    Wake(u32),
    Woken,
}

impl CondOp {
    pub(crate) fn wait(c: Cond, m: Mutex, pi: bool) -> CondOp {
        CondOp { cond: c.0, mutex: m.0, pi, state: CondState::Begin }
    }

    pub(crate) fn wake(c: Cond, count: u32) -> CondOp {
        CondOp { cond: c.0, mutex: 0, pi: false, state: CondState::Wake(count) }
    }

    pub(crate) fn advance(&mut self, input: isize, env: &mut Env<'_>) -> Micro {
        loop {
            let next = match &mut self.state {
                CondState::Begin => {
                    CondState::Unlock { seen: env.load(self.cond), op: MutexOp::unlock(Mutex(self.mutex), self.pi) }
                }
                CondState::Unlock { seen, op } => match op.advance(input, env) {
                    Micro::Done(_) => CondState::Wait { seen: *seen },
                    micro => return micro,
                },
                CondState::Wait { seen } => {
                    let call = call::futex_wait(env, self.cond, *seen, None);
                    self.state = CondState::Relock(MutexOp::lock_again(Mutex(self.mutex), self.pi));
                    return Micro::Call(call);
                }
                CondState::Relock(op) => return op.advance(input, env),
                CondState::Wake(count) => {
                    let count = *count;
                    env.update(self.cond, |n| Some(n.wrapping_add(1)));
                    self.state = CondState::Woken;
                    return Micro::Call(call::futex_wake(self.cond, count));
                }
                CondState::Woken => return Micro::Done(input),
            };
            self.state = next;
        }
    }
}

/// A barrier: arrivals are counted; the last to arrive opens the next round.
#[derive(Debug)]
pub(crate) struct BarrierOp {
    barrier: Barrier,
    state: BarrierState,
}

#[derive(Clone, Copy, Debug)]
enum BarrierState {
    Arrive,
    Wait(u32),
    Opened,
}

impl BarrierOp {
    pub(crate) fn new(barrier: Barrier) -> BarrierOp {
        BarrierOp { barrier, state: BarrierState::Arrive }
    }

    pub(crate) fn advance(&mut self, _input: isize, env: &mut Env<'_>) -> Micro {
        let (arrivals, round) = (self.barrier.addr, self.barrier.addr + 4);
        match self.state {
            BarrierState::Arrive => {
                let mine = env.load(round);
                if env.update(arrivals, |n| Some(n + 1)) + 1 < self.barrier.parties {
                    self.state = BarrierState::Wait(mine);
                    return Micro::Call(call::futex_wait(env, round, mine, None));
                }
                env.update(arrivals, |_| Some(0));
                env.update(round, |n| Some(n.wrapping_add(1)));
                self.state = BarrierState::Opened;
                Micro::Call(call::futex_wake(round, ALL))
            }
            BarrierState::Wait(mine) => match env.load(round) {
                now if now == mine => Micro::Call(call::futex_wait(env, round, mine, None)),
                _ => Micro::Done(0),
            },
            BarrierState::Opened => Micro::Done(1),
        }
    }
}

/// `sem_wait` and `sem_post` with glibc's `new_sem`: a poster adds to the value and calls the kernel only where threads
/// wait; a waiter sleeps while the value is zero.
#[derive(Debug)]
pub(crate) struct SemaphoreOp {
    semaphore: Semaphore,
    state: SemaphoreState,
}

#[derive(Clone, Copy, Debug)]
enum SemaphoreState {
    Try,
    /// It is counted among the waiters.
    Wait,
    Post,
    Woken,
}

impl SemaphoreOp {
    pub(crate) fn wait(semaphore: Semaphore) -> SemaphoreOp {
        SemaphoreOp { semaphore, state: SemaphoreState::Try }
    }

    pub(crate) fn post(semaphore: Semaphore) -> SemaphoreOp {
        SemaphoreOp { semaphore, state: SemaphoreState::Post }
    }

    pub(crate) fn advance(&mut self, _input: isize, env: &mut Env<'_>) -> Micro {
        let (value, waiters) = (self.semaphore.0, self.semaphore.0 + 4);
        match self.state {
            SemaphoreState::Try => {
                if env.update(value, |n| n.checked_sub(1)) > 0 {
                    return Micro::Done(0);
                }
                env.update(waiters, |n| Some(n + 1));
                self.state = SemaphoreState::Wait;
                self.advance(0, env)
            }
            SemaphoreState::Wait => {
                if env.update(value, |n| n.checked_sub(1)) > 0 {
                    env.update(waiters, |n| n.checked_sub(1));
                    return Micro::Done(0);
                }
                Micro::Call(call::futex_wait(env, value, 0, None))
            }
            SemaphoreState::Post => {
                env.update(value, |n| Some(n.wrapping_add(1)));
                self.state = SemaphoreState::Woken;
                match env.load(waiters) {
                    0 => Micro::Done(0),
                    _ => Micro::Call(call::futex_wake(value, 1)),
                }
            }
            SemaphoreState::Woken => Micro::Done(0),
        }
    }
}
