//! Priority inheritance: FUTEX_LOCK_PI and its family.
//!
//! The user word of such a lock is `tid | FUTEX_WAITERS | FUTEX_OWNER_DIED`. Programs take
//! and release it without us as long as nobody waits; the first waiter sets
//! FUTEX_WAITERS, and from then on the lock has a **turnstile** here: who owns it and who
//! waits, most urgent first. The owner is as urgent as the most urgent of all who wait at its
//! turnstiles, and since it may wait for another lock itself, that goes on along the chain.
//!
//! | file | |
//! |---|---|
//! | [`turnstile`] | the data: waiters of a lock, locks of an owner |
//! | [`chain`] | urgencies along chains, and the search for cycles |
//! | [`claim`] | what a lock's word and turnstile say to somebody who wants it |
//! | [`lock`] | LOCK_PI, TRYLOCK_PI, and the ends of their waits |
//! | [`unlock`] | UNLOCK_PI, the exit of an owner, handing over |
//! | [`requeue`] | WAIT_REQUEUE_PI, CMP_REQUEUE_PI: condition variables |
//!
//! # Locks
//! bucket(s) → [`PiState`] → run queue.
//!
//! *The bucket of a word* guards the word's protocol: whether there is a turnstile, who owns
//! it, who joins and leaves. A waiter's own node stands in the bucket's queue with
//! [`Role::Pi`](super::queue::Role), which is how a word finds its turnstile, and how
//! FUTEX_WAKE notices that it has no business there.
//!
//! *One lock for all turnstiles of the process*, [`PiState`], guards links and urgencies: a
//! chain crosses turnstiles of many words, and with a lock each a walk would have to go up
//! against the order in which they are taken (Linux drops, retries and revalidates at each
//! step, `rt_mutex_adjust_prio_chain`). It is taken by who waits for a contended lock with
//! inheritance, ends such a wait or hands such a lock over, and by changes of a thread that is
//! in such a wait. Plain futexes, switches, wake-ups, ticks, and exits of threads that own no
//! contended lock never take it. User memory is not touched under it.
//!
//! What a walk may cost: 1024 steps, as Linux's `max_lock_depth`; it ends at the first thread
//! whose urgency does not change.

mod chain;
mod claim;
mod later;
mod lock;
mod requeue;
mod turnstile;
mod unlock;

pub use turnstile::{PiState, ThreadPi};
