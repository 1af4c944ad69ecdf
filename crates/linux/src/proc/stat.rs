//! The host's `stat` of the process, which many threads look at and few moments change.

use super::FACTS_LAST;
use crate::{Host, Linux};
use ids::Nanos;
use kernel::machine::Clock;
use procfs::text::stat::Stat;
use procfs::text::template::{Template, WORDS};
use sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::{Lock, SeqCount};

/// The line, to be read without a write.
#[derive(Debug)]
pub(super) struct KnownStat {
    /// Around all that follows.
    seq: SeqCount,
    /// When it was read, by the scheduler's clock; 0: never.
    at: AtomicU64,
    /// The offset of CLOCK_BOOTTIME from that clock.
    boot: AtomicU64,
    words: [AtomicU64; WORDS],
    writer: Lock<()>,
}

/// The process's line at some moment.
#[derive(Clone, Copy)]
pub(super) struct HostStat {
    /// The offset of CLOCK_BOOTTIME from the scheduler's clock.
    pub boot: Nanos,
    pub line: Template,
}

impl HostStat {
    pub(super) const EMPTY: HostStat = HostStat { boot: Nanos::ZERO, line: Template::EMPTY };
}

impl Default for KnownStat {
    fn default() -> KnownStat {
        let words = core::array::from_fn(|_| AtomicU64::new(0));
        let (at, boot) = Default::default();
        KnownStat { seq: SeqCount::default(), at, boot, words, writer: Lock::new(()) }
    }
}

impl KnownStat {
    /// The line, if it was read after `since`.
    #[inline]
    fn get(&self, since: Nanos, to: &mut HostStat) -> bool {
        let begun = self.seq.begin();
        if self.at.load(Relaxed) <= since.0 {
            return false;
        }
        to.line.load(|i| self.words[i].load(Relaxed));
        to.boot = Nanos(self.boot.load(Relaxed));
        self.seq.holds(begun)
    }

    fn set(&self, at: Nanos, stat: &HostStat) {
        let _one_writer = self.writer.lock();
        let _writing = self.seq.write();
        self.at.store(at.0, Relaxed);
        self.boot.store(stat.boot.0, Relaxed);
        stat.line.store(|i, word| self.words[i].store(word, Relaxed));
    }
}

impl<M: Host> Linux<'_, M> {
    /// The host's line of the process, at most [`FACTS_LAST`] old: its memory and its ancestors. Since when it may be.
    #[inline]
    pub(super) fn host_stat(&self, to: &mut HostStat) -> Nanos {
        let now = self.m.now();
        let since = Nanos(now.0.saturating_sub(FACTS_LAST.0));
        if !self.state().proc.stat.get(since, to) {
            *to = self.ask_for_stat(now);
        }
        since
    }

    #[cold]
    #[inline(never)]
    fn ask_for_stat(&self, now: Nanos) -> HostStat {
        let line = self.read_host_file(c"/proc/self/stat");
        let line = Stat::parse(&line).unwrap_or(Stat::new(self.config().pid.0, b'R'));
        let boot = self.m.clock(Clock::Boottime).since(now);
        let stat = HostStat { boot, line: Template::new(&line) };
        self.state().proc.stat.set(now, &stat);
        stat
    }
}
