//! The fair server: 50 ms in every second for fair threads that real-time threads starve
//! (`fair_server` since Linux 6.12).
//!
//! It is *deferred*: nothing happens while fair threads get their share anyhow. Only at
//! the last moment at which the budget still fits before the deadline do fair threads run
//! before real-time ones, until the budget is used up.

use crate::config::Config;
use ids::Nanos;

/// The server of one CPU.
#[derive(Clone, Debug)]
pub(crate) struct FairServer {
    runtime: u64,
    period: u64,
    budget: i64,
    deadline: u64,
    armed: bool,
    active: bool,
}

impl FairServer {
    pub(crate) fn new(config: &Config) -> FairServer {
        FairServer {
            runtime: if config.rt_throttle { config.server_runtime.0 } else { 0 },
            period: config.server_period.0.max(config.server_runtime.0),
            budget: 0,
            deadline: 0,
            armed: false,
            active: false,
        }
    }

    /// Whether fair threads run before real-time ones now.
    #[inline(always)]
    pub(crate) fn active(&self) -> bool {
        self.active
    }

    /// Whether it watches over fair threads.
    #[inline(always)]
    pub(crate) fn armed(&self) -> bool {
        self.armed
    }

    /// Its deadline, an absolute time.
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Fair threads have run for `delta` nanoseconds, whether by this server or not.
    #[inline]
    pub(crate) fn charge(&mut self, delta: u64, now: Nanos) {
        if self.armed {
            self.budget = self.budget.saturating_sub_unsigned(delta);
            if self.budget <= 0 {
                self.begin_period(now);
            }
        }
    }

    /// Looks at the clock and at who is runnable.
    #[inline]
    pub(crate) fn update(&mut self, now: Nanos, fair: bool, rt: bool) {
        if self.runtime == 0 || !(rt || self.armed) {
            return;
        }
        if !fair {
            self.armed = false;
            self.active = false;
            return;
        }
        if !self.armed {
            self.armed = true;
            self.begin_period(now);
        }
        self.active = self.active || (rt && now.0 >= self.zero_laxity());
    }

    /// When the server will have to act.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.armed.then(|| Nanos(self.zero_laxity()))
    }

    fn zero_laxity(&self) -> u64 {
        self.deadline.saturating_sub(self.budget.max(0) as u64)
    }

    fn begin_period(&mut self, now: Nanos) {
        self.active = false;
        self.budget = self.runtime as i64;
        self.deadline = now.0.saturating_add(self.period);
    }
}
