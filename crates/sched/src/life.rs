//! The state word through which waiting and waking agree.
//!
//! | value | meaning | who may leave it, and to what |
//! |---|---|---|
//! | `FREE` | no thread has the slot | `attach` → `NEW` |
//! | `NEW` | created, not yet started: a stale wake-up of the slot's last thread must not start it | `wake_new` → `WAKING`; `detach` → `FREE` |
//! | `RUNNABLE` | runs, is queued, or is carried between two queues | itself → `WAITING`, `DEAD` |
//! | `WAITING` | runs, and has announced that it is about to wait | itself → `RUNNABLE` (cancel), `BLOCKED`; a waker → `RUNNABLE` |
//! | `BLOCKED` | waits | a waker → `WAKING`; a changer → `CHANGING`; `detach` → `FREE` |
//! | `WAKING` | a waker owns it and will queue it | that waker → `RUNNABLE` |
//! | `CHANGING` | a changer owns it | that changer → `BLOCKED`; a waker → `CHANGING_WOKEN` |
//! | `CHANGING_WOKEN` | the same, and woken meanwhile | that changer → `WAKING` |
//! | `DEAD` | has exited | `detach` → `FREE` |
//!
//! 1. `WAITING`, `BLOCKED` and `CHANGING` are left **under the lock of the run queue that the entity's `home` names**,
//!    because several may try. The holder of that lock reads the word first and `home` second.
//! 2. Every other value belongs to one owner.
//! 3. So each step is a load and a store. A compare-exchange per block and per wake-up would cost as much as the lock, which
//!    both need anyway.
//! 4. Ownership passes by release and acquire: the next owner sees what the previous one wrote.

use sync::atomic::{AtomicU8, Ordering};

const FREE: u8 = 0;
const RUNNABLE: u8 = 1;
const WAITING: u8 = 2;
const BLOCKED: u8 = 3;
const WAKING: u8 = 4;
const CHANGING: u8 = 5;
const CHANGING_WOKEN: u8 = 6;
const DEAD: u8 = 7;
const NEW: u8 = 8;

/// The result of a wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Wake {
    /// The thread does not wait, or another waker was faster.
    TooLate,
    /// The wait is over; the blocker or changer does the rest.
    Done,
    /// The wait is over, and the thread is the waker's to queue.
    Claimed,
}

/// The result of an attempt to claim a thread for a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Claim {
    /// The thread belongs to the changer until `unclaim`.
    Claimed,
    /// The slot has no thread.
    Gone,
    /// A waker or changer holds it at the moment, or it is runnable.
    Busy,
}

/// See the module documentation. "Home's lock" is that of the run queue that the entity's `home` names.
#[derive(Debug)]
pub(crate) struct Life(AtomicU8);

impl Life {
    pub(crate) fn new() -> Life {
        Life(AtomicU8::new(FREE))
    }

    #[inline(always)]
    fn get(&self) -> u8 {
        self.0.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn set(&self, to: u8) {
        self.0.store(to, Ordering::Release);
    }

    /// The slot has a new thread, which waits for its first wake-up.
    pub(crate) fn attach(&self) {
        self.set(NEW);
    }

    /// Frees the slot.
    pub(crate) fn detach(&self) {
        self.set(FREE);
    }

    /// The running thread is about to wait.
    #[inline(always)]
    pub(crate) fn prepare(&self) {
        self.set(WAITING);
    }

    /// The thread does not wait after all. The caller holds home's lock.
    pub(crate) fn cancel(&self) {
        // Otherwise a waker was faster, and the thread is runnable already.
        if self.get() == WAITING {
            self.set(RUNNABLE);
        }
    }

    /// Whether a wake-up would have an effect. Read before any lock is taken.
    #[inline(always)]
    pub(crate) fn can_be_woken(&self) -> bool {
        matches!(self.get(), WAITING | BLOCKED | CHANGING)
    }

    /// Whether the running thread is still about to wait. With home's lock, that cannot change.
    #[inline(always)]
    pub(crate) fn is_waiting(&self) -> bool {
        self.get() == WAITING
    }

    /// Whether the thread waits, and nobody has woken it.
    pub(crate) fn is_blocked(&self) -> bool {
        self.get() == BLOCKED
    }

    /// Turns the running thread, which is still about to wait, into a waiting one. With home's lock; once that is
    /// released, the thread belongs to wakers and changers, so the caller must be done with it.
    #[inline(always)]
    pub(crate) fn block(&self) {
        self.set(BLOCKED);
    }

    /// Ends a wait at any stage. With home's lock; `is_home`, called after the word was read, says whether it still is
    /// home's. `None` if not.
    #[inline(always)]
    pub(crate) fn wake(&self, is_home: impl FnOnce() -> bool) -> Option<Wake> {
        let (to, wake) = match self.get() {
            BLOCKED => (WAKING, Wake::Claimed),
            WAITING => (RUNNABLE, Wake::Done),
            CHANGING => (CHANGING_WOKEN, Wake::Done),
            _ => return Some(Wake::TooLate),
        };
        is_home().then(|| {
            self.set(to);
            wake
        })
    }

    /// Claims a thread that waits for its first run.
    pub(crate) fn wake_first(&self) -> bool {
        self.0.compare_exchange(NEW, WAKING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The owner has queued the thread.
    #[inline(always)]
    pub(crate) fn queued(&self) {
        self.set(RUNNABLE);
    }

    /// Claims a waiting thread for a change. `is_home` as for `wake`.
    pub(crate) fn claim(&self, is_home: impl FnOnce() -> bool) -> Claim {
        match self.get() {
            BLOCKED if is_home() => {
                self.set(CHANGING);
                Claim::Claimed
            }
            FREE | DEAD | NEW => Claim::Gone,
            _ => Claim::Busy,
        }
    }

    /// Lets a claimed thread wait again. False: it was woken meanwhile, and the caller must queue it. With home's lock.
    #[must_use]
    pub(crate) fn unclaim(&self) -> bool {
        let back = self.get() == CHANGING;
        self.set(if back { BLOCKED } else { WAKING });
        back
    }

    /// The thread has exited.
    pub(crate) fn exit(&self) {
        self.set(DEAD);
    }

    /// Whether the word is right for a queued thread, or, if `current`, for a running one.
    pub(crate) fn fits_member(&self, current: bool) -> bool {
        let s = self.0.load(Ordering::Relaxed);
        s == RUNNABLE || (current && s == WAITING)
    }
}

/// Checks the word under loom: every order of the steps, and every value that a relaxed load may return.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::atomic::{AtomicU16, AtomicU32};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// A minimal entity: the word, its home, and a field that belongs to the owner.
    struct Entity {
        life: Life,
        home: AtomicU16,
        field: AtomicU32,
        /// Stand for the run queues' locks: the checker knows how to wait for its own.
        queues: [Mutex<()>; 2],
    }

    impl Entity {
        fn new() -> Arc<Entity> {
            let queues = [Mutex::new(()), Mutex::new(())];
            Arc::new(Entity { life: Life::new(), home: AtomicU16::new(0), field: AtomicU32::new(0), queues })
        }

        /// One owner's work: every one must see what the one before it left.
        fn add(&self, n: u32) {
            self.field.store(self.field.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        }

        /// As `Scheduler::wake`, with the thread queued on CPU `to`.
        fn wake(&self, to: u16, n: u32) -> Wake {
            loop {
                if !self.life.can_be_woken() {
                    return Wake::TooLate;
                }
                let home = self.home.load(Ordering::Acquire);
                let held = self.queues[home as usize].lock().unwrap();
                match self.life.wake(|| self.home.load(Ordering::Relaxed) == home) {
                    None => continue,
                    Some(Wake::Claimed) => drop(held),
                    Some(other) => return other,
                }
                let _held = self.queues[to as usize].lock().unwrap();
                self.add(n);
                self.home.store(to, Ordering::Release);
                self.life.queued();
                return Wake::Claimed;
            }
        }

        /// As `schedule` with `Prev::Block` on CPU `cpu`, where the thread is current.
        fn block(&self, cpu: u16) -> bool {
            let _held = self.queues[cpu as usize].lock().unwrap();
            let waits = self.life.is_waiting();
            if waits {
                self.add(1);
                self.life.block();
            }
            waits
        }
    }

    #[test]
    fn one_of_two_wakers_gets_what_the_blocker_left() {
        loom::model(|| {
            let e = Entity::new();
            e.life.prepare();
            let wakers = [0, 1].map(|_| {
                let e = e.clone();
                thread::spawn(move || e.wake(0, 100))
            });
            let blocked = e.block(0);
            let woken = wakers.map(|w| w.join().unwrap());
            assert_eq!(woken.iter().filter(|&&w| w != Wake::TooLate).count(), 1);
            assert_eq!(blocked, woken.contains(&Wake::Claimed));
            assert_eq!(e.field.load(Ordering::Relaxed), if blocked { 101 } else { 0 });
            assert!(e.life.fits_member(false));
        });
    }

    /// A waker that has the lock of the home that was must not end a wait that began at the next one.
    #[test]
    fn a_thread_that_has_moved_is_woken_where_it_is() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let e = Entity::new();
            e.life.prepare();
            assert!(e.block(0));
            let late = {
                let e = e.clone();
                thread::spawn(move || e.wake(0, 100))
            };
            // It is woken onto the other CPU and waits again there at once.
            let moved = e.wake(1, 1_000) == Wake::Claimed;
            let again = moved && {
                e.life.prepare();
                e.block(1)
            };
            let late = late.join().unwrap();
            let waits = e.life.is_blocked();
            assert_eq!(waits, again && late == Wake::TooLate);
            let owners = 1 + u32::from(again) + 1_000 * u32::from(moved) + 100 * u32::from(late == Wake::Claimed);
            assert_eq!(e.field.load(Ordering::Relaxed), owners);
        });
    }

    #[test]
    fn a_wake_up_during_a_change_is_done_by_the_changer() {
        loom::model(|| {
            let e = Entity::new();
            e.life.prepare();
            assert!(e.block(0));
            let waker = {
                let e = e.clone();
                thread::spawn(move || e.wake(0, 100))
            };
            let claim = {
                let _held = e.queues[0].lock().unwrap();
                e.life.claim(|| e.home.load(Ordering::Relaxed) == 0)
            };
            let changed = claim == Claim::Claimed;
            if changed {
                e.add(10);
                let waits = {
                    let _held = e.queues[0].lock().unwrap();
                    e.life.unclaim()
                };
                if !waits {
                    e.add(100);
                    e.life.queued();
                }
            }
            assert_ne!(waker.join().unwrap(), Wake::TooLate);
            assert_eq!(e.field.load(Ordering::Relaxed), if changed { 111 } else { 101 });
            assert!(e.life.fits_member(false));
        });
    }

    #[test]
    fn a_cancelled_wait_is_over() {
        loom::model(|| {
            let e = Entity::new();
            e.life.prepare();
            let waker = {
                let e = e.clone();
                thread::spawn(move || e.wake(0, 100))
            };
            {
                let _held = e.queues[0].lock().unwrap();
                e.life.cancel();
            }
            assert_ne!(waker.join().unwrap(), Wake::Claimed);
            assert!(e.life.fits_member(false) && !e.block(0));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [u8; 9] = [FREE, RUNNABLE, WAITING, BLOCKED, WAKING, CHANGING, CHANGING_WOKEN, DEAD, NEW];

    /// Whether each value gives `answer`, and what it becomes.
    fn each<A: PartialEq + core::fmt::Debug>(step: impl Fn(&Life) -> A, expected: impl Fn(u8) -> (A, u8)) {
        for from in ALL {
            let life = Life(AtomicU8::new(from));
            assert_eq!((step(&life), life.get()), expected(from), "from {from}");
        }
    }

    #[test]
    fn a_waker_ends_waits_and_nothing_else() {
        each(|l| l.can_be_woken(), |from| ([WAITING, BLOCKED, CHANGING].contains(&from), from));
        let woken = |from| match from {
            BLOCKED => (Wake::Claimed, WAKING),
            WAITING => (Wake::Done, RUNNABLE),
            CHANGING => (Wake::Done, CHANGING_WOKEN),
            other => (Wake::TooLate, other),
        };
        each(|l| l.wake(|| true), |from| (Some(woken(from).0), woken(from).1));
        let moved = |from| (if woken(from).0 == Wake::TooLate { Some(Wake::TooLate) } else { None }, from);
        each(|l| l.wake(|| false), moved);
        each(|l| l.wake_first(), |from| (from == NEW, if from == NEW { WAKING } else { from }));
    }

    #[test]
    fn a_changer_gets_what_waits_and_gives_it_back() {
        let claimed = |from| match from {
            BLOCKED => (Claim::Claimed, CHANGING),
            FREE | DEAD | NEW => (Claim::Gone, from),
            _ => (Claim::Busy, from),
        };
        each(|l| l.claim(|| true), claimed);
        each(|l| l.claim(|| false), |from| (if from == BLOCKED { Claim::Busy } else { claimed(from).0 }, from));
        let life = Life(AtomicU8::new(CHANGING));
        assert!(life.unclaim() && life.is_blocked());
        let life = Life(AtomicU8::new(CHANGING_WOKEN));
        assert!(!life.unclaim() && life.get() == WAKING);
    }

    #[test]
    fn a_mark_that_is_gone_is_not_taken_back() {
        each(|l| l.cancel(), |from| ((), if from == WAITING { RUNNABLE } else { from }));
        each(|l| l.is_waiting(), |from| (from == WAITING, from));
        each(|l| l.is_blocked(), |from| (from == BLOCKED, from));
    }

    #[test]
    fn members_are_runnable_and_the_current_one_may_be_about_to_wait() {
        each(|l| l.fits_member(false), |from| (from == RUNNABLE, from));
        each(|l| l.fits_member(true), |from| (from == RUNNABLE || from == WAITING, from));
    }

    #[test]
    fn owners_say_what_becomes_of_it() {
        let life = Life::new();
        assert_eq!(life.get(), FREE);
        type Step = fn(&Life);
        let steps: [(Step, u8); 6] = [
            (Life::attach, NEW),
            (Life::queued, RUNNABLE),
            (Life::prepare, WAITING),
            (Life::block, BLOCKED),
            (Life::exit, DEAD),
            (Life::detach, FREE),
        ];
        for (step, becomes) in steps {
            step(&life);
            assert_eq!(life.get(), becomes);
        }
    }
}
