//! The host's `stat` of the process, at most [`FACTS_LAST`] old: for its memory and its ancestors.

use super::FACTS_LAST;
use super::known::Known;
use crate::{Host, Linux};
use ids::Nanos;
use kernel::machine::Clock;
use procfs::text::stat::{NUMBERS, Stat};
use sync::atomic::Ordering::Relaxed;

/// The numbers of the line, and the offset of CLOCK_BOOTTIME from the scheduler's clock.
pub(super) type KnownStat = Known<{ NUMBERS + 1 }>;

/// The process's line at one moment.
pub(super) struct HostStat {
    /// The offset of CLOCK_BOOTTIME from the scheduler's clock.
    pub boot: Nanos,
    pub line: Stat,
    /// The line was read after this time.
    pub since: Nanos,
}

impl<M: Host> Linux<'_, M> {
    pub(super) fn host_stat(&self) -> HostStat {
        let (now, changes) = (self.now(), self.state().proc.changes.load(Relaxed));
        let since = Nanos(now.0.saturating_sub(FACTS_LAST.0));
        let words = self.state().proc.stat.get(since, changes).unwrap_or_else(|| self.ask_for_stat(now, changes));
        let mut line = Stat::new(self.config().pid.0, b'R');
        for (to, word) in line.numbers.iter_mut().zip(words) {
            *to = word as i64;
        }
        HostStat { boot: Nanos(words[NUMBERS]), line, since }
    }

    #[cold]
    #[inline(never)]
    fn ask_for_stat(&self, now: Nanos, changes: u64) -> [u64; NUMBERS + 1] {
        let line = self.read_host_file(c"/proc/self/stat");
        let line = Stat::parse(&line).unwrap_or(Stat::new(self.config().pid.0, b'R'));
        let mut words = [0; NUMBERS + 1];
        for (to, number) in words.iter_mut().zip(line.numbers) {
            *to = number as u64;
        }
        words[NUMBERS] = self.clock(Clock::Boottime).since(now).0;
        self.state().proc.stat.set(now, changes, &words);
        words
    }
}
