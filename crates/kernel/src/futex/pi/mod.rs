//! Priority inheritance: FUTEX_LOCK_PI and its family.
//!
//! The user word of such a lock is `tid | FUTEX_WAITERS | FUTEX_OWNER_DIED`. Programs take and release it without us
//! while there are no waiters. The first waiter sets FUTEX_WAITERS, and from then on the lock has a **turnstile**
//! here: its owner and its waiters, most urgent first. The owner is as urgent as the most urgent waiter at all its
//! turnstiles. It may wait for another lock itself, so urgency propagates along the chain.
//!
//! | file | |
//! |---|---|
//! | [`turnstile`] | the data: waiters of a lock, locks of an owner |
//! | [`chain`] | urgencies along chains, and the search for cycles |
//! | [`claim`] | what a lock's word and turnstile mean for a claimer |
//! | [`lock`] | LOCK_PI, TRYLOCK_PI, and the ends of their waits |
//! | [`unlock`] | UNLOCK_PI, the exit of an owner, handing over |
//! | [`requeue`] | WAIT_REQUEUE_PI, CMP_REQUEUE_PI: condition variables |
//!
//! # Locks
//! bucket(s) → [`PiState`] → run queue.
//!
//! 1. *The bucket of a word* guards the word's protocol: whether there is a turnstile, its owner, joining and leaving.
//!    A waiter's own node is in the bucket's queue with [`Role::Pi`](super::queue::Role), which leads from a word to
//!    its turnstile and lets FUTEX_WAKE detect misuse.
//! 2. *One lock for all turnstiles of the process*, [`PiState`], guards links and urgencies. A chain crosses turnstiles
//!    of many words; with a lock for each, a walk would violate the lock order (Linux drops, retries and revalidates at
//!    each step, `rt_mutex_adjust_prio_chain`).
//! 3. It is taken by threads that wait for a contended lock with inheritance, end such a wait or hand such a lock over, and by
//!    changes of a thread in such a wait. Plain futexes, switches, wake-ups, ticks, and exits of threads that own no contended
//!    lock never take it. User memory is not touched under it.
//!
//! A walk takes at most 1024 steps, as Linux's `max_lock_depth`; it ends at the first thread whose urgency does not
//! change.

mod chain;
mod claim;
mod later;
mod lock;
mod requeue;
mod turnstile;
mod unlock;

pub use turnstile::{PiState, ThreadPi};
