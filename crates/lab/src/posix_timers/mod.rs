//! Five ways to find a POSIX timer by its id.
//!
//! | | keyed by | a creation locks | a look-up walks |
//! |---|---|---|---|
//! | [`Hash::global`] to 6.14 | (process, id), 512 buckets for all | one lock for all | a chain, without a lock |
//! | [`Hash::double_walk`] of 2025-02 | the same | the same, after a walk without it | the same |
//! | [`Hash::scaled`] 6.15 | the same, 512 buckets per CPU | its bucket | a short chain |
//! | [`Xarray`], the seed's other candidate | id, per process | one lock per process | a radix tree |
//! | [`Ours`] | id, per process | one of 16 locks | a trie that skips what is alone |

mod hash;
pub mod modelled;
mod ours;
mod pool;
mod xarray;

pub use hash::Hash;
pub use ours::Ours;
pub use xarray::Xarray;

/// A way to keep the timers of several processes.
pub trait TimerIds: Sync {
    /// The design's name in tables.
    fn name(&self) -> &'static str;

    /// Creates, on `cpu`, a timer with the process's next free id; `None` when there is no room.
    fn create(&self, process: usize, cpu: CpuId) -> Option<u32>;

    /// Creates a timer with this id; `None` if it is taken.
    fn create_exact(&self, process: usize, id: u32) -> Option<u32>;

    /// `timer_getoverrun(2)`: whether the timer exists.
    fn look_up(&self, process: usize, id: u32) -> bool;

    /// Deletes a timer; whether it existed.
    fn delete(&self, process: usize, id: u32) -> bool;

    /// The bytes that finding timers takes, beside the timers themselves.
    fn index_bytes(&self) -> usize;
}

use ids::CpuId;

const ID_MASK: u32 = i32::MAX as u32;

#[cfg(all(test, not(shuttle)))]
mod tests;
