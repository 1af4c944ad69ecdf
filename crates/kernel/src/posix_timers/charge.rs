//! The charge of timers against RLIMIT_SIGPENDING. The count belongs to the process and is under the lock of its
//! signals. So that threads which create and delete timers on many CPUs do not contend for that lock, a CPU charges
//! some timers in advance and keeps unused charges. The limit stays exact: a CPU that finds it reached first takes the
//! unused charges back.

use crate::machine::{Call, Machine};
use crate::trap::Out;
use crate::{Kernel, Personality, SetUpFailed};
use abi::Errno;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ids::{CpuId, ThreadIdx};
use signal::{ProcessSignals, Quota};
use sync::CachePadded;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Timers charged at a time.
const AHEAD: u32 = 32;
/// A CPU with more than this many gives [`AHEAD`] back.
const MOST: u32 = 2 * AHEAD;

/// Unused charges of each CPU.
#[derive(Debug)]
pub(super) struct Kept(Box<[CachePadded<AtomicU32>]>);

impl Kept {
    pub fn new(cpus: usize) -> Result<Kept, SetUpFailed> {
        let mut kept = Vec::new();
        kept.try_reserve_exact(cpus).map_err(|_| SetUpFailed)?;
        kept.resize_with(cpus, CachePadded::default);
        Ok(Kept(kept.into_boxed_slice()))
    }

    /// Takes charges, by compare-exchange: a carrier that has lost its CPU may be in here together with the one that
    /// has it.
    #[inline]
    fn take(&self, cpu: CpuId, count: u32) -> bool {
        self.0[cpu.index()].fetch_update(Relaxed, Relaxed, |kept| kept.checked_sub(count)).is_ok()
    }

    /// Gives some back; returns how many there are now.
    #[inline]
    fn put(&self, cpu: CpuId, count: u32) -> u32 {
        self.0[cpu.index()].fetch_add(count, Relaxed) + count
    }

    fn take_all(&self) -> u32 {
        self.0.iter().filter(|kept| kept.load(Relaxed) != 0).map(|kept| kept.swap(0, Relaxed)).sum()
    }
}

impl<M: Machine> Kernel<M> {
    /// A timer counts against the limit on pending signals for life.
    pub(super) fn charge_timer(&self, cpu: CpuId) -> Result<(), Errno> {
        if self.posix.kept.take(cpu, 1) {
            return Ok(());
        }
        let charged = self.charge_ahead(cpu, self.quota());
        charged.or_else(|_| {
            // The limit may have been raised from outside.
            self.posix.limit.forget();
            self.charge_ahead(cpu, self.quota())
        })
    }

    fn charge_ahead(&self, cpu: CpuId, quota: Quota) -> Result<(), Errno> {
        let charged = {
            let mut process = self.process.signals.lock();
            self.take_back(&mut process, quota);
            process.add_timers(AHEAD, quota)?
        };
        self.posix.kept.put(cpu, charged - 1);
        Ok(())
    }

    /// A timer is gone, and its signal was not queued.
    pub(super) fn uncharge_timer(&self, cpu: CpuId) {
        if self.posix.kept.put(cpu, 1) > MOST && self.posix.kept.take(cpu, AHEAD) {
            self.process.signals.lock().remove_timers(AHEAD);
        }
    }

    /// Takes back what CPUs have charged in advance, if the limit is reached. Called under the lock of the process's
    /// signals, before anything is compared with the limit.
    #[inline]
    pub(crate) fn take_back(&self, process: &mut ProcessSignals, quota: Quota) {
        if process.is_full(quota) {
            process.remove_timers(self.posix.kept.take_all());
        }
    }

    /// How many signals may be pending.
    pub(crate) fn quota(&self) -> Quota {
        if self.config.pending_unlimited {
            return Quota::UNLIMITED;
        }
        Quota { limit: self.posix.limit.get(|| M::Personality::grants(&self.m).pending_signals), elsewhere: 0 }
    }

    /// Passes a call about a limit to the host, and forgets what we knew of the limit.
    pub(crate) fn host_limit(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let out = self.foreign(cpu, t, call);
        self.posix.limit.forget();
        out
    }
}

/// The last known RLIMIT_SIGPENDING. The program's own changes are noticed at once, another process's (`prlimit(2)`)
/// only when the known limit is reached.
#[derive(Debug)]
pub(super) struct PendingLimit(AtomicU64);

/// No limit is known. (RLIM_INFINITY is the number above.)
const UNKNOWN: u64 = u64::MAX - 1;

impl Default for PendingLimit {
    fn default() -> PendingLimit {
        PendingLimit(AtomicU64::new(UNKNOWN))
    }
}

impl PendingLimit {
    fn get(&self, ask: impl FnOnce() -> u64) -> u64 {
        match self.0.load(Relaxed) {
            UNKNOWN => {
                let limit = ask();
                self.0.store(limit, Relaxed);
                limit
            }
            limit => limit,
        }
    }

    fn forget(&self) {
        self.0.store(UNKNOWN, Relaxed);
    }
}
