//! The one word on which waiting and waking agree.
//!
//! | value | meaning | who may leave it, and to what |
//! |---|---|---|
//! | `FREE` | no thread has the slot | `attach` → `NEW` |
//! | `NEW` | made, not yet let go: a stale wake-up of the slot's last thread must not start it | `wake_new` → `WAKING`; `detach` → `FREE` |
//! | `RUNNABLE` | runs, is queued, or is carried between two queues | itself → `WAITING`, `DEAD` |
//! | `WAITING` | runs, and has said that it is about to wait | itself → `RUNNABLE` (cancel), `BLOCKED`; a waker → `RUNNABLE` |
//! | `BLOCKED` | waits | a waker → `WAKING`; a changer → `CHANGING`; `detach` → `FREE` |
//! | `WAKING` | a waker owns it and will queue it | that waker → `RUNNABLE` |
//! | `CHANGING` | a changer owns it | that changer → `BLOCKED`; a waker → `CHANGING_WOKEN` |
//! | `CHANGING_WOKEN` | the same, and woken meanwhile | that changer → `WAKING` |
//! | `DEAD` | has exited | `detach` → `FREE` |
//!
//! Leaving `WAITING`, `BLOCKED` and `CHANGING` is a compare-exchange, because several may try;
//! everything else belongs to one owner, and is a store. What the owner of an entity wrote before
//! it let go (release) is seen by whoever gets hold of it (acquire).

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

/// What a waker found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Wake {
    /// Nothing waits, or somebody else was faster.
    TooLate,
    /// The wait is over; somebody else does the rest.
    Done,
    /// The wait is over, and the thread is the waker's to queue.
    Claimed,
}

/// What a changer found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Claim {
    /// It is the changer's until `unclaim`.
    Claimed,
    /// There is no thread.
    Gone,
    /// Somebody else has it for a moment, or it is runnable.
    Busy,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Life(AtomicU8);

impl Life {
    pub(crate) fn new() -> Life {
        Life(AtomicU8::new(FREE))
    }

    fn exchange(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// A new thread has the slot; it waits for its first wake-up.
    pub(crate) fn attach(&self) {
        self.0.store(NEW, Ordering::Release);
    }

    /// Nobody has the slot.
    pub(crate) fn detach(&self) {
        self.0.store(FREE, Ordering::Release);
    }

    /// The running thread is about to wait.
    #[inline(always)]
    pub(crate) fn prepare(&self) {
        self.0.store(WAITING, Ordering::Release);
    }

    /// It does not wait after all.
    #[inline(always)]
    pub(crate) fn cancel(&self) {
        // If that fails, a waker was faster: runnable all the same.
        let _ = self.exchange(WAITING, RUNNABLE);
    }

    /// Whether the running thread is still about to wait: worth trying `block`.
    #[inline(always)]
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Acquire) == WAITING
    }

    /// Whether the thread waits, and nobody has woken it.
    pub(crate) fn is_blocked(&self) -> bool {
        self.0.load(Ordering::Acquire) == BLOCKED
    }

    /// The running thread waits from now on, unless it was woken before. If true, it belongs to wakers and
    /// changers: the caller must be done with it.
    #[inline(always)]
    pub(crate) fn block(&self) -> bool {
        self.exchange(WAITING, BLOCKED).is_ok()
    }

    /// Ends a wait, whatever stage it has reached.
    #[inline(always)]
    pub(crate) fn wake(&self) -> Wake {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let (to, wake) = match seen {
                BLOCKED => (WAKING, Wake::Claimed),
                WAITING => (RUNNABLE, Wake::Done),
                CHANGING => (CHANGING_WOKEN, Wake::Done),
                _ => return Wake::TooLate,
            };
            match self.exchange(seen, to) {
                Ok(_) => return wake,
                Err(now) => seen = now,
            }
        }
    }

    /// Claims a thread that waits for its first run.
    pub(crate) fn wake_first(&self) -> bool {
        self.exchange(NEW, WAKING).is_ok()
    }

    /// Whoever claimed it has queued it.
    #[inline(always)]
    pub(crate) fn queued(&self) {
        self.0.store(RUNNABLE, Ordering::Release);
    }

    /// Claims a waiting thread for a change.
    pub(crate) fn claim(&self) -> Claim {
        match self.exchange(BLOCKED, CHANGING) {
            Ok(_) => Claim::Claimed,
            Err(FREE | DEAD | NEW) => Claim::Gone,
            Err(_) => Claim::Busy,
        }
    }

    /// Lets a claimed thread wait again. False: it was woken meanwhile, and is the caller's to queue.
    #[must_use]
    pub(crate) fn unclaim(&self) -> bool {
        let back = self.exchange(CHANGING, BLOCKED).is_ok();
        if !back {
            self.0.store(WAKING, Ordering::Release);
        }
        back
    }

    /// The thread has exited.
    pub(crate) fn exit(&self) {
        self.0.store(DEAD, Ordering::Release);
    }

    /// Whether the word fits a thread that is queued, or, if `current`, one that runs.
    pub(crate) fn fits_member(&self, current: bool) -> bool {
        let s = self.0.load(Ordering::Relaxed);
        s == RUNNABLE || (current && s == WAITING)
    }
}

/// The same word under loom: every order of the steps, and every value that a relaxed load may return.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    /// An entity as small as can be: the word, and a field that belongs to whoever owns it.
    struct Entity {
        life: Life,
        field: AtomicU32,
    }

    impl Entity {
        fn new() -> Arc<Entity> {
            Arc::new(Entity { life: Life::new(), field: AtomicU32::new(0) })
        }

        /// One owner's work: every one must see what the one before it left.
        fn add(&self, n: u32) {
            self.field.store(self.field.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        }
    }

    fn wake(e: &Entity) -> Wake {
        let w = e.life.wake();
        if w == Wake::Claimed {
            e.add(100);
            e.life.queued();
        }
        w
    }

    #[test]
    fn one_of_two_wakers_gets_what_the_blocker_left() {
        loom::model(|| {
            let e = Entity::new();
            e.life.prepare();
            let wakers = [0, 1].map(|_| {
                let e = e.clone();
                thread::spawn(move || wake(&e))
            });
            e.add(1);
            let blocked = e.life.block();
            let woken = wakers.map(|w| w.join().unwrap());
            assert_eq!(woken.iter().filter(|&&w| w != Wake::TooLate).count(), 1);
            assert_eq!(blocked, woken.contains(&Wake::Claimed));
            assert_eq!(e.field.load(Ordering::Relaxed), if blocked { 101 } else { 1 });
            assert!(e.life.fits_member(false));
        });
    }

    #[test]
    fn a_wake_up_during_a_change_is_done_by_the_changer() {
        loom::model(|| {
            let e = Entity::new();
            e.life.prepare();
            assert!(e.life.block());
            let waker = {
                let e = e.clone();
                thread::spawn(move || wake(&e))
            };
            let changed = e.life.claim() == Claim::Claimed;
            if changed {
                e.add(10);
                if !e.life.unclaim() {
                    e.add(100);
                    e.life.queued();
                }
            }
            assert_ne!(waker.join().unwrap(), Wake::TooLate);
            assert_eq!(e.field.load(Ordering::Relaxed), if changed { 110 } else { 100 });
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
                thread::spawn(move || wake(&e))
            };
            e.life.cancel();
            assert_ne!(waker.join().unwrap(), Wake::Claimed);
            assert!(e.life.fits_member(false) && !e.life.block());
        });
    }
}
