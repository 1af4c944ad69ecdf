//! The fair server: 50 ms in every second for fair threads that real-time threads starve
//! (`fair_server` since Linux 6.12).
//!
//! It is *deferred*: while fair threads get their share anyway, nothing happens. Fair threads run before real-time ones
//! only from the last moment at which the budget still fits before the deadline, until the budget is used up.

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

    /// Whether the server is armed.
    #[inline(always)]
    pub(crate) fn armed(&self) -> bool {
        self.armed
    }

    /// The server's deadline, an absolute time.
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Charges the server for `delta` nanoseconds that fair threads have run, because of it or not.
    #[inline]
    pub(crate) fn charge(&mut self, delta: u64, now: Nanos) {
        if self.armed {
            self.budget = self.budget.saturating_sub_unsigned(delta);
            if self.budget <= 0 {
                self.begin_period(now);
            }
        }
    }

    /// Updates the server from the clock and the runnable threads.
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

    /// When the server must act next.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 in every 1,000 nanoseconds.
    fn server() -> FairServer {
        let config = Config { server_runtime: Nanos(50), server_period: Nanos(1_000), ..Config::default() };
        FairServer::new(&config)
    }

    fn looks(s: &FairServer) -> (bool, bool, Option<Nanos>) {
        (s.armed(), s.active(), s.next_event())
    }

    #[test]
    fn it_watches_only_while_both_kinds_are_there() {
        let mut s = server();
        s.update(Nanos(100), true, false);
        assert_eq!(looks(&s), (false, false, None), "nobody to starve fair threads");
        s.update(Nanos(100), false, true);
        assert_eq!(looks(&s), (false, false, None), "nobody to be starved");
        s.update(Nanos(100), true, true);
        assert_eq!((looks(&s), s.deadline()), ((true, false, Some(Nanos(1_050))), 1_100));
        s.update(Nanos(300), true, false);
        assert_eq!(looks(&s), (true, false, Some(Nanos(1_050))), "its period goes on without real-time threads");
        s.update(Nanos(400), false, true);
        assert_eq!(looks(&s), (false, false, None));
    }

    #[test]
    fn it_acts_at_the_last_moment_until_its_budget_is_used_up() {
        let mut s = server();
        s.update(Nanos(100), true, true);
        s.update(Nanos(1_049), true, true);
        assert!(!s.active());
        s.update(Nanos(1_050), true, false);
        assert!(!s.active(), "fair threads run anyhow");
        s.update(Nanos(1_050), true, true);
        assert!(s.active());
        s.charge(49, Nanos(1_099));
        s.update(Nanos(1_099), true, false);
        assert_eq!(looks(&s), (true, true, Some(Nanos(1_099))));
        s.charge(1, Nanos(1_100));
        assert_eq!((looks(&s), s.deadline()), ((true, false, Some(Nanos(2_050))), 2_100));
        s.update(Nanos(2_050), true, true);
        s.update(Nanos(2_060), false, true);
        assert_eq!(looks(&s), (false, false, None));
    }

    /// CPU time that fair threads get without the server counts, and delays it.
    #[test]
    fn it_is_deferred_by_what_fair_threads_get() {
        let mut s = server();
        s.charge(40, Nanos(50));
        s.update(Nanos(100), true, true);
        assert_eq!(s.next_event(), Some(Nanos(1_050)), "before it watched nothing counts");
        s.charge(30, Nanos(500));
        assert_eq!(s.next_event(), Some(Nanos(1_080)));
        s.charge(u64::MAX, Nanos(600));
        assert_eq!(s.next_event(), Some(Nanos(1_550)), "a new period");
    }

    #[test]
    fn without_a_budget_there_is_none_and_a_period_is_no_shorter_than_its_budget() {
        for config in [
            Config { server_runtime: Nanos::ZERO, ..Config::default() },
            Config { rt_throttle: false, ..Config::default() },
        ] {
            let mut s = FairServer::new(&config);
            s.update(Nanos(100), true, true);
            assert_eq!(looks(&s), (false, false, None));
        }
        let config = Config { server_runtime: Nanos(70), server_period: Nanos(60), ..Config::default() };
        let mut s = FairServer::new(&config);
        s.update(Nanos(100), true, true);
        assert_eq!(s.deadline(), 170);
        assert!(s.active());
    }
}
